"""Whatever an honest disk does at a crash, what was told is there afterwards, and nothing that was not written."""

import contextlib

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from albireo.log import LogStopped
from albireo.sim.engine.disk import PAGE_BYTES, SECTOR_BYTES, PowerCut, SimDisk
from tests.long_form import examples
from tests.parts.log import World

pytestmark = pytest.mark.slow

SIZES = st.lists(st.integers(0, 3000), min_size=1, max_size=6)
EIO = 5


class CrashingLog(RuleBasedStateMachine):
    """A standalone node that dies in every way its machine can die, again and again."""

    @initialize(page_bytes=st.sampled_from([PAGE_BYTES, SECTOR_BYTES]), short_writes=st.booleans())
    def begin(self, page_bytes: int, short_writes: bool) -> None:
        self.world = World(SimDisk(1, page_bytes=page_bytes))
        self.short_writes = short_writes
        self._reopen()

    def _reopen(self) -> None:
        self.world.disk.short_write_chance = 0.3 if self.short_writes else 0.0
        self.world.open()
        self.world.check_nothing_lost()
        self.world.begin_epoch()

    @rule(sizes=SIZES, stream=st.integers(1, 3))
    def append(self, sizes: list[int], stream: int) -> None:
        self.world.append(*sizes, stream=stream)

    @rule()
    def flush(self) -> None:
        self.world.flush()

    @rule()
    def flush_and_commit(self) -> None:
        self.world.flush()
        self.world.commit()

    @rule()
    def keep_house(self) -> None:
        self.world.log.keep_house()

    @precondition(lambda self: self.world.log.committed.sequence > 0)
    @rule()
    def snapshot(self) -> None:
        log = self.world.log
        assert log.save_snapshot(log.committed, log.log_time, {"fold": str(log.committed).encode()})
        assert log.trouble == ""

    @rule()
    def prune(self) -> None:
        self.world.log.prune(self.world.log.end.sequence + 1)

    @rule()
    def scrub(self) -> None:
        assert self.world.log.scrub_step(1000).found == ()

    @rule()
    def close_and_open(self) -> None:
        end = self.world.log.end
        self.world.log.close()
        self._reopen()
        assert self.world.report.was_clean
        assert self.world.report.torn is None
        assert self.world.log.end == end

    @rule(seed=st.integers(0, 2**32), chance=st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]))
    def power_cut(self, seed: int, chance: float) -> None:
        self.world.disk = self.world.disk.power_cut(seed, survival_chance=chance)
        self._reopen()

    @rule(
        sizes=SIZES,
        operations=st.integers(1, 8),
        seed=st.integers(0, 2**32),
        chance=st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]),
    )
    def power_cut_while_writing(self, sizes: list[int], operations: int, seed: int, chance: float) -> None:
        """The honest power cut: some pages of a group are on the disk and others are not."""
        disk = self.world.disk
        self.world.append(*sizes)
        disk.cut_at = len(disk.operations) + operations
        with contextlib.suppress(PowerCut):
            self.world.flush()
        self.world.disk = disk.power_cut(seed, survival_chance=chance)
        self._reopen()

    @rule()
    def process_death(self) -> None:
        self.world.disk.process_death()
        self._reopen()

    @rule(sizes=SIZES, operation=st.sampled_from(["sync", "pwritev"]))
    def failed_commit(self, sizes: list[int], operation: str) -> None:
        """An error in a prepared segment stops the log for good; the next process rewrites what is in doubt."""
        self.world.append(*sizes)
        disk = self.world.disk
        disk.refuse = lambda op, path: EIO if op == operation and path.suffix == ".segment" else 0
        durable = self.world.log.durable
        try:
            self.world.flush()
        except LogStopped:
            assert self.world.log.durable == durable
            assert self.world.log.admission()
        disk.refuse = lambda op, path: 0
        disk.process_death()
        self._reopen()

    @rule(seed=st.integers(0, 2**32), operations=st.integers(1, 40))
    def power_cut_during_recovery(self, seed: int, operations: int) -> None:
        """Recovery is itself interrupted, and again, until it gets through."""
        world = self.world
        world.disk = world.disk.power_cut(seed)
        for round_ in range(20):
            world.disk.cut_at = operations * (round_ + 1)
            if _opens(world):
                world.disk.cut_at = None
                break
            world.disk = world.disk.power_cut(seed + round_)
        world.check_nothing_lost()
        world.begin_epoch()

    @invariant()
    def snapshots_fit(self) -> None:
        """Every snapshot can be replayed from."""
        log = self.world.log
        for snapshot in log.load_snapshots():
            assert snapshot.sections == {"fold": str(snapshot.position).encode()}
            assert log.begin_sequence - 1 <= snapshot.position.sequence <= log.committed.sequence


def _opens(world: World) -> bool:
    try:
        world.open()
    except PowerCut:
        return False
    return True


TestCrashingLog = CrashingLog.TestCase
TestCrashingLog.settings = settings(
    max_examples=examples(60), stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
