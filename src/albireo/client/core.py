"""The part of a client that threads and coroutines share: the engine, its parts, and how they are made.

Client, AsyncClient --> ClientCore --> Engine: Questions, StateView, producers, consumers
"""

import contextlib
import copy
import itertools
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

import msgspec
from msgspec.msgpack import decode, encode
from msgspec.structs import replace

from albireo.client.consumer import ConsumerPart, Reader
from albireo.client.conversation import Conversation, request_of, understood
from albireo.client.engine import Engine, EnginePart, log
from albireo.client.errors import ClientClosed, ClientError, NodeUnreachable, NotDelivered, TargetRefused, refused
from albireo.client.live import StateInbox, StateView, Watching
from albireo.client.producer import Desk, ProducerPart
from albireo.client.questions import Awaited, Questions, Request, check_listens, checked_s, sayable
from albireo.client.topic_consumer import ConsumerFront, MessageReading
from albireo.client.topic_line import TopicLine
from albireo.client.topic_message import TopicMessage
from albireo.client.topic_sharing import SharedFront
from albireo.client.way import Target
from albireo.codec.questions.kind import Nothing
from albireo.codec.questions.node import STATUS
from albireo.codec.questions.topics import SubscriptionTold
from albireo.machine.feed.follower import FollowerConfig
from albireo.machine.producer.config import ProducerConfig
from albireo.machine.producer.sending import Acknowledged
from albireo.model.item import DataItem
from albireo.model.position import Position
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.topic import Topic
from albireo.runtime.errors import NodeSilent, RuntimeFault
from albireo.runtime.link.lines import LineTo
from albireo.runtime.login import login_name

ANSWER_S: Final = 10.0
"""Time that a question waits by default, as long as some takeovers."""


_Part = TypeVar("_Part", bound=EnginePart)


class _OtherMet(msgspec.Struct):
    client: str = ""
    place: str = ""


class _PairMet(msgspec.Struct):
    other: _OtherMet = msgspec.field(default_factory=_OtherMet)


class _Met(msgspec.Struct):
    """Part of a status that a client needs to connect: a node whose status has changed otherwise can be spoken with."""

    pair: _PairMet | None = None


