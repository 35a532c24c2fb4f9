"""People and keys, as a page asks for them: judged by the node, in the name of the person."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import websockets

from albireo.client import connect
from albireo.face.web import people
from albireo.runtime import Keys
from albireo.runtime.link.link import KNOCKS_MAX, Link
from tests.parts.page_plant import add_person
from tests.parts.waiting import PATIENCE_S
from tests.parts.web import PASSWORD, Served, served

pytestmark = pytest.mark.slow


def with_people(at: Served) -> None:
    with connect(at.data, timeout_s=PATIENCE_S) as client:
        add_person(client, "otto", "admin")
        add_person(client, "anna", "operate")


def test_a_name_with_a_line_break_at_its_end_is_none(tmp_path: Path) -> None:
    """It would be on record for ever, and nobody could log in or be ended by it."""

    async def story() -> None:
        async with served(tmp_path) as at:
            await asyncio.to_thread(with_people, at)
            async with at.page(await token_of(at, "otto")) as page:
                told = await page.asked(1, "add_person", name="otto\n", password=PASSWORD)
            assert told["refusal"]["code"] == "malformed", told
            assert await asyncio.to_thread(names, at) == {"admin", "otto", "anna"}

    asyncio.run(story())


def names(at: Served) -> set[str]:
    with connect(at.data, timeout_s=PATIENCE_S) as client:
        return {one.name for one in client.people()}


async def token_of(at: Served, name: str) -> str:
    _, _, body = await asyncio.to_thread(at.request, "POST", "/login", {"name": name, "password": PASSWORD})
    token: str = json.loads(body)["token"]
    return token


def test_nothing_is_hashed_for_who_is_no_admin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with served(tmp_path) as at:
            await asyncio.to_thread(with_people, at)
            token = await token_of(at, "anna")

            def never(_: str) -> str:
                raise AssertionError("a password is hashed for an operator")

            monkeypatch.setattr(people, "password_words", never)
            asked: list[tuple[str, dict[str, Any]]] = [
                ("add_person", {"name": "bert", "password": PASSWORD}),
                ("set_password", {"name": "otto", "password": PASSWORD}),
                ("enable_person", {"name": "otto", "is_enabled": False}),
                ("grant", {"principal": "person:anna", "role": "admin"}),
                ("revoke", {"principal": "person:otto"}),
                ("people", {}),
                ("access", {}),
                ("knocks", {}),
                ("trust", {"principal": "x", "public": "0" * 64, "role": "view"}),
            ]
            async with at.page(token) as page:
                for number, (method, arguments) in enumerate(asked):
                    told = await page.asked(number, method, **arguments)
                    assert told["refusal"]["code"] in ("access", "malformed"), (method, told)
                    assert PASSWORD not in json.dumps(told)
            assert await asyncio.to_thread(names, at) == {"admin", "otto", "anna"}

    asyncio.run(story())


def test_a_key_is_trusted_only_if_it_knocked_and_under_a_name_of_its_own(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path / "node", with_keys=True) as at:
            assert at.keys is not None
            await asyncio.to_thread(with_people, at)
            other = Keys.new(tmp_path / "other", "mes-1")
            at.keys.trust("mes-1", other.public)
            async with at.page(await token_of(at, "otto")) as page:
                tried = [("mes-2", "1" * 64, "knocked"), ("root/north", "1" * 64, "regex"), ("mes-2", "1", "regex")]
                for number, (name, public, why) in enumerate(tried):
                    told = await page.asked(number, "trust", principal=name, public=public, role="operate")
                    assert why in told["refusal"]["cause"], told
            at.keys.refresh()
            assert at.keys.trusted == {other.public}

    asyncio.run(story())


def test_a_link_remembers_the_latest_keys_that_knocked(tmp_path: Path) -> None:
    link = object.__new__(Link)
    for number in range(KNOCKS_MAX + 3):
        link.knocked(f"{number:064x}", "10.0.0.7", number)
    link.knocked(f"{5:064x}", "10.0.0.8", 99)
    assert len(link.knocks) == KNOCKS_MAX and f"{2:064x}" not in link.knocks
    last = list(link.knocks.values())[-1]
    assert (last.public, last.address, last.at_ns, last.times) == (f"{5:064x}", "10.0.0.8", 99, 2)


def test_a_page_that_comes_back_is_told_who_ended_its_login_and_a_forger_nothing(tmp_path: Path) -> None:
    reason = "ü" * 200

    async def story() -> None:
        async with served(tmp_path) as at:
            await asyncio.to_thread(with_people, at)
            token = await token_of(at, "anna")

            def end() -> None:
                with connect(at.data, timeout_s=PATIENCE_S) as client:
                    session = next(one for one in client.sessions() if one.principal == "person:anna")
                    client.speaking_for("otto").end_session(session, reason)

            await asyncio.to_thread(end)
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    async with at.page(token) as page:
                        try:
                            await page.until(lambda one: one.hello)
                        except websockets.ConnectionClosed as closed:
                            assert closed.rcvd is not None and closed.rcvd.code == 4001
                            assert closed.rcvd.reason.startswith("person:otto has ended this login: üü")
                            break
                        assert page.hello["person"] is None, "the journal does not have it yet"
            async with at.page(token[:-1] + "x") as page:
                await page.until(lambda one: one.hello)
                assert page.hello["person"] is None

    asyncio.run(story())
