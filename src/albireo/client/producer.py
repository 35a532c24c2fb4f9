"""A producer of a client: has samples committed by a node or a pair, exactly once.

    with client.producer("meter", items) as producer:
        last = producer.offer([batch])          # leaves with the next `wait` or `flush`, or by itself a little later
        producer.flush(10.0)                    # it is known of every batch what became of it
        receipts = producer.wait(1.0)           # Acknowledged(batch=last, position=...)

A takeover makes receipts come later, nothing else. Batches that are not acknowledged yet are kept, and go out again to
whichever member acts. Batches offered between two calls of `wait` leave together, so that many small ones cost little
more than one.

    offer --lock--> Offers --collect, in the engine's thread--> PairSender --> lines

A name is one program's at a time: the newest has it. The one before is told so by `NameTaken`, and is done.

A receipt says on whose disks the batch is, and whether a takeover may still cut it. A batch that may be cut is kept
here and sent again, as long as this producer is open.

The machine: machine/producer/sending.py. Decisions: ADR-0115, ADR-0122, ADR-0143, ADR-0156.
"""

import contextlib
import secrets
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Final, Self

import numpy as np
from msgspec import structs

from albireo.client.engine import Engine, log
from albireo.client.errors import (
    ClientClosed,
    ClientError,
    NameTaken,
    NotDelivered,
    ProducerRefused,
    QueueFull,
    refused,
)
from albireo.client.inbox import Inbox
from albireo.client.way import Target, Way
from albireo.machine.producer.batch_queue import queued_bytes
from albireo.machine.producer.config import RUN_MAX, ProducerConfig
from albireo.machine.producer.flight import Batch
from albireo.machine.producer.producer import Offered
from albireo.machine.producer.seeking import LineDown, LineUp, SeekConfig
from albireo.machine.producer.sending import Acknowledged, BatchRefused, Effects, Heard, PairSender, SayTo, Superseded
from albireo.model.instant import MS, Instant, TimePassed
from albireo.model.item import DataItem
from albireo.model.position import Position
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.samples import SampleBatch, Strings
from albireo.model.value import ValueType
from albireo.runtime.actor.tuning import show_large_block
from albireo.runtime.clock import boot_ns
from albireo.runtime.link.lines import LineNews

RECEIPTS_MAX: Final = 10_000
"""Receipts that wait for a reader; of more the oldest are left out: a later one says the same and more."""
CLOSE_S: Final = 5.0
"""Longest wait of `close` for the last receipts."""

COLLECT_NS: Final = 2 * MS
"""Time after which offered batches leave by themselves, so that those offered in a row leave together."""

Receipts = list[Acknowledged | BatchRefused]


class _ReceiptInbox(Inbox[Receipts]):
    """Receipts that nobody has taken yet."""

    def __init__(self) -> None:
        super().__init__()
        self._receipts: deque[Acknowledged | BatchRefused] = deque(maxlen=RECEIPTS_MAX)

    def put(self, receipt: Acknowledged | BatchRefused) -> None:
        with self._lock:
            self._receipts.append(receipt)
        self.tell()

    def _is_empty(self) -> bool:
        return not self._receipts

    def _taken(self) -> Receipts:
        taken = list(self._receipts)
        self._receipts.clear()
        return taken


