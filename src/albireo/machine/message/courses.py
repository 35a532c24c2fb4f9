"""Courses: the life cycle of each command that this node gave, or carries out for another, as its log tells it.

A command is a message to another node (outbox), a message of another node (inbox), or an order of this node to one of
its own items. An order that a message became is told as that message.

Spec: docs/messages.md, States and causes.
"""

from collections.abc import Callable, Iterator
from functools import partial
from heapq import nlargest
from itertools import chain
from typing import Final

from albireo.codec.message_records import MessageAccepted, MessageRequested
from albireo.machine.fold.commands.commands import Commands, CommandState
from albireo.machine.fold.items.dim import Dim
from albireo.machine.fold.letters.outbox import MessageReceipt
from albireo.machine.message.ends import PREFIX, command_id_of, end_of
from albireo.machine.message.messages import NodeMessages
from albireo.machine.message.route import way_of
from albireo.machine.message.stages import StageTimes
from albireo.model.command import Outcome
from albireo.model.instant import LogTime, WallTime
from albireo.model.tree.course import CommandCourse, CommandStep
from albireo.model.tree.message import WRITE, MessageName, MessageStage
from albireo.model.value import value_text

_STAGES: Final = {Outcome.REQUESTED: MessageStage.AUTHORISED, Outcome.ACCEPTED: MessageStage.EXECUTING}


class Courses:
    """The courses of commands, as one tenure tells them."""

    def __init__(self, messages: NodeMessages, commands: Commands, dim: Dim) -> None:
        self._messages = messages
        self._commands = commands
        self._dim = dim

    def find(self, command_id: str, log_time: LogTime, wall: WallTime) -> CommandCourse | None:
        """The command of this id, or of the message of this name; None: none that is remembered."""
        sent = self._messages.find(command_id)
        if sent is not None:
            return self._sent(sent, log_time, wall)
        taken = [one for one in self._taken() if command_id in (one.command_id, command_id_of(one.name))]
        if taken:
            return self._taken_course(taken[-1])
        order = self._commands.find(command_id)
        return None if order is None else self._order(order)

    def latest(self, most: int, log_time: LogTime, wall: WallTime) -> list[CommandCourse]:
        """At most so many commands, the newest first."""
        outbox = self._messages.fold.outbox
        # Only those that are told are put together: a node remembers some 30,000.
        found: list[tuple[int, Callable[[], CommandCourse]]] = [
            *((one.requested_ns, partial(_ended, one)) for one in outbox.receipts),
            *((one.asked.requested_ns, partial(self._sent, name, log_time, wall)) for name, one in outbox.open.items()),
            *((one.requested_ns, partial(self._taken_course, one)) for one in self._taken()),
            *(
                (one.command.requested_ns, partial(self._order, one))
                for one in self._commands
                if not one.command.command_id.startswith(PREFIX)
            ),
        ]
        return [told() for _, told in nlargest(most, found, key=lambda one: one[0])]

    def _sent(self, sent: MessageName | MessageReceipt, log_time: LogTime, wall: WallTime) -> CommandCourse:
        """A message that this node gave."""
        if isinstance(sent, MessageReceipt):
            return _ended(sent)
        one, stages = self._messages.fold.outbox.open[sent], self._messages.origin.stages
        reached = stages.times(sent)
        left_ms = None if reached.accepted_ns else max(0, one.left_ms(log_time, wall))
        return _open(one.asked, stages.of(sent), reached, left_ms)

    def _taken(self) -> Iterator[MessageReceipt | MessageAccepted]:
        """Messages of others that this node has, or had: those with an end first."""
        inbox = self._messages.fold.inbox
        return chain(inbox.receipts, inbox.unfinished())

    def _taken_course(self, one: MessageReceipt | MessageAccepted) -> CommandCourse:
        if isinstance(one, MessageReceipt):
            return _ended(one)
        begun_ns = self._messages.owner.begun_ns(one.name)
        stage = MessageStage.EXECUTING if begun_ns else MessageStage.ACCEPTED
        return _open(one, stage, StageTimes(0, one.accepted_ns, begun_ns), None)

    def _order(self, state: CommandState) -> CommandCourse:
        command, receipt, known = state.command, state.receipt, self._dim.by_id(state.command.item_id)
        node = "" if known is None else known.node
        end, cause = (None, None) if receipt is None else end_of(receipt)
        reached = end or _STAGES[state.outcome]
        times = [
            (MessageStage.SELECTED, command.selected_ns),
            (MessageStage.REQUESTED, command.requested_ns),
            (MessageStage.AUTHORISED, command.requested_ns),
            (MessageStage.EXECUTING, state.accepted_ns),
            (reached, 0 if receipt is None else receipt.finished_ns),
        ]
        return CommandCourse(
            command_id=command.command_id,
            kind=WRITE,
            subject=f"{f'item {command.item_id}' if known is None else known.full_name} = {value_text(command.value)}",
            way=(node,),
            state=reached.value,
            user=command.user,
            principal=command.principal,
            reason=command.reason,
            steps=tuple(CommandStep(stage=one.value, at_ns=at, node=node) for one, at in times if at),
            cause="" if cause is None else cause.value,
            detail="" if receipt is None else receipt.detail,
            read_back=None if receipt is None else receipt.read_back,
            guid="" if receipt is None else receipt.ack_guid,
        )


