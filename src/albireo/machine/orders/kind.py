r"""Kinds of orders: what is done once at its owner, here or at another node, with proof. Each is declared as a class.

    question --> Aim: whose is it? --> role there --> here:       `do`, and the answer once that is committed
                                                 \--> elsewhere:  body --> message --> receipt --> `teller`
    message of another node --> body --> `do`, or `recover` if an earlier tenure took it --> end of the message

The way is the same for all kinds (machine/carry/carrying.py). A kind says what it does at its owner, in
which words, and which role it needs. The end of a message is drafted behind the records of what was done, so a log that
has the one has the other too.

Spec: docs/messages.md; ADR-0238.
"""

from typing import Any, ClassVar, Generic, Protocol, TypeVar

import msgspec

from albireo.codec.message_records import MessageEnd
from albireo.codec.questions.kind import QuestionKind
from albireo.codec.record import CommandAccepted
from albireo.machine.desk.roles import RoleNeeded
from albireo.machine.fold.letters.outbox import MessageReceipt
from albireo.machine.kernel.turn import NOBODY, Moment, Question, Turn
from albireo.machine.message.ends import command_id_of
from albireo.machine.message.events import ExecuteBody, RecoverBody, SendAsked, no_body, rejected
from albireo.machine.message.post import ReceiptTold
from albireo.machine.orders.places import Aim, Places
from albireo.model.access import AccessRole
from albireo.model.command import Receipt
from albireo.model.instant import MS
from albireo.model.order_text import EXPIRES_MS_MAX, TEXT_CHARS_MAX
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.tree.message import AddCause, MessageName, MessageOutcome
from albireo.model.value import Value

EXPIRES_MS = 10_000
"""Time within which an order to another node may be begun there, unless its kind says another; people wait for it."""


class OrderAsked(Protocol):
    """Arguments of the question by which an order is given."""

    @property
    def user(self) -> str: ...
    @property
    def reason(self) -> str: ...


class ItemAsked(OrderAsked, Protocol):
    """Arguments of an order about an item."""

    @property
    def item(self) -> str: ...


Asked = TypeVar("Asked", bound=OrderAsked)
OfItem = TypeVar("OfItem", bound=ItemAsked)
Body = TypeVar("Body")


class OrderAtOwner(msgspec.Struct, Generic[Body], frozen=True, kw_only=True):
    """An order at its owner, whether somebody asks for it there or a message brought it."""

    body: Body
    question: Question
    """Who asks, and when; the sender is NOBODY if a message did."""
    user: str
    reason: str
    command_id: str
    """Id of the order, if it came with one; if a message brought it, the one made of its name."""
    expires_ms: int


class OrderDone(msgspec.Struct, frozen=True):
    """An order that was carried out."""

    answer: object
    """Value for whoever asked at this node."""
    detail: str
    """Words for the end of the message."""
    read_back: Value | None = None


