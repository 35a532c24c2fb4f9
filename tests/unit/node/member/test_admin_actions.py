"""Admin actions, on real machines: first record, re-admission, maintenance, switchover, force, joint stop."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from albireo.codec.message import Ask
from albireo.codec.pair_message import Install, Leaving, Prepare, Read, Yielded
from albireo.codec.record import Audited
from albireo.log import write_aside
from albireo.log.files import sync_names
from albireo.machine.pair.events import AdaptersSeen, CaseTold, HoldAsked, MemberStopAsked, State, SwitchoverAsked
from albireo.machine.vote.voter import VoteAsked, VoterState
from albireo.model.access import AccessRole, RoleGrant
from albireo.model.instant import MS, SECOND, WallTime
from albireo.node.member.admin_actions import REFUSED_NOTED_MAX, WAITING_MAX
from albireo.node.member.audit_trail import USER_CHARS_MAX
from albireo.node.member.joint_stop import HOLD_NS
from albireo.node.member.marks import ACTIONS_MAX, BYTES_MAX, NAME, UNREADABLE_NAME, MarkedCase, Marks
from albireo.node.member.status import REFUSED_MAX, MemberStatus
from albireo.runtime import Letter
from albireo.sim.engine.disk import PowerCut, SimDisk
from tests.parts.admin_actions import Desk, done, order, outcome
from tests.parts.pair import OPERATOR, WALL, Side, Table
from tests.parts.refusals import refused_with

W1, W2, W3 = "witness:w1", "witness:w2", "witness:w3"


def refused(side: Side, what: str, **arguments: object) -> tuple[str, str]:
    """Error and remedy."""
    answer = outcome(side, what, **arguments)
    assert answer.refusal is not None and answer.refusal.remedy, answer
    return answer.refusal.cause, answer.refusal.remedy


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


@pytest.fixture
def begun(table: Table) -> Table:
    done(table.sides[0], "pair_init")
    table.wait_for(State.ACTIVE, State.READY)
    return table


def test_first_record_is_the_primarys_and_given_once(begun: Table) -> None:
    record = begun.voters[W1].store
    assert record is not None and record.record.members == (0, 1)
    assert "not new" in refused(begun.sides[0], "pair_init")[0]
    assert "only the primary" in refused(begun.sides[1], "pair_init")[0]


def test_voter_that_has_the_first_record_counts_when_the_order_is_given_again(table: Table) -> None:
    table.silent = {W2, W3}
    error, _ = refused(table.sides[0], "pair_init")
    assert "1 of 3" in error and f"{W2}: silent" in error
    table.silent = {W3}
    answers = done(table.sides[0], "pair_init")["voters"]
    assert answers == {W1: "has it already", W2: "took it", W3: "silent"}


def test_voter_that_lost_its_store_takes_the_record_and_the_highest_promise_known(begun: Table) -> None:
    begun.lose_store(W2)
    begun.pass_time(200 * MS)
    primary = begun.sides[0]
    started_at = begun.now
    done(primary, "voter_reset", voter="w2")
    assert begun.now - started_at >= begun.config.lease_and_drift, "whoever had asked it before has given up by then"
    store = begun.voters[W2].store
    assert store is not None and primary.member.holder is not None
    assert store.record == primary.member.holder.record
    assert store.promised >= primary.member.holder.epoch
    begun.pass_time(2 * SECOND)
    begun.silent = {W1}
    done(primary, "switchover")
    begun.wait_for(State.READY, State.ACTIVE)


def test_reset_promises_the_highest_epoch_that_any_voter_has_promised(begun: Table) -> None:
    """The holder can't raise its epoch above it, for want of a majority: the re-admitted voter is what it lacks."""
    primary = begun.sides[0]
    assert primary.member.holder is not None
    epoch = primary.member.holder.epoch + 101
    begun.silent = {W1, W3}
    begun.pass_time(SECOND)
    question = Prepare(cluster=begun.config.cluster, generation=1, member=1, run=99, round=1, epoch=epoch)
    begun.voters[W3].step(VoteAsked(question), begun.now)
    store = begun.voters[W3].store
    assert store is not None and store.promised == epoch, "its lease was over"
    begun.lose_store(W2)
    begun.silent = {W1}
    begun.pass_time(200 * MS)
    done(primary, "voter_reset", voter=W2)
    installs = [one for one in begun.asked if isinstance(one, Install)]
    assert installs[-1].promised == epoch > installs[-1].record.epoch
    begun.pass_time(2 * SECOND)
    assert primary.member.holder.epoch > epoch, "with two of three it leads on, above what was promised"


