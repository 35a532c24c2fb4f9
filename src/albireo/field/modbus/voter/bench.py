"""Measurements of a PLC voter's registers by numbered writes: what each connection sees, and when.

Two connections play the two members: each writes numbered patterns where a member writes its block, reads them back,
and looks at what the other writes. Nothing is judged here.

Spec: design/pair.md, The PLC register block; ADR-0105.
"""

import asyncio
import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from albireo.codec.register_block import BALLOT_REGISTERS, BLOCK_REGISTERS, LIFE_REGISTERS, LIFE_START
from albireo.field.contract import DeviceLost
from albireo.field.modbus.voter.line import UnfitVoter, VoterConnection, VoterPlace, write_and_reset
from albireo.field.modbus.voter.pattern import count_in, is_split, pattern

MEMBERS: Final = (0, 1)
PARTS: Final = ((0, BALLOT_REGISTERS), (LIFE_START, LIFE_REGISTERS))
"""First register of the block, and size, of what a member writes by one FC16."""
WRITE_EVERY_S: Final = 0.05
"""Between two writes that wait for the power cycle: an image saved now and then is older than that."""
RECONNECT_S: Final = 0.2
FREED_S: Final = 5.0
"""Longest time that a device may need to take a new connection after others ended."""

Part = tuple[int, int]
Advance = Callable[[str], None]
"""Told what is being measured, once per step."""


class BenchLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Times and counts of the measurements."""

    watch_s: float = 2.0
    """Registers that stand still this long are nobody's: a holder renews every 100 ms."""
    rounds: int = 100
    """Writes per member, shared out to the parts of its block."""
    shown_s: float = 3.0
    """A write that is not seen by then is not kept."""
    connections: int = 8
    """More are not tried."""
    late_rounds: int = 5
    late_s: float = 3.0
    """Longest wait for a write of a broken connection."""
    operator_s: float = 600.0
    """Time for switching the PLC off, and again until it answers."""
    started_s: float = 3.0
    """After a start the registers are watched: some programs load theirs a little later."""


class Race(msgspec.Struct):
    """Observations of many writes from two connections. Times in ms."""

    writes: int = 0
    own_late_ms: float = 0.0
    """Longest from the answer of a write until its own connection saw it; 0: its first read did."""
    delay_ms: float = 0.0
    """Longest from there until the answer that showed it to the other connection; 0: its first read did."""
    blind_ms: float = math.inf
    """Shortest from there until a read that showed it was sent: a delay below would not have been seen."""
    reads: int = 0
    torn: int = 0
    went_back: int = 0
    """A write was seen, and then an older one again."""


class LateWrites(msgspec.Struct, frozen=True):
    """Writes of connections that were reset before the answer."""

    landed: int
    rounds: int
    latest_ms: float


class Cycled(msgspec.Struct, frozen=True, kw_only=True):
    """Registers after a power cycle."""

    words: tuple[int, ...]
    acknowledged: int
    """Last write before that was answered."""
    sent: int
    """Last write that left."""
    changed_later: bool
    """The registers changed again after the start."""


class _SeenWrite(msgspec.Struct):
    """Observation of one write from one connection."""

    unseen_sent: float = 0.0
    """Time at which the last read that did not show the write was sent."""
    sent: float = 0.0
    """Times at which the first read that showed the write was sent, and was answered."""
    at: float = 0.0


