"""CORE's root machine as one of two: it follows, is promoted, is suspended, is deposed, is cut."""

import msgspec
import numpy as np
import pytest

from albireo.codec import record, samples
from albireo.codec.frame import body_crc
from albireo.codec.message import (
    Answer,
    Append,
    Appended,
    AppendEntry,
    AppendRefused,
    Ask,
    ProducerHello,
    ProducerWelcome,
    RoleAsked,
    RoleTold,
    WriteDone,
    WriteOrder,
)
from albireo.codec.record import Kind, Stream
from albireo.field.diagnostics import AdapterDiagnostics, Health
from albireo.machine.answers.status import status_of
from albireo.machine.desk.role import STANDING_BY_MAX, Batch, Role
from albireo.machine.fold.alarms import cases
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.events import (
    Deposed,
    Granted,
    LogCut,
    OrdersGiven,
    PairChanged,
    Permitted,
    Served,
    Suspended,
)
from albireo.machine.kernel.permit import Permit
from albireo.machine.kernel.turn import Turn
from albireo.model.command import Outcome, Receipt
from albireo.model.instant import MS, SECOND, Instant, TimePassed, WallTime
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.position import EpochEntry, Position
from albireo.model.value import ValueType
from tests.parts.refusals import refused_with
from tests.parts.root_roles import ITEMS, LOG, T0, Side, pair


def test_a_follower_folds_what_is_committed_and_appends_nothing() -> None:
    one, two = pair()
    welcome = one.hello()
    one.append(welcome, 1, 42.0)
    one.commit()
    two.follow(one)
    before = len(two.frames)
    two.commit()
    assert two.root.folds.snapshot() == one.root.folds.snapshot()
    two.now = Instant(two.now + 30 * SECOND)
    two.step(TimePassed())
    assert len(two.frames) == before, "no mark, no silent adapter, no case of its own"


def test_a_holder_whose_frame_is_not_committed_waits_and_does_not_spin() -> None:
    one, _ = pair()
    one.append(one.hello(), 1)
    for _ in range(3):
        one.now = Instant(one.now + SECOND)
        one.step(TimePassed())
        assert one.root.deadline() > one.now, "nothing is due before the commit that is waited for"
    one.commit()
    marks = len(one.frames)
    one.step(TimePassed())
    assert len(one.frames) == marks + 1, "then the idle log gets its mark"


def test_what_is_not_committed_is_not_folded() -> None:
    one, two = pair()
    two.follow(one)
    folded = two.root.folds.snapshot()
    one.hello()
    two.follow(one)
    assert two.root.folds.snapshot() == folded


def test_a_producer_is_sent_home_and_told_when_it_may_come() -> None:
    _, two = pair()
    two.letter(ProducerHello(producer="p", items=ITEMS, run=1))
    assert two.take(RoleTold) == [RoleTold(is_acting=False, epoch=0)]
    two.lead()
    assert two.take(RoleTold) == [RoleTold(is_acting=True, epoch=1, committed=Position(1, 1))]


def test_nothing_is_taken_from_a_producer_that_comes_anyway() -> None:
    one, two = pair()
    welcome = one.hello()
    two.follow(one)
    two.commit()
    before = len(two.frames)
    two.append(welcome, 1)
    (refused,) = two.take(AppendRefused)
    assert isinstance(refused, AppendRefused)
    assert (refused.refusal.code, len(two.frames)) == ("not_holder", before)


def test_dedup_goes_on_where_the_other_stood() -> None:
    """The successor knows every batch of the one before: a repeat is answered, not appended; a gap is refused."""
    one, two = pair()
    welcome = one.hello()
    one.append(welcome, 1, 1.0)
    one.append(welcome, 2, 2.0)
    two.follow(one)  # Not committed there when it died.
    two.lead()
    again = two.hello()
    assert (again.producer_id, again.last_sequence, again.item_ids) == (welcome.producer_id, 2, welcome.item_ids)
    before = len(two.frames)
    two.append(again, 2)
    two.commit()
    assert len(two.frames) == before
    (answer,) = two.take(Appended)
    assert isinstance(answer, Appended)
    assert answer.producer_sequence == 2


