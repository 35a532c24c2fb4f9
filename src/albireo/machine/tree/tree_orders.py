"""Orders between nodes: a write of an item that another node owns, as a message that its owner carries out.

    `write` of an item below --> message, on record here --name, body--> the owner's orders --> its adapter, its device
    answer <-- outcome, proven by the guid <-- receipt of the owner's order <-- read-back

This part joins the machine of messages with the orders of this node: it starts an order for each body that is accepted
here, hands the order's receipt back, and answers whoever waits for a message to end. Whether somebody may order is
judged where the order is given; a node carries out what another node of its tree passes on.

Spec: docs/messages.md; design/tree.md, Messages as resources.
"""

import random
from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from albireo.codec.message import Answer
from albireo.codec.record import ENVELOPE_LEVEL, Stream
from albireo.codec.tree.letters import FromOrigin, OriginLetter, OwnerLetter
from albireo.codec.tree.records import MessageEnd, MessageFact
from albireo.machine.fold.commands import Commands
from albireo.machine.message.events import (
    ExecuteBody,
    MessageDoubt,
    MessageEffect,
    MessageLimits,
    MessageProven,
    MessageTimes,
    RecordMessage,
    RecoverBody,
    SendAsked,
    SendLetter,
    SendRefused,
)
from albireo.machine.message.fold import MessageFold
from albireo.machine.message.messages import NodeMessages
from albireo.machine.message.outbox import MessageReceipt
from albireo.machine.node.orders import WriteAsked, WriteRefusal
from albireo.machine.node.turn import Moment, Question, Turn
from albireo.machine.tree.below import Below
from albireo.model.command import Outcome, Receipt
from albireo.model.instant import MS, SECOND, Instant, LogTime
from albireo.model.tree.message import WRITE, AddCause, Life, MessageName, MessageOutcome
from albireo.model.value import Value

PARENT: Final = b"parent"
"""Stands for the node above as the sender of a letter, and as where one goes: the shell knows its links."""
LIMITS: Final = MessageLimits(grace_ns=3 * SECOND)
"""A client waits five seconds behind the time of an order; `unknown` has to be said before."""
WAITING_MAX: Final = 1_000

TreeLetter = OriginLetter | OwnerLetter


class OrderBody(msgspec.Struct, frozen=True, kw_only=True):
    """Body of a message of kind `write`."""

    item: str
    """Local name of the item."""
    value: Value


class OrderTaker(Protocol):
    """The orders of this node."""

    def take(self, asked: WriteAsked, principal: str, moment: Moment, turn: Turn) -> WriteRefusal | None:
        """Begin an order for an item of this node, which nobody waits for; or say why not."""


