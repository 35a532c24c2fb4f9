"""Messages of programs: taken on record here, and given to a receiver of an inbox at another node.

They go the way of an order as far as their owner; there a receiver does what an order's kind does (message/receiving).

Spec: docs/messages.md; ADR-0196.
"""

from collections.abc import Container
from typing import Protocol

from albireo.codec.questions.messages import SEND, MessageAsked
from albireo.machine.desk.roles import RoleNeeded
from albireo.machine.fold.letters.outbox import MessageReceipt
from albireo.machine.kernel.turn import Question
from albireo.machine.message.events import SendAsked
from albireo.machine.message.post import ReceiptTold
from albireo.machine.orders.kind import OrderKind
from albireo.machine.orders.places import Aim, Places
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.tree.message import DEFAULT_INBOX
from albireo.model.tree.proof import MessageProof


class KindsKnown(Protocol):
    """The tree, as far as messages of programs need it."""

    @property
    def carriers(self) -> Container[str]:
        """Kinds of messages that their owner carries out itself."""


class MessageRoot(Protocol):
    """The root machine, as far as messages of programs need it."""

    @property
    def tree(self) -> KindsKnown: ...


class SendMessage(OrderKind[MessageAsked, bytes]):
    """The kind of the message is a word of its sender's."""

    question = SEND
    body = bytes
    is_done_at_once = False
    is_executed_here = False

    def __init__(self, root: MessageRoot) -> None:
        self._root = root

    def aim(self, asked: MessageAsked, places: Places) -> Aim:
        return places.of_any(asked.node)

    def needed(self, question: Question, asked: MessageAsked, aim: Aim) -> RoleNeeded | None:
        return RoleNeeded(aim.node, self.name, asked.user)

    def refusal(self, asked: MessageAsked, aim: Aim) -> Refusal | None:
        if asked.kind not in self._root.tree.carriers:
            return None
        cause = f"{asked.kind} is a kind of orders"
        return Refusal(RefusalCode.BAD_VALUE, cause, "give messages of programs another kind")

    def id_of(self, asked: MessageAsked) -> str:
        return asked.command_id

    def is_awaited(self, asked: MessageAsked) -> bool:
        return asked.wait

    def sent(self, question: Question, asked: MessageAsked, aim: Aim, command_id: str) -> SendAsked:
        inbox = "" if asked.inbox == DEFAULT_INBOX else f", inbox {asked.inbox}"
        return SendAsked(
            command_id=command_id,
            owner=aim.node,
            kind=asked.kind,
            body=asked.body,
            expires_ms=asked.expires_ms,
            user=asked.user,
            principal=question.principal,
            speaker=question.speaker,
            reason=asked.reason,
            subject=f"{asked.kind} of {len(asked.body)} bytes to {aim.node}{inbox}",
            inbox=asked.inbox,
        )

    def teller(self, question: Question, asked: MessageAsked, aim: Aim) -> ReceiptTold:
        return proof_of


def proof_of(receipt: MessageReceipt) -> MessageProof:
    """End of a message, as its sender is told."""
    end = receipt.end
    return MessageProof(
        command_id=receipt.command_id,
        name=str(receipt.name),
        guid=receipt.guid,
        outcome=end.outcome.value,
        cause=end.cause.value,
        detail=str(end.refusal),
        ended_ns=end.ended_ns,
        reply=end.reply,
    )