def test_lone_voter_is_not_reset_while_the_other_member_may_have_been_promised_something(tmp_path: Path) -> None:
    table = Table(tmp_path, (W1,))
    done(table.sides[0], "pair_init")
    table.wait_for(State.ACTIVE, State.READY)
    table.sides[1].is_up = False
    table.wait_for(State.SOLO, State.READY)
    table.lose_store(W1)
    table.pass_time(200 * MS)
    error, remedy = refused(table.sides[0], "voter_reset", voter=W1)
    assert "not certain" in error and "other member" in remedy
    table.sides[1].is_up = True
    table.wait_for(State.SOLO, State.CATCHING_UP)
    assert table.sides[0].member.state is State.SOLO, "no voter, no change of the set"
    done(table.sides[0], "voter_reset", voter=W1)
    table.wait_for(State.ACTIVE, State.READY)


def test_reset_is_refused_by_name(begun: Table) -> None:
    primary, backup = begun.sides
    assert "no voter" in refused(primary, "voter_reset", voter="w9")[0]
    assert "has its store" in refused(primary, "voter_reset", voter=W1)[0]
    assert "only the active" in refused(backup, "voter_reset", voter=W1)[0]
    begun.silent = {W3}
    begun.pass_time(4 * SECOND)
    assert "does not answer" in refused(primary, "voter_reset", voter=W3)[0]
    assert "Object missing required field" in refused_with(outcome(primary, "voter_reset"))


def test_switchover_is_answered_when_the_other_leads(begun: Table) -> None:
    assert done(begun.sides[0], "switchover")["active"] == "root[backup]"
    begun.wait_for(State.READY, State.ACTIVE)
    error, remedy = refused(begun.sides[0], "switchover")
    assert "only the active" in error and "--data" in remedy


def test_switchover_is_refused_while_adapters_of_the_other_start_and_maintenance_is_not(begun: Table) -> None:
    primary, _ = begun.sides
    primary.step(AdaptersSeen(1, 1))
    error, remedy = refused(primary, "switchover")
    assert "still start" in error and "albireo maintenance" in remedy
    done(primary, "maintenance", is_on=True)
    begun.wait_for(State.READY, State.ACTIVE)


def test_member_that_was_told_to_lead_asks_again_soon_while_the_voters_lack_the_release(begun: Table) -> None:
    """It leaves before the word to the other member, and may be overtaken all the same."""
    begun.silent = {W1, W2, W3}
    begun.sides[0].step(SwitchoverAsked("test"))
    begun.pass_time(100 * MS)
    begun.silent = set()
    begun.pass_time(320 * MS)
    asked = len(begun.asked)
    begun.pass_time(100 * MS)
    reads = [one for one in begun.asked[asked:] if isinstance(one, Read) and one.member == 1]
    assert len(reads) >= 3 * len(begun.voters), "three times in a tenth of a second"


def test_member_in_maintenance_hands_over_and_takes_over_from_nobody(begun: Table) -> None:
    primary, backup = begun.sides
    done(primary, "maintenance", is_on=True)
    begun.wait_for(State.READY, State.ACTIVE)
    assert "in maintenance" in refused(backup, "switchover")[0]
    backup.is_up = False
    begun.pass_time(5 * SECOND)
    assert primary.member.state is State.READY, "silence of the other moves it not"
    done(primary, "maintenance", is_on=False)
    begun.wait_for(State.SOLO, State.ACTIVE)


def test_maintenance_is_kept_over_a_restart_and_so_is_the_instant_since_when_it_is_at_risk(tmp_path: Path) -> None:
    marks = Marks(tmp_path)
    marks.maintenance(5)
    marks.at_risk(7)
    marks.at_risk(9)
    again = Marks(tmp_path)
    assert (again.maintenance_since_ns, again.at_risk_since_ns) == (5, 7), "the earliest instant counts"
    again.at_risk(0)
    assert Marks(tmp_path).at_risk_since_ns == 0


DAMAGED = [
    b"{",
    b"",
    b"\xff\xfe",
    b"\0" * 4096,
    b'{"maintenance_since_ns": "x"}',
    b'{"cases": [1]}',
    b" " * (BYTES_MAX + 1),
]


