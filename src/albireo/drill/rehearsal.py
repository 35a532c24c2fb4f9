"""Rehearsal: rounds of one fault on one pair.

A round: both members are in the set and the load runs; the fault is done; the service comes back by itself, or the
round has failed; the fault is undone; both are in the set again; the load pauses until everything offered is
acknowledged; the consumer and a reader of each member's log are judged.
"""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from albireo.client import ClientError
from albireo.drill.account import RoundAccount, gap_s, judge
from albireo.drill.fault.faults import FAULTS
from albireo.drill.ground import DrillError
from albireo.drill.load import PRODUCERS, LiveLoad, read_log
from albireo.drill.outputs import OutputWriters
from albireo.drill.pair import MEMBERS, Pair
from albireo.drill.plcs import Plcs
from albireo.runtime.errors import RuntimeFault

BACK_S: Final = 60.0
"""The service has to be back by then; a pair that starts from nothing needs half of it."""
AFTER_S: Final = 1.5
"""Load after the service is back, before the fault is undone."""
DRAIN_S: Final = 60.0


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """Measurements of one round; None: not measured."""

    gap_s: float
    acked: int
    lost: int
    doubled: int
    reordered: int
    stale_writes: int | None
    stale_plain: int | None
    epoch_before: int
    epoch_after: int

    @property
    def held(self) -> bool:
        return not (self.lost or self.doubled or self.reordered or self.stale_writes)

    def told(self) -> str:
        """The round in words."""
        return (
            f"gap {self.gap_s:.3f} s, epoch {self.epoch_before} -> {self.epoch_after}; {self.acked} acknowledged, "
            f"{self.lost} lost, {self.doubled} doubled, {self.reordered} reordered; "
            f"stale writes {self.stale_writes}, at plain registers {self.stale_plain}"
        )


