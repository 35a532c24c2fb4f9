"""Fetching: the consumers of one client, on one line to the actor `topics` of the member that leads.

    idle --wanted--> asking --told where--> dialling --up--> showing --let in--> open --line gone, sent on--> asking
                                                 \\--local: no ticket is needed--/

Each consumer is a feed of its own on that line. On a new line it begins at its cursor; messages that it had before are
passed over, by their positions, and what it acknowledged on the line before is said again.

A consumer of a shared subscription asks questions in place of a feed; on a new line it asks anew what is not answered.

Few hellos are under way at a time, and the next one goes as one is answered: after a takeover ten thousand consumers
come at the pace at which the actor lets them in, and none repeats itself meanwhile.

Invariants
    once:    a message is delivered once, whatever lines there were.
    upward:  what is acknowledged never goes back.

Not done here: asking CORE, dialling (client/topic_line.py). Spec: ADR-0247.
"""

from collections.abc import Sequence
from typing import Final, assert_never

import msgspec

from albireo.codec.message import Answer, AnyMessage, Ask, FeedAlive, FeedAnswer, FeedData, FeedDone
from albireo.machine.access.door_keeper import SHOW
from albireo.machine.feed.follower import (
    Deliver,
    Digested,
    Follower,
    FollowerConfig,
    LinkUp,
    MadeDurable,
    Received,
    TellLeader,
)
from albireo.machine.feed.follower import Effect as FeedEffect
from albireo.machine.topics.serving import ALIVE_NS
from albireo.machine.topics.shared_serving import TAKE_NS
from albireo.model.instant import MS, SECOND, Instant, TimePassed
from albireo.model.position import BEGINNING, Position
from albireo.model.refusal import Refusal, RefusalCode

AGAIN_NS: Final = 100 * MS
"""Pause before CORE is asked again where to go."""
PATIENCE_NS: Final = 3 * SECOND
"""Time for a line to be there and a ticket to be judged."""
ANSWER_NS: Final = TAKE_NS + 3 * SECOND
"""Time for an answer to a consumer of a shared subscription."""
SHOWN: Final = 1
"""Number of the question that shows a ticket."""
HELLOS_MAX: Final = 64
"""Most hellos of a line that are not answered."""
HELLO_NS: Final = 10 * SECOND
"""Time after which one is said again: on a line that is up nothing is lost, but a full queue drops."""
FOR_GOOD: Final = frozenset(
    {
        RefusalCode.UNKNOWN_NAME,
        RefusalCode.NOT_OWNER,
        RefusalCode.SUPERSEDED,
        RefusalCode.MALFORMED,
        RefusalCode.BAD_VALUE,
    }
)
"""Refusals with which a consumer ends; the others mean that it has to look for who leads."""


class ConsumerWanted(msgspec.Struct, frozen=True):
    """A consumer begins."""

    channel: int
    subscription_id: int
    capacity_bytes: int
    not_before: Position = BEGINNING
    """Place of the last change of topics when the subscription was looked up."""
    is_shared: bool = False
    """True: it asks for messages (codec/sharing.py)."""


class ConsumerLeft(msgspec.Struct, frozen=True):
    """A consumer is over."""

    channel: int


class DoorTold(msgspec.Struct, frozen=True):
    """CORE of the member that leads was asked: where the door is, and a ticket for it."""

    ticket: str = ""
    """Ticket; empty: none is needed."""


class DoorNotTold(msgspec.Struct, frozen=True):
    """CORE could not be asked, or said no."""


class DoorUp(msgspec.Struct, frozen=True):
    """The line is up."""


class DoorDown(msgspec.Struct, frozen=True):
    """The line is down, or another member leads."""


class DoorHeard(msgspec.Struct, frozen=True, eq=False):
    """A message came on the line."""

    message: AnyMessage
    size_bytes: int = 0


class MessagesDone(msgspec.Struct, frozen=True):
    """A program has done with messages up to here."""

    channel: int
    position: Position


class ConsumerAsks(msgspec.Struct, frozen=True):
    """A consumer of a shared subscription asks."""

    channel: int
    number: int
    """Number of the question, from 1; each of a client has its own."""
    what: str
    arguments: dict[str, object]


class MessagesTaken(msgspec.Struct, frozen=True):
    """A program has taken messages up to here: there is room for more."""

    channel: int
    position: Position


class AskWhere(msgspec.Struct, frozen=True):
    """Effect: ask CORE for a ticket."""


class HangUp(msgspec.Struct, frozen=True):
    """Effect: close the line, if there is one."""


class SayToDoor(msgspec.Struct, frozen=True, eq=False):
    """Effect: say this on the line."""

    message: AnyMessage


class MessagesCame(msgspec.Struct, frozen=True, eq=False):
    """Effect: the raw part of the message just heard is for this consumer, from `after` on."""

    channel: int
    after: Position


class DoneRecorded(msgspec.Struct, frozen=True):
    """Effect: what a consumer acknowledged up to here is on record."""

    channel: int
    position: Position