class ClientCore:
    """Engine and parts of one client."""

    def __init__(self, target: Target, wait_s: float, name: str | None) -> None:
        """
        Args:
            wait_s: time that an answer may take.
            name: who speaks, for the audit journal; None: the login name.
        Raises:
            ValueError: `wait_s` is no time.
            TargetRefused: an endpoint or a directory can't be used.
            NodeUnreachable: it is a data directory, and no node has ever run there.
        """
        self.user = name or login_name()
        self.wait_s = checked_s(wait_s)
        self.target = target
        self.person = ""
        """Name of the person for whom each question is asked; empty: for ourselves."""
        self._numbers = itertools.count(1)
        self._unique = f"{self.user}-{secrets.token_hex(4)}"
        self._producers: list[Desk] = []
        self._closing = threading.Lock()
        self._putters: dict[bool, Desk] = {}
        self.topics: dict[str, Topic] = {}
        """Topics by name, as they were last asked for."""
        self._topic_line: TopicLine | None = None
        self._shared: dict[int, SharedFront] = {}
        """Readers of shared subscriptions by the ids of their consumers."""
        self._live: dict[str, StateView] = {}
        """Live views by node below; "": of the node that is asked."""
        self.engine = Engine(f"albireo-client-{self._unique}")
        try:
            self._questions = self._made(lambda: Questions(self.engine, target, wait_s))
        except BaseException:  # Whatever it was goes on; the thread does not.
            self.engine.close()
            raise

    def _made(self, make: Callable[[], _Part]) -> _Part:
        """A part, made in the engine's thread and served from now on."""

        def work() -> _Part:
            part = make()
            self.engine.add(part)
            return part

        try:
            return self.engine.call(work).result()
        except NodeSilent as error:
            raise NodeUnreachable(str(error), f"start it: albireo node run --data {error.data} ...") from error
        except RuntimeFault as error:
            raise TargetRefused(str(error), "see docs/client.md, What to connect to") from error

    def begin(self, request: Request) -> Awaited:
        """Ask one question."""
        return self._questions.ask(replace(request, person=self.person) if self.person else request)

    def speaking_for(self, person: str) -> "ClientCore":
        """The same engine and parts, every question of which names a person."""
        other = copy.copy(self)
        other.person = other.user = person
        return other

    def check_asks_only(self, what: str) -> None:
        """Raises AccessRefused if this speaks for a person, who has no part in what is no question."""
        if self.person:
            raise refused(what, Refusal(RefusalCode.ACCESS, "a person only asks questions", "use your own client"))

    def give_up(self, awaited: Awaited) -> None:
        """Nobody waits for this answer any more."""
        self._questions.give_up(awaited)

    def live(self, node: str = "") -> StateView:
        """The live view of a node below, or of the node itself; begun at the first call. For the engine's thread."""
        if node not in self._live or not self.engine.serves(self._live[node]):
            self._live[node] = StateView(self.target, f"client-{self._unique}", node)
            self.engine.add(self._live[node])
        return self._live[node]

    def watching(self, patterns: Mapping[str, Sequence[str]]) -> Watching:
        """A new reader of the live view. `patterns`: by node below; "": of the node that is asked."""
        self.check_asks_only("watch")
        reader = Watching(patterns)

        def begin() -> None:
            for node in patterns:
                self.live(node).watch(reader)

        self.engine.call(begin).result()
        return reader

    def following(self) -> StateInbox:
        """A new reader of whole deltas."""
        self.check_asks_only("state")
        reader = StateInbox()
        self.engine.call(lambda: self.live().follow(reader)).result()
        return reader

    def leave(self, reader: Watching | StateInbox) -> None:
        """The reader reads no more."""
        with contextlib.suppress(ClientClosed):
            self.engine.call(lambda: self._left(reader))

    def _left(self, reader: Watching | StateInbox) -> None:
        for live in self._live.values():
            live.leave(reader)

    def putter(self, *, stays_here: bool = False) -> Desk:
        """The producer that puts to topics under the name of this client; begun at the first call.

        Args:
            stays_here: it puts to topics that are kept with one member, of which receipts are others.
        """
        self.check_asks_only("put")
        with self._closing:
            if stays_here not in self._putters:
                self._putters[stays_here] = self.desk(f"{'own' if stays_here else 'put'}.{self.user}", (), None)
            return self._putters[stays_here]

    def reading(self, known: SubscriptionTold, prefetch_bytes: int, at_once: int) -> MessageReading:
        """A reader of a subscription; all of a client share one line."""
        self.check_asks_only("read messages")
        with self._closing:
            if self._topic_line is None or not self.engine.serves(self._topic_line):
                self._topic_line = self._made(lambda: TopicLine(self.engine, self._questions, self.target))
        if known.subscription.sharing is None:
            return ConsumerFront(self.engine, self._topic_line, known, prefetch_bytes)
        reading = SharedFront(self.engine, self._topic_line, known, at_once)
        self._shared = {one.consumer: one for one in self._shared.values() if not one.is_closed}
        self._shared[reading.consumer] = reading
        return reading

    def acknowledged(self, messages: Sequence[TopicMessage], receipt: Acknowledged) -> None:
        """A transaction has acknowledged these messages."""
        for consumer in {one.consumer for one in messages} & self._shared.keys():
            own, reading = [one for one in messages if one.consumer == consumer], self._shared[consumer]
            self.engine.post(partial(reading.forget, own, receipt.position.sequence), reading.line)

    def desk(self, name: str, items: Sequence[DataItem], config: ProducerConfig | None) -> Desk:
        """A new producer."""
        self.check_asks_only("producer")
        sayable("producer", lambda: decode(encode((name, items)), type=tuple[str, list[DataItem]]))
        part = self._made(lambda: ProducerPart(self.target, name, items, config or ProducerConfig()))
        desk = Desk(self.engine, part, len(items))
        self._producers = [one for one in self._producers if not one.is_closed] + [desk]
        return desk

    def reader(self, name: str | None, after: Position, streams: Sequence[int], log_id: bytes) -> Reader:
        """A new consumer; without a name it gets one that nobody else has."""
        self.check_asks_only("consumer")
        config = FollowerConfig(
            name=name or f"client-{self._unique}-{next(self._numbers)}", streams=tuple(streams), capacity_bytes=8 << 20
        )
        asked = (config.name, config.streams, after, log_id)
        sayable("consumer", lambda: decode(encode(asked), type=tuple[str, tuple[int, ...], Position, bytes]))
        part = self._made(lambda: ConsumerPart(self.target, config, after, log_id))
        return Reader(self.engine, part, after)

    @property
    def acting(self) -> int | None:
        """Index of the member that is known to act."""
        return self._questions.machine.chosen

    def close(self, timeout_s: float) -> ClientError | None:
        """Give open producers `timeout_s` to have everything recorded, and end; blocks.

        Returns:
            The first error of a producer that was not done.
        """
        if self.person:
            return None  # The engine is another client's.
        ends = time.monotonic() + timeout_s
        first: ClientError | None = None
        with self._closing:
            try:
                for desk in [one for one in self._producers if not one.is_closed]:
                    first = self._closed(desk, max(0.0, ends - time.monotonic())) or first
            finally:
                self.engine.close()
        return first

    def _closed(self, desk: Desk, timeout_s: float) -> ClientError | None:
        try:
            desk.settle(timeout_s)
            desk.leave()
        except NotDelivered as error:
            log.warning("%s", error)
            return error
        except ClientClosed:
            log.debug("producer %s: the client ended before", desk.name)
        return None

    def greeting(self) -> Conversation[None]:
        """Find out whether somebody is there, and that a pair is known by both of its members.

        Raises:
            NodeUnreachable: nobody who acts has answered.
        """
        local = [one for one in self.target.lines if one.is_local]
        if len(local) == len(self.target.lines):
            _check_one_listens(local)
        if len(self.target.lines) == 1:
            reply = yield request_of(STATUS, Nothing(), member=0)
            pair = understood(STATUS.name, reply.result, _Met).pair
            if pair is not None and pair.other.client and not self.target.lines[0].is_local:
                self._know(LineTo(pair.other.client, pair.other.place))
        yield request_of(STATUS, Nothing())

    def _know(self, other: LineTo) -> None:
        """Speak with both members from now on."""
        target = Target((*self.target.lines, other), self.target.keys)
        try:
            made = self._made(lambda: Questions(self.engine, target, self.wait_s))
        except TargetRefused as error:
            log.warning("the other member can't be reached from here: %s", error)
            return
        before, self._questions, self.target = self._questions, made, target
        self.engine.call(lambda: self.engine.remove(before)).result()


def _check_one_listens(local: Sequence[LineTo]) -> None:
    """Raises NodeUnreachable at once if none of these nodes of this machine runs."""
    errors = []
    for one in local:
        try:
            check_listens(one.endpoint, one.link)
        except NodeUnreachable as error:
            errors.append(error)
        else:
            return
    raise errors[0]
