"""Post of a node: its messages as CORE has them, with links to neighbours, orders, and people who wait for an outcome.

    letter from a link      --> is it of somebody beyond that link? --> NodeMessages --> turn.send, turn.record
    record committed        --> NodeMessages --> letters, orders, answers
    receipt of an order     --> end of the message that gave it
    receiver that has room  --> body of another kind, leased --> its word that it has taken it --> end of the message
    question of a person    --> message --> answer with its receipt, as its end is committed

Effects go into the turn in their order; a record comes back as committed before anything that depends on it is said.

Spec: docs/messages.md; ADR-0183.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, assert_never

import msgspec

from albireo.codec.message import Answer
from albireo.codec.record import LEVELS, Stream
from albireo.codec.tree.letters import FromOrigin, TreeMessage
from albireo.codec.tree.records import LifeBegun, MessageDone, MessageEnd, MessageFact, MessageLeased, MessageRecord
from albireo.machine.message.events import (
    ExecuteBody,
    HandOut,
    MessageDoubt,
    MessageEffect,
    MessageProven,
    MessageTimes,
    RecordMessage,
    RecoverBody,
    SendAsked,
    SendLetter,
    SendRefused,
    StageReached,
)
from albireo.machine.message.messages import NodeMessages
from albireo.machine.message.outbox import MessageReceipt
from albireo.machine.message.receivers import MessageReceivers, ReceiverEffect
from albireo.machine.message.route import next_hop
from albireo.machine.message.writes import MessageWrites
from albireo.machine.node.turn import Moment, Question, Turn
from albireo.model.command import Outcome, Receipt
from albireo.model.instant import Instant, LogTime, soonest
from albireo.model.tree.message import WRITE, Life, MessageName, MessageOutcome

WAITING_MAX: Final = 16
"""Most questions that wait for one message."""
DOUBTS_KEPT: Final = 16
"""Texts of doubts that are kept for the case that tells of them."""


ReceiptTold = Callable[[int, MessageReceipt], Answer]
"""Makes the answer to a question, of this request id, out of the receipt of the message that it became."""


class MessageCarrier(Protocol):
    """Carries out orders that come as messages: writes, and forces."""

    def execute(self, order: ExecuteBody, moment: Moment, turn: Turn) -> MessageEnd | None:
        """Begin; returns the end of a message that has one at once."""

    def recover(self, asked: RecoverBody) -> MessageEnd | None:
        """End of a message that an earlier tenure accepted; None: it has none yet."""


class MessageWaiter(msgspec.Struct, frozen=True):
    """A question that waits for the outcome of a message."""

    sender: bytes
    request_id: int
    told: ReceiptTold

    def answer(self, receipt: MessageReceipt) -> tuple[bytes, Answer]:
        return self.sender, self.told(self.request_id, receipt)


class ReceiveWaiter(msgspec.Struct, frozen=True):
    """A question of a receiver that waits for a message."""

    request_id: int
    due: Instant
    """Instant at which it is answered all the same."""


class MessagePost:
    """The machine."""

    def __init__(
        self, messages: NodeMessages, writes: MessageWrites, others: Mapping[str, MessageCarrier] | None = None
    ) -> None:
        """
        Args:
            others: what carries out orders that are no writes, by the kind of their messages.
        """
        self.messages = messages
        self.writes = writes
        self._carriers: dict[str, MessageCarrier] = {WRITE: writes, **(others or {})}
        self.receivers = MessageReceivers(messages.fold.inbox)
        self.doubts: list[str] = []
        """Latest outcomes with a wrong guid, in words; whoever raises the case looks at it."""
        self.not_theirs = 0
        """Number of letters that came over a link beyond which their sender is not."""
        self._links: dict[str, bytes] = {}
        """Link to each neighbour, by node id."""
        self._waiting: dict[MessageName, list[MessageWaiter]] = {}
        self._hungry: dict[bytes, list[ReceiveWaiter]] = {}
        """Questions of receivers that wait for a message, by link."""
        self._taking: dict[MessageName, tuple[bytes, int]] = {}
        """Questions that are answered once the end of a message is on record."""
        self._asked: dict[str, MessageName] = {}
        """Names of messages that are on their way into the log, by command id."""

    # Links.

    def linked(self, node: str, sender: bytes) -> None:
        """A neighbour is heard on this link."""
        self._links[node] = sender

    def lost(self, sender: bytes, moment: Moment, log_time: LogTime, turn: Turn) -> None:
        """A link is gone; what its receiver had is given to others."""
        self._links = {node: one for node, one in self._links.items() if one != sender}
        self._hungry.pop(sender, None)
        self._give(self.receivers.lost(sender.hex()), turn)

    def letter(self, sender: bytes, letter: TreeMessage, moment: Moment, log_time: LogTime, turn: Turn) -> None:
        """Take a letter of a neighbour, who speaks only for nodes on its own side of the link."""
        name = letter.name
        source = name.origin if isinstance(letter, FromOrigin) else name.owner
        if self._links.get(next_hop(self.messages.node, source)) != sender:
            self.not_theirs += 1
            return
        self._carry(self.messages.heard(letter, _times(moment, log_time)), moment, log_time, turn)

    # The role of this node.

    def begin(self, life: Life, moment: Moment, log_time: LogTime, turn: Turn, *, continues: int) -> bool:
        """Begin a tenure (NodeMessages.begin); False: the log has not the feature level for messages yet."""
        if turn.level < LEVELS[LifeBegun]:
            return False
        self._asked.clear()
        self.receivers = MessageReceivers(self.messages.fold.inbox)
        self._taking.clear()
        self._carry(self.messages.begin(life, continues=continues), moment, log_time, turn)
        return True

    def suspend(self, turn: Turn) -> None:
        """Serve no more. Whoever waits is told that another member answers; the message goes on there."""
        self.messages.suspend()
        for waiting in self._waiting.values():
            for one in waiting:
                turn.send(one.sender, Answer(request_id=one.request_id, error=_MOVED))
        for sender, hungry in self._hungry.items():
            for asked in hungry:
                turn.send(sender, Answer(request_id=asked.request_id, error=_MOVED))
        for kept in (self._waiting, self._asked, self._hungry, self._taking):
            kept.clear()

    # What people ask.

    def ask(
        self, question: Question, asked: SendAsked, log_time: LogTime, turn: Turn, told: ReceiptTold | None = None
    ) -> SendRefused | None:
        """Send a message and answer with its receipt, once it has ended; the same command id is the same message.

        Args:
            told: makes the answer; None: the receipt itself, or that of a write.
        """
        if (refused := self.messages.reused(asked)) is not None:
            return refused
        waiter = MessageWaiter(question.sender, question.request_id, told or _answer)
        found = self.messages.find(asked.command_id)
        if isinstance(found, MessageReceipt) and found.is_settled:
            turn.send(*waiter.answer(found))
            return None
        name = found.name if isinstance(found, MessageReceipt) else found or self._asked.get(asked.command_id)
        if name is not None:
            return self._wait(name, waiter)
        effects = self.messages.ask(asked, _times(question.moment, log_time))
        if isinstance(effects, SendRefused):
            return effects
        for one in effects:
            if isinstance(one, StageReached):
                self._asked[asked.command_id] = one.name
                self._wait(one.name, waiter)
        self._carry(effects, question.moment, log_time, turn)
        return None

    def _wait(self, name: MessageName, waiter: MessageWaiter) -> SendRefused | None:
        waiting = self._waiting.setdefault(name, [])
        if len(waiting) >= WAITING_MAX:
            return SendRefused(f"{WAITING_MAX} questions wait for this message already")
        waiting.append(waiter)
        return None

    def cancel(self, command_id: str, moment: Moment, log_time: LogTime, turn: Turn) -> SendRefused | None:
        """Take a message back; whoever waits for it hears what became of it."""
        found = self.messages.find(command_id)
        if not isinstance(found, MessageName):
            return SendRefused("it has ended already" if found is not None else f"no message has the id {command_id!r}")
        self._carry(self.messages.cancel(found, _times(moment, log_time)), moment, log_time, turn)
        return None

    def take_back(
        self, question: Question, command_id: str, log_time: LogTime, turn: Turn, told: ReceiptTold
    ) -> SendRefused | None:
        """Take a message back, and answer with its receipt once it has ended."""
        found = self.messages.find(command_id)
        if isinstance(found, MessageName):
            refused = self._wait(found, MessageWaiter(question.sender, question.request_id, told))
            if refused is not None:
                return refused
        return self.cancel(command_id, question.moment, log_time, turn)

    # Receivers.

    def receive(self, question: Question, wait_ns: int, log_time: LogTime, turn: Turn) -> SendRefused | None:
        """Answer with the next message of the inbox, once this receiver has one; with None if none comes in time."""
        waiting = self._hungry.setdefault(question.sender, [])
        if len(waiting) >= WAITING_MAX:
            return SendRefused(f"{WAITING_MAX} questions of this receiver wait for a message already")
        waiting.append(ReceiveWaiter(question.request_id, Instant(question.moment.now + wait_ns)))
        self._ready(question.sender, _times(question.moment, log_time), turn)
        return None

    def _ready(self, sender: bytes, times: MessageTimes, turn: Turn) -> None:
        self._give(self.receivers.ready(sender.hex(), self._credit(sender), times), turn)

    def _credit(self, sender: bytes) -> int:
        return len(self._hungry.get(sender, ())) + self.receivers.held(sender.hex())

    def _starve(self, now: Instant, turn: Turn) -> None:
        """Tell receivers for whom no message came in time; not while a lease of theirs is on its way."""
        for sender, waiting in list(self._hungry.items()):
            late = [one for one in waiting if now >= one.due]
            if not late or self.receivers.is_promised(sender.hex()):
                continue
            for one in late:
                turn.send(sender, Answer(request_id=one.request_id))
            self._hungry[sender] = [one for one in waiting if now < one.due]
            if not self._hungry[sender]:
                del self._hungry[sender]
            self.receivers.rests(sender.hex(), self._credit(sender))

    def taken(self, question: Question, name: MessageName, lease: int, log_time: LogTime, turn: Turn) -> str:
        """Take a receiver's word that a message is its own now; answered once that is on record. Returns a refusal."""
        found = self.receivers.taken(question.sender.hex(), name, lease)
        if found is None:
            return "this lease is over, and the message may be another receiver's now"
        self.receivers.rests(question.sender.hex(), self._credit(question.sender))
        self._taking[name] = (question.sender, question.request_id)
        self._executed(*found, question.moment, log_time, turn)
        return ""

    def _give(self, effects: list[ReceiverEffect], turn: Turn) -> None:
        for one in effects:
            if isinstance(one, RecordMessage):
                turn.record(Stream.COMMAND, [one.record])
                continue
            sender = bytes.fromhex(one.receiver)
            waiting = self._hungry.get(sender)
            if waiting:
                turn.send(sender, Answer(request_id=waiting.pop(0).request_id, result=_handed(one)))
                if not waiting:
                    del self._hungry[sender]

    # The log, orders and time.

    def committed(self, records: Sequence[object], moment: Moment, log_time: LogTime, turn: Turn) -> None:
        """Go on with what waited for records, after they are folded; others than those of messages are passed over."""
        for one in records:
            if isinstance(one, MessageFact):
                record: MessageRecord = one  # type: ignore[assignment]  # Every fact is one of them.
                times = _times(moment, log_time)
                self._carry(self.messages.committed(record, times), moment, log_time, turn)
                if isinstance(record, MessageLeased):
                    self._give(self.receivers.leased(record, times), turn)
                elif isinstance(record, MessageDone) and record.name in self._taking:
                    sender, request_id = self._taking.pop(record.name)
                    turn.send(sender, Answer(request_id=request_id, result=True))

    def order_begun(self, command_id: str, moment: Moment, log_time: LogTime, turn: Turn) -> None:
        """Let the origin know that its order is being carried out, as that is committed."""
        name = self.writes.message_of(command_id)
        if name is not None:
            self._carry(self.messages.begun(name, _times(moment, log_time)), moment, log_time, turn)

    def order_finished(self, receipt: Receipt, moment: Moment, log_time: LogTime, turn: Turn) -> None:
        """End the message that gave an order, as the order's receipt is committed."""
        found = self.writes.finished(receipt)
        if found is not None:
            self._executed(*found, moment, log_time, turn)

    def _executed(self, name: MessageName, end: MessageEnd, moment: Moment, log_time: LogTime, turn: Turn) -> None:
        self._carry(self.messages.executed(name, end, _times(moment, log_time)), moment, log_time, turn)

    def time_passed(self, moment: Moment, log_time: LogTime, turn: Turn) -> None:
        times = _times(moment, log_time)
        self._carry(self.messages.time_passed(times), moment, log_time, turn)
        self._starve(moment.now, turn)
        effects, ended = self.receivers.time_passed(times)
        self._give(effects, turn)
        for name, end in ended:
            self._executed(name, end, moment, log_time, turn)

    def deadline(self, moment: Moment, log_time: LogTime) -> Instant | None:
        """Instant at which `time_passed` is due."""
        patient = (waiting for sender, waiting in self._hungry.items() if not self.receivers.is_promised(sender.hex()))
        due = (one.due for waiting in patient for one in waiting)
        return soonest(self.messages.deadline(_times(moment, log_time)), self.receivers.deadline(), *due)

    def _carry(self, effects: list[MessageEffect], moment: Moment, log_time: LogTime, turn: Turn) -> None:
        for one in effects:
            match one:
                case RecordMessage(record):
                    turn.record(Stream.COMMAND, [record])
                case SendLetter(to, letter):
                    if to in self._links:
                        turn.send(self._links[to], letter)
                case ExecuteBody() if one.kind not in self._carriers:
                    self._give(self.receivers.offer(one), turn)
                case ExecuteBody() | RecoverBody():
                    end = self._begun(one, moment, turn)
                    if end is not None:
                        self._executed(one.name, end, moment, log_time, turn)
                case MessageProven(receipt):
                    self._asked.pop(receipt.command_id, None)
                    for waiter in self._waiting.pop(receipt.name, []):
                        turn.send(*waiter.answer(receipt))
                case MessageDoubt(detail=detail):
                    self.doubts = [*self.doubts[1 - DOUBTS_KEPT :], detail]
                    turn.note("limited", "message_guid_wrong", key=str(one.name), detail=detail)
                case StageReached():
                    pass  # `MessageStage` is asked for (NodeMessages.stage).
                case _:
                    assert_never(one)

    def _begun(self, one: ExecuteBody | RecoverBody, moment: Moment, turn: Turn) -> MessageEnd | None:
        """End of a body that has one at once."""
        carrier = self._carriers.get(one.kind)
        if isinstance(one, ExecuteBody):
            assert carrier is not None, "a body of another kind is offered to receivers"
            return carrier.execute(one, moment, turn)
        if carrier is not None:
            return carrier.recover(one)
        return self.receivers.recovered(one.name, is_proven=one.is_proven)


