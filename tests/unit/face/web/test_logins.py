"""Logins at a real CORE: passwords, one-time passwords, locks, and logins that somebody ends."""

import asyncio
import contextlib
import json
import traceback
from pathlib import Path
from typing import Any

import pytest
import websockets

from albireo.client import NodeRefused, aconnect
from albireo.client.credentials import new_token, password_words, token_name
from albireo.codec.questions.kind import Nothing
from albireo.codec.questions.people import ACCESS_LIST
from albireo.face.web import logins, pages
from albireo.face.web.logins import ADDRESSES_MAX, FAILURES_MAX, FAILURES_OF_ADDRESS_MAX, LOCK_NS, LoginFailures
from albireo.model.instant import SECOND, Instant
from albireo.node.core.actor import create
from albireo.runtime import running
from albireo.runtime.clock import boot_ns, wall_ns
from tests.parts.waiting import PATIENCE_S
from tests.parts.web import CORE, PASSWORD, Served, served


async def log_in(at: Served, **asked: str) -> tuple[int, dict[str, Any]]:
    status, _, body = await asyncio.to_thread(at.request, "POST", "/login", asked)
    return status, json.loads(body)


async def add(at: Served, name: str, role: str = "") -> None:
    async with await aconnect(at.data) as client:
        await client.add_person(name, await asyncio.to_thread(password_words, PASSWORD))
        if role:
            await client.ask("access_grant", principal=f"person:{name}", role=role, node="", user="test")


def test_a_password_for_one_login_is_changed_at_that_login(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path) as at:
            first = at.password
            assert (await log_in(at, name="admin", password=first))[0] == 409
            assert (await log_in(at, name="admin", password=first, new_password=first))[0] == 409
            assert (await log_in(at, name="admin", password=first, new_password="short"))[0] == 422
            status, told = await log_in(at, name="admin", password=first, new_password=PASSWORD)
            assert status == 200 and told["person"]["roles"] == {"": "admin"}
            assert (await log_in(at, name="admin", password=first))[0] == 401
            assert (await log_in(at, name="admin", password=PASSWORD))[0] == 200

    asyncio.run(story())


@pytest.mark.parametrize("name", ["anna", "nobody", "", "x" * 4_000, "\ud7ff", "a\nb", "person:anna", "local:0"])
def test_a_wrong_name_or_password_is_one_answer(tmp_path: Path, name: str) -> None:
    async def story() -> None:
        async with served(tmp_path) as at:
            await add(at, "anna")
            status, told = await log_in(at, name=name, password="wrong password")
            assert status in (401, 413)
            if status == 401:
                assert told["cause"] == "name or password is wrong"

    asyncio.run(story())


def test_wrong_passwords_lock_their_name_at_their_address_for_a_while(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path) as at:
            await add(at, "anna")
            for _ in range(FAILURES_MAX):
                assert (await log_in(at, name="anna", password="wrong password"))[0] == 401
            status, told = await log_in(at, name="anna", password=PASSWORD)
            assert status == 429 and "try again in" in told["remedy"]
            assert (await log_in(at, name="admin", password=at.password))[0] == 409, "others log in"

    asyncio.run(story())


def test_failures_are_forgotten_with_time_and_bounded_in_number() -> None:
    failures, now = LoginFailures(), Instant(1)
    for _ in range(FAILURES_MAX):
        assert failures.wait_s("anna", "10.0.0.1", now) == 0
        failures.add("anna", "10.0.0.1", now)
    assert failures.wait_s("anna", "10.0.0.1", now) == LOCK_NS / SECOND
    assert failures.wait_s("anna", "10.0.0.2", now) == 0
    assert failures.wait_s("ben", "10.0.0.1", now) == 0
    assert failures.wait_s("anna", "10.0.0.1", Instant(now + LOCK_NS)) == 0
    for number in range(FAILURES_OF_ADDRESS_MAX):
        failures.add(f"guess{number}", "10.0.0.9", now)
    assert failures.wait_s("anna", "10.0.0.9", now) > 0
    for number in range(ADDRESSES_MAX + 10):
        failures.add("anna", f"address {number}", now)
    assert len(failures._of) <= ADDRESSES_MAX


