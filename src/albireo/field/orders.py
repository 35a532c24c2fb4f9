"""Orders: the write orders of one adapter, each carried out at most once.

    WriteOrder --> known id? --yes--> its stored receipt again (nothing while it is on its way)
                       |no
                 fewer than ORDERS_MAX wait? --no--> rejected
                       |yes
                 waiting --> taken --> receipt stored and sent

What it does not do: write. COMM takes the orders one by one and reports the outcome of each.

Invariant: an id that was taken once is never handed out again, as long as it is among the last RECEIPTS_MAX.
"""

from collections import OrderedDict, deque
from typing import Final

import msgspec

from albireo.codec.message import WriteOrder
from albireo.field.contract import Written
from albireo.model.bounded import TEXT_CHARS_MAX
from albireo.model.command import Outcome, Receipt
from albireo.model.instant import SECOND, Instant, WallTime

ORDERS_MAX: Final = 100
"""Orders waiting for one adapter. Overflow rule: the new one is rejected; an operator sees it at once."""
RECEIPTS_MAX: Final = 1_000
"""Receipts remembered for a repeated order, oldest forgotten first."""
REPEAT_NS: Final = 60 * SECOND
"""Receipts this young are sent again when CORE comes back: it may have died before it took them."""


class _Done(msgspec.Struct, frozen=True):
    receipt: Receipt
    at: Instant


class WriteOrders:
    """Write orders that wait, are on their way, or are done."""

    def __init__(self) -> None:
        self._waiting: deque[WriteOrder] = deque()
        self._on_the_way: set[str] = set()
        self._done: OrderedDict[str, _Done] = OrderedDict()

    def put(self, order: WriteOrder) -> Receipt | None:
        """Take an order in.

        Returns:
            a receipt to send now: the stored one of a repeated order, or a rejection for want of room (not stored:
            the same id may be tried again). None: it waits, or is on its way already.
        """
        done = self._done.get(order.command_id)
        if done is not None:
            return done.receipt
        if order.command_id in self._on_the_way:
            return None
        if len(self._waiting) >= ORDERS_MAX:
            return Receipt(
                command_id=order.command_id,
                outcome=Outcome.REJECTED,
                detail=f"never sent: {ORDERS_MAX} orders wait for this adapter; order again later",
            )
        self._on_the_way.add(order.command_id)
        self._waiting.append(order)
        return None

    def take(self) -> WriteOrder | None:
        """The next order to carry out."""
        return self._waiting.popleft() if self._waiting else None

    def finish(self, order: WriteOrder, written: Written, ack_guid: str, now: Instant, at_ns: WallTime) -> Receipt:
        """Store the outcome of an order that was taken, and give its receipt.

        Texts are cut: CORE takes no receipt with a longer one, and the outcome would stay unknown.
        """
        read_back = written.read_back
        receipt = Receipt(
            command_id=order.command_id,
            outcome=written.outcome,
            detail=written.detail[:TEXT_CHARS_MAX],
            read_back=read_back[:TEXT_CHARS_MAX] if isinstance(read_back, str) else read_back,
            finished_ns=at_ns,
            ack_guid=ack_guid,
        )
        self._on_the_way.discard(order.command_id)
        self._done[order.command_id] = _Done(receipt, now)
        while len(self._done) > RECEIPTS_MAX:
            self._done.popitem(last=False)
        return receipt

    def recent(self, now: Instant) -> list[Receipt]:
        """Receipts that CORE may have missed."""
        return [one.receipt for one in self._done.values() if now - one.at < REPEAT_NS]
