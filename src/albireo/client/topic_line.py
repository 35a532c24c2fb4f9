"""Topic line: the consumers of a client, on one line to the actor `topics` of the member that leads.

    TopicConsumer --> TopicLine: Fetching --> line --> actor `topics`
                        \\--ticket--> Questions --> CORE

The machine is machine/topics/fetching.py; the line is dialled, and CORE asked, here. Decision: ADR-0247.
"""

import itertools
import secrets
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Final, Protocol

import msgspec
import numpy as np

from albireo.client.conversation import request_of, understood
from albireo.client.engine import Engine, log
from albireo.client.errors import AnswerNotUnderstood, ClientClosed, ClientError, refused
from albireo.client.inbox import Inbox
from albireo.client.questions import NodeReply, Questions
from albireo.client.topic_message import TopicMessage
from albireo.client.way import Target
from albireo.codec.errors import DecodeError
from albireo.codec.message import Answer
from albireo.codec.puts import Extra
from albireo.codec.questions.kind import Nothing
from albireo.codec.questions.people import SESSION, TICKET, TicketAsked, TicketGiven
from albireo.codec.served import REDELIVERED, ServedMessages, decode_served
from albireo.machine.topics.fetching import (
    AskWhere,
    ConsumerAnswered,
    ConsumerAsks,
    ConsumerEnded,
    ConsumerLeft,
    ConsumerWanted,
    DoneRecorded,
    DoorDown,
    DoorHeard,
    DoorNotTold,
    DoorTold,
    DoorUp,
    Event,
    Fetching,
    HangUp,
    MessagesCame,
    MessagesDone,
    MessagesTaken,
    SayToDoor,
)
from albireo.model.instant import MS, Instant, TimePassed, soonest
from albireo.model.position import BEGINNING, Position
from albireo.runtime.clock import boot_ns
from albireo.runtime.errors import RuntimeFault
from albireo.runtime.link.lines import LineNews, Lines, LineTo

DOOR: Final = "topics"
"""Name of the actor's door, and of its link on its own machine."""
ANY_HOST: Final = ("0.0.0.0", "[::]", "*")
LOOK_NS: Final = 200 * MS
"""Time between two looks whether another member leads now."""
ASK_S: Final = 3.0
_NO_EXTRA: Final = Extra()


class CamePiece(msgspec.Struct, frozen=True, eq=False):
    """Messages that came together, from `first` on: those before it were delivered already."""

    served: ServedMessages
    first: int
    over_at: Instant | None = None
    """Instant from which the messages may be another consumer's; None: they stay those of this one."""


class MessageInbox(Inbox[list[TopicMessage]]):
    """Messages that the program has not taken yet; the credit of the feed bounds them."""

    def __init__(self, subscription_id: int, consumer: int = 0) -> None:
        super().__init__()
        self.subscription_id = subscription_id
        self.consumer = consumer
        self._pieces: deque[CamePiece] = deque()
        self.let_go: Callable[[CamePiece], object] = lambda _: None
        """Hears of messages that nobody took in time."""

    def put(self, piece: CamePiece) -> None:
        with self._lock:
            self._pieces.append(piece)
        self.tell()

    def _is_empty(self) -> bool:
        """Nothing is left, once what waited too long is let go of."""
        while self._pieces and (over_at := self._pieces[0].over_at) is not None and boot_ns() >= over_at:
            self.let_go(self._pieces.popleft())
        return not self._pieces

    def _taken(self) -> list[TopicMessage]:
        """The messages of one piece."""
        if self._is_empty():
            return []
        return messages_of(self._pieces.popleft(), self.subscription_id, self.consumer)


