"""Member of the world: the serving machines of its actor `topics`, behind the log at a pace of their own."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from albireo.codec.message import AnyMessage, Ask, FeedAck, FeedHello
from albireo.codec.served import MessageColumns
from albireo.machine.producer.flight import PutOffer
from albireo.machine.topics.consumer import ConsumerPlace
from albireo.machine.topics.serving import Serving
from albireo.machine.topics.serving_effects import Effect, ReadStored, RecordMoves, Say
from albireo.machine.topics.shared_effects import AnswerTo, PutDead, ReadShared, RecordShared
from albireo.machine.topics.shared_serving import Effect as SharedEffect
from albireo.machine.topics.shared_serving import SharedServing
from albireo.machine.topics.tables import TopicTables
from albireo.machine.topics.tail import MessageBlock, MessageTail, read_chunk
from albireo.model.instant import MS, Instant
from albireo.model.position import BEGINNING
from albireo.sim.topics.log import LOG_ID, NODE, OWNER, AppendedFrame, TopicsCore

LINK: Final = "topics"
Out = Callable[[bytes, AnyMessage, tuple[bytes, ...]], None]
"""Sends a message to a line of a client."""


class SimMember:
    """One run of the actor after the other."""

    def __init__(self, out: Out) -> None:
        self._out = out
        self.frames: Sequence[AppendedFrame] = ()
        """Committed frames of the log; the member has taken `taken` of them."""
        self.taken = 0
        self.leads_from: int | None = None
        """Epoch under which it leads; None: it does not."""
        self.begin()

    def begin(self) -> None:
        """The actor starts anew, with nothing in memory or in files."""
        self.tables = TopicTables()
        self.tail = MessageTail(BEGINNING)
        self.serving = Serving(self.tables, self.tail)
        self.shared = SharedServing(self.tables, self.tail)
        self.taken = 0
        self._stored: list[MessageBlock] = []
        self.reads: deque[Callable[[], None]] = deque()
        self.offers: deque[tuple[int, int, PutOffer]] = deque()
        """Batches for CORE: number of the producer, number of `RecordMoves` or 0, and the batch."""
        self.under_way: deque[tuple[int, int]] = deque()
        self._number = 0

    def stands_by(self) -> None:
        self.leads_from = None
        self._number = 0
        self.offers.clear()
        self.under_way.clear()
        self._perform(self.serving.stands_by())
        self._share(self.shared.stands_by())

    def take(self) -> bool:
        """Take the next frame of the log; False: there is none."""
        if self.taken >= len(self.frames):
            return False
        one = self.frames[self.taken]
        self.taken += 1
        block = read_chunk(one.data, self.tables)
        assert block is not None
        self.tail.add(block)
        self._perform(self.serving.took(block))
        self._share(self.shared.took(block))
        return True

    def go_on(self, now_ms: int) -> None:
        """Serve, once the tables are level."""
        if self.leads_from is not None and not self.serving.is_leading and self._is_level():
            self.serving.begins(self.leads_from)
            self.shared.is_leading = True
        self._perform(self.serving.serve())
        self._share(self.shared.serve(Instant(now_ms * MS)))
        self._share(self.shared.time_passed(Instant(now_ms * MS)))

    def _is_level(self) -> bool:
        return self.tail.end.epoch >= (self.leads_from or 0)

    def seal(self, blocks: int) -> None:
        """Put the oldest blocks of the tail into files."""
        found = list(self.tail.behind(0))[:blocks]
        if not found:
            return
        self._stored += found
        self.tail.let_go(found[-1].last)
        counts: dict[int, int] = {}
        for one in self._stored:
            counts.update(one.lasts)
        self.serving.stored_counts = self.shared.messages.stored_counts = counts

    # CORE.

    @property
    def producer(self) -> str:
        """Name of its producer of cursors: another one each time that it leads."""
        return f"cursors-{self.leads_from}"

    def offer(self, core: TopicsCore) -> None:
        """Hand the next batch of cursors to CORE."""
        if self.offers and self.leads_from is not None:
            number, batch, offer = self.offers.popleft()
            if core.append(self.producer, number, offer, NODE) is None:
                self.under_way.append((number, batch))

    def committed(self, number: int) -> None:
        """Batches of cursors up to this number are committed."""
        while self.under_way and self.under_way[0][0] <= number:
            self._perform(self.serving.recorded(self.under_way.popleft()[1]))

    def _record(self, offer: PutOffer, batch: int = 0) -> None:
        self._number += 1
        self.offers.append((self._number, batch, offer))

    # Consumers.

    def hear(self, sender: bytes, message: AnyMessage, now_ms: int) -> None:
        match message:
            case FeedHello():
                place = ConsumerPlace(LINK, sender, message.channel)
                self._perform(self.serving.hello(place, message, OWNER, LOG_ID))
            case FeedAck():
                self._perform(self.serving.ack(ConsumerPlace(LINK, sender, message.channel), message))
            case Ask():
                self._share(self.shared.asked(LINK, sender, message, OWNER, Instant(now_ms * MS)))
            case _:
                raise AssertionError(message)

    def lost(self, sender: bytes) -> None:
        self.serving.lost(LINK, sender)
        self.shared.lost(LINK, sender)

    def _perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Say(to=to, message=message, raw=raw):
                    self._out(to.sender, message, raw)
                case RecordMoves(batch=batch, moves=moves):
                    self._record(PutOffer(0, moves=moves), batch)
                case ReadStored():
                    self._read(effect)

    def _share(self, effects: Sequence[SharedEffect]) -> None:
        for effect in effects:
            match effect:
                case AnswerTo(to=to, answer=answer, raw=raw):
                    self._out(to.sender, answer, raw)
                case RecordShared(moves=moves, leases=leases):
                    self._record(PutOffer(0, moves=moves, leases=leases))
                case PutDead(target_id=topic_id, body=body, extra=extra, move=move):
                    self._record(PutOffer(0, [(topic_id, [body])], {0: extra}, [move]))
                case ReadShared():
                    self._read_shared(effect)

    # Files.

    def _read(self, wanted: ReadStored) -> None:
        serving = self.serving

        def done() -> None:
            if serving is self.serving:
                found, scanned = self._found(dict(wanted.wanted), wanted.after, wanted.up_to)
                self._perform(serving.stored(wanted.to, found, scanned))

        self.reads.append(done)

    def _read_shared(self, wanted: ReadShared) -> None:
        shared = self.shared

        def done() -> None:
            if shared is self.shared:
                found, _ = self._found({wanted.topic_id: wanted.first - 1}, 0, wanted.up_to)
                self._share(shared.read(wanted, found))

        self.reads.append(done)

    def _found(self, wanted: dict[int, int], after: int, up_to: int) -> tuple[MessageColumns | None, int]:
        """Messages of the first block that has some of them."""
        for block in self._stored:
            messages = block.messages
            chosen = (messages.sequence > after) & (messages.sequence <= up_to)
            is_one = np.zeros(len(messages), np.bool_)
            for topic_id, low in wanted.items():
                is_one |= (messages.topic_id == topic_id) & (messages.number > low)
            if (chosen & is_one).any():
                return messages.take(np.flatnonzero(chosen & is_one)), block.last.sequence
        return None, up_to