class ConsumerAnswered(msgspec.Struct, frozen=True, eq=False):
    """Effect: a question was answered, or refused; the raw parts of the message just heard are part of it."""

    channel: int
    number: int
    answer: Answer


class ConsumerEnded(msgspec.Struct, frozen=True):
    """Effect: a consumer has ended."""

    channel: int
    refusal: Refusal


Event = (
    ConsumerWanted
    | ConsumerLeft
    | DoorTold
    | DoorNotTold
    | DoorUp
    | DoorDown
    | DoorHeard
    | MessagesDone
    | ConsumerAsks
    | MessagesTaken
    | TimePassed
)
Effect = AskWhere | HangUp | SayToDoor | MessagesCame | DoneRecorded | ConsumerAnswered | ConsumerEnded


class _Consumer:
    """One consumer."""

    def __init__(self, wanted: ConsumerWanted) -> None:
        self.wanted = wanted
        self.follower: Follower | None = None
        """Feed on the present line."""
        self.asks: dict[int, ConsumerAsks] = {}
        """Questions without an answer, by number."""
        self.answer_due: Instant | None = None
        """When the line is given up, because it has no answer to the first of them."""
        self.delivered = BEGINNING
        self.acknowledged = BEGINNING
        self.recorded = BEGINNING

    def begins(self, program: int, line: int) -> Follower:
        """A feed on a new line."""
        config = FollowerConfig(
            name=f"consumer-{self.wanted.channel}",
            channel=self.wanted.channel,
            subscription_id=self.wanted.subscription_id,
            capacity_bytes=self.wanted.capacity_bytes,
            not_before=self.wanted.not_before,
            program=program,
            line=line,
            silence_ns=3 * ALIVE_NS,
            ask_again_ns=HELLO_NS,
        )
        self.follower = Follower(config, self.acknowledged)
        return self.follower


