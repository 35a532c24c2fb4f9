"""Client side of a pair: who is talked to, what is sent again, and that nothing is lost, doubled or out of order.

The members here are models of a CORE around the real admission: what they append is committed while they lead.
"""

import random
from collections import deque
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from albireo.codec import record, samples
from albireo.codec.message import (
    Answer,
    AnyMessage,
    Append,
    Appended,
    AppendRefused,
    Ask,
    FeedAck,
    FeedAnswer,
    FeedData,
    FeedHello,
    FeedState,
    ProducerHello,
    ProducerWelcome,
    RoleAsked,
    RoleTold,
    Successor,
)
from albireo.codec.questions.declared import QUESTIONS
from albireo.codec.record import GapFound, Kind, ProducerOpened
from albireo.machine.desk.admission import Admission
from albireo.machine.desk.detours import Detours
from albireo.machine.desk.receipts import Receipts
from albireo.machine.desk.role import Role
from albireo.machine.feed.follower import ASK_AGAIN_NS, SILENCE_NS, Deliver, FollowerConfig
from albireo.machine.feed.roaming import Fed, Roaming
from albireo.machine.feed.viewing import Viewing
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.producers import Producers
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.turn import Turn
from albireo.machine.producer.asking import AnswerCame, GivenUp, NodeAsker, NotSaid, QuestionAsked, Unanswered
from albireo.machine.producer.config import ProducerConfig
from albireo.machine.producer.flight import MESSAGE_BYTES
from albireo.machine.producer.producer import Offered
from albireo.machine.producer.seeking import (
    AskRole,
    Chose,
    FellSilent,
    LineDown,
    LineUp,
    RoleHeard,
    SeekConfig,
    Seeker,
    TurnedAway,
)
from albireo.machine.producer.sending import Acknowledged, BatchRefused, Effects, Heard, PairSender, SayTo, Superseded
from albireo.model.instant import MS, SECOND, Instant, TimePassed
from albireo.model.item import DataItem
from albireo.model.log_view import LogView
from albireo.model.position import Position
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType
from tests.parts.refusals import no

SEEK = SeekConfig()
SEEDS = 50
ITEMS = (DataItem(name="number", value_type=ValueType.INT64),)
CONFIG = ProducerConfig(queue_bytes_max=MESSAGE_BYTES)


def at(ms: float) -> Instant:
    return Instant(int(ms * MS))


def acts(epoch: int) -> RoleTold:
    return RoleTold(is_acting=True, epoch=epoch)


def passive(epoch: int) -> RoleTold:
    return RoleTold(is_acting=False, epoch=epoch)


def numbers(*values: int, value_type: ValueType | None = None) -> SampleBatch:
    """Batch of another value type than the previous one, so that batches that wait do not become one body."""
    rows = len(values)
    value_type = value_type or (ValueType.INT64 if values[0] % 2 else ValueType.FLOAT64)
    times = np.full(rows, 1, np.int64)
    return SampleBatch(
        value_type=value_type,
        item_id=np.zeros(rows, np.uint32),
        source_ns=times,
        node_ns=times,
        value=np.array(values, np.int64) if value_type is ValueType.INT64 else np.array(values, np.float64),
        quality=np.zeros(rows, np.uint32),
    )


def settled(epoch: int = 4) -> Seeker:
    """Talks to member 0, both lines up."""
    one = Seeker(SEEK, at(0))
    one.step(LineUp(0), at(0))
    one.step(LineUp(1), at(0))
    assert one.step(RoleHeard(0, acts(epoch)), at(0)) == [Chose(0)]
    return one


def test_everybody_in_reach_is_asked_until_one_acts() -> None:
    one = Seeker(SEEK, at(0))
    assert one.deadline() is None
    assert one.step(LineUp(1), at(0)) == [AskRole(1)]
    assert one.step(LineUp(0), at(1)) == [AskRole(0), AskRole(1)]
    assert one.step(RoleHeard(1, passive(4)), at(2)) == []
    assert one.step(TimePassed(), at(50)) == [], "not due yet"
    assert one.step(TimePassed(), at(101)) == [AskRole(0), AskRole(1)]
    assert one.step(RoleHeard(0, acts(4)), at(102)) == [Chose(0)]
    assert one.chosen == 0 and one.epoch == 4
    assert one.step(TimePassed(), at(1_200)) == [AskRole(1)], "so that it tells us of a takeover"


@pytest.mark.parametrize("event", [LineDown(0), LineUp(0), RoleHeard(0, passive(4)), TurnedAway(0), FellSilent(0)])
def test_the_member_talked_to_is_left_when_it_is_gone_or_says_no(event: LineDown | LineUp | RoleHeard) -> None:
    effects = settled().step(event, at(10))
    assert effects[0] == Chose(None)
    assert AskRole(1) in effects


