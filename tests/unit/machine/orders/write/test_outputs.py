"""CORE while it hands over: what it still hears and records, what leaves no more, when its last write has landed."""

from pathlib import Path

import pytest

from albireo.codec.message import (
    Answer,
    AppendRefused,
    ProducerHello,
    RoleAsked,
    RoleTold,
    WriteDone,
    WriteOrder,
    WritesEnded,
)
from albireo.log import StoreIdentity
from albireo.log.log import Log
from albireo.machine.kernel.events import (
    Deposed,
    Granted,
    HandoverBegun,
    PeerLost,
    Permitted,
    Served,
    Suspended,
)
from albireo.machine.kernel.permit import Permit
from albireo.machine.orders.write.outputs import SENDERS_MAX
from albireo.machine.pair.events import AdaptersSeen, Event, OutputsEnded
from albireo.model.command import Outcome, Receipt
from albireo.model.instant import MS, SECOND, Instant, TimePassed
from albireo.model.position import EpochEntry
from albireo.node.member.output_watch import OutputWatch
from tests.parts.member import member
from tests.parts.root_roles import ITEMS, Side, pair

PLC = b"plc"


def serving() -> Side:
    """One adapter that takes orders, and a permit for half a second."""
    one, _ = pair()
    one.hello()
    one.step(Permitted(Permit(1, Instant(0), Instant(one.now + 500 * MS))))
    return one


def ordered(one: Side, command_id: str) -> WriteOrder:
    """An order on its way to the adapter."""
    one.ask_write(command_id, 1.0)
    (order,) = one.take(WriteOrder)
    assert isinstance(order, WriteOrder)
    return order


def ended(
    one: Side, lands_until: int = 0, *, stand_down: int = 1, sender: bytes = PLC, is_stopped: bool = False
) -> None:
    one.letter(WritesEnded(stand_down=stand_down, lands_until=lands_until, is_stopped=is_stopped), sender=sender)


def done(one: Side, command_id: str, outcome: Outcome = Outcome.VERIFIED) -> None:
    one.letter(WriteDone(receipt=Receipt(command_id=command_id, outcome=outcome)))


def outcome_of(one: Side, command_id: str) -> Outcome:
    state = one.root.folds.commands.find(command_id)
    assert state is not None
    return state.outcome


def test_what_became_of_an_order_is_heard_recorded_and_answered_while_the_lead_is_handed_over() -> None:
    one = serving()
    ordered(one, "w")
    one.step(HandoverBegun("switchover"))
    one.take(Answer)
    done(one, "w")
    assert one.take(Answer) == [], "not before it is committed"
    one.commit()
    assert outcome_of(one, "w") is Outcome.VERIFIED
    (answer,) = one.take(Answer)
    assert isinstance(answer, Answer) and isinstance(answer.result, dict)
    assert answer.result["outcome"] == "verified"


def test_nothing_else_is_taken_and_nothing_is_drafted() -> None:
    one, _ = pair()
    welcome = one.hello()
    one.step(HandoverBegun("switchover"))
    frames = len(one.frames)
    one.append(welcome, 1)
    assert len(one.take(AppendRefused)) == 1
    one.ask_write("w", 1.0)
    one.now = Instant(one.now + 30 * SECOND)
    one.step(TimePassed())
    assert len(one.frames) == frames
    assert one.take(WriteOrder) == []


def test_adapters_are_told_to_stand_by_at_once_and_which_time_it_is() -> None:
    one = serving()
    one.take(RoleTold)
    for number in (1, 2):
        one.step(HandoverBegun("switchover"))
        assert one.take(RoleTold) == [RoleTold(is_acting=False, epoch=1, committed=one.committed, stand_down=number)]
        one.step(Served())
        one.take(RoleTold)


def accepting(one: Side) -> None:
    """The `accepted` of the command "w" is on its way to the disks."""
    one.say_write("w", 1.0)
    one.commit_to(one.end)
    assert outcome_of(one, "w") is Outcome.REQUESTED
    assert one.root.folded_to != one.end, "so nobody is told yet that nothing is open"


def receipt_of(one: Side) -> Receipt:
    state = one.root.folds.commands.find("w")
    assert state is not None and state.receipt is not None
    return state.receipt


def test_an_order_that_was_accepted_and_not_sent_ends_as_never_sent() -> None:
    one = serving()
    accepting(one)
    one.step(HandoverBegun("switchover"))
    one.commit()
    assert one.take(WriteOrder) == []
    assert receipt_of(one).outcome is Outcome.REJECTED
    assert receipt_of(one).detail == "never sent: switchover"