class Fetching:
    """The machine."""

    def __init__(self, program: int) -> None:
        """`program`: a number that no other program has."""
        self._program = program
        self._line = 0
        """Number of the present line: the actor may hear a line that was left behind the next one."""
        self._consumers: dict[int, _Consumer] = {}
        self._waiting: dict[int, None] = {}
        """Channels of consumers that have still to say hello on this line."""
        self._greeting: set[int] = set()
        """Channels of those of which a hello is under way."""
        self._phase = "idle"
        self._ticket = ""
        self._due: Instant | None = None
        """When the present step is given up, or begun again."""

    @property
    def is_idle(self) -> bool:
        """True: nobody wants anything."""
        return not self._consumers

    @property
    def phase(self) -> str:
        return self._phase

    def deadline(self) -> Instant | None:
        found = [self._due] if self._due is not None else []
        if self._phase == "open":
            found += [at for one in self._consumers.values() if one.follower and (at := one.follower.deadline())]
            found += [one.answer_due for one in self._consumers.values() if one.answer_due is not None]
        return min(found, default=None)

    def step(self, event: Event, now: Instant) -> list[Effect]:
        match event:
            case ConsumerWanted(channel=channel):
                self._consumers[channel] = _Consumer(event)
                if self._phase == "open":
                    self._waiting[channel] = None
                    return self._greet(now)
                return self._ask(now) if self._phase == "idle" else []
            case ConsumerLeft(channel):
                return self._left(channel, now)
            case DoorTold(ticket):
                if self._phase == "asking":
                    self._phase, self._ticket, self._due = "dialling", ticket, Instant(now + PATIENCE_NS)
                return []
            case DoorNotTold():
                if self._phase == "asking":
                    self._due = Instant(now + AGAIN_NS)
                return []
            case DoorUp():
                return self._up(now)
            case DoorDown():
                return [] if self._phase in ("idle", "asking") else self._again(now)
            case DoorHeard(message, size_bytes):
                return self._heard(message, size_bytes, now)
            case MessagesDone(channel, position):
                return self._acknowledged(channel, position, now)
            case ConsumerAsks():
                return self._asks(event, now)
            case MessagesTaken(channel, position):
                one = self._consumers.get(channel)
                return [] if one is None else self._fed(one, Digested(position), now)
            case TimePassed():
                return self._time_passed(now)
            case _:
                assert_never(event)

    def _left(self, channel: int, now: Instant) -> list[Effect]:
        self._consumers.pop(channel, None)
        self._waiting.pop(channel, None)
        self._greeting.discard(channel)
        if self._consumers:
            return self._greet(now)
        self._phase, self._due = "idle", None
        return [HangUp()]

    def _ask(self, now: Instant) -> list[Effect]:
        self._phase, self._due = "asking", None
        return [AskWhere()]

    def _again(self, now: Instant) -> list[Effect]:
        """Look again for who leads, a little later."""
        self._phase, self._due = "asking", Instant(now + AGAIN_NS)
        for one in self._consumers.values():
            one.follower = one.answer_due = None
        return [HangUp()]

    def _up(self, now: Instant) -> list[Effect]:
        if self._phase != "dialling":
            return []
        if not self._ticket:
            return self._open(now)
        self._phase, self._due = "showing", Instant(now + PATIENCE_NS)
        return [SayToDoor(Ask(request_id=SHOWN, what=SHOW, arguments={"ticket": self._ticket}))]

    def _open(self, now: Instant) -> list[Effect]:
        self._phase, self._due, self._line = "open", None, self._line + 1
        self._waiting, self._greeting = dict.fromkeys(self._consumers), set()
        return self._greet(now)

    def _greet(self, now: Instant) -> list[Effect]:
        """Say hello for as many consumers as may be under way."""
        effects: list[Effect] = []
        while self._waiting and len(self._greeting) < HELLOS_MAX and self._phase == "open":
            channel = next(iter(self._waiting))
            del self._waiting[channel]
            effects += self._begin(channel, now)
        return effects

    def _begin(self, channel: int, now: Instant) -> list[Effect]:
        one = self._consumers[channel]
        if one.wanted.is_shared:
            return self._put(one, list(one.asks.values()), now)
        self._greeting.add(channel)
        return self._said(one, one.begins(self._program, self._line).step(LinkUp(), now))

    def _asks(self, asks: ConsumerAsks, now: Instant) -> list[Effect]:
        one = self._consumers.get(asks.channel)
        if one is None:
            return []
        one.asks[asks.number] = asks
        return self._put(one, [asks], now) if self._phase == "open" else []

    def _put(self, one: _Consumer, asks: Sequence[ConsumerAsks], now: Instant) -> list[Effect]:
        """Ask questions."""
        if asks and one.answer_due is None:
            one.answer_due = Instant(now + ANSWER_NS)
        return [
            SayToDoor(Ask(request_id=SHOWN + each.number, what=each.what, arguments=each.arguments)) for each in asks
        ]

    def _answered(self, answer: Answer, now: Instant) -> list[Effect]:
        number = answer.request_id - SHOWN
        one = next((each for each in self._consumers.values() if number in each.asks), None)
        if one is None:
            return [] if answer.refusal is None else self._again(now)  # The door let us out.
        if answer.refusal is not None and answer.refusal.code not in FOR_GOOD:
            return self._again(now)
        del one.asks[number]
        one.answer_due = Instant(now + ANSWER_NS) if one.asks else None
        return [ConsumerAnswered(one.wanted.channel, number, answer)]

    def _time_passed(self, now: Instant) -> list[Effect]:
        if self._due is not None and now >= self._due:
            return self._ask(now) if self._phase == "asking" else self._again(now)
        if self._phase != "open":
            return []
        if any(one.answer_due is not None and now >= one.answer_due for one in self._consumers.values()):
            return self._again(now)
        due = [one for one in self._consumers.values() if one.follower and (one.follower.deadline() or now + 1) <= now]
        return [effect for one in due for effect in self._fed(one, TimePassed(), now)]

    def _heard(self, message: AnyMessage, size_bytes: int, now: Instant) -> list[Effect]:
        match message:
            case Answer(request_id=number) if number == SHOWN and self._phase == "showing":
                return self._open(now) if message.refusal is None else self._again(now)
            case Answer() if self._phase == "open":
                return self._answered(message, now)
            case FeedAnswer(verdict="refused", channel=channel, refusal=refusal):
                return self._refused(channel, refusal, now)
            case FeedDone(channel=channel, durable=durable):
                one = self._consumers.get(channel)
                if one is None or durable <= one.recorded:
                    return []
                one.recorded = durable
                return [DoneRecorded(channel, durable)]
            case FeedAnswer() | FeedData() | FeedAlive():
                self._greeting.discard(message.channel)
                one = self._consumers.get(message.channel)
                found = [] if one is None else self._fed(one, Received(message, size_bytes), now)
                return found + self._greet(now)
            case _:
                return []

    def _refused(self, channel: int, refusal: Refusal | None, now: Instant) -> list[Effect]:
        one = self._consumers.get(channel)
        if one is None or one.follower is None or refusal is None:
            return []
        if refusal.code in FOR_GOOD:
            del self._consumers[channel]
            return [ConsumerEnded(channel, refusal), *(self.step(ConsumerLeft(channel), now))]
        return self._again(now)

    def _acknowledged(self, channel: int, position: Position, now: Instant) -> list[Effect]:
        one = self._consumers.get(channel)
        if one is None or position <= one.acknowledged:
            return []
        one.acknowledged = position
        return self._fed(one, MadeDurable(position), now)

    def _fed(self, one: _Consumer, event: Received | Digested | MadeDurable | TimePassed, now: Instant) -> list[Effect]:
        return [] if one.follower is None else self._said(one, one.follower.step(event, now))

    def _said(self, one: _Consumer, effects: Sequence[FeedEffect]) -> list[Effect]:
        """Words and deliveries that a feed wants."""
        assert one.follower is not None
        channel, found = one.wanted.channel, list[Effect]()
        for effect in effects:
            match effect:
                case TellLeader(message):
                    found.append(SayToDoor(message))
                case Deliver(message=FeedData(last=last)):
                    if last > one.delivered:
                        found.append(MessagesCame(channel, one.delivered))
                        one.delivered = last
                    else:
                        found += self._said(one, one.follower.step(Digested(last), Instant(0)))
                case _:
                    pass
        return found
