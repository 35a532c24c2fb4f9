"""Commissioning test of a PLC that is to vote: does its memory keep the promises that the register voter relies on?

    relied on                                                            line of the report
    a write that is answered is kept, and seen by its own connection     own writes
    and by all others after `settle`                                     other connection
    a read shows one write, or a mixture that a checksum finds           torn reads
    what was seen once does not go away                                  steadiness
    a write of a broken connection lands within `dead_time`, if ever     late writes
    two members and whoever else can be connected at a time              connections
    a power cycle leaves every write or none                             power cycle
    the PLC's guard counts its starts (`guard = "plc"` only)             output guard

The registers are left as they were found; a block that somebody else wrote meanwhile is left to them.

What it does not do: judge the network between the members' machines and the PLC. Run it from both.

Spec: design/pair.md, The PLC register block; docs/plc-voter.md; ADR-0105.
"""

import asyncio
import contextlib
import math
from collections.abc import Callable
from typing import Final, Literal

import msgspec

from albireo.codec.errors import DecodeError
from albireo.codec.register_block import BALLOT_REGISTERS, BLOCK_REGISTERS
from albireo.field.contract import DeviceLost
from albireo.field.modbus.voter.bench import RECONNECT_S, Advance, Bench, BenchLimits, Cycled, LateWrites, Race
from albireo.field.modbus.voter.line import UnfitVoter, VoterConnection, VoterPlace
from albireo.field.modbus.voter.pattern import Found, KeptPattern, found_in, kept, may_restore
from albireo.machine.output.mailbox import STATUS_REGISTERS, decode_status

SETTLE_MIN_MS: Final = 20
"""Suggested where no delay was seen: one slow answer must not be taken for the order of writes."""
SETTLE_MAX_MS: Final = 250
"""A renewal holds `settle` and four requests, and must fit well into a lease of 600 ms."""
MARGIN: Final = 2.0
"""Between what was measured and what is suggested: a test sees some hundred writes, a plant millions."""
CONNECTIONS_MIN: Final = 2
CONNECTIONS_GOOD: Final = 4
"""Two members, and one more each while the PLC has not noticed yet that an old one broke."""
WATCH_PAUSE_S: Final = 0.05
RESTORE_S: Final = 10.0
"""Longest wait for a PLC that went away during the test, to put its registers right."""

_BLOCKS: Final = tuple(slice(start, start + BLOCK_REGISTERS) for start in (0, BLOCK_REGISTERS))

Status = Literal["pass", "fail", "skipped"]


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to one question."""

    name: str
    status: Status
    found: str
    remedy: str = ""


class VoterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of this voter in the topology."""

    place: VoterPlace
    cluster: str
    """Identity of the pair whose voter it is or will be."""
    settle_ms: int
    dead_time_ms: int
    guard_status: int | None = None
    """First of the four status registers of the output guard; None: it has none, or none is relied on."""


class VoterReport(msgspec.Struct, frozen=True, kw_only=True):
    """All answers, and what to write into the topology."""

    lines: list[Line]
    settle_ms: int | None = None
    """Suggested; None: the test did not come that far."""
    dead_time_ms: int | None = None

    @property
    def verdict(self) -> Literal["pass", "fail", "incomplete"]:
        states = {line.status for line in self.lines}
        if "fail" in states:
            return "fail"
        return "incomplete" if "skipped" in states else "pass"


