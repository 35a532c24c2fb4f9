"""Answers about orders: writes and forces, of items of this node or of one below, and what became of each command."""

from collections.abc import Callable
from typing import Annotated, Final, Protocol

import msgspec
from msgspec import Meta

from albireo.codec.message import Answer
from albireo.machine.fold.folds import Folds
from albireo.machine.message.courses import COURSES_MAX
from albireo.machine.node.orders import Orders, OrderText, WriteAsked, WriteRefusal, refusal_of_write
from albireo.machine.node.role import RootConfig
from albireo.machine.node.turn import NotAnswered, Question, Turn
from albireo.machine.tree.answers_below import AnswersBelow, check_role
from albireo.machine.tree.force_answers import ForceAnswers, ForcingRoot
from albireo.machine.tree.post_answers import PostAnswers

COMMANDS_TOLD: Final = 50
"""Commands that are told if nobody says how many."""


class CommandAsked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `command`."""

    command_id: Annotated[OrderText, Meta(min_length=1)]


class CommandsAsked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `commands`."""

    limit: Annotated[int, Meta(ge=1, le=COURSES_MAX)] = COMMANDS_TOLD


class OrderingRoot(ForcingRoot, Protocol):
    """The root machine, as far as these answers need it."""

    config: RootConfig
    folds: Folds
    orders: Orders


class OrderAnswers:
    """The part of the answers that takes orders."""

    def __init__(self, root: OrderingRoot, below: AnswersBelow) -> None:
        self._root = root
        self._below = below
        self.known: dict[str, tuple[type[msgspec.Struct], Callable[..., None]]] = {
            "write": (WriteAsked, self._write),
            **ForceAnswers(root, below).known,
            **PostAnswers(root).known,
            "command": (CommandAsked, self._command),
            "commands": (CommandsAsked, self._commands),
        }
        """Shape and handler of each question."""

    def _write(self, question: Question, asked: WriteAsked, turn: Turn) -> None:
        root = self._root
        if root.admission.closed_because:
            raise NotAnswered(f"nothing is recorded now, so nothing is written: {root.admission.closed_because}")
        item = root.registry.item(asked.item)  # One that is being forgotten is known no more.
        owner = "" if item is not None else self._below.owner_of(asked.item)
        if owner:
            refusal = self._write_below(question, asked, owner, turn)
        else:
            refusal = root.orders.ask(question, asked, item, turn)
        if refusal is not None:
            raise NotAnswered(refusal.reason)

    def _write_below(self, question: Question, asked: WriteAsked, owner: str, turn: Turn) -> WriteRefusal | None:
        """Order a write of an item that a node below owns; the role is judged here, for that node."""
        check_role(self._root.access, "write", question, owner)
        item = self._root.tree.all_mirrors[owner].dim.by_name(f"{owner}:{asked.item.rpartition(':')[2]}")
        return refusal_of_write(asked, item) or self._root.tree.ask(question, asked, owner, turn)

    def _command(self, question: Question, asked: CommandAsked, turn: Turn) -> None:
        found = self._root.tree.course(asked.command_id, question.moment)
        if found is None:
            raise NotAnswered(
                f"no command {asked.command_id!r} is remembered at {self._root.config.node}: it was refused at once, "
                f"{_FORGOTTEN}, or given elsewhere; what to do: `albireo command list`, here or where it was given"
            )
        _say(question, found, turn)

    def _commands(self, question: Question, asked: CommandsAsked, turn: Turn) -> None:
        _say(question, self._root.tree.courses(asked.limit, question.moment), turn)


_FORGOTTEN: Final = "forgotten (10,000 are remembered)"


def _say(question: Question, result: object, turn: Turn) -> None:
    turn.send(question.sender, Answer(request_id=question.request_id, result=msgspec.to_builtins(result)))
