"""Rot, holes, truncation, lying disks: every committed frame is there, or its loss is reported; never wrong data."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from albireo.log.log import Log
from albireo.log.segment.recovery import CorruptRange
from albireo.sim.engine.disk import SECTOR_BYTES, SimDisk
from tests.long_form import examples
from tests.parts.log import DIRECTORY, IDENTITY, SEGMENTS, SMALL, World, segment_paths

pytestmark = pytest.mark.slow

SETTINGS = settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
GROUPS = st.lists(st.lists(st.integers(0, 2500), min_size=1, max_size=4), min_size=2, max_size=8)


def _written(groups: list[list[int]], *, is_closed: bool) -> World:
    """A log with these groups, each committed; closed cleanly or killed."""
    world = World(SimDisk(1, page_bytes=SECTOR_BYTES))
    world.open()
    world.begin_epoch()
    for sizes in groups:
        world.append(*sizes)
        world.flush()
        world.commit()
        world.log.keep_house()
    if is_closed:
        world.log.close()
    else:
        world.disk.process_death()
    return world


def _data_end(world: World, path: Path) -> int:
    return len(world.disk.bytes_of(path).rstrip(b"\0"))


def _check(world: World, *, is_closed: bool) -> None:
    """Reopen: what C covers is there or reported; what lies above may be cut, and then says so."""
    committed = world.told
    world.open()
    report = world.report
    if is_closed:
        # The header knows the commit position, so nothing may be taken for a torn tail.
        assert report.committed_sequence == committed
        assert report.torn is None
    for found in report.corrupt:
        assert found.first_sequence <= found.last_sequence <= report.committed_sequence
    world.forget_cut()
    if not is_closed:
        # A hole over the very last frames leaves no trace: the mark frame is what narrows that window.
        world.written = [f for f in world.written if f.header.last_sequence <= report.end_sequence]
    world.commit()
    lost = world.check_never_wrong()
    # Recovery knows all damage in what it scanned, and reads meet the rest: both end up in `corrupt`.
    known = [(c.first_sequence, c.last_sequence) for c in world.log.corrupt]
    for low, high in lost:
        assert any(first <= low and high <= last for first, last in known), (lost, known)
    if not lost:
        assert {f.header.first_sequence for f in world.replayed()} == {f.header.first_sequence for f in world.written}
    _goes_on(world)


def _goes_on(world: World) -> None:
    """The log takes new records behind the damage, never a sequence twice, and they survive a power cut."""
    world.begin_epoch()
    before = world.log.end.sequence
    assert before >= world.report.committed_sequence
    world.append(10, 2000, 30)
    world.flush()
    world.commit()
    told = world.log.committed.sequence
    world.disk = world.disk.power_cut(3, survival_chance=0.0)
    world.open()
    assert world.log.end.sequence >= told > before
    assert world.report.torn is None
    world.commit()
    world.check_never_wrong()


@SETTINGS
@given(groups=GROUPS, is_closed=st.booleans(), data=st.data())
def test_flipped_bits(groups: list[list[int]], is_closed: bool, data: st.DataObject) -> None:
    world = _written(groups, is_closed=is_closed)
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(segment_paths(world.disk)))
        end = _data_end(world, path)
        if end:
            world.disk.flip(path, data.draw(st.integers(0, end - 1)), data.draw(st.integers(0, 7)))
    _check(world, is_closed=is_closed)


@SETTINGS
@given(groups=GROUPS, is_closed=st.booleans(), data=st.data())
def test_holes(groups: list[list[int]], is_closed: bool, data: st.DataObject) -> None:
    world = _written(groups, is_closed=is_closed)
    path = data.draw(st.sampled_from(segment_paths(world.disk)))
    start = data.draw(st.integers(0, max(0, _data_end(world, path) - 1)))
    world.disk.zero(path, start, data.draw(st.integers(1, 4096)))
    _check(world, is_closed=is_closed)


@SETTINGS
@given(groups=GROUPS, is_closed=st.booleans(), data=st.data())
def test_truncation(groups: list[list[int]], is_closed: bool, data: st.DataObject) -> None:
    world = _written(groups, is_closed=is_closed)
    path = data.draw(st.sampled_from(segment_paths(world.disk)))
    world.disk.truncate(path, data.draw(st.integers(0, _data_end(world, path))))
    _check(world, is_closed=is_closed)


@SETTINGS
@given(groups=GROUPS, is_closed=st.booleans(), data=st.data())
def test_missing_segment(groups: list[list[int]], is_closed: bool, data: st.DataObject) -> None:
    world = _written(groups, is_closed=is_closed)
    world.disk.unlink(data.draw(st.sampled_from(segment_paths(world.disk))))
    world.disk.sync_directory(SEGMENTS)
    _check(world, is_closed=is_closed)


@SETTINGS
@given(groups=GROUPS, data=st.data())
def test_damaged_sidecars_change_nothing(groups: list[list[int]], data: st.DataObject) -> None:
    world = _written(groups, is_closed=True)
    for path in world.disk.paths(SEGMENTS):
        if path.suffix == ".index":
            size = len(world.disk.bytes_of(path))
            world.disk.flip(path, data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, 7)))
    world.open()
    world.check_nothing_lost()


@SETTINGS
@given(groups=GROUPS, seed=st.integers(0, 2**32), chance=st.sampled_from([0.0, 0.3, 0.7]))
def test_lying_disk(groups: list[list[int]], seed: int, chance: float) -> None:
    """Syncs that do nothing: records are lost, but never replaced, and what the log knows of is reported."""
    world = World(SimDisk(seed, page_bytes=SECTOR_BYTES))
    world.open()
    world.begin_epoch()
    world.disk.lost_sync_chance = 0.3
    for sizes in groups:
        world.append(*sizes)
        world.flush()
        world.commit()
        world.log.keep_house()
    world.disk = world.disk.power_cut(seed, survival_chance=chance)
    world.told = 0  # Such a disk can lose anything that no surviving frame knows of.
    world.open()
    world.written = [f for f in world.written if f.header.last_sequence <= world.log.end.sequence]
    world.commit()
    world.check_never_wrong()
    _goes_on(world)


@SETTINGS
@given(groups=GROUPS, copy=st.sampled_from(["store.a", "store.b"]), data=st.data())
def test_one_damaged_store_header_is_repaired(groups: list[list[int]], copy: str, data: st.DataObject) -> None:
    world = _written(groups, is_closed=True)
    size = len(world.disk.bytes_of(DIRECTORY / copy).rstrip(b"\0"))
    world.disk.flip(DIRECTORY / copy, data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, 7)))
    world.open()
    assert world.report.repaired_copies == (copy,)
    assert world.report.was_clean
    world.check_nothing_lost()
    world.log.close()
    log, report = Log.open(DIRECTORY, IDENTITY, SMALL, world.disk)
    assert report.repaired_copies == ()
    log.close()


@SETTINGS
@given(groups=GROUPS, data=st.data())
def test_scrub_finds_what_nobody_reads(groups: list[list[int]], data: st.DataObject) -> None:
    world = _written(groups, is_closed=True)
    world.open()
    world.commit()
    sealed = segment_paths(world.disk)[:-1]
    if not sealed:
        return
    path = data.draw(st.sampled_from(sealed))
    world.disk.flip(path, data.draw(st.integers(0, _data_end(world, path) - 1)), data.draw(st.integers(0, 7)))
    found: list[CorruptRange] = []
    rounds = world.log.scrub_step(1).rounds
    while (step := world.log.scrub_step(data.draw(st.sampled_from([1, 500, 10_000])))).rounds == rounds:
        found += step.found
    found += step.found
    assert found or world.log.corrupt
    assert {c.segment for c in world.log.corrupt} == {path.name}
    assert world.check_never_wrong()
