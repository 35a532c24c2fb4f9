"""A member outside the set on a machine that gives it too little: it comes into the set, at a price that is told.

The members' machines are real; the follower hears and says everything late, or its disk takes a few records a step.
"""

from collections import deque
from collections.abc import Callable
from pathlib import Path

from albireo.machine.pair.events import Event, FromPeer, LogChanged, State
from albireo.machine.pair.gain import SLOW_MOST_NS
from albireo.machine.pair.hold_off import HoldOff
from albireo.model.instant import MS, SECOND, Instant
from albireo.model.position import Position
from tests.parts.admin_actions import done
from tests.parts.pair import STEP_NS, Side, Table


class StarvedTable(Table):
    """A pair whose backup is starved."""

    def __init__(self, data: Path, *, late_ns: int = 0, records_per_step: int = 0, load: int = 0) -> None:
        """
        Args:
            late_ns: time for which each message between the members is on its way.
            records_per_step: most that the backup's disk takes in a step; 0: no bound.
            load: records that programs have under way at a time; the next ones come as these are committed.
        """
        self._late_ns = late_ns
        self._records_per_step = records_per_step
        self._on_the_way: deque[tuple[Instant, int, FromPeer]] = deque()
        super().__init__(data)
        self.load = load
        self.waits_ns = 0
        """Longest time for which what is under way was not committed."""
        self._offered_at = self.now

    def tell(self, index: int, event: FromPeer) -> None:
        self._on_the_way.append((Instant(self.now + self._late_ns), index, event))

    def call(self, side: Side, what: Callable[[], object]) -> None:
        if side.index == 0 or not self._records_per_step or what != side.synced:
            super().call(side, what)

    def pass_time(self, duration_ns: int) -> None:
        until = self.now + duration_ns
        while self.now < until:
            while self._on_the_way and self._on_the_way[0][0] <= self.now:
                _, index, event = self._on_the_way.popleft()
                super().tell(index, event)
            self.deliver()
            self._work()
            super().pass_time(STEP_NS)

    def _work(self) -> None:
        primary, backup = self.sides
        if self.load and primary.member.state in (State.SOLO, State.ACTIVE):
            if primary.log.told == primary.log.end:
                self._offered_at = self.now
                primary.append(primary.log.history.epoch, self.load)
            self.waits_ns = max(self.waits_ns, self.now - self._offered_at)
        durable = min(backup.log.end.sequence, backup.log.durable.sequence + self._records_per_step)
        if self._records_per_step and durable > backup.log.durable.sequence:
            at = Position(backup.log.history.epoch_of(durable), durable)
            backup.changed(durable=at, committed=min(at, backup.log.told))
            changed: Event = LogChanged()
            self.post(backup, changed)


def outside(table: StarvedTable, load: int) -> None:
    """The backup was away while much was recorded, and is back."""
    done(table.sides[0], "pair_init")
    table.sides[1].is_up = False
    table.wait_for(State.SOLO, State.JOINING)
    table.load = load
    table.pass_time(2 * SECOND)
    table.sides[1].is_up = True
    table.waits_ns = 0


def test_a_follower_that_hears_everything_late_comes_into_the_set(tmp_path: Path) -> None:
    table = StarvedTable(tmp_path, late_ns=140 * MS)
    outside(table, load=3)
    table.wait_for(State.ACTIVE, State.READY, within_ns=20 * SECOND)
    assert table.waits_ns <= 2 * SECOND


def test_a_follower_that_takes_less_than_is_recorded_slows_who_leads_by_a_bounded_time(tmp_path: Path) -> None:
    table = StarvedTable(tmp_path, records_per_step=5)
    outside(table, load=10)
    table.pass_time(10 * SECOND)
    status = table.sides[0].status.describe(table.sides[0].member, table.sides[0].log, table.now).catching_up
    if table.states() != (State.ACTIVE, State.READY):
        assert status is not None
        assert status.slowed_ms > 0
        assert status.behind > 0
    table.load = 10
    table.wait_for(State.ACTIVE, State.READY, within_ns=60 * SECOND)
    assert table.waits_ns <= 2 * SECOND
    assert table.sides[0].status.describe(table.sides[0].member, table.sides[0].log, table.now).catching_up is None


def test_a_follower_that_gains_slows_nobody(tmp_path: Path) -> None:
    table = StarvedTable(tmp_path, records_per_step=20)
    outside(table, load=10)
    table.wait_for(State.ACTIVE, State.READY, within_ns=20 * SECOND)
    assert table.waits_ns <= SLOW_MOST_NS


def test_a_follower_that_is_kept_outside_and_is_near_slows_nobody(tmp_path: Path) -> None:
    table = StarvedTable(tmp_path, late_ns=40 * MS)
    outside(table, load=3)
    holder = table.sides[0].member.holder
    assert holder is not None
    holder.hold_off = HoldOff(None, 0, Instant(table.now + 60 * SECOND))
    table.pass_time(30 * SECOND)
    assert table.states() == (State.SOLO, State.CATCHING_UP)
    assert holder.slow_ns == 0