class OrderKind(Generic[Asked, Body]):
    """A kind of order. One object of each lives as long as the root machine."""

    question: QuestionKind[Any, Any]
    """Question by which it is asked for; its messages have the name of it for their kind."""
    body: type[Body]
    """Shape of the body of its messages."""
    role: ClassVar[AccessRole] = AccessRole.OPERATE
    """Role that it needs at its owner, and that taking it back needs."""
    look: ClassVar[str] = ""
    """Words for where to look if nobody knows whether it was done; `{node}` is its owner."""
    after_stop: ClassVar[str] = ""
    """Words for what to do if its owner stopped before it said what became of it."""
    stop_cause: ClassVar[AddCause] = AddCause.UNKNOWN
    """Cause of that end."""
    too_late: ClassVar[str] = "never begun"
    """Words for an order whose time was over as its message came."""
    is_done_at_once: ClassVar[bool] = True
    """False: `do` begins it only. Then its answer waits for no commit of this turn."""
    is_executed_here: ClassVar[bool] = True
    """False: its messages go to receivers, and have kinds of their own."""

    @property
    def name(self) -> str:
        return self.question.name

    def begin_afresh(self) -> None:
        """Begin a tenure: what was known of orders in the one before is forgotten."""

    # Where somebody asks.

    def aim(self, asked: Asked, places: Places) -> Aim:
        """Owner of what is meant. Raises NotAnswered."""
        raise NotImplementedError

    def needed(self, question: Question, asked: Asked, aim: Aim) -> RoleNeeded | None:
        """Role that whoever asks needs at the owner; None: none but that of the question."""
        return RoleNeeded(aim.node, f"{self.name} {aim.full_name}", asked.user, self.role)

    def refusal(self, asked: Asked, aim: Aim) -> Refusal | None:
        """Reason why it is not sent to another node, as far as that can be told here."""
        return None

    def id_of(self, asked: Asked) -> str:
        """Id of the order, by which the same one is known again; empty: one is drawn for its message."""
        return ""

    def expires_ms_of(self, asked: Asked) -> int:
        return EXPIRES_MS

    def is_awaited(self, asked: Asked) -> bool:
        """False: the answer is the id, as soon as the message is on record here."""
        return True

    def body_of(self, asked: Asked, aim: Aim) -> Body:
        """Body of the order, in the words of its owner."""
        raise NotImplementedError

    def subject(self, asked: Asked, aim: Aim) -> str:
        """Words for what the message is about."""
        return aim.full_name

    def sent(self, question: Question, asked: Asked, aim: Aim, command_id: str) -> SendAsked:
        """The message that it becomes."""
        return SendAsked(
            command_id=command_id,
            owner=aim.node,
            kind=self.name,
            body=msgspec.msgpack.encode(self.body_of(asked, aim)),
            expires_ms=self.expires_ms_of(asked),
            user=asked.user,
            principal=question.principal,
            speaker=question.speaker,
            reason=asked.reason,
            subject=self.subject(asked, aim)[:TEXT_CHARS_MAX],
        )

    def teller(self, question: Question, asked: Asked, aim: Aim) -> ReceiptTold:
        """Makes the answer out of the receipt of the message: a value, or a refusal."""

        def told(receipt: MessageReceipt) -> object:
            refusal = not_done(receipt, self.look.format(node=aim.node))
            return self.done_elsewhere(question, asked, aim, receipt) if refusal is None else refusal

        return told

    def done_elsewhere(self, question: Question, asked: Asked, aim: Aim, receipt: MessageReceipt) -> object:
        """Answer to an order that another node has carried out."""
        raise NotImplementedError

    # At its owner.

    def do(self, order: OrderAtOwner[Body], turn: Turn) -> OrderDone | Refusal | None:
        """Carry it out; None: it has begun, and `finished` tells of its end."""
        raise NotImplementedError

    def execute(self, order: ExecuteBody, moment: Moment, turn: Turn) -> MessageEnd | None:
        """Carry out an order that a message brought; None: its end comes later.

        Whether somebody may order was judged where it was asked: only there are all roles known.
        """
        try:
            body = msgspec.msgpack.decode(order.body, type=self.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return no_body(self.name, error)
        left_ms = (order.not_after - moment.now) // MS
        if left_ms <= 0:
            return MessageEnd(outcome=MessageOutcome.EXPIRED, cause=AddCause.TIME_LIMIT_OVER, detail=self.too_late)
        brought: OrderAtOwner[Body] = OrderAtOwner(
            body=body,
            question=Question(NOBODY, 0, moment, order.principal, speaker=order.speaker),
            user=order.user,
            reason=order.reason,
            command_id=command_id_of(order.name),
            expires_ms=min(left_ms, EXPIRES_MS_MAX),
        )
        turn.speaker = order.speaker
        done = self.do(brought, turn)
        turn.speaker = ""
        if isinstance(done, Refusal):
            return rejected(done)
        if done is None:
            return None
        return MessageEnd(outcome=MessageOutcome.EXECUTED, detail=done.detail, read_back=done.read_back)

    def recover(self, asked: RecoverBody) -> MessageEnd | None:
        """End of a message that an earlier tenure accepted, if the log lacks its word about it; None: not yet."""
        detail = f"this node stopped in between; what to do: {self.after_stop}"
        return MessageEnd(outcome=MessageOutcome.UNKNOWN, cause=self.stop_cause, detail=detail)

    def begun(self, record: CommandAccepted) -> MessageName | None:
        """Message whose order goes on by this record; None: it is none of this kind."""
        return None

    def finished(self, receipt: Receipt) -> tuple[MessageName, MessageEnd] | None:
        """Message whose order ends by this receipt, and its end; None: it is none of this kind."""
        return None


AnyKind = OrderKind[Any, Any]


class ItemOrder(OrderKind[OfItem, Body]):
    """A kind of order about one item."""

    def aim(self, asked: OfItem, places: Places) -> Aim:
        return places.of_item(asked.item)

    def done_elsewhere(self, question: Question, asked: OfItem, aim: Aim, receipt: MessageReceipt) -> object:
        return {"item": aim.full_name}


def not_done(receipt: MessageReceipt, look: str) -> Refusal | None:
    """Refusal of an order to another node that was not done, or of which nobody knows; None: it was done.

    Args:
        look: whatever shows whether it was, or helps if it was not.
    """
    end, owner = receipt.end, receipt.name.owner
    if end.outcome is MessageOutcome.EXECUTED:
        return None
    if end.outcome is MessageOutcome.REJECTED:
        return end.refusal if end.code else Refusal(RefusalCode.NOT_CARRIED_OUT, end.detail)
    if end.outcome is MessageOutcome.UNKNOWN:
        remedy = f"`albireo command show {receipt.command_id!r}`, and {look}"
        return Refusal(RefusalCode.OUTCOME_UNKNOWN, f"{owner} has not said in time what became of it", remedy)
    cause = f"{end.outcome.value}: {owner} did not take it in time, and never will"
    return Refusal(RefusalCode.NOT_CARRIED_OUT, cause, "`albireo tree`")
