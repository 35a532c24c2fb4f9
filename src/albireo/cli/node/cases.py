"""`albireo cases`: list them, acknowledge, shelve."""

import getpass
from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec

from albireo.cli.display import time_text, value_text
from albireo.cli.output import emit, json_option, show, show_table
from albireo.cli.target import Place, node_client, place_option
from albireo.model.case import Action, Shelving

_Function = TypeVar("_Function", bound=Callable[..., Any])


@click.group("cases")
def command() -> None:
    """Alarm cases: what is wrong, and what somebody does about it."""


@command.command("list")
@click.option("--all", "include_closed", is_flag=True, help="Closed cases as well, as long as they are remembered.")
@place_option
@json_option
def list_cases(include_closed: bool, place: Place, as_json: bool) -> None:
    """List open cases, the most severe first."""
    with node_client(place) as client:
        cases: Any = msgspec.to_builtins(client.cases(include_closed=include_closed))
    if as_json:
        emit({"cases": cases})
        return
    show_table(
        ("case", "severity", "item", "condition", "state", "value", "raised (UTC)", "times"),
        [
            (
                case["case_id"],
                case["severity"],
                case["item"],
                case["condition"],
                state_text(case),
                value_text(case.get("value")),
                time_text(case["raised_ns"]),
                case["activations"],
            )
            for case in cases
        ],
    )


def state_text(case: dict[str, Any]) -> str:
    """The state in words, as ISA-18.2 names it."""
    words = ["active" if case["is_active"] else "normal", "acked" if case["is_acked"] else "unacked"]
    if case["is_latched"]:
        words.append("latched")
    if case["shelving"] != Shelving.UNSHELVED:
        words.append("shelved")
    words += [name for name in ("suppressed", "out_of_service", "chattering") if case[f"is_{name}"]]
    return " ".join(word.replace("_", " ") for word in words)


def _action(action: Action, text: str) -> None:
    """One operator action as a subcommand."""

    @command.command(action.replace("_", "-"), help=text)
    @click.argument("case_ids", nargs=-1, type=int, required=True)
    @click.option("--comment", default="", help="Why; kept in the journal.")
    @click.option("--user", default=getpass.getuser, help="Who acts; the login name by default.")
    @place_option
    @json_option
    @_duration_option(action is Action.SHELVE)
    def act(
        case_ids: tuple[int, ...],
        comment: str,
        user: str,
        place: Place,
        as_json: bool,
        duration_s: float | None = None,
    ) -> None:
        changed: list[Any] = []
        with node_client(place, user) as client:
            for case_id in case_ids:
                changed += msgspec.to_builtins(client.act(action, case_id, comment, duration_s))
        if as_json:
            emit({"cases": changed})
            return
        for case in changed:
            show(f"case {case['case_id']}: {state_text(case)}")


def _duration_option(wanted: bool) -> Callable[[_Function], _Function]:
    if not wanted:
        return lambda function: function
    return click.option("--for", "duration_s", type=float, default=None, help="Seconds; without: until it next clears.")


_action(Action.ACK, "Acknowledge CASE_IDS: somebody has seen them.")
_action(Action.RESET, "Reset latched CASE_IDS once their cause is gone.")
_action(Action.SHELVE, "Shelve CASE_IDS for a time, or until they clear.")
_action(Action.UNSHELVE, "Bring shelved CASE_IDS back.")
_action(Action.OUT_OF_SERVICE, "Take the alarms of CASE_IDS out of service.")
_action(Action.IN_SERVICE, "Put the alarms of CASE_IDS back into service.")
_action(Action.COMMENT, "Add a comment to CASE_IDS.")
