"""Two members, leading in turn: each holds a beginning of some branch, never of two, whatever crashes and cuts do."""

import contextlib
import random
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from albireo.codec.errors import DecodeError
from albireo.codec.frame import Frame, frames
from albireo.log import LogConfig
from albireo.sim.engine.disk import PAGE_BYTES, SECTOR_BYTES, PowerCut, SimDisk
from tests.long_form import examples
from tests.parts.log import same, segment_paths
from tests.parts.log_member import Member, is_prefix

pytestmark = pytest.mark.slow

CONFIG = LogConfig(
    segment_bytes=8192, pending_bytes_max=1 << 20, free_bytes_min=0, index_every_bytes=512, tail_bytes_max=5000
)
SIZES = st.lists(st.integers(0, 2500), min_size=1, max_size=6)
CHANCES = st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0])


class TwoLogs(RuleBasedStateMachine):
    """The shell's part: who leads is drawn; the rules of the pair (votes, sets) are not played here, so logs fork."""

    @initialize(page_bytes=st.sampled_from([PAGE_BYTES, SECTOR_BYTES]))
    def begin(self, page_bytes: int) -> None:
        self.members = [Member(index, SimDisk(index, page_bytes=page_bytes), CONFIG) for index in (0, 1)]
        for member in self.members:
            member.open()
        self.branches: list[list[Frame]] = []
        self.epoch = 0
        self.sessions = [0, 0]
        """Epoch under which a member verified its log against the holder's; 0: it has not."""
        self.grant(0)

    @property
    def holder(self) -> Member:
        return self.members[self.leads]

    @property
    def follower(self) -> Member:
        return self.members[1 - self.leads]

    @rule(who=st.integers(0, 1))
    def grant(self, who: int) -> None:
        """Takeover, or the same one again: a new branch begins where its log ends."""
        self.leads = who
        self.epoch += 1
        self.holder.lead(self.epoch)
        self.branches.append(list(self.holder.branch))
        self.sessions = [0, 0]

    @rule(sizes=SIZES)
    def append(self, sizes: list[int]) -> None:
        self.holder.append(*sizes)
        self.branches[-1] = list(self.holder.branch)

    @rule(bytes_max=st.integers(1, 9000), chunks=st.integers(1, 4))
    def replicate(self, bytes_max: int, chunks: int) -> None:
        self._verify()
        self.follower.feed(self.holder, bytes_max, chunks)

    def _verify(self) -> None:
        if self.sessions[1 - self.leads] != self.epoch:
            common = self.follower.follow(self.holder)
            assert is_prefix(self.follower.branch, self.holder.branch), f"mixed at {common}"
            self.sessions[1 - self.leads] = self.epoch

    @rule(who=st.integers(0, 1))
    def flush(self, who: int) -> None:
        self.members[who].log.flush()

    @rule()
    def commit(self) -> None:
        self.holder.flush_and_commit()

    @rule(who=st.integers(0, 1))
    def keep_house(self, who: int) -> None:
        self.members[who].log.keep_house()

    @rule(who=st.integers(0, 1))
    def snapshot(self, who: int) -> None:
        log = self.members[who].log
        frames_there = [one for one in self.members[who].branch if one.header.last == log.committed]
        if frames_there:
            body = str(frames_there[-1].header.header_crc).encode()
            assert log.save_snapshot(log.committed, log.log_time, {"fold": body})

    @rule(place=st.floats(0, 1))
    def cut(self, place: float) -> None:
        """The follower loses its end for no reason; it has to be verified again."""
        ends = [0, *[frame.header.last_sequence for frame in self.follower.branch]]
        self.follower.cut(ends[int(place * (len(ends) - 1))])
        self.sessions[1 - self.leads] = 0

    @rule(who=st.integers(0, 1), seed=st.integers(0, 2**32), chance=CHANCES)
    def power_cut(self, who: int, seed: int, chance: float) -> None:
        self._crashed(who, seed, chance)

    def _crashed(self, who: int, seed: int, chance: float) -> None:
        self.members[who].power_cut(seed, chance)
        self.sessions[who] = 0
        if who == self.leads:
            self.grant(who)

    @rule(sizes=SIZES, operations=st.integers(1, 8), who=st.integers(0, 1), seed=st.integers(0, 2**32), chance=CHANCES)
    def power_cut_while_writing(self, sizes: list[int], operations: int, who: int, seed: int, chance: float) -> None:
        self.append(sizes)
        self.replicate(3000, 3)
        disk = self.members[who].disk
        disk.cut_at = len(disk.operations) + operations
        with contextlib.suppress(PowerCut):
            self.members[who].log.flush()
        self._crashed(who, seed, chance)

    @rule(place=st.floats(0, 1), operations=st.integers(1, 25), seed=st.integers(0, 2**32), chance=CHANCES)
    def power_cut_while_cutting(self, place: float, operations: int, seed: int, chance: float) -> None:
        disk = self.follower.disk
        disk.cut_at = len(disk.operations) + operations
        with contextlib.suppress(PowerCut):
            self.cut(place)
        self._crashed(1 - self.leads, seed, chance)

    @invariant()
    def each_holds_a_beginning_of_some_branch(self) -> None:
        for member in self.members:
            held = member.held()
            assert len(held) == len(member.branch)
            assert all(map(same, held, member.branch))
            assert any(is_prefix(held, branch) for branch in self.branches)
            assert member.log.committed.sequence <= member.log.durable.sequence <= member.log.end.sequence

    @invariant()
    def what_is_on_the_disk_is_that_too(self) -> None:
        """Not only what reads say: segments hold these frames end to end, and zeros behind them."""
        for member in self.members:
            written = [frame for path in segment_paths(member.disk) for frame in _frames_of(member.disk.bytes_of(path))]
            assert is_prefix(written, member.branch)
            last = written[-1].header.last_sequence if written else 0
            assert last == member.log.durable.sequence

    @invariant()
    def snapshots_belong_to_the_log(self) -> None:
        for member in self.members:
            crcs = {one.header.last: one.header.header_crc for one in member.branch}
            for snapshot in member.log.load_snapshots():
                assert snapshot.sections == {"fold": str(crcs[snapshot.position]).encode()}


