"""The register voter by sentence: what it refuses and by which name, what it writes, and when it stays silent."""

from typing import Any

import msgspec
import pytest

from albireo.codec.pair_message import Accept, Install, Prepare, Question, Read, Release, Voted
from albireo.codec.register_block import BLOCK_REGISTERS, LIFE_START, Ballot, decode_ballot, decode_life, encode_ballot
from albireo.machine.vote.events import (
    LONG_AGO,
    TAKES,
    Connected,
    ConnectionLost,
    Effect,
    Event,
    OwnCopy,
    PersistCopy,
    ReadBlocks,
    RegisterConfig,
    RegisterPhase,
    RegistersRead,
    RegistersWritten,
    ResetConnection,
    WriteBlock,
)
from albireo.machine.vote.register import RegisterVoter
from albireo.machine.vote.voter import HolderGone, SendVote, VoteAsked
from albireo.model.instant import MS, Instant, TimePassed
from albireo.model.position import Position
from tests.parts.register_world import ZEROS, config, first_ballot, padded, record

RUN = 1


class Bench:
    """Member 0's machine at a PLC that answers at once; `kept` is False while it swallows writes."""

    def __init__(self, copy: OwnCopy | None = None, *, is_empty: bool = False, **changes: Any) -> None:
        self.now = Instant(1000 * MS)
        self.disk = None if is_empty else copy or OwnCopy(ballot=first_ballot(0), landed=1)
        self.plc = [*padded(encode_ballot(first_ballot(0))), *padded(encode_ballot(first_ballot(1)))]
        self.kept = True
        self.writes: list[WriteBlock] = []
        self.hung_up = 0
        self.answers: list[Voted] = []
        self.voter = RegisterVoter(config(0, RUN, **changes), self.disk, self.now)
        self.give(Connected(1))
        self.wait(RegisterPhase.IDLE)

    def give(self, event: Event) -> None:
        effects: list[Effect] = self.voter.step(event, self.now)
        for effect in effects:
            match effect:
                case PersistCopy(copy):
                    self.disk = copy
                case WriteBlock(connection, start, words):
                    assert self.disk == self.voter.state.copy, "synced before it is written"
                    self.writes.append(effect)
                    if self.kept:
                        self.plc[start : start + len(words)] = words
                    self.give(RegistersWritten(connection))
                case ReadBlocks(connection):
                    self.give(RegistersRead(connection, tuple(self.plc)))
                case SendVote(voted):
                    self.answers.append(voted)
                case ResetConnection():
                    self.hung_up += 1

    def wait(self, phase: RegisterPhase, steps: int = 200) -> None:
        """Let time pass until the machine is in `phase`."""
        while self.voter.state.phase is not phase:
            steps -= 1
            due = self.voter.deadline()
            assert due is not None
            assert steps, f"stays {self.voter.state.phase}"
            self.now = max(self.now, due)
            self.give(TimePassed())

    def ask(self, question: Question) -> Voted:
        self.give(VoteAsked(question))
        if not self.answers:
            self.wait(RegisterPhase.IDLE)
        return self.answers.pop()

    def other(self, ballot: Ballot) -> None:
        self.plc[BLOCK_REGISTERS : 2 * BLOCK_REGISTERS] = padded(encode_ballot(ballot))

    def pass_time(self, duration_ns: int) -> None:
        """Looking for itself all the while."""
        end = Instant(self.now + duration_ns)
        while (due := self.voter.deadline()) is not None and due <= end:
            self.now = due
            self.give(TimePassed())
        self.now = end


HEAD: dict[str, Any] = {"cluster": "c", "generation": 1, "member": 0, "run": RUN, "round": 7}


def read(**changes: Any) -> Read:
    return Read(**HEAD | changes)


def prepare(epoch: int = 4) -> Prepare:
    return Prepare(epoch=epoch, **HEAD)


def accept(epoch: int = 4, version: int = 1, members: tuple[int, ...] = (0, 1)) -> Accept:
    return Accept(record=record(epoch, RUN, members, version), floor=Position(4, 90), **HEAD)


def holder() -> Bench:
    bench = Bench()
    bench.pass_time(400 * MS)
    assert bench.ask(prepare()).is_granted
    assert bench.ask(accept()).is_granted
    return bench