@pytest.mark.parametrize("content", DAMAGED, ids=[repr(one[:12]) for one in DAMAGED])
def test_unreadable_marks_are_kept_aside_and_count_as_maintenance(tmp_path: Path, content: bytes) -> None:
    (tmp_path / NAME).write_bytes(content)
    marks = Marks(tmp_path, wall_ns=5)
    assert marks.unreadable
    assert (tmp_path / UNREADABLE_NAME).read_bytes() == content
    for again in (marks, Marks(tmp_path, wall_ns=9)):
        assert (again.maintenance_since_ns, list(again.cases)) == (5, ["marks_unreadable"]), "since it was found"
    assert Marks(tmp_path).unreadable == ""
    again.maintenance(0)
    assert Marks(tmp_path).maintenance_since_ns == 0
    assert list(Marks(tmp_path).cases) == ["marks_unreadable"]


@pytest.mark.parametrize("seed", range(8))
def test_unreadable_marks_stay_unreadable_whenever_the_power_fails(seed: int) -> None:
    """At each change of the disk."""
    data = Path("/data")
    for cut_at in range(1, 40):
        disk = SimDisk(seed)
        disk.make_directory(data)
        sync_names(disk, data)
        write_aside(disk, data / NAME, [b"{"])
        disk.cut_at = len(disk.operations) + cut_at
        is_cut = False
        try:
            Marks(data, disk, wall_ns=5)
        except PowerCut:
            is_cut = True
        again = Marks(data, disk.power_cut(seed), wall_ns=5)
        assert (again.maintenance_since_ns, list(again.cases)) == (5, ["marks_unreadable"])
        if not is_cut:
            return
    pytest.fail("it never ended")


def test_member_with_unreadable_marks_takes_over_from_nobody_and_both_say_so(begun: Table) -> None:
    primary, backup = begun.sides
    (backup.data / NAME).write_bytes(b"{")
    backup.open_books()
    backup.actions.begin(backup.on_record())
    begun.pass_time(SECOND)
    assert "marks_unreadable" in cases(backup) and "marks_unreadable" in heard_cases(primary)
    primary.is_up = False
    begun.pass_time(5 * SECOND)
    assert backup.member.state is State.READY
    done(backup, "maintenance", is_on=False)
    begun.wait_for(State.ACTIVE, State.SOLO)
    assert done(backup, "pair_seen")["ended"] == ["marks_unreadable"]


def test_member_that_leads_alone_is_not_drained(begun: Table) -> None:
    begun.sides[1].is_up = False
    begun.wait_for(State.SOLO, State.READY)
    error, remedy = refused(begun.sides[0], "maintenance", is_on=True)
    assert "solo" in error and "node stop" in remedy
    assert begun.sides[0].marks.maintenance_since_ns == 0


def test_maintenance_that_could_not_hand_over_is_undone(begun: Table) -> None:
    primary, backup = begun.sides
    backup.step(HoldAsked(True))
    begun.pass_time(200 * MS)
    assert "in maintenance" in refused(primary, "maintenance", is_on=True)[0]
    assert primary.marks.maintenance_since_ns == 0 and not primary.member.own.is_held


def test_force_is_refused_while_the_other_is_heard_and_leads_when_it_is_not(begun: Table) -> None:
    primary, backup = begun.sides
    assert "signs of life" in refused(backup, "promote")[0]
    assert "it leads" in refused(primary, "promote")[0]
    begun.silent = {W1, W2, W3}
    primary.is_up = False
    begun.pass_time(2 * SECOND)
    assert backup.member.state is State.READY
    assert done(backup, "promote")["is_forced"] is True
    assert backup.member.state in (State.RECOVERING, State.SOLO)
    assert "history_at_risk" in backup.status.describe(backup.member, backup.log, begun.now).cases


def test_the_end_of_a_maintenance_leaves_a_member_held_that_is_about_to_stop(begun: Table) -> None:
    backup = begun.sides[1]
    done(backup, "stop_hold")
    done(backup, "maintenance", is_on=True)
    done(backup, "maintenance", is_on=False)
    assert backup.member.own.is_held
    begun.pass_time(HOLD_NS + SECOND)
    assert not backup.member.own.is_held, "the stop did not come"


