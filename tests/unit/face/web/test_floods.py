"""Floods at a page, over real sockets: each is bounded and refused by name, and a page that is open goes on."""

import asyncio
import contextlib
import json
from collections import Counter
from pathlib import Path

import pytest
import websockets

from albireo.face.web import logins, site
from tests.parts.waiting import PATIENCE_S
from tests.parts.web import PageEnd, Served, served

pytestmark = pytest.mark.slow

LOGINS = 2_000
AT_ONCE = 50
SOCKETS = 1_000
LOOKERS, QUESTIONS = 40, 20


async def logins_of(at: Served, count: int) -> Counter[int]:
    """Statuses of so many logins with a wrong password, one behind the other on a connection."""
    body = json.dumps({"name": "admin", "password": "wrong"}).encode()
    head = (
        f"POST /login HTTP/1.1\r\nHost: 127.0.0.1:{at.port}\r\nOrigin: {at.url}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    found: Counter[int] = Counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
    for _ in range(count):
        writer.write(head.encode() + body)
        told = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        found[int(told.split(" ", 2)[1])] += 1
        await reader.readexactly(int(told.partition("content-length: ")[2].partition("\r\n")[0]))
    writer.close()
    return found


def test_thousands_of_logins_cost_few_passwords_and_no_page(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path) as at, at.page(await at.token()) as page:
            await page.until(lambda one: one.alive)
            told: Counter[int] = sum(
                await asyncio.gather(*(logins_of(at, LOGINS // AT_ONCE) for _ in range(AT_ONCE))), Counter()
            )
            assert told.total() == LOGINS and told.keys() == {401, 429}
            assert told[401] <= logins.FAILURES_MAX + logins.WAITING_MAX, "hashed at most"
            assert (await page.asked(1, "status"))["result"]["node"] == "root"

    asyncio.run(asyncio.wait_for(story(), 2 * PATIENCE_S))


def test_a_thousand_sockets_of_one_address_get_as_many_pages_as_there_may_be(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path) as at, at.page(await at.token()) as page:
            await page.until(lambda one: one.alive)
            opened = await asyncio.gather(*(closed_with(at) for _ in range(SOCKETS)))
            told = Counter(code for code, _ in opened)
            assert told.keys() <= {0, site.TOO_MANY, 503} and told[site.TOO_MANY] > 0
            assert told[0] <= site.LINES_OF_ONE_MAX - 1
            assert (await page.asked(1, "status"))["result"]["node"] == "root"
            await asyncio.gather(*(line.close() for _, line in opened if line is not None))

    async def closed_with(at: Served) -> tuple[int, websockets.ClientConnection | None]:
        """Code with which the face closed a socket, or refused it; 0: it is open, and has its first word."""
        try:
            line = await at.line(open_timeout=PATIENCE_S, ping_interval=None)
        except websockets.InvalidStatus as refused:
            return refused.response.status_code, None
        except websockets.InvalidMessage:  # One of many at once is closed without a word.
            return 503, None
        try:
            await line.send(json.dumps({"kind": "begin"}))
            await asyncio.wait_for(line.recv(), PATIENCE_S)
        except websockets.ConnectionClosed:
            assert line.close_code is not None
            return line.close_code, None
        return 0, line

    asyncio.run(asyncio.wait_for(story(), 2 * PATIENCE_S))


def test_a_token_of_another_node_is_nobodys(tmp_path: Path) -> None:
    """Both have an admin, and a login of the same number; each signs with a key of its own."""

    async def story() -> None:
        homes = [tmp_path / one for one in ("one", "other")]
        for home in homes:
            home.mkdir()
        async with served(homes[0]) as one, served(homes[1]) as other:
            theirs, token = await other.token(), await one.token()
            for shown, name in ((theirs, None), (token, "admin")):
                async with one.page(shown) as page:
                    await page.until(lambda it: it.hello)
                    person = page.hello.get("person")
                    assert (person and person["name"]) == name

    asyncio.run(story())


def test_people_are_answered_before_the_many_who_only_look(tmp_path: Path) -> None:
    async def story() -> None:
        answered = 0

        async def looks(page: PageEnd) -> None:
            nonlocal answered
            for number in range(QUESTIONS):
                await page.say("asked", id=number, method="cases", arguments={})
            for number in range(QUESTIONS):
                await page.until(lambda one, number=number: number in one.answers)  # type: ignore[misc]  # Bound.
                answered += 1

        async with served(tmp_path) as at, contextlib.AsyncExitStack() as stack, asyncio.TaskGroup() as looking:
            person = await stack.enter_async_context(at.page(await at.token()))
            await person.until(lambda one: one.hello)
            for _ in range(LOOKERS):
                looking.create_task(looks(await stack.enter_async_context(at.page())))
            await asyncio.sleep(0)
            assert (await person.asked(1, "cases"))["result"] == []
            assert answered < LOOKERS * QUESTIONS // 2

    asyncio.run(story())
