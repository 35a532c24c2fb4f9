"""Answers about messages of programs: to send one to another node, and to take those that come to this one."""

from typing import Protocol

from albireo.codec.questions.messages import (
    GIVE_BACK,
    MESSAGE,
    RECEIVE,
    SEND,
    TAKE,
    BecomeAsked,
    GiveBackAsked,
    MessageAsked,
    ReceiveAsked,
    TakeAsked,
)
from albireo.machine.access.judge import AccessJudge
from albireo.machine.answers.below import AnswersBelow, RoleNeeded, check_role
from albireo.machine.carry.node_tree import NodeTree
from albireo.machine.desk.admission import Admission
from albireo.machine.fold.letters.outbox import MessageReceipt
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.handling import handled
from albireo.machine.kernel.turn import NotAnswered, Question, Turn, granted
from albireo.machine.message.events import SendAsked
from albireo.model.instant import MS
from albireo.model.refusal import Refusal, RefusalCode, ambiguous
from albireo.model.tree.message import (
    DEFAULT_INBOX,
    ORDER_KINDS,
)
from albireo.model.tree.node_names import nodes_meant, root_id
from albireo.model.tree.nodes import is_below
from albireo.model.tree.proof import MessageProof


class PostingRoot(Protocol):
    """The root machine, as far as these answers need it."""

    config: RootConfig
    admission: Admission
    access: AccessJudge
    tree: NodeTree


class PostAnswers:
    """The part of the answers that is about messages of programs."""

    def __init__(self, root: PostingRoot, below: AnswersBelow) -> None:
        self._root = root
        self.handlers = (
            handled(SEND, self._send),
            handled(MESSAGE, self._become),
            handled(RECEIVE, self._receive),
            handled(TAKE, self._take),
            handled(GIVE_BACK, self._give_back),
        )

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