def test_both_stop_level_and_nobody_leaves_the_set(begun: Table) -> None:
    primary, backup = begun.sides
    primary.append(primary.log.end.epoch)
    done(backup, "stop_hold")
    position = done(primary, "stop_level")["position"]
    asked = {"position": msgspec.to_builtins(position), "shutdown_id": "00ff00ff00ff00ff"}
    for side in (backup, primary):
        done(side, "stop_now", **asked)
        assert side.stop_asked == 1 and side.actions.joint_stop.shutdown_id == "00ff00ff00ff00ff"
    told = [
        backup.stepped(MemberStopAsked(is_joint=True)),
        primary.stepped(MemberStopAsked(is_joint=True)),
    ]
    messages = [*begun.told, *(getattr(effect, "message", None) for effects in told for effect in effects)]
    assert not any(isinstance(message, Leaving | Yielded) for message in messages)
    assert [type(effects[-1]).__name__ for effects in told] == ["StopNow", "StopNow"], "at once, nobody is waited for"
    assert primary.log.end == backup.log.end == primary.log.committed
    record = begun.voters[W1].store
    assert record is not None and record.record.members == (0, 1)


def test_joint_stop_that_is_not_finished_heals_itself(begun: Table) -> None:
    primary, backup = begun.sides
    done(backup, "stop_hold")
    done(primary, "stop_level")
    assert begun.states() == (State.SUSPENDED, State.READY)
    begun.wait_for(State.ACTIVE, State.READY, within_ns=8 * SECOND)
    assert begun.sides[1].member.own.is_held
    begun.pass_time(31 * SECOND)
    assert not backup.member.own.is_held


def test_joint_stop_needs_both_in_the_set_and_the_exact_end(begun: Table) -> None:
    primary, backup = begun.sides
    assert "not ready" in refused(primary, "stop_hold")[0]
    asked = {"position": [4, 99], "shutdown_id": "00ff00ff00ff00ff"}
    assert "was not made ready" in refused(backup, "stop_now", **asked)[0]
    done(backup, "stop_hold")
    assert "4:99" in refused(backup, "stop_now", **asked)[0]
    assert backup.stop_asked == 0
    assert "stop_now" in refused_with(outcome(backup, "stop_now", position=[4, 1], shutdown_id="nonsense"))


def test_passive_member_knows_which_voters_it_reaches(begun: Table) -> None:
    begun.pass_time(5 * SECOND)
    told: Any = begun.sides[1].status.describe(begun.sides[1].member, begun.sides[1].log, begun.now).voters_seen
    assert all(one.answered_ms <= 1_100 for one in told.values())
    begun.silent = {W3}
    begun.pass_time(5 * SECOND)
    told = begun.sides[1].status.describe(begun.sides[1].member, begun.sides[1].log, begun.now).voters_seen
    assert told[W3].answered_ms > 4_000 and told[W1].answered_ms <= 1_100
    assert begun.voters[W1].state(begun.now) is VoterState.LEASED, "a READ changes nothing"


def test_orders_under_way_are_bounded_and_journalled(begun: Table) -> None:
    begun.lose_store(W2)
    begun.pass_time(200 * MS)
    primary = begun.sides[0]
    answers = [order(primary, "voter_reset", voter=W2, user="rosa") for _ in range(WAITING_MAX + 1)]
    last = answers[-1]()
    assert last is not None and "under way" in refused_with(last)
    assert primary.journal[1:3] == ["voter_reset by rosa"] * 2


def test_a_claimed_name_is_cut_before_it_is_kept_anywhere(begun: Table) -> None:
    primary = begun.sides[0]
    answer = order(primary, "pair_seen", user="x" * 500_000)()
    assert answer is not None and refused_with(answer)
    assert primary.journal[-1] == f"pair_seen by {'x' * USER_CHARS_MAX}"


def test_question_that_is_no_order_is_left_to_others(begun: Table) -> None:
    letter = Letter(Desk(), b"c", Ask(request_id=1, what="status"), [], "")  # type: ignore[arg-type]
    assert not begun.sides[0].actions.asked(letter, Ask(request_id=1, what="status"), begun.now)


