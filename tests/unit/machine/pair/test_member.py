"""The member by table: every state x event and every state x message, and sentences of the rules."""

from typing import get_args

import msgspec
import pytest

from albireo.codec.pair_message import (
    Accept,
    FoldsSent,
    FollowAnswered,
    Frames,
    Heartbeat,
    PeerMessage,
    Prepare,
    Read,
    Record,
    Voted,
    Yielded,
)
from albireo.machine.pair.events import (
    ACTING,
    HEARS,
    MOVES,
    TAKES,
    AskVoter,
    Effect,
    Event,
    ForceAsked,
    FromPeer,
    FromVoter,
    GrantEpoch,
    LogBroken,
    Objection,
    PersistStore,
    Refused,
    State,
    StopServing,
    TellPeer,
    Transitioned,
)
from albireo.machine.pair.member import Member
from albireo.machine.pair.set_changes import SetChanges
from albireo.model.instant import MS, SECOND, Instant, TimePassed
from albireo.model.log_view import LogView
from albireo.model.position import EPOCHS_MOST, EpochEntry, EpochHistory, Position
from tests.parts.member import CONFIG, EMPTY, member

FIRST = Record(
    cluster="c",
    voters=CONFIG.voters,
    generation=1,
    epoch=2,
    version=1,
    holder=0,
    run=0,
    members=(0,),
    lease_ns=600 * MS,
)


def heartbeat(**changes: object) -> Heartbeat:
    beat = Heartbeat(feature_level=1, log_level=1,
        cluster="c", member=1, run=20, store="b", beat=1, sent=Instant(5), state="active", epoch=5, is_acting=True,
        is_holder=True, members=(1,), end=Position(5, 9), committed=Position(5, 9), accepted_epoch=5,
    )  # fmt: skip
    return msgspec.structs.replace(beat, **changes)


def voted(voter: str, number: int, question: str, record: Record = FIRST, **changes: object) -> FromVoter:
    answer = Voted(
        voter=voter, cluster="c", generation=1, to_run=7, round=number, question=question, is_granted=True,
        promised=record.epoch, record=record,
    )  # fmt: skip
    return FromVoter(msgspec.structs.replace(answer, **changes))


def asked(effects: list[Effect], kind: type) -> list[AskVoter]:
    return [one for one in effects if isinstance(one, AskVoter) and isinstance(one.question, kind)]


def test_tables_are_complete() -> None:
    assert set(TAKES) == set(get_args(Event))
    assert set(HEARS) == set(get_args(PeerMessage))
    assert set(MOVES) == set(State)


def test_states_are_left_only_by_moves_that_exist_and_fenced_by_none() -> None:
    assert MOVES[State.FENCED] == frozenset()
    for state in State:
        assert state not in MOVES[state]
        assert state is State.FENCED or State.FENCED in MOVES[state], "a sync error fences from anywhere"
        assert not (MOVES[state] & ACTING) or state in ACTING | {State.RECOVERING, State.SUSPENDED, State.JOINING}


@pytest.mark.parametrize("kind", sorted(HEARS, key=str))
@pytest.mark.parametrize("state", list(State))
def test_message_in_a_state_that_does_not_hear_it_is_refused_and_changes_nothing(
    state: State, kind: type[PeerMessage]
) -> None:
    if state in HEARS[kind] or kind is Heartbeat:
        return
    machine = member()
    machine.step(FromPeer(heartbeat(is_holder=False, is_acting=False, epoch=0, accepted_epoch=0)), EMPTY, Instant(1))
    machine.state = state
    fields = {"cluster": "c", "member": 1, "run": 20, "store": "b", "to_run": 7, "epoch": 5, "session": 1}
    fields |= {"history": (), "end": (0, 0), "position": (5, 9) if kind in (Yielded, FoldsSent) else 0, "previous": 0}
    fields |= {"last": (5, 1), "committed": (0, 0), "received": 0, "durable": 0, "echo": 0, "following_epoch": 0}
    fields |= {"is_promised": True, "accepted_epoch": 0, "part": 0, "parts": 1, "log_time_ms": 0, "after": 0}
    effects = machine.step(FromPeer(msgspec.convert(fields, kind)), EMPTY, Instant(2))
    assert any(isinstance(effect, Refused) for effect in effects)
    assert machine.state is state


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"cluster": "other"}, Objection.FOREIGN_CLUSTER),
        ({"member": 0}, Objection.SAME_MEMBER),
        ({"store": "a"}, Objection.CLONED_STORE),
    ],
)
def test_stray_heartbeat_is_refused_by_name(change: dict[str, object], reason: Objection) -> None:
    machine = member()
    effects = machine.step(FromPeer(heartbeat(**change)), EMPTY, Instant(1))
    assert Refused(reason) in effects
    assert machine.state is State.JOINING
    assert machine.following is None