class Offers:
    """Batches that were offered and that the machine does not have yet. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._batches: deque[tuple[Batch, int]] = deque()
        self._bytes = 0
        self.count = 0
        """Number of the last batch offered."""

    def put(self, batches: Sequence[Batch], room_bytes: int) -> tuple[int, bool]:
        """Take batches; the number of the last one, and whether nothing waited before.

        Raises:
            QueueFull: there is no room for them.
        """
        sizes = [queued_bytes(one) for one in batches]
        with self._lock:
            if self._bytes + sum(sizes) > room_bytes:
                raise QueueFull("too much waits for the node to commit it", "wait for receipts, then offer again")
            was_empty = not self._batches
            self._batches.extend(zip(batches, sizes, strict=True))
            self._bytes += sum(sizes)
            self.count += len(batches)
            return self.count, was_empty

    def take(self, room_bytes: int) -> tuple[Batch, ...]:
        """The oldest batches, as many as there is room for."""
        taken = []
        with self._lock:
            while self._batches and self._batches[0][1] <= room_bytes:
                batch, size_bytes = self._batches.popleft()
                room_bytes -= size_bytes
                self._bytes -= size_bytes
                taken.append(batch)
        return tuple(taken)

    @property
    def is_waiting(self) -> bool:
        return bool(self._batches)


class ProducerPart:
    """The part: machine and lines, batches on their way to the machine, and who waits for what became of them."""

    def __init__(self, target: Target, name: str, items: Sequence[DataItem], config: ProducerConfig) -> None:
        """Raises: as `Lines`."""
        self.lines = Way(target)
        self.name = name
        self.inbox = _ReceiptInbox()
        self.offers = Offers()
        self.machine = PairSender(
            name,
            items,
            run=1 + secrets.randbelow(RUN_MAX),
            config=config,
            seek=SeekConfig(),
            now=boot_ns(),
        )
        self.done = 0
        """Number of the last batch of which it is known what became of it."""
        self.is_pushed = False
        """True: the engine's thread was asked to `collect` and has not begun."""
        self._collect_at: Instant | None = None
        self._failed: ClientError | None = None
        self._waiting: list[tuple[int, Future[None]]] = []
        self._promised: dict[int, Future[Acknowledged]] = {}
        """Who waits for the receipt of one batch, by its number."""

    # For the engine's thread.

    def collect_soon(self) -> None:
        """Batches were offered: collect them if nobody asks for it before."""
        self._collect_at = self._collect_at or Instant(boot_ns() + COLLECT_NS)

    def collect(self) -> None:
        """Hand to the machine what it has room for."""
        self._collect_at, self.is_pushed = None, False
        if self._failed is None and self.machine.last_word is None:
            batches = self.offers.take(self.machine.room_bytes)
            if batches:
                self._perform(self.machine.step(Offered(batches=batches), boot_ns()))

    def await_batch(self, number: int, future: "Future[None]") -> None:
        """End this future once it is known what became of this batch."""
        if self.done >= number:
            future.set_result(None)
        elif (error := self.last_error()) is not None:
            raise error
        else:
            self._waiting.append((number, future))

    def offer_for(self, batch: Batch, future: "Future[Acknowledged]") -> None:
        """Offer a batch, and give its receipt to this future, or NodeRefused. Raises QueueFull."""
        if (error := self.last_error()) is not None:
            raise error
        number, _ = self.offers.put([batch], self.machine.room_bytes)
        self._promised[number] = future
        if len(self._promised) == 1:
            self.collect()
        else:
            self._collect_at = boot_ns()  # At the end of this turn: with what others offer in it.

    def last_error(self) -> ClientError | None:
        """Why this producer does nothing any more; None: it goes on."""
        if self._failed is not None:
            return self._failed
        if self.machine.successor is not None:
            return NameTaken(self.name, self.machine.successor)
        if self.machine.last_word is not None:
            return ProducerRefused(self.name, self.machine.last_word.refusal)
        return None

    def deadline(self) -> Instant | None:
        due = [one for one in (self._collect_at, self.machine.deadline()) if one is not None]
        return min(due) if due else None

    def heard(self, news: LineNews, now: Instant) -> None:
        if news.is_up is not None:
            self._perform(self.machine.step((LineUp if news.is_up else LineDown)(news.line), now))
        elif news.message is not None:
            self._perform(self.machine.step(Heard(news.line, news.message), now))
        error = self.last_error()
        if error is not None:
            self._fail(error)

    def ticked(self, now: Instant) -> None:
        if self._collect_at is not None and now >= self._collect_at:
            self.collect()
        self._perform(self.machine.step(TimePassed(), now))

    def ended(self, error: ClientClosed) -> None:
        self._fail(error)

    def _fail(self, error: ClientError) -> None:
        if self._failed is None and not isinstance(error, ClientClosed):
            log.error("%s", error)
        self._failed = self._failed or error
        self.inbox.fail(error)
        waiting, self._waiting = self._waiting, []
        promised, self._promised = self._promised, {}
        for _, future in waiting:
            future.set_exception(error)
        for receipt in promised.values():
            receipt.set_exception(error)

    def _perform(self, effects: Effects) -> None:
        for effect in effects:
            match effect:
                case SayTo(member, message, raw):
                    self.lines.send(member, message, raw)
                case Superseded():
                    pass  # The machine remembers it.
                case _:
                    self._told(effect)

    def _told(self, receipt: Acknowledged | BatchRefused) -> None:
        if isinstance(receipt, BatchRefused):
            log.warning("producer %s: batch %d is refused", self.name, receipt.batch)
        self.done = max(self.done, receipt.batch)
        self._keep_promises(receipt)
        self.inbox.put(receipt)
        ended = [future for number, future in self._waiting if number <= self.done]
        self._waiting = [one for one in self._waiting if one[0] > self.done]
        for future in ended:
            future.set_result(None)
        if self.offers.is_waiting:
            self.collect()

    def _keep_promises(self, receipt: Acknowledged | BatchRefused) -> None:
        if isinstance(receipt, BatchRefused):
            if (future := self._promised.pop(receipt.batch, None)) is not None:
                future.set_exception(refused("put", receipt.refusal or _NOT_TAKEN))
            return
        while self._promised and (number := next(iter(self._promised))) <= receipt.batch:  # They are in their order.
            end = receipt.ends.get(number)
            position = receipt.position if end is None else Position(receipt.position.epoch, end)
            own = structs.replace(receipt, batch=number, position=position, ends={}, is_exact=end is not None)
            self._promised.pop(number).set_result(own)