def test_ids_are_not_given_twice_after_a_promotion() -> None:
    one, two = pair()
    welcome = one.hello()
    two.follow(one)
    two.lead()
    two.letter(ProducerHello(producer="q", items=(DataItem(name="new", value_type=ValueType.BOOL),), run=1))
    two.commit()
    (other,) = two.take(ProducerWelcome)
    assert isinstance(other, ProducerWelcome)
    assert not set(other.item_ids) & set(welcome.item_ids)
    assert other.producer_id != welcome.producer_id


def test_it_serves_only_when_everything_before_is_folded() -> None:
    one, two = pair()
    one.hello()
    two.follow(one)
    two.history = two.history.granted(EpochEntry(2, two.end.sequence + 1, 5))
    two.step(Granted("test"))
    two.step(Served())
    assert not two.root.role.is_serving
    two.commit_to(Position(1, two.end.sequence - 1))
    assert not two.root.role.is_serving
    two.commit()
    assert two.root.role.is_serving


def test_suspended_it_takes_nothing_but_what_commits_is_still_answered() -> None:
    one, _ = pair()
    welcome = one.hello()
    one.append(welcome, 1)
    one.step(Suspended("lease over"))
    one.append(welcome, 2)
    assert [type(one) for one in one.take(AppendRefused)] == [AppendRefused]
    one.commit()
    (answer,) = one.take(Appended)
    assert isinstance(answer, Appended)
    assert answer.producer_sequence == 1
    one.step(Served())
    one.append(welcome, 2)
    one.commit()
    (answer,) = one.take(Appended)
    assert isinstance(answer, Appended)
    assert answer.producer_sequence == 2, "the same tenure: the producer need not say hello again"


def test_deposed_it_answers_nothing_that_it_did_not_see_committed() -> None:
    one, _ = pair()
    welcome = one.hello()
    one.append(welcome, 1)
    one.step(Deposed("higher epoch"))
    one.commit()
    assert one.take(Appended) == []
    assert one.root.folds.producers.find("p") is not None, "what the successor commits is folded all the same"


def test_a_cut_takes_back_what_was_not_committed() -> None:
    one, two = pair()
    welcome = one.hello()
    two.follow(one)
    two.commit()
    one.append(welcome, 1, 66.0)
    one.step(Deposed("higher epoch"))
    two.lead()
    common = two.history.entries[-1].first_sequence - 1
    one.frames = [frame for frame in one.frames if frame.header.last_sequence <= common]
    one.step(LogCut())
    one.follow(two)
    one.commit()
    assert one.root.folds.snapshot() == two.root.folds.snapshot()


def cut_back(one: Side, two: Side) -> None:
    """The first was deposed; the second leads, and the first takes its log in the place of what nobody committed."""
    one.step(Deposed("higher epoch"))
    two.lead()
    common = two.history.entries[-1].first_sequence - 1
    one.frames = [frame for frame in one.frames if frame.header.last_sequence <= common]
    one.step(LogCut())
    one.follow(two)
    one.commit()
    two.step(Deposed("switchover"))


def level_pair() -> tuple[Side, Side]:
    one, two = pair()
    two.follow(one)
    two.commit()
    return one, two


def test_a_producer_whose_opening_was_cut_is_opened_by_a_record_in_the_next_tenure_of_the_same_process() -> None:
    one, two = level_pair()
    one.letter(ProducerHello(producer="p", items=ITEMS, run=1, takes_orders=True))
    cut_back(one, two)
    assert one.root.folds.producers.find("p") is None
    one.lead()
    welcome = one.hello()
    known = one.root.folds.producers.find("p")
    assert known is not None and (known.producer_id, known.run) == (welcome.producer_id, 1)
    one.append(welcome, 1)
    one.commit()
    assert known.last_sequence == 1, "what it appends has a producer that the log knows"


