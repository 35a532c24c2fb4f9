"""Orders: each id at most once, and a bounded queue."""

from albireo.codec.message import WriteDone, WriteOrder, decode, encode
from albireo.field.contract import Written
from albireo.field.orders import ORDERS_MAX, RECEIPTS_MAX, REPEAT_NS, WriteOrders
from albireo.model.bounded import TEXT_CHARS_MAX
from albireo.model.command import Outcome, Receipt
from albireo.model.instant import Instant, WallTime


def order(command_id: str, *, epoch: int = 3, not_after: int = 100) -> WriteOrder:
    return WriteOrder(command_id=command_id, item_id=1, value=1.0, epoch=epoch, not_after=not_after)


def carried_out(orders: WriteOrders, command_id: str, now: int = 0) -> Receipt:
    orders.put(order(command_id))
    taken = orders.take()
    assert taken is not None
    return orders.finish(taken, Written(outcome=Outcome.VERIFIED), "guid", Instant(now), WallTime(9))


def test_a_repeated_order_gets_the_stored_receipt_and_is_not_carried_out_again() -> None:
    orders = WriteOrders()
    receipt = carried_out(orders, "a")
    assert receipt == Receipt(command_id="a", outcome=Outcome.VERIFIED, finished_ns=9, ack_guid="guid")
    assert orders.put(order("a")) == receipt
    assert orders.take() is None


def test_an_order_on_its_way_is_not_taken_twice() -> None:
    orders = WriteOrders()
    assert orders.put(order("a")) is None
    assert orders.put(order("a")) is None
    assert orders.take() == order("a")
    assert orders.put(order("a")) is None
    assert orders.take() is None


def test_orders_are_carried_out_in_the_order_they_came() -> None:
    orders = WriteOrders()
    for one in "abc":
        orders.put(order(one))
    assert [taken.command_id for taken in iter(orders.take, None)] == ["a", "b", "c"]


def test_a_full_queue_rejects_and_lets_the_same_id_try_again() -> None:
    orders = WriteOrders()
    for number in range(ORDERS_MAX):
        assert orders.put(order(str(number))) is None
    refused = orders.put(order("late"))
    assert refused is not None
    assert refused.outcome is Outcome.REJECTED
    orders.take()
    assert orders.put(order("late")) is None


def test_receipts_are_forgotten_oldest_first() -> None:
    orders = WriteOrders()
    for number in range(RECEIPTS_MAX + 1):
        carried_out(orders, str(number))
    assert orders.put(order("0")) is None
    assert orders.put(order("1")) is not None


def test_recent_receipts_are_those_that_core_may_have_missed() -> None:
    orders = WriteOrders()
    carried_out(orders, "old", now=0)
    carried_out(orders, "new", now=REPEAT_NS)
    assert [one.command_id for one in orders.recent(Instant(REPEAT_NS))] == ["new"]


def test_an_endless_text_of_an_adapter_is_cut_so_that_core_takes_the_receipt() -> None:
    orders, long = WriteOrders(), "x" * (TEXT_CHARS_MAX + 1)
    orders.put(order("a"))
    taken = orders.take()
    assert taken is not None
    written = Written(outcome=Outcome.MISMATCHED, detail=long, read_back=long)
    receipt = orders.finish(taken, written, "guid", Instant(0), WallTime(0))
    assert decode(encode(WriteDone(receipt=receipt)))[0] == WriteDone(receipt=receipt)
    assert (len(receipt.detail), receipt.read_back) == (TEXT_CHARS_MAX, long[:TEXT_CHARS_MAX])