@pytest.mark.parametrize("event", [LineDown(1), LineUp(1), RoleHeard(1, passive(4)), TurnedAway(1), FellSilent(1)])
def test_what_befalls_the_other_changes_nothing(event: LineDown | LineUp | RoleHeard) -> None:
    one = settled()
    assert [effect for effect in one.step(event, at(10)) if isinstance(effect, Chose)] == []
    assert one.chosen == 0


def test_a_higher_epoch_is_followed_at_once_and_a_lower_one_is_not() -> None:
    one = settled()
    assert one.step(RoleHeard(1, acts(5)), at(10)) == [Chose(1)]
    assert one.step(RoleHeard(0, acts(4)), at(11)) == [], "it was paused and does not know yet"
    one.step(LineDown(1), at(12))
    assert one.step(RoleHeard(0, acts(4)), at(13)) == [], "the one of epoch 5 may come back"
    assert one.chosen is None


def test_the_epoch_is_a_hint_after_a_takeovers_time_without_anybody_better() -> None:
    one = settled(epoch=9)
    one.step(LineDown(0), at(0))
    assert one.step(RoleHeard(1, acts(3)), at(1_699)) == []
    assert one.step(RoleHeard(1, acts(3)), at(1_700)) == [Chose(1)]
    assert one.epoch == 3


def test_nobody_is_asked_on_a_line_that_is_down() -> None:
    one = settled()
    assert one.step(LineDown(1), at(1)) == []
    assert one.step(LineDown(0), at(1)) == [Chose(None)]
    assert one.deadline() is None
    assert one.step(LineUp(1), at(2)) == [AskRole(1)]


def test_patience_must_outlast_the_asking() -> None:
    with pytest.raises(ValueError, match="settle_ns"):
        SeekConfig(settle_ns=100 * MS)


def asker() -> NodeAsker:
    one = NodeAsker("client", SEEK, at(0))
    one.step(LineUp(0), at(0))
    one.step(LineUp(1), at(0))
    return one


def question(what: str, line: int | None, request_id: int = 7) -> QuestionAsked:
    """A question as a client asks it: whether it may be repeated goes by its declaration."""
    kind = QUESTIONS[what]
    return QuestionAsked(Ask(request_id=request_id, what=what), line, kind.is_repeatable, kind.is_order)


def asked(what: str, request_id: int = 7) -> QuestionAsked:
    return question(what, None, request_id)


def said(effects: Effects | list[SayTo | AnswerCame | Unanswered]) -> list[tuple[int, str]]:
    """Messages but for the asking after roles."""
    found = [(one.member, type(one.message).__name__) for one in effects if isinstance(one, SayTo)]
    return [one for one in found if one[1] != "RoleAsked"]


def test_a_question_waits_for_a_member_that_acts() -> None:
    one = asker()
    assert one.step(asked("status"), at(0)) == []
    assert said(one.step(Heard(1, acts(2)), at(1))) == [(1, "Ask")]
    answer = Answer(request_id=7, result="good")
    assert one.step(Heard(0, answer), at(2)) == [], "not who was asked"
    assert one.step(Heard(1, Answer(request_id=6)), at(2)) == [], "a late answer to another question"
    assert one.step(Heard(1, answer), at(2)) == [AnswerCame(1, answer)]
    assert one.step(Heard(1, answer), at(2)) == [], "the same once more"
    assert one.waiting == 0


def test_a_question_that_changes_nothing_is_asked_again_after_a_takeover() -> None:
    one = asker()
    one.step(Heard(0, acts(2)), at(0))
    assert said(one.step(asked("write"), at(1))) == [(0, "Ask")]
    assert said(one.step(LineDown(0), at(2))) == []
    assert said(one.step(Heard(1, acts(5)), at(3))) == [(1, "Ask")]
    assert one.step(Heard(0, Answer(request_id=7)), at(4)) == []


@pytest.mark.parametrize("event", [LineDown(0), Heard(1, acts(5))])
def test_an_order_without_an_id_is_never_given_twice(event: LineDown | Heard) -> None:
    one = asker()
    one.step(Heard(0, acts(2)), at(0))
    one.step(asked("case_action"), at(1))
    effects = one.step(event, at(2))
    assert Unanswered(0, 7) in effects
    assert said(one.step(Heard(1, acts(6)), at(3))) == []


def test_a_question_given_up_is_not_said_later() -> None:
    one = asker()
    one.step(asked("status"), at(0))
    one.step(GivenUp(7), at(1))
    assert said(one.step(Heard(0, acts(2)), at(2))) == []


def test_many_questions_are_open_at_a_time_and_each_gets_its_own_answer() -> None:
    one = asker()
    one.step(Heard(0, acts(2)), at(0))
    assert [said(one.step(asked("read", number), at(0))) for number in (1, 2, 3)] == 3 * [[(0, "Ask")]]
    second = Answer(request_id=2, result="b")
    assert one.step(Heard(0, second), at(1)) == [AnswerCame(0, second)]
    effects = one.step(Heard(1, acts(5)), at(2))
    again = [(effect.member, effect.message) for effect in effects if isinstance(effect, SayTo)]
    asks = [(member, message.request_id) for member, message in again if isinstance(message, Ask)]
    assert asks == [(1, 1), (1, 3)], "those without an answer, at whoever acts now"
    assert one.step(Heard(0, Answer(request_id=1)), at(3)) == [], "of a member that was left"