_NOT_TAKEN: Final = Refusal(RefusalCode.MALFORMED, "the batch was not taken")


class Desk:
    """Front of a producer, before the engine: checks, numbers, waits. For any thread."""

    def __init__(self, engine: Engine, part: ProducerPart, items: int) -> None:
        """`items`: number of items of the producer."""
        self.part = part
        self._engine = engine
        self._items = items
        self.is_closed = False
        show_large_block()

    @property
    def name(self) -> str:
        return self.part.name

    def offer(self, batches: Sequence[SampleBatch]) -> int:
        """Take batches to be committed; see `SampleProducer.offer`."""
        for batch in batches:
            check(batch, self._items)
        error = self.part.last_error()
        if error is not None:
            raise error
        if self.is_closed:
            raise ClientClosed(f"producer {self.name!r} is closed")
        self._engine.check()
        number, was_empty = self.part.offers.put(batches, self.part.machine.room_bytes)
        if was_empty and batches:
            self._engine.post(self.part.collect_soon, self.part)
        return number

    def push(self) -> None:
        """Have what was offered leave now.

        Who asks again before that is done asks for the same: a quick program would fill the engine's queue of calls.
        """
        if self.part.offers.is_waiting and not self.is_closed and not self.part.is_pushed:
            self.part.is_pushed = True  # Before it is asked, because the thread may be quicker.
            try:
                self._engine.post(self.part.collect, self.part)
            except ClientError:
                self.part.is_pushed = False
                raise

    def delivered(self) -> "Future[None]":
        """Ends once it is known what became of every batch offered so far."""
        future: Future[None] = Future()
        number = self.part.offers.count

        def work() -> None:
            self.part.collect()
            self.part.await_batch(number, future)

        self._engine.hand_over(work, future)
        return future

    def deliver(self, batch: Batch) -> "Future[Acknowledged]":
        """Offer one batch; ends with its receipt, or with NodeRefused, QueueFull or why nothing is sent any more."""
        future: Future[Acknowledged] = Future()
        self._engine.hand_over(partial(self.part.offer_for, batch, future), future)
        return future

    def settle(self, timeout_s: float) -> None:
        """Wait for at most `timeout_s` until it is known of every batch what became of it."""
        with contextlib.suppress(TimeoutError, NameTaken, ProducerRefused):  # `leave` says what is not delivered.
            self.delivered().result(timeout_s)

    def leave(self) -> None:
        """Close the lines.

        Raises:
            NotDelivered: some batches are not acknowledged.
        """
        self.is_closed = True

        def work() -> int:
            self.part.collect()
            self._engine.remove(self.part)
            self.part.ended(ClientClosed(f"producer {self.name!r} is closed"))
            return self.part.offers.count - self.part.done

        left = self._engine.call(work).result()
        if left:
            raise NotDelivered(self.name, left)


