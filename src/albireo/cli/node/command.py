"""`albireo command`: what became of each command that a node gave or carried out."""

import re
from collections.abc import Sequence
from typing import Final

import click
import msgspec

from albireo.cli.display import time_text, who_text
from albireo.cli.node.words import Worded, worded_by
from albireo.cli.output import Failure, Output, TextTable, printed
from albireo.cli.target import Place, node_client, place_option, user_option
from albireo.cli.timespan import WholeNumber
from albireo.client import Client
from albireo.codec.questions.orders import COMMANDS_TOLD
from albireo.model.tree.course import CommandCourse

_ORDER: Final = re.compile(r"(?:write|force) (.+) = (?:(true|false)|(0|-?[1-9]\d*))( for \S+ s)?")
"""An order with a value that may have a word: item, value, and how long a force lasts."""


@click.group("command")
def command() -> None:
    """Commands and what became of them: writes, here and to nodes below."""


@command.command("show")
@click.argument("command_id", metavar="ID")
@place_option
@printed
def show_command(command_id: str, place: Place) -> Output:
    """The life of one command: each stage with its time and node, the way, who gave it, and the receipt.

    ID is that of the receipt (`albireo write --json`), or as `albireo command list` shows it. Ask the node at which it
    was given, or the one that owns the item; nodes between them keep nothing.
    """
    with node_client(place) as client:
        course = client.command(command_id)
        worded = _worded_of(client, [course])
    return Output(course, course_lines(course, worded))


def course_lines(course: CommandCourse, worded: Worded) -> list[str]:
    """A course as people read it."""
    lines = [
        f"{_what(course, worded)}: {course.state}",
        f"id        {course.command_id}",
        f"given by  {who_text(course.user, course.principal)}" + (f": {course.reason}" if course.reason else ""),
        f"way       {' > '.join(course.way)}",
    ]
    lines += [f"{one.stage:<10} {time_text(one.at_ns)}  {one.node}" for one in course.steps]
    if course.left_ms is not None:
        lines.append(f"left      {course.left_ms / 1000:g} s in which it may still be carried out")
    if course.cause:
        lines.append(f"cause     {course.cause}" + (f": {course.detail}" if course.detail else ""))
    if course.read_back is not None:
        lines.append(f"read back {worded(_item(course), course.read_back)}")
    if course.guid:
        lines.append(f"proof     {course.guid}")
    if not course.is_settled:
        lines.append("the owner is still asked: a late outcome corrects this")
    return lines


@command.command("list")
@click.option("--limit", default=COMMANDS_TOLD, show_default=True, type=WholeNumber(1, 1_000), help="How many.")
@place_option
@printed
def list_commands(limit: int, place: Place) -> Output:
    """The latest commands that this node gave, or carried out for others, the newest first."""
    with node_client(place) as client:
        found = client.commands(limit=limit)
        worded = _worded_of(client, found)
    rows = ((_given_text(one), _what(one, worded), one.state, one.user, one.way[0], one.command_id) for one in found)
    columns = ("given (UTC)", "what", "state", "who", "at", "id")
    return Output({"commands": found}, TextTable(columns, rows, empty="no command is remembered"))


def _worded_of(client: Client, courses: Sequence[CommandCourse]) -> Worded:
    return worded_by(client, filter(None, map(_item, courses)))


def _item(one: CommandCourse) -> str:
    """Full name of the item that is ordered, if its value may have a word; else it is empty."""
    found = _ORDER.fullmatch(f"{one.kind} {one.subject}")
    return "" if found is None else found[1]


def _what(one: CommandCourse, worded: Worded) -> str:
    """Kind and subject of an order; the subjects of messages of programs begin with their kind."""
    what = one.subject if one.subject.startswith(f"{one.kind} ") else f"{one.kind} {one.subject}"
    if (found := _ORDER.fullmatch(what)) is None:
        return what
    item, switch, number, rest = found.groups("")
    return f"{one.kind} {item} = {worded(item, int(number) if number else switch == 'true')}{rest}"


def _given_text(one: CommandCourse) -> str:
    return time_text(one.steps[0].at_ns if one.steps else 0)


@command.command("cancel")
@click.argument("command_id", metavar="ID")
@click.option("--reason", default="", help="Why; it is kept in the audit journal.")
@user_option
@place_option
@printed
def cancel_command(command_id: str, reason: str, user: str, place: Place) -> Output:
    """Take an order back where it was given: one to this node's own items until it is accepted for their adapter, one
    to another node until its owner has it.

    `cancelled` is a promise: nothing was done, and nothing will be. Any other outcome came first.
    """
    with node_client(place, user, told_by=f"albireo command show {command_id!r}") as client:
        proof = client.cancel(command_id, reason)
    if proof.outcome != "cancelled":
        raise Failure(
            f"not cancelled, but {proof.outcome}",
            f"albireo command show {command_id!r}",
            details=msgspec.to_builtins(proof),
        )
    return Output(proof, f"{command_id} is cancelled: nothing was done, and nothing will be")