def test_a_question_to_a_named_member_stays_with_it_whoever_acts() -> None:
    one = asker()
    one.step(Heard(0, acts(2)), at(0))
    assert said(one.step(question("status", 1), at(0))) == [(1, "Ask")]
    assert said(one.step(Heard(1, acts(5)), at(1))) == []
    one.step(LineDown(1), at(2))
    assert said(one.step(Heard(0, acts(6)), at(3))) == [], "not at the other one"
    assert said(one.step(LineUp(1), at(4))) == [(1, "Ask")]
    answer = Answer(request_id=7)
    assert one.step(Heard(1, answer), at(5)) == [AnswerCame(1, answer)]


def test_a_line_beside_those_of_the_members_serves_named_questions_only() -> None:
    one = asker()
    assert said(one.step(question("history_piece", 2), at(0))) == []
    assert said(one.step(LineUp(2), at(1))) == [(2, "Ask")]
    assert one.chosen is None
    effects = one.step(LineDown(2), at(2))
    assert effects == [], "it may be asked again"
    assert said(one.step(LineUp(2), at(3))) == [(2, "Ask")]


def test_a_question_that_could_not_be_sent_was_not_said_and_goes_out_later() -> None:
    one = asker()
    one.step(Heard(0, acts(2)), at(0))
    one.step(asked("case_action"), at(0))
    assert one.was_said(7)
    one.step(NotSaid(7), at(0))
    assert not one.was_said(7)
    assert Unanswered(0, 7) not in one.step(LineDown(0), at(1)), "nobody can have done it"
    assert said(one.step(Heard(1, acts(5)), at(2))) == [(1, "Ask")]


def refusing(code: RefusalCode) -> Answer:
    return Answer(request_id=7, refusal=Refusal(code, "so it is"))


def test_an_order_that_the_lead_left_is_asked_for_again_until_somebody_knows_its_end() -> None:
    one = asker()
    one.step(Heard(0, acts(2)), at(0))
    assert said(one.step(asked("write"), at(0))) == [(0, "Ask")]
    assert one.step(Heard(0, refusing(RefusalCode.MOVED)), at(1)) == [], "no end of the order"
    assert one.deadline() == at(101)
    assert said(one.step(TimePassed(), at(101))) == [(0, "Ask")], "nobody else is known to act"
    for code in (RefusalCode.NOT_HOLDER, RefusalCode.NOT_RECORDING, RefusalCode.BUSY, RefusalCode.MOVED):
        assert one.step(Heard(0, refusing(code)), at(102)) == [], "that tells nothing of the first time"
        assert said(one.step(TimePassed(), at(202))) == [(0, "Ask")]
    one.step(Heard(0, refusing(RefusalCode.MOVED)), at(203))
    assert said(one.step(Heard(1, acts(5)), at(400))) == [(1, "Ask")]
    answer = Answer(request_id=7, result="verified")
    assert one.step(Heard(1, answer), at(401)) == [AnswerCame(1, answer)]
    assert one.waiting == 0


@pytest.mark.parametrize("code", [RefusalCode.NOT_HOLDER, RefusalCode.BUSY, RefusalCode.ACCESS, RefusalCode.BAD_VALUE])
def test_an_order_that_is_refused_when_it_is_said_first_is_refused(code: RefusalCode) -> None:
    one = asker()
    one.step(Heard(0, acts(2)), at(0))
    one.step(asked("write"), at(0))
    assert one.step(Heard(0, refusing(code)), at(1)) == [AnswerCame(0, refusing(code))]


@pytest.mark.parametrize(("code", "is_end"), [(RefusalCode.BAD_VALUE, True), (RefusalCode.ACCESS, False)])
def test_who_refuses_the_asker_tells_nothing_of_what_was_ordered_before(code: RefusalCode, is_end: bool) -> None:
    one = asker()
    one.step(Heard(0, acts(2)), at(0))
    one.step(asked("write"), at(0))
    one.step(Heard(1, acts(5)), at(1))
    answer = refusing(code)
    assert one.step(Heard(1, answer), at(2)) == [AnswerCame(1, answer) if is_end else Unanswered(1, 7, answer.refusal)]


def test_an_order_without_an_id_that_the_lead_left_is_unknown() -> None:
    one = asker()
    one.step(Heard(0, acts(2)), at(0))
    one.step(asked("force"), at(0))
    moved = refusing(RefusalCode.MOVED)
    assert one.step(Heard(0, moved), at(1)) == [Unanswered(0, 7, moved.refusal)]