@pytest.mark.parametrize("seed", range(8))
def test_marks_survive_a_power_cut_whatever_was_written_last(seed: int) -> None:
    """A file renamed over the one before it, and not on the disk, would take both along."""
    disk, data = SimDisk(seed), Path("/data")
    disk.install(data)
    marks = Marks(data, disk)
    marks.maintenance(5)
    marks.case("history_at_risk", MarkedCase(6, "forced"))
    marks.at_risk(7)
    marks.waiting([Audited(at_ns=8, user="rosa", action="maintenance", subject="root[primary]")])
    again = Marks(data, disk.power_cut(seed))
    assert (again.maintenance_since_ns, again.at_risk_since_ns, list(again.cases)) == (5, 7, ["history_at_risk"])
    assert [one.at_ns for one in again.actions] == [8]


def test_what_may_wait_is_written_once_by_somebody_else_and_never_over_what_is_newer(tmp_path: Path) -> None:
    later: list[Callable[[], None]] = []
    marks = Marks(tmp_path, later=later.append)
    marks.at_risk(7)
    marks.waiting([Audited(at_ns=8, user="rosa", action="maintenance", subject="root[primary]")])
    assert not (tmp_path / NAME).exists() and marks.at_risk_since_ns == 7
    marks.maintenance(5)
    again = Marks(tmp_path)
    assert (again.maintenance_since_ns, again.at_risk_since_ns, len(again.actions)) == (5, 7, 1), "all of it went along"
    marks.at_risk(0)
    (work,) = later
    work()
    assert (Marks(tmp_path).maintenance_since_ns, Marks(tmp_path).at_risk_since_ns) == (5, 0)
    marks.at_risk(9)
    assert len(later) == 2


def on_record(side: Side) -> list[tuple[str, str, str]]:
    """(action, user, member it was ordered of), as this member appended it and it was committed."""
    committed = side.log.committed.sequence
    return [(one.action, one.user, one.subject) for sequence, one in side.audits if sequence <= committed]


def test_order_to_the_active_member_is_on_record_before_it_is_carried_out_and_so_is_its_end(begun: Table) -> None:
    primary, backup = begun.sides
    primary.audits.clear()
    done(primary, "switchover", user="rosa")
    begun.wait_for(State.READY, State.ACTIVE)
    begun.pass_time(SECOND)
    assert on_record(primary) == [("switchover", "rosa", "root[primary]")]
    assert on_record(backup) == [("switchover_done", "rosa", "root[primary]")]
    assert "active root[backup]" in backup.audits[0][1].detail
    assert not primary.marks.actions and not backup.marks.actions, "once is enough"


def test_order_without_a_name_is_on_record_under_who_sent_it(begun: Table) -> None:
    primary = begun.sides[0]
    primary.audits.clear()
    begun.lose_store(W2)
    begun.pass_time(200 * MS)
    done(primary, "voter_reset", voter=W2)
    begun.pass_time(SECOND)
    assert [entry[:2] for entry in on_record(primary)] == [
        ("voter_reset", "operator@desk"),
        ("voter_reset_done", "operator@desk"),
    ]
    assert primary.audits[0][1].detail == f"voter {W2}"


def test_first_record_and_force_are_on_record_once_the_new_holder_serves(table: Table) -> None:
    primary, backup = table.sides
    done(primary, "pair_init", user="rosa")
    assert on_record(primary) == [] and len(primary.marks.actions) == 2
    table.wait_for(State.ACTIVE, State.READY)
    table.pass_time(SECOND)
    assert [one[0] for one in on_record(primary)] == ["pair_init", "pair_init_done"]
    table.silent = {W1, W2, W3}
    primary.is_up = False
    table.pass_time(2 * SECOND)
    done(backup, "promote", user="ida")
    table.pass_time(SECOND)
    assert on_record(backup) == [
        ("promote_force", "ida", "root[backup]"),
        ("promote_force_done", "ida", "root[backup]"),
    ]
    assert not backup.marks.actions


def test_order_to_the_passive_member_is_put_on_record_by_the_active_one(begun: Table) -> None:
    primary, backup = begun.sides
    primary.audits.clear()
    done(backup, "maintenance", is_on=True, user="rosa")
    done(backup, "maintenance", is_on=False, user="rosa")
    begun.pass_time(2 * SECOND)
    assert [one[0] for one in on_record(primary)] == [
        "maintenance",
        "maintenance_done",
        "maintenance_end",
        "maintenance_end_done",
    ]
    assert {one[1:] for one in on_record(primary)} == {("rosa", "root[backup]")}
    assert on_record(backup) == [] and not backup.marks.actions


