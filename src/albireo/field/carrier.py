"""Carrier: carries out the orders of one adapter, one after the other, and what the adapter writes on its own.

    order --> known item, in range, connected --> adapter leads in the order's epoch --> write --> receipt, once
    no order --> raise the guard of a new tenure; set again what a late order has overwritten, under a permit

The last look at role, epoch and time is right before the bytes leave (`AdapterRole.objection`), after every wait: one
whose time is over by then, behind others too, has expired. An order that may have left and has no outcome is
`unknown`; nothing is written twice.

Told to stand by, it says so at once: from then on the last look lets nothing pass. With it goes until when the one
write that may be under way can land, and once more when its outcome is known. A write of which nobody knows what became
lands before its not-after, or never: it began with the longest way of a write left, and the kernel gives it up then.
A guard that is raised does not count: where there is one, the device itself refuses what comes late.

Spec: design/pair.md, rules 10 and 11; ADR-0108, ADR-0109, ADR-0121.
"""

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from albireo.codec.message import AnyMessage, RoleAsked, WriteDone, WriteOrder, WritesEnded
from albireo.field.contract import GOES_ON, Adapter, PairAdapter, PolledColumns, Written
from albireo.field.orders import WriteOrders
from albireo.field.read_backs import ReadBacks
from albireo.field.role import STANDS_BY, TIME_OVER, AdapterRole
from albireo.model.command import Outcome
from albireo.model.instant import MS, SECOND, Instant, WallTime
from albireo.runtime.actor.actor import ActorContext

TRY_AGAIN_NS: Final = 200 * MS
"""After a guard that could not be raised, or a permit that was asked for and did not come."""