def test_replayed_heartbeat_is_refused() -> None:
    machine = member()
    machine.step(FromPeer(heartbeat(beat=4)), EMPTY, Instant(1))
    assert Refused(Objection.OLD_HEARTBEAT) in machine.step(FromPeer(heartbeat(beat=3)), EMPTY, Instant(2))


def test_copy_of_a_heartbeat_on_another_path_is_answered_there() -> None:
    machine = member()
    machine.step(FromPeer(heartbeat()), EMPTY, Instant(1))
    effects = machine.step(FromPeer(heartbeat(), path=1), EMPTY, Instant(2))
    assert [effect.path for effect in effects if isinstance(effect, TellPeer)] == [1]


def test_no_candidacy_for_lease_and_drift_after_a_start() -> None:
    machine = member()
    assert not asked(machine.step(TimePassed(), EMPTY, Instant(CONFIG.lease_and_drift - 1)), object)
    assert len(asked(machine.step(TimePassed(), EMPTY, Instant(CONFIG.lease_and_drift)), object)) == 3


def elect(machine: Member, now: Instant) -> list[Effect]:
    """READ, PREPARE, ACCEPT at two of three voters; the effects of the grant."""
    machine.step(TimePassed(), EMPTY, now)
    machine.step(voted("v0", 1, "pair_read"), EMPTY, now)
    effects = machine.step(voted("v1", 1, "pair_read"), EMPTY, now)
    prepare = asked(effects, Prepare)[0].question
    assert isinstance(prepare, Prepare)
    assert isinstance(effects[0], PersistStore)
    assert effects[0].tried_epoch == prepare.epoch
    machine.step(voted("v0", prepare.round, "pair_prepare"), EMPTY, now)
    effects = machine.step(voted("v1", prepare.round, "pair_prepare"), EMPTY, now)
    accept = asked(effects, Accept)[0].question
    assert isinstance(accept, Accept)
    assert isinstance(effects[0], PersistStore)
    assert effects[0].accepted_epoch == accept.record.epoch
    machine.step(voted("v0", accept.round, "pair_accept", accept.record), EMPTY, now)
    return machine.step(voted("v1", accept.round, "pair_accept", accept.record), EMPTY, now)


def test_epoch_is_on_the_disk_before_prepare_and_before_accept_and_is_of_this_member() -> None:
    machine = member()
    effects = elect(machine, Instant(SECOND))
    assert machine.state is State.RECOVERING
    assert machine.holder is not None
    assert machine.holder.epoch == 4
    moved = next(effect for effect in effects if isinstance(effect, Transitioned))
    assert moved.cause == "epoch 4 granted"


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (msgspec.structs.replace(FIRST, members=(1,), epoch=3, holder=1), "not_in_set"),
        (FIRST, "below_floor"),
        (FIRST, "lease_runs"),
    ],
)
def test_candidacy_stops_after_reading(record: Record, reason: str) -> None:
    machine = member()
    now = Instant(SECOND)
    machine.step(TimePassed(), EMPTY, now)
    seen: dict[str, dict[str, object]] = {
        "below_floor": {"floor": Position(2, 1)},
        "lease_runs": {"is_lease_running": True},
    }
    changes = seen.get(reason, {})
    machine.step(voted("v0", 1, "pair_read", record, **changes), EMPTY, now)
    effects = machine.step(voted("v1", 1, "pair_read", record, **changes), EMPTY, now)
    assert not asked(effects, Prepare)
    assert machine.candidate.last_stop == reason