def test_order_that_was_refused_is_on_record_with_the_reason(begun: Table) -> None:
    primary, backup = begun.sides
    primary.audits.clear()
    refused(backup, "switchover", user="rosa")
    begun.pass_time(SECOND)
    assert [one[0] for one in on_record(primary)] == ["switchover", "switchover_refused"]
    assert "only the active member" in primary.audits[1][1].detail


def test_order_waits_over_a_restart_for_somebody_who_can_append(begun: Table) -> None:
    primary, backup = begun.sides
    primary.audits.clear()
    primary.is_up = False
    done(backup, "maintenance", is_on=True, user="rosa")
    assert [one.action for one in Marks(backup.data).actions] == ["maintenance", "maintenance_done"]
    primary.is_up = True
    begun.pass_time(3 * SECOND)
    assert [one[0] for one in on_record(primary)] == ["maintenance", "maintenance_done"]
    assert not Marks(backup.data).actions


def test_order_whose_record_was_cut_is_put_on_record_by_the_other(begun: Table) -> None:
    primary, backup = begun.sides
    begun.lose_store(W2)
    begun.pass_time(200 * MS)
    order(primary, "voter_reset", voter=W2, user="rosa")
    begun.forget()  # Appended, and nothing of it leaves any more.
    primary.is_up = False
    begun.wait_for(State.ACTIVE, State.SOLO)
    primary.is_up = True
    begun.wait_for(State.READY, State.ACTIVE)
    begun.pass_time(SECOND)
    assert ("voter_reset", "rosa", "root[primary]") in on_record(backup)
    assert not primary.marks.actions


def test_order_that_the_passive_one_sees_on_record_is_not_put_there_again_when_it_leads(begun: Table) -> None:
    """The word that it is on record is lost with the active member, the record is not."""
    primary, backup = begun.sides
    done(backup, "maintenance", is_on=False, user="rosa")
    while not any(one.action == "maintenance_end_done" for _, one in primary.audits):
        begun.pass_time(20 * MS)
    assert len(Marks(backup.data).actions) == 2, "the heartbeat that says so has not left yet"
    primary.is_up = False
    begun.wait_for(State.ACTIVE, State.SOLO)
    begun.pass_time(SECOND)
    assert backup.audits == [] and not backup.marks.actions


def test_order_committed_right_before_a_restart_is_on_record_once(begun: Table) -> None:
    """The member that serves goes before it has crossed it off its own list, or told the other one to."""
    primary, backup = begun.sides
    primary.audits.clear()
    order(primary, "maintenance", is_on=False, user="rosa")
    begun.deliver()
    told = list(primary.marks.actions)
    assert on_record(primary) != [] and len(told) == 2
    done(backup, "maintenance", is_on=False, user="ida")
    while len(on_record(primary)) < 4:
        begun.pass_time(20 * MS)
    of_backup = [one for _, one in primary.audits if one.user == "ida"]

    primary.marks.waiting(told)
    primary.open_books()
    primary.actions.begin(primary.on_record())
    before = list(primary.audits)
    heard = primary.member.peer.last
    assert heard is not None
    primary.actions.heard(msgspec.structs.replace(heard, orders=tuple(of_backup), orders_taken_ns=0))
    begun.pass_time(SECOND)
    assert primary.audits == before
    assert not primary.marks.actions and not backup.marks.actions
    assert any(getattr(one, "orders_taken_ns", 0) == of_backup[-1].at_ns for one in begun.told[-50:])


def test_order_after_a_clock_was_set_back_has_a_name_of_its_own(begun: Table) -> None:
    primary = begun.sides[0]
    entry = Audited(at_ns=WALL + SECOND, user="rosa", action="maintenance", subject="root[primary]")
    at = primary.log.committed
    primary.open_books()
    primary.actions.begin([(entry, at)])
    order(primary, "maintenance", is_on=False, user="rosa")
    assert min(one.at_ns for one in primary.marks.actions) > entry.at_ns


def test_steps_of_a_joint_stop_are_on_record_as_one_order(begun: Table) -> None:
    primary, backup = begun.sides
    primary.audits.clear()
    done(backup, "stop_hold")
    done(primary, "stop_level", user="rosa")
    assert [one[0] for one in on_record(primary)] == ["stop_all"]
    assert [one.action for one in primary.marks.actions] == ["stop_all_done"], "for the next start"
    assert not backup.marks.actions


