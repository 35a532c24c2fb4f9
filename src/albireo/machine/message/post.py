"""Post of a node: its messages as CORE has them, with links to neighbours, orders, and people who wait for an outcome.

    letter from a link      --> is it of somebody beyond that link? --> NodeMessages --> turn.send, turn.record
    record committed        --> NodeMessages --> letters, orders, answers
    end of an order         --> end of the message that gave it
    receiver that has room  --> body for its inbox, leased --> its word that it has taken it --> end of the message
    question of a person    --> message --> answer with its receipt, as its end is committed

Effects go into the turn in their order; a record comes back as committed before anything that depends on it is said.

Spec: docs/messages.md; ADR-0183.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, assert_never

import msgspec

from albireo.codec.message import Answer
from albireo.codec.message_records import (
    LifeBegun,
    MessageDone,
    MessageEnd,
    MessageFact,
    MessageLeased,
    MessageRecord,
    MessageRequested,
)
from albireo.codec.record import Stream
from albireo.codec.tree.letters import FromOrigin, TreeMessage, may_wait
from albireo.machine.fold.letters.outbox import MessageReceipt
from albireo.machine.kernel.turn import Moment, Question, Turn, answer_to
from albireo.machine.message.events import (
    ExecuteBody,
    MessageDoubt,
    MessageEffect,
    MessageProven,
    MessageTimes,
    RecordMessage,
    RecoverBody,
    SendAsked,
    SendLetter,
    StageReached,
    rejected,
)
from albireo.machine.message.messages import NodeMessages
from albireo.machine.message.receiving.desk import MOVED, ReceiversDesk, let_wait
from albireo.machine.message.route import next_hop
from albireo.model.instant import SECOND, Instant, LogTime, soonest
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.tree.message import Life, MessageName

DOUBTS_KEPT: Final = 1_000
DOUBT_NS: Final = 3_600 * SECOND
"""Time for which an outcome with a wrong guid counts for the case that tells of it."""

ReceiptTold = Callable[[MessageReceipt], object]
"""Makes the answer to a question out of the receipt of the message that it became: a value, or a refusal."""


class MessageCarrier(Protocol):
    """Carries out orders of one kind that come as messages."""

    def execute(self, order: ExecuteBody, moment: Moment, turn: Turn) -> MessageEnd | None:
        """Begin; returns the end of a message that has one at once."""

    def recover(self, asked: RecoverBody) -> MessageEnd | None:
        """End of a message that an earlier tenure accepted; None: it has none yet."""


class MessageWaiter(msgspec.Struct, frozen=True):
    """A question that waits for the outcome of a message."""

    sender: bytes
    request_id: int
    told: ReceiptTold
    due: Instant | None = None
    """Instant at which it is answered all the same, with None; None: never."""

    def answer(self, receipt: MessageReceipt) -> tuple[bytes, Answer]:
        return self.sender, answer_to(self.request_id, self.told(receipt))


class MessagePost:
    """The machine."""

    def __init__(self, messages: NodeMessages, carriers: Mapping[str, MessageCarrier]) -> None:
        """
        Args:
            carriers: what carries out orders, by the kind of their messages.
        """
        self.messages = messages
        self._carriers = carriers
        self.desk = ReceiversDesk(messages.fold.inbox)
        self._doubted_at: deque[Instant] = deque(maxlen=DOUBTS_KEPT)
        """When outcomes with a wrong guid came, the latest of them."""
        self.not_theirs = 0
        """Number of letters that came over a link beyond which their sender is not."""
        self._links: dict[str, bytes] = {}
        """Link to each neighbour, by node id."""
        self._bulk: dict[str, bytes] = {}
        """The one for what may wait."""
        self._anew: set[str] = set()
        """Neighbours that are linked anew, to be told at once what they may not have heard."""
        self._waiting: dict[MessageName, list[MessageWaiter]] = {}
        self._posting: dict[MessageName, list[tuple[bytes, Answer]]] = {}
        """Answers that are given once the request of a message is on record."""
        self._asked: dict[str, MessageName] = {}
        """Names of messages that are on their way into the log, by command id."""

    def doubts(self, now: Instant) -> int:
        """Number of outcomes with a wrong guid that came lately."""
        while self._doubted_at and now - self._doubted_at[0] >= DOUBT_NS:
            self._doubted_at.popleft()
        return len(self._doubted_at)

    # Links.

    def linked(self, node: str, sender: bytes, bulk: bytes | None = None) -> None:
        """A neighbour is heard on this link, and on another one that is for what may wait; None: on no other."""
        self._bulk[node] = bulk or sender
        if self._links.get(node) != sender:
            self._links[node] = sender
            self._anew.add(node)

    def heard_again(self, node: str) -> None:
        """A neighbour was silent for long: what was said to it meanwhile may be lost."""
        self._anew.add(node)

    def lost(self, sender: bytes, moment: Moment, log_time: LogTime, turn: Turn) -> None:
        """A link is gone; what its receiver had is given to others."""
        self._links = {node: one for node, one in self._links.items() if one != sender}
        self.desk.lost(sender, turn)
        self._fetch(moment, log_time, turn)

    def letter(self, sender: bytes, letter: TreeMessage, moment: Moment, log_time: LogTime, turn: Turn) -> None:
        """Take a letter of a neighbour, who speaks only for nodes on its own side of the link."""
        name = letter.name
        source = name.origin if isinstance(letter, FromOrigin) else name.owner
        hop = next_hop(self.messages.node, source)
        if hop not in self._links or sender not in (self._links[hop], self._bulk[hop]):
            self.not_theirs += 1
            return
        self._carry(self.messages.heard(letter, _times(moment, log_time)), moment, log_time, turn)

    # The role of this node.

    def begin(self, life: Life, moment: Moment, log_time: LogTime, turn: Turn, *, continues: int) -> None:
        """Begin a tenure (NodeMessages.begin)."""
        self._asked.clear()
        self.desk.begin(_times(moment, log_time))
        self._carry(self.messages.begin(life, continues=continues), moment, log_time, turn)

    def suspend(self, turn: Turn) -> None:
        """Serve no more. Whoever waits is told that another member answers; the message goes on there."""
        self.messages.suspend()
        for waiting in self._waiting.values():
            for one in waiting:
                turn.send(one.sender, Answer(request_id=one.request_id, refusal=MOVED))
        self.desk.suspend(turn)
        for sender, answer in (one for posting in self._posting.values() for one in posting):
            turn.send(sender, Answer(request_id=answer.request_id, refusal=MOVED))
        for kept in (self._waiting, self._posting, self._asked):
            kept.clear()

    # What people ask.

    def ask(
        self, question: Question, asked: SendAsked, log_time: LogTime, turn: Turn, told: ReceiptTold
    ) -> Refusal | None:
        """Send a message and answer once it has ended; the same command id is the same message.

        Args:
            told: makes the answer out of its receipt.
        """
        if (refused := self.messages.reused(asked)) is not None:
            return refused
        waiter = MessageWaiter(question.sender, question.request_id, told)
        found = self.messages.find(asked.command_id)
        if isinstance(found, MessageReceipt) and found.is_settled:
            turn.send(*waiter.answer(found))
            return None
        name = found.name if isinstance(found, MessageReceipt) else self._known(asked.command_id)
        if name is not None:
            return let_wait(self._waiting, name, waiter)
        return self._ask(question, asked, log_time, turn, lambda begun: let_wait(self._waiting, begun, waiter))

    def post(self, question: Question, asked: SendAsked, log_time: LogTime, turn: Turn) -> Refusal | None:
        """Send a message and answer with its id, once it is on record here; the same command id is the same message."""
        answer = question.sender, Answer(request_id=question.request_id, result=asked.command_id)
        if self.messages.find(asked.command_id) is not None:
            turn.send(*answer)
            return None
        name = self._asked.get(asked.command_id)
        if name is not None:
            return let_wait(self._posting, name, answer)
        return self._ask(question, asked, log_time, turn, lambda begun: let_wait(self._posting, begun, answer))

    def _ask(
        self,
        question: Question,
        asked: SendAsked,
        log_time: LogTime,
        turn: Turn,
        wait: Callable[[MessageName], Refusal | None],
    ) -> Refusal | None:
        effects = self.messages.ask(asked, _times(question.moment, log_time))
        if isinstance(effects, Refusal):
            return effects
        for one in effects:
            if isinstance(one, StageReached):
                self._asked[asked.command_id] = one.name
                wait(one.name)
        self._carry(effects, question.moment, log_time, turn)
        return None

    def _known(self, command_id: str) -> MessageName | None:
        """Name of a message without an end, which may be on its way into the log."""
        found = self.messages.find(command_id)
        return found if isinstance(found, MessageName) else self._asked.get(command_id)

    def become(
        self, question: Question, command_id: str, wait_ns: int, turn: Turn, told: ReceiptTold
    ) -> Refusal | None:
        """Answer with the receipt of a message, once it has ended; with None if it does not in time."""
        found = self.messages.find(command_id)
        if isinstance(found, MessageReceipt):
            turn.answer(question, told(found))
            return None
        name = self._known(command_id)
        if name is None:
            return Refusal(
                RefusalCode.UNKNOWN_NAME, f"no message has the id {command_id!r} here", "ask where it was sent from"
            )
        due = Instant(question.moment.now + wait_ns)
        return let_wait(self._waiting, name, MessageWaiter(question.sender, question.request_id, told, due))

    def cancel(self, command_id: str, moment: Moment, log_time: LogTime, turn: Turn) -> Refusal | None:
        """Take a message back; whoever waits for it hears what became of it."""
        found = self.messages.find(command_id)
        if not isinstance(found, MessageName):
            if found is not None:
                return Refusal(RefusalCode.ENDED, "it has ended already")
            return Refusal(RefusalCode.UNKNOWN_NAME, f"no message has the id {command_id!r}")
        self._carry(self.messages.cancel(found, _times(moment, log_time)), moment, log_time, turn)
        return None

    def take_back(
        self, question: Question, command_id: str, log_time: LogTime, turn: Turn, told: ReceiptTold
    ) -> Refusal | None:
        """Take a message back, and answer with its receipt once it has ended."""
        found = self.messages.find(command_id)
        if isinstance(found, MessageName):
            refused = let_wait(self._waiting, found, MessageWaiter(question.sender, question.request_id, told))
            if refused is not None:
                return refused
        return self.cancel(command_id, question.moment, log_time, turn)

    # Receivers.

    def receive(self, question: Question, inbox: str, wait_ns: int, log_time: LogTime, turn: Turn) -> Refusal | None:
        """Answer with the next message of an inbox, once this receiver has one; with None if none comes in time."""
        refused = self.desk.receive(question, inbox, wait_ns, _times(question.moment, log_time), turn)
        if refused is None:
            self._fetch(question.moment, log_time, turn)
        return refused

    def withdraw(self, question: Question, request_id: int, log_time: LogTime, turn: Turn) -> None:
        """Take the word that nobody waits for the answer to an earlier question of this sender."""
        asked = (question.sender, request_id)
        for name, waiting in list(self._waiting.items()):
            waiting[:] = [one for one in waiting if (one.sender, one.request_id) != asked]
            if not waiting:
                del self._waiting[name]
        self.desk.withdraw(*asked, turn)
        turn.answer(question, True)
        self._fetch(question.moment, log_time, turn)

    def _fetch(self, moment: Moment, log_time: LogTime, turn: Turn) -> None:
        """Have as many messages fetched as receivers have room for."""
        effects = self.messages.wants(self.desk.receivers.wanted(), _times(moment, log_time))
        self._carry(effects, moment, log_time, turn)

    def _tell_late(self, now: Instant, turn: Turn) -> None:
        """Tell whoever waited for an end in vain."""
        for name, waiting in list(self._waiting.items()):
            for waiter in [one for one in waiting if one.due is not None and now >= one.due]:
                waiting.remove(waiter)
                turn.send(waiter.sender, Answer(request_id=waiter.request_id))
            if not waiting:
                del self._waiting[name]

    def taken(
        self,
        question: Question,
        name: MessageName,
        lease: int,
        log_time: LogTime,
        turn: Turn,
        reply: bytes | None = None,
    ) -> Refusal | None:
        """Take a receiver's word that a message is its own now, and its reply; answered once that is on record.

        It may say so again: the answer is the same.

        Returns:
            A refusal.
        """
        if not self.messages.is_serving:  # Its tenure has not begun: no lease is known yet, and none is over.
            return MOVED
        found = self.desk.taken(question, name, lease, reply, turn)
        if not isinstance(found, tuple):
            return found
        times = _times(question.moment, log_time)
        self._carry(self.messages.executed(*found, times, lease), question.moment, log_time, turn)
        self._fetch(question.moment, log_time, turn)
        return None

    def given_back(
        self, question: Question, name: MessageName, lease: int, log_time: LogTime, turn: Turn
    ) -> Refusal | None:
        """Take a receiver's word that it did nothing with a message; returns a refusal."""
        if not self.messages.is_serving:
            return MOVED
        refusal = self.desk.given_back(question, name, lease, _times(question.moment, log_time), turn)
        self._fetch(question.moment, log_time, turn)
        return refusal

    # The log, orders and time.

    def committed(self, records: Sequence[object], moment: Moment, log_time: LogTime, turn: Turn) -> None:
        """Go on with what waited for records, after they are folded; others than those of messages are passed over."""
        for one in records:
            if isinstance(one, MessageFact):
                record: MessageRecord = one  # type: ignore[assignment]  # Every fact is one of them.
                times = _times(moment, log_time)
                self._carry(self.messages.committed(record, times), moment, log_time, turn)
                if isinstance(record, MessageLeased):
                    self.desk.leased(record, times, turn)
                elif isinstance(record, MessageDone):
                    self.desk.done(record, turn)
                elif isinstance(record, MessageRequested):
                    for to, answer in self._posting.pop(record.name, ()):
                        turn.send(to, answer)
                elif isinstance(record, LifeBegun):
                    self._fetch(moment, log_time, turn)

    def begun(self, name: MessageName, moment: Moment, log_time: LogTime, turn: Turn) -> None:
        """Let the origin know that its order is being carried out, as that is committed."""
        self._carry(self.messages.begun(name, _times(moment, log_time)), moment, log_time, turn)

    def executed(self, name: MessageName, end: MessageEnd, moment: Moment, log_time: LogTime, turn: Turn) -> None:
        """End a message, as what its order came to is committed."""
        self._carry(self.messages.executed(name, end, _times(moment, log_time)), moment, log_time, turn)

    def time_passed(self, moment: Moment, log_time: LogTime, turn: Turn) -> None:
        times = _times(moment, log_time)
        anew, self._anew = self._anew, set()
        for node in sorted(anew):
            self._carry(self.messages.linked(node, times), moment, log_time, turn)
        self._carry(self.messages.time_passed(times), moment, log_time, turn)
        self._tell_late(moment.now, turn)
        for name, end in self.desk.time_passed(times, turn):
            self.executed(name, end, moment, log_time, turn)
        self._fetch(moment, log_time, turn)

    @property
    def is_open(self) -> bool:
        """True: `deadline` may name an instant. It is asked in each turn, and mostly no message is on its way."""
        own = self._waiting or self._anew or self.desk.is_open
        return bool(own) or self.messages.origin.is_open or self.messages.owner.deadline() is not None

    def deadline(self, moment: Moment, log_time: LogTime) -> Instant | None:
        """Instant at which `time_passed` is due."""
        due = [one.due for waiting in self._waiting.values() for one in waiting if one.due is not None]
        if self._anew:
            due.append(moment.now)
        return soonest(self.messages.deadline(_times(moment, log_time)), self.desk.deadline(), *due)

    def _carry(self, effects: list[MessageEffect], moment: Moment, log_time: LogTime, turn: Turn) -> None:
        for one in effects:
            match one:
                case RecordMessage(record):
                    turn.record(Stream.COMMAND, [record])
                case SendLetter(to, letter):
                    if to in self._links:
                        turn.send(self._bulk[to] if may_wait(letter) else self._links[to], letter)
                case ExecuteBody() if one.name.inbox:
                    self.desk.offer(one, turn)
                case ExecuteBody() | RecoverBody():
                    end = self._begun(one, moment, turn)
                    if end is not None:
                        self.executed(one.name, end, moment, log_time, turn)
                case MessageProven(receipt):
                    self._asked.pop(receipt.command_id, None)
                    for waiter in self._waiting.pop(receipt.name, []):
                        turn.send(*waiter.answer(receipt))
                case MessageDoubt(detail=detail):
                    self._doubted_at.append(moment.now)
                    turn.note("limited", "message_guid_wrong", key=str(one.name), detail=detail)
                case StageReached():
                    pass  # `MessageStage` is asked for (NodeMessages.stage).
                case _:
                    assert_never(one)

    def _begun(self, one: ExecuteBody | RecoverBody, moment: Moment, turn: Turn) -> MessageEnd | None:
        """End of a body that has one at once."""
        if one.name.inbox:
            return self.desk.receivers.recovered()
        carrier = self._carriers.get(one.kind)
        if carrier is None:
            cause = f"this node knows no order of kind {one.kind!r}"
            return rejected(Refusal(RefusalCode.UNKNOWN_QUESTION, cause))
        return carrier.execute(one, moment, turn) if isinstance(one, ExecuteBody) else carrier.recover(one)


def _times(moment: Moment, log_time: LogTime) -> MessageTimes:
    return MessageTimes(moment.now, log_time, moment.wall)