def test_an_order_that_was_said_once_and_could_not_be_said_again_may_have_been_taken() -> None:
    one = asker()
    one.step(Heard(0, acts(2)), at(0))
    one.step(asked("write"), at(0))
    one.step(Heard(1, acts(5)), at(1))
    one.step(NotSaid(7), at(1))
    assert one.was_said(7)


def test_a_question_that_waits_for_a_message_hears_that_the_lead_has_changed() -> None:
    one = asker()
    one.step(Heard(0, acts(2)), at(0))
    one.step(asked("receive"), at(0))
    moved = refusing(RefusalCode.MOVED)
    assert one.step(Heard(0, moved), at(1)) == [AnswerCame(0, moved)], "how long it still waits its caller knows"


def viewing() -> Viewing:
    one = Viewing("view", SEEK, at(0))
    one.step(LineUp(0), at(0))
    one.step(LineUp(1), at(0))
    return one


def hellos(effects: Sequence[object]) -> list[tuple[int, Position]]:
    """Members to which the follower said hello, and where it was."""
    return [
        (effect.member, effect.message.position)
        for effect in effects
        if isinstance(effect, SayTo) and isinstance(effect.message, FeedHello)
    ]


def test_a_view_stays_with_the_member_that_acts_and_begins_anew_with_another() -> None:
    one = viewing()
    assert hellos(one.step(Heard(0, acts(2)), at(0))) == [(0, Position())]
    snapshot = FeedAnswer(verdict="snapshot", log_id=b"a" * 16)
    assert one.step(Fed(1, snapshot), at(1)) == [], "not who is followed"
    one.step(Fed(0, snapshot), at(1))
    state = FeedState(epoch=2, position=Position(2, 9), previous=Position(), is_snapshot=True)
    assert Deliver(state) in one.step(Fed(0, state), at(2))
    assert one.position == Position(2, 9)
    assert hellos(one.step(LineDown(1), at(3))) == []
    assert hellos(one.step(LineUp(1), at(4))) == []
    assert hellos(one.step(Heard(1, acts(5)), at(5))) == [(1, Position())], "all of it anew"
    assert one.position == Position()
    assert hellos(one.restart(at(6))) == [(1, Position())]
    one.step(LineDown(1), at(7))
    assert one.member is None and one.restart(at(8)) == []


def sender(now: float = 0) -> PairSender:
    one = PairSender("p", ITEMS, run=5, config=CONFIG, seek=SEEK, now=at(now))
    one.step(LineUp(0), at(now))
    one.step(LineUp(1), at(now))
    return one


def welcome(last: int, epoch: int) -> ProducerWelcome:
    return ProducerWelcome(producer_id=3, last_sequence=last, item_ids=(41,), epoch=epoch, credit_bytes=1 << 20, run=5)


def appended(sequence: int, epoch: int) -> Appended:
    position = Position(epoch, sequence)
    return Appended(producer_id=3, producer_sequence=sequence, position=position, members=(0,))


def test_what_waited_through_a_takeover_goes_out_in_one_message() -> None:
    one = sender()
    assert said(one.step(Heard(0, acts(2)), at(0))) == [(0, "ProducerHello")]
    one.step(Heard(0, welcome(0, 2)), at(0))
    assert said(one.step(Offered(batches=(numbers(1),)), at(1))) == [(0, "Append")]
    assert one.step(Heard(0, appended(1, 2)), at(2)) == [Acknowledged(1, Position(2, 1), "local", members=(0,))]
    one.step(LineDown(0), at(3))
    for value in range(2, 52):
        assert said(one.step(Offered(batches=(numbers(value),)), at(value))) == []
    assert said(one.step(Heard(1, acts(5)), at(60))) == [(1, "ProducerHello")]
    sent = [one for one in one.step(Heard(1, welcome(1, 5)), at(61)) if isinstance(one, SayTo)]
    assert [(one.member, len(one.raw)) for one in sent] == [(1, 50)]
    assert one.step(Heard(1, appended(51, 5)), at(62)) == [Acknowledged(51, Position(5, 51), "local", members=(0,))]
    assert one.is_all_acknowledged


def test_only_the_chosen_member_is_believed() -> None:
    one = sender()
    one.step(Heard(0, acts(2)), at(0))
    one.step(Heard(0, welcome(0, 2)), at(0))
    one.step(Offered(batches=(numbers(1), numbers(2))), at(1))
    one.step(Heard(1, acts(5)), at(2))
    late = AppendRefused(producer_id=3, producer_sequence=1, refusal=no("gap"), wanted=1)
    for message in (welcome(0, 2), appended(2, 2), late):
        assert one.step(Heard(0, message), at(3)) == []
    assert not one.is_all_acknowledged


