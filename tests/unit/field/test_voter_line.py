"""The voter line by itself: what is told in which order, and which requests a connection takes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import cast

from albireo.codec.message import AnyMessage
from albireo.codec.register_block import (
    VoterHangUp,
    VoterLost,
    VoterOffered,
    VoterRead,
    VoterReadAsked,
    VoterWriteAsked,
    VoterWritten,
)
from albireo.field.contract import DeviceLost, PairAdapter, SendGuard, VoterRequestRefused
from albireo.field.voter_line import OFFER_EVERY_NS, REFUSED_PAUSE_NS, REQUESTS_MAX, VoterLine
from albireo.model.instant import Instant
from tests.parts.field import in_loop, until

WORDS = tuple(range(64))


class Device:
    """The voter's registers; answers what `answers` says, and notes what happened in which order."""

    def __init__(self, happened: list[object]) -> None:
        self.happened = happened
        self.answers: list[VoterRequestRefused | DeviceLost] = []
        self.is_held = asyncio.Event()
        self.is_held.set()

    async def read_voter(self) -> tuple[int, ...] | VoterRequestRefused:
        await self.is_held.wait()
        self.happened.append("read")
        return self._answer() or WORDS

    async def write_voter(
        self, member: int, register: int, words: Sequence[int], may_send: SendGuard
    ) -> VoterRequestRefused | None:
        await self.is_held.wait()
        if reason := may_send():
            return VoterRequestRefused(reason, must_close=True)
        self.happened.append(("wrote", member, register, tuple(words)))
        return self._answer()

    def _answer(self) -> VoterRequestRefused | None:
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, DeviceLost):
            raise answer
        return answer

    async def hang_up(self) -> None:
        await asyncio.sleep(0)
        self.happened.append("closed")


class Bench:
    def __init__(self) -> None:
        self.happened: list[object] = []
        self.device = Device(self.happened)
        self.now = Instant(0)
        self.line = VoterLine(
            "p1", cast(PairAdapter, self.device), self.happened.append, lambda: self.now, 41, lambda: None
        )

    @property
    def said(self) -> list[AnyMessage]:
        return [one for one in self.happened if isinstance(one, AnyMessage)]

    def ask_read(self, connection: int = 42) -> None:
        self.line.asked(VoterReadAsked(adapter="p1", connection=connection))

    def ask_write(self, not_after: int = 10) -> None:
        asked = VoterWriteAsked(adapter="p1", connection=42, member=1, register=20, words=(7,), not_after=not_after)
        self.line.asked(asked)


@contextlib.asynccontextmanager
async def bench() -> AsyncIterator[Bench]:
    one = Bench()
    one.line.connected()
    serving = asyncio.create_task(one.line.serve())
    try:
        yield one
    finally:
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


OFFERED = VoterOffered(adapter="p1", connection=42)
LOST = VoterLost(adapter="p1", connection=42)


def test_requests_are_carried_out_in_their_order() -> None:
    async def story() -> None:
        async with bench() as one:
            one.ask_write()
            one.ask_read()
            await until(lambda: len(one.said) == 3)
            assert one.happened == [
                OFFERED,
                ("wrote", 1, 20, (7,)),
                VoterWritten(adapter="p1", connection=42),
                "read",
                VoterRead(adapter="p1", connection=42, words=WORDS),
            ]

    in_loop(story)


def test_a_loss_is_told_after_the_connection_was_closed() -> None:
    async def story() -> None:
        for trouble in (VoterRequestRefused("no answer", must_close=True), DeviceLost("connection lost")):
            async with bench() as one:
                one.device.answers = [trouble]
                one.ask_read()
                await until(lambda: LOST in one.happened)
                assert one.happened == [OFFERED, "read", "closed", LOST]

    in_loop(story)


def test_a_hang_up_of_core_closes_before_it_is_told() -> None:
    async def story() -> None:
        async with bench() as one:
            one.line.asked(VoterHangUp(adapter="p1", connection=42))
            await until(lambda: LOST in one.happened)
            assert one.happened == [OFFERED, "closed", LOST]

    in_loop(story)


def test_an_exception_ends_the_number_and_not_the_connection() -> None:
    async def story() -> None:
        async with bench() as one:
            one.device.answers = [VoterRequestRefused("exception 2", must_close=False)]
            one.ask_read()
            await until(lambda: LOST in one.happened)
            assert "closed" not in one.happened
            one.now = Instant(REFUSED_PAUSE_NS - 1)
            one.line.tick(one.now)
            assert one.said == [OFFERED, LOST]
            one.now = Instant(REFUSED_PAUSE_NS)
            one.line.tick(one.now)
            assert one.said == [OFFERED, LOST, VoterOffered(adapter="p1", connection=43)]

    in_loop(story)


def test_a_lost_connection_is_not_offered_again_after_a_pause() -> None:
    async def story() -> None:
        async with bench() as one:
            one.device.answers = [VoterRequestRefused("exception 2", must_close=False)]
            one.ask_read()
            await until(lambda: LOST in one.happened)
            one.line.lost("closed")
            one.now = Instant(REFUSED_PAUSE_NS)
            one.line.tick(one.now)
            assert one.said == [OFFERED, LOST]
            assert one.line.deadline() is None

    in_loop(story)


def test_a_late_write_is_not_sent() -> None:
    async def story() -> None:
        async with bench() as one:
            one.device.is_held.clear()
            one.ask_write(not_after=10)
            await until(lambda: not one.line._requests)
            one.now = Instant(10)
            one.device.is_held.set()
            await until(lambda: LOST in one.happened)
            assert one.happened == [OFFERED, "closed", LOST]

    in_loop(story)


def test_an_answer_of_a_connection_that_is_gone_is_told_to_nobody() -> None:
    async def story() -> None:
        async with bench() as one:
            one.device.is_held.clear()
            one.ask_read()
            await until(lambda: not one.line._requests)
            one.line.connected()
            one.device.is_held.set()
            await until(lambda: "read" in one.happened)
            one.ask_read(43)
            await until(lambda: one.happened.count("read") == 2)
            assert one.said == [
                OFFERED,
                LOST,
                VoterOffered(adapter="p1", connection=43),
                VoterRead(adapter="p1", connection=43, words=WORDS),
            ]

    in_loop(story)


def test_a_connection_that_broke_for_an_old_request_leaves_the_new_one_alone() -> None:
    async def story() -> None:
        async with bench() as one:
            one.device.is_held.clear()
            one.device.answers = [DeviceLost("connection lost")]
            one.ask_read()
            await until(lambda: not one.line._requests)
            one.line.connected()
            one.device.is_held.set()
            one.ask_read(43)
            await until(lambda: one.happened.count("read") == 2)
            assert "closed" not in one.happened

    in_loop(story)


def test_it_is_offered_again_for_a_core_that_has_just_started() -> None:
    async def story() -> None:
        async with bench() as one:
            one.line.tick(Instant(OFFER_EVERY_NS - 1))
            assert one.said == [OFFERED]
            assert one.line.deadline() == OFFER_EVERY_NS
            one.now = Instant(OFFER_EVERY_NS)
            one.line.tick(one.now)
            assert one.said == [OFFERED, OFFERED]

    in_loop(story)


def test_more_requests_than_a_voter_has_give_the_connection_up() -> None:
    async def story() -> None:
        async with bench() as one:
            for _ in range(REQUESTS_MAX + 1):
                one.ask_read()
            await until(lambda: LOST in one.happened)
            assert one.happened == [OFFERED, "closed", LOST]

    in_loop(story)