def test_many_logins_at_once_are_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "WAITING_MAX", 1)

    async def story() -> None:
        async with served(tmp_path) as at:
            told = await asyncio.gather(*(log_in(at, name=f"n{one}", password="wrong password") for one in range(12)))
            assert {status for status, _ in told} == {401, 429}

    asyncio.run(story())


def test_a_login_that_somebody_ends_ends_its_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "LOOK_NS", SECOND // 10)

    async def story() -> None:
        async with served(tmp_path) as at:
            token = await at.token()
            async with at.page(token) as page, await aconnect(at.data) as client:
                await page.until(lambda one: one.hello)
                await client.end_session(page.hello["person"]["session_id"], "shift is over")
                with pytest.raises(websockets.ConnectionClosed):
                    async with asyncio.timeout(PATIENCE_S):
                        await page.until(lambda _: False)
                assert page.line.close_code == pages.OVER
            async with at.page(token) as page:  # It is told why once more, and begins anew without the token.
                with pytest.raises(websockets.ConnectionClosed, match="shift is over"):
                    await page.until(lambda one: one.hello)
                assert page.line.close_code == pages.OVER

    asyncio.run(story())


def test_an_order_after_the_end_of_its_login_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever ends a login need not wait until its pages have noticed."""
    monkeypatch.setattr(pages, "LOOK_NS", 3_600 * SECOND)

    async def story() -> None:
        async with served(tmp_path) as at, await aconnect(at.data) as client, at.page(await at.token(), ()) as page:
            await page.until(lambda one: one.hello)
            await client.end_session(page.hello["person"]["session_id"], "shift is over")
            with pytest.raises(websockets.ConnectionClosed):
                await page.asked(1, "grant", principal="person:eve", role="admin")
            assert page.line.close_code == pages.OVER
            rows = await client.ask_kind(ACCESS_LIST, Nothing())
            assert "person:eve" not in {one.principal for one in rows}

    asyncio.run(story())


def test_a_first_password_is_good_until_it_is_used_however_often_the_face_begins(tmp_path: Path) -> None:
    async def story() -> None:
        file = tmp_path / "web" / "page.first-login"
        async with running(create(CORE), tmp_path), await aconnect(tmp_path, timeout_s=PATIENCE_S) as client:
            one = logins.Logins(client, client, boot_ns, wall_ns)
            assert await one.make_first_admin(file, "http://here")
            text = file.read_text()
            assert file.stat().st_mode & 0o777 == 0o600
            assert await one.make_first_admin(file, "http://here") and file.read_text() == text
            file.write_text(text[:-3])
            assert not await one.make_first_admin(file, "http://here") and not file.exists()
            file.write_text(text)
            await client.change_person("admin", password=await asyncio.to_thread(password_words, PASSWORD))
            assert not await one.make_first_admin(file, "http://here") and not file.exists()
            file.parent.rmdir()
            file.parent.write_text("no room here")
            assert not await one.make_first_admin(file, "http://here"), "nothing is written where somebody is on record"

    asyncio.run(story())


def test_a_face_whose_session_is_ended_begins_another_life(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path) as at, await aconnect(at.data) as client:
            (own,) = [one.session_id for one in await client.sessions() if not one.principal.startswith("person")]
            with contextlib.suppress(NodeRefused):  # Of ours, too.
                await client.end_session(own, "who is that?")
            await asyncio.sleep(PATIENCE_S)  # The end of the face cancels this; nothing else tells of it.

    with pytest.raises(BaseExceptionGroup) as failed:
        asyncio.run(story())
    assert "SessionOver" in "".join(traceback.format_exception(failed.value))


def test_pages_that_go_as_their_login_ends_do_not_end_the_face(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "LOOK_NS", SECOND // 100)

    async def story() -> None:
        async with served(tmp_path) as at, contextlib.AsyncExitStack() as stack, await aconnect(at.data) as client:
            token = await at.token()
            ends = [await stack.enter_async_context(at.page(token, ())) for _ in range(50)]
            for one in ends:
                await one.until(lambda page: page.hello)
            await client.end_session(ends[0].hello["person"]["session_id"], "shift is over")
            for one in ends:
                one.line.transport.abort()
            async with at.page() as page:
                await page.until(lambda one: one.alive and one.views)

    asyncio.run(story())


def test_logging_out_ends_the_login(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path) as at:
            token = await at.token()
            for shown in (token, token, "nonsense"):
                status, _, _ = await asyncio.to_thread(at.request, "POST", "/logout", {"token": shown})
                assert status == 200
            async with at.page(token) as page:  # It is turned away as soon as the journal has the reason.
                try:
                    await page.until(lambda one: one.hello)
                    assert page.hello.get("person") is None
                except websockets.ConnectionClosed:
                    assert page.line.close_code == pages.OVER

    asyncio.run(story())


def test_roles_that_change_are_told_and_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "LOOK_NS", SECOND // 10)
    monkeypatch.setattr(logins, "ACCESS_NS", SECOND // 10)

    async def story() -> None:
        async with served(tmp_path) as at:
            await add(at, "anna")
            _, told = await log_in(at, name="anna", password=PASSWORD)
            async with at.page(told["token"]) as page:
                await page.until(lambda one: one.hello)
                assert page.hello["person"]["roles"] == {"": "view"}
                refused = await page.asked(1, "force", item="root:x", value=1, reason="r", for_s=9)
                assert refused["refusal"]["code"] == "access"
                async with await aconnect(at.data) as client:
                    await client.ask("access_grant", principal="person:anna", role="engineer", node="", user="test")
                await page.until(lambda one: one.hello["person"]["roles"] == {"": "engineer"})
                refused = await page.asked(2, "force", item="root:x", value=1, reason="r", for_s=9)
                assert refused["refusal"]["code"] == "unknown_item"

    asyncio.run(story())


def test_a_token_of_a_program_speaks_for_its_person_and_no_more(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path) as at:
            await add(at, "anna", "engineer")
            token, over = new_token("anna"), new_token("anna")
            assert token_name(token.text) == "anna"
            async with await aconnect(at.data) as client:
                await client.add_token("anna", token.digest, "view", wall_ns() + 60 * SECOND)
                with pytest.raises(NodeRefused):
                    await client.add_token("anna", over.digest, "admin", wall_ns() - SECOND)
            async with at.page(token.text) as page:
                assert (await page.asked(1, "status"))["result"]["node"] == "root"
                assert page.hello["person"]["name"].startswith("anna#")
                refused = await page.asked(2, "force", item="root:x", value=1, reason="r", for_s=9)
                assert refused["refusal"]["code"] == "access"
            for none in (over.text, new_token("anna").text, new_token("nobody").text, token.text[:-1]):
                async with at.page(none) as page:
                    await page.until(lambda one: one.hello)
                    assert page.hello.get("person") is None

    asyncio.run(story())


def test_who_is_disabled_does_not_log_in(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path) as at:
            await add(at, "anna")
            async with await aconnect(at.data) as client:
                await client.change_person("anna", is_enabled=False)
            assert (await log_in(at, name="anna", password=PASSWORD))[0] == 401

    asyncio.run(story())


@pytest.mark.parametrize("end", ["", "x", "0" * 64])
def test_a_token_with_another_signature_is_nobodys(tmp_path: Path, end: str) -> None:
    async def story() -> None:
        async with served(tmp_path) as at:
            token = await at.token()
            name, _, session = token.rpartition(".")[0].rpartition(".")
            forged = [
                f"{name}.{session}.{end}",
                f"{name}.{int(session) + 1}.{token.rpartition('.')[2]}",
                f"anna.{session}.{end}",
            ]
            for one in forged:
                async with at.page(one) as page:
                    await page.until(lambda shown: shown.hello)
                    assert page.hello.get("person") is None, one

    asyncio.run(story())
