"""When changes leave for a viewer: the first one at once, then at most one delta per tick."""

from itertools import pairwise

import pytest

from albireo.codec.message import FeedHello, FeedState
from albireo.machine.feed.state import TICK_LEAST_NS, TICK_NS, StateFeed
from albireo.machine.kernel.turn import Turn
from albireo.model.instant import MS, SECOND, Instant
from albireo.model.position import BEGINNING, Position
from tests.parts.drafted import view_of
from tests.parts.feed import FACTS, HISTORY
from tests.parts.feed_bounds import Table


class Viewed:
    """A feed with one viewer that takes all; time goes on from deadline to deadline."""

    def __init__(self, late_ns: int = 0) -> None:
        """`late_ns`: time from each deadline to the turn in which it is seen."""
        self.feed, self.late_ns = StateFeed(Table()), late_ns
        self.now, self.committed = Instant(0), Position(2, 1)
        self.deltas: list[tuple[Instant, Position]] = []
        self.turns = 0
        self.feed.hello(b"v", FeedHello(follower="v", mode="state", credit_bytes=1 << 24), FACTS, self.now)
        self.until(10 * SECOND)
        self.deltas.clear()

    def until(self, end: int) -> None:
        """Let time pass, up to but not including `end`."""
        while (due := self.feed.deadline(self.committed)) is not None and max(due, self.now) + self.late_ns < end:
            self.now = Instant(max(due, self.now) + self.late_ns)
            self.turns += 1
            turn = Turn(view_of([], HISTORY, BEGINNING), 1)
            self.feed.time_passed(2, self.committed, self.committed, self.now, turn, is_acting=True)
            self.deltas += [
                (self.now, one.message.position) for one in turn.sends if isinstance(one.message, FeedState)
            ]
        self.now = Instant(max(self.now, end))

    def changed(self, at: int) -> None:
        self.until(at)
        self.committed = Position(2, self.committed.sequence + 1)


def test_the_first_change_after_a_silence_leaves_at_once() -> None:
    viewed = Viewed()
    viewed.changed(at=10 * SECOND + 37 * MS)
    viewed.until(11 * SECOND)
    assert viewed.deltas == [(10 * SECOND + 37 * MS, Position(2, 2))]


def test_changes_that_go_on_are_joined_once_per_tick() -> None:
    viewed = Viewed()
    for number in range(1_000):
        viewed.changed(at=10 * SECOND + number * MS)
    viewed.until(12 * SECOND)
    assert 45 <= len(viewed.deltas) <= 52
    assert all(later - sooner >= TICK_LEAST_NS for (sooner, _), (later, _) in pairwise(viewed.deltas))
    assert viewed.deltas[-1][1] == Position(2, 1_001)


@pytest.mark.parametrize("phase_ms", [0, 1, 50, 99])
@pytest.mark.parametrize("late_ms", [0, 3, 20])
def test_changes_that_come_once_per_tick_are_not_joined_because_turns_are_late(phase_ms: int, late_ms: int) -> None:
    viewed = Viewed(late_ms * MS)
    for number in range(100):
        viewed.changed(at=10 * SECOND + phase_ms * MS + number * TICK_NS)
    viewed.until(25 * SECOND)
    assert [position.sequence for _, position in viewed.deltas] == list(range(2, 102))


def test_a_quiet_viewer_costs_no_turn_but_for_life_signs() -> None:
    viewed = Viewed()
    before = viewed.turns
    viewed.until(20 * SECOND)
    assert viewed.turns - before <= 20


def test_a_viewer_without_room_is_waited_for_and_keeps_nobody_busy() -> None:
    feed, now = StateFeed(Table()), Instant(10 * SECOND)
    feed.hello(b"v", FeedHello(follower="v", mode="state", credit_bytes=0), FACTS, now)
    turn = Turn(view_of([], HISTORY, BEGINNING), 1)
    feed.time_passed(2, Position(2, 5), Position(2, 5), now, turn, is_acting=True)
    due = feed.deadline(Position(2, 5))
    assert due is not None
    assert due > now
