"""A member's life with cuts and a new beginning, with the power failing at every change it makes to the disk."""

import contextlib
from collections.abc import Callable, Sequence

import pytest

from albireo.log import Corrupted, LogConfig
from albireo.sim.engine.disk import PAGE_BYTES, SECTOR_BYTES, PowerCut, SimDisk
from tests.long_form import IS_LONG, some
from tests.parts.log import DIRECTORY, same, segment_paths
from tests.parts.log_member import Member, frames_of

CONFIG = LogConfig(segment_bytes=8192, pending_bytes_max=1 << 20, free_bytes_min=0, index_every_bytes=512)


def _holder() -> Member:
    """Its frames speak of commit positions right before them, as those of a lone holder do."""
    holder = Member(0, SimDisk(1), CONFIG)
    holder.open()
    holder.lead(2)
    for step in range(20):
        holder.append(300, 100 * step, 20)
        holder.flush_and_commit()
        holder.log.keep_house()
    return holder


HOLDER = _holder()


def _life(member: Member) -> None:
    """Catch up, cut in the middle of a segment, at its beginning, what was not written, everything; start over."""
    member.open()
    member.log.keep_house()
    member.follow(HOLDER)
    member.feed(HOLDER, 3000)
    member.log.flush()
    member.log.save_snapshot(member.log.committed, member.log.log_time, {"fold": b"state"})
    ends = [frame.header.last_sequence for frame in HOLDER.branch]
    starts = [path.first_sequence for path in member.log._stored.table.segments]
    member.cut(ends[-4])
    member.lead(5)
    member.append(700, 2000, 3000)
    member.log.flush()
    member.append(1500, 40)
    member.follow(HOLDER)
    member.feed(HOLDER, 500)
    member.cut(ends[-2])
    member.log.flush()
    member.log.keep_house()
    member.cut(starts[2] - 1)
    member.feed(HOLDER, 500, 2)
    member.log.flush()
    member.cut(0)
    member.follow(HOLDER)
    member.feed(HOLDER)
    member.log.flush()
    member.start_over(HOLDER, HOLDER.branch[30].header)
    member.feed(HOLDER)
    member.log.flush()
    member.log.close()


def _changes() -> int:
    member = Member(1, SimDisk(1), CONFIG)
    _life(member)
    return len(member.disk.operations)


CHANGES = _changes()


def test_the_script_is_worth_cutting() -> None:
    assert CHANGES > 150


class Cuttable(SimDisk):
    """Lets somebody look at it in the middle of every change, where `cut_at` would end it, and goes on."""

    def __init__(self, page_bytes: int = SECTOR_BYTES) -> None:
        super().__init__(1, page_bytes=page_bytes)
        self.at_change: Callable[[int], None] = lambda change: None
        self._seen = 0

    def _end_step(self) -> None:
        change = len(self.operations)
        if change > self._seen:
            self._seen = change
            self.at_change(change)

    def cut(self, seed: int, chance: float) -> SimDisk:
        """Log that is there after a power cut right now."""
        after = self.power_cut(seed, survival_chance=chance)
        self._is_off = False
        return after


def some_cuts(chances: Sequence[float], turn: int) -> Sequence[tuple[int, float]]:
    """Seeds and chances to survive; only the one whose turn it is, but for the long form."""
    cuts = tuple(enumerate(chances))
    return cuts if IS_LONG else (cuts[turn % len(cuts)],)


def after_cut(member: Member, disk: SimDisk) -> Member:
    """It draws on from where this one is."""
    after = Member(member.index, disk, CONFIG)
    after.random.setstate(member.random.getstate())
    after.open()
    return after


@pytest.mark.slow
@pytest.mark.parametrize("page_bytes", [PAGE_BYTES, SECTOR_BYTES])
def test_power_cut_at_every_change_leaves_a_log_uncut_or_cut(page_bytes: int) -> None:
    """One life; at each change the power fails for a copy of it."""
    disk = Cuttable(page_bytes)
    member = Member(1, disk, CONFIG)
    changes = 0

    def cut(change: int) -> None:
        nonlocal changes
        changes = change
        if not hasattr(member, "log"):
            return
        states = member.states()
        for seed, chance in some_cuts((0.0, 0.5, 0.9, 1.0), change + (page_bytes == PAGE_BYTES)):
            after = after_cut(member, disk.cut(seed, chance))
            after.check(states)
            after.follow(HOLDER)
            after.feed(HOLDER)
            after.flush_and_commit()
            after.log.close()

    disk.at_change = cut
    _life(member)
    assert changes == CHANGES