class DrillReport(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the whole drill; the JSON line."""

    fault: str
    rounds: tuple[Round, ...]
    held: bool


def objection(fault: str) -> str:
    """Why this fault can't be rehearsed on this machine; empty: it can."""
    return FAULTS[fault].ground.objection()


class Rehearsal:
    """One pair, one load, one kind of fault."""

    def __init__(self, fault: str, directory: Path, tell: Callable[[str], object], voters: str = "witness") -> None:
        """
        Args:
            tell: takes lines for people.
            voters: as `Pair` takes them.
        """
        self._name = fault
        self._entry = FAULTS[fault]
        self._tell = tell
        self._voters = voters
        directory.mkdir(parents=True, exist_ok=True)
        self._ground = self._entry.ground(directory)
        self._fault = self._entry.make(self._ground)
        self._is_held = True
        self._pair: Pair
        self._load: LiveLoad
        self._outputs: OutputWriters

    def run(self, rounds: int) -> DrillReport:
        """All rounds, or those up to the first that did not end: the pair is not what it was then."""
        done: list[Round] = []
        with contextlib.ExitStack() as afterwards:
            try:
                self._begin(afterwards)
                while len(done) < rounds:
                    done.append(self._round(len(done) + 1, is_last=len(done) + 1 == rounds))
            except (DrillError, ClientError, RuntimeFault) as error:  # Or a member refuses what was asked of it.
                self._is_held = False
                self._tell(f"round {len(done) + 1} did not end: {error}")
        return DrillReport(fault=self._name, rounds=tuple(done), held=self._is_held and all(one.held for one in done))

    def _begin(self, afterwards: contextlib.ExitStack) -> None:
        """`afterwards` undoes it in the reverse order, each whatever became of the others."""
        ground = self._ground
        afterwards.callback(ground.undo)
        ground.make()
        plcs = Plcs(ground.own_address)
        afterwards.callback(plcs.end)
        plcs.begin()
        self._pair = pair = Pair(ground, plcs.ports, self._voters)
        afterwards.callback(pair.end)
        afterwards.callback(ground.release)
        self._load = LiveLoad(pair.lines, pair.keys)
        self._outputs = OutputWriters(pair.lines, pair.keys, plcs.carried)
        afterwards.callback(self._load.stop)
        afterwards.callback(self._outputs.stop)
        self._fault.begin(pair)
        pair.start()
        self._load.start()
        self._outputs.start()

    def _round(self, number: int, *, is_last: bool) -> Round:
        pair, fault = self._pair, self._fault
        self._begun()
        fault.prepare(pair)
        began, ordered = self._load.acked(), self._outputs.counts()
        self._run_load(began, ordered)
        active, epoch_before = self._begun()
        fault_at = time.monotonic()
        fault.strike(pair, active)
        self._wait("the fault has had its effect", lambda: fault.is_felt(pair, active), fault.felt_s)
        is_back = self._comes_back(active)
        gap = max(gap_s(times, fault_at, time.monotonic()) for times in self._load.times())
        epoch_after = self._leading()[1]
        if is_back:
            fault.heal(pair, active)
        if is_last and (told := fault.conclude(pair, self._begun()[0])):
            self._tell(told)
        self._settled()
        account, written = self._judged(began), self._outputs.judge(ordered)
        self._is_held &= is_back and not (self._entry.is_orderly and written.stale_plain)
        one = Round(
            gap_s=round(gap, 3),
            acked=account.acked,
            lost=account.lost,
            doubled=account.doubled,
            reordered=account.reordered,
            stale_writes=written.stale_writes,
            stale_plain=written.stale_plain,
            epoch_before=epoch_before,
            epoch_after=epoch_after,
        )
        for line in (*account.details, *written.details):
            self._tell(line)
        self._tell(f"round {number}: {active} led; {one.told()}")
        return one

    def _run_load(self, acked: Sequence[int], ordered: Mapping[str, int]) -> None:
        """Wait until samples and orders flow."""
        self._load.offer(is_on=True)
        self._outputs.write(is_on=True)
        self._wait("the load runs", lambda: self._load.is_past(acked), BACK_S)

        def writes() -> bool:
            return all(count > ordered[level] for level, count in self._outputs.counts().items())

        self._wait("every output is written", writes, BACK_S)
        self._pair.wait_steady()

    def _comes_back(self, active: str) -> bool:
        """Whether the service does by itself; otherwise the fault is undone, and it has to come back then."""
        offered = self._load.offered()

        def is_back() -> bool:
            return self._load.is_past(offered)

        comes_back = True
        try:
            self._wait("the service is back by itself", is_back, self._fault.alone_s)
        except DrillError as error:
            comes_back = False
            self._tell(str(error))
            self._fault.heal(self._pair, active)
            self._wait("the service is back", is_back, BACK_S)
        time.sleep(AFTER_S)
        return comes_back

    def _begun(self) -> tuple[str, int]:
        """Active member and epoch, in the same look that found both in the set: a look later one may have left it."""
        active, view = self._pair.wait_healthy()
        return active, view.epoch

    def _leading(self) -> tuple[str, int]:
        """Active member and epoch; a member that is just busy is asked again."""
        found: list[tuple[str, int]] = []

        def leads() -> bool:
            acting = self._pair.acting()
            found.extend([] if acting is None else [(acting[0], acting[1].epoch)])
            return bool(found)

        self._wait("somebody says that it leads", leads, BACK_S)
        return found[0]

    def _settled(self) -> None:
        """Both members are in the set, and everything offered is acknowledged."""
        self._pair.wait_healthy()
        self._outputs.write(is_on=False)
        self._load.offer(is_on=False)
        self._wait("everything offered is acknowledged", lambda: self._load.is_drained, DRAIN_S)
        if self._entry.flaps:
            # A passive that comes and goes is held off ever longer by the member that has seen it; another has not.
            active, _ = self._begun()
            self._pair.hand_over(active)
            self._pair.wait_healthy()

    def _judged(self, began: Sequence[int]) -> RoundAccount:
        load, pair = self._load, self._pair
        acked = {name: range(low + 1, high + 1) for name, low, high in zip(PRODUCERS, began, load.acked(), strict=True)}
        position = load.position
        self._wait("the consumer has everything", lambda: load.sink.record.position >= position, DRAIN_S)
        records = {"consumer": load.sink.record}
        for name, line in zip(MEMBERS, pair.lines, strict=True):
            try:
                records[name] = read_log(line, pair.keys, f"reader of {name}", position)
            except TimeoutError as error:
                raise DrillError(f"the log of {name} can't be read: {error}") from error
        account = judge(acked, {reader: record.numbers for reader, record in records.items()})
        rewinds = [f"{reader}: {one}" for reader, record in records.items() for one in record.rewinds]
        for line_told in rewinds:
            self._tell(line_told)
        return account

    def _wait(self, what: str, condition: Callable[[], bool], within_s: float) -> None:
        """Wait as `Pair.until` does, and end early when the load has died."""

        def looked() -> bool:
            if self._load.failures:
                raise DrillError("; ".join(self._load.failures))
            return condition()

        try:
            self._pair.until(what, looked, within_s)
        except DrillError as error:
            told = [*(source.brief() for source in self._load.sources), *self._outputs.brief()]
            raise DrillError("\n  ".join([str(error), *told])) from error
