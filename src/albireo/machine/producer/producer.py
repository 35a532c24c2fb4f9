"""Producer: the sending half of exactly-once appends, for one life of a name.

A named producer numbers its batches 1, 2, 3... in the life that CORE gave it, and keeps each batch until CORE says that
it is committed; a batch that was only acknowledged (durability `local`) is kept too. Whatever happens to CORE or to the
link, the same bodies go out again under the same numbers; CORE takes each number once. So a restart of CORE or a
takeover loses and doubles nothing.

Not done here: measuring, connecting, reading a clock. The shell hands in events and performs the effects in order.

        LinkOpened: hello            welcome: resend everything in flight
    Closed ----------------> Greeting ----------------> Streaming
                                ^   |                      |   |
                                +---|----------------------+   |
                                    |  unknown producer, no answer in time, another epoch
                                    +--------> Superseded <----+
                                                another program has the name: nothing is sent any more, for good

    offered -> waiting (row numbers, bounded in bytes, drop oldest) -> in flight (numbered, within credit) -> committed

Invariants
    in flight:  consecutive sequences; bodies are never changed while CORE may have them (see `_renumber`).
    committed:  a gap record stands for batches that were committed and are not in the log any more (a forced
                promotion); it goes out before everything that is in flight.
    few:        while PARTLY_FILLED_MAX messages are under way, only large ones follow. Small batches that wait
                meanwhile become one body: under load the messages grow, and nothing is ever held by a clock.
    waiting:    at most `queue_bytes_max` together with everything in flight; dropped samples are counted, and a gap
                record goes out in their place.

Spec: design/log-and-feed.md, Producers, Lives; codec/message.py (ProducerHello to AppendRefused); ADR-0143.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.codec.message import Append, Appended, AppendRefused, ProducerHello, ProducerWelcome
from albireo.codec.record import Stream
from albireo.machine.producer.batch_queue import BatchFates, BatchQueue, queued_bytes
from albireo.machine.producer.committed import CommittedFlights
from albireo.machine.producer.config import ProducerConfig
from albireo.machine.producer.flight import (
    FOR_GOOD,
    MESSAGE_BYTES,
    Batch,
    Flight,
    Loss,
    PutOffer,
    batch_to,
    ends_of,
    flight_of,
    flight_of_loss,
    messages,
    times_of,
)
from albireo.machine.producer.renaming import renamed, renumber
from albireo.model.instant import Instant, TimePassed
from albireo.model.item import DataItem
from albireo.model.refusal import Refusal, RefusalCode

PARTLY_FILLED_MAX: Final = 2
"""Messages under way: the node works on one, and has another when that is done."""
WORTH_SENDING_BYTES: Final = 384 << 10
"""From this size on waiting batches leave without waiting for an answer (ADR-0125)."""


class LinkOpened(msgspec.Struct, frozen=True):
    """The link to CORE exists: say hello."""


class Offered(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Result of one poll, gaps before samples. `item_id` of the batches holds row numbers of the hello's items."""

    losses: tuple[Loss, ...] = ()
    batches: tuple[Batch, ...] = ()


class SendToCore(msgspec.Struct, frozen=True, eq=False):
    """Effect: give this message to the link. Only the answer shows whether it arrived."""

    message: ProducerHello | Append
    raw: tuple[bytes, ...] = ()


Event = LinkOpened | Offered | TimePassed | ProducerWelcome | Appended | AppendRefused