def test_a_superseded_sender_says_so_once_and_nothing_to_anybody_any_more() -> None:
    one = sender()
    one.step(Heard(0, acts(2)), at(0))
    one.step(Heard(0, welcome(0, 2)), at(0))
    one.step(Offered(batches=(numbers(1),)), at(1))
    by = Successor(producer_id=4, run=6)
    told = AppendRefused(
        producer_id=3, producer_sequence=0, refusal=no("superseded"), is_final=True, run=5, successor=by
    )
    assert one.step(Heard(1, told), at(2)) == [], "a member that is not chosen"
    assert one.step(Heard(0, told), at(2)) == [Superseded(by)]
    for event in (Heard(0, told), LineDown(0), Heard(1, acts(5)), Offered(batches=(numbers(2),)), TimePassed()):
        assert one.step(event, at(60_000)) == []
    assert one.deadline() is None
    assert one.successor == by


def test_a_refusal_because_passive_is_no_reason_to_ask_the_same_again() -> None:
    one = sender()
    one.step(Heard(0, acts(2)), at(0))
    one.step(Heard(0, welcome(0, 2)), at(0))
    one.step(Offered(batches=(numbers(1),)), at(1))
    refusal = AppendRefused(producer_id=0, producer_sequence=0, refusal=no("not_holder"))
    effects = one.step(Heard(0, refusal), at(2))
    assert said(effects) == []
    assert {one.member for one in effects if isinstance(one, SayTo)} == {0, 1}, "both are asked who acts"


def test_silence_is_waited_out_for_a_takeovers_time_and_then_both_are_asked() -> None:
    one = sender()
    one.step(Heard(0, acts(2)), at(0))
    one.step(Heard(0, welcome(0, 2)), at(0))
    one.step(Offered(batches=(numbers(1),)), at(0))
    for ms in range(0, 1_700, 50):
        assert said(one.step(TimePassed(), at(ms))) == []
        assert one.chosen == 0
    effects = one.step(TimePassed(), at(1_700))
    assert one.chosen is None
    assert [(e.member, type(e.message)) for e in effects if isinstance(e, SayTo)] == [(0, RoleAsked), (1, RoleAsked)]
    assert said(one.step(Heard(0, acts(2)), at(1_750))) == [(0, "ProducerHello")], "it was only slow"


def test_a_member_that_lacks_what_was_acknowledged_is_not_numbered_after() -> None:
    """Member 0 was paused while 1 led alone and died: to begin behind its last number would give numbers twice."""
    one = sender()
    one.step(Heard(0, acts(2)), at(0))
    one.step(Heard(0, welcome(0, 2)), at(0))
    one.step(Offered(batches=(numbers(1),)), at(0))
    one.step(Heard(0, appended(1, 2)), at(1))
    one.step(Heard(1, acts(5)), at(2))
    one.step(Heard(1, welcome(1, 5)), at(3))
    one.step(Offered(batches=(numbers(2), numbers(3))), at(4))
    one.step(Heard(1, appended(2, 5)), at(5))
    one.step(LineDown(1), at(6))
    assert said(one.step(Heard(0, acts(2)), at(5_000))) == [(0, "ProducerHello")], "nobody better for long"
    assert said(one.step(Heard(0, welcome(1, 2)), at(5_001))) == []
    assert one.late_welcomes == 1
    one.step(LineUp(1), at(5_002))
    one.step(Heard(1, acts(8)), at(5_003))
    sent = one.step(Heard(1, welcome(2, 8)), at(5_004))
    assert [record.decode_producer(e.raw[0])[1] for e in sent if isinstance(e, SayTo)] == [3]


def test_a_higher_epoch_that_lacks_what_was_acknowledged_is_the_truth() -> None:
    """An operator has forced it: records are lost, a gap says so, and the numbers begin anew behind what is left."""
    one = sender()
    one.step(Heard(0, acts(2)), at(0))
    one.step(Heard(0, welcome(0, 2)), at(0))
    one.step(Offered(batches=(numbers(1), numbers(2))), at(0))
    one.step(Heard(0, appended(1, 2)), at(1))
    one.step(Heard(1, acts(1001)), at(2))
    sent = one.step(Heard(1, welcome(0, 1001)), at(3))
    bodies = [body for effect in sent if isinstance(effect, SayTo) for body in effect.raw]
    assert [record.decode_producer(body)[1] for body in bodies] == [1, 2]
    (gap,) = record.decode_records(bodies[0], 1)
    assert isinstance(gap, GapFound)
    assert (gap.reason, gap.lost) == ("committed_lost", 1)
    assert one.step(Heard(1, appended(1, 1001)), at(4)) == []
    assert one.step(Heard(1, appended(2, 1001)), at(4))[0] == Acknowledged(2, Position(1001, 2), "local", members=(0,))


def test_a_full_queue_is_said_and_nothing_is_dropped() -> None:
    one = sender()
    count = 0
    while one.has_room([numbers(count)]):
        one.step(Offered(batches=(numbers(count),)), at(0))
        count += 1
    assert count == one.batches_offered > 100
    with pytest.raises(AssertionError):
        one.step(Offered(batches=(numbers(count),)), at(0))


