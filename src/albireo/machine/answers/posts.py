"""Answers about messages of programs: to send one to another node, and to take those that come to this one."""

from collections.abc import Callable
from typing import Annotated, Final, Protocol

import msgspec
from msgspec import Meta

from albireo.machine.access.judge import AccessJudge
from albireo.machine.answers.below import RoleNeeded, check_role
from albireo.machine.carry.node_tree import NodeTree
from albireo.machine.desk.admission import Admission
from albireo.machine.fold.letters.outbox import MessageReceipt
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.turn import NotAnswered, Question, Turn, granted
from albireo.machine.message.events import SendAsked
from albireo.machine.orders.text import OrderText
from albireo.model.bounded import Count, Name
from albireo.model.instant import MS
from albireo.model.refusal import Refusal, RefusalCode, ambiguous
from albireo.model.tree.message import (
    DEFAULT_INBOX,
    EXPIRES_MS_MAX,
    ORDER_KINDS,
    REPLY_BYTES_MAX,
    MessageName,
)
from albireo.model.tree.node_names import nodes_meant, root_id
from albireo.model.tree.nodes import is_below
from albireo.model.tree.proof import MessageProof

SEND_BYTES_MAX: Final = 512 * 1024
"""Largest body that a program sends: a question, of 1 MiB at most, has it whole."""
RECEIVE_MS_MAX: Final = 25_000
"""Longest time for which a receiver waits in one question: less than a lease lasts, so it is heard in between."""


InboxName = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"\A[A-Za-z0-9][A-Za-z0-9._-]*\Z")]
"""Name of an inbox: a word of letters, digits, dots, dashes and underscores."""


class MessageAsked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `send`."""

    node: Annotated[Name, Meta(min_length=1)]
    """Id of the node, or of one that is known here the end of it."""
    body: Annotated[bytes, Meta(max_length=SEND_BYTES_MAX)]
    command_id: Annotated[OrderText, Meta(min_length=1)]
    kind: Annotated[Name, Meta(min_length=1)] = "message"
    """A word that receivers go by."""
    reason: OrderText = ""
    user: OrderText = "unknown"
    expires_ms: Annotated[int, Meta(ge=1, le=EXPIRES_MS_MAX)] = 10_000
    inbox: InboxName = DEFAULT_INBOX
    wait: bool = True
    """False: answer once it is on record here, with its id."""


class BecomeAsked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `message`."""

    command_id: Annotated[OrderText, Meta(min_length=1)]
    wait_ms: Annotated[int, Meta(ge=0, le=RECEIVE_MS_MAX)] = 0


class ReceiveAsked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `receive`."""

    wait_ms: Annotated[int, Meta(ge=0, le=RECEIVE_MS_MAX)] = 0
    inbox: InboxName = DEFAULT_INBOX


class TakeAsked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `take`."""

    name: MessageName
    lease: Count
    reply: Annotated[bytes, Meta(max_length=REPLY_BYTES_MAX)] | None = None


class GiveBackAsked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `give_back`."""

    name: MessageName
    lease: Count


class PostingRoot(Protocol):
    """The root machine, as far as these answers need it."""

    config: RootConfig
    admission: Admission
    access: AccessJudge
    tree: NodeTree


class PostAnswers:
    """The part of the answers that is about messages of programs."""

    def __init__(self, root: PostingRoot) -> None:
        self._root = root
        self.known: dict[str, tuple[type[msgspec.Struct], Callable[..., None]]] = {
            "send": (MessageAsked, self._send),
            "message": (BecomeAsked, self._become),
            "receive": (ReceiveAsked, self._receive),
            "take": (TakeAsked, self._take),
            "give_back": (GiveBackAsked, self._give_back),
        }
        """Shape and handler of each question."""

    def _send(self, question: Question, asked: MessageAsked, turn: Turn) -> None:
        self._root.admission.check_open()
        owner = self._owner(asked.node)
        check_role(self._root.access, question, RoleNeeded(owner, "send", asked.user), turn)
        if asked.kind in ORDER_KINDS:
            cause = f"{asked.kind} is a kind of orders"
            raise NotAnswered(Refusal(RefusalCode.BAD_VALUE, cause, "give messages of programs another kind"))
        sent = SendAsked(
            command_id=asked.command_id,
            owner=owner,
            kind=asked.kind,
            body=asked.body,
            expires_ms=asked.expires_ms,
            user=asked.user,
            principal=question.principal,
            reason=asked.reason,
            subject=f"{asked.kind} of {len(asked.body)} bytes to {owner}{_of_inbox(asked.inbox)}",
            inbox=asked.inbox,
        )
        tree = self._root.tree
        granted(tree.send(question, sent, turn, proof_of) if asked.wait else tree.send_off(question, sent, turn))

    def _become(self, question: Question, asked: BecomeAsked, turn: Turn) -> None:
        post = self._root.tree.post
        granted(post.become(question, asked.command_id, asked.wait_ms * MS, turn, proof_of))

    def _owner(self, node: str) -> str:
        """Id of the node that is meant: one that is known here by its id or the end of it, any other by its id."""
        config, below = self._root.config, self._root.tree.all_mirrors
        found = nodes_meant(node, [config.node, *below])
        if len(found) > 1:
            raise NotAnswered(ambiguous(node, found))
        if found and found != [config.node]:
            return found[0]
        is_elsewhere = node != config.node and not is_below(node, config.node)
        if config.parent and is_elsewhere and root_id(node) == root_id(config.node):
            return node
        listed = ", ".join(below) or "none"
        cause = f"no other node {node!r} is known at {config.node}; nodes known: {listed}"
        raise NotAnswered(Refusal(RefusalCode.UNKNOWN_NODE, cause))

    def _receive(self, question: Question, asked: ReceiveAsked, turn: Turn) -> None:
        granted(self._root.tree.receive(question, asked.inbox, asked.wait_ms * MS, turn))

    def _take(self, question: Question, asked: TakeAsked, turn: Turn) -> None:
        self._root.admission.check_open()
        granted(self._root.tree.take(question, asked.name, asked.lease, asked.reply, turn))

    def _give_back(self, question: Question, asked: GiveBackAsked, turn: Turn) -> None:
        self._root.admission.check_open()
        granted(self._root.tree.give_back(question, asked.name, asked.lease, turn))


def _of_inbox(inbox: str) -> str:
    return "" if inbox == DEFAULT_INBOX else f", inbox {inbox}"


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
