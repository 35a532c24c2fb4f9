"""A follower that is far behind arrives, whatever the live path does; and it takes what it takes in proportion.

A small world of records: the live path appends at a constant rate, the follower takes what is under way at a rate of
its own and stands still now and then, the loop of the holder is as busy as it likes to be.
"""

import random

from hypothesis import given
from hypothesis import strategies as st

from albireo.machine.feed.pace import LEAST, LOOK_NS, REST_NS, RESTS_MAX, SAVED_LOOKS
from albireo.machine.pair.events import Replicate
from albireo.machine.pair.outflow import PIECE_BYTES, Outflow
from albireo.model.instant import MS, SECOND, Instant

RECORD_BYTES = 100
PIECE = PIECE_BYTES // RECORD_BYTES
PIECES_PER_TURN = 4


class World:
    """Advances by turns of CORE; the follower is not in the set, so everything appended is committed."""

    def __init__(self, behind: int, live: float, takes: float, busy: float) -> None:
        """`live`, `takes`: records per ms; `busy`: part of all time that is turns."""
        self.outflow = Outflow()
        self.now, self.busy_ns = SECOND, 0.0
        self.live, self.takes, self.busy = live, takes, busy
        self.end, self.got = float(behind), 0.0
        self.outflow.asked(Replicate(session=1, to_run=1, epoch=1, after=0), Instant(self.now))

    @property
    def distance(self) -> int:
        return int(self.end) - self.outflow.sent

    def turn(self, after_ms: float, *, stands: bool = False) -> int:
        """Some time later; records sent."""
        outflow = self.outflow
        self.now += int(after_ms * MS)
        self.busy_ns += self.busy * after_ms * MS
        self.end += self.live * after_ms
        if not stands:
            self.got = min(self.got + self.takes * after_ms, outflow.sent)
        outflow.acked(1, int(self.got))
        end, before = int(self.end), outflow.sent
        outflow.passed(end, end, int(self.busy_ns), Instant(self.now))
        for _ in range(PIECES_PER_TURN):
            size = outflow.wanted(end, end)
            if size:
                last = min(end, outflow.sent + max(1, size // RECORD_BYTES))
                outflow.took(last, (last - outflow.sent) * RECORD_BYTES)
        return outflow.sent - before


@given(
    behind=st.integers(100_000, 3_000_000),
    live=st.one_of(st.just(0.0), st.floats(0.001, 600.0)),
    spare=st.floats(1.5, 4.0),
    busy=st.floats(0.0, 1.0),
    seed=st.integers(0, 2**32),
)
def test_it_arrives(behind: int, live: float, spare: float, busy: float, seed: int) -> None:
    """However busy the loop is, and though the follower stands still a quarter of the time, 100 ms at once or more."""
    chance = random.Random(seed)
    takes = max(live, 50.0) * spare / 0.75
    world = World(behind, live, takes, busy)
    slowest = max(0.75 * (LEAST - 1) * live, PIECE / (REST_NS / MS) - live, 1.0)
    limit = world.now + (2 * behind / slowest + 5_000) * MS
    while world.distance > PIECE and world.now < limit:
        stands = chance.random() < 0.25
        for _ in range(10):
            world.turn(chance.uniform(1, 19), stands=stands)
    assert world.distance <= PIECE, f"still {world.distance} behind"


@given(live=st.floats(300.0, 600.0), turn_ms=st.floats(0.5, 10.0))
def test_a_busy_live_path_has_the_larger_part(live: float, turn_ms: float) -> None:
    """A follower that could take ten times as much is given little more than what the live path appends."""
    world = World(50_000_000, live, 10 * live, 1.0)
    sent = began = 0.0
    while sent < 1_000_000:
        sent += world.turn(turn_ms)
        began += turn_ms
    assert sent <= LEAST * live * began + SAVED_LOOKS * live * LOOK_NS / MS + (RESTS_MAX + PIECES_PER_TURN) * PIECE


@given(behind=st.integers(1_000_000, 3_000_000), busy=st.floats(0.0, 1.0))
def test_an_idle_live_path_leaves_all_to_it(behind: int, busy: float) -> None:
    """After two looks nothing holds it back but the window: it takes what the follower takes."""
    world = World(behind, 0.0, 500.0, busy)
    for _ in range(100):
        world.turn(2 * LOOK_NS / MS / 100)
    left, began = world.distance, world.now
    while world.distance:
        world.turn(1.0)
    assert world.now - began <= (left / 500.0 + 10) * MS