def test_a_batch_that_no_node_can_take_is_reported_and_the_rest_goes_on() -> None:
    one = sender()
    one.step(Heard(0, acts(2)), at(0))
    one.step(Heard(0, welcome(0, 2)), at(0))
    one.step(Offered(batches=(numbers(1), numbers(2), numbers(3))), at(0))
    effects = one.step(Heard(0, AppendRefused(producer_id=3, producer_sequence=2, refusal=no("malformed"))), at(1))
    assert 2 in [one.batch for one in effects if isinstance(one, BatchRefused)]
    one.step(Heard(0, welcome(1, 2)), at(2))
    assert one.step(Heard(0, appended(3, 2)), at(3))[0] == Acknowledged(3, Position(2, 3), "local", members=(0,))


class Member:
    """A CORE as a producer sees it: the real admission over a log that both members share up to the commit."""

    def __init__(self, pair: "Pair", index: int) -> None:
        self.pair = pair
        self.index = index
        self.epoch = 0
        """It believes to lead in this one; 0: it knows that it does not."""
        self.pending: list[tuple[int, int, list[int]]] = []
        """Appended and not committed: producer id, sequence, values."""
        self.out: deque[AnyMessage] = deque()
        self.into: deque[tuple[AnyMessage, tuple[bytes, ...]]] = deque()
        self.standing_by = False
        self.is_up = False

    def lead(self, epoch: int) -> None:
        self.epoch = epoch
        self.pending = []
        self.producers = Producers()
        for opened in self.pair.opened:
            self.producers.fold_opened(opened, 1, 1)
        for place, (producer_id, sequence, _) in enumerate(self.pair.log):
            self.producers.fold_batch(producer_id, sequence, 1, Position(1, place + 1))
        self.knows = False
        receipts = Receipts(
            self.producers, lambda _: b"p" if self.knows else None, Role(RootConfig(node="root", log_id=b"L" * 16))
        )
        self.admission = Admission(
            self.producers,
            lambda _: b"p" if self.knows else None,
            receipts.of,
            lambda *_: True,
            Detours((), lambda _: ()),
            Folds(),
        )
        if self.standing_by:
            self.out.append(acts(epoch))

    def take(self, message: AnyMessage, raw: tuple[bytes, ...]) -> None:
        match message:
            case RoleAsked():
                self.standing_by = not self.epoch
                self.out.append(acts(self.epoch) if self.epoch else passive(self.pair.epoch))
            case ProducerHello() if not self.epoch:
                self.out.append(passive(self.pair.epoch))
            case ProducerHello():
                self.knows = True
                self._hello(message)
            case Append() if not self.epoch:
                self.out.append(AppendRefused(producer_id=0, producer_sequence=0, refusal=no("not_holder")))
            case Append():
                turn = Turn(LogView())
                self.admission.append(b"p", message, raw, turn)
                self.out += [one.message for one in turn.sends]
                for draft in turn.drafts:
                    assert isinstance(draft.content, SampleBatch)
                    values = [int(value) for value in draft.content.values() if not isinstance(value, str)]
                    self.pending.append((draft.producer_id, draft.producer_sequence, values))

    def _hello(self, hello: ProducerHello) -> None:
        if self.producers.find(hello.producer) is None:
            if not self.is_leader:
                return
            self.pair.opened.append(self.producers.open(hello.producer, hello.run, 1, 1))
            self.producers.fold_opened(self.pair.opened[-1], 1, 1)
        known = self.producers.find(hello.producer)
        assert known is not None
        last = self.producers.last_appended(known.producer_id) or 0
        self.out.append(
            ProducerWelcome(
                producer_id=known.producer_id,
                last_sequence=last,
                item_ids=(41,),
                epoch=self.epoch,
                credit_bytes=1 << 16,
                run=hello.run,
            )
        )

    @property
    def is_leader(self) -> bool:
        return self.epoch == self.pair.epoch

    def commit(self, count: int) -> None:
        """Some of what is pending is on both members now; only the real leader can say so."""
        if not self.is_leader or not self.pending[:count]:
            return
        for producer_id, sequence, values in self.pending[:count]:
            self.pair.log.append((producer_id, sequence, values))
            self.producers.fold_batch(producer_id, sequence, 1, Position(self.epoch, len(self.pair.log)))
        del self.pending[:count]
        position = Position(self.epoch, len(self.pair.log))
        self.out.append(Appended(producer_id=producer_id, producer_sequence=sequence, position=position, members=(0,)))


