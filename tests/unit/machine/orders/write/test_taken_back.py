"""Orders to items of the node itself, taken back: a promise before anything is accepted, and too late afterwards."""

from collections.abc import Callable
from typing import Any

import pytest

from albireo.codec.message import Answer, Ask, ProducerHello, WriteDone, WriteOrder
from albireo.codec.record import Audited, CommandAccepted, CommandFinished, CommandRequested
from albireo.machine.kernel.events import Answered
from albireo.model.command import Outcome, Receipt
from albireo.model.instant import SECOND
from tests.parts.refusals import refused_with
from tests.parts.retired_items import again
from tests.parts.root import ITEMS, World

CANCEL, ORDER = 8, 7


def hello(one: World, run: int = 1) -> None:
    one.letter(b"plc", ProducerHello(producer="p1", items=ITEMS, run=run, takes_orders=True))


def order(one: World, expires_ms: int = 60_000) -> None:
    arguments = {"item": "fan_set", "value": 40.0, "command_id": "c1", "user": "ann", "expires_ms": expires_ms}
    one.letter(b"desk", Ask(request_id=ORDER, what="write", arguments=arguments))


def cancel(one: World, command_id: str = "c1") -> None:
    arguments: dict[str, object] = {"command_id": command_id, "user": "bob", "reason": "mistake"}
    one.letter(b"desk", Ask(request_id=CANCEL, what="cancel", arguments=arguments))


def told(one: World) -> dict[int, Any]:
    """Outcome of each question that was answered, or the refusal."""
    answers = [found for found in one.take(Answer) if isinstance(found, Answer)]
    return {found.request_id: refused_with(found) or found.result["outcome"] for found in answers}  # type: ignore[index]


def appended() -> World:
    """The order is on its way into the log; the adapter has gone."""
    one = away()
    order(one)
    return one


def away() -> World:
    """A node whose items are declared by an adapter that is away."""
    one = World()
    hello(one)
    one.sync()
    one = again(one)
    one.take(Answer)
    return one


def present() -> World:
    """The order is on its way into the log, and the adapter waits for it."""
    one = World()
    hello(one)
    one.sync()
    order(one)
    return one


def requested() -> World:
    one = appended()
    one.sync()
    return one


def accepted() -> World:
    one = World()
    hello(one)
    one.sync()
    order(one)
    one.sync()
    return one


def finished() -> World:
    one = accepted()
    one.letter(b"plc", WriteDone(receipt=Receipt(command_id="c1", outcome=Outcome.VERIFIED)))
    one.sync()
    one.take(Answer)
    return one


@pytest.mark.parametrize("state", [appended, present, requested])
def test_before_it_is_accepted_it_is_cancelled_and_never_sent(state: Callable[[], World]) -> None:
    one = state()
    cancel(one)
    one.sync()
    assert told(one) == {ORDER: "rejected", CANCEL: "cancelled"}
    hello(one, 2)
    one.sync()
    one.pass_time(SECOND)
    assert (one.take(WriteOrder), one.records(CommandAccepted)) == ([], [])
    (entry,) = [found for found in one.records(Audited) if isinstance(found, Audited) and found.action == "cancel"]
    assert (entry.user, entry.subject, entry.detail) == ("bob", "c1", "mistake")


@pytest.mark.parametrize("outcome", [Outcome.VERIFIED, Outcome.REJECTED, Outcome.UNKNOWN])
def test_once_it_is_accepted_its_outcome_is_told_instead(outcome: Outcome) -> None:
    one = accepted()
    cancel(one)
    one.sync()
    assert told(one) == {}
    one.letter(b"plc", WriteDone(receipt=Receipt(command_id="c1", outcome=outcome)))
    one.sync()
    assert told(one) == {ORDER: outcome.value, CANCEL: outcome.value}
    assert len(one.take(WriteOrder)) == 1


def test_what_the_adapter_is_told_in_the_same_moment_is_not_called_cancelled() -> None:
    """`accepted` is appended and not committed: the order will leave with the commit."""
    one = World()
    hello(one)
    one.sync()
    order(one)
    while not one.records(CommandAccepted):
        one.commit()
        one.step(Answered())
    cancel(one)
    one.sync()
    assert told(one) == {}
    assert len(one.take(WriteOrder)) == 1
    assert one.records(CommandFinished) == []


def test_the_course_tells_who_can_promise_what() -> None:
    one = requested()
    cancel(one)
    one.sync()
    one.take(Answer)
    course: Any = one.ask("command", command_id="c1").result
    assert (course["state"], course["cause"], course["way"]) == ("cancelled", "abortion-by-cancel", ("root",))
    assert [step["stage"] for step in course["steps"]] == ["requested", "authorised", "cancelled"]
    assert "never will be" in course["detail"]


def test_a_tenure_that_ends_before_it_is_on_record_keeps_the_promise_all_the_same() -> None:
    """The order itself is on record: the next tenure expires it."""
    one = requested()
    cancel(one)
    later = again(one)
    hello(later, 3)
    later.sync()
    later.pass_time(SECOND)
    assert (later.take(WriteOrder), later.records(CommandAccepted)) == ([], [])
    (ended,) = [found for found in later.records(CommandFinished) if isinstance(found, CommandFinished)]
    assert ended.receipt.outcome in (Outcome.REJECTED, Outcome.EXPIRED)


@pytest.mark.parametrize(
    ("state", "command_id", "words"),
    [
        (finished, "c1", "has ended already: verified"),
        (requested, "c9", "no order 'c9' that this node gave is open"),
    ],
)
def test_what_can_not_be_taken_back_is_refused(state: Callable[[], World], command_id: str, words: str) -> None:
    one = state()
    one.take(Answer)
    cancel(one, command_id)
    one.sync()
    assert words in told(one)[CANCEL]


def test_it_is_taken_back_once_by_many() -> None:
    one = requested()
    for number in (20, 21):
        one.letter(b"desk", Ask(request_id=number, what="cancel", arguments={"command_id": "c1"}))
    one.sync()
    assert told(one) == {ORDER: "rejected", 20: "cancelled", 21: "cancelled"}
    assert len(one.records(CommandFinished)) == len(one.records(CommandRequested)) == 1
