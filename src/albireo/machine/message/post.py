"""Post of a node: its messages as CORE has them, with links to neighbours, orders, and people who wait for an outcome.

    letter from a link      --> is it of somebody beyond that link? --> NodeMessages --> turn.send, turn.record
    record committed        --> NodeMessages --> letters, orders, answers
    receipt of an order     --> end of the message that gave it
    receiver that has room  --> body for its inbox, leased --> its word that it has taken it --> end of the message
    question of a person    --> message --> answer with its receipt, as its end is committed

Effects go into the turn in their order; a record comes back as committed before anything that depends on it is said.

Spec: docs/messages.md; ADR-0183.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, TypeVar, assert_never

import msgspec

from albireo.codec.message import Answer
from albireo.codec.record import LEVELS, Stream
from albireo.codec.tree.letters import FromOrigin, TreeMessage
from albireo.codec.tree.records import (
    LifeBegun,
    MessageDone,
    MessageEnd,
    MessageFact,
    MessageLeased,
    MessageRecord,
    MessageRequested,
)
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
from albireo.machine.message.receivers import RECEIVERS_MAX, MessageReceivers, Receiver, ReceiverEffect
from albireo.machine.message.route import next_hop
from albireo.machine.message.writes import MessageWrites
from albireo.machine.node.turn import Moment, Question, Turn
from albireo.model.command import Outcome, Receipt
from albireo.model.instant import SECOND, Instant, LogTime, soonest
from albireo.model.tree.message import WRITE, AddCause, Life, MessageName, MessageOutcome

WAITING_MAX: Final = 16
"""Most questions that wait for one message, and of one receiver."""
PROBE_NS: Final = SECOND
"""Time in which it is noticed that the link of a receiver that has a message is gone."""
NOT_ASKED: Final = 0
"""Id of no question: an answer to it is dropped by whoever hears it."""
DOUBTS_KEPT: Final = 16
"""Texts of doubts that are kept for the case that tells of them."""


_Key = TypeVar("_Key")
_Waiter = TypeVar("_Waiter")
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
    due: Instant | None = None
    """Instant at which it is answered all the same, with None; None: never."""

    def answer(self, receipt: MessageReceipt) -> tuple[bytes, Answer]:
        return self.sender, self.told(self.request_id, receipt)


class ReceiveWaiter(msgspec.Struct, frozen=True):
    """A question of a receiver that waits for a message."""

    request_id: int
    due: Instant
    """Instant at which it is answered all the same."""


class TakeWaiter(msgspec.Struct, frozen=True):
    """A question of a receiver whose word that it has taken a message is on its way into the log."""

    lease: int
    sender: bytes
    request_id: int


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
        self._anew: set[str] = set()
        """Neighbours that are linked anew, to be told at once what they may not have heard."""
        self._waiting: dict[MessageName, list[MessageWaiter]] = {}
        self._posting: dict[MessageName, list[tuple[bytes, Answer]]] = {}
        """Answers that are given once the request of a message is on record."""
        self._hungry: dict[Receiver, list[ReceiveWaiter]] = {}
        """Questions of receivers that wait for a message."""
        self._probe_at = Instant(0)
        """Instant from which receivers that have a message are told something, to see whether they are there."""
        self._taking: dict[MessageName, TakeWaiter] = {}
        """Questions that are answered once the end of a message is on record."""
        self._asked: dict[str, MessageName] = {}
        """Names of messages that are on their way into the log, by command id."""

    # Links.

    def linked(self, node: str, sender: bytes) -> None:
        """A neighbour is heard on this link."""
        if self._links.get(node) != sender:
            self._links[node] = sender
            self._anew.add(node)

    def heard_again(self, node: str) -> None:
        """A neighbour was silent for long: what was said to it meanwhile may be lost."""
        self._anew.add(node)

    def lost(self, sender: bytes, moment: Moment, log_time: LogTime, turn: Turn) -> None:
        """A link is gone; what its receiver had is given to others."""
        self._links = {node: one for node, one in self._links.items() if one != sender}
        link = sender.hex()
        self._hungry = {one: waiting for one, waiting in self._hungry.items() if one.link != link}
        self._give(self.receivers.lost(link), turn)
        self._fetch(moment, log_time, turn)

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
        for receiver in self._hungry:  # They came before this node served, and go on waiting.
            self.receivers.ready(receiver, self._credit(receiver), _times(moment, log_time))
        self._carry(self.messages.begin(life, continues=continues), moment, log_time, turn)
        return True

    def suspend(self, turn: Turn) -> None:
        """Serve no more. Whoever waits is told that another member answers; the message goes on there."""
        self.messages.suspend()
        for waiting in self._waiting.values():
            for one in waiting:
                turn.send(one.sender, Answer(request_id=one.request_id, error=_MOVED))
        for receiver, hungry in self._hungry.items():
            for asked in hungry:
                turn.send(bytes.fromhex(receiver.link), Answer(request_id=asked.request_id, error=_MOVED))
        for taking in self._taking.values():
            turn.send(taking.sender, Answer(request_id=taking.request_id, error=_MOVED))
        for sender, answer in (one for posting in self._posting.values() for one in posting):
            turn.send(sender, Answer(request_id=answer.request_id, error=_MOVED))
        for kept in (self._waiting, self._posting, self._asked, self._hungry, self._taking):
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
        name = found.name if isinstance(found, MessageReceipt) else self._known(asked.command_id)
        if name is not None:
            return self._wait(name, waiter)
        return self._ask(question, asked, log_time, turn, lambda begun: self._wait(begun, waiter))

    def post(self, question: Question, asked: SendAsked, log_time: LogTime, turn: Turn) -> SendRefused | None:
        """Send a message and answer with its id, once it is on record here; the same command id is the same message."""
        answer = question.sender, Answer(request_id=question.request_id, result=asked.command_id)
        if self.messages.find(asked.command_id) is not None:
            turn.send(*answer)
            return None
        name = self._asked.get(asked.command_id)
        if name is not None:
            return _put(self._posting, name, answer)
        return self._ask(question, asked, log_time, turn, lambda begun: _put(self._posting, begun, answer))

    def _ask(
        self,
        question: Question,
        asked: SendAsked,
        log_time: LogTime,
        turn: Turn,
        wait: Callable[[MessageName], SendRefused | None],
    ) -> SendRefused | None:
        effects = self.messages.ask(asked, _times(question.moment, log_time))
        if isinstance(effects, SendRefused):
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
    ) -> SendRefused | None:
        """Answer with the receipt of a message, once it has ended; with None if it does not in time."""
        found = self.messages.find(command_id)
        if isinstance(found, MessageReceipt):
            turn.send(question.sender, told(question.request_id, found))
            return None
        name = self._known(command_id)
        if name is None:
            return SendRefused(f"no message has the id {command_id!r} here; ask where it was sent from")
        due = Instant(question.moment.now + wait_ns)
        return self._wait(name, MessageWaiter(question.sender, question.request_id, told, due))

    def _wait(self, name: MessageName, waiter: MessageWaiter) -> SendRefused | None:
        return _put(self._waiting, name, waiter)

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

    def receive(
        self, question: Question, inbox: str, wait_ns: int, log_time: LogTime, turn: Turn
    ) -> SendRefused | None:
        """Answer with the next message of an inbox, once this receiver has one; with None if none comes in time."""
        receiver = Receiver(question.sender.hex(), inbox)
        if receiver not in self._hungry and len(self._hungry) >= RECEIVERS_MAX:
            return SendRefused(f"{RECEIVERS_MAX} receivers wait at this node already; what to do: end some of them")
        due = Instant(question.moment.now + wait_ns)
        refused = _put(self._hungry, receiver, ReceiveWaiter(question.request_id, due))
        if refused is None:
            times = _times(question.moment, log_time)
            self._give(self.receivers.ready(receiver, self._credit(receiver), times), turn)
            self._fetch(question.moment, log_time, turn)
        return refused

    def _credit(self, receiver: Receiver) -> int:
        return len(self._hungry.get(receiver, ())) + self.receivers.held(receiver)

    def _fetch(self, moment: Moment, log_time: LogTime, turn: Turn) -> None:
        """Have as many messages fetched as receivers have room for."""
        effects = self.messages.wants(self.receivers.wanted(), _times(moment, log_time))
        self._carry(effects, moment, log_time, turn)

    def _starve(self, now: Instant, turn: Turn) -> None:
        """Tell whoever waited in vain; not a receiver for whom a lease is on its way."""
        for receiver, hungry in list(self._hungry.items()):
            late = [one for one in hungry if now >= one.due]
            if not late or self.receivers.is_promised(receiver):
                continue
            for one in late:
                turn.send(bytes.fromhex(receiver.link), Answer(request_id=one.request_id))
            self._hungry[receiver] = [one for one in hungry if now < one.due]
            if not self._hungry[receiver]:
                del self._hungry[receiver]
            self.receivers.rests(receiver, self._credit(receiver))
        for name, waiting in list(self._waiting.items()):
            for waiter in [one for one in waiting if one.due is not None and now >= one.due]:
                waiting.remove(waiter)
                turn.send(waiter.sender, Answer(request_id=waiter.request_id))
            if not waiting:
                del self._waiting[name]

    def _probe(self, now: Instant, turn: Turn) -> None:
        """Say something to each receiver that has a message: what can't be sent shows that it is gone."""
        if now >= self._probe_at and (holders := self.receivers.holders()):
            self._probe_at = Instant(now + PROBE_NS)
            for link in sorted(holders):
                turn.send(bytes.fromhex(link), Answer(request_id=NOT_ASKED))

    def taken(
        self,
        question: Question,
        name: MessageName,
        lease: int,
        log_time: LogTime,
        turn: Turn,
        reply: bytes | None = None,
    ) -> str:
        """Take a receiver's word that a message is its own now, and its reply; answered once that is on record.

        It may say so again: the answer is the same.

        Returns:
            A refusal.
        """
        link, waiter = question.sender.hex(), TakeWaiter(lease, question.sender, question.request_id)
        found = self.receivers.taken(link, name, lease, reply)
        if found is not None:
            receiver = Receiver(link, name.inbox)
            self.receivers.rests(receiver, self._credit(receiver))
            self._taking[name] = waiter
            self._carry(
                self.messages.executed(*found, _times(question.moment, log_time), lease),
                question.moment,
                log_time,
                turn,
            )
            self._fetch(question.moment, log_time, turn)
        elif name in self._taking and self._taking[name].lease == lease:
            self._taking[name] = waiter
        elif self.receivers.was_taken(name, lease):
            turn.send(question.sender, Answer(request_id=question.request_id, result=True))
        else:
            return "this lease is over, and the message may be another receiver's now"
        return ""

    def _give(self, effects: list[ReceiverEffect], turn: Turn) -> None:
        for one in effects:
            if isinstance(one, RecordMessage):
                turn.record(Stream.COMMAND, [one.record])
                continue
            receiver = Receiver(one.receiver, one.name.inbox)
            waiting = self._hungry.get(receiver)
            if waiting:
                answer = Answer(request_id=waiting.pop(0).request_id, result=_handed(one))
                turn.send(bytes.fromhex(one.receiver), answer)
                if not waiting:
                    del self._hungry[receiver]

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
                    taking = self._taking.pop(record.name)
                    turn.send(taking.sender, Answer(request_id=taking.request_id, result=True))
                elif isinstance(record, MessageRequested):
                    for to, answer in self._posting.pop(record.name, ()):
                        turn.send(to, answer)
                elif isinstance(record, LifeBegun):
                    self._fetch(moment, log_time, turn)

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
        anew, self._anew = self._anew, set()
        for node in sorted(anew):
            self._carry(self.messages.linked(node, times), moment, log_time, turn)
        self._carry(self.messages.time_passed(times), moment, log_time, turn)
        self._starve(moment.now, turn)
        self._probe(moment.now, turn)
        effects, ended = self.receivers.time_passed(times)
        self._give(effects, turn)
        for name, end in ended:
            self._executed(name, end, moment, log_time, turn)
        self._fetch(moment, log_time, turn)

    def deadline(self, moment: Moment, log_time: LogTime) -> Instant | None:
        """Instant at which `time_passed` is due."""
        patient = (hungry for one, hungry in self._hungry.items() if not self.receivers.is_promised(one))
        due = [one.due for hungry in patient for one in hungry]
        due += [one.due for waiting in self._waiting.values() for one in waiting if one.due is not None]
        if self.receivers.holders():
            due.append(self._probe_at)
        if self._anew:
            due.append(moment.now)
        return soonest(self.messages.deadline(_times(moment, log_time)), self.receivers.deadline(), *due)

    def _carry(self, effects: list[MessageEffect], moment: Moment, log_time: LogTime, turn: Turn) -> None:
        for one in effects:
            match one:
                case RecordMessage(record):
                    turn.record(Stream.COMMAND, [record])
                case SendLetter(to, letter):
                    if to in self._links:
                        turn.send(self._links[to], letter)
                case ExecuteBody() if one.name.inbox:
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
        if one.name.inbox:
            return self.receivers.recovered()
        carrier = self._carriers.get(one.kind)
        if carrier is None:
            detail = f"this node knows no order of kind {one.kind!r}"
            return MessageEnd(outcome=MessageOutcome.REJECTED, cause=AddCause.NOT_SUPPORTED, detail=detail)
        return carrier.execute(one, moment, turn) if isinstance(one, ExecuteBody) else carrier.recover(one)


def _put(waiting: dict[_Key, list[_Waiter]], key: _Key, one: _Waiter) -> SendRefused | None:
    """Let a question wait with the others of the same thing, unless there are many."""
    already = waiting.setdefault(key, [])
    if len(already) >= WAITING_MAX:
        return SendRefused(f"{WAITING_MAX} questions wait for the same already; what to do: wait for an answer")
    already.append(one)
    return None


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