class SampleProducer:
    """A named producer, for threads. Its batches are committed once each, in order, whatever happens to the members."""

    def __init__(self, desk: Desk) -> None:
        """Use `Client.producer`."""
        self._desk = desk

    @property
    def machine(self) -> PairSender:
        """Machine of this producer, to be looked at and not stepped."""
        return self._desk.part.machine

    def offer(self, batches: Sequence[SampleBatch]) -> int:
        """Take batches to be committed; they leave with the next `wait` or `flush`, or by themselves a little later.

        Args:
            batches: `item_id` of each holds indices of the items.
        Returns:
            Number of the last batch, counted from 1; `wait` and `flush` tell when it is committed.
        Raises:
            QueueFull: too much waits already; nothing was taken. `wait`, then offer again.
            NameTaken: this producer is superseded.
            ProducerRefused: the node refuses this producer for good.
            ValueError: a batch is none; nothing was taken.
        """
        return self._desk.offer(batches)

    def wait(self, timeout_s: float) -> Receipts:
        """Receipts and refusals of batches, at once if there are any; empty after `timeout_s`.

        Raises:
            NameTaken, ProducerRefused: as `offer`, once every receipt that came was given out.
        """
        self._desk.push()
        return self._desk.part.inbox.wait(timeout_s)

    def flush(self, timeout_s: float) -> bool:
        """Wait until it is known of every batch what became of it; False after `timeout_s`.

        Raises:
            NameTaken, ProducerRefused: as `offer`.
        """
        try:
            self._desk.delivered().result(timeout_s)
        except TimeoutError:
            return False
        return True

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """Flush for at most `timeout_s`, and close.

        Raises:
            NotDelivered: some batches are not acknowledged.
        """
        if not self._desk.is_closed:
            self._desk.settle(timeout_s)
            self._desk.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close(CLOSE_S if error is None else 0.0)
        except ClientError as left:
            if error is None:
                raise
            log.warning("%s", left)  # The error that ended the program's block is the one to be told.


def check(batch: SampleBatch, items: int) -> None:
    """Refuse a wrong batch at once, because later nobody would know which one it was."""
    rows = len(batch)
    if not rows:
        raise ValueError("a batch without rows: leave it out")
    lengths = [len(column) for column in (batch.source_ns, batch.node_ns, batch.value, batch.quality)]
    if any(length != rows for length in lengths):
        raise ValueError(f"item_id has {rows} rows, and source_ns, node_ns, value, quality have {lengths}")
    if isinstance(batch.value, Strings) != (batch.value_type is ValueType.STRING):
        raise ValueError(f"value_type is {batch.value_type.name}, and value is {type(batch.value).__name__}")
    numbers = (batch.item_id, batch.source_ns, batch.node_ns, batch.quality, batch.value)
    if any(one.dtype.kind not in "buif" for one in numbers if not isinstance(one, Strings)):
        raise ValueError("a column of a batch is an array of numbers")
    highest = int(batch.item_id.astype(np.uint32, copy=False).max())
    if highest >= items:
        raise ValueError(f"item_id {highest}: it counts this producer's {items} items from 0")
