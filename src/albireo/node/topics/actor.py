"""The actor `topics`: keeps the messages of topics, serves them to consumers, and has their cursors recorded.

It follows the log as any follower does; the newest messages are in memory, older ones in files, which threads write and
read. It listens at a local link, and at a TCP link of its own with the node's keys, where those are heard who show a
ticket. It serves while its member leads. The machine is machine/topics/serving.py; what it says is sent here.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from albireo.codec.errors import DecodeError
from albireo.codec.message import (
    Answer,
    AnyMessage,
    Appended,
    AppendRefused,
    Ask,
    Carry,
    FeedAck,
    FeedAlive,
    FeedAnswer,
    FeedData,
    FeedHello,
    ProducerWelcome,
    RoleAsked,
    RoleTold,
)
from albireo.codec.record import Stream
from albireo.codec.sharing import SETTLE, TAKE
from albireo.log import FileSystem
from albireo.machine.feed.follower import (
    CutBack,
    Deliver,
    Digested,
    Follower,
    FollowerConfig,
    FollowPhase,
    LinkUp,
    MadeDurable,
    Noted,
    Received,
    TakeSnapshot,
    TellLeader,
)
from albireo.machine.feed.follower import Event as FeedEvent
from albireo.machine.producer.flight import PutOffer
from albireo.machine.producer.producer import Event as ProducerEvent
from albireo.machine.topics.consumer import ConsumerPlace
from albireo.machine.topics.serving import Serving
from albireo.machine.topics.serving_effects import Effect, ReadStored, RecordMoves, Say
from albireo.machine.topics.tables import TopicTables
from albireo.machine.topics.tail import MessageTail, read_chunk
from albireo.model.access import AccessRole
from albireo.model.instant import SECOND, Instant, TimePassed, soonest
from albireo.model.position import BEGINNING, EpochHistory, Position
from albireo.node.topics.answers import MessageAnswers
from albireo.node.topics.arguments import TopicsArguments, thread_of
from albireo.node.topics.cursor_producer import CursorProducer
from albireo.node.topics.filling import NAME, MessageFilling
from albireo.node.topics.late import ASKED, LateBegin
from albireo.node.topics.reads import StoreReads
from albireo.node.topics.shared_consumers import SharedConsumers
from albireo.node.topics.store import MessagesDamaged, StoredPiece, TopicStore
from albireo.node.topics.writes import StoreWrites
from albireo.runtime import ActorContext, Letter, Link
from albireo.runtime.actor.ticket_door import TicketDoor
from albireo.runtime.link.keys import Keys

STREAMS: Final = (Stream.STATE, Stream.CONTROL, Stream.PUTS, Stream.OWN_PUTS)
ROLE_NS: Final = SECOND
"""Time between two questions whether this member leads."""
SEAL_BYTES: Final = 16 << 20
SEAL_BLOCKS: Final = 4_096
SEAL_NS: Final = 60 * SECOND
"""Size of the tail, number of its blocks, and time since the last files from which it goes into files."""
LEVEL_NS: Final = 10 * SECOND
"""The same time while the tail has no messages: the log keeps all records behind the position of the files."""
TAIL_BYTES_MAX: Final = 64 << 20
"""Size of the tail from which nothing more is taken: the log keeps it."""


def create(arguments: Mapping[str, object]) -> "TopicsActor":
    """Factory for the runtime."""
    return TopicsActor(msgspec.convert(arguments, TopicsArguments))


class TopicsActor:
    """The behaviour of the actor."""

    name = NAME

    store_type = TopicStore

    def __init__(
        self,
        arguments: TopicsArguments,
        files: FileSystem | None = None,
        entropy: Callable[[int], bytes] = os.urandom,
        thread: Callable[[str], Executor] = thread_of,
    ) -> None:
        """`files`, `entropy`, `thread`: the real ones, unless a simulation has others."""
        self._files = files
        self._entropy = entropy
        self._arguments = arguments
        self._actor: ActorContext
        self._core: Link
        self._answers: MessageAnswers
        self._local: Link
        self._door: TicketDoor | None = None
        self._follower: Follower
        self._store: TopicStore
        self._tables = TopicTables()
        self._tail = MessageTail(BEGINNING)
        self._serving = Serving(self._tables, self._tail)
        self._shared: SharedConsumers
        self._known_to = 0
        """Record as of which the tables are, while the messages before it are still taken."""
        self._late: LateBegin | None = None
        """First pass over a log that begins too late; None: there is none."""
        self._writes = StoreWrites(thread("topics-writer"))
        self._reads = StoreReads(thread("topics-reader"))
        self._filling: MessageFilling
        self._sealed_at = Instant(0)
        self._role = RoleTold(is_acting=False, epoch=0)
        """As it was told first of the present one: what is committed by then somebody may have been given."""
        self._role_at = Instant(0)
        self._cursors: CursorProducer

    async def start(self, actor: ActorContext) -> None:
        self._actor = actor
        self._core = actor.connect("core")
        self._cursors = CursorProducer(NAME, actor, self._core, self._entropy)
        self._writes.open(actor)
        disk = (self._reads, self._writes, self._files_changed)
        self._filling = MessageFilling(actor, self._core, *disk, is_paired=self._arguments.is_paired)
        self._reads.open(actor, lambda name, then: self._filling.give_up(self._store, name, then))
        self._shared = SharedConsumers(actor, self._cursors, self._reads, self._send)
        self._answers = MessageAnswers(lambda to, answer: self._local.send(answer, to=to), self._reads)
        self._store, problem = self.store_type.open(actor.data, self._arguments.node, self._files)
        if problem:
            actor.log.error("messages_moved_aside", reason=problem)
        manifest = self._store.manifest
        self._begin_at(manifest.position)
        if manifest.tables:
            self._tables.restore(manifest.tables)
        actor.log.info("messages_opened", files=len(manifest.files), position=str(manifest.position))
        self._new_follower(manifest.position, manifest.log_id, EpochHistory(manifest.history))
        self._sealed_at = actor.now()
        self._local = actor.bind(NAME)
        if self._arguments.endpoint:
            keys = Keys.load(Path(self._arguments.keys)) if self._arguments.keys else None
            place = (NAME, self._arguments.endpoint, self._arguments.node, keys, AccessRole.OPERATE)
            self._door = TicketDoor(actor, *place)
        actor.at_ready(lambda: self._follow(LinkUp()))
        actor.at_ready(self._arm)

    async def stop(self) -> None:
        self._stand_by()
        self._actor.arm(None)
        await self._writes.settled()
        if self._has_news:
            self._seal()
            await self._writes.settled()
        self._writes.close()
        self._reads.close()
        for link in (self._core, self._local):
            link.close()

    def drained(self, letters: Sequence[Letter]) -> None:
        for letter in letters if self._door is None else self._door.take(letters):
            if letter.link is self._core:
                self._hear_core(letter)
            else:
                self._hear_consumer(letter)
        self._go_on()

    def ticked(self, now: Instant) -> None:
        self._follow(TimePassed())
        self._produce(TimePassed())
        if self._door is not None:
            self._door.ticked(now)
        if now >= self._role_at:
            self._role_at = Instant(now + ROLE_NS)
            self._core.send(RoleAsked(adapter="client"))
            if self._late is not None:
                self._late.ask(self._core)
        self._go_on()
        self._perform(self._serving.alive(now))
        self._shared.ticked(now)
        self._filling.ticked(now, self._store)

    def _go_on(self) -> None:
        self._see_role()
        self._perform(self._serving.serve())
        self._shared.serve()
        if self._serving.is_due:
            self._actor.call(self._go_on)
        self._seal_if_due(self._actor.now())
        self._arm()

    def _arm(self) -> None:
        parts = (self._cursors, self._door, self._follower, self._serving, self._shared, self._filling)
        self._actor.arm(soonest(self._role_at, *(one.deadline() for one in parts if one is not None)))

    def _hear_core(self, letter: Letter) -> None:
        match letter.message:
            case FeedAnswer() | FeedData() | FeedAlive() as message:
                self._follow(Received(message, sum(map(len, letter.raw))), letter)
            case ProducerWelcome() | Appended() | AppendRefused() as message:
                self._produce(message)
            case RoleTold(is_acting=is_acting, epoch=epoch) as told:
                if (is_acting, epoch) != (self._role.is_acting, self._role.epoch):
                    self._role = told
            case Carry():
                if self._is_folded:
                    self._filling.heard(letter.raw, self._store, self._tables)
            case Answer(request_id=number) as answer if number == ASKED:
                self._tables_told(answer)
            case other:
                self._actor.log.limited("message_unexpected", type(other).__name__, link=letter.link.name)

    def _hear_consumer(self, letter: Letter) -> None:
        match letter.message:
            case FeedHello() as hello:
                place = ConsumerPlace(letter.link.name, letter.sender, hello.channel)
                log_id = self._follower.log_id
                self._perform(self._serving.hello(place, hello, letter.principal, log_id))
            case FeedAck() as ack:
                place = ConsumerPlace(letter.link.name, letter.sender, ack.channel)
                self._perform(self._serving.ack(place, ack))
            case Ask(what=what) as ask if what in (TAKE, SETTLE):
                self._shared.asked(letter, ask)
            case Ask() as ask if letter.link is self._local:
                self._answers.asked(letter.sender, ask, self._tail, self._store)
            case other:
                self._actor.log.limited("message_unexpected", type(other).__name__, link=letter.link.name)

    # The log.

    def _new_follower(self, position: Position, log_id: bytes, history: EpochHistory) -> None:
        streams = tuple(map(int, STREAMS))
        config = FollowerConfig(name=NAME, streams=streams, capacity_bytes=self._arguments.capacity_bytes)
        self._follower = Follower(config, position, log_id)
        self._follower.history = history

    def _follow(self, event: FeedEvent, letter: Letter | None = None) -> None:
        for effect in self._follower.step(event, self._actor.now()):
            match effect:
                case TellLeader(message=message):
                    self._core.send(message)
                case Deliver():
                    assert letter is not None
                    self._take(letter)
                case TakeSnapshot(position=position):
                    self._actor.log.error("messages_missing", before=str(position), had=str(self._tail.end))
                    self._begin_late(position)
                    return
                case CutBack(position=position):
                    self._went_another_way(position)
                    return
                case Noted(event=event_name, detail=detail):
                    self._actor.log.limited(f"feed_{event_name}", event_name, detail=detail)

    def _take(self, letter: Letter) -> None:
        """Take the frames of one delivery."""
        if self._late is not None:
            self._count(letter, self._late)
            return
        for part in letter.raw:
            try:
                block = read_chunk(part, self._tables, self._known_to)
            except DecodeError as error:
                self._actor.fail(f"frames behind {self._tail.end} can't be read: {error}")
                return
            if block is not None:
                self._tail.add(block)
                self._perform(self._serving.took(block))
                self._shared.took(block)
        self._answers.grown(self._tail, self._store)
        if self._tail.size_bytes < TAIL_BYTES_MAX:
            self._follow(Digested(self._tail.end))

    def _begin_late(self, begin: Position) -> None:
        """Go on behind what the files have."""
        self._late = LateBegin(begin)
        self._begin_at(begin)
        self._late.ask(self._core)

    def _tables_told(self, answer: Answer) -> None:
        late = self._late
        if late is None or late.told is not None:
            return
        if answer.refusal is not None:
            self._actor.fail(f"CORE does not tell the tables of topics: {answer.refusal}")
            return
        late.take(answer)
        self._new_follower(late.begin, self._follower.log_id, self._follower.history)
        self._follow(LinkUp())
        self._see_counted(late)

    def _count(self, letter: Letter, late: LateBegin) -> None:
        if late.told is not None:
            late.count(letter.raw)
            self._follow(Digested(self._follower.position))
            self._see_counted(late)

    def _see_counted(self, late: LateBegin) -> None:
        """Follow from the begin once more, when everything up to the record of the tables is counted."""
        if not late.is_over(self._follower.position):
            return
        self._late = None
        self._begin_at(late.begin)
        self._known_to = late.restore(self._tables)
        if self._arguments.is_paired and late.begin > self._store.manifest.position:
            self._store.lacks_to(late.begin, {one.topic_id: one.count for one in self._tables.topics if one.count})
            self._sealed_at = Instant(0)  # The hole is listed soon, and so filled.
            self._files_changed()
        self._new_follower(late.begin, self._follower.log_id, self._follower.history)
        self._follow(LinkUp())

    def _went_another_way(self, position: Position) -> None:
        """The log lost committed records, and goes on in a new epoch behind `position`."""
        self._actor.log.error("log_went_another_way", at=str(position), had=str(self._tail.end))
        if self._writes.is_busy or position >= self._store.manifest.position:
            self._actor.fail("the log went another way")  # The next start goes on behind the files, or cuts them.
            return
        self._store.cut(position, self._follower.history.entries)
        self._begin_late(position)

    def _begin_at(self, position: Position) -> None:
        """Hold nothing in memory, and be at this position."""
        self._stand_by()
        self._tables = TopicTables()
        self._tail = MessageTail(position)
        self._serving = Serving(self._tables, self._tail)
        self._shared.begin(self._tables, self._tail, self._store)
        self._serving.stored_counts = self._store.stored_counts()
        self._known_to = 0

    def _stand_by(self) -> None:
        """Serve nobody."""
        self._perform(self._serving.stands_by())
        self._shared.stands_by()
        self._cursors.end()

    # Files.

    @property
    def _is_folded(self) -> bool:
        """True: the tables are those of the end of the tail."""
        return self._late is None and self._tail.end.sequence >= self._known_to

    @property
    def _has_news(self) -> bool:
        """True: there are messages to be sealed, or at least a position."""
        return self._is_folded and self._tail.end > self._store.manifest.position

    def _seal_if_due(self, now: Instant) -> None:
        is_large = self._tail.size_bytes >= SEAL_BYTES or len(self._tail) >= SEAL_BLOCKS or self._filling.wants_files
        is_due = now - self._sealed_at >= (SEAL_NS if self._tail.count else LEVEL_NS)
        if not self._writes.is_busy and (is_large or is_due) and not self._actor.is_stopping:
            self._sealed_at = now
            if self._has_news:
                self._seal()

    def _seal(self) -> None:
        """Make the tail durable, in a thread."""
        tables, follower, end = self._tables, self._follower, self._tail.end
        content = [one.messages for one in self._tail.behind(0)]
        topics = {one.topic_id: one.name for one in tables.topics}
        told = (tables.snapshot(), topics, follower.log_id, follower.history.entries, tables.kept())
        then = partial(self._sealed, end, self._tail)
        self._writes.write(partial(self._store.seal, content, end, *told), then)

    def _sealed(self, end: Position, tail: MessageTail, error: Exception | None) -> None:
        """Files were written, up to `end` of this tail."""
        if error is None and tail is self._tail and end > self._tail.begin:
            self._tail.let_go(end)
            self._files_changed()
            self._follow(MadeDurable(end))
            self._follow(Digested(self._tail.end))
        self._merge(error)

    def _merge(self, error: Exception | None) -> None:
        """Merge files, if it is time: those before were, or were not."""
        if isinstance(error, MessagesDamaged):
            self._filling.give_up(self._store, error.name, self._go_on)
        elif error is None and (inputs := self._store.next_merge()) and not self._actor.is_stopping:
            self._writes.write(partial(self._store.rewrite, inputs, self._tables.kept()), self._merge)
        self._go_on()

    def _files_changed(self) -> None:
        self._serving.files_changed(self._store.stored_counts())
        self._shared.files_changed()
        self._actor.call(self._go_on)

    def _read(self, wanted: ReadStored) -> None:
        """Read files for a consumer."""
        arguments = (wanted.wanted, wanted.after, wanted.up_to, wanted.bytes_max)
        self._reads.read(self._store, *arguments, partial(self._was_read, wanted, self._serving))

    def _was_read(self, wanted: ReadStored, serving: Serving, piece: StoredPiece | None, problem: str) -> None:
        if serving is self._serving:
            if piece is None:
                self._perform(serving.failed(wanted.to, problem))
            else:
                told = wanted.to, piece.messages, piece.scanned_to
                self._perform(serving.stored(*told, is_lacking=piece.hole is not None))
            self._go_on()

    # Who leads.

    def _see_role(self) -> None:
        """Begin to serve, or stop, as CORE says; not before everything is folded that was before this lead."""
        follows = self._follower.phase is FollowPhase.FOLLOWING  # Else its files may be of another log.
        is_level = self._is_folded and self._tail.end >= self._role.committed
        # A later epoch in the log is the word of another lead, and may come before CORE's: its messages are not ours.
        is_own = self._role.is_acting and self._tail.end.epoch <= self._role.epoch
        leads = is_own and follows and is_level and self._tail.end.epoch == self._role.epoch
        if self._serving.is_leading and (not is_own or self._role.epoch != self._serving.epoch):
            self._actor.log.info("topics_stand_by", epoch=self._serving.epoch)
            self._stand_by()
        elif leads and not self._serving.is_leading and not self._actor.is_stopping:
            self._actor.log.info("topics_served", epoch=self._role.epoch)
            self._serving.begins(self._role.epoch)
            self._shared.leads()

    def _produce(self, event: ProducerEvent) -> None:
        for batch in self._cursors.step(event):
            self._perform(self._serving.recorded(batch))

    # Effects.

    def _perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Say(to=to, message=message, raw=raw):
                    self._send(to.link, to.sender, message, raw)
                case RecordMoves(batch=batch, moves=moves):
                    self._cursors.offer(PutOffer(self._actor.wall_ns(), moves=moves), batch)
                case ReadStored():
                    self._read(effect)

    def _send(self, link: str, sender: bytes, message: AnyMessage, raw: tuple[bytes, ...]) -> None:
        to = self._local if self._door is None or link == self._local.name else self._door.link
        if not to.send(message, raw, to=sender):
            self._serving.lost(link, sender)
            self._shared.lost(link, sender)