def test_a_batch_that_was_cut_is_wanted_again_in_the_next_tenure_of_the_same_process() -> None:
    one, two = pair()
    first = one.hello()
    one.append(first, 1)
    one.commit()
    two.follow(one)
    two.commit()
    one.append(first, 2)
    cut_back(one, two)
    one.lead()
    welcome = one.hello()
    assert (welcome.producer_id, welcome.last_sequence) == (first.producer_id, 1)
    one.append(welcome, 2)
    one.commit()
    assert [one.producer_sequence for one in one.take(Appended) if isinstance(one, Appended)][-1] == 2


ALARMED = (DataItem(name="fan", value_type=ValueType.FLOAT64, alarm=AlarmSettings(hi=10.0)),)


def with_an_alarm() -> tuple[Side, Side, ProducerWelcome]:
    """A pair whose log has one active alarm, which nobody has acknowledged."""
    one, two = pair()
    one.letter(ProducerHello(producer="p", items=ALARMED, run=1))
    one.commit()
    (welcome,) = one.take(ProducerWelcome)
    assert isinstance(welcome, ProducerWelcome)
    one.append(welcome, 1, 99.0)
    one.commit()
    two.follow(one)
    two.commit()
    assert [case.is_active for case in two.root.folds.cases] == [True]
    return one, two, welcome


def act(side: Side, **arguments: object) -> None:
    side.letter(Ask(request_id=1, what="case_action", arguments={"user": "ann", **arguments}), sender=b"cli")


def test_a_case_whose_record_was_cut_is_followed_in_the_next_tenure_of_the_same_process() -> None:
    """Found by reading: the acknowledgement counted as on its way for ever, so the case was never cleared again."""
    one, two, welcome = with_an_alarm()
    (case,) = one.root.folds.cases
    act(one, action="ack", case_id=case.case_id)
    cut_back(one, two)
    assert [case.is_acked for case in one.root.folds.cases] == [False]
    one.lead()
    one.letter(ProducerHello(producer="p", items=ALARMED, run=1))
    one.commit()
    one.append(welcome, 2, 1.0)
    one.commit()
    assert [(case.is_active, case.is_acked) for case in one.root.folds.cases] == [(False, False)]


