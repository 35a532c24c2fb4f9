"""Answers about orders: writes and forces, of items of this node or of one below, and what became of each command."""

from typing import Final, Protocol

from albireo.codec.questions.orders import (
    CANCEL,
    COMMAND,
    COMMANDS,
    WRITE,
    CancelAsked,
    CommandAsked,
    CommandsAsked,
    WriteAsked,
)
from albireo.codec.record import Audited, Stream
from albireo.machine.answers.below import AnswersBelow, RoleNeeded, check_role
from albireo.machine.answers.posts import proof_of
from albireo.machine.answers.selections import SelectingRoot
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.letters.outbox import MessageReceipt
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.handling import handled
from albireo.machine.kernel.turn import NotAnswered, Question, Turn, granted
from albireo.machine.message.ends import PREFIX, end_of
from albireo.machine.orders.write.orders import Orders, refusal_of_write
from albireo.model.access import AccessRole
from albireo.model.command import Receipt
from albireo.model.refusal import Refusal, RefusalCode, id_reused
from albireo.model.tree.message import SESSION_END, MessageName
from albireo.model.tree.proof import MessageProof


class OrderingRoot(SelectingRoot, Protocol):
    """The root machine, as far as these answers need it."""

    config: RootConfig
    folds: Folds
    orders: Orders


class OrderAnswers:
    """The part of the answers that takes orders."""

    def __init__(self, root: OrderingRoot, below: AnswersBelow) -> None:
        self._root = root
        self._below = below
        self.handlers = (
            handled(WRITE, self._write),
            handled(CANCEL, self._cancel),
            handled(COMMAND, self._command),
            handled(COMMANDS, self._commands),
        )

    def _write(self, question: Question, asked: WriteAsked, turn: Turn) -> None:
        root = self._root
        root.admission.check_open()
        owner = self._below.owner_of(asked.item)
        if owner:
            refusal = self._write_below(question, asked, owner, turn)
        elif root.tree.knows(asked.command_id):
            refusal = id_reused(asked.command_id, "item")
        else:
            refusal = root.orders.ask(question, asked, root.registry.item(asked.item), turn)
        granted(refusal)

    def _write_below(self, question: Question, asked: WriteAsked, owner: str, turn: Turn) -> Refusal | None:
        """Order a write of an item that a node below owns; the role is judged here, for that node."""
        name = f"{owner}:{asked.item.rpartition(':')[2]}"
        check_role(self._root.access, question, RoleNeeded(owner, f"write {name}", asked.user), turn)
        item = self._root.tree.all_mirrors[owner].dim.by_name(name)
        return refusal_of_write(asked, item) or self._root.tree.ask(question, asked, owner, turn)

    def _cancel(self, question: Question, asked: CancelAsked, turn: Turn) -> None:
        """Take an order back, to an item of this node or of another one, or a message."""
        root = self._root
        root.admission.check_open()
        name, order = root.tree.post.messages.find(asked.command_id), root.orders.commands.find(asked.command_id)
        if isinstance(name, MessageReceipt):
            raise NotAnswered(_ended(name.end.outcome.value))
        if order is not None and order.receipt is not None:
            raise NotAnswered(_ended(end_of(order.receipt)[0].value))
        if isinstance(name, MessageName):
            asked_for = root.tree.post.messages.origin.asked_with(asked.command_id)
            is_admins = asked_for is not None and asked_for.kind == SESSION_END
            role = AccessRole.ADMIN if is_admins else AccessRole.OPERATE  # What the order itself needed.
            needed = RoleNeeded(name.owner, f"cancel {asked.command_id}", asked.user, role)
            check_role(root.access, question, needed, turn)
            granted(root.tree.cancel(question, asked.command_id, turn, proof_of))
        elif root.orders.knows(asked.command_id) and not asked.command_id.startswith(PREFIX):
            granted(root.orders.cancel(question, asked.command_id, turn, _order_proof))
        else:
            cause = f"no order {asked.command_id!r} that this node gave is open"
            raise NotAnswered(Refusal(RefusalCode.UNKNOWN_NAME, cause, "`albireo command list`, where it was given"))
        entry = Audited(
            at_ns=question.moment.wall,
            user=asked.user,
            action="cancel",
            subject=asked.command_id,
            detail=asked.reason,
            principal=question.principal,
        )
        turn.record(Stream.AUDIT, [entry])

    def _command(self, question: Question, asked: CommandAsked, turn: Turn) -> None:
        found = self._root.tree.course(asked.command_id, question.moment)
        if found is None:
            cause = (
                f"no command {asked.command_id!r} is remembered at {self._root.config.node}: it was refused at once, "
                f"{_FORGOTTEN}, or given elsewhere"
            )
            remedy = "`albireo command list`, here or where it was given"
            raise NotAnswered(Refusal(RefusalCode.UNKNOWN_NAME, cause, remedy))
        turn.answer(question, found)

    def _commands(self, question: Question, asked: CommandsAsked, turn: Turn) -> None:
        turn.answer(question, self._root.tree.courses(asked.limit, question.moment))


_FORGOTTEN: Final = "forgotten (10,000 are remembered)"


def _ended(outcome: str) -> Refusal:
    return Refusal(RefusalCode.ENDED, f"it has ended already: {outcome}", "see `albireo command show`")


def _order_proof(receipt: Receipt) -> MessageProof:
    """End of an order to an item of this node, told as that of a message."""
    outcome, cause = end_of(receipt)
    return MessageProof(
        command_id=receipt.command_id,
        name="",
        guid=receipt.ack_guid,
        outcome=outcome.value,
        cause=cause.value,
        detail=receipt.detail,
        ended_ns=receipt.finished_ns,
    )
