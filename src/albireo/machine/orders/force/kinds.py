"""Kinds `force` and `force_release`: an item is forced, and that ends.

A force bears the name of its message, so a later tenure knows it again.

Spec: docs/messages.md; ADR-0195.
"""

from typing import Protocol

from albireo.codec.message_records import MessageEnd
from albireo.codec.questions.orders import FORCE, FORCE_RELEASE, ItemForceAsked, ReleaseAsked
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.items.forces import Forces
from albireo.machine.fold.letters.outbox import MessageReceipt
from albireo.machine.kernel.turn import Question, Turn
from albireo.machine.message.ends import command_id_of
from albireo.machine.message.events import RecoverBody
from albireo.machine.orders.force.elsewhere import row_of
from albireo.machine.orders.force.forcing import ForceBody, Forcing, ReleaseBody, needs_reason
from albireo.machine.orders.kind import ItemOrder, OrderAtOwner, OrderDone
from albireo.machine.orders.places import Aim
from albireo.model.force import MEASURED, Force
from albireo.model.instant import WallTime
from albireo.model.refusal import Refusal
from albireo.model.tree.message import MessageOutcome
from albireo.model.value import value_text


class ForceRoot(Protocol):
    """The root machine, as far as forces need it."""

    folds: Folds

    @property
    def forcing(self) -> Forcing: ...


class ForceItem(ItemOrder[ItemForceAsked, ForceBody]):
    """Puts a value to an item, for a time."""

    question = FORCE
    body = ForceBody
    look = "`albireo forces`"
    after_stop = "look at `albireo forces` before you order again"

    def __init__(self, root: ForceRoot) -> None:
        self._root = root

    def refusal(self, asked: ItemForceAsked, aim: Aim) -> Refusal | None:
        return None if asked.reason.strip() else needs_reason()

    def body_of(self, asked: ItemForceAsked, aim: Aim) -> ForceBody:
        return ForceBody(aim.name, asked.value, asked.for_ms)

    def subject(self, asked: ItemForceAsked, aim: Aim) -> str:
        return f"{aim.full_name} = {value_text(asked.value)} for {asked.for_ms / 1000:g} s"

    def do(self, order: OrderAtOwner[ForceBody], turn: Turn) -> OrderDone | Refusal:
        row = self._root.forcing.ask(order, turn)
        return row if isinstance(row, Refusal) else OrderDone(row, "forced", row.value)

    def done_elsewhere(self, question: Question, asked: ItemForceAsked, aim: Aim, receipt: MessageReceipt) -> object:
        """The force as its receipt tells it: the state of its node may not have come yet."""
        mirror, end = aim.mirror, receipt.end
        assert mirror is not None, "an item of another node is found in the mirror of that node"
        own, series = mirror.dim.by_name(aim.full_name), mirror.dim.by_name(aim.full_name + MEASURED)
        own_id = 0 if own is None else own.item_id
        force = Force(
            item_id=own_id,
            measured_id=own_id if series is None or series.is_retired else series.item_id,
            value=asked.value if end.read_back is None else end.read_back,
            user=asked.user,
            reason=asked.reason.strip(),
            since_ns=WallTime(end.ended_ns),
            for_ms=asked.for_ms,
            principal=question.principal,
        )
        return row_of(mirror, aim.full_name, force, force.for_ms)

    def recover(self, asked: RecoverBody) -> MessageEnd | None:
        command_id = command_id_of(asked.name)
        for force in self._root.folds.of(Forces):
            if force.command_id == command_id:
                return MessageEnd(outcome=MessageOutcome.EXECUTED, detail="forced", read_back=force.value)
        return super().recover(asked)


class ReleaseItem(ItemOrder[ReleaseAsked, ReleaseBody]):
    """Ends the force of an item."""

    question = FORCE_RELEASE
    body = ReleaseBody
    look, after_stop = ForceItem.look, ForceItem.after_stop

    def __init__(self, root: ForceRoot) -> None:
        self._root = root

    def body_of(self, asked: ReleaseAsked, aim: Aim) -> ReleaseBody:
        return ReleaseBody(aim.name)

    def do(self, order: OrderAtOwner[ReleaseBody], turn: Turn) -> OrderDone | Refusal:
        name = self._root.forcing.release(order, turn)
        return name if isinstance(name, Refusal) else OrderDone({"item": name}, "released")