def test_the_rest_of_an_acknowledgement_of_all_ends_with_its_tenure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows in the next one whether the operator still means it."""
    monkeypatch.setattr(cases, "PROPOSED_MAX", 0)
    one, two, _ = with_an_alarm()
    act(one, action="ack_all")
    cut_back(one, two)
    monkeypatch.undo()
    one.lead()
    one.pass_to(1)
    one.commit()
    assert [case.is_acked for case in one.root.folds.cases] == [False]


def test_an_order_leaves_only_within_the_permit() -> None:
    one, _ = pair()
    one.hello()
    one.step(Permitted(Permit(1, Instant(one.now + 100 * MS), Instant(one.now + 500 * MS))))
    one.ask_write("early", 1.0)
    assert one.take(WriteOrder) == [], "the lease of the one before may still run"
    one.now = Instant(one.now + 200 * MS)
    one.step(TimePassed())
    one.commit()
    (order,) = one.take(WriteOrder)
    assert isinstance(order, WriteOrder)
    assert order.not_after == one.now + 300 * MS
    one.now = Instant(one.now + 400 * MS)
    one.ask_write("late", 2.0)
    assert one.take(WriteOrder) == []


@pytest.mark.parametrize(("waits_s", "left_s"), [(4, 6), (11, 0)])
def test_the_time_of_an_order_goes_on_while_its_records_wait_for_their_commit(waits_s: int, left_s: int) -> None:
    one, _ = pair()
    one.hello()
    one.say_write("slow", 1.0)
    one.commit_to(one.end)
    assert not one.take(WriteOrder), "what was accepted is not committed yet"
    one.now = Instant(one.now + waits_s * SECOND)
    one.commit_to(one.end)
    sent = one.take(WriteOrder)
    assert [order.not_after for order in sent if isinstance(order, WriteOrder)] == (
        [one.now + left_s * SECOND] if left_s else []
    )
    one.commit()
    assert outcomes(one) == ([] if left_s else ["expired"])


def outcomes(side: Side) -> list[str]:
    """What was answered to orders since the last look."""
    found = side.take(Answer)
    assert all(isinstance(one, Answer) and isinstance(one.result, dict) for one in found)
    return [one.result["outcome"] for one in found if isinstance(one, Answer) and isinstance(one.result, dict)]


def test_who_ordered_of_a_member_that_leads_no_more_hears_the_outcome_from_the_log_of_the_new_one() -> None:
    one, two = pair()
    one.hello()
    two.follow(one)
    two.commit()
    one.ask_write("there", 1.0)
    two.follow(one)
    two.commit()
    one.step(Deposed("higher epoch"))
    assert outcomes(one) == []
    two.lead()
    two.letter(WriteDone(Receipt(command_id="there", outcome=Outcome.VERIFIED)))
    one.follow(two)
    assert outcomes(one) == [], "not committed yet"
    one.commit()
    assert outcomes(one) == ["verified"]
    one.pass_to(60)
    assert outcomes(one) == [], "once"


def test_an_order_whose_request_was_cut_is_unknown_in_the_end() -> None:
    one, two = pair()
    one.hello()
    two.follow(one)
    two.commit()
    one.say_write("gone", 1.0)
    one.step(Deposed("higher epoch"))
    two.lead()
    common = two.history.entries[-1].first_sequence - 1
    one.frames = [frame for frame in one.frames if frame.header.last_sequence <= common]
    one.step(LogCut())
    one.follow(two)
    one.commit()
    one.pass_to(12)
    assert outcomes(one) == [], "the outcome may still come"
    one.pass_to(14)
    assert outcomes(one) == ["unknown"]


def test_a_suspended_member_does_not_keep_who_ordered_waiting_for_ever() -> None:
    one, _ = pair()
    one.hello()
    one.ask_write("stuck", 1.0)
    one.step(Suspended("lease over"))
    one.pass_to(60)
    assert outcomes(one) == ["unknown"]


def test_a_question_that_waits_for_a_commit_hears_that_the_lead_is_gone() -> None:
    one, _ = pair()
    turn = Turn(one.view())
    one.root.after(one.end.sequence + 1, b"me", Answer(request_id=3, result=[]), turn)
    one.step(Deposed("higher epoch"))
    (answer,) = one.take(Answer)
    assert isinstance(answer, Answer)
    assert answer.request_id == 3 and "what to do" in refused_with(answer)


def test_an_adapter_that_asks_is_told_the_role_and_the_permit() -> None:
    one, two = pair()
    two.letter(RoleAsked(adapter="p", reaches=True))
    assert two.take(RoleTold) == [RoleTold(is_acting=False, epoch=0)]
    one.step(Permitted(Permit(1, Instant(7), Instant(one.now + SECOND))))
    one.letter(RoleAsked(adapter="p", reaches=True))
    told = RoleTold(is_acting=True, epoch=1, committed=one.committed, not_before=7, not_after=one.now + SECOND)
    assert one.take(RoleTold) == [told]
    one.step(Deposed("higher epoch"))
    one.letter(RoleAsked(adapter="p", reaches=True))
    assert one.take(RoleTold) == [RoleTold(is_acting=False, epoch=1, committed=one.committed, stand_down=1)]


def test_an_adapter_is_heard_about_its_device_however_many_names_came_before_it() -> None:
    _, two = pair()
    for number in range(STANDING_BY_MAX + 3):
        two.letter(RoleAsked(adapter=f"p{number}", reaches=True))
    assert two.root.role.reaches == {f"p{number}": True for number in range(STANDING_BY_MAX)}
    two.letter(RoleAsked(adapter="p0", reaches=False))
    assert two.root.role.reaches["p0"] is False


def test_the_status_says_whether_the_device_answers_and_not_only_its_adapter() -> None:
    """By the adapter's own item `connected`; on a member that stands by, by what the adapter says there."""
    one, _ = pair()
    said = AdapterDiagnostics("p", (), 0)
    one.letter(ProducerHello(producer="p", items=said.items, run=1))
    one.commit()
    (welcome,) = one.take(ProducerWelcome)
    assert isinstance(welcome, ProducerWelcome)

    def device(side: Side) -> tuple[object, object, object]:
        (row,) = status_of(side.root, side.view(), side.moment()).adapters
        return row.heard, row.device, row.connected

    assert device(one) == (True, None, False), "its item says nothing yet, so nobody says that it is connected"
    counts = dict.fromkeys(("acquired", "dropped", "queue_bytes", "overruns", "reconnects"), 0)
    for sequence, is_connected in enumerate((True, False, None, True), 1):
        one.now = Instant(one.now + SECOND)
        health = Health(is_connected=is_connected, poll_ms=None, counts=counts)
        batch = said.batches(health, WallTime(T0 + one.now))[0]
        rows = msgspec.structs.replace(batch, item_id=np.array([welcome.item_ids[0]], np.uint32))
        body = samples.encode_body(welcome.producer_id, sequence, rows)
        entry = AppendEntry(Stream.SAMPLES, Kind.BOOL, len(rows), body_crc(body))
        one.letter(Append(entries=(entry,)), [body])
        one.commit()
        assert device(one) == (True, is_connected, is_connected is True)
    one.step(Deposed("test"))
    assert device(one)[1] is None, "the item is the other member's now"
    one.letter(RoleAsked(adapter="p", reaches=False))
    assert device(one)[1:] == (False, False)
    one.letter(RoleAsked(adapter="p"))
    assert device(one)[1:] == (None, False), "with `standby = off` nobody asks the device"


