"""What a device refuses, by whatever code, costs that part only; what it says that is no answer is told."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator

import pytest

from albireo.field.modbus.answers import LATE, untaken
from albireo.field.modbus.reader import BUSY_PER_POLL_MAX
from albireo.field.modbus.wire import TAKEN
from albireo.plant.unruly.device import COUNTER, Manner, UnitAsked, UnrulyLine, exception, frame
from albireo.plant.unruly.manners import (
    as_other_unit,
    half_only,
    honest,
    lacks,
    late,
    noise,
    reads_at_most,
    refuses,
    silent,
    with_other_number,
)
from tests.parts.steady import run_steadily
from tests.parts.unruly import TIMEOUT_S, UnrulySite

pytestmark = pytest.mark.slow

SIXTY = tuple(range(60))
CODES = [1, 2, 3, 4, 5, 6, 7, 8, 9, 0x77]


@pytest.mark.parametrize("code", CODES)
def test_an_address_that_is_refused_by_any_code_blinds_itself_only(code: int) -> None:
    async def story() -> None:
        async with UnrulySite({1: lacks(37, code=code)}, {1: (*SIXTY, COUNTER)}) as site:
            for _ in range(4):
                await site.poll()
            for _ in range(20):
                before = len(site.device.asked)
                shown = await site.poll()
                assert {place[1] for place, value in shown.items() if value is None} == {37}
                assert len(site.device.asked) - before <= 4, "no more than one vain try in a poll"
            site.device.manners[1] = honest
            site.pass_s(60.0)
            await site.poll()
            assert None not in (await site.poll()).values()

    run_steadily(story())


def gives_at_most(count: int) -> Manner:
    """A longer answer is cut off, and looks whole."""

    async def manner(asked: UnitAsked, line: UnrulyLine) -> None:
        body = line.device.answer(asked)
        line.send(frame(asked, bytes([body[0], min(body[1], 2 * count)]) + body[2 : 2 + 2 * count]))

    return manner


def silent_above(count: int) -> Manner:
    async def manner(asked: UnitAsked, line: UnrulyLine) -> None:
        if asked.count <= count:
            await honest(asked, line)

    return manner


@pytest.mark.parametrize(("code", "most"), [(1, 20), (2, 20), (4, 1), (4, 20), (6, 20), (0x77, 20)])
def test_a_limit_of_the_count_is_learnt_whatever_code_tells_it(code: int, most: int) -> None:
    run_steadily(_learns_limit(reads_at_most(most, code)))


@pytest.mark.parametrize("manner", [gives_at_most(1), gives_at_most(20), silent_above(20)])
def test_a_limit_of_the_count_is_learnt_from_answers_that_are_cut_off_and_from_silence(manner: Manner) -> None:
    run_steadily(_learns_limit(manner))


async def _learns_limit(manner: Manner) -> None:
    async with UnrulySite({1: manner}, {1: (*SIXTY, COUNTER)}) as site:
        for _ in range(20):
            await site.poll()
        for _ in range(10):
            assert None not in (await site.poll()).values()
        assert site.losses <= 8, "one block that is silent is a device that is away, until it answers a shorter one"


def busy_at(turns: Iterator[bool], code: int) -> Manner:
    async def manner(asked: UnitAsked, line: UnrulyLine) -> None:
        line.send(frame(asked, exception(asked, code) if next(turns) else line.device.answer(asked)))

    return manner


def every_third() -> Iterator[bool]:
    while True:
        yield from (True, True, False)


@pytest.mark.parametrize("code", [5, 6])
def test_a_device_that_is_busy_now_and_then_is_asked_again_within_the_poll(code: int) -> None:
    async def story() -> None:
        async with UnrulySite({1: busy_at(every_third(), code)}) as site:
            for _ in range(10):
                assert None not in (await site.poll()).values()

    run_steadily(story())


@pytest.mark.parametrize("code", [4, 6])
def test_a_device_that_refuses_everything_for_a_while_is_whole_two_polls_later(code: int) -> None:
    async def story() -> None:
        async with UnrulySite({1: honest}, {1: SIXTY}) as site:
            await site.poll()
            site.device.manners[1] = refuses(code)
            for _ in range(3):
                assert set((await site.poll(0.1)).values()) == {None}
            before = len(site.device.asked)
            for _ in range(10):
                await site.poll(0.1)
            assert len(site.device.asked) - before <= 10, "one vain try in a poll"
            site.device.manners[1] = honest
            site.pass_s(5.0)
            await site.poll(0.1)
            assert None not in (await site.poll(0.1)).values()

    run_steadily(story())


def test_a_device_that_is_always_busy_is_asked_a_bounded_number_of_times() -> None:
    async def story() -> None:
        async with UnrulySite({1: refuses(6)}, {1: (0,)}) as site:
            await site.poll()
            assert len(site.device.asked) == 1 + BUSY_PER_POLL_MAX

    run_steadily(story())


# Answers that are none.

HEAD = b"\0\7\0\0\0\5\1\3\2\0\7"
"""The answer to request 7 of unit 1."""


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (HEAD, ""),
        (b"\0\0" + HEAD[2:], ""),  # Some devices have no numbers.
        (HEAD[:5], "not Modbus"),
        (HEAD[:-1], "part of an answer: 4 bytes, and its header says 5"),
        (b"\0\6" + HEAD[2:], LATE),
        (b"\0\6" + HEAD[2:] + HEAD, ""),
        (b"\0\x08" + HEAD[2:], "other transaction numbers"),
        (HEAD[:6] + b"\0" + HEAD[7:], "it answers as unit 0, and unit 1 was asked"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "not Modbus: it says b'HTTP/1.1 400 Bad Request'"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "not Modbus: it says b'SSH-2.0-OpenSSH_9.2"),
        (b"\xff" * 300, "not Modbus"),
    ],
)
def test_bytes_that_are_no_answer_are_told_as_what_they_are(data: bytes, said: str) -> None:
    assert said in untaken(data, 1, 7)
    assert bool(said) == bool(untaken(data, 1, 7))


@pytest.mark.parametrize("retries", [0, 1])
@pytest.mark.parametrize(
    ("manner", "reason"),
    [
        (silent, "no answer"),
        (as_other_unit, "it answers as unit 2, and unit 1 was asked"),
        (with_other_number, "it answers with other transaction numbers than the requests have"),
        (late(1.5 * TIMEOUT_S), LATE),
        (half_only, "part of an answer: 4 bytes, and its header says 15"),
        (noise(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "not Modbus: it says b'HTTP/1.1 400 Bad Request'"),
    ],
)
def test_a_lost_device_is_told_with_what_came_instead_of_an_answer(manner: Manner, reason: str, retries: int) -> None:
    async def story() -> None:
        async with UnrulySite({1: manner}, {1: tuple(range(6))}, retries=retries) as site:
            await site.poll()
            assert (site.losses, site.reason) == (1, reason)

    run_steadily(story())


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"", TAKEN),
        (b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", "not Modbus: it says b'SSH-2.0-OpenSSH_9.2p1 De'"),
    ],
)
def test_who_hangs_up_before_an_answer_is_told_as_that(said: bytes, reason: str) -> None:
    """A device with one connection, which another has; a foreign program that greets and goes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
            writer.close()

    run_steadily(_lost_at(serve, reason))


def test_a_greeting_that_nobody_asked_for_is_told_although_it_stays_silent_then() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail ESMTP\r\n")
        while await reader.read(100):
            pass

    run_steadily(_lost_at(serve, "not Modbus: it says b'220 mail ESMTP\\r\\n'"))


async def _lost_at(serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], reason: str) -> None:
    async with UnrulySite({1: honest}) as site:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        await site.device.stop()
        site.move_to(server.sockets[0].getsockname()[1])
        await site.poll()
        assert site.reason == reason
        server.close()