class Carrier:
    """One adapter's orders. COMM sets what it knows: `role`, `epoch`, `is_connected`."""

    def __init__(
        self,
        adapter: Adapter,
        actor: ActorContext,
        send: Callable[[AnyMessage], object],
        row_of: Callable[[int], int | None],
        write_max_ns: int,
    ) -> None:
        """
        Args:
            row_of: row of the item with this id; None: none of this adapter's.
            write_max_ns: see `AdapterRole.objection`.
        """
        self._adapter = adapter
        self._actor = actor
        self._send = send
        self._row_of = row_of
        self._write_max_ns = write_max_ns
        self.show: Callable[[Sequence[PolledColumns], Instant, WallTime], object] = lambda reading, now, at_ns: None
        """Takes what the device held behind a write, and when."""
        self.read_backs = ReadBacks()
        self._orders = WriteOrders()
        self._came = asyncio.Event()
        self._trouble = GOES_ON
        self._under_way: WriteOrder | None = None
        self._left_until = 0
        """Before when what has left without an outcome lands, or never."""
        self._stand_down = 0
        self._said: WritesEnded | None = None
        self.role = AdapterRole()
        self.epoch = 0
        """Highest that the own CORE spoke in."""
        self.is_connected = False
        self.is_stopping = False

    def ordered(self, order: WriteOrder) -> None:
        receipt = self._orders.put(order)
        if receipt is not None:
            self._send(WriteDone(receipt=receipt))
        self._came.set()

    def changed(self) -> None:
        """Something of what COMM sets, or the adapter has outputs to be set again."""
        self._came.set()

    def repeat(self) -> None:
        """CORE came back: it may have missed the newest receipts."""
        for receipt in self._orders.recent(self._actor.now()):
            self._send(WriteDone(receipt=receipt))

    def stands_by(self, stand_down: int) -> None:
        """`role` says so, as CORE did with this number: what waits was never sent, and nothing is begun any more."""
        self._give_back(STANDS_BY)
        self._stand_down = stand_down
        self._say_ended()

    def stopped(self) -> None:
        """`serve` has ended, and the connection is closed."""
        self._give_back("the adapter was stopped")
        self._send(WritesEnded(stand_down=self._stand_down, lands_until=self._lands_until(), is_stopped=True))

    def _give_back(self, reason: str) -> None:
        while (order := self._orders.take()) is not None:
            self._finish(order, _rejected(reason))

    def _lands_until(self) -> int:
        under_way = 0 if self._under_way is None else self._under_way.not_after
        until = max(under_way, self._left_until)
        return until if until > self._actor.now() else 0

    def _say_ended(self) -> None:
        """Say that writes have ended, behind the receipts that this is about."""
        ended = WritesEnded(stand_down=self._stand_down, lands_until=self._lands_until())
        if not self.role.is_acting and ended != self._said:
            self._said = ended
            self._send(ended)

    async def serve(self) -> None:
        """Carry out orders in the order they came, until cancelled."""
        while not self.is_stopping:
            order = self._orders.take()
            if order is not None:
                self._under_way = order
                self._finish(order, await self._written(order))
                self._say_ended()
                continue
            self._came.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if await self._own_writes() else TRY_AGAIN_NS / SECOND):
                    await self._came.wait()

    async def _own_writes(self) -> bool:
        """Raise the guard, mend; False: something is left to do."""
        device = self._adapter
        if not isinstance(device, PairAdapter) or not (self.role.is_acting and self.epoch and self.is_connected):
            return True
        trouble = await device.lead(self.role.tenure(self.epoch))
        if trouble != self._trouble and trouble:
            self._actor.log.warning("outputs_not_led", epoch=self.epoch, reason=trouble)
        self._trouble = trouble
        if trouble or not device.needs_mending:
            return not trouble
        if self._own_objection():
            self._send(RoleAsked(adapter=self._actor.name.removeprefix("comm."), reaches=True))
            return False
        await device.mend(self._may_mend)
        return not device.needs_mending

    def _may_mend(self) -> str:
        reason = self._own_objection()
        if reason == GOES_ON:
            self._left_until = max(self._left_until, self.role.not_after)
        return reason

    def _own_objection(self) -> str:
        return self.role.own_objection(self._actor.now(), self._write_max_ns)

    async def _written(self, order: WriteOrder) -> Written:
        if not self.role.is_acting:
            return _rejected(STANDS_BY)
        row = self._row_of(order.item_id)
        if row is None or row >= len(self._adapter.items):
            return _rejected("no item of this adapter")
        if not self.is_connected:
            return _rejected("the device is not connected")
        if reason := self._adapter.items[row].out_of_range(order.value):
            return _rejected(reason)  # CORE asks the same; this is the last look, but for that at what registers hold.
        may_have_left = is_over = False

        def may_send() -> str:
            nonlocal may_have_left, is_over
            reason = self._objection(order)
            may_have_left, is_over = may_have_left or reason == GOES_ON, reason == TIME_OVER
            return reason

        try:
            if reason := await self._not_ready(order):
                return _rejected(reason)
            written = await self._adapter.write(row, order.value, may_send)
        except asyncio.CancelledError:
            outcome = Outcome.UNKNOWN if may_have_left else Outcome.REJECTED
            self._finish(order, Written(outcome=outcome, detail="the adapter was stopped meanwhile"))
            raise
        if is_over and not may_have_left:
            return msgspec.structs.replace(written, outcome=Outcome.EXPIRED)
        if written.read_back is not None and self.role.is_acting:
            now, item = self._actor.now(), self._adapter.items[row]
            self.show(self.read_backs.reading(row, item, written.read_back, now), now, self._actor.wall_ns())
        return written

    def _objection(self, order: WriteOrder) -> str:
        return self.role.objection(order, self.epoch, self._actor.now(), self._write_max_ns)

    async def _not_ready(self, order: WriteOrder) -> str:
        """Wait until the holder before can write no more, and see that the device takes orders of this epoch."""
        wait_ns = min(order.not_before, order.not_after) - self._actor.now()
        if wait_ns > 0:
            await asyncio.sleep(wait_ns / SECOND)
        reason = self._objection(order)
        if reason or not isinstance(self._adapter, PairAdapter):
            return reason
        return await self._adapter.lead(self.role.tenure(max(self.epoch, order.epoch)))

    def _finish(self, order: WriteOrder, written: Written) -> None:
        now, at_ns = self._actor.now(), self._actor.wall_ns()
        if order is self._under_way:
            self._under_way = None
        if written.outcome is Outcome.UNKNOWN:
            self._left_until = max(self._left_until, order.not_after)
        self._send(WriteDone(receipt=self._orders.finish(order, written, str(uuid.uuid4()), now, at_ns)))


def _rejected(reason: str) -> Written:
    outcome = Outcome.EXPIRED if reason == TIME_OVER else Outcome.REJECTED
    return Written(outcome=outcome, detail=f"never sent: {reason}")
