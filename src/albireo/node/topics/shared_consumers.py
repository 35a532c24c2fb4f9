"""Consumers of shared subscriptions: the machine (machine.topics.shared_serving.py), and what it wants done."""

from collections.abc import Callable, Sequence
from functools import partial

from albireo.codec.message import AnyMessage, Ask
from albireo.machine.producer.flight import PutOffer
from albireo.machine.topics.shared_effects import AnswerTo, PutDead, ReadShared, RecordShared
from albireo.machine.topics.shared_serving import Effect, SharedServing
from albireo.machine.topics.tables import TopicTables
from albireo.machine.topics.tail import MessageBlock, MessageTail
from albireo.model.instant import Instant
from albireo.model.position import BEGINNING
from albireo.node.topics.cursor_producer import CursorProducer
from albireo.node.topics.reads import StoreReads
from albireo.node.topics.store import StoredPiece, TopicStore
from albireo.runtime import ActorContext, Letter

Send = Callable[[str, bytes, AnyMessage, tuple[bytes, ...]], None]
"""Says something to whoever is at the other end of a link, by name of the link and sender."""


class SharedConsumers:
    """The consumers."""

    def __init__(self, actor: ActorContext, cursors: CursorProducer, reads: StoreReads, send: Send) -> None:
        self._actor = actor
        self._cursors = cursors
        self._reads = reads
        self._send = send
        self._store: TopicStore
        self._machine = SharedServing(TopicTables(), MessageTail(BEGINNING))

    def begin(self, tables: TopicTables, tail: MessageTail, store: TopicStore) -> None:
        """Begin anew, with these."""
        self._machine, self._store = SharedServing(tables, tail), store
        self.files_changed()

    def files_changed(self) -> None:
        """There are other files."""
        self._machine.messages.stored_counts = self._store.stored_counts()
        self._machine.files_changed()

    def leads(self) -> None:
        """This member leads, and the tables have all that was committed before it."""
        self._machine.is_leading = True

    def stands_by(self) -> None:
        self._perform(self._machine.stands_by())

    def deadline(self) -> Instant | None:
        return self._machine.deadline()

    def ticked(self, now: Instant) -> None:
        self._perform(self._machine.time_passed(now))

    def serve(self) -> None:
        """Do what there is to do."""
        self._perform(self._machine.serve(self._actor.now()))

    def took(self, block: MessageBlock) -> None:
        """The tail has one more block."""
        self._perform(self._machine.took(block))

    def asked(self, letter: Letter, ask: Ask) -> None:
        """A consumer asks."""
        self._perform(self._machine.asked(letter.link.name, letter.sender, ask, letter.principal, self._actor.now()))

    def lost(self, link: str, sender: bytes) -> None:
        """Nobody is at the other end any more."""
        self._machine.lost(link, sender)

    def _perform(self, effects: Sequence[Effect]) -> None:
        now_ns = self._actor.wall_ns()
        for effect in effects:
            match effect:
                case AnswerTo(to=to, answer=answer, raw=raw):
                    self._send(to.link, to.sender, answer, raw)
                case RecordShared(moves=moves, leases=leases):
                    self._cursors.offer(PutOffer(now_ns, moves=moves, leases=leases))
                case PutDead(target_id=topic_id, stays_here=own, body=body, extra=extra, move=move):
                    put = PutOffer(now_ns, [(topic_id, [body])], {0: extra}, [move], (), (), len(body), own)
                    self._cursors.offer(put)
                case ReadShared(topic_id=topic_id, first=first, up_to=up_to, bytes_max=bytes_max):
                    then = partial(self._was_read, effect, self._machine)
                    self._reads.read(self._store, {topic_id: first - 1}, 0, up_to, bytes_max, then)

    def _was_read(self, wanted: ReadShared, machine: SharedServing, piece: StoredPiece | None, problem: str) -> None:
        if machine is self._machine and piece is not None and piece.hole is not None:
            machine.lacking(wanted)
        elif machine is self._machine:
            read = None if piece is None else machine.read(wanted, piece.messages)
            self._perform(machine.failed(wanted, problem) if read is None else read)
            self.serve()
