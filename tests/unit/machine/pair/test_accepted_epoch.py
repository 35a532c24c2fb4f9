"""The epoch below which a member follows nothing: on its disk before anybody counts on it, and kept over restarts."""

import random

import msgspec
import pytest

from albireo.codec.pair_message import FollowAcked, FollowAnswered, FollowAsked, Heartbeat
from albireo.machine.pair.config import PairConfig
from albireo.machine.pair.events import (
    Effect,
    ForceAsked,
    FromPeer,
    GrantEpoch,
    LogChanged,
    MemberStarted,
    Objection,
    PersistStore,
    Refused,
    State,
    TellPeer,
)
from albireo.machine.pair.member import Member
from albireo.machine.pair.party import MemberFacts
from albireo.model.instant import MS, SECOND, Instant, TimePassed
from albireo.model.log_view import LogView
from albireo.model.position import EpochEntry, EpochHistory, Position

CONFIG = PairConfig(cluster="c", voters=("v0",))
HISTORY = EpochHistory((EpochEntry(3, 1, 33), EpochEntry(5, 8, 55)))
LOG = LogView(
    history=EpochHistory(HISTORY.entries[:1]), end=Position(3, 7), durable=Position(3, 7), told=Position(3, 7)
)
BEAT = Heartbeat(feature_level=1, log_level=1,
    cluster="c", member=1, run=20, store="b", beat=1, sent=Instant(5), state="active", epoch=5, is_acting=True,
    is_holder=True, members=(0, 1), end=Position(5, 9), committed=Position(5, 9), accepted_epoch=5,
)  # fmt: skip


def member(accepted_epoch: int = 0) -> Member:
    facts = MemberFacts(index=0, run=7, store="a", accepted_epoch=accepted_epoch)
    machine = Member(CONFIG, facts, random.Random(1), Instant(0))
    machine.step(MemberStarted(), LOG, Instant(0))
    return machine


def told(effects: list[Effect], kind: type) -> list[object]:
    return [one.message for one in effects if isinstance(one, TellPeer) and isinstance(one.message, kind)]


def hello(machine: Member, beat: Heartbeat = BEAT) -> FollowAsked:
    (asked,) = told(machine.step(FromPeer(beat), LOG, Instant(1)), FollowAsked)
    assert isinstance(asked, FollowAsked)
    return asked


def answer(asked: FollowAsked, **changes: object) -> FromPeer:
    said = FollowAnswered(
        cluster="c", member=1, run=20, store="b", to_run=7, epoch=asked.epoch, session=asked.session, position=7,
        history=HISTORY.entries,
    )  # fmt: skip
    return FromPeer(msgspec.structs.replace(said, **changes))


def test_a_follower_has_the_epoch_on_its_disk_before_it_acknowledges_anything_under_it() -> None:
    machine = member(accepted_epoch=3)
    effects = machine.step(answer(hello(machine)), LOG, Instant(2))
    (persisted,) = [one for one in effects if isinstance(one, PersistStore)]
    assert (persisted.accepted_epoch, persisted.history) == (5, HISTORY)
    assert told(effects, FollowAcked) == []
    now = msgspec.structs.replace(LOG, history=HISTORY)
    assert told(machine.step(LogChanged(), now, Instant(3)), FollowAcked) != []


@pytest.mark.parametrize(("accepted_epoch", "follows"), [(4, True), (5, True), (6, False)])
def test_a_member_that_comes_back_asks_to_follow_no_holder_below_the_epoch_that_its_store_names(
    accepted_epoch: int, follows: bool
) -> None:
    effects = member(accepted_epoch).step(FromPeer(BEAT), LOG, Instant(1))
    assert bool(told(effects, FollowAsked)) == follows


def test_an_answer_under_a_lower_epoch_than_was_accepted_meanwhile_is_refused_and_changes_nothing() -> None:
    machine = member()
    asked = hello(machine)
    machine.own.accepted_epoch = 6
    effects = machine.step(answer(asked), LOG, Instant(2))
    assert Refused(Objection.IMPOSSIBLE_ANSWER) in effects
    assert not [one for one in effects if isinstance(one, PersistStore)]
    assert machine.state is State.JOINING


def test_the_next_epoch_of_a_member_lies_above_every_epoch_that_it_accepted() -> None:
    machine = member(accepted_epoch=41)
    assert machine.own.next_epoch(promised=7) == 42


def test_a_member_that_leads_by_force_has_its_epoch_on_the_disk_before_it_begins() -> None:
    machine = member(accepted_epoch=5)
    machine.step(ForceAsked(), LOG, Instant(SECOND))
    effects: list[Effect] = []
    for now in range(SECOND, 3 * SECOND, 50 * MS):
        effects += machine.step(TimePassed(), LOG, Instant(now))
    places = {type(one): place for place, one in enumerate(effects) if isinstance(one, PersistStore | GrantEpoch)}
    persisted = effects[places[PersistStore]]
    assert isinstance(persisted, PersistStore) and machine.holder is not None
    assert persisted.accepted_epoch == persisted.tried_epoch == machine.holder.epoch
    assert places[PersistStore] < places[GrantEpoch]
