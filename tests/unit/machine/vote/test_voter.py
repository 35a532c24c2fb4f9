"""The voter by table (every state x question x asker), by sentence of its specification, and by random walk."""

import random
from collections.abc import Iterator

import msgspec
import pytest

from albireo.codec.pair_message import Accept, Install, Prepare, Question, Read, Record, Release, Voted
from albireo.machine.vote.voter import (
    Effect,
    HolderGone,
    Persist,
    SendVote,
    VoteAsked,
    Voter,
    VoterRefusal,
    VoterState,
    VoterStore,
)
from albireo.model.instant import MS, Instant
from albireo.model.position import BEGINNING, Position

LEASE = 600 * MS
DRIFT = 0.05
WAIT = int(LEASE * (1 + DRIFT)) + 1
T0 = Instant(10_000 * MS)
OLD_RUN, RUN, OTHER_RUN = 10, 11, 20
NAMES = ("v1", "v2", "v3")


def record(epoch: int = 4, version: int = 1, run: int = RUN, members: tuple[int, ...] = (0, 1)) -> Record:
    return Record(
        cluster="c",
        voters=NAMES,
        generation=1,
        epoch=epoch,
        version=version,
        holder=epoch % 2,
        run=run,
        members=members,
        lease_ns=LEASE,
    )


STORE = VoterStore(cluster="c", generation=1, record=record(), promised=4, promised_run=RUN)


def head(member: int, run: int) -> dict[str, object]:
    return {"cluster": "c", "generation": 1, "member": member, "run": run, "round": 7}


def read(run: int = RUN, member: int = 0) -> Read:
    return msgspec.convert(head(member, run), Read)


def prepare(epoch: int, run: int) -> Prepare:
    return Prepare(cluster="c", generation=1, member=epoch % 2, run=run, round=7, epoch=epoch)


def accept(what: Record, floor: Position = BEGINNING) -> Accept:
    return Accept(cluster="c", generation=1, member=what.holder, run=what.run, round=7, record=what, floor=floor)


def release(epoch: int, run: int) -> Release:
    return Release(cluster="c", generation=1, member=epoch % 2, run=run, round=7, epoch=epoch)


def install() -> Install:
    return Install(
        cluster="c", generation=1, member=0, run=RUN, round=7, record=record(2, run=0, members=(0,)), promised=2
    )


def ask(voter: Voter, question: Question, now: int) -> tuple[Voted, list[Effect]]:
    effects = voter.step(VoteAsked(question), Instant(now))
    last = effects[-1]
    assert isinstance(last, SendVote), "the answer comes last, after what it tells of is durable"
    return last.message, effects


def at(state: VoterState, gone: bool = False) -> tuple[Voter, Instant]:
    """A voter in `state` with record (4, 1) of RUN, and an instant at which it is."""
    if state is VoterState.EMPTY:
        return Voter("v1", "c", None, T0, DRIFT), T0
    voter = Voter("v1", "c", STORE, T0, DRIFT)
    if state is VoterState.WAITING:
        return voter, T0
    now = Instant(T0 + WAIT)
    if state is VoterState.LEASED:
        ask(voter, accept(record()), now)
    if gone:
        voter.step(HolderGone(RUN), now)
    assert voter.state(now) is state
    return voter, now


OWN: dict[str, Question] = {
    "read": read(),
    "prepare higher": prepare(6, RUN),
    "prepare same": prepare(4, RUN),
    "prepare lower": prepare(2, RUN),
    "accept same": accept(record()),
    "accept next version": accept(record(version=2)),
    "accept higher epoch": accept(record(6)),
    "accept lower": accept(record(2)),
    "release": release(4, RUN),
    "install": install(),
}
OTHER: dict[str, Question] = {
    "other read": read(OTHER_RUN, 1),
    "other prepare higher": prepare(5, OTHER_RUN),
    "other prepare lower": prepare(3, OTHER_RUN),
    "other accept higher": accept(record(5, run=OTHER_RUN)),
    "other accept lower": accept(record(3, run=OTHER_RUN)),
    "other release": release(5, OTHER_RUN),
    "old run, same epoch": prepare(4, OLD_RUN),
    "old run, same record": accept(record(run=OLD_RUN)),
}
YES = ""
USUAL = {
    "read": YES,
    "prepare higher": YES,
    "prepare same": YES,
    "prepare lower": "promised",
    "accept same": YES,
    "accept next version": YES,
    "accept higher epoch": YES,
    "accept lower": "promised",
    "release": YES,
    "install": "not_empty",
    "other read": YES,
    "other prepare higher": YES,
    "other prepare lower": "promised",
    "other accept higher": YES,
    "other accept lower": "promised",
    "other release": "superseded",
    "old run, same epoch": "promised",
    "old run, same record": "malformed",
}
KEPT_AWAY = ("other prepare higher", "other prepare lower", "old run, same epoch")
TABLE: dict[VoterState, dict[str, str]] = {
    VoterState.EMPTY: dict.fromkeys(USUAL, "empty") | {"install": YES},
    VoterState.WAITING: USUAL
    | dict.fromkeys((*KEPT_AWAY, "other accept higher", "other accept lower", "old run, same record"), "starting"),
    VoterState.FREE: USUAL,
    VoterState.LEASED: USUAL | dict.fromkeys(KEPT_AWAY, "leased"),
}


