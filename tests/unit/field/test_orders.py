"""Orders: each id at most once, and a bounded desk."""

from albireo.codec.message import WriteOrder
from albireo.field.contract import Written
from albireo.field.orders import ORDERS_MAX, RECEIPTS_MAX, REPEAT_NS, Desk
from albireo.model.command import Outcome, Receipt
from albireo.model.instant import Instant, WallTime


def order(command_id: str, *, epoch: int = 3, not_after: int = 100) -> WriteOrder:
    return WriteOrder(command_id=command_id, item_id=1, value=1.0, epoch=epoch, not_after=not_after)


def carried_out(desk: Desk, command_id: str, now: int = 0) -> Receipt:
    desk.put(order(command_id))
    taken = desk.take()
    assert taken is not None
    return desk.finish(taken, Written(outcome=Outcome.VERIFIED), "guid", Instant(now), WallTime(9))


def test_a_repeated_order_gets_the_stored_receipt_and_is_not_carried_out_again() -> None:
    desk = Desk()
    receipt = carried_out(desk, "a")
    assert receipt == Receipt(command_id="a", outcome=Outcome.VERIFIED, finished_ns=9, ack_guid="guid")
    assert desk.put(order("a")) == receipt
    assert desk.take() is None


def test_an_order_on_its_way_is_not_taken_twice() -> None:
    desk = Desk()
    assert desk.put(order("a")) is None
    assert desk.put(order("a")) is None
    assert desk.take() == order("a")
    assert desk.put(order("a")) is None
    assert desk.take() is None


def test_orders_are_carried_out_in_the_order_they_came() -> None:
    desk = Desk()
    for one in "abc":
        desk.put(order(one))
    assert [taken.command_id for taken in iter(desk.take, None)] == ["a", "b", "c"]


def test_a_full_desk_rejects_and_lets_the_same_id_try_again() -> None:
    desk = Desk()
    for number in range(ORDERS_MAX):
        assert desk.put(order(str(number))) is None
    refused = desk.put(order("late"))
    assert refused is not None
    assert refused.outcome is Outcome.REJECTED
    desk.take()
    assert desk.put(order("late")) is None


def test_receipts_are_forgotten_oldest_first() -> None:
    desk = Desk()
    for number in range(RECEIPTS_MAX + 1):
        carried_out(desk, str(number))
    assert desk.put(order("0")) is None
    assert desk.put(order("1")) is not None


def test_recent_receipts_are_those_that_core_may_have_missed() -> None:
    desk = Desk()
    carried_out(desk, "old", now=0)
    carried_out(desk, "new", now=REPEAT_NS)
    assert [one.command_id for one in desk.recent(Instant(REPEAT_NS))] == ["new"]