class Pair:
    """Two members, a client, and a generator that decides what happens next."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.epoch = 2
        self.log: list[tuple[int, int, list[int]]] = []
        self.opened: list[ProducerOpened] = []
        self.members = [Member(self, 0), Member(self, 1)]
        self.members[0].lead(2)
        self.client = PairSender("p", ITEMS, run=5, config=CONFIG, seek=SEEK, now=at(0))
        self.now = at(0)
        self.offered = 0
        self.acked = 0
        self.hidden: set[int] = set()
        """Paused: neither takes nor says anything, and does not know that it leads no more."""

    def perform(self, effects: Effects) -> None:
        for effect in effects:
            if isinstance(effect, SayTo):
                member = self.members[effect.member]
                if member.is_up:
                    member.into.append((effect.message, effect.raw))
            else:
                assert isinstance(effect, Acknowledged)
                assert self.acked < effect.batch <= len(self.committed()), "acknowledged before it was committed"
                self.acked = effect.batch

    def committed(self) -> list[int]:
        """One value for each batch that was offered."""
        return [value for _, _, values in self.log for value in values]

    def cut(self, member: Member) -> None:
        if member.is_up:
            member.is_up = False
            member.into.clear()
            member.out.clear()
            member.standing_by = False
            self.perform(self.client.step(LineDown(member.index), self.now))

    def join(self, member: Member) -> None:
        if not member.is_up:
            member.is_up = True
            self.perform(self.client.step(LineUp(member.index), self.now))

    def takeover(self, keeps: int) -> None:
        """The other one leads: it has what was committed and perhaps some of what was not."""
        old = next(one for one in self.members if one.is_leader)
        other = self.members[1 - old.index]
        old.commit(keeps)
        if old.out and isinstance(old.out[-1], Appended) and self.chance.random() < 0.5:
            old.out.pop()
        self.epoch += 1 + (self.epoch + 1 - other.index) % 2
        other.lead(self.epoch)
        self.hidden.discard(other.index)
        match self.chance.randrange(3):
            case 0:
                self.learn(old)
            case 1:
                self.hidden.add(old.index)
            case _:
                pass  # It goes on as if it led, for a while: it takes and welcomes, and can commit nothing.

    def learn(self, member: Member) -> None:
        """It hears that it leads no more, and says so."""
        self.hidden.discard(member.index)
        if member.epoch and not member.is_leader:
            member.epoch = 0
            member.pending = []
            member.out.append(passive(self.epoch))

    def carry(self, member: Member, count: int) -> None:
        for _ in range(min(count, len(member.into))):
            if member.index not in self.hidden:
                member.take(*member.into.popleft())
        for _ in range(min(count, len(member.out))):
            if member.is_up and member.index not in self.hidden:
                self.perform(self.client.step(Heard(member.index, member.out.popleft()), self.now))

    def act(self) -> None:
        chance = self.chance
        member = chance.choice(self.members)
        match chance.choices(range(8), weights=(30, 40, 20, 3, 3, 2, 2, 30))[0]:
            case 0:
                self.offered += 1
                value_type = ValueType.INT64 if self.offered % 5 else ValueType.FLOAT64
                one = numbers(self.offered, value_type=value_type)
                self.perform(self.client.step(Offered(batches=(one,)), self.now))
            case 1:
                self.carry(member, chance.randint(1, 6))
            case 2:
                member.commit(chance.randint(1, 9))
            case 3:
                self.cut(member)
            case 4:
                self.join(member)
            case 5:
                self.takeover(chance.randint(0, 4))
            case 6:
                self.learn(member)
            case 7:
                self.pass_time(chance.randint(1, 400))

    def pass_time(self, ms: int) -> None:
        self.now = Instant(self.now + ms * MS)
        due = self.client.deadline()
        if due is not None and self.now >= due:
            self.perform(self.client.step(TimePassed(), self.now))

    def settle(self) -> None:
        """Faults end; then everything has to come through."""
        for member in self.members:
            self.learn(member)
            self.join(member)
        for _ in range(400):
            for member in self.members:
                self.carry(member, 100)
                member.commit(100)
            self.pass_time(50)
            if self.client.is_all_acknowledged:
                return


@pytest.mark.slow
@pytest.mark.parametrize("block", range(8))
def test_no_takeover_loses_doubles_or_reorders_anything(block: int) -> None:
    """Lines break, members change, stall and come back late; every batch is in the log once, in order."""
    for seed in range(SEEDS * block, SEEDS * block + SEEDS):
        pair = Pair(seed)
        for member in pair.members:
            pair.join(member)
        for _ in range(pair.chance.randint(50, 600)):
            pair.act()
        pair.settle()
        assert pair.committed() == list(range(1, pair.offered + 1)), f"seed {seed}"
        assert pair.acked == pair.offered, f"seed {seed}: never told"


def resumed(position: Position) -> FeedAnswer:
    return FeedAnswer(verdict="resume", position=position, log_id=b"l" * 16)


def data(first: int, last: int, epoch: int = 2) -> FeedData:
    return FeedData(
        epoch=epoch, first=Position(epoch, first), last=Position(epoch, last), previous=Position(epoch, first - 1)
    )


def roaming() -> Roaming:
    """Follows member 0 and has 1..5."""
    one = Roaming(FollowerConfig(name="f"))
    assert [type(effect.message) for effect in one.step(LineUp(0), at(0)) if isinstance(effect, SayTo)] == [FeedHello]
    assert one.step(LineUp(1), at(0)) == []
    one.step(Fed(0, resumed(Position())), at(0))
    first = msgspec.structs.replace(data(1, 5), previous=Position())
    assert isinstance(one.step(Fed(0, first), at(0))[0], Deliver)
    return one


def hello_of(effects: list[object]) -> tuple[int, Position]:
    (found,) = (one for one in effects if isinstance(one, SayTo) and isinstance(one.message, FeedHello))
    assert isinstance(found.message, FeedHello)
    return found.member, found.message.position


def test_a_follower_goes_on_with_the_other_member_where_it_stopped() -> None:
    one = roaming()
    assert hello_of([*one.step(LineDown(0), at(1))]) == (1, Position(2, 5))
    assert one.step(Fed(0, data(6, 7)), at(2)) == [], "whoever was left is not heard"
    one.step(Fed(1, resumed(Position(2, 5))), at(2))
    assert isinstance(one.step(Fed(1, data(6, 7)), at(3))[0], Deliver)
    assert one.position == Position(2, 7)


def test_a_silent_member_is_left() -> None:
    one = roaming()
    assert hello_of([*one.step(TimePassed(), Instant(SILENCE_NS))]) == (1, Position(2, 5))


def test_a_member_that_takes_a_hello_and_says_nothing_is_left() -> None:
    one = roaming()
    one.step(LineDown(0), at(0))
    one.step(LineUp(0), at(0))
    assert one.member == 1
    now = at(0)
    for _ in range(8):
        now = Instant(now + ASK_AGAIN_NS)
        one.step(TimePassed(), now)
        if one.member == 0:
            return
    pytest.fail("it waits for ever")


def test_two_members_that_know_less_are_asked_at_leisure() -> None:
    """A consumer may be ahead of both for the time of a takeover."""
    one = roaming()
    one.step(LineDown(0), at(0))
    one.step(LineUp(0), at(0))
    behind = FeedAnswer(verdict="behind", position=Position(2, 3), log_id=b"l" * 16)
    hellos = 0
    for ms in range(2_000):
        effects = one.step(Fed(one.member or 0, behind), at(ms)) + one.step(TimePassed(), at(ms))
        hellos += sum(isinstance(e, SayTo) and isinstance(e.message, FeedHello) for e in effects)
    assert 2 <= hellos <= 6
    assert one.position == Position(2, 5)


def test_without_any_line_nothing_is_said() -> None:
    one = roaming()
    one.step(LineDown(1), at(0))
    assert one.step(LineDown(0), at(0)) == []
    assert one.member is None
    assert one.step(TimePassed(), Instant(10 * SECOND)) == []
    assert hello_of([*one.step(LineUp(1), Instant(11 * SECOND))]) == (1, Position(2, 5))


def test_acknowledgements_go_to_the_member_followed() -> None:
    one = roaming()
    one.step(LineDown(0), at(0))
    one.step(Fed(1, resumed(Position(2, 5))), at(1))
    one.step(Fed(1, data(6, 6)), at(2))
    alive = [e for e in one.step(TimePassed(), Instant(at(2) + SILENCE_NS)) if isinstance(e, SayTo)]
    assert {e.member for e in alive} == {1}
    assert all(isinstance(e.message, FeedAck | FeedHello) for e in alive)


def test_records_of_a_batch_decode() -> None:
    """The model members read what the sender sends: same bytes as CORE would."""
    one = sender()
    one.step(Heard(0, acts(2)), at(0))
    one.step(Heard(0, welcome(0, 2)), at(0))
    (sent,) = one.step(Offered(batches=(numbers(1, 2),)), at(0))
    assert isinstance(sent, SayTo)
    assert samples.decode_body(sent.raw[0], Kind.INT64, 2).values() == [1, 2]


def test_a_client_that_has_asked_says_every_ten_seconds_that_it_is_there_and_no_other_does() -> None:
    one = asker()
    one.step(Heard(0, acts(2)), at(0))
    for second in range(40):
        assert said(one.step(TimePassed(), at(1000 * second))) == [], "it has asked nothing"
    one.step(asked("status"), at(40_000))
    one.step(Heard(0, Answer(request_id=7)), at(40_001))
    told = [ms for ms in range(40_000, 71_000, 1000) if said(one.step(TimePassed(), at(ms)))]
    assert told == [50_000, 60_000, 70_000]
    assert one.step(Heard(0, Answer(request_id=0)), at(70_001)) == [], "nobody waits for an answer"
    one.step(LineDown(0), at(70_002))
    assert said(one.step(TimePassed(), at(90_000))) == [], "nobody acts"
    one.step(Heard(1, acts(3)), at(90_001))
    assert said(one.step(TimePassed(), at(100_000))) == [(1, "Ask")], "the member that acts now"