class TreeOrders:
    """The machine; lives as long as a tenure."""

    def __init__(
        self, node: str, fold: MessageFold, commands: Commands, below: Below, taker: OrderTaker, chance: random.Random
    ) -> None:
        self._node = node
        self._commands = commands
        self._below = below
        self._taker = taker
        self.messages = NodeMessages(node, fold, chance, LIMITS)
        self._is_begun = False
        self.refused = 0
        """Number of letters that came from where they can't come from."""
        self._carried_out: dict[str, MessageName] = {}
        """Message by the id of the order that carries it out here."""
        self._waiting: dict[str, list[tuple[bytes, int]]] = {}
        """Questions (sender, request id) by the id of the order that they wait for."""

    def serve(self, times: MessageTimes, moment: Moment, turn: Turn, *, is_paired: bool) -> None:
        """Begin this tenure of messages, once: this node serves, and its log may hold their records.

        A member of a pair that took over by the votes has all that was committed before, so it goes on with the life
        of its predecessor. A node alone can't prove that its store is not an old copy.
        """
        if self._is_begun or turn.level < ENVELOPE_LEVEL:
            return
        self._is_begun = True
        *before, entry = turn.log.history.entries
        continues = before[-1].epoch if is_paired and before else 0
        life = Life(entry.epoch, entry.branch_id)
        self._perform(self.messages.begin(life, continues=continues), times, moment, turn)

    def deadline(self, times: MessageTimes) -> Instant | None:
        return self.messages.deadline(times)

    def ask(
        self, question: Question, asked: WriteAsked, owner: str, times: MessageTimes, turn: Turn
    ) -> WriteRefusal | None:
        """Order a write of an item of a node below. The same order again is answered with what became of it."""
        known = self.messages.find(asked.command_id)
        if isinstance(known, MessageReceipt):
            self._answer([(question.sender, question.request_id)], known, turn)
            return None
        if known is None:
            body = msgspec.msgpack.encode(OrderBody(item=asked.item.rpartition(":")[2], value=asked.value))
            sent = SendAsked(
                command_id=asked.command_id,
                owner=owner,
                kind=WRITE,
                body=body,
                expires_ms=asked.expires_ms,
                user=asked.user,
                principal=question.principal,
                reason=asked.reason,
            )
            effects = self.messages.ask(sent, times)
            if isinstance(effects, SendRefused):
                return WriteRefusal(effects.reason)
            self._perform(effects, times, question.moment, turn)
        if len(self._waiting) >= WAITING_MAX:
            return WriteRefusal(f"{WAITING_MAX} orders to other nodes are waited for already; wait for some to finish")
        self._waiting.setdefault(asked.command_id, []).append((question.sender, question.request_id))
        return None

    def heard(self, sender: bytes, letter: TreeLetter, times: MessageTimes, moment: Moment, turn: Turn) -> None:
        """Take a letter from a neighbour; it has to be of somebody whom that neighbour stands for."""
        by = letter.name.origin if isinstance(letter, FromOrigin) else letter.name.owner
        child = self._below.child_of(sender)
        is_inside = by == self._node or by.startswith(f"{self._node}/")
        is_of_child = child is not None and (by == child or by.startswith(f"{child}/"))
        if not (is_of_child if sender != PARENT else not is_inside):
            self.refused += 1
            turn.note("limited", "letter_refused", key=by, by=by, through=child or "")
            return
        self._perform(self.messages.heard(letter, times), times, moment, turn)

    def committed(self, record: MessageFact, times: MessageTimes, moment: Moment, turn: Turn) -> None:
        """Go on with what waited for a record, which is folded."""
        self._perform(self.messages.committed(record, times), times, moment, turn)  # type: ignore[arg-type]  # The union.

    def finished(self, receipt: Receipt, times: MessageTimes, moment: Moment, turn: Turn) -> None:
        """An order of this node has its receipt, which is committed."""
        name = self._carried_out.pop(receipt.command_id, None)
        if name is not None:
            self._perform(self.messages.executed(name, end_of(receipt), times), times, moment, turn)

    def time_passed(self, times: MessageTimes, moment: Moment, turn: Turn) -> None:
        self._perform(self.messages.time_passed(times), times, moment, turn)

    def _perform(self, effects: Sequence[MessageEffect], times: MessageTimes, moment: Moment, turn: Turn) -> None:
        for effect in effects:
            match effect:
                case RecordMessage(record):
                    turn.record(Stream.COMMAND, [record])
                case SendLetter(to, letter):
                    is_up = not to.startswith(f"{self._node}/")
                    sender = PARENT if is_up else self._below.line_to(to)
                    if sender is not None:  # If there is no line, the letter is said again.
                        turn.send(sender, letter)
                case ExecuteBody():
                    self._carry_out(effect, times, moment, turn)
                case RecoverBody(name, _):
                    self._recover(name, times, moment, turn)
                case MessageProven(receipt):
                    self._answer(self._waiting.pop(receipt.command_id, []), receipt, turn)
                case MessageDoubt(name, detail):
                    turn.note("error", "message_doubted", name=str(name), detail=detail)
                case _:
                    pass

    def _carry_out(self, body: ExecuteBody, times: MessageTimes, moment: Moment, turn: Turn) -> None:
        """Begin the order that a message brought."""
        refusal: WriteRefusal | None
        try:
            wanted = msgspec.msgpack.decode(body.body, type=OrderBody)
            asked = WriteAsked(
                item=wanted.item,
                value=wanted.value,
                command_id=str(body.name),
                user=body.user,
                reason=body.reason,
                expires_ms=max(1, (body.not_after - moment.now) // MS),
            )
            asked = msgspec.convert(msgspec.to_builtins(asked), WriteAsked)
            refusal = self._taker.take(asked, body.principal, moment, turn)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            refusal = WriteRefusal(f"the order can't be read: {error}")
        if body.kind != WRITE:
            refusal = WriteRefusal(f"nobody at {self._node} takes messages of kind {body.kind!r}")
        if refusal is None:
            self._carried_out[str(body.name)] = body.name
            return
        end = MessageEnd(
            outcome=MessageOutcome.REJECTED,
            cause=AddCause.NOT_SUPPORTED,
            detail=refusal.reason,
            ended_ns=moment.wall,
        )
        self._perform(self.messages.executed(body.name, end, times), times, moment, turn)

    def _recover(self, name: MessageName, times: MessageTimes, moment: Moment, turn: Turn) -> None:
        """Say what became of an order that was begun before this tenure, once it is known."""
        state = self._commands.find(str(name))
        if state is not None and state.receipt is None:
            self._carried_out[str(name)] = name
            return
        detail = "the node restarted before it was noted what became of the order"
        end = MessageEnd(outcome=MessageOutcome.UNKNOWN, detail=detail, ended_ns=moment.wall)
        if state is not None and state.receipt is not None:
            end = end_of(state.receipt)
        self._perform(self.messages.executed(name, end, times), times, moment, turn)

    def _answer(self, questions: Sequence[tuple[bytes, int]], receipt: MessageReceipt, turn: Turn) -> None:
        end = receipt.end
        told = Receipt(
            command_id=receipt.command_id,
            outcome=_OUTCOMES[end.outcome],
            detail=end.detail,
            read_back=end.read_back,
            finished_ns=end.ended_ns,
            ack_guid=receipt.guid,
        )
        for sender, request_id in questions:
            turn.send(sender, Answer(request_id=request_id, result=msgspec.to_builtins(told)))


_OUTCOMES: Final = {one: Outcome(one.value) for one in MessageOutcome if one is not MessageOutcome.CANCELLED} | {
    MessageOutcome.CANCELLED: Outcome.REJECTED
}
"""Outcome of an order, by that of the message that carried it: nobody cancels an order but by its message."""


def end_of(receipt: Receipt) -> MessageEnd:
    """End of the message whose order has this receipt."""
    cause = AddCause.TIME_LIMIT_OVER if receipt.outcome is Outcome.EXPIRED else AddCause.NONE
    return MessageEnd(
        outcome=MessageOutcome(receipt.outcome.value),
        cause=cause,
        detail=receipt.detail,
        read_back=receipt.read_back,
        ended_ns=receipt.finished_ns,
    )


def times_at(log_time_ms: int, last_append: Instant, moment: Moment) -> MessageTimes:
    """One reading of all clocks: log time goes on from the last append."""
    log_time = LogTime(log_time_ms * MS + max(0, moment.now - last_append))
    return MessageTimes(moment.now, log_time, moment.wall)