def messages_of(piece: CamePiece, subscription_id: int, consumer: int) -> list[TopicMessage]:
    served, first = piece.served, piece.first
    found, topics, extras = served.messages, served.topics, served.messages.extras
    view = bytes(found.buffer)
    starts, ends = found.starts[first:].tolist(), (found.starts + found.lengths)[first:].tolist()
    rows = zip(
        range(first, len(found)),
        found.topic_id[first:].tolist(),
        found.number[first:].tolist(),
        map(Position, found.epoch[first:].tolist(), found.sequence[first:].tolist()),
        found.at_ns[first:].tolist(),
        (served.flags[first:] & REDELIVERED).astype(bool).tolist(),
        starts,
        ends,
        strict=True,
    )
    nothing: Mapping[str, str] = {}
    lost, failed = served.lost, served.failed
    return [
        TopicMessage(
            topics[topic_id],
            topic_id,
            number,
            position,
            at_ns,
            (extra := extras.get(index, _NO_EXTRA)).key,
            extra.headers or nothing,
            view[begin:end],
            extra.is_deleted,
            again,
            subscription_id,
            lost.get(index, 0),
            failed.get(index, 0) + 1,
            consumer,
        )
        for index, topic_id, number, position, at_ns, again, begin, end in rows
    ]


class SharedReading(Protocol):
    """A consumer of a shared subscription, as far as the line needs it."""

    inbox: MessageInbox

    def answered(self, number: int, answer: Answer, raw: Sequence[bytes | memoryview]) -> None:
        """A question was answered."""

    def ended(self, error: ClientError) -> None:
        """Nothing is answered any more."""


