"""Carrying: the one way of an order of any kind, from the question to its answer.

    asked --> crowded? --> whose is it? --> role there --+-- here: done, and answered once that is committed
                                                         +-- elsewhere: a message, and answered with its end

A kind (machine/orders/kind.py) says what differs. How a message comes to its owner is left to the post
(machine/message/post.py).

Spec: docs/messages.md; ADR-0238.
"""

from typing import Final, Protocol

from albireo.codec.message import AnyMessage
from albireo.machine.access.judge import AccessJudge
from albireo.machine.carry.node_tree import NodeTree
from albireo.machine.desk.roles import check_role
from albireo.machine.kernel.turn import NotAnswered, Question, Turn, answer_to, granted
from albireo.machine.orders.kind import AnyKind, OrderAsked, OrderAtOwner
from albireo.machine.orders.places import Aim, Places
from albireo.machine.orders.write.orders import Orders
from albireo.model.refusal import Refusal, RefusalCode, id_reused

CROWDED: Final = Refusal(
    RefusalCode.BUSY, "too many answers wait for a commit", "ask again when the disk, or the other member, is back"
)


_KNOWN: Final = Refusal(
    RefusalCode.MOVED, "an order with this id is on record, and can't be told of now", "ask again with the same id"
)


class CarryingRoot(Protocol):
    """The root machine, as far as orders need it."""

    access: AccessJudge
    tree: NodeTree
    orders: Orders

    @property
    def is_crowded(self) -> bool:
        """True: too many answers wait for a commit."""

    def after(self, sequence: int, to: bytes, message: AnyMessage, turn: Turn) -> None:
        """Say `message` once everything up to `sequence` is committed."""


class Carrying:
    """The machine; it keeps nothing."""

    def __init__(self, root: CarryingRoot, places: Places) -> None:
        self._root = root
        self._places = places

    def take(self, kind: AnyKind, question: Question, asked: OrderAsked, turn: Turn) -> None:
        """Take an order. Raises NotAnswered: unless the code is `moved`, nothing was done, and nothing will be."""
        try:
            self._take(kind, question, asked, turn)
        except NotAnswered as refused:
            command_id, root = kind.id_of(asked), self._root
            is_known = bool(command_id) and (root.tree.knows(command_id) or root.orders.knows(command_id))
            if is_known and refused.refusal.code != RefusalCode.ID_REUSED:
                raise NotAnswered(_KNOWN) from refused
            raise

    def _take(self, kind: AnyKind, question: Question, asked: OrderAsked, turn: Turn) -> None:
        root = self._root
        if kind.is_done_at_once and root.is_crowded:
            raise NotAnswered(CROWDED)
        aim = kind.aim(asked, self._places)
        needed = kind.needed(question, asked, aim)
        if needed is not None:
            check_role(root.access, question, needed, turn)
        if aim.is_here:
            self._here(kind, question, asked, aim, turn)
        else:
            granted(kind.refusal(asked, aim))
            sent = kind.sent(question, asked, aim, kind.id_of(asked) or root.tree.draw_id(kind.name))
            if kind.is_awaited(asked):
                granted(root.tree.send(question, sent, turn, kind.teller(question, asked, aim)))
            else:
                granted(root.tree.send_off(question, sent, turn))

    def _here(self, kind: AnyKind, question: Question, asked: OrderAsked, aim: Aim, turn: Turn) -> None:
        command_id = kind.id_of(asked)
        if command_id and self._root.tree.knows(command_id):
            raise NotAnswered(id_reused(command_id, "item"))
        order: OrderAtOwner[object] = OrderAtOwner(
            body=kind.body_of(asked, aim),
            question=question,
            user=asked.user,
            reason=asked.reason,
            command_id=command_id,
            expires_ms=kind.expires_ms_of(asked),
        )
        done = granted(kind.do(order, turn))
        if done is not None:
            answer = answer_to(question.request_id, done.answer)
            self._root.after(turn.end, question.sender, answer, turn)
