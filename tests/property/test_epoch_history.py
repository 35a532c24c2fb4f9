"""Epoch histories that let go of their oldest entries say the same as those that keep all."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albireo.log import LogConfig
from albireo.model.instant import LogTime
from albireo.model.position import EPOCHS_MAX, EPOCHS_MOST, EpochEntry, EpochHistory, Position
from albireo.sim.engine.disk import SimDisk
from tests.parts.log import World


@st.composite
def branches(draw: st.DrawFn) -> tuple[EpochHistory, EpochHistory, int]:
    """Two histories with a common beginning, and where both logs begin, within it."""
    chance = random.Random(draw(st.integers(0, 2**32)))
    shared: list[EpochEntry] = []
    epoch, sequence = 0, 1
    for _ in range(draw(st.integers(1, 8))):
        epoch += chance.randint(1, 3)
        shared.append(EpochEntry(epoch, sequence, chance.getrandbits(64)))
        sequence += chance.randint(1, 10)
    ends = [list(shared), list(shared)]
    for one in ends:
        own_epoch, own_sequence = epoch, sequence
        for _ in range(chance.randint(0, 3)):
            own_epoch += chance.randint(1, 3)
            one.append(EpochEntry(own_epoch, own_sequence, chance.getrandbits(64)))
            own_sequence += chance.randint(1, 10)
    return EpochHistory(tuple(ends[0])), EpochHistory(tuple(ends[1])), chance.randint(1, sequence)


def pruned(history: EpochHistory, begin: int) -> EpochHistory:
    """What `granted` leaves of a full history."""
    needed = max(index for index, one in enumerate(history.entries) if one.first_sequence <= max(1, begin - 1))
    return EpochHistory(history.entries[needed:])


@given(branches(), st.integers(0, 120), st.integers(0, 120))
def test_one_that_let_go_of_entries_has_the_same_common_point(
    made: tuple[EpochHistory, EpochHistory, int], own_end: int, other_end: int
) -> None:
    mine, theirs, begin = made
    common = mine.common_point(theirs, own_end, other_end)
    for one, other in (
        (pruned(mine, begin), theirs),
        (mine, pruned(theirs, begin)),
        (pruned(mine, begin), pruned(theirs, 1)),
    ):
        assert one.common_point(other, own_end, other_end) == common
    for sequence in range(max(1, begin - 1), 120):
        assert pruned(mine, begin).position(sequence) == mine.position(sequence)


def test_a_full_history_lets_go_of_what_lies_before_the_log_and_the_grant_goes_through() -> None:
    """Without room in the store header a grant ended in an exception, at each start."""
    count = EPOCHS_MAX + 20
    full = EpochHistory(tuple(EpochEntry(epoch, epoch, 2**64 - epoch) for epoch in range(1, count + 1)))
    world = World(SimDisk(1), LogConfig(segment_bytes=16384, free_bytes_min=0))
    world.open()
    after = Position(count - 10, count - 10)
    world.log.start_over(after, 1, LogTime(0), history=full, why="test", node_ns=1)
    entry = EpochEntry(count + 1, world.log.end.sequence + 1, 7)
    world.log.grant(entry)
    kept = world.log.history
    assert kept.entries[-1] == entry
    assert kept.entries[0] == full.entries[count - 11], "the one of the last record before the log"
    assert world.log.end == after
    assert kept.common_point(full, after.sequence, count) == after.sequence


@pytest.mark.parametrize("count", [1, EPOCHS_MAX - 1])
def test_one_that_is_not_full_keeps_everything(count: int) -> None:
    history = EpochHistory(tuple(EpochEntry(epoch, epoch, 1) for epoch in range(1, count + 1)))
    granted = history.granted(EpochEntry(count + 1, count + 1, 1), begin_sequence=count)
    assert len(granted.entries) == count + 1


def test_as_many_epochs_as_are_ever_granted_fit_into_a_store_header_whatever_their_numbers() -> None:
    most = 2**63 - 1
    entries = tuple(EpochEntry(most - EPOCHS_MOST + place, most, 2**64 - 1) for place in range(EPOCHS_MOST))
    world = World(SimDisk(1), LogConfig(segment_bytes=16384, free_bytes_min=0))
    world.open()
    world.log.promise(most, most, EpochHistory(entries))
    assert world.log.history.entries == entries


@pytest.mark.parametrize(
    ("missing", "begin_sequence", "has_room"), [(0, 1, False), (0, 20, False), (0, 21, True), (1, 1, True)]
)
def test_a_full_history_has_room_again_once_its_second_epoch_begins_before_the_log(
    missing: int, begin_sequence: int, has_room: bool
) -> None:
    history = EpochHistory(tuple(EpochEntry(epoch, 10 * epoch, 1) for epoch in range(1, EPOCHS_MOST + 1 - missing)))
    assert history.has_room(begin_sequence) == has_room
    granted = history.granted(EpochEntry(EPOCHS_MOST + 1, 10**6, 1), begin_sequence)
    assert (len(granted.entries) <= EPOCHS_MOST) == has_room


def test_a_history_longer_than_any_is_none() -> None:
    entries = tuple(EpochEntry(epoch, epoch, 1) for epoch in range(1, EPOCHS_MOST + 2))
    assert EpochHistory.told(entries) is None
    assert EpochHistory.told(entries[1:]) is not None