def rows() -> Iterator[tuple[VoterState, str, str]]:
    for state, answers in TABLE.items():
        for name, expected in answers.items():
            yield state, name, expected


@pytest.mark.parametrize(("state", "name", "expected"), list(rows()))
def test_every_state_answers_every_question(state: VoterState, name: str, expected: str) -> None:
    voter, now = at(state)
    before = voter.store
    answer, effects = ask(voter, (OWN | OTHER)[name], now)
    assert (answer.reason, answer.is_granted) == (expected, expected == YES)
    assert answer.round == 7
    if expected != YES:
        assert voter.store == before, "a refusal changes nothing"
        assert voter.refusals == {VoterRefusal(expected): 1}
    assert (voter.store != before) == (len(effects) == 2), "what changed is synced before the answer"


def test_table_is_complete() -> None:
    assert set(TABLE) == set(VoterState)
    assert all(set(row) == set(OWN | OTHER) for row in TABLE.values())


@pytest.mark.parametrize("state", [s for s in VoterState if s is not VoterState.EMPTY])
@pytest.mark.parametrize(
    ("change", "reason"),
    [({"cluster": "another"}, "foreign_cluster"), ({"generation": 2}, "other_list")],
)
def test_another_cluster_or_voter_list_is_refused_by_name(
    state: VoterState, change: dict[str, str], reason: str
) -> None:
    for question in OWN.values():
        voter, now = at(state)
        answer, _ = ask(voter, msgspec.structs.replace(question, **change), now)
        assert answer.reason == reason
        assert voter.store == STORE


@pytest.mark.parametrize(
    "what",
    [
        record(5, run=RUN),
        record(6, version=0),
        record(6, members=()),
        record(6, members=(1,)),
        record(6, members=(0, 0)),
        msgspec.structs.replace(record(6), lease_ns=0),
        msgspec.structs.replace(record(6), voters=("v1",)),
        msgspec.structs.replace(record(6), generation=2),
        msgspec.structs.replace(record(6), run=OTHER_RUN),
        msgspec.structs.replace(record(), members=(0,)),
    ],
)
def test_a_record_its_sender_could_not_propose_is_malformed(what: Record) -> None:
    voter, now = at(VoterState.FREE)
    question = Accept(cluster="c", generation=1, member=0, run=RUN, round=7, record=what)
    assert ask(voter, question, now)[0].reason == "malformed"
    assert voter.store == STORE


def test_prepare_of_an_epoch_that_belongs_to_the_other_member_is_malformed() -> None:
    voter, now = at(VoterState.FREE)
    question = Prepare(cluster="c", generation=1, member=0, run=RUN, round=7, epoch=7)
    assert ask(voter, question, now)[0].reason == "malformed"


def test_a_promise_is_synced_before_it_is_told_and_repeated_to_the_same_run_after_a_restart() -> None:
    voter, now = at(VoterState.FREE)
    _, effects = ask(voter, prepare(5, OTHER_RUN), now)
    kept = effects[0]
    assert isinstance(kept, Persist)
    assert (kept.store.promised, kept.store.promised_run) == (5, OTHER_RUN)

    again = Voter("v1", "c", kept.store, now, DRIFT)
    later = now + WAIT
    assert ask(again, prepare(5, OTHER_RUN), later)[0].is_granted
    assert ask(again, prepare(5, OTHER_RUN + 1), later)[0].reason == "promised"


def test_lease_runs_on_the_voters_clock_with_the_drift_added() -> None:
    voter, now = at(VoterState.LEASED)
    assert ask(voter, prepare(5, OTHER_RUN), now + WAIT - 1)[0].reason == "leased"
    assert ask(voter, read(OTHER_RUN, 1), now + WAIT - 1)[0].is_lease_running
    assert not ask(voter, read(OTHER_RUN, 1), now + WAIT)[0].is_lease_running
    assert ask(voter, prepare(5, OTHER_RUN), now + WAIT)[0].is_granted


def test_a_refused_accept_starts_no_lease() -> None:
    voter, now = at(VoterState.FREE)
    ask(voter, prepare(5, OTHER_RUN), now)
    assert ask(voter, accept(record()), now)[0].reason == "promised"
    assert voter.state(now) is VoterState.FREE


def test_after_a_start_only_the_recorded_run_gets_anything_for_lease_and_drift() -> None:
    voter = Voter("v1", "c", STORE, T0, DRIFT)
    assert ask(voter, prepare(5, OTHER_RUN), T0 + WAIT - 1)[0].reason == "starting"
    assert ask(voter, accept(record(version=2)), T0 + WAIT - 1)[0].is_granted
    assert ask(voter, prepare(5, OTHER_RUN), T0 + WAIT)[0].reason == "leased"


def test_release_ends_the_lease_of_the_holder_at_once() -> None:
    for state in (VoterState.LEASED, VoterState.WAITING):
        voter, now = at(state)
        assert ask(voter, release(4, RUN), now)[0].is_granted
        assert ask(voter, prepare(5, OTHER_RUN), now)[0].is_granted


