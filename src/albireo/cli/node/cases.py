"""`albireo cases`: list them, acknowledge, shelve."""

import getpass
from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec

from albireo.cli.display import time_text, value_text
from albireo.cli.output import emit, json_option, show, show_table
from albireo.cli.target import Place, node_client, place_option
from albireo.client.requests import nodes_of
from albireo.model.case import Action, Shelving, case_label, label_parts

_Function = TypeVar("_Function", bound=Callable[..., Any])


@click.group("cases")
def command() -> None:
    """Alarm cases: what is wrong, and what somebody does about it."""


@command.command("list")
@click.argument("nodes", nargs=-1)
@click.option("--all", "include_closed", is_flag=True, help="Closed cases as well, as long as they are remembered.")
@place_option
@json_option
def list_cases(nodes: tuple[str, ...], include_closed: bool, place: Place, as_json: bool) -> None:
    """List open cases, the most severe first. 12.2 is case 12 at its second activation.

    NODES are other nodes that are known here, such as `north` or `*`, of which the open cases are listed too; without
    one it is the node itself alone. A case is acted upon at its own node.
    """
    with node_client(place) as client:
        found = client.cases(include_closed=include_closed)
        for node in client.converse(nodes_of(nodes)) if nodes else ():
            found += client.cases(node=node)
    cases: Any = msgspec.to_builtins(sorted(found, key=lambda one: -one.severity))
    if as_json:
        emit({"cases": cases})
        return
    show_table(
        ("case", "severity", "item", "condition", "state", "value", "raised (UTC)", "times", "said"),
        [
            (
                case_label(case["case_id"], case["activations"]),
                case["severity"],
                case["item"],
                case["condition"],
                state_text(case),
                value_text(case.get("value")),
                time_text(case["raised_ns"]),
                case["activations"],
                case.get("message", ""),
            )
            for case in cases
        ],
    )


def state_text(case: dict[str, Any]) -> str:
    """The state in words, as ISA-18.2 names it."""
    asked = "unasked" if case.get("is_unasked") else "unacked"
    words = ["active" if case["is_active"] else "normal", "acked" if case["is_acked"] else asked]
    if case["is_latched"]:
        words.append("latched")
    if case["shelving"] != Shelving.UNSHELVED:
        words.append("shelved")
    words += [name for name in ("suppressed", "out_of_service", "chattering") if case[f"is_{name}"]]
    return " ".join(word.replace("_", " ") for word in words)


class CaseLabel(click.ParamType[tuple[int, int]]):
    """A case as `list` shows it: 12, or 12.2 at its second activation."""

    name = "case"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        try:
            return value if isinstance(value, tuple) else label_parts(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _action(action: Action, text: str) -> None:
    """One operator action as a subcommand."""

    @command.command(action.replace("_", "-"), help=text)
    @click.argument("case_ids", nargs=-1, type=CaseLabel(), required=True)
    @click.option("--comment", default="", help="Why; kept in the journal.")
    @click.option("--user", default=getpass.getuser, help="Who acts; the login name by default.")
    @place_option
    @json_option
    @_duration_option(action is Action.SHELVE)
    def act(
        case_ids: tuple[tuple[int, int], ...],
        comment: str,
        user: str,
        place: Place,
        as_json: bool,
        duration_s: float | None = None,
    ) -> None:
        changed: list[Any] = []
        with node_client(place, user) as client:
            for case_id, activation in case_ids:
                changed += msgspec.to_builtins(client.act(action, case_id, comment, duration_s, activation))
        if as_json:
            emit({"cases": changed})
            return
        for case in changed:
            show(f"case {case_label(case['case_id'], case['activations'])}: {state_text(case)}")


def _duration_option(wanted: bool) -> Callable[[_Function], _Function]:
    if not wanted:
        return lambda function: function
    return click.option("--for", "duration_s", type=float, default=None, help="Seconds; without: until it next clears.")


_action(Action.ACK, "Acknowledge CASE_IDS as they were shown: 12, or 12.2 if its second activation was.")
_action(Action.RESET, "Reset latched CASE_IDS once their cause is gone.")
_action(Action.SHELVE, "Shelve CASE_IDS for a time, or until they clear.")
_action(Action.UNSHELVE, "Bring shelved CASE_IDS back.")
_action(Action.OUT_OF_SERVICE, "Take the alarms of CASE_IDS out of service.")
_action(Action.IN_SERVICE, "Put the alarms of CASE_IDS back into service.")
_action(Action.COMMENT, "Add a comment to CASE_IDS.")