_MOVED: Final = "the lead has changed; ask again with the same command id at the member that acts"


def _times(moment: Moment, log_time: LogTime) -> MessageTimes:
    return MessageTimes(moment.now, log_time, moment.wall)


def _handed(one: HandOut) -> dict[str, object]:
    return {
        "name": msgspec.to_builtins(one.name),
        "lease": one.lease,
        "kind": one.kind,
        "body": one.body,
        "user": one.user,
        "principal": one.principal,
        "reason": one.reason,
    }


_OUTCOMES: Final = {one: Outcome(one.value) for one in MessageOutcome if one is not MessageOutcome.CANCELLED} | {
    MessageOutcome.CANCELLED: Outcome.REJECTED
}
"""Outcome of an order by that of the message that carried it."""


def _answer(request_id: int, receipt: MessageReceipt) -> Answer:
    """The receipt of a message; of one that carried an order, the receipt that orders have."""
    if receipt.kind != WRITE:
        return Answer(request_id=request_id, result=msgspec.to_builtins(receipt))
    end = receipt.end
    told = Receipt(
        command_id=receipt.command_id,
        outcome=_OUTCOMES[end.outcome],
        detail=end.detail,
        read_back=end.read_back,
        finished_ns=end.ended_ns,
        ack_guid=receipt.guid,
    )
    return Answer(request_id=request_id, result=msgspec.to_builtins(told) | {"cause": end.cause.value})