class Bench:
    """The registers under test: what was written last, and what must stand there now."""

    def __init__(self, place: VoterPlace, limits: BenchLimits, advance: Advance) -> None:
        self.place = place
        self.limits = limits
        self.advance = advance
        self._count = 0
        self._image: list[int] = []

    async def fill(self, line: VoterConnection) -> None:
        """The first write of each part; from here on every mixture is one of patterns."""
        self._image = list(await line.read())
        for member in MEMBERS:
            for part in PARTS:
                first, words = self._next(member, part)
                await line.write(first, words)
                await self._until_shown(line, first, words)

    async def race(self, writer: VoterConnection, reader: VoterConnection, member: int, race: Race) -> None:
        """Writes of `member` on one connection, watched by the other.

        Raises:
            Unfit: a write is not kept, or something else writes.
            DeviceLost: the PLC does not answer any more.
        """
        for turn in range(self.limits.rounds):
            self.advance(f"member {member} writes, the other watches")
            first, words = self._next(member, PARTS[turn % len(PARTS)])
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(self._watch(reader, first, words, race))
                await writer.write(first, words)
                own_at = await self._until_shown(writer, first, words, race)
            seen = watching.result()
            race.writes += 1
            if seen.unseen_sent > own_at:
                race.delay_ms = max(race.delay_ms, 1e3 * (seen.at - own_at))
            race.blind_ms = min(race.blind_ms, 1e3 * max(0.0, seen.sent - own_at))
            await self._stands(reader, first, words, race)

    async def _until_shown(
        self, line: VoterConnection, first: int, words: Sequence[int], race: Race | None = None
    ) -> float:
        """Time at which the connection that wrote saw it: the answer to its first read that shows it."""
        begun = _now()
        is_at_once = True
        while self._part(await line.read(), first, words, race) != tuple(words):
            is_at_once = False
            if _now() - begun > self.limits.shown_s:
                raise UnfitVoter(
                    "own writes",
                    f"a write was answered, but not seen within {self.limits.shown_s:g} s",
                    "the registers are overwritten by the PLC's program, or not kept: leave them to the voter alone",
                )
        if race is not None and not is_at_once:
            race.own_late_ms = max(race.own_late_ms, 1e3 * (_now() - begun))
        return _now()

    async def _watch(self, line: VoterConnection, first: int, words: Sequence[int], race: Race) -> _SeenWrite:
        """Reads until the write shows."""
        seen = _SeenWrite()
        deadline = _now() + 2 * self.limits.shown_s
        while True:
            seen.sent = _now()
            found = self._part(await line.read(), first, words, race)
            seen.at = _now()
            if found == tuple(words):
                return seen
            if seen.at > deadline:
                raise UnfitVoter(
                    "other connection",
                    f"a write of one connection was not seen by another within {self.limits.shown_s:g} s",
                    "each connection has memory of its own (a gateway with a cache?): it can't vote",
                )
            seen.unseen_sent = seen.sent

    def _part(self, image: Sequence[int], first: int, words: Sequence[int], race: Race | None) -> tuple[int, ...]:
        """The registers that are being written; a read that is neither the write nor the one before is counted."""
        found = tuple(image[first : first + len(words)])
        if race is None:
            # The words from before the first pattern may still show, and be anything.
            return found
        race.reads += 1
        race.torn += count_in(found) is None
        if is_split(found):
            raise UnfitVoter(
                "torn reads",
                "one register held bytes of two writes",
                "16-bit registers must be read and written whole: another device, or another area of its memory",
            )
        return found

    async def _stands(self, line: VoterConnection, first: int, words: Sequence[int], race: Race) -> None:
        """Once seen, a write stays; and nothing else has changed."""
        image = list(await line.read())
        found = tuple(image[first : first + len(words)])
        if found != tuple(words):
            race.went_back += 1
            image[first : first + len(words)] = words
        if image != self._image:
            raise UnfitVoter(
                "neighbours",
                "registers changed that the test did not write",
                "something else writes there: stop it, or give the voter other registers (voter_address)",
            )

    def _next(self, member: int, part: Part) -> tuple[int, tuple[int, ...]]:
        """First register and words of the next write; from now on they must stand there."""
        self._count += 1
        first = member * BLOCK_REGISTERS + part[0]
        words = pattern(self._count, part[1])
        self._image[first : first + len(words)] = words
        return first, words

    async def late_writes(self, line: VoterConnection) -> LateWrites:
        """Measure how long after a reset a write still lands; raises as `race`."""
        landed, latest_ms = 0, 0.0
        for _ in range(self.limits.late_rounds):
            self.advance("writes of broken connections")
            before = list(self._image)
            first, words = self._next(0, PARTS[0])
            await write_and_reset(self.place, first, words)
            begun = _now()
            while await line.read(first, len(words)) != words:
                if _now() - begun > self.limits.late_s:
                    self._image = before
                    break
            else:
                landed += 1
                latest_ms = max(latest_ms, 1e3 * (_now() - begun))
        return LateWrites(landed, self.limits.late_rounds, latest_ms)

    async def connections(self, first: VoterConnection) -> int:
        """Number of connections that answer at a time, `first` included; at most the limit."""
        lines = [first]
        extra: list[VoterConnection] = []
        try:
            while len(lines) < self.limits.connections:
                self.advance("how many connections?")
                extra.append(VoterConnection(self.place))
                await extra[-1].connect()
                for line in (*lines, extra[-1]):
                    await line.read(0, 1)
                lines.append(extra[-1])
        except DeviceLost:
            # The last one was turned away, or an earlier one was ended for its sake: what was held before counts.
            pass
        finally:
            for line in extra:
                line.close()
        await self.reach(first)
        return len(lines)

    async def reach(self, line: VoterConnection) -> None:
        """A connection that answers; a device may need a moment to notice that an old one is gone.

        Raises:
            DeviceLost: not within FREED_S.
        """
        deadline = _now() + FREED_S
        while True:
            try:
                await line.read(0, 1)
            except DeviceLost:
                if _now() > deadline:
                    raise
            else:
                return
            with contextlib.suppress(DeviceLost):
                await asyncio.sleep(RECONNECT_S)
                await line.connect()

    async def power_cycle(self, line: VoterConnection, ask: Callable[[str], None]) -> Cycled:
        """Writes until the PLC goes, waits until it is back, and looks.

        Raises:
            Unfit: the operator did nothing, or the PLC did not come back.
        """
        ask("Switch the PLC off now: its supply, not its program. The test goes on writing until it is gone.")
        acknowledged, sent = await self._write_until_gone(line)
        ask("It is gone. Switch it on again.")
        words = await self._back(line)
        until = _now() + self.limits.started_s
        later = words
        while _now() < until:
            self.advance("after the start")
            later = await line.read()
            await asyncio.sleep(WRITE_EVERY_S)
        return Cycled(words=later, acknowledged=acknowledged, sent=sent, changed_later=later != words)

    async def _write_until_gone(self, line: VoterConnection) -> tuple[int, int]:
        acknowledged = self._count
        deadline = _now() + self.limits.operator_s
        try:
            while _now() < deadline:
                first, words = self._next(0, PARTS[0])
                await line.write(first, words)
                acknowledged = self._count
                await asyncio.sleep(WRITE_EVERY_S)
        except DeviceLost:
            return acknowledged, self._count
        raise _no_cycle("the PLC was not switched off")

    async def _back(self, line: VoterConnection) -> tuple[int, ...]:
        deadline = _now() + self.limits.operator_s
        while _now() < deadline:
            try:
                await line.connect()
                return await line.read()
            except (DeviceLost, UnfitVoter):
                # A PLC that starts first refuses connections, then answers with exceptions.
                await asyncio.sleep(RECONNECT_S)
        raise _no_cycle("the PLC did not come back")


def _no_cycle(found: str) -> UnfitVoter:
    return UnfitVoter("power cycle", found, "run it again with the PLC at hand, or with --no-power-cycle")


def _now() -> float:
    """The loop's clock, in seconds."""
    return asyncio.get_running_loop().time()