def test_the_status_of_a_pair_names_the_durability_of_each_stream() -> None:
    one, _ = pair()
    assert status_of(one.root, one.view(), one.moment()).durability == {}, "alone there is nothing to choose"
    local = frozenset({int(Stream.SAMPLES)})
    one = Side(RootConfig(node="root", log_id=LOG, is_paired=True, local_streams=local))
    told = status_of(one.root, one.view(), one.moment()).durability
    assert told == {one.name.lower(): "local" if one is Stream.SAMPLES else "both" for one in Stream}


def test_orders_of_people_are_appended_by_who_serves_and_by_nobody_else() -> None:
    one, two = pair()
    audit = record.Audited(at_ns=1, user="rosa", action="maintenance", subject="root[backup]")
    before = len(one.frames), len(two.frames)
    two.step(OrdersGiven([audit]))
    one.step(OrdersGiven([audit, audit]))
    assert len(two.frames) == before[1]
    (frame,) = one.frames[before[0] :]
    assert frame.header.stream == Stream.AUDIT
    assert record.decode_records(frame.body, frame.header.record_count) == [audit, audit]
    two.follow(one)
    two.commit()


def test_a_receipt_says_how_many_disks_have_it() -> None:
    one, _ = pair()
    welcome = one.hello()
    one.append(welcome, 1)
    one.commit()
    one.step(PairChanged("active", (0, 1)))
    one.append(welcome, 2)
    one.commit()
    one.append(welcome, 2)
    told = [one for one in one.take(Appended) if isinstance(one, Appended)]
    assert [(one.durability, one.members) for one in told] == [("local", ()), ("both", (0, 1)), ("both", (0, 1))]


def test_receipts_of_private_samples_name_the_member_that_took_them() -> None:
    role = Role(RootConfig(node="root", log_id=LOG, member=1, is_paired=True))
    role.members = (0, 1)
    assert role.receipt(7, Batch(1, Position(4, 9))).members == (0, 1)
    private = frozenset({int(Stream.SAMPLES)})
    one = Side(RootConfig(node="root", log_id=LOG, member=1, is_paired=True, private_streams=private))
    one.step(PairChanged("active", (0, 1)))
    role = one.root.role
    told = [role.receipt(7, Batch(1, Position(epoch, 9), is_private=True)) for epoch in (4, 5)]
    assert [(receipt.durability, receipt.members) for receipt in told] == [("local", (0,)), ("local", (1,))]
    assert status_of(one.root, one.view(), one.moment()).replication == {
        name.name.lower(): "configuration" if name is Stream.SAMPLES else "all" for name in Stream
    }