def test_an_order_whose_adapter_went_away_before_it_was_sent_ends_as_never_sent() -> None:
    one = serving()
    accepting(one)
    one.step(PeerLost(PLC))
    one.commit()
    assert one.take(WriteOrder) == []
    assert receipt_of(one).outcome is Outcome.REJECTED
    assert receipt_of(one).detail == "never sent: the adapter that owns the item went away"


def test_an_order_that_the_link_did_not_take_ends_as_never_sent() -> None:
    one = serving()
    ordered(one, "w")
    one.step(PeerLost(PLC, unsent="w"))
    one.now = Instant(one.now + SECOND)
    one.step(TimePassed())
    one.commit()
    assert receipt_of(one).outcome is Outcome.REJECTED
    assert receipt_of(one).detail == "never sent: the adapter that owns the item went away"


def test_an_order_whose_time_ran_out_before_it_was_sent_expires() -> None:
    """A slow disk: the request is committed eleven seconds after it came."""
    one = serving()
    one.say_write("w", 1.0)
    one.now = Instant(one.now + 11 * SECOND)
    one.step(Permitted(Permit(1, Instant(0), Instant(one.now + SECOND))))
    one.commit()
    assert one.take(WriteOrder) == []
    assert receipt_of(one).outcome is Outcome.EXPIRED
    assert receipt_of(one).detail == "never sent: its time ran out first"


def test_an_order_that_may_not_be_sent_any_more_ends_as_never_sent_once_this_member_serves_again() -> None:
    one = serving()
    accepting(one)
    one.step(Suspended("lease over"))
    one.commit()
    assert outcome_of(one, "w") is Outcome.ACCEPTED, "nothing is appended meanwhile"
    one.step(Served())
    one.step(TimePassed())
    one.commit()
    assert one.take(WriteOrder) == []
    assert receipt_of(one).outcome is Outcome.REJECTED
    assert receipt_of(one).detail == "never sent: this node had lost the right to act"


def test_of_an_order_of_another_member_nobody_claims_that_it_was_sent_or_not() -> None:
    one, two = pair()
    one.hello()
    ordered(one, "w")
    two.follow(one)
    two.commit()
    two.history = two.history.granted(EpochEntry(2, two.end.sequence + 1, 5))
    two.step(Granted("test"))
    two.commit()
    two.step(Served())
    two.commit()
    two.now = Instant(two.now + 30 * SECOND)
    two.step(TimePassed())
    two.commit()
    two.step(TimePassed())
    two.commit()
    assert receipt_of(two).outcome is Outcome.UNKNOWN
    assert receipt_of(two).detail.startswith("perhaps sent, and no receipt came in time")


def test_with_the_lead_gone_it_hears_no_more() -> None:
    one = serving()
    ordered(one, "w")
    one.step(HandoverBegun("switchover"))
    one.step(Suspended("yielded"))
    frames = len(one.frames)
    done(one, "w")
    assert len(one.frames) == frames, "the log is another member's to go on with"


def test_given_up_it_serves_on_and_says_which_adapters_kept_silent() -> None:
    one = serving()
    one.step(HandoverBegun("switchover"))
    turn = one.root.step(Served(), one.view(), one.moment())
    assert [(note.event, note.fields) for note in turn.notes] == [("adapters_silent", {"adapters": ["p"]})]
    assert one.root.role.is_serving
    ordered(one, "w")


def test_it_is_not_known_until_every_adapter_has_spoken() -> None:
    one = serving()
    one.letter(ProducerHello(producer="q", items=(), run=1, takes_orders=True), sender=b"other")
    one.commit()
    one.step(HandoverBegun("switchover"))
    ended(one)
    assert one.root.outputs.until() is None
    ended(one, sender=b"other")
    assert one.root.outputs.until() == 0


def test_one_that_takes_no_orders_is_not_waited_for() -> None:
    one = serving()
    one.letter(ProducerHello(producer="q", items=(), run=1), sender=b"other")
    one.commit()
    one.step(HandoverBegun("switchover"))
    ended(one)
    assert one.root.outputs.until() == 0


def test_a_write_under_way_counts_until_its_outcome_is_told() -> None:
    one = serving()
    order = ordered(one, "w")
    one.step(HandoverBegun("switchover"))
    ended(one, order.not_after)
    assert one.root.outputs.until() == order.not_after
    done(one, "w")
    ended(one)
    assert one.root.outputs.until() == 0