class NotTested(Exception):
    """The registers must not be written: they are somebody's. Nothing was changed."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.remedy = remedy


class VoterCheck:
    """One test of one PLC."""

    def __init__(
        self, settings: VoterSettings, limits: BenchLimits, advance: Advance, ask: Callable[[str], None]
    ) -> None:
        """`ask` tells the operator what to do now."""
        self._settings = settings
        self._bench = Bench(settings.place, limits, advance)
        self._ask = ask
        self._found: tuple[int, ...] = ()
        self._report = VoterReport(lines=[])

    async def run(self, *, cycles_power: bool) -> VoterReport:
        """The whole test.

        Raises:
            NotTested: the registers are somebody's.
            DeviceLost: the PLC can't be reached, or went away.
        """
        line = VoterConnection(self._settings.place)
        await line.connect()
        try:
            await self._look(line)
            try:
                await self._measure(line, cycles_power)
            except* UnfitVoter as several:
                self._unfit(_first(several))
                # A write under way on the other connection must not land on what is put back.
                await asyncio.sleep(self._bench.limits.late_s)
            except* DeviceLost as several:
                remedy = "look at its diagnostics: it must stand some hundred requests of two clients"
                self._say("connection", "fail", f"the PLC went away during the test: {_first(several)}", remedy)
            finally:
                # A task of its own: this one may have been cancelled.
                await asyncio.create_task(self._restore(line))
        finally:
            line.close()
        return self._report

    def _unfit(self, error: BaseException) -> None:
        assert isinstance(error, UnfitVoter)
        self._say(error.name, "fail", error.found, error.remedy)

    async def _look(self, line: VoterConnection) -> None:
        """Look at what the registers hold, and that nobody writes them."""
        try:
            self._found = await line.read()
        except UnfitVoter as unfit:
            raise NotTested(unfit.found, unfit.remedy) from unfit
        found = list(self._found)
        for member, block in enumerate(_BLOCKS):
            held = found_in(found[block], member, self._settings.cluster)
            _refuse(held, member)
            if held is Found.LEFT:
                found[block] = [0] * BLOCK_REGISTERS
        until = _now() + self._bench.limits.watch_s
        while _now() < until:
            self._bench.advance("is it in use?")
            if await line.read() != self._found:
                raise NotTested("the registers change: this voter is in use", "stop both members first")
            await asyncio.sleep(WATCH_PAUSE_S)
        self._found = tuple(found)
        self._say("registers", "pass", "64 holding registers in one read, written by nobody else")

    async def _measure(self, line: VoterConnection, cycles_power: bool) -> None:
        connections = await self._bench.connections(line)
        self._judge_connections(connections)
        if connections < CONNECTIONS_MIN:
            return
        await self._bench.fill(line)
        race = Race()
        other = VoterConnection(self._settings.place)
        try:
            await self._bench.reach(other)
            await self._bench.race(line, other, 0, race)
            await self._bench.race(other, line, 1, race)
        finally:
            other.close()
        self._judge_race(race)
        self._judge_late(await self._bench.late_writes(line))
        boot = await self._boot(line)
        if not cycles_power:
            remedy = "run it without --no-power-cycle before this PLC may vote"
            self._say("power cycle", "skipped", "not tested", remedy)
            return
        self._judge_cycle(await self._bench.power_cycle(line, self._ask))
        if boot is not None:
            self._judge_boot(boot, await self._boot(line))

    def _judge_connections(self, count: int) -> None:
        more = " or more" if count == self._bench.limits.connections else ""
        found = f"{count}{more} at a time"
        if count < CONNECTIONS_MIN:
            self._say("connections", "fail", found, "both members need one: allow more in the PLC, or use a witness")
        elif count < CONNECTIONS_GOOD:
            remedy = "a broken connection may keep the next one out until the PLC notices: shorten its time-outs"
            self._say("connections", "pass", found, remedy)
        else:
            self._say("connections", "pass", found)

    def _judge_race(self, race: Race) -> None:
        self._say("own writes", "pass", f"{race.writes} writes kept, {_seen_after(race.own_late_ms)}")
        settle = max(SETTLE_MIN_MS, math.ceil(MARGIN * max(race.delay_ms, race.blind_ms) / 10) * 10)
        self._report = msgspec.structs.replace(self._report, settle_ms=settle)
        found = f"{_seen_after(race.delay_ms)}; suggested settle_ms = {settle}"
        if settle > SETTLE_MAX_MS:
            remedy = f"a lease can't hold more than {SETTLE_MAX_MS} ms: another path to the PLC, or a witness instead"
            self._say("other connection", "fail", found, remedy)
        elif settle > self._settings.settle_ms:
            remedy = f"write settle_ms = {settle} into the topology; it is {self._settings.settle_ms}"
            self._say("other connection", "fail", found, remedy)
        else:
            self._say("other connection", "pass", found)
        self._say("torn reads", "pass", f"{race.torn} of {race.reads} reads, {_torn_means(race.torn)}")
        if race.went_back:
            remedy = "something between here and the PLC answers out of a cache: remove it, or use a witness"
            self._say("steadiness", "fail", f"{race.went_back} writes were seen and then not", remedy)
        else:
            self._say("steadiness", "pass", "what was seen once stayed; nothing beside it changed")

    def _judge_late(self, late: LateWrites) -> None:
        least = math.ceil((MARGIN * late.latest_ms + self._settings.place.timeout_ns / 1e6) / 100) * 100
        self._report = msgspec.structs.replace(self._report, dead_time_ms=least)
        found = f"{late.landed} of {late.rounds} landed after a reset"
        if late.landed:
            found += f", the latest after {late.latest_ms:.0f} ms"
        found += f"; suggested dead_time_ms = {least}"
        if least > self._settings.dead_time_ms:
            remedy = f"write dead_time_ms = {least} into the topology; it is {self._settings.dead_time_ms}"
            self._say("late writes", "fail", found, remedy)
        else:
            self._say("late writes", "pass", found)

    def _judge_cycle(self, cycled: Cycled) -> None:
        left = kept(cycled.words[:BALLOT_REGISTERS], cycled.acknowledged, cycled.sent)
        if cycled.changed_later:
            remedy = "the PLC's program writes them after its start: leave these registers alone"
            self._say("power cycle", "fail", "the registers changed again after the start", remedy)
        elif left is KeptPattern.OLDER:
            remedy = "memory that is saved now and then can't vote: use retained memory, plain memory, or a witness"
            self._say("power cycle", "fail", "an older write came back", remedy)
        elif left is KeptPattern.ALL:
            self._say("power cycle", "pass", "every write kept")
        else:
            remedy = "it votes again once both members have restored their blocks; retained memory would spare that"
            self._say("power cycle", "pass", "nothing kept", remedy)

    async def _boot(self, line: VoterConnection) -> int | None:
        """Boot number of the output guard; None without one."""
        if self._settings.guard_status is None:
            return None
        try:
            return decode_status(await line.read_elsewhere(self._settings.guard_status, STATUS_REGISTERS)).boot
        except (DecodeError, UnfitVoter) as error:
            remedy = "call the function block of docs/plc/guard.st each scan, or set another guard in the topology"
            self._say("output guard", "fail", f"no guard behind mailbox_address: {error}", remedy)
            return None

    def _judge_boot(self, before: int, after: int | None) -> None:
        if after == before:
            remedy = "BootCount must be retained, or taken from the clock at the start (docs/plc/guard.st)"
            self._say("boot number", "fail", "the PLC started and has the same number", remedy)
        elif after is not None:
            self._say("boot number", "pass", f"{before} before the start, {after} after it")

    async def _restore(self, line: VoterConnection) -> None:
        """Each block as it was found, unless somebody else has written it meanwhile."""
        try:
            async with asyncio.timeout(RESTORE_S):
                left_alone = await self._restored(line)
        except (TimeoutError, UnfitVoter):
            remedy = "run the test again: it knows its own patterns; members take them for no answer and write anew"
            self._say("restored", "fail", "the registers still hold patterns of this test", remedy)
            return
        if left_alone:
            remedy = "a member is running, or the PLC's program writes there: stop it and test again"
            self._say("restored", "fail", "somebody else wrote a block during the test; it was left alone", remedy)
        else:
            self._say("restored", "pass", "the registers are as they were found")

    async def _restored(self, line: VoterConnection) -> bool:
        """Whether a block was left alone. Goes on until the PLC shows the rest."""
        while True:
            try:
                image = await line.read()
                ours = [block for block in _BLOCKS if image[block] != self._found[block] and may_restore(image[block])]
                if not ours:
                    return image != self._found
                for block in ours:
                    await line.write(block.start, self._found[block])
            except DeviceLost:
                with contextlib.suppress(DeviceLost):
                    await line.connect()
            await asyncio.sleep(RECONNECT_S)

    def _say(self, name: str, status: Status, found: str, remedy: str = "") -> None:
        self._report.lines.append(Line(name=name, status=status, found=found, remedy=remedy))


def _refuse(held: Found, member: int) -> None:
    """Raises NotTested: the block is none that the test may write over and put back."""
    if held is Found.FOREIGN:
        raise NotTested(
            f"the block of member {member} holds something foreign, or a damaged ballot",
            "is voter_address right? If the registers are free, set them to 0 with the PLC's own tool",
        )
    if held is Found.OTHER_PAIR:
        raise NotTested(
            f"the block of member {member} is another pair's",
            "give this pair other registers; if the other is gone for good, set them to 0 with the PLC's own tool",
        )


def _first(several: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that ended the others, however deep it lies."""
    first = several.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


def _seen_after(late_ms: float) -> str:
    return f"seen at most {late_ms:.0f} ms later" if late_ms else "seen at once"


def _torn_means(torn: int) -> str:
    return "found by the checksum, a look is repeated" if torn else "every read showed one write"


def _now() -> float:
    """The loop's clock, in seconds."""
    return asyncio.get_running_loop().time()
