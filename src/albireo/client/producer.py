"""PairProducer: a program without a loop that has samples committed by a pair, exactly once.

    with PairProducer("meter", items, members_of(node), keys) as producer:
        last = producer.offer([batch])         # leaves with the next `wait`; with `wait(0)` at once
        receipts = producer.wait(1.0)          # Acknowledged(batch=last, position=...)

A takeover makes `wait` take longer, nothing else. Batches that are not acknowledged yet are kept, and go out again to
whichever member acts. Batches offered between two calls of `wait` leave together, so that many small ones cost little
more than one. Nothing happens but in `wait`.

A name is one program's at a time: the newest has it. The one before is told so by `NameTaken`, and is done.

A receipt says on whose disks the batch is, and whether a takeover may still cut it. A batch that may be cut is kept
here and sent again, as long as this producer is open.

The machine: machine/producer/sending.py. Decisions: ADR-0115, ADR-0122, ADR-0143.
"""

import secrets
from collections.abc import Sequence
from typing import Final

import numpy as np

from albireo.client.errors import NameTaken, ProducerRefused, QueueFull
from albireo.client.members import OnLines
from albireo.machine.producer.batch_queue import queued_bytes
from albireo.machine.producer.producer import Offered, ProducerConfig
from albireo.machine.producer.seeking import LineDown, LineUp, SeekConfig
from albireo.machine.producer.sending import Acknowledged, BatchRefused, Heard, PairSender, SayTo, Superseded
from albireo.model.instant import SECOND, Instant, TimePassed
from albireo.model.item import DataItem
from albireo.model.samples import SampleBatch, Strings
from albireo.model.value import ValueType
from albireo.runtime.actor.clock import boot_ns
from albireo.runtime.actor.tuning import show_large_block
from albireo.runtime.link.keys import Keys
from albireo.runtime.link.lines import LineNews, LineTo

RUN_MAX: Final = 2**32 - 1


class PairProducer(OnLines):
    """One named producer. Its batches are committed once each, in order, whatever happens to the members."""

    def __init__(
        self,
        name: str,
        items: Sequence[DataItem],
        members: Sequence[LineTo],
        keys: Keys | None,
        config: ProducerConfig | None = None,
        seek: SeekConfig | None = None,
    ) -> None:
        """
        Args:
            name: name of the producer in the log; a program of the same name that is started later takes its place.
            items: items that it produces; `item_id` of a batch counts them from 0.
            members: both members, as `members_of` gives them.
            keys: own and trusted keys; None on loopback only.
        """
        super().__init__(members, keys)
        run = 1 + secrets.randbelow(RUN_MAX)
        show_large_block()
        self._name = name
        self._items = len(items)
        self._machine = PairSender(
            name,
            items,
            run=run,
            config=config or ProducerConfig(),
            seek=seek or SeekConfig(),
            now=boot_ns(),
        )
        self._offered: list[SampleBatch] = []
        self._offered_bytes = 0
        self._receipts: list[Acknowledged | BatchRefused] = []

    @property
    def machine(self) -> PairSender:
        """Machine of this producer, to be looked at and not stepped."""
        return self._machine

    def offer(self, batches: Sequence[SampleBatch]) -> int:
        """Take batches to be committed; they leave with the next `wait`.

        Args:
            batches: `item_id` of each holds indices of the items.
        Returns:
            Number of the last batch, counted from 1; `wait` tells when it is committed.
        Raises:
            QueueFull: too much waits already; nothing was taken. `wait`, then offer again.
            NameTaken: this producer is superseded.
            ProducerRefused: the pair refuses this producer for good.
            ValueError: a batch has no rows, columns of different lengths, values of another type than it says, or a
                row of no item; nothing was taken.
        """
        self._check_name()
        for batch in batches:
            self._check(batch)
        size_bytes = self._offered_bytes + sum(map(queued_bytes, batches))
        if size_bytes > self._machine.room_bytes:
            raise QueueFull("too much waits for the pair to commit it: wait for it, then offer again")
        self._offered += batches
        self._offered_bytes = size_bytes
        return self._machine.batches_offered + len(self._offered)

    def _check_name(self) -> None:
        if self._machine.successor is not None:
            raise NameTaken(self._name, self._machine.successor)
        if self._machine.last_word is not None:
            raise ProducerRefused(self._name, self._machine.last_word.detail)

    def _check(self, batch: SampleBatch) -> None:
        """Refuse a wrong batch at once, because later nobody would know which one it was."""
        rows = len(batch)
        if not rows:
            raise ValueError("a batch without rows: leave it out")
        lengths = [len(column) for column in (batch.source_ns, batch.node_ns, batch.value, batch.quality)]
        if any(length != rows for length in lengths):
            raise ValueError(f"item_id has {rows} rows, and source_ns, node_ns, value, quality have {lengths}")
        if isinstance(batch.value, Strings) != (batch.value_type is ValueType.STRING):
            raise ValueError(f"value_type is {batch.value_type.name}, and value is {type(batch.value).__name__}")
        highest = int(batch.item_id.astype(np.uint32, copy=False).max())
        if highest >= self._items:
            raise ValueError(f"item_id {highest}: it counts this producer's {self._items} items from 0")

    def _hand_over(self) -> None:
        if self._offered:
            batches, self._offered, self._offered_bytes = tuple(self._offered), [], 0
            self._perform(self._machine.step(Offered(batches=batches), boot_ns()))

    def wait(self, timeout_s: float) -> list[Acknowledged | BatchRefused]:
        """Receipts and refusals of batches, at once if there are any; empty after `timeout_s`.

        Raises:
            NameTaken: this producer is superseded, and every receipt that came was given out.
            ProducerRefused: the pair refuses this producer for good: an item is another's, a name can't be, a table is
                full, or this program was forgotten.
        """
        until = Instant(boot_ns() + int(timeout_s * SECOND))
        self._hand_over()
        while True:
            for news in self._news(self._machine.deadline(), until):
                self._take(news)
            now = boot_ns()
            due = self._machine.deadline()
            if due is not None and now >= due:
                self._perform(self._machine.step(TimePassed(), now))
            if self._receipts:
                receipts, self._receipts = self._receipts, []
                return receipts
            self._check_name()
            if now >= until:
                return []

    def close(self) -> None:
        """Send the last batches and close; they may still arrive, but nobody will hear of it."""
        self._hand_over()
        super().close()

    def _take(self, news: LineNews) -> None:
        if news.is_up is not None:
            self._perform(self._machine.step((LineUp if news.is_up else LineDown)(news.line), boot_ns()))
        elif news.message is not None:
            self._perform(self._machine.step(Heard(news.line, news.message), boot_ns()))

    def _perform(self, effects: Sequence[SayTo | Acknowledged | BatchRefused | Superseded]) -> None:
        for effect in effects:
            match effect:
                case SayTo(member, message, raw):
                    self._lines.send(member, message, raw)
                case Superseded():
                    pass  # The machine remembers it.
                case _:
                    self._receipts.append(effect)