def test_words_of_an_earlier_time_are_none() -> None:
    """It has acted since, so it may be writing again."""
    one = serving()
    one.step(HandoverBegun("switchover"))
    one.step(Served())
    one.step(HandoverBegun("switchover"))
    ended(one, stand_down=1)
    assert one.root.outputs.until() is None
    ended(one, stand_down=2)
    assert one.root.outputs.until() == 0


def test_an_adapter_that_is_gone_begins_nothing_and_what_it_sent_is_bounded_by_the_permit() -> None:
    one = serving()
    ordered(one, "w")
    one.step(HandoverBegun("switchover"))
    one.step(PeerLost(PLC))
    assert one.root.role.permit is not None
    assert one.root.outputs.until() == one.root.role.permit.not_after


def test_who_is_waited_for_is_told_again_so_that_its_end_is_noticed() -> None:
    one = serving()
    one.step(HandoverBegun("switchover"))
    one.take(RoleTold)
    one.now = Instant(one.now + SECOND)
    one.step(TimePassed())
    assert one.take(RoleTold) == [RoleTold(is_acting=False, epoch=1, committed=one.committed, stand_down=1)]
    ended(one)
    one.now = Instant(one.now + SECOND)
    one.step(TimePassed())
    assert one.take(RoleTold) == []


@pytest.mark.parametrize("lands_in_ns", [0, 300 * MS])
def test_an_adapter_that_was_stopped_is_not_waited_for(lands_in_ns: int) -> None:
    one = serving()
    ordered(one, "w")
    lands = one.now + lands_in_ns if lands_in_ns else 0
    ended(one, lands, stand_down=0, is_stopped=True)
    one.step(HandoverBegun("stop"))
    assert one.root.outputs.until() == lands


def test_a_run_of_an_adapter_that_was_replaced_still_bounds_what_it_was_given() -> None:
    one = serving()
    order = ordered(one, "w")
    one.letter(ProducerHello(producer="p", items=ITEMS, run=2, takes_orders=True), sender=b"anew")
    one.commit()
    one.step(HandoverBegun("switchover"))
    ended(one, sender=b"anew")
    assert one.root.outputs.until() == order.not_after


def test_a_new_tenure_knows_nothing_of_the_one_before() -> None:
    one = serving()
    ordered(one, "w")
    one.step(Deposed("higher epoch"))
    assert one.root.outputs.until() == 0


def test_the_member_machine_is_told_at_once_and_only_what_is_news(tmp_path: Path) -> None:
    one = serving()
    order = ordered(one, "w")
    log, _ = Log.open(tmp_path / "log", StoreIdentity(cluster="c", node="n"))
    watch = OutputWatch(member(), log, one.root)

    def told() -> list[Event]:
        is_due = watch.deadline() is not None
        news = watch.events(one.now)
        assert is_due == bool(news)
        return news

    assert told() == []
    one.step(HandoverBegun("switchover"))
    assert told() == []
    ended(one, order.not_after)
    assert told() == [OutputsEnded(Instant(order.not_after))]
    assert told() == []
    done(one, "w")
    ended(one)
    assert told() == [], "what became of it is not committed yet"
    one.commit()
    assert told() == [OutputsEnded(Instant(0))]
    one.step(Served())
    one.step(HandoverBegun("switchover"))
    assert told() == []
    ended(one, stand_down=2)
    assert told() == [OutputsEnded(Instant(0))], "of this handover"
    log.close(clean=True)


def test_the_member_machine_is_told_of_adapters_that_act_or_stand_by(tmp_path: Path) -> None:
    one = serving()
    log, _ = Log.open(tmp_path / "log", StoreIdentity(cluster="c", node="n"))
    watch = OutputWatch(member(), log, one.root)
    assert watch.running() == 0, "what takes orders may be a program"
    one.letter(RoleAsked(adapter="p", reaches=True))
    one.letter(RoleAsked(adapter="q", reaches=False))
    assert watch.running() == 1, "q has not said hello"
    assert watch.events(one.now) == [AdaptersSeen(1, 0)]
    one.step(Deposed("higher epoch"))
    assert watch.running() == 2
    log.close(clean=True)


def test_an_adapter_that_said_hello_is_heard_however_many_others_said_that_they_write_no_more() -> None:
    """Whoever speaks without a hello is remembered as far as there is room, and no further."""
    one = serving()
    ordered(one, "c1")
    for number in range(2 * SENDERS_MAX):
        ended(one, stand_down=0, sender=b"%d" % number, is_stopped=True)
    assert len(one.root.outputs._lands_until.keys() | one.root.outputs._stopped) == SENDERS_MAX
    one.step(HandoverBegun("operator"))
    assert one.root.outputs.awaited == [PLC]
    ended(one)
    assert one.root.outputs.awaited == []
