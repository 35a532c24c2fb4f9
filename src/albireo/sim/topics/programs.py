"""Programs of the world: each has the client's fetching machine, and a line that is cut and dialled anew."""

import random
from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec

from albireo.codec.message import AnyMessage
from albireo.codec.served import REDELIVERED, ServedMessages, decode_served
from albireo.codec.sharing import SETTLE, TAKE
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
from albireo.model.instant import MS, Instant, TimePassed
from albireo.model.position import Position

CREDIT = 4_000


class TakenMessage(msgspec.Struct, frozen=True):
    """A message that a program got."""

    topic_id: int
    number: int
    position: Position
    body: bytes
    is_again: bool
    lost: int
    failed: int


def messages_of(served: ServedMessages) -> list[TakenMessage]:
    columns = served.messages
    view = memoryview(columns.buffer)
    return [
        TakenMessage(
            int(columns.topic_id[index]),
            int(columns.number[index]),
            Position(int(columns.epoch[index]), int(columns.sequence[index])),
            bytes(view[int(columns.starts[index]) : int(columns.starts[index]) + int(columns.lengths[index])]),
            bool(served.flags[index] & REDELIVERED),
            served.lost.get(index, 0),
            served.failed.get(index, 0),
        )
        for index in range(len(columns))
    ]


class ProgramListener:
    """Whoever hears of programs: the ledger."""

    def got(self, program: "SimProgram", message: TakenMessage) -> None:
        """A program got a message."""

    def recorded(self, program: "SimProgram", messages: Sequence[TakenMessage]) -> None:
        """A program heard that these are acknowledged."""

    def settled(self, program: "SimProgram", fates: dict[str, Any], over: dict[int, Any]) -> None:
        """A program heard what became of messages of a shared subscription."""


class SimProgram:
    """One consumer, through its lines; who begins anew is another program."""

    def __init__(
        self,
        name: str,
        subscription_id: int,
        consumer: int,
        not_before: Position,
        listener: ProgramListener,
        number: int,
    ) -> None:
        """
        Args:
            consumer: its id; 0: the subscription is not shared.
            number: another one than that of each other program of the world.
        """
        self.name = name
        self.subscription_id = subscription_id
        self.consumer = consumer
        self.not_before = not_before
        self.listener = listener
        self.fetching = Fetching(number)
        self.inbox: deque[tuple[AnyMessage, tuple[bytes, ...]]] = deque()
        """Messages on their way to it."""
        self.outbox: deque[AnyMessage] = deque()
        self.line: int | None = None
        """Member to which its line leads."""
        self.dials = 0
        """Number of lines that it had: each has another name at the member."""
        self.is_asking = False
        self.is_over = False
        self.got: list[TakenMessage] = []
        """Messages that it has and has not said anything of."""
        self.said: list[TakenMessage] = []
        """Messages that it has acknowledged, until it hears that this is on record."""
        self.taking: int | None = None
        self.settling: dict[int, dict[str, Any]] = {}
        self.number = 0
        self._raw: tuple[bytes, ...] = ()
        wanted = ConsumerWanted(1, subscription_id, CREDIT, not_before, is_shared=consumer > 0)
        self._begun = wanted

    def begin(self, now_ms: int) -> None:
        self.step(self._begun, now_ms)

    def step(self, event: Event, now_ms: int) -> None:
        for effect in self.fetching.step(event, Instant(now_ms * MS)):
            match effect:
                case AskWhere():
                    self.is_asking = True
                case HangUp():
                    self.line, self.is_asking = None, False
                    self.inbox.clear()
                    self.outbox.clear()
                case SayToDoor(message=message):
                    self.outbox.append(message)
                case MessagesCame(after=after):
                    self._came(
                        [one for one in messages_of(decode_served(self._raw[0])) if one.position > after], now_ms
                    )
                case DoneRecorded(position=position):
                    done = [one for one in self.said if one.position <= position]
                    self.said = [one for one in self.said if one.position > position]
                    self.listener.recorded(self, done)
                case ConsumerAnswered(number=number, answer=answer):
                    self._answered(number, answer.result, answer.refusal is not None, now_ms)
                case ConsumerEnded():
                    self.is_over = True

    def _came(self, messages: Sequence[TakenMessage], now_ms: int) -> None:
        for one in messages:
            self.listener.got(self, one)
        self.got += messages
        if messages and not self.consumer:
            self.step(MessagesTaken(1, messages[-1].position), now_ms)

    # The line.

    def told(self, leader: int | None, now_ms: int) -> None:
        """CORE answers where to go."""
        self.is_asking = False
        if leader is None:
            self.step(DoorNotTold(), now_ms)
            return
        self.step(DoorTold(), now_ms)
        self.line = leader
        self.dials += 1
        self.step(DoorUp(), now_ms)

    def hears(self, now_ms: int) -> None:
        """The next message comes."""
        message, self._raw = self.inbox.popleft()
        self.step(DoorHeard(message, sum(map(len, self._raw))), now_ms)

    def cut(self, now_ms: int) -> None:
        if self.line is not None:
            self.step(DoorDown(), now_ms)

    def passes_time(self, now_ms: int) -> None:
        self.step(TimePassed(), now_ms)

    def leave(self, now_ms: int) -> None:
        self.is_over = True
        self.step(ConsumerLeft(1), now_ms)

    # Exclusive.

    def acknowledge(self, count: int, now_ms: int) -> None:
        """Acknowledge the first so many messages."""
        done, self.got = self.got[:count], self.got[count:]
        if done:
            self.said += done
            self.step(MessagesDone(1, done[-1].position), now_ms)

    # Shared.

    def ask(self, what: str, arguments: dict[str, Any], now_ms: int) -> int:
        self.number += 1
        consumer = {"subscription_id": self.subscription_id, "consumer": self.consumer}
        self.step(ConsumerAsks(1, self.number, what, {**consumer, **arguments}), now_ms)
        return self.number

    def take(self, count: int, now_ms: int) -> None:
        if self.taking is None:
            holds: dict[int, list[tuple[int, int]]] = {}
            for one in sorted((*self.got, *self.said), key=lambda each: each.number):
                holds.setdefault(one.topic_id, []).append((one.number, one.number))
            asked = {"count": count, "holds": holds, "not_before": self.not_before.sequence}
            self.taking = self.ask(TAKE, asked, now_ms)

    def settle(self, chance: random.Random, now_ms: int) -> None:
        """Say of one message what became of it."""
        if not self.got:
            return
        one = self.got.pop(chance.randrange(len(self.got)))
        fate = chance.choice(["done", "done", "done", "given_back"])
        arguments: dict[str, Any] = {fate: {one.topic_id: [(one.number, one.number)]}}
        if fate == "done" and one.lost:
            arguments["lows"] = {one.topic_id: one.number - 1}
        self.said.append(one)
        self.settling[self.ask(SETTLE, arguments, now_ms)] = {"message": one, "fate": fate}

    def _answered(self, number: int, result: Any, is_refused: bool, now_ms: int) -> None:
        if number == self.taking:
            self.taking = None
            for part in self._raw:
                self._came(messages_of(decode_served(part)), now_ms)
        elif number in self.settling:
            said = self.settling.pop(number)
            self.said.remove(said["message"])
            if not is_refused:
                self.listener.settled(self, said, result["over"])
