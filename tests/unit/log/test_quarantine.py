"""Cuts are kept for people, within bounds: the oldest goes first, the newest never by itself."""

import dataclasses
import errno

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albireo.log import LogConfig
from albireo.log.config import DAY_NS, MIB
from albireo.log.store.quarantine import TRIMMED_MAX, Quarantine, Quarantined, Trimmer
from albireo.sim.engine.disk import PowerCut, SimDisk
from tests.parts.log import DIRECTORY, QUARANTINE, SMALL, World

WALL = 1_800_000_000 * 1_000_000_000


def limits(count: int = 1_000, size_bytes: int = 1_000 * MIB, days: int = 1_000) -> LogConfig:
    return LogConfig(quarantine_count_max=count, quarantine_bytes_max=size_bytes, quarantine_days_max=days)


@dataclasses.dataclass
class Shelf:
    """A quarantine with cuts that a test puts there."""

    disk: SimDisk
    quarantine: Quarantine

    def put(self, first: int, size_bytes: int, when_ns: int, seen_at: int | None = None) -> str:
        """`seen_at`: log time, here that of the wall clock if it is left out."""
        name = f"{first:020d}-0-{first:04x}.cut"
        self.quarantine.keep(name, [bytes(size_bytes)])
        note = Quarantined(
            name=f"{first:020d}-{first:04x}.note",
            first_sequence=first,
            last_sequence=first + 1,
            size_bytes=size_bytes,
            when_ns=when_ns,
            why="test",
            files=(name,),
            seen_at=when_ns if seen_at is None else seen_at,
        )
        self.quarantine.note(note)
        return note.name

    def names(self) -> list[str]:
        return [one.name for one in self.quarantine.listing()]

    def files(self) -> set[str]:
        return {path.name for path in self.disk.paths(QUARANTINE)}

    def trim(self, config: LogConfig, wall_ns: int = WALL, log_time: int | None = None) -> list[tuple[str, str]]:
        trimmed = self.quarantine.trim(config, wall_ns, wall_ns if log_time is None else log_time)
        return [(gone.what.name, gone.because) for gone in trimmed]


@pytest.fixture
def shelf() -> Shelf:
    disk = SimDisk(1)
    disk.install(QUARANTINE)
    return Shelf(disk, Quarantine(disk, QUARANTINE))


def test_too_many_the_oldest_goes_first_with_its_files(shelf: Shelf) -> None:
    third = shelf.put(1, 10, WALL - 1)  # By time, not by name.
    first = shelf.put(2, 10, WALL - 3)
    second = shelf.put(3, 10, WALL - 2)
    assert shelf.trim(limits(count=1)) == [(first, "more than 1 are kept"), (second, "more than 1 are kept")]
    assert shelf.names() == [third]
    assert len(shelf.files()) == 2, "a note and its file"


def test_too_many_bytes(shelf: Shelf) -> None:
    names = [shelf.put(number, MIB, WALL + number) for number in range(1, 6)]
    assert [name for name, _ in shelf.trim(limits(size_bytes=2 * MIB))] == names[:3]
    assert shelf.trim(limits(size_bytes=2 * MIB)) == []


def test_too_old(shelf: Shelf) -> None:
    old = shelf.put(1, 10, WALL - 8 * DAY_NS)
    shelf.put(2, 10, WALL - 6 * DAY_NS)
    shelf.put(3, 10, WALL)
    assert shelf.trim(limits(days=7)) == [(old, "it is older than 7 days")]


def test_the_newest_stays_whatever_it_is(shelf: Shelf) -> None:
    shelf.put(1, 10, WALL - 2 * DAY_NS)
    newest = shelf.put(2, 3 * MIB, WALL - DAY_NS)
    shelf.trim(limits(count=1, size_bytes=0, days=1), WALL + 100 * DAY_NS)
    assert shelf.names() == [newest]


def test_what_came_without_a_time_is_as_old_as_it_was_first_seen(shelf: Shelf) -> None:
    """A torn tail has no time in its note, a damaged snapshot has no note: neither is the oldest because of that."""
    shelf.put(1, 10, WALL - DAY_NS)
    shelf.put(2, 10, 0)
    shelf.quarantine.keep("4-77-0000abcd.snapshot", [b"damaged"])
    assert shelf.trim(limits(days=7)) == []
    assert {one.when_ns for one in shelf.quarantine.listing()} == {WALL - DAY_NS, WALL}
    assert len(shelf.names()) == 3
    assert len(shelf.trim(limits(days=7), WALL + 8 * DAY_NS)) == 2
    assert len(shelf.names()) == 1


def test_a_wall_clock_that_jumps_makes_nothing_old_and_what_is_new_not_the_oldest(shelf: Shelf) -> None:
    first = shelf.put(1, 10, WALL, seen_at=0)
    assert shelf.trim(limits(days=7), log_time=DAY_NS) == []
    ahead = shelf.put(2, 10, WALL + 366 * DAY_NS, seen_at=0)
    assert shelf.trim(limits(days=7), WALL + 366 * DAY_NS, DAY_NS + 1) == []
    behind = shelf.put(3, 10, WALL - 366 * DAY_NS, seen_at=0)
    assert shelf.trim(limits(days=7), WALL - 366 * DAY_NS, DAY_NS + 2) == []
    assert shelf.trim(limits(count=1), WALL, DAY_NS + 3) == [(one, "more than 1 are kept") for one in (first, ahead)]
    assert shelf.names() == [behind]