@pytest.mark.slow
@pytest.mark.parametrize("first_cut", range(30, CHANGES, 23))
def test_a_cut_is_finished_whenever_finishing_it_is_interrupted(first_cut: int) -> None:
    torn = Member(1, SimDisk(1, page_bytes=SECTOR_BYTES, cut_at=first_cut), CONFIG)
    with contextlib.suppress(PowerCut):
        _life(torn)
    states = torn.states()
    second_cut, is_through = 0, False
    while not is_through:
        second_cut += 1
        member = Member(1, torn.disk.power_cut(7, survival_chance=0.6), CONFIG)
        member.disk.cut_at = second_cut
        try:
            member.open()
            is_through = True
        except PowerCut:
            member.disk = member.disk.power_cut(8, survival_chance=0.5)
            member.open()
        member.disk.cut_at = None
        member.check(states)


def _twin(disk: SimDisk) -> Member:
    """Holds what the holder holds; rot has taken parts of two segments and the end of a third."""
    member = Member(1, disk, CONFIG)
    member.open()
    member.follow(HOLDER)
    while member.log.durable != HOLDER.log.durable:
        member.feed(HOLDER)
        member.log.flush()
        member.log.keep_house()
    member.log.commit(HOLDER.log.committed)
    member.log.close()
    first, second, third, *_ = segment_paths(disk)
    disk.zero(first, 500, 700)
    disk.zero(first, 4000, 200)
    disk.zero(second, 0, 8192)
    disk.truncate(third, 3000)
    for path in disk.paths(DIRECTORY / "segments"):
        if path.suffix == ".index":
            disk.unlink(path)
    disk.sync_directory(DIRECTORY / "segments")
    return member


def _repair(member: Member, bytes_max: int) -> None:
    while member.log.corrupt:
        member.log.repair(HOLDER.log.read(member.log.corrupt[0].first_sequence - 1, bytes_max))
        member.log.keep_house()


@pytest.mark.slow
@pytest.mark.parametrize("bytes_max", some([1, 1 << 20], 2))
def test_power_cut_at_every_change_of_a_repair_loses_nothing_and_invents_nothing(bytes_max: int) -> None:
    """Afterwards each frame is right or known to be damaged, nothing is cut, and the repair can go on."""
    disk = Cuttable()
    member = _twin(disk)
    member.open()
    lost = missing(member)
    begin = changes = len(disk.operations)

    def cut(change: int) -> None:
        nonlocal changes
        changes = change
        for seed, chance in some_cuts((0.0, 0.5, 1.0), change + (bytes_max == 1)):
            after = after_cut(member, disk.cut(seed, chance))
            assert after.report.torn is None
            assert after.log.end == HOLDER.log.end
            assert missing(after) <= lost
            is_repaired(after, bytes_max)

    disk.at_change = cut
    is_repaired(member, bytes_max)
    assert changes > begin + 20


def is_repaired(member: Member, bytes_max: int) -> None:
    _repair(member, bytes_max)
    assert missing(member) == set()
    assert len(held := member.held()) == len(HOLDER.branch)
    assert all(map(same, held, HOLDER.branch))
    member.disk.process_death()
    member.open()
    assert missing(member) == set()
    assert member.report.corrupt == ()


def missing(member: Member) -> set[int]:
    """First sequences of the holder's frames that the member says it can't read; all others are right."""
    lost: set[int] = set()
    member.log.commit(member.log.durable)
    for frame in HOLDER.branch:
        after = frame.header.first_sequence - 1
        try:
            assert same(frames_of(member.log.read(after, 1))[0], frame)
        except Corrupted:
            lost.add(after + 1)
    return lost
