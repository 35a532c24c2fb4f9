"""Line reader: asks the units of one connection for their blocks, so that one that is silent costs itself only.

    a unit answers        its blocks are read in each poll, in the parts that the device is known to read (learnt.py)
    it answers nothing    away: its items are BadNoCommunication, and it is asked again, once, after every other unit,
                          every AWAY_RETRY_NS, and no more than a share of the time goes into all that are away
    one part is silent    that part is refused, as by an exception: some devices do not answer for what they lack
    exception 10, 11      as silence, but the gateway is there
    nobody answers        the device is lost; if something came that is no answer, the reason tells it
    one part is refused   whatever the exception, or an answer that fits not: it is learnt which part the device reads
    busy (5, 6)           asked again in the same poll, a little later

A device that hangs up is connected again at once and asked again: reading twice harms nothing. If it hangs up on the
same request once more, that counts as silence. What was learnt is kept over reconnects, and is tried again little by
little.

Spec: MODBUS Application Protocol V1.1b3, 7; MODBUS Messaging on TCP/IP V1.0b, 4.2; ADR-0166.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import numpy as np

from albireo.field.contract import DeviceLost
from albireo.field.modbus.answers import BUSY, Answer, DataReply, ExceptionCode, ExceptionReply, Silence
from albireo.field.modbus.learnt import BlockPart, BlockRefusal, LearntBlock
from albireo.field.modbus.plan import Block, PollPlan
from albireo.field.modbus.wire import DeviceUnreachable, Wire
from albireo.model.instant import SECOND, Instant
from albireo.model.quality import (
    BAD_CONFIGURATION_ERROR,
    BAD_DEVICE_FAILURE,
    BAD_NO_COMMUNICATION,
    BAD_WAITING_FOR_INITIAL_DATA,
    GOOD,
)

REFUSED_RETRY_NS: Final = 60 * SECOND
"""Interval at which what a device refuses is tried again: somebody may have loaded another program."""
AWAY_RETRY_NS: Final = 5 * SECOND
"""Interval at which what does not answer is asked again, at the least: a unit, or a part of one that does."""
AWAY_REST: Final = 4
"""After a question that brought nothing, nothing that is away is asked for this many times as long as it took."""
REFUSED_PER_POLL_MAX: Final = 32
"""Refused requests of one poll, while it is learnt what a device reads; the rest waits for the next poll."""
SILENCES_PER_UNIT_MAX: Final = 2
"""Parts of one unit that may be silent in one poll; then it is left alone until the next."""
HANG_UPS_MAX: Final = 4
"""New connections after which a device is lost that hangs up on each; later there are two for each silent part."""
BUSY_PER_POLL_MAX: Final = 16
"""Requests of one poll that are repeated because the device was busy."""
BUSY_PAUSE_S: Final = 0.02
_LACKING: Final = (ExceptionCode.ILLEGAL_FUNCTION, ExceptionCode.ILLEGAL_ADDRESS, ExceptionCode.ILLEGAL_VALUE)
_AWAY: Final = (ExceptionCode.GATEWAY_PATH_UNAVAILABLE, ExceptionCode.GATEWAY_TARGET_SILENT)


class _Question(msgspec.Struct, frozen=True, eq=False):
    """Items `begin` to `end` of a block, in requests of `longest` items at first."""

    block: LearntBlock
    begin: int
    end: int
    longest: int


class LineUnit:
    """One unit of a connection, and whether it answers."""

    def __init__(self, blocks: Sequence[LearntBlock]) -> None:
        self.blocks = blocks
        self.is_away = False
        self.due = Instant(0)
        """Instant from which it is asked again while it is away."""
        self.asked_at = Instant(0)
        self._tries = 0

    def next_questions(self) -> list[_Question]:
        """Its blocks, to be read one after the other.

        While it is away each try begins with another block, and with a shorter part of it, the first or the last one:
        it may answer that.
        """
        if not self.is_away:
            self._tries = 0
            return [_Question(one, 0, len(one), len(one)) for one in self.blocks]
        self._tries += 1
        turn = self._tries % len(self.blocks)
        found = []
        for one in (*self.blocks[turn:], *self.blocks[:turn]):
            cycle, step = divmod(self._tries, len(one).bit_length())
            longest = len(one) >> step
            begin = (len(one) - longest) * (cycle % 2)
            found += [_Question(one, begin, len(one), longest), _Question(one, 0, begin, longest)]
        return found

    def gone(self, now: Instant) -> None:
        self.is_away = True
        self.due = Instant(now + AWAY_RETRY_NS)


class _UnitPoll(msgspec.Struct, eq=False):
    """One unit within one poll."""

    unit: LineUnit
    silences_left: int
    has_answered: bool = False
    unexplained: tuple[LearntBlock, BlockPart] | None = None
    """The part that was silent while nothing else of the unit was heard."""


class _LinePoll(msgspec.Struct, eq=False):
    """One poll of all units."""

    is_answered: bool = False
    """Somebody answered, if only the gateway."""
    is_silent: bool = False
    """Somebody did not, or only the gateway did."""
    refusals_left: int = REFUSED_PER_POLL_MAX

    @property
    def is_quiet(self) -> bool:
        """Nothing new was learnt, and nobody was waited for in vain."""
        return not self.is_silent and self.refusals_left == REFUSED_PER_POLL_MAX


class LineReader:
    """The reading half of an adapter: images of all blocks, and the quality of each item."""

    def __init__(
        self,
        wire: Wire,
        plan: PollPlan,
        retries: int,
        now: Callable[[], Instant],
    ) -> None:
        """`retries`: how often a part is asked for again, the first time that one is silent in a poll."""
        self._wire = wire
        self._retries = retries
        self._now = now
        self._blocks = [LearntBlock(one) for one in plan.blocks]
        by_id: dict[int, list[LearntBlock]] = {}
        for block in self._blocks:
            by_id.setdefault(block.device_id, []).append(block)
        self._units = {device_id: LineUnit(blocks) for device_id, blocks in by_id.items()}
        self._rest_until = Instant(0)
        self._hang_ups = 0
        self._busy_left = BUSY_PER_POLL_MAX
        self._untaken = ""
        """Description of the first in a poll that came and was no answer."""
        self._is_proven = False
        """Somebody answered since the device was found."""
        self._knocks = 0
        self.registers = np.zeros(plan.register_count, np.uint16)
        self.bits = np.zeros(plan.bit_count, np.uint8)
        self.quality = np.full(len(plan.positions), BAD_WAITING_FOR_INITIAL_DATA, np.uint32)
        self.requests = 0
        self.errors = 0

    @property
    def blind_items(self) -> int:
        return sum(one.blind_items for one in self._blocks)

    @property
    def units_away(self) -> int:
        return sum(one.is_away for one in self._units.values())

    def connected(self) -> None:
        """It may be another device, or another program in it: what was learnt is tried again, a little in each poll."""
        self._rest_until = Instant(0)
        self._hang_ups = 0
        self._is_proven = False
        for unit in self._units.values():
            unit.due = Instant(0)
        for block in self._blocks:
            block.try_again()

    async def knock(self) -> None:
        """Ask for one part, each time of another block; units that are away come last.

        Raises:
            DeviceLost: nobody answers.
        """
        self._knocks = (self._knocks + 1) % len(self._blocks)
        order = [*self._blocks[self._knocks :], *self._blocks[: self._knocks]]
        order.sort(key=lambda one: self._units[one.device_id].is_away)
        line, self._untaken = _LinePoll(), ""
        silences: dict[int, int] = {}
        for block in order:
            unit = self._units[block.device_id]
            silent = silences.get(block.device_id, 0)
            if silent >= SILENCES_PER_UNIT_MAX:
                continue
            answer = await self._ask(_any_part(block), self._tries(unit, line))
            if not _is_away(answer):
                unit.is_away = False
                return
            line.is_silent = True
            silences[block.device_id] = silent + 1
            if silent + 1 >= min(SILENCES_PER_UNIT_MAX, len(unit.blocks)):
                self._gone(unit)
            if isinstance(answer, ExceptionReply):
                return
        raise DeviceLost(self._untaken or "no answer")

    async def poll(self) -> None:
        """Ask every unit that is there, then those that are away and due.

        Raises:
            DeviceLost: nobody answers.
        """
        line = _LinePoll()
        self._busy_left, self._untaken = BUSY_PER_POLL_MAX, ""
        for unit in sorted(self._units.values(), key=lambda one: (one.is_away, one.is_away and one.asked_at)):
            if unit.is_away and line.is_answered and self._now() < max(unit.due, self._rest_until):
                continue
            await self._poll_unit(unit, line)
        if line.is_quiet and (not line.is_answered or self._now() >= self._rest_until):
            self._busy_left = 0
            await self._try_refused(line)
        if not line.is_answered:
            if not (self._is_proven or self._untaken):
                self._untaken = await self._wire.heard_late()
            raise DeviceLost(self._untaken or "no answer")

    async def _poll_unit(self, unit: LineUnit, line: _LinePoll) -> None:
        one = _UnitPoll(unit=unit, silences_left=1 if unit.is_away else SILENCES_PER_UNIT_MAX)
        silences = one.silences_left
        unit.asked_at = self._now()
        for question in unit.next_questions():
            await self._poll_items(question, one, line)
        if one.silences_left < silences and not one.has_answered:
            self._gone(unit)
        else:
            unit.is_away = False

    async def _poll_items(self, question: _Question, one: _UnitPoll, line: _LinePoll) -> None:
        block, at, end, longest = question.block, question.begin, question.end, question.longest
        while at < end:
            if not one.silences_left:
                self.quality[block.rows[at:end]] = BAD_NO_COMMUNICATION
                return
            part = block.next(at, min(longest, end - at))
            if isinstance(part, BlockRefusal):
                self.quality[block.rows[at]] = part.quality
                at += 1
                continue
            answer = await self._ask(part, self._tries(one.unit, line))
            if quality := self._refusal(answer, block, part):
                self._answers(one, line)
                line.refusals_left -= 1
                longest = 1 if part.first == part.last else longest
                if line.refusals_left <= 0:
                    self.quality[block.rows[at:end]] = quality
                    return
                continue
            self._heard(answer, block, part, one, line)
            at = part.last + 1
            longest *= 2

    def _heard(self, answer: Answer, block: LearntBlock, part: BlockPart, one: _UnitPoll, line: _LinePoll) -> None:
        """Take an answer that refuses nothing, or the lack of one."""
        if _is_away(answer):
            line.is_answered |= not isinstance(answer, Silence)
            self.quality[part.rows] = BAD_NO_COMMUNICATION
            line.is_silent = True
            one.silences_left -= 1
            if one.has_answered:
                self._is_silent(block, part)
            else:
                one.unexplained = (block, part)
            return
        self._answers(one, line)
        assert isinstance(answer, DataReply), "all else is a refusal"
        self._store(block, part, answer.data)

    def _answers(self, one: _UnitPoll, line: _LinePoll) -> None:
        """The unit is there: what it was silent about is something that it lacks."""
        one.has_answered = line.is_answered = True
        if one.unexplained is not None:
            self._is_silent(*one.unexplained)
            one.unexplained = None

    def _refusal(self, answer: Answer, block: LearntBlock, part: BlockPart) -> int:
        """Quality of what the unit does not give although it answers; 0: it gave it, or is away.

        Devices tell by any exception, or by an answer that fits not, that they lack an address or were asked for too
        much. One that may mean something else as well, which may pass, is tried again in the next poll.
        """
        if isinstance(answer, DataReply) or _is_away(answer):
            return GOOD
        self.errors += 1
        is_lacking = isinstance(answer, ExceptionReply) and answer.code in _LACKING
        later_ns = AWAY_RETRY_NS if block.has_refused(part) else 0
        quality = BAD_CONFIGURATION_ERROR if is_lacking else BAD_DEVICE_FAILURE
        block.refused(part, quality, Instant(self._now() + (REFUSED_RETRY_NS if is_lacking else later_ns)))
        return quality

    def _is_silent(self, block: LearntBlock, part: BlockPart) -> None:
        """The unit answers, and not for `part`."""
        block.refused(part, BAD_NO_COMMUNICATION, Instant(self._now() + AWAY_RETRY_NS))

    async def _try_refused(self, line: _LinePoll) -> None:
        """Ask for what was refused and is due, oldest first, until one try is in vain; if nobody was asked, for any."""
        while found := self._next_refused():
            due, block, part = found
            if line.is_answered and due > self._now():
                return
            answer = await self._ask(part, tries=1)
            line.is_answered |= not isinstance(answer, Silence)
            if self._refusal(answer, block, part):
                return
            if not isinstance(answer, DataReply):
                self._is_silent(block, part)
                return
            self._store(block, part, answer.data)

    def _next_refused(self) -> tuple[Instant, LearntBlock, BlockPart] | None:
        there = (one for one in self._blocks if not self._units[one.device_id].is_away)
        refused = ((found[0], one, found[1]) for one in there if (found := one.due()))
        return min(refused, key=lambda one: one[0], default=None)

    def _tries(self, unit: LineUnit, line: _LinePoll) -> int:
        return 1 if unit.is_away or line.is_silent else 1 + self._retries

    def _gone(self, unit: LineUnit) -> None:
        unit.gone(self._now())
        for block in unit.blocks:
            self.quality[block.rows] = BAD_NO_COMMUNICATION

    async def _ask(self, part: BlockPart, tries: int) -> Answer:
        """Read one part; as often as `tries` says while nothing comes of it, since reading twice harms nothing."""
        began = self._now()
        answer: Answer = Silence()
        for _ in range(tries):
            self.requests += 1
            answer = await self._read(part.block)
            while self._busy_left and isinstance(answer, ExceptionReply) and answer.code in BUSY:
                self._busy_left -= 1
                await asyncio.sleep(BUSY_PAUSE_S)
                answer = await self._read(part.block)
            if not _is_away(answer):
                return answer
            self.errors += 1
        now = self._now()
        self._rest_until = Instant(now + AWAY_REST * (now - began))
        return answer

    async def _read(self, block: Block) -> Answer:
        """Read one block; again if the device hangs up, over a new connection, and silence if it does so again.

        Raises:
            DeviceLost: there is no connection, and none can be made.
        """
        for _ in range(2):
            try:
                answer = await self._wire.read(block.kind, block.device_id, block.address, block.count)
            except DeviceUnreachable:
                raise
            except DeviceLost as lost:
                self._untaken = self._untaken or lost.reason
                if not self._wire.redials or (self._hang_ups >= HANG_UPS_MAX and not self._is_proven):
                    raise
                self._hang_ups += 1
                self.errors += 1
                continue
            if isinstance(answer, Silence):
                self._untaken = self._untaken or answer.heard
            else:
                self._is_proven = True
            return answer
        return Silence()

    def _store(self, block: LearntBlock, part: BlockPart, data: bytes) -> None:
        asked = part.block
        start, stop = asked.image_at, asked.image_at + asked.count
        if asked.kind.is_bits:
            bits = np.unpackbits(np.frombuffer(data, np.uint8), count=asked.count, bitorder="little")
            self.bits[start:stop] = bits
        else:
            self.registers[start:stop] = np.frombuffer(data, ">u2")
        self.quality[part.rows] = GOOD
        block.answered(part)


def _is_away(answer: Answer) -> bool:
    """The unit did not answer, or the gateway says that it doesn't."""
    return isinstance(answer, Silence) or (isinstance(answer, ExceptionReply) and answer.code in _AWAY)


def _any_part(block: LearntBlock) -> BlockPart:
    """A part that the device reads, if there is one."""
    parts = (block.next(at, len(block)) for at in range(len(block)))
    return next((one for one in parts if isinstance(one, BlockPart)), block.item(0))
