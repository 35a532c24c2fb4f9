"""Consumer of a shared subscription: asks for some messages, and says what became of each.

    take --> topic_take ... messages --> acknowledge, give_back, extend --> topic_settle

It asks for more once it has fewer than half of `at_once`, so messages that it does not get to are not many. What is
said without waiting is sent together. Machine: machine/topics/shared_serving.py. Decision: ADR-0246.
"""

import secrets
from collections.abc import Sequence
from concurrent.futures import Future
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from albireo.client.errors import AnswerNotUnderstood, ClientClosed, ClientError, NodeRefused, refused
from albireo.client.topic_line import CamePiece, MessageInbox, TopicLine
from albireo.client.topic_message import TopicMessage
from albireo.codec.errors import DecodeError
from albireo.codec.message import Answer
from albireo.codec.served import decode_served
from albireo.codec.sharing import SETTLE, TAKE, TopicSettled, TopicTake, TopicTaken
from albireo.model.instant import MS, SECOND, Instant
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.topic_lease import Sharing, joined
from albireo.runtime.clock import boot_ns

if TYPE_CHECKING:
    from albireo.client.engine import Engine
    from albireo.codec.questions.topics import SubscriptionTold

AT_ONCE: Final = 16
"""Messages that a consumer has at once, unless it says another number."""
AT_ONCE_MAX: Final = 500
KEPT_PERCENT: Final = 80
"""Part of a lease for which messages stay here untaken."""
_OVER: Final = Refusal(
    RefusalCode.CHANGED,
    "the message is another consumer's now: its lease was over",
    "drop what was made of it; a longer lease_s gives more time",
)


class MessageFate(StrEnum):
    """Fate of a message; values are fields of `TopicSettle`."""

    DONE = "done"
    GIVEN_BACK = "given_back"
    EXTENDED = "extended"


class Word(msgspec.Struct, frozen=True, eq=False):
    """Word about one message."""

    topic_id: int
    number: int
    fate: MessageFate
    low: int = 0
    """Number up to which messages of its topic are gone, as its reader was told."""
    future: "Future[None] | None" = None
    """Ends once it is on record."""


def _word(message: TopicMessage, fate: MessageFate, future: "Future[None] | None" = None) -> Word:
    low = message.number - 1 if message.lost_before else 0
    return Word(message.topic_id, message.number, fate, low, future)