class Producer:
    """One named producer. `step` takes an event and gives the effects; nothing else changes the state."""

    def __init__(
        self, name: str, items: Sequence[DataItem], *, run: int, config: ProducerConfig, takes_orders: bool = False
    ) -> None:
        self._hello = ProducerHello(producer=name, items=tuple(items), run=run, takes_orders=takes_orders)
        self._config = config
        self._welcome: ProducerWelcome | None = None
        self._ids: NDArray[np.uint32] = np.zeros(0, np.uint32)
        self._is_open = False
        self._is_greeting = False
        self._next_sequence = 1
        self._in_flight: deque[Flight] = deque()
        self._in_flight_bytes = 0
        self._gone = CommittedFlights()
        self._answered = 0
        """Flights up to this number are acknowledged; a takeover may still cut them."""
        self._under_way: deque[int] = deque()
        """Last number in each message that is not yet acknowledged as a whole."""
        self._waiting = BatchQueue()
        self._overflow: Loss | None = None
        self._last_numbered_ns = 0
        self._answer_due: Instant | None = None
        self._answer_timeout_ns = config.answer_timeout_ns
        self._resume_at: Instant | None = None
        self._is_probing = False
        self._resent_from = 0
        self.dropped = 0
        """Samples lost by overflow or refusal since the start."""
        self.refused = 0
        """Refusals since the start, of any reason."""
        self.greetings = 0
        """Welcomes since the start: one at first, and one more for each time CORE came back."""
        self.batches = BatchFates()
        self.held_up: Refusal | None = None
        """Why nothing is taken for the time being; None: it is."""
        self.last_word: AppendRefused | None = None
        """Word of CORE that refuses this producer for good: it does nothing more. None: no such word came."""

    # Questions of the shell.

    @property
    def epoch(self) -> int:
        """Epoch that CORE writes under, as last heard; 0 before the first welcome."""
        return self._welcome.epoch if self._welcome else 0

    @property
    def is_streaming(self) -> bool:
        return self._welcome is not None and not self._is_greeting

    @property
    def queue_bytes(self) -> int:
        return self._waiting.size_bytes + self._in_flight_bytes

    @property
    def is_all_acknowledged(self) -> bool:
        """Every batch that was offered is acknowledged, or counted as dropped."""
        last = self._in_flight[-1].sequence if self._in_flight else 0
        return last <= self._answered and not self._waiting and self._overflow is None

    def row_of(self, item_id: int) -> int | None:
        """Row of the item with this id; None: the item is not this producer's."""
        found = np.flatnonzero(self._ids == item_id)
        return int(found[0]) if len(found) else None

    def deadline(self) -> Instant | None:
        """When `TimePassed` is due."""
        if self.last_word is not None:
            return None
        due = [one for one in (self._answer_due, self._resume_at) if one is not None]
        return min(due) if due else None

    # Events.

    def step(self, event: Event, now: Instant) -> list[SendToCore]:
        """Take one event.

        Args:
            event: what happened; messages of CORE are events as they are.
            now: boot clock.
        Returns:
            What to send, in order.
        """
        if self.last_word is not None:
            return []
        match event:
            case LinkOpened():
                self._is_open = True
                return self._greet(now)
            case Offered():
                return self._offered(event, now)
            case ProducerWelcome():
                return self._welcomed(event, now)
            case Appended():
                return self._appended(event, now)
            case AppendRefused():
                return self._was_refused(event, now)
            case TimePassed():
                return self._time_passed(now)

    def _greet(self, now: Instant) -> list[SendToCore]:
        self._is_greeting = True
        self._is_probing = False
        self._resume_at = None
        self._resent_from = 0
        self._answer_due = Instant(now + self._answer_timeout_ns)
        life = 0 if self._welcome is None else self._welcome.producer_id
        return [SendToCore(msgspec.structs.replace(self._hello, life=life))]

    def _offered(self, event: Offered, now: Instant) -> list[SendToCore]:
        for loss in event.losses:
            self._waiting.add(loss)
        for batch in event.batches:
            self._waiting.add(batch)
        self.batches.offered += len(event.batches)
        self._drop_oldest()
        return self._fill(now)

    def _welcomed(self, event: ProducerWelcome, now: Instant) -> list[SendToCore]:
        if event.run != self._hello.run:
            return []  # It answers another producer that had this link before.
        if event.producer_id <= 0 or len(event.item_ids) != len(self._hello.items):
            self.refused += 1
            return []
        before = self._welcome
        self._welcome = event
        known, self._ids = self._ids, np.array(event.item_ids, np.uint32)
        self._is_greeting = False
        self.greetings += 1
        self._answer_timeout_ns = self._config.answer_timeout_ns
        self._answer_due = None
        self._answered = 0
        # Another life than before: the log does not know that one any more, so it has none of its batches.
        is_same_life = before is None or before.producer_id == event.producer_id
        lost = self._gone.take_lost(event.last_sequence if is_same_life else 0)
        if lost is not None and self._hello.items:  # Of messages to topics no record says that they are gone.
            self._put_first(self._said(lost))
        if not self._in_flight:
            self._next_sequence = event.last_sequence + 1
        elif lost is not None or not self._fits(event, before):
            self._renumber(event.last_sequence + 1)
        if before is not None and not np.array_equal(known, self._ids):
            self._in_flight = deque(renamed(one, event.producer_id, known, self._ids) for one in self._in_flight)
            self._in_flight_bytes = sum(len(one.body) for one in self._in_flight)
        # Batches that CORE has already are sent again too: its answer says whether the original is committed.
        return self._resend_all(now)

    def _put_first(self, flight: Flight) -> None:
        self._in_flight.appendleft(flight)
        self._in_flight_bytes += len(flight.body)

    def _fits(self, welcome: ProducerWelcome, before: ProducerWelcome | None) -> bool:
        """The numbers in flight continue CORE's last number."""
        is_same_life = before is not None and before.producer_id == welcome.producer_id
        return is_same_life and self._in_flight[0].sequence - 1 <= welcome.last_sequence <= self._in_flight[-1].sequence

    def _appended(self, event: Appended, now: Instant) -> list[SendToCore]:
        if self._welcome is None or event.producer_id != self._welcome.producer_id:
            return []
        progressed = False
        while self._in_flight and self._in_flight[0].sequence <= event.producer_sequence - event.uncommitted:
            committed = self._in_flight.popleft()
            self._in_flight_bytes -= len(committed.body)
            self._gone.committed(committed)
            self.batches.committed = max(self.batches.committed, committed.batch)
            self.batches.acknowledged = max(self.batches.acknowledged, committed.batch)
            self.batches.ends |= ends_of(committed, event)
            progressed = True
        if event.uncommitted and self._in_flight and event.producer_sequence > self._answered:
            self._answered = event.producer_sequence
            self.batches.acknowledged = max(self.batches.acknowledged, batch_to(self._in_flight, self._answered))
            progressed = True
        while self._under_way and self._under_way[0] <= event.producer_sequence:
            self._under_way.popleft()
        if event.position.epoch > self._welcome.epoch and not self._is_greeting:
            return self._greet(now)
        if self._is_greeting or not progressed:
            return []
        self.held_up = None
        self._resent_from = 0
        self._answer_timeout_ns = self._config.answer_timeout_ns
        self._answer_due = Instant(now + self._answer_timeout_ns) if self._in_flight else None
        if self._is_probing:
            self._is_probing = False
            self._resume_at = None
            return self._resend_all(now)
        return self._fill(now)

    def _was_refused(self, event: AppendRefused, now: Instant) -> list[SendToCore]:
        if event.is_final:
            if event.run == self._hello.run:
                self.last_word = event
            return []
        self.refused += 1
        if self._welcome is None or self._is_greeting:
            return []
        match event.refusal.code:
            case RefusalCode.GAP if self._in_flight and event.producer_id == self._welcome.producer_id:
                return self._resend_from(event.wanted, now)
            case RefusalCode.NOT_RECORDING | RefusalCode.HELD_UP:
                self.held_up = event.refusal
                if self._resume_at is None:
                    self._resume_at = Instant(now + self._config.admission_pause_ns)
                    self._answer_due = None
                    self._is_probing = True
                return []
            case code if code in FOR_GOOD and event.producer_sequence > 0:
                return self._give_up(event.producer_sequence, event.refusal, now)
            case _:
                return self._greet(now)

    def _resend_from(self, wanted: int, now: Instant) -> list[SendToCore]:
        """Resend once per wanted number: the refusals of all later batches ask for the same number."""
        if wanted == self._resent_from:
            return []
        if not self._in_flight[0].sequence <= wanted <= self._in_flight[-1].sequence:
            return self._greet(now)
        self._resent_from = wanted
        return self._resend(wanted, now)

    def _give_up(self, sequence: int, refusal: Refusal, now: Instant) -> list[SendToCore]:
        """CORE can't take this body: later bodies move up by one number, and a gap record tells of samples."""
        flight = next((one for one in self._in_flight if one.sequence == sequence), None)
        if flight is None:
            return []
        if len(flight.batches) > 1:
            return self._take_apart(flight, now)
        if flight.batch:
            self.batches.lost.append(flight.batch)
            self.batches.refusals[flight.batch] = refusal
            self.dropped += flight.entry.record_count
            if flight.entry.stream == Stream.SAMPLES:
                self._waiting.add(
                    Loss(reason="refused", from_ns=flight.last_ns, to_ns=flight.last_ns, lost=flight.entry.record_count)
                )
        self._in_flight.remove(flight)
        self._in_flight_bytes -= len(flight.body)
        self._renumber(min(sequence, self._in_flight[0].sequence) if self._in_flight else sequence)
        # NB: nothing is sent again at once. A body that was sent twice is refused twice, and the second refusal would
        # give up the body that has the number now; after the answer to this hello no older refusal comes.
        return self._greet(now)

    def _take_apart(self, flight: Flight, now: Instant) -> list[SendToCore]:
        """One batch of this flight is at fault: send each of them as a body of its own, in the same place."""
        first = flight.batch - len(flight.batches) + 1
        parts = [self._encoded([one], first + offset) for offset, one in enumerate(flight.batches)]
        place = self._in_flight.index(flight)
        flights = list(self._in_flight)
        self._in_flight = deque([*flights[:place], *parts, *flights[place + 1 :]])
        self._in_flight_bytes += sum(len(one.body) for one in parts) - len(flight.body)
        self._renumber(self._in_flight[0].sequence)
        return self._greet(now)

    def _time_passed(self, now: Instant) -> list[SendToCore]:
        if self._resume_at is not None and now >= self._resume_at:
            self._resume_at = None
            return self._resend(self._answered + 1, now, count_max=1)
        if self._answer_due is not None and now >= self._answer_due:
            self._answer_timeout_ns = min(2 * self._answer_timeout_ns, self._config.answer_timeout_ns_max)
            return self._greet(now)
        return []

    # Waiting.

    def _drop_oldest(self) -> None:
        while self.queue_bytes > self._config.queue_bytes_max and self._waiting:
            self._overflow = self._grown(self._waiting.take())

    def _grown(self, oldest: Batch | Loss) -> Loss:
        """The pending overflow, extended by one more batch (or gap record)."""
        if isinstance(oldest, Loss):
            first, last, lost = oldest.from_ns, oldest.to_ns, oldest.lost or 0
        else:
            first, last = times_of(oldest)
            first = self._last_numbered_ns or first
            lost = oldest.count if isinstance(oldest, PutOffer) else len(oldest)
            self.dropped += lost
            self.batches.left += 1
            self.batches.lost.append(self.batches.left)
        return Loss(reason="overflow", from_ns=first, to_ns=last, lost=lost).joined_to(self._overflow)

    def _take_overflow(self) -> Loss | None:
        """The gap of the dropped samples, up to the first sample that still waits; None: nothing was dropped."""
        loss, self._overflow = self._overflow, None
        if loss is None:
            return None
        after_ns = self._waiting.first_sample_ns
        return loss if after_ns is None else msgspec.structs.replace(loss, to_ns=after_ns)

    # In flight.

    def _fill(self, now: Instant) -> list[SendToCore]:
        """Number and send as much as the credit allows, but at least one batch when nothing is under way."""
        if self._welcome is None or self._is_greeting or self._resume_at is not None or self._is_probing:
            return []
        fresh: list[Flight] = []
        while self._waiting or self._overflow is not None:
            size_bytes = self._waiting.first_bytes if self._overflow is None else queued_bytes(self._overflow)
            if self._in_flight and self._in_flight_bytes + size_bytes > self._welcome.credit_bytes:
                break
            if len(self._under_way) >= PARTLY_FILLED_MAX and self._waiting.size_bytes < WORTH_SENDING_BYTES:
                break
            overflow = self._take_overflow()
            flight = self._said(overflow) if overflow is not None else self._numbered()
            self._in_flight.append(flight)
            self._in_flight_bytes += len(flight.body)
            self._last_numbered_ns = max(self._last_numbered_ns, flight.last_ns)
            fresh.append(flight)
        if fresh and self._answer_due is None:
            self._answer_due = Instant(now + self._answer_timeout_ns)
        return self._sent(fresh)

    def _numbered(self) -> Flight:
        """The head of the queue as a flight: as many batches of one value type as message size and credit allow."""
        assert self._welcome is not None
        size_max = min(MESSAGE_BYTES, self._welcome.credit_bytes - self._in_flight_bytes)
        head = self._waiting.take_alike(size_max)
        if isinstance(head, Loss):
            return self._said(head)
        self.batches.left += len(head)
        return self._encoded(head, self.batches.left)

    def _encoded(self, batches: Sequence[Batch], last: int) -> Flight:
        assert self._welcome is not None
        sequence = self._next_sequence
        self._next_sequence += 1
        return flight_of(batches, last, self._welcome.producer_id, sequence, self._ids)

    def _said(self, loss: Loss) -> Flight:
        assert self._welcome is not None
        sequence = self._next_sequence
        self._next_sequence += 1
        return flight_of_loss(loss, self._hello.producer, self._welcome.producer_id, sequence, self._ids)

    def _renumber(self, first: int) -> None:
        """Number everything in flight anew, from `first` on.

        Only where CORE provably holds none of these bodies: it refused them, or its log does not know the life.
        """
        assert self._welcome is not None
        renumber(self._in_flight, self._welcome.producer_id, first)
        self._next_sequence = first + len(self._in_flight)

    def _resend_all(self, now: Instant) -> list[SendToCore]:
        """Send everything in flight again, with what the credit still allows, in as few messages as possible."""
        self._under_way.clear()
        self._fill(now)
        return self._resend(0, now)

    def _resend(self, sequence: int, now: Instant, count_max: int | None = None) -> list[SendToCore]:
        """Send the bodies in flight from `sequence` on once more, unchanged."""
        again = [one for one in self._in_flight if one.sequence >= sequence][:count_max]
        self._answer_due = Instant(now + self._answer_timeout_ns) if self._in_flight else None
        self._under_way.clear()
        return self._sent(again)

    def _sent(self, flights: Sequence[Flight]) -> list[SendToCore]:
        groups = messages(flights)
        self._under_way += [group[-1].sequence for group in groups]
        return [
            SendToCore(Append(tuple(one.entry for one in group)), tuple(one.body for one in group)) for group in groups
        ]