def _open(
    asked: MessageRequested | MessageAccepted, stage: MessageStage, reached: StageTimes, left_ms: int | None
) -> CommandCourse:
    steps = _steps(asked.name, asked.requested_ns, reached)
    return CommandCourse(
        way=way_of(asked.name.origin, asked.name.owner),
        state=stage.value,
        steps=steps,
        guid=asked.guid,
        left_ms=left_ms,
        command_id=asked.command_id,
        kind=asked.kind,
        subject=asked.subject,
        user=asked.user,
        principal=asked.principal,
        reason=asked.reason,
    )


def _ended(receipt: MessageReceipt) -> CommandCourse:
    name, end = receipt.name, receipt.end
    # Only an owner that had the body says when it took it: without that time the origin itself came to this end.
    ended = CommandStep(
        stage=end.outcome.value, at_ns=end.ended_ns, node=name.owner if end.accepted_ns else name.origin
    )
    reached = StageTimes(receipt.told_ns, end.accepted_ns, end.begun_ns, end.selected_ns)
    return CommandCourse(
        way=way_of(name.origin, name.owner),
        state=end.outcome.value,
        steps=(*_steps(name, receipt.requested_ns, reached), ended),
        cause=end.cause.value,
        detail=str(end.refusal),
        read_back=end.read_back,
        guid=receipt.guid,
        is_settled=receipt.is_settled,
        command_id=receipt.command_id,
        kind=receipt.kind,
        subject=receipt.subject,
        user=receipt.user,
        principal=receipt.principal,
        reason=receipt.reason,
    )


def _steps(name: MessageName, requested_ns: int, reached: StageTimes) -> tuple[CommandStep, ...]:
    """The stages before the end whose time is known. Its origin judges a message when it is asked for.

    A selection comes first: the order that uses it is given when its answer is there.
    """
    times = (
        (MessageStage.SELECTED, reached.selected_ns, name.owner),
        (MessageStage.REQUESTED, requested_ns, name.origin),
        (MessageStage.AUTHORISED, requested_ns, name.origin),
        (MessageStage.TOLD, reached.told_ns, name.origin),
        (MessageStage.ACCEPTED, reached.accepted_ns, name.owner),
        (MessageStage.EXECUTING, reached.begun_ns, name.owner),
    )
    return tuple(CommandStep(stage=stage.value, at_ns=at, node=node) for stage, at, node in times if at)