def test_no_more_entries_wait_than_are_bounded(tmp_path: Path) -> None:
    table = Table(tmp_path)
    for _ in range(ACTIONS_MAX):
        refused(table.sides[1], "switchover", user="x" * 1_000)
    waiting = Marks(table.sides[1].data).actions
    assert len(waiting) == ACTIONS_MAX and len(waiting[0].user) == USER_CHARS_MAX
    assert [one.at_ns for one in waiting] == sorted({one.at_ns for one in waiting}), "no two are alike"


def test_refusals_for_want_of_a_role_push_no_order_out_of_the_trail(tmp_path: Path) -> None:
    """Nobody serves, so all entries wait; whoever may only view asks once a second for longer than fits."""
    table = Table(tmp_path)
    side = table.sides[1]
    refused(side, "switchover", user="rosa")
    side.access.told({OPERATOR: RoleGrant(AccessRole.VIEW)})
    for _ in range(ACTIONS_MAX):
        answer = outcome(side, "switchover", user="boss")
        assert "needs the role engineer" in refused_with(answer)
        table.pass_time(SECOND)
    waiting = side.marks.actions
    assert [one.action for one in waiting[:2]] == ["switchover", "switchover_refused"]
    assert {(one.action, one.user, one.principal) for one in waiting[2:]} == {("access_refused", "boss", OPERATOR)}
    assert len(waiting) == REFUSED_NOTED_MAX


def test_a_role_that_is_missing_is_named_and_nothing_is_done(begun: Table) -> None:
    primary = begun.sides[0]
    primary.access.told({OPERATOR: RoleGrant(AccessRole.OPERATE)})
    answer = outcome(primary, "maintenance", is_on=True, user="boss")
    assert "needs the role engineer at root; 'operator@desk' has operate" in refused_with(answer)
    begun.pass_time(SECOND)
    assert (primary.member.state, primary.marks.maintenance_since_ns) == (State.ACTIVE, 0)
    assert on_record(primary)[-1] == ("access_refused", "boss", "root[primary]")


def cases(side: Side) -> dict[str, str]:
    return side.status.describe(side.member, side.log, side.table.now).cases


def heard_cases(side: Side) -> dict[str, str]:
    return side.status.describe(side.member, side.log, side.table.now).other.cases


def cut_at_return(table: Table) -> None:
    """The primary comes back with a record that only it has."""
    primary = table.sides[0]
    primary.append(primary.log.end.epoch)
    table.forget()
    primary.is_up = False
    table.wait_for(State.ACTIVE, State.SOLO)
    primary.is_up = True
    table.wait_for(State.READY, State.ACTIVE)
    table.pass_time(SECOND)


def test_tail_that_was_cut_at_the_passive_member_is_shown_by_both_until_somebody_has_looked(begun: Table) -> None:
    primary, backup = begun.sides
    cut_at_return(begun)
    assert set(cases(primary)) == {"tail_quarantined"}
    assert heard_cases(backup) == cases(primary)
    assert backup.status.figures(backup.member, backup.log.history, begun.now, is_recorded=True).tail_quarantined == 1.0
    assert done(backup, "pair_seen")["ended"] == [], "it stands at the other one"
    assert done(primary, "pair_seen", user="rosa")["ended"] == ["tail_quarantined"]
    begun.pass_time(SECOND)
    assert not cases(primary) and not heard_cases(backup)
    assert backup.status.figures(backup.member, backup.log.history, begun.now, is_recorded=True).tail_quarantined == 0.0
    assert ("pair_seen", "rosa", "root[primary]") in on_record(backup)


def test_history_at_risk_stands_over_a_restart_until_somebody_has_looked(begun: Table) -> None:
    primary, backup = begun.sides
    begun.silent = {W1, W2, W3}
    primary.is_up = False
    begun.pass_time(2 * SECOND)
    done(backup, "promote")
    stood_ns = Marks(backup.data).cases["history_at_risk"].since_ns
    again = MemberStatus(backup.status.seats, begun.config.voters, Marks(backup.data))
    assert again.figures(backup.member, backup.log.history, begun.now, is_recorded=True).history_at_risk == 1.0
    told = again.describe(backup.member, backup.log, begun.now)
    assert told.cases_since_ns["history_at_risk"] == stood_ns
    begun.silent = set()
    primary.is_up = True
    begun.wait_for(State.READY, State.ACTIVE)
    begun.pass_time(SECOND)
    assert "history_at_risk" in heard_cases(primary), "the old one shows it too"
    assert "history_at_risk" in cases(backup), "that both are in the set again does not bring anything back"
    assert done(backup, "pair_seen")["ended"] == ["history_at_risk"]
    assert not Marks(backup.data).cases
    assert not MemberStatus(backup.status.seats, begun.config.voters, Marks(backup.data)).carried()