def step_and_read(machine: Member, event: Event, record: Record, now: Instant) -> None:
    """Take a step, and let a majority answer the READ that goes out with it."""
    for ask in asked(machine.step(event, AT_9, now), Read):
        for voter in ("v0", "v1"):
            machine.step(voted(voter, ask.question.round, "pair_read", record), AT_9, now)


AT_9 = LogView(
    history=EpochHistory((EpochEntry(5, 1, 0),)), end=Position(5, 9), durable=Position(5, 9), committed=Position(5, 9)
)


def test_a_member_that_catches_up_goes_on_while_frames_come_though_heartbeats_are_late_behind_them() -> None:
    machine, now = member(), Instant(SECOND)
    out = msgspec.structs.replace(FIRST, members=(1,), epoch=5, holder=1, run=20)
    machine.step(FromPeer(heartbeat()), AT_9, now)
    assert machine.following is not None
    head = {"cluster": "c", "member": 1, "run": 20, "store": "b", "to_run": 7, "epoch": 5}
    head["session"] = machine.following.session
    answer = msgspec.convert(head | {"position": 9, "history": AT_9.history.entries}, FollowAnswered)
    machine.step(FromPeer(answer), AT_9, now)
    assert machine.state is State.CATCHING_UP
    frames = msgspec.convert(head | {"previous": 20, "last": (5, 30), "committed": (5, 40)}, Frames)
    for _ in range(8):
        now = Instant(now + SECOND)
        step_and_read(machine, FromPeer(frames), out, now)
        assert machine.candidate.last_stop == "not_in_set"
        assert machine.state is State.CATCHING_UP
    for _ in range(12):
        now = Instant(now + 500 * MS)
        step_and_read(machine, TimePassed(), out, now)
    assert machine.following is None, "nothing comes any more"


FULL = EpochHistory(tuple(EpochEntry(2 * place, 1, place) for place in range(1, EPOCHS_MOST + 1)))
MANY = LogView(history=FULL, end=Position(FULL.epoch, 1), durable=Position(FULL.epoch, 1))


def test_a_member_whose_log_has_all_the_epochs_that_a_header_holds_stands_for_none() -> None:
    machine, now = member(), Instant(SECOND)
    machine.step(TimePassed(), MANY, now)
    machine.step(voted("v0", 1, "pair_read"), MANY, now)
    effects = machine.step(voted("v1", 1, "pair_read"), MANY, now)
    assert Refused(Objection.EPOCHS_FULL) in effects
    assert not asked(effects, Prepare)
    assert machine.candidate.last_stop == "epochs_full"
    assert Refused(Objection.EPOCHS_FULL) in machine.step(ForceAsked(), MANY, now)
    later = Instant(now + 60 * SECOND)
    assert not any(isinstance(one, GrantEpoch) for one in machine.step(TimePassed(), MANY, later))


def test_write_or_sync_error_fences_and_nothing_leaves_any_more() -> None:
    machine = member()
    elect(machine, Instant(SECOND))
    machine.step(LogBroken("EIO"), EMPTY, Instant(SECOND))
    assert machine.state is State.FENCED
    assert machine.permit(Instant(SECOND)) is None
    effects = machine.step(TimePassed(), EMPTY, Instant(2 * SECOND))
    assert [type(effect) for effect in effects] == [Refused]


def test_effects_stop_before_anything_tells_of_it() -> None:
    machine = member()
    elect(machine, Instant(SECOND))
    machine.state = State.SOLO
    effects = machine.step(FromPeer(heartbeat(epoch=99, accepted_epoch=99)), EMPTY, Instant(SECOND))
    assert isinstance(effects[0], StopServing)


def test_a_shrink_counts_when_confirmed_an_add_from_the_moment_it_is_asked() -> None:
    changes = SetChanges((0, 1), majority=2)
    assert changes.required == {0, 1}
    assert changes.has_unresolved
    changes.accepted("v0", 1)
    changes.accepted("v1", 1)
    changes.ask((0,))
    assert changes.required == {0, 1}
    changes.accepted("v0", 2)
    assert changes.required == {0, 1}
    changes.accepted("v2", 2)
    assert changes.required == {0}
    changes.ask((0, 1))
    assert changes.required == {0, 1}
    assert changes.confirmed == (0,)
    changes.ask((1,))
    changes.decide()
    assert changes.required == {1}
