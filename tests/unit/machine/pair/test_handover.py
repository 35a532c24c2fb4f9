"""A handover waits for the output writes under way: what it waits for, what bounds it, and how it is given up."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from albireo.codec.pair_message import Release, Yielded
from albireo.machine.pair.events import (
    AdaptersSeen,
    CloseAdmission,
    Effect,
    FromPeer,
    LogChanged,
    MemberStopAsked,
    Objection,
    OutputsEnded,
    Refused,
    Serve,
    State,
    StopServing,
    SwitchoverAsked,
    TellPeer,
)
from albireo.model.instant import MS, SECOND, Instant, TimePassed
from albireo.model.position import Position
from albireo.node.member.action_replies import GIVEN_UP
from albireo.sim.machines.shortcuts import YieldsOverWrites
from tests.parts.admin_actions import done, order
from tests.parts.pair import Side, Table

SWITCHOVER = SwitchoverAsked("test")


@pytest.fixture
def begun(tmp_path: Path) -> Table:
    table = Table(tmp_path)
    done(table.sides[0], "pair_init")
    table.wait_for(State.ACTIVE, State.READY)
    return table


def silent(table: Table) -> Side:
    """The active member, whose adapters a test speaks for."""
    active = table.sides[0]
    active.writes_for_ns = None
    table.pass_time(100 * MS)
    return active


def told(effects: list[Effect]) -> list[str]:
    """What leaves or stops, in its order."""
    shown: list[str] = []
    for effect in effects:
        match effect:
            case TellPeer(_, Yielded()):
                shown.append("yielded")
            case CloseAdmission() | StopServing() | Serve():
                shown.append(type(effect).__name__)
            case Refused(why):
                shown.append(str(why))
            case _:
                shown += ["release"] if isinstance(getattr(effect, "question", None), Release) else []
    return shown


def test_nothing_is_given_away_before_the_adapters_have_spoken(begun: Table) -> None:
    active = silent(begun)
    assert told(active.stepped(SWITCHOVER)) == ["CloseAdmission"], "although both logs are level"
    begun.pass_time(2 * SECOND)
    assert begun.states() == (State.ACTIVE, State.READY)
    active.step(OutputsEnded(Instant(0)))
    begun.wait_for(State.READY, State.ACTIVE, within_ns=SECOND)


def test_who_is_patient_is_refused_while_adapters_of_the_other_member_start(begun: Table) -> None:
    active, passive = begun.sides
    patient = SwitchoverAsked("test", is_patient=True)
    active.step(AdaptersSeen(2, 2))
    passive.step(AdaptersSeen(1, 1))
    begun.pass_time(SECOND)
    assert told(active.stepped(patient)) == [str(Objection.OTHER_STARTS)]
    passive.step(AdaptersSeen(2, 0))
    begun.pass_time(SECOND)
    assert told(active.stepped(patient)) == ["CloseAdmission"], "whether their devices answer is another matter"


def test_who_is_not_patient_is_handed_the_lead_before_its_adapters_stand_by(begun: Table) -> None:
    active = silent(begun)
    active.step(AdaptersSeen(2, 2))
    assert told(active.stepped(SWITCHOVER)) == ["CloseAdmission"]


def test_nothing_is_given_away_to_a_run_that_does_not_follow_yet(begun: Table) -> None:
    """It came back a moment ago, and nothing was appended since the run before had everything: nobody would lead."""
    active = silent(begun)
    beat = active.member.peer.last
    assert beat is not None
    active.step(FromPeer(msgspec.structs.replace(beat, run=beat.run + 20, beat=1, session=0)))
    active.step(SWITCHOVER)
    assert told(active.stepped(OutputsEnded(Instant(0)))) == []


def test_a_write_under_way_delays_it_until_it_has_landed_and_not_longer(begun: Table) -> None:
    active = silent(begun)
    active.step(SWITCHOVER)
    lands = Instant(begun.now + 37 * MS)
    assert "release" not in told(active.stepped(OutputsEnded(lands)))
    assert active.member.deadline() <= lands
    assert "release" not in told(active.stepped(TimePassed(), Instant(lands - 1)))
    effects = told(active.stepped(TimePassed(), lands))
    assert effects == ["StopServing", "release", "release", "release", "yielded"]


def test_the_machine_asks_to_be_woken_when_the_write_has_landed(begun: Table) -> None:
    active = silent(begun)
    active.step(SWITCHOVER)
    lands = Instant(active.member.deadline() - 1)
    active.stepped(OutputsEnded(lands))
    assert active.member.deadline() == lands


def test_its_outcome_ends_the_wait_at_once(begun: Table) -> None:
    active = silent(begun)
    active.step(SWITCHOVER)
    active.step(OutputsEnded(Instant(begun.now + 600 * MS)))
    begun.pass_time(100 * MS)
    assert active.member.state is State.ACTIVE
    assert "yielded" in told(active.stepped(OutputsEnded(Instant(0)), begun.now))


def test_the_outcome_itself_is_recorded_and_replicated_first(begun: Table) -> None:
    """What became of an order goes with the lead: the member that takes over knows it."""
    active = silent(begun)
    active.step(SWITCHOVER)
    active.append(active.log.end.epoch)
    begun.post(active, OutputsEnded(Instant(0)))
    begun.wait_for(State.READY, State.ACTIVE, within_ns=SECOND)
    last = next(one for one in begun.told if isinstance(one, Yielded)).position
    assert begun.sides[1].log.committed >= last


def break_link(table: Table) -> None:
    table.sides[1].is_up = False


def break_all(table: Table) -> None:
    table.sides[1].is_up = False
    table.silent = set(table.voters)


@pytest.mark.parametrize(
    ("what", "reason", "states"),
    [
        (lambda table: None, Objection.OUTPUTS_NOT_ENDED, {State.ACTIVE}),
        (break_link, Objection.OTHER_NOT_IN_SET, {State.SOLO}),
        (break_all, Objection.LEASE_OVER, {State.SUSPENDED}),
    ],
    ids=["an adapter is silent", "the other is lost", "nobody is heard"],
)
def test_one_that_can_not_go_through_is_given_up_with_a_reason_and_a_remedy(
    begun: Table, what: Callable[[Table], None], reason: Objection, states: set[State]
) -> None:
    active = silent(begun)
    answered = order(active, "switchover")
    what(begun)
    until = begun.now + begun.config.handover_ns + SECOND
    while (answer := answered()) is None:
        assert begun.now < until, "bounded by `handover_ns`"
        begun.pass_time(20 * MS)
    assert answer.refusal == GIVEN_UP[reason] and GIVEN_UP[reason].remedy
    assert active.member.state in states
    assert active.status.refused[reason] == 1
    assert active.member.handover.until is None
    assert not any(isinstance(one, Yielded) for one in begun.told)


def test_an_outcome_that_comes_too_late_to_be_replicated_leaves_the_lead_where_it_is(begun: Table) -> None:
    active = silent(begun)
    active.step(SWITCHOVER)
    begun.pass_time(begun.config.handover_ns - 40 * MS)
    end = active.log.end
    active.changed(end=Position(end.epoch, end.sequence + 1))
    active.stepped(LogChanged())
    active.stepped(OutputsEnded(Instant(0)), begun.now)
    effects = active.stepped(TimePassed(), Instant(begun.now + 40 * MS))
    assert told(effects) == [Objection.OTHER_NOT_LEVEL, "Serve"]


def test_given_up_it_serves_on_and_the_next_one_needs_words_of_its_own(begun: Table) -> None:
    active = silent(begun)
    active.step(SWITCHOVER)
    begun.pass_time(begun.config.handover_ns - 40 * MS)
    assert told(active.stepped(TimePassed(), Instant(begun.now + 40 * MS))) == [Objection.OUTPUTS_NOT_ENDED, "Serve"]
    assert active.member.state is State.ACTIVE
    active.step(OutputsEnded(Instant(0)))
    begun.pass_time(100 * MS)
    assert active.member.state is State.ACTIVE, "words that come too late change nothing"
    active.step(SWITCHOVER)
    begun.pass_time(100 * MS)
    assert active.member.state is State.ACTIVE, "and are none for the next handover"
    active.step(OutputsEnded(Instant(0)))
    begun.wait_for(State.READY, State.ACTIVE, within_ns=SECOND)


def test_a_second_order_meanwhile_does_not_take_back_what_was_said(begun: Table) -> None:
    active = silent(begun)
    active.step(SWITCHOVER)
    active.step(OutputsEnded(Instant(begun.now + 300 * MS)))
    active.step(SWITCHOVER)
    begun.wait_for(State.READY, State.ACTIVE, within_ns=SECOND)


def test_a_stop_waits_for_the_handover_and_not_for_ever(begun: Table) -> None:
    active = silent(begun)
    active.step(MemberStopAsked())
    begun.pass_time(begun.config.handover_ns - 100 * MS)
    assert not active.has_stopped
    begun.pass_time(200 * MS)
    assert active.has_stopped, "what is under way is then bounded by the lease, as at a crash"


def test_one_that_does_not_wait_is_told_from_this_one(begun: Table) -> None:
    active = silent(begun)
    active.member.handover = YieldsOverWrites(active.member.own, active.member.peer, active.member.candidate)
    assert "yielded" in told(active.stepped(SWITCHOVER))