def test_grant_renewal_and_release_move_the_life_sign_and_tell_the_floor() -> None:
    bench = holder()
    assert decode_ballot(bench.plc).rank == (4, 1)
    writes = len(bench.writes)
    signs = []
    for _ in range(3):
        assert bench.ask(accept()).is_granted
        signs.append(decode_life(bench.plc).sign)
    assert signs == [1, 2, 3]
    assert [write.register for write in bench.writes[writes:]] == [LIFE_START] * 3, "a renewal leaves the ballot alone"
    assert bench.ask(read()).floor == Position(4, 90)
    assert bench.ask(Release(epoch=4, **HEAD)).is_granted
    assert decode_life(bench.plc).sign == 0


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        (read(cluster="another"), "foreign_cluster"),
        (read(generation=2), "other_list"),
        (read(run=9), "malformed"),
        (prepare(5), "malformed"),
        (accept(5), "malformed"),
        (Accept(record=msgspec.structs.replace(record(6, RUN, (0, 1)), lease_ns=MS), **HEAD), "malformed"),
        (Accept(record=record(6, RUN + 1, (0, 1)), **HEAD), "malformed"),
        (accept(6, version=1 << 16), "malformed"),
        (prepare(2), "promised"),
        (accept(2), "promised"),
        (accept(4, members=(0,)), "malformed"),
        (Release(epoch=2, **HEAD), "superseded"),
        (Install(record=record(4, RUN, (0, 1)), promised=4, **HEAD), "not_empty"),
    ],
)
def test_refusals_have_the_words_of_the_voter_and_change_nothing(question: Question, reason: str) -> None:
    bench = holder()
    before, disk = list(bench.plc), bench.disk
    assert bench.ask(question).reason == reason
    assert (bench.plc, bench.disk) == (before, disk)
    assert bench.voter.refusals[reason] == 1


def changed(**changes: Any) -> tuple[int, ...]:
    return padded(encode_ballot(msgspec.structs.replace(first_ballot(1), **changes)))


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (ZEROS, "other_zero"),
        ((1, *changed()[1:]), "other_foreign"),
        ((*changed()[:9], *ZEROS[9:]), "other_torn"),
        ((*changed()[:7], 9, *changed()[8:]), "other_checksum"),
        (changed(lease_ms=101), "other_lease_differs"),
        (changed(cluster_tag=5), "other_foreign_cluster"),
        (changed(generation=2), "other_other_list"),
        (changed(member=0), "other_malformed"),
    ],
)
def test_a_damaged_or_strange_block_of_the_other_is_no_answer(block: tuple[int, ...], reason: str) -> None:
    bench = Bench()
    bench.plc[BLOCK_REGISTERS:] = block
    for question in (read(), prepare(), accept()):
        voted = bench.ask(question)
        assert (voted.is_granted, voted.reason) == (False, reason)
        assert (voted.record, voted.promised) == (None, 0), "never an empty answer"
    assert bench.voter.state.trouble == reason


def test_own_block_is_restored_from_the_copy_unasked_after_a_restart_of_the_plc() -> None:
    bench = holder()
    bench.plc[:BLOCK_REGISTERS] = ZEROS
    bench.pass_time(500 * MS)
    assert decode_ballot(bench.plc).rank == (4, 1)


def test_own_block_of_an_older_image_is_refused_not_mended() -> None:
    bench = holder()
    bench.plc[:BLOCK_REGISTERS] = padded(encode_ballot(first_ballot(0)))
    before = list(bench.plc)
    assert bench.ask(read()).reason == "rewound"
    assert bench.plc == before


def test_the_others_block_may_not_go_back() -> None:
    bench = Bench()
    bench.other(msgspec.structs.replace(first_ballot(1), count=2, promised=5))
    assert bench.ask(read()).promised == 5
    bench.other(first_ballot(1))
    assert bench.ask(read()).reason == "other_rewound"


def test_an_old_disk_and_a_cloned_one_are_told_apart() -> None:
    bench = Bench()
    bench.plc[:BLOCK_REGISTERS] = padded(encode_ballot(msgspec.structs.replace(first_ballot(0), count=9, promised=8)))
    assert bench.ask(read()).reason == "copy_behind"
    bench = Bench()
    bench.plc[:BLOCK_REGISTERS] = padded(encode_ballot(msgspec.structs.replace(first_ballot(0), promised=8)))
    assert bench.ask(read()).reason == "two_writers"