def test_a_log_of_an_earlier_log_time_lets_a_cut_have_its_whole_age_anew(shelf: Shelf) -> None:
    shelf.put(1, 10, WALL, seen_at=100 * DAY_NS)
    shelf.put(2, 10, WALL, seen_at=100 * DAY_NS)
    assert shelf.trim(limits(days=7), WALL, DAY_NS) == []
    assert shelf.trim(limits(days=7), WALL, 8 * DAY_NS) == []
    assert len(shelf.trim(limits(days=7), WALL, 8 * DAY_NS + 1)) == 1


def test_one_call_deletes_a_bounded_number(shelf: Shelf) -> None:
    for number in range(1, TRIMMED_MAX + 4):
        shelf.put(number, 10, WALL)
    trimmer = Trimmer(shelf.quarantine, limits(count=1), lambda task: task())
    gone = []
    for _ in range(2):
        trimmer.trim(WALL, WALL)
        gone.append(len(trimmer.let_go()))
    assert gone == [TRIMMED_MAX, 2]


def test_a_note_names_nothing_outside(shelf: Shelf) -> None:
    shelf.disk.close(shelf.disk.open(DIRECTORY / "store.a", create=True))
    first, second = shelf.put(1, 10, WALL), shelf.put(2, 10, WALL + 1)
    note = next(one for one in shelf.quarantine.listing() if one.name == first)
    shelf.quarantine.note(msgspec.structs.replace(note, files=("../store.a",)))
    shelf.trim(limits(count=1))
    assert second in shelf.names()
    assert DIRECTORY / "store.a" in shelf.disk.paths(DIRECTORY)


@settings(max_examples=60, deadline=None)
@given(
    cuts=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 3 * MIB)), min_size=1, max_size=12),
    count=st.integers(1, 12),
    mib=st.integers(0, 12),
    days=st.integers(1, 50),
)
def test_within_bounds_or_alone(cuts: list[tuple[int, int]], count: int, mib: int, days: int) -> None:
    disk = SimDisk(1)
    disk.install(QUARANTINE)
    shelf = Shelf(disk, Quarantine(disk, QUARANTINE))
    for number, (age_days, size_bytes) in enumerate(cuts, 1):
        shelf.put(number, size_bytes, WALL - age_days * DAY_NS)
    before = sorted(shelf.quarantine.listing(), key=lambda one: (one.when_ns, one.name))
    gone = shelf.trim(limits(count, mib * MIB, days))
    kept = sorted(shelf.quarantine.listing(), key=lambda one: (one.when_ns, one.name))
    assert [name for name, _ in gone] + [one.name for one in kept] == [one.name for one in before], "the oldest first"
    assert shelf.files() == {name for one in kept for name in (one.name, *one.files)}
    is_within = (
        len(kept) <= count
        and sum(one.size_bytes for one in kept) <= mib * MIB
        and all(WALL - one.when_ns <= days * DAY_NS for one in kept)
    )
    assert kept and (len(kept) == 1 or is_within)


@pytest.mark.parametrize("seed", range(4))
def test_a_power_cut_in_the_middle_leaves_what_goes_the_next_time(seed: int) -> None:
    """At any change that trimming makes to the disk: the newest is whole, and the rest is not there for ever."""
    changes = 1
    while True:
        disk = SimDisk(seed)
        disk.install(QUARANTINE)
        shelf = Shelf(disk, Quarantine(disk, QUARANTINE))
        names = [shelf.put(number, 10, WALL + number if number != 2 else 0) for number in range(1, 5)]
        disk.cut_at = len(disk.operations) + changes
        try:
            shelf.trim(limits(count=1))
            break
        except PowerCut:
            changes += 1
        after = disk.power_cut(seed + changes)
        shelf = Shelf(after, Quarantine(after, QUARANTINE))
        shelf.trim(limits(count=1))
        assert shelf.names() == names[-1:]
        assert len({name for name in shelf.files() if not name.endswith(".aside")}) == 2
    assert changes > 8


def test_a_disk_that_refuses_is_told_of(shelf: Shelf) -> None:
    shelf.put(1, 10, WALL)
    newest = shelf.put(2, 10, WALL + 1)
    trimmer = Trimmer(shelf.quarantine, limits(count=1), lambda task: task())
    shelf.disk.refuse = lambda operation, path: errno.EIO if operation == "unlink" else 0
    trimmer.trim(WALL, WALL)
    assert trimmer.let_go() == [] and "error" in trimmer.trouble
    shelf.disk.refuse = lambda operation, path: 0
    trimmer.trim(WALL, WALL)
    assert len(trimmer.let_go()) == 1 and not trimmer.trouble
    assert shelf.names() == [newest]


def test_a_log_keeps_its_last_cuts() -> None:
    world = World(SimDisk(3), msgspec.structs.replace(SMALL, quarantine_count_max=2))
    world.open()
    world.begin_epoch()
    world.append(*[20] * 12)
    world.flush()
    ends = [one.header.last_sequence for one in world.written]
    for number, end in enumerate(reversed(ends[3:8])):
        world.log.cut_to(end, why=f"cut {number}", node_ns=WALL + number)
    world.log.trimmer.trim(WALL + 10, 10)
    assert [gone.what.why for gone in world.log.trimmer.let_go()] == ["cut 0", "cut 1", "cut 2"]
    assert world.log.trimmer.let_go() == []
    assert [one.why for one in sorted(world.log.quarantine(), key=lambda one: one.when_ns)] == ["cut 3", "cut 4"]
