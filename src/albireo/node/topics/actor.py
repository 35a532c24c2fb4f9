"""The actor `topics`: keeps the messages of topics, serves them to consumers, and has their cursors recorded.

It follows the log as any follower does; the newest messages are in memory, older ones in files, which threads write and
read. It listens at a local link, and at a TCP link of its own with the node's keys, where those are heard who show a
ticket. It serves while its member leads. The machine is machine/topics/serving.py; what it says is sent here.
"""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
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
    FeedAck,
    FeedAlive,
    FeedAnswer,
    FeedData,
    FeedHello,
    ProducerWelcome,
    RoleAsked,
    RoleTold,
)
from albireo.codec.questions.topics import TOPIC_TABLES, TopicTablesTold
from albireo.codec.record import Stream
from albireo.codec.sharing import SETTLE, TAKE
from albireo.machine.feed.follower import (
    CutBack,
    Deliver,
    Digested,
    Follower,
    FollowerConfig,
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
from albireo.machine.topics.serving import Effect, ReadStored, RecordMoves, Say, Serving
from albireo.machine.topics.tables import TopicTables
from albireo.machine.topics.tail import MessageTail, count_chunk, read_chunk
from albireo.model.access import AccessRole
from albireo.model.instant import SECOND, Instant, TimePassed, soonest
from albireo.model.position import BEGINNING, EpochHistory, Position
from albireo.node.topics.answers import MessageAnswers
from albireo.node.topics.cursor_producer import CursorProducer
from albireo.node.topics.reads import StoreReads
from albireo.node.topics.shared_consumers import SharedConsumers
from albireo.node.topics.store import MessagesDamaged, StoredPiece, TopicStore
from albireo.runtime import ActorContext, Letter, Link
from albireo.runtime.actor.ticket_door import TicketDoor
from albireo.runtime.link.keys import Keys

STREAMS: Final = (Stream.STATE, Stream.CONTROL, Stream.PUTS)
NAME: Final = "topics"
"""Name of the actor, of its links, of its door, and of the producer of cursors."""
ROLE_NS: Final = SECOND
"""Time between two questions whether this member leads."""
TABLES_ASKED: Final = 1
"""Number of the question to CORE."""
SEAL_BYTES: Final = 16 << 20
SEAL_BLOCKS: Final = 4_096
SEAL_NS: Final = 60 * SECOND
"""Size of the tail, number of its blocks, and time since the last files from which it goes into files."""
LEVEL_NS: Final = 10 * SECOND
"""The same time while the tail has no messages: the log keeps all records behind the position of the files."""
TAIL_BYTES_MAX: Final = 64 << 20
"""Size of the tail from which nothing more is taken: the log keeps it."""


class TopicsArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of the actor, from boot."""

    node: str
    endpoint: str = ""
    """Address of the door, tcp://HOST:PORT with `*` for a free port; empty: there is none."""
    keys: str = ""
    """Directory of the CURVE keys; empty: none."""
    capacity_bytes: int = 8 << 20
    """Most bytes of frames that may be under way to this actor."""


class _Late(msgspec.Struct):
    """First pass over a log that begins too late."""

    begin: Position
    told: TopicTablesTold | None = None
    counts: dict[int, int] = {}
    """Messages of each topic between the begin and the record of the tables."""


def create(arguments: Mapping[str, object]) -> "TopicsActor":
    """Factory for the runtime."""
    return TopicsActor(msgspec.convert(arguments, TopicsArguments))


class TopicsActor:
    """The behaviour of the actor."""

    name = NAME

    def __init__(self, arguments: TopicsArguments) -> None:
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
        self._late: _Late | None = None
        """First pass over a log that begins too late; None: there is none."""
        self._writer = ThreadPoolExecutor(1, "topics-writer")
        self._reads = StoreReads()
        self._sealing: Future[None] | None = None
        self._sealed_at = Instant(0)
        self._role = RoleTold(is_acting=False, epoch=0)
        self._role_at = Instant(0)
        self._cursors: CursorProducer

    async def start(self, actor: ActorContext) -> None:
        self._actor = actor
        self._core = actor.connect("core")
        self._cursors = CursorProducer(NAME, actor, self._core)
        self._reads.open(actor)
        self._shared = SharedConsumers(actor, self._cursors, self._reads, self._send)
        self._answers = MessageAnswers(lambda to, answer: self._local.send(answer, to=to), self._reads)
        self._store, problem = TopicStore.open(actor.data, self._arguments.node)
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
        if self._sealing is not None:
            await asyncio.wait([asyncio.wrap_future(self._sealing)])
        if self._has_news:
            await asyncio.wait([asyncio.wrap_future(self._seal())])
        self._writer.shutdown()
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
            self._ask_tables()
        self._go_on()
        self._perform(self._serving.alive(now))
        self._shared.ticked(now)

    def _go_on(self) -> None:
        self._see_role()
        self._perform(self._serving.serve())
        self._shared.serve()
        if self._serving.is_due:
            self._actor.call(self._go_on)
        self._seal_if_due(self._actor.now())
        self._arm()

    def _arm(self) -> None:
        others = (None if one is None else one.deadline() for one in (self._cursors, self._door))
        due = (self._role_at, self._follower.deadline(), self._serving.deadline(), self._shared.deadline())
        self._actor.arm(soonest(*due, *others))

    def _hear_core(self, letter: Letter) -> None:
        match letter.message:
            case FeedAnswer() | FeedData() | FeedAlive() as message:
                self._follow(Received(message, sum(map(len, letter.raw))), letter)
            case ProducerWelcome() | Appended() | AppendRefused() as message:
                self._produce(message)
            case RoleTold() as told:
                self._role = told
            case Answer(request_id=number) as answer if number == TABLES_ASKED:
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
        """Have the tables from CORE, and the numbers of messages from a first pass over what the log has."""
        self._late = _Late(begin)
        self._begin_at(begin)
        self._ask_tables()

    def _ask_tables(self) -> None:
        """Ask CORE, again each second: it may have ended between question and answer."""
        if self._late is not None and self._late.told is None:
            self._core.send(Ask(request_id=TABLES_ASKED, what=TOPIC_TABLES.name))

    def _tables_told(self, answer: Answer) -> None:
        if self._late is None or self._late.told is not None:
            return
        if answer.refusal is not None:
            self._actor.fail(f"CORE does not tell the tables of topics: {answer.refusal}")
            return
        self._late.told = msgspec.convert(answer.result, TopicTablesTold)
        self._new_follower(self._late.begin, self._follower.log_id, self._follower.history)
        self._follow(LinkUp())
        self._see_counted(self._late)

    def _count(self, letter: Letter, late: _Late) -> None:
        if late.told is None:
            return
        for part in letter.raw:
            count_chunk(part, late.told.position.sequence, late.counts)
        self._follow(Digested(self._follower.position))
        self._see_counted(late)

    def _see_counted(self, late: _Late) -> None:
        """Follow from the begin once more, when everything up to the record of the tables is counted."""
        if late.told is None or self._follower.position.sequence < late.told.position.sequence:
            return
        self._late = None
        self._begin_at(late.begin)
        self._tables.restore(late.told.sections)
        self._tables.set_back(late.counts)
        self._known_to = late.told.position.sequence
        self._new_follower(late.begin, self._follower.log_id, self._follower.history)
        self._follow(LinkUp())

    def _went_another_way(self, position: Position) -> None:
        """The log lost committed records, and goes on in a new epoch behind `position`."""
        self._actor.log.error("log_went_another_way", at=str(position), had=str(self._tail.end))
        if self._sealing is not None or position >= self._store.manifest.position:
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
    def _has_news(self) -> bool:
        """True: there are messages to be sealed, or at least a position."""
        is_folded = self._late is None and self._tail.end.sequence >= self._known_to
        return is_folded and self._tail.end > self._store.manifest.position

    def _seal_if_due(self, now: Instant) -> None:
        is_large = self._tail.size_bytes >= SEAL_BYTES or len(self._tail) >= SEAL_BLOCKS
        is_due = now - self._sealed_at >= (SEAL_NS if self._tail.count else LEVEL_NS)
        if self._sealing is None and (is_large or is_due) and not self._actor.is_stopping:
            self._sealed_at = now
            if self._has_news:
                self._seal()

    def _seal(self) -> "Future[None]":
        """Make the tail durable, in a thread."""
        tables, follower, end = self._tables, self._follower, self._tail.end
        content = [one.messages for one in self._tail.behind(0)]
        topics = {one.topic_id: one.name for one in tables.topics}
        told = (tables.snapshot(), topics, follower.log_id, follower.history.entries, tables.kept())
        self._sealing = sealing = self._writer.submit(self._store.seal, content, end, *told)
        tail = self._tail
        sealing.add_done_callback(lambda done: self._actor.call(self._sealed, done, end, tail))
        return sealing

    def _sealed(self, done: "Future[None]", end: Position, tail: MessageTail) -> None:
        """Files were written, up to `end` of this tail; or merged."""
        self._sealing = None
        error = done.exception()
        if isinstance(error, OSError | MessagesDamaged | DecodeError):
            self._actor.log.limited("messages_not_sealed", "seal", reason=str(error))
            return
        if error is not None:
            raise error
        if tail is self._tail and end > self._tail.begin:
            self._tail.let_go(end)
            self._serving.stored_counts = self._store.stored_counts()
            self._shared.sealed()
            self._follow(MadeDurable(end))
            self._follow(Digested(self._tail.end))
        if (inputs := self._store.next_merge()) and not self._actor.is_stopping:
            self._sealing = self._writer.submit(self._store.rewrite, inputs, self._tables.kept())
            tail = self._tail
            self._sealing.add_done_callback(lambda merged: self._actor.call(self._sealed, merged, BEGINNING, tail))
        self._go_on()

    def _read(self, wanted: ReadStored) -> None:
        """Read files for a consumer."""
        arguments = (wanted.wanted, wanted.after, wanted.up_to, wanted.bytes_max)
        self._reads.read(self._store, *arguments, partial(self._was_read, wanted, self._serving))

    def _was_read(self, wanted: ReadStored, serving: Serving, piece: StoredPiece | None, problem: str) -> None:
        if serving is self._serving:
            stored = None if piece is None else serving.stored(wanted.to, piece.messages, piece.scanned_to)
            self._perform(serving.failed(wanted.to, problem) if stored is None else stored)
            self._go_on()

    # Who leads.

    def _see_role(self) -> None:
        """Begin to serve, or stop, as CORE says; not before everything is folded that was before this lead."""
        is_level = self._late is None and self._tail.end.sequence >= self._known_to
        leads = self._role.is_acting and is_level and self._tail.end.epoch >= self._role.epoch
        if self._serving.is_leading and (not self._role.is_acting or self._role.epoch != self._serving.epoch):
            self._actor.log.info("topics_stand_by", epoch=self._serving.epoch)
            self._stand_by()
        elif leads and not self._serving.is_leading:
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
