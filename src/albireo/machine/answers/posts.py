"""Answers about messages of programs: what became of one, and to take those that come to this node."""

from typing import Protocol

from albireo.codec.questions.messages import (
    GIVE_BACK,
    MESSAGE,
    RECEIVE,
    TAKE,
    WITHDRAW,
    BecomeAsked,
    GiveBackAsked,
    ReceiveAsked,
    TakeAsked,
    WithdrawAsked,
)
from albireo.machine.carry.node_tree import NodeTree
from albireo.machine.kernel.handling import handled
from albireo.machine.kernel.turn import Question, Turn, granted
from albireo.machine.orders.message.kinds import proof_of
from albireo.machine.orders.places import Places
from albireo.model.instant import MS


class PostingRoot(Protocol):
    """The root machine, as far as these answers need it."""

    tree: NodeTree


class PostAnswers:
    """The part of the answers that is about messages of programs."""

    def __init__(self, root: PostingRoot, _: Places) -> None:
        self._root = root
        self.handlers = (
            handled(MESSAGE, self._become),
            handled(RECEIVE, self._receive),
            handled(TAKE, self._take),
            handled(GIVE_BACK, self._give_back),
            handled(WITHDRAW, self._withdraw),
        )

    def _become(self, question: Question, asked: BecomeAsked, turn: Turn) -> None:
        post = self._root.tree.post
        granted(post.become(question, asked.command_id, asked.wait_ms * MS, turn, proof_of))

    def _receive(self, question: Question, asked: ReceiveAsked, turn: Turn) -> None:
        granted(self._root.tree.receive(question, asked.inbox, asked.wait_ms * MS, turn))

    def _take(self, question: Question, asked: TakeAsked, turn: Turn) -> None:
        granted(self._root.tree.take(question, asked.name, asked.lease, asked.reply, turn))

    def _withdraw(self, question: Question, asked: WithdrawAsked, turn: Turn) -> None:
        self._root.tree.withdraw(question, asked.request_id, turn)

    def _give_back(self, question: Question, asked: GiveBackAsked, turn: Turn) -> None:
        granted(self._root.tree.give_back(question, asked.name, asked.lease, turn))