def _frames_of(segment: bytes) -> list[Frame]:
    found: list[Frame] = []
    size = 0
    with contextlib.suppress(DecodeError):
        for header, body in frames(segment):
            found.append(Frame(header, body))
            size += header.frame_bytes
    assert not segment[size:].strip(b"\0"), "bytes behind the last frame"
    return found


def _walk(machine: TwoLogs, drawn: random.Random) -> None:
    """One step of a busy life: appends and data often, the bad days seldom."""
    who, seed, chance = drawn.randrange(2), drawn.getrandbits(32), drawn.choice([0.0, 0.3, 0.7, 1.0])
    sizes = [drawn.choice([0, 7, 400, 2500]) for _ in range(drawn.randint(1, 6))]
    steps: list[tuple[int, Callable[[], None]]] = [
        (6, lambda: machine.append(sizes)),
        (6, lambda: machine.replicate(drawn.choice([1, 3000, 9000]), drawn.randint(1, 4))),
        (4, lambda: machine.flush(who)),
        (3, machine.commit),
        (3, lambda: machine.keep_house(who)),
        (1, lambda: machine.snapshot(who)),
        (1, lambda: machine.grant(who)),
        (1, lambda: machine.cut(drawn.random())),
        (1, lambda: machine.power_cut(who, seed, chance)),
        (1, lambda: machine.power_cut_while_writing(sizes, drawn.randint(1, 8), who, seed, chance)),
        (1, lambda: machine.power_cut_while_cutting(drawn.random(), drawn.randint(1, 25), seed, chance)),
    ]
    step = drawn.choices([one for _, one in steps], [weight for weight, _ in steps])[0]
    step()
    machine.each_holds_a_beginning_of_some_branch()
    machine.what_is_on_the_disk_is_that_too()
    machine.snapshots_belong_to_the_log()


@pytest.mark.parametrize("seed", range(40))
def test_a_long_life_of_two_logs(seed: int) -> None:
    drawn = random.Random(seed)
    machine = TwoLogs()
    machine.begin(drawn.choice([PAGE_BYTES, SECTOR_BYTES]))
    for _ in range(80):
        _walk(machine, drawn)


TestTwoLogs = TwoLogs.TestCase
TestTwoLogs.settings = settings(
    max_examples=examples(60), stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