def test_store_that_was_refused_is_shown_by_both_until_both_are_in_the_set_again(begun: Table) -> None:
    primary, backup = begun.sides
    primary.status.figures(primary.member, primary.log.history, begun.now, is_recorded=True)
    primary.status.told(CaseTold("store_refused", True, "has 3, acknowledged 9"), WALL)
    begun.pass_time(200 * MS)
    assert heard_cases(backup) == {"store_refused": "has 3, acknowledged 9"}
    primary.status.moved(State.SOLO, "alone", WALL)
    assert "store_refused" in cases(primary)
    primary.status.moved(State.ACTIVE, "in charge", WALL)
    assert "store_refused" not in cases(primary)
    looks = (False, True, True)
    shown = [
        primary.status.figures(primary.member, primary.log.history, begun.now, is_recorded=one).store_refused
        for one in looks
    ][1:]
    assert shown == [1.0, 0.0], "it is in one measurement, however short it stood"
    begun.pass_time(200 * MS)
    assert not heard_cases(backup)


def passed(side: Side) -> set[str]:
    """Cases that stood since the last look, by the figures of the pair; looks."""
    figures = side.status.figures(side.member, side.log.history, side.table.now, is_recorded=True)
    return {one for one in ("taken_over", "other_lost", "voters_silent") if getattr(figures, one)}


def test_a_takeover_is_in_one_measurement_however_soon_the_lost_member_is_back(begun: Table) -> None:
    primary, backup = begun.sides
    passed(backup)
    primary.is_up = False
    begun.wait_for(State.ACTIVE, State.SOLO)
    primary.is_up = True
    begun.wait_for(State.READY, State.ACTIVE)
    assert passed(backup) == {"taken_over", "other_lost"}
    assert passed(backup) == set()


def test_a_switchover_is_no_loss(begun: Table) -> None:
    primary, backup = begun.sides
    passed(primary)
    done(primary, "switchover")
    begun.wait_for(State.READY, State.ACTIVE)
    begun.pass_time(SECOND)
    assert passed(backup) == set()


def test_another_run_of_the_other_member_is_a_loss_if_the_last_one_did_not_leave(begun: Table) -> None:
    primary = begun.sides[0]
    passed(primary)
    beat, holder = primary.member.peer.last, primary.member.holder
    assert beat is not None and holder is not None
    primary.status.beat(
        msgspec.structs.replace(beat, run=beat.run + 1), WallTime(WALL), primary.member, primary.log.history
    )
    assert passed(primary) == {"other_lost"}
    holder.is_peer_leaving = True
    primary.status.beat(
        msgspec.structs.replace(beat, run=beat.run + 2), WallTime(WALL), primary.member, primary.log.history
    )
    assert passed(primary) == set()


def test_a_voter_that_was_silent_between_two_looks_was_silent(begun: Table) -> None:
    primary = begun.sides[0]
    passed(primary)
    begun.silent = {W3}
    begun.pass_time(4 * SECOND)
    begun.silent = set()
    begun.pass_time(200 * MS)
    assert passed(primary) == {"voters_silent"}
    assert passed(primary) == set()


def test_case_that_the_other_invents_is_not_shown(begun: Table) -> None:
    beat = begun.sides[1].member.peer.last
    assert beat is not None
    long = msgspec.structs.replace(beat, cases=(("made_up", "x"), ("tail_quarantined", "y" * 10_000)))
    begun.sides[1].member.peer.last = long
    assert heard_cases(begun.sides[1]) == {"tail_quarantined": "y" * 200}


def test_refusals_under_ever_new_words_are_counted_in_a_bounded_table(begun: Table) -> None:
    status = begun.sides[0].status
    for number in range(10_000):
        status.refuse(f"reason {number}")
    assert len(status.refused) == REFUSED_MAX + 1
    assert status.refused.total() == 10_000
