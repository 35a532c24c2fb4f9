"""Answers about orders: writes and forces, of items of this node or of one below, and what became of each command."""

from functools import partial
from typing import Final, Protocol

from albireo.codec.questions.orders import CANCEL, COMMAND, COMMANDS, CancelAsked, CommandAsked, CommandsAsked
from albireo.codec.record import Audited, Stream
from albireo.machine.carry.carrying import Carrying, CarryingRoot
from albireo.machine.desk.roles import RoleNeeded, check_role
from albireo.machine.fold.letters.outbox import MessageReceipt
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.handling import handled
from albireo.machine.kernel.turn import NotAnswered, Question, Turn, granted
from albireo.machine.message.ends import PREFIX, end_of
from albireo.machine.orders.message.kinds import proof_of
from albireo.machine.orders.places import Places
from albireo.machine.orders.write.orders import Orders
from albireo.model.command import Receipt
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.tree.message import MessageName
from albireo.model.tree.proof import MessageProof


class OrderingRoot(CarryingRoot, Protocol):
    """The root machine, as far as these answers need it."""

    config: RootConfig
    orders: Orders


class OrderAnswers:
    """The part of the answers that takes orders."""

    def __init__(self, root: OrderingRoot, places: Places) -> None:
        self._root = root
        carrying = Carrying(root, places)
        self.handlers = (
            *(handled(one.question, partial(carrying.take, one)) for one in root.tree.kinds),
            handled(CANCEL, self._cancel),
            handled(COMMAND, self._command),
            handled(COMMANDS, self._commands),
        )

    def _cancel(self, question: Question, asked: CancelAsked, turn: Turn) -> None:
        """Take an order back, to an item of this node or of another one, or a message."""
        root = self._root
        name, order = root.tree.post.messages.find(asked.command_id), root.orders.commands.find(asked.command_id)
        if isinstance(name, MessageReceipt):
            raise NotAnswered(_ended(name.end.outcome.value))
        if order is not None and order.receipt is not None:
            raise NotAnswered(_ended(end_of(order.receipt)[0].value))
        if isinstance(name, MessageName):
            role = root.tree.role_to_cancel(asked.command_id)
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