class TopicLine:
    """The part. Its methods run in the engine's thread."""

    def __init__(self, engine: Engine, questions: Questions, target: Target) -> None:
        self.lines = Lines((), target.keys)
        self.machine = Fetching(1 + secrets.randbelow(2**63 - 1))
        self._engine = engine
        self._questions = questions
        self._target = target
        self._inboxes: dict[int, MessageInbox] = {}
        self._recorded: dict[int, list[tuple[Position, Future[None]]]] = {}
        """Who waits until messages up to a position are recorded as acknowledged, by channel."""
        self._done: dict[int, Position] = {}
        self._shared: dict[int, SharedReading] = {}
        """Consumers of shared subscriptions, by channel."""
        self._channels = itertools.count(1)
        self._numbers = itertools.count(1)
        self._dialled: int | None = None
        """Member to which the line leads."""
        self._look_at: Instant | None = None

    # For readers.

    def begin(
        self, inbox: MessageInbox, capacity_bytes: int, not_before: Position, shared: SharedReading | None = None
    ) -> int:
        """A consumer, and its channel. `not_before`: the last change when its subscription was looked up."""
        channel = next(one for one in self._channels if one & 0xFFFF and one & 0xFFFF not in self._inboxes) & 0xFFFF
        self._inboxes[channel] = inbox
        self._recorded[channel], self._done[channel] = [], BEGINNING
        if shared is not None:
            self._shared[channel] = shared
        wanted = ConsumerWanted(channel, inbox.subscription_id, capacity_bytes, not_before, shared is not None)
        self._step(wanted)
        return channel

    def asks(self, channel: int, what: str, arguments: dict[str, object]) -> int:
        """A consumer of a shared subscription asks; the number of its question."""
        number = next(self._numbers)
        self._step(ConsumerAsks(channel, number, what, arguments))
        return number

    def leave(self, channel: int) -> None:
        if self._inboxes.pop(channel, None) is not None:
            self._end(channel, ClientClosed("the reader is closed"))
            self._step(ConsumerLeft(channel))

    def took(self, channel: int, position: Position) -> None:
        """The program has taken messages up to here."""
        self._step(MessagesTaken(channel, position))

    def acknowledge(self, channel: int, position: Position, future: "Future[None] | None" = None) -> None:
        """The program has done with messages up to here; the future ends once that is on record."""
        if future is not None:
            if channel not in self._inboxes:
                raise ClientClosed("the reader has ended")
            if self._done[channel] >= position:
                future.set_result(None)
            else:
                self._recorded[channel].append((position, future))
        self._step(MessagesDone(channel, position))

    # For the engine.

    def deadline(self) -> Instant | None:
        return None if self.machine.is_idle else soonest(self.machine.deadline(), self._look_at)

    def heard(self, news: LineNews, now: Instant) -> None:
        if news.is_up is not None:
            self._step(DoorUp() if news.is_up else DoorDown())
        elif news.message is not None:
            self._step(DoorHeard(news.message, sum(map(len, news.raw))), news.raw)

    def ticked(self, now: Instant) -> None:
        if self._look_at is not None and now >= self._look_at:
            self._look_at = Instant(now + LOOK_NS)
            leads = self._questions.machine.chosen
            if leads is not None and self._dialled is not None and leads != self._dialled:
                self._step(DoorDown())
        self._step(TimePassed())

    def ended(self, error: ClientClosed) -> None:
        for channel in list(self._inboxes):
            self._end(channel, error)

    def _end(self, channel: int, error: ClientError) -> None:
        inbox = self._inboxes.pop(channel, None)
        if inbox is not None:
            inbox.fail(error)
        if (shared := self._shared.pop(channel, None)) is not None:
            shared.ended(error)
        self._done.pop(channel, None)
        for _, future in self._recorded.pop(channel, ()):
            future.set_exception(error)

    def _step(self, event: Event, raw: Sequence[bytes | memoryview] = ()) -> None:
        for effect in self.machine.step(event, boot_ns()):
            match effect:
                case AskWhere():
                    self._ask()
                case HangUp():
                    self._dial(None)
                case SayToDoor(message):
                    self.lines.send(0, message)
                case MessagesCame(channel, after):
                    self._delivered(channel, after, raw)
                case DoneRecorded(channel, position):
                    self._told(channel, position)
                case ConsumerAnswered(channel, number, answer):
                    if channel in self._shared:
                        self._shared[channel].answered(number, answer, raw)
                case ConsumerEnded(channel, refusal):
                    self._end(channel, refused("read", refusal))

    def _delivered(self, channel: int, after: Position, raw: Sequence[bytes | memoryview]) -> None:
        try:
            served = decode_served(raw[0] if raw else b"")
        except DecodeError as error:
            self._end(channel, AnswerNotUnderstood("messages", str(error)))
            return
        first = 0
        if len(served.messages) and served.messages.first <= after:
            first = int(np.searchsorted(served.messages.sequence, after.sequence, "right"))
        self._inboxes[channel].put(CamePiece(served, first))

    def _told(self, channel: int, position: Position) -> None:
        self._done[channel] = position
        waiting = self._recorded[channel]
        self._recorded[channel] = [one for one in waiting if one[0] > position]
        for at, future in waiting:
            if at <= position:
                future.set_result(None)

    # Where to go.

    def _ask(self) -> None:
        is_local = self._target.lines[0].is_local
        request = (
            request_of(SESSION, Nothing(), ASK_S) if is_local else request_of(TICKET, TicketAsked(door=DOOR), ASK_S)
        )
        try:
            self._questions.ask(request).add_done_callback(self._answered)
        except ClientError as error:
            log.warning("topics: %s", error)
            self._step(DoorNotTold())

    def _answered(self, future: "Future[NodeReply]") -> None:
        member = self._questions.machine.chosen
        try:
            reply = future.result()
            if self.machine.is_idle:
                return
            if member is None or not self._go(member, reply):
                self._step(DoorNotTold())
        except (ClientError, RuntimeFault) as error:
            log.info("topics: %s", error)
            self._step(DoorNotTold())

    def _go(self, member: int, reply: NodeReply) -> bool:
        """Dial the door of this member."""
        to = self._target.lines[member]
        if to.is_local:
            self._step(DoorTold())
            self._dial(LineTo(to.endpoint, link=DOOR))
        else:
            given = understood(TICKET.name, reply.result, TicketGiven)
            self._step(DoorTold(given.ticket))
            self._dial(LineTo(_reached(given.endpoint, to.endpoint), to.peer))
        self._dialled, self._look_at = member, Instant(boot_ns() + LOOK_NS)
        return True

    def _dial(self, to: LineTo | None) -> None:
        """Close the line, and dial another one; None: none."""
        self._dialled = self._look_at = None
        self._engine.remove(self)
        self.lines = Lines(() if to is None else (to,), self._target.keys)
        self._engine.add(self)


def _reached(told: str, dialled: str) -> str:
    """Endpoint of a door: on the host that was dialled, if it listens at all addresses of its machine."""
    host, _, port = told.removeprefix("tcp://").rpartition(":")
    return f"{dialled.rpartition(':')[0]}:{port}" if host in ANY_HOST else told