def test_an_empty_voter_votes_for_nobody_until_admitted_and_only_over_zeros_or_less() -> None:
    bench = Bench(is_empty=True)
    assert bench.ask(read()).reason == "empty"
    install = Install(record=record(2, 0, (0,)), promised=2, **HEAD)
    bench.plc[:BLOCK_REGISTERS] = padded(encode_ballot(msgspec.structs.replace(first_ballot(0), promised=6)))
    assert bench.ask(install).reason == "superseded"
    bench.plc[: 2 * BLOCK_REGISTERS] = [7] * 2 * BLOCK_REGISTERS
    assert bench.ask(install).reason == "foreign"
    bench.plc[: 2 * BLOCK_REGISTERS] = [0] * 2 * BLOCK_REGISTERS
    assert bench.ask(install).is_granted
    assert bench.disk is not None
    assert decode_ballot(bench.plc).members == (0,)


def test_a_moving_life_sign_keeps_a_candidate_away_and_a_gone_holder_does_not() -> None:
    bench = Bench()
    held = msgspec.structs.replace(first_ballot(1), count=2, promised=3, epoch=3, run=20)
    bench.other(held)
    voted = bench.ask(read())
    assert voted.is_lease_running
    assert bench.ask(prepare()).reason == "leased"
    bench.give(HolderGone(19))
    assert bench.ask(prepare()).reason == "leased", "a stranger is gone"
    bench.pass_time(400 * MS)
    assert not bench.ask(read()).is_lease_running

    bench.other(msgspec.structs.replace(held, count=3, version=2))
    assert bench.ask(prepare()).reason == "leased"
    bench.give(HolderGone(20))
    voted = bench.ask(prepare())
    assert voted.is_granted
    assert voted.lease_left_ns > 0, "output writes wait for it"


def test_what_the_plc_does_not_keep_is_no_vote_and_ends_the_connection() -> None:
    bench = holder()
    bench.kept = False
    bench.give(VoteAsked(prepare(6)))
    while not bench.hung_up:
        due = bench.voter.deadline()
        assert due is not None
        bench.now = max(bench.now, due)
        bench.give(TimePassed())
    assert bench.answers.pop().reason == "not_kept"
    assert bench.voter.state.phase is RegisterPhase.CLOSED


def test_after_a_break_nothing_is_written_for_the_dead_time_and_w_starts_anew() -> None:
    bench = holder()
    bench.give(VoteAsked(prepare(6)))
    assert bench.voter.deadline() is not None, "settling"
    bench.give(ConnectionLost(1))
    lost = bench.now
    bench.give(Connected(2))
    bench.give(RegistersRead(1, tuple(bench.plc)))
    assert bench.voter.state.phase is RegisterPhase.SILENT, "an answer of the old connection is late"
    writes = len(bench.writes)
    bench.wait(RegisterPhase.IDLE)
    assert bench.answers.pop().is_granted
    assert len(bench.writes) == writes + 1
    assert bench.now - lost >= bench.voter.config.dead_time_ns


def test_table_is_complete_and_every_late_event_is_forgotten() -> None:
    assert set(TAKES) == set(Event.__args__)
    bench = Bench()
    for phase in RegisterPhase:
        bench.voter.state = msgspec.structs.replace(bench.voter.state, phase=phase, wait_until=LONG_AGO)
        state = bench.voter.state
        for event in (Connected(2), RegistersRead(1, ()), RegistersWritten(1)):
            if phase not in TAKES[type(event)]:
                assert bench.voter.step(event, bench.now) == []
                assert bench.voter.state is state


@pytest.mark.parametrize(
    "changes", [{"lease_ns": 1}, {"lease_ns": 65_536 * MS}, {"run": 0}, {"run": 1 << 32}, {"generation": 4096}]
)
def test_config_refuses_what_the_registers_cannot_hold(changes: dict[str, int]) -> None:
    good = msgspec.structs.asdict(config(0, RUN))
    with pytest.raises(ValueError, match="register voter"):
        RegisterConfig(**good | changes)