def test_gone_holder_opens_the_voter_and_the_answer_says_how_long_its_lease_would_have_run() -> None:
    """Rule 12: the new holder's output writes wait for what is left."""
    voter, now = at(VoterState.LEASED, gone=True)
    answer, _ = ask(voter, prepare(5, OTHER_RUN), now + 100 * MS)
    assert answer.is_granted
    assert answer.lease_left_ns == WAIT - 100 * MS


def test_a_stranger_that_is_gone_opens_nothing_and_a_renewal_takes_the_opening_back() -> None:
    voter, now = at(VoterState.LEASED)
    voter.step(HolderGone(OTHER_RUN), now)
    assert ask(voter, prepare(5, OTHER_RUN), now)[0].reason == "leased"

    voter.step(HolderGone(RUN), now)
    ask(voter, accept(record()), now)
    assert ask(voter, prepare(5, OTHER_RUN), now)[0].reason == "leased"


def test_floor_is_the_highest_reported_and_survives_with_the_next_write() -> None:
    voter, now = at(VoterState.FREE)
    ask(voter, accept(record(), Position(4, 90)), now)
    ask(voter, accept(record(), Position(4, 70)), now)
    assert ask(voter, read(), now)[0].floor == Position(4, 90)
    _, effects = ask(voter, accept(record(version=2), Position(4, 80)), now)
    assert isinstance(effects[0], Persist)
    assert effects[0].store.floor == Position(4, 90)


def test_an_installed_voter_waits_like_one_that_started() -> None:
    voter, now = at(VoterState.EMPTY)
    answer, effects = ask(voter, install(), now)
    assert answer.is_granted
    assert isinstance(effects[0], Persist)
    assert voter.state(now) is VoterState.WAITING


@pytest.mark.parametrize("seed", range(40))
def test_promise_and_record_never_fall_and_no_two_records_share_a_rank(seed: int) -> None:
    """Random questions and restarts; what one answer said, a later one never takes back."""
    chance = random.Random(seed)
    voter = Voter("v1", "c", STORE, T0, DRIFT)
    disk, now, promised, rank = STORE, int(T0), 0, (0, 0)
    seen: dict[tuple[int, int], Record] = {}
    for _ in range(150):
        now += chance.choice([0, 50, 300, 700]) * MS
        if chance.random() < 0.05:
            voter = Voter("v1", "c", disk, Instant(now), DRIFT)
        epoch = chance.randrange(2, 14)
        question: Question = chance.choice(
            (prepare(epoch, 100 + epoch), accept(record(epoch, chance.randrange(1, 4), run=100 + epoch)), read())
        )
        answer, effects = ask(voter, question, now)
        for effect in effects:
            if isinstance(effect, Persist):
                disk = effect.store
        assert answer.promised >= promised
        assert answer.record is not None
        assert answer.record.rank >= rank
        assert answer.record.epoch <= answer.promised
        assert seen.setdefault(answer.record.rank, answer.record) == answer.record
        promised, rank = answer.promised, answer.record.rank


def wrong(**changes: object) -> Record:
    return msgspec.structs.replace(record(6), **changes)


@pytest.mark.parametrize(
    "hostile",
    [
        prepare(1 << 33, RUN),
        accept(wrong(lease_ns=(1 << 64) - 1)),
        accept(wrong(lease_ns=0)),
        accept(wrong(epoch=1 << 33)),
        accept(wrong(version=0)),
        accept(wrong(members=(0, 0))),
        accept(wrong(members=(1,))),
        accept(wrong(cluster="d")),
        accept(wrong(voters=("v1",))),
    ],
)
def test_what_no_member_could_say_is_malformed_and_changes_nothing(hostile: Question) -> None:
    voter, now = at(VoterState.FREE)
    answer, effects = ask(voter, hostile, now)
    assert (answer.is_granted, answer.reason) == (False, "malformed")
    assert len(effects) == 1
    assert voter.store == STORE
    assert voter.refusals == {VoterRefusal.MALFORMED: 1}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, YES),
        ({"record": record(2, run=0, members=(0,)), "promised": 1}, "malformed"),
        ({"record": record(2, run=0, members=(1,))}, "malformed"),
        ({"record": msgspec.structs.replace(record(2, members=(0,)), voters=("v1", "v2", "v4"))}, "other_list"),
        ({"record": msgspec.structs.replace(record(2, members=(0,)), voters=("v2", "v3", "v4"))}, "other_list"),
        ({"record": msgspec.structs.replace(record(2, members=(0,)), cluster="d")}, "malformed"),
    ],
)
def test_a_first_record_must_be_one_and_name_the_voters_of_the_topology(
    changes: dict[str, object], reason: str
) -> None:
    voter = Voter("v1", "c", None, T0, DRIFT, NAMES)
    answer, _ = ask(voter, msgspec.structs.replace(install(), **changes), T0)
    assert (answer.is_granted, answer.reason) == (reason == YES, reason)
    assert (voter.store is None) == (reason != YES)