class SharedFront:
    """The consumer. Its state is the engine's thread's; methods of readers are for any thread."""

    def __init__(self, engine: "Engine", line: TopicLine, known: "SubscriptionTold", at_once: int) -> None:
        if not 1 <= at_once <= AT_ONCE_MAX:
            raise ValueError(f"a consumer has 1 to {AT_ONCE_MAX} messages at once, not {at_once}")
        self.consumer = 1 + secrets.randbelow(2**62)
        self.subscription_id = known.subscription.subscription_id
        self.inbox = MessageInbox(self.subscription_id, self.consumer)
        self.inbox.let_go = self._not_taken
        sharing = known.subscription.sharing or Sharing()
        self._kept_ns = sharing.lease_s * SECOND * KEPT_PERCENT // 100
        self._asked_at = boot_ns()
        self.is_closed = False
        self._engine = engine
        self.line = line
        self._at_once = at_once
        self._not_before = known.not_before.sequence
        self._holds: dict[int, set[int]] = {}
        """Numbers of messages that are its own and not settled, by topic."""
        self._count = 0
        self._untaken = 0
        """Messages that the program has not taken."""
        self._take: int | None = None
        """Number of the question for more; None: there is none."""
        self._said: list[Word] = []
        """Words for the next question."""
        self._is_pushed = False
        self._settling: dict[int, list[Word]] = {}
        self._is_leaving = False
        self._ends: list[Future[None]] = []
        """Who waits until it has left: until everything is said and on record."""
        self._error: ClientError | None = None
        self._channel = engine.call(lambda: line.begin(self.inbox, 1, known.not_before, self)).result()
        engine.post(self._ask, line)

    # For readers.

    def took(self, messages: list[TopicMessage]) -> list[TopicMessage]:
        """Take note of what the reader has now, so that more may come."""
        if messages and not self.is_closed:
            self._engine.post(lambda: self._took(len(messages)), self.line)
        return messages

    def acknowledge(self, message: TopicMessage) -> None:
        """Say that a message is done; it leaves with what is said until the engine looks."""
        self._engine.post(lambda: self._say(_word(message, MessageFate.DONE)), self.line)

    def settles(self, message: TopicMessage, fate: MessageFate) -> "Future[None]":
        """Say what becomes of a message; ends once that is on record."""
        if self.inbox.over is not None:
            raise self.inbox.over
        future: Future[None] = Future()
        self._engine.hand_over(lambda: self._say(_word(message, fate, future)), future)
        return future

    def recorded(self, message: TopicMessage) -> "Future[None]":
        """Acknowledge; ends once that is on record."""
        return self.settles(message, MessageFate.DONE)

    def settled(self) -> "Future[None]":
        """Let other consumers have what the reader has not settled; ends once all is on record."""
        future: Future[None] = Future()
        self._engine.hand_over(lambda: self._leave_all(future), future)
        return future

    def _not_taken(self, piece: CamePiece) -> None:
        """Nobody took these messages while they were surely this consumer's."""
        if not self.is_closed:
            self._engine.post(lambda: self._let_go(piece), self.line)

    def leave(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            try:
                self._engine.call(lambda: self.line.leave(self._channel)).result()
            except ClientClosed:
                return

    # In the engine's thread.

    def forget(self, messages: Sequence[TopicMessage], not_before: int) -> None:
        """A transaction has acknowledged these messages, up to this record."""
        self._not_before = max(self._not_before, not_before)
        for one in messages:
            self._drop(one.topic_id, one.number)
        self._ask()

    def _took(self, count: int) -> None:
        self._untaken -= count
        self._ask()

    def _let_go(self, piece: CamePiece) -> None:
        """Have these no more; they come again if they still are its own."""
        found = piece.served.messages
        for topic_id, number in zip(found.topic_id.tolist(), found.number.tolist(), strict=True):
            self._drop(topic_id, number)
        self._took(len(found))

    def _drop(self, topic_id: int, number: int) -> None:
        numbers = self._holds.get(topic_id, set())
        if number in numbers:
            numbers.discard(number)
            self._count -= 1
            if not numbers:
                del self._holds[topic_id]

    def _ask(self) -> None:
        """Ask for more, if there is room."""
        is_over = self._error is not None or self._is_leaving
        if is_over or self._take is not None or self._untaken or 2 * self._count > self._at_once:
            return
        asked = TopicTake(
            subscription_id=self.subscription_id,
            consumer=self.consumer,
            count=self._at_once - self._count,
            holds={one: tuple(joined((each, each) for each in numbers)) for one, numbers in self._holds.items()},
            not_before=self._not_before,
        )
        self._asked_at = boot_ns()
        self._take = self.line.asks(self._channel, TAKE, msgspec.to_builtins(asked))

    def _say(self, word: Word) -> None:
        if self._error is not None:
            if word.future is not None:
                word.future.set_exception(self._error)
            return
        self._said.append(word)
        if not self._is_pushed:
            self._is_pushed = True
            self._engine.post(self._push, self.line)

    def _push(self) -> None:
        """Send what was said; of each message the last word."""
        self._is_pushed = False
        if self._settling or self._error is not None or not (self._said or self._ends):
            return
        said, self._said = self._said[:AT_ONCE_MAX], self._said[AT_ONCE_MAX:]
        told: dict[str, dict[int, list[tuple[int, int]]]] = {fate.value: {} for fate in MessageFate}
        lows: dict[int, int] = {}
        for one in {(each.topic_id, each.number): each for each in said}.values():
            told[one.fate].setdefault(one.topic_id, []).append((one.number, one.number))
            if one.fate is MessageFate.DONE and one.low:
                lows[one.topic_id] = max(one.low, lows.get(one.topic_id, 0))
        ranges = {
            fate: {topic_id: joined(numbers) for topic_id, numbers in found.items()} for fate, found in told.items()
        }
        is_leaving = bool(self._ends) and not self._said
        consumer = {"subscription_id": self.subscription_id, "consumer": self.consumer, "is_leaving": is_leaving}
        asked = {**consumer, "lows": lows, **ranges}
        self._settling[self.line.asks(self._channel, SETTLE, asked)] = said

    def _leave_all(self, future: "Future[None]") -> None:
        """Leave what the reader did not get to. The oldest message that it took counts as one that it failed with."""
        if self._error is not None:
            future.set_exception(self._error)
            return
        untaken: set[tuple[int, int]] = set()
        while self.inbox.over is None and (messages := self.inbox.take()):
            untaken.update((one.topic_id, one.number) for one in messages)
        under_way = (*self._said, *(one for said in self._settling.values() for one in said))
        out = untaken | {(one.topic_id, one.number) for one in under_way}
        for topic_id, numbers in self._holds.items():
            taken = [number for number in numbers if (topic_id, number) not in out]
            if taken:
                self._say(Word(topic_id, min(taken), MessageFate.GIVEN_BACK))
        self._is_leaving = True
        self._ends.append(future)
        self._push()

    def answered(self, number: int, answer: Answer, raw: Sequence[bytes | memoryview]) -> None:
        """A question was answered."""
        if number == self._take:
            self._take = None
            self._came(answer, raw)
        elif number in self._settling:
            self._told(self._settling.pop(number), answer)
            if self._ends and not self._said:
                ends, self._ends = self._ends, []
                for future in ends:
                    future.set_result(None)
            self._push()
        self._ask()

    def _came(self, answer: Answer, raw: Sequence[bytes | memoryview]) -> None:
        if answer.refusal is not None:
            self._fail(refused("read", answer.refusal))
            return
        try:
            pieces = [decode_served(part) for part in raw]
            told = msgspec.convert(answer.result or {}, TopicTaken)
        except (DecodeError, msgspec.ValidationError) as error:
            self._fail(AnswerNotUnderstood("messages", str(error)))
            return
        # From the question on: an answer may have been long on its way.
        over_at = Instant(self._asked_at + told.held_ms * MS + self._kept_ns)
        for piece in pieces:
            count = len(piece.messages)
            for topic_id, message in zip(piece.messages.topic_id.tolist(), piece.messages.number.tolist(), strict=True):
                self._holds.setdefault(topic_id, set()).add(message)
            self._count += count
            self._untaken += count
            self.inbox.put(CamePiece(piece, 0, over_at))

    def _told(self, said: Sequence[Word], answer: Answer) -> None:
        error: ClientError | None = None
        over: dict[int, set[int]] = {}
        if answer.refusal is not None:
            error = refused("settle", answer.refusal)
        else:
            told = msgspec.convert(answer.result, TopicSettled)
            over = {
                one: {n for first, last in found for n in range(first, last + 1)} for one, found in told.over.items()
            }
        for one in said:
            is_over = one.number in over.get(one.topic_id, ())
            if is_over or one.fate is not MessageFate.EXTENDED:
                self._drop(one.topic_id, one.number)
            if one.future is None:
                continue
            if error is not None or is_over:
                one.future.set_exception(error or NodeRefused("settle", _OVER))
            else:
                one.future.set_result(None)

    def _fail(self, error: ClientError) -> None:
        self._error = error
        self.inbox.fail(error)

    def ended(self, error: ClientError) -> None:
        """Nothing is answered any more."""
        self._error = self._error or error
        waiting = [one.future for one in (*self._said, *(one for said in self._settling.values() for one in said))]
        waiting += self._ends
        self._said, self._settling, self._ends = [], {}, []
        for future in waiting:
            if future is not None:
                future.set_exception(error)
