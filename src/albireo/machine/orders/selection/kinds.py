"""Kinds `select` and `deselect`: an item is selected for an order, and that is given back.

Spec: docs/messages.md; ADR-0209.
"""

from typing import Protocol

from albireo.codec.questions.orders import DESELECT, SELECT, DeselectAsked, SelectAsked
from albireo.machine.desk.roles import RoleNeeded
from albireo.machine.fold.letters.outbox import MessageReceipt
from albireo.machine.kernel.turn import Question, Turn
from albireo.machine.orders.kind import ItemOrder, OrderAtOwner, OrderDone
from albireo.machine.orders.places import Aim
from albireo.machine.orders.selection.selecting import DeselectBody, SelectBody, Selecting
from albireo.model.access import AccessRole
from albireo.model.command import ItemSelection
from albireo.model.refusal import Refusal
from albireo.model.tree.message import AddCause


class SelectsFor(Protocol):
    """The machine of orders, as far as selections need it."""

    selecting: Selecting


class SelectionRoot(Protocol):
    """The root machine, as far as selections need it."""

    @property
    def orders(self) -> SelectsFor: ...


class Select(ItemOrder[SelectAsked, SelectBody]):
    """Has its selection's id for its own, so the same one asked for again is the same message."""

    question = SELECT
    body = SelectBody
    look = "select it again: a selection ends by itself"
    after_stop = "select the item again"
    stop_cause = AddCause.ABORTION_BY_COMMUNICATION_LOSS

    def __init__(self, root: SelectionRoot) -> None:
        self._root = root

    def id_of(self, asked: SelectAsked) -> str:
        return asked.selection_id

    def body_of(self, asked: SelectAsked, aim: Aim) -> SelectBody:
        return SelectBody(aim.name, asked.selection_id, asked.for_ms)

    def do(self, order: OrderAtOwner[SelectBody], turn: Turn) -> OrderDone | Refusal:
        row = self._root.orders.selecting.ask(order, turn)
        return row if isinstance(row, Refusal) else OrderDone(row, "selected")

    def done_elsewhere(self, question: Question, asked: SelectAsked, aim: Aim, receipt: MessageReceipt) -> object:
        return ItemSelection(
            selection_id=asked.selection_id,
            item=aim.full_name,
            user=receipt.user,
            principal=receipt.principal,
            reason=receipt.reason,
            since_ns=receipt.end.ended_ns,
            for_ms=asked.for_ms,
            left_ms=asked.for_ms,
        )


class Deselect(ItemOrder[DeselectAsked, DeselectBody]):
    """Whoever has the selection gives it back, or an admin ends it."""

    question = DESELECT
    body = DeselectBody
    look, after_stop, stop_cause = Select.look, Select.after_stop, Select.stop_cause

    def __init__(self, root: SelectionRoot) -> None:
        self._root = root

    def needed(self, question: Question, asked: DeselectAsked, aim: Aim) -> RoleNeeded | None:
        if not asked.of_others:
            return super().needed(question, asked, aim)
        subject = f"deselect {asked.item} of another principal"
        return RoleNeeded(aim.node, subject, asked.user, AccessRole.ADMIN)

    def body_of(self, asked: DeselectAsked, aim: Aim) -> DeselectBody:
        return DeselectBody(aim.name, asked.selection_id, asked.of_others)

    def do(self, order: OrderAtOwner[DeselectBody], turn: Turn) -> OrderDone | Refusal:
        name = self._root.orders.selecting.release(order, turn)
        return name if isinstance(name, Refusal) else OrderDone({"item": name}, "deselected")
