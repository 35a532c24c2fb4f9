"""`albireo cases`: list them, acknowledge, shelve."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click
import msgspec

from albireo.cli.display import not_heard_text, state_text, time_text, value_text
from albireo.cli.output import Output, TextTable, printed
from albireo.cli.target import Place, node_client, place_option, user_option
from albireo.cli.timespan import SecondsType
from albireo.client.nodes import nodes_of
from albireo.model.case import Action, case_label, label_parts

_Function = TypeVar("_Function", bound=Callable[..., Any])


@click.group("cases")
def command() -> None:
    """Alarm cases: what is wrong, and what somebody does about it."""


@command.command("list")
@click.argument("nodes", nargs=-1)
@click.option("--all", "include_closed", is_flag=True, help="Closed cases as well, as long as they are remembered.")
@place_option
@printed
def list_cases(nodes: tuple[str, ...], include_closed: bool, place: Place) -> Output:
    """List open cases, the most severe first. 12.2 is case 12 at its second activation.

    NODES are other nodes that are known here, such as `north` or `*`, of which the open cases are listed too; without
    one it is the node itself alone. Their cases stand with their node before them, as in root/north:12.2. Those of a
    node that is not heard are as they were when it was heard last.

    "by a forced value": the item was forced when the case became active or normal. "item forced": it is forced now.
    """
    with node_client(place) as client:
        found = [("", one) for one in client.cases(include_closed=include_closed)]
        for node in client.converse(nodes_of(nodes)) if nodes else ():
            found += [(f"{node}:", one) for one in client.cases(node=node)]
        forced = {one.item for one in client.forces()}
        stale = {f"{one.node}:": one.stale_since_ns for one in client.tree()} if nodes else {}
    found.sort(key=lambda one: -one[1].severity)
    cases: Any = [
        msgspec.to_builtins(one) | {"is_item_forced": one.item in forced, "stale_since_ns": stale.get(before)}
        for before, one in found
    ]
    rows = (
        (
            before + case_label(case["case_id"], case["activations"]),
            case["severity"],
            case["item"],
            case["condition"],
            state_text(case) + not_heard_text(case["stale_since_ns"]),
            value_text(case.get("value")),
            time_text(case["raised_ns"]),
            case["activations"],
            case["message"],
        )
        for (before, _), case in zip(found, cases, strict=True)
    )
    return Output({"cases": cases}, TextTable(_COLUMNS, rows))


_COLUMNS: Final = ("case", "severity", "item", "condition", "state", "value", "raised (UTC)", "times", "said")


class CaseLabel(click.ParamType[tuple[str, int, int]]):
    """A case as `list` shows it: 12, 12.2 at its second activation, or root/north:12.2 at another node."""

    name = "case"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int, int]:
        if isinstance(value, tuple):
            return value
        node, _, label = str(value).rpartition(":")
        try:
            return (node, *label_parts(label))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _action(action: Action, text: str) -> None:
    """One operator action as a subcommand."""

    @command.command(action.replace("_", "-"), help=text)
    @click.argument("case_ids", nargs=-1, type=CaseLabel(), required=True)
    @click.option("--comment", default="", help="Why; kept in the journal.")
    @user_option
    @place_option
    @printed
    @_duration_option(action is Action.SHELVE)
    def act(
        case_ids: tuple[tuple[str, int, int], ...],
        comment: str,
        user: str,
        place: Place,
        duration_s: float | None = None,
    ) -> Output:
        changed: list[Any] = []
        with node_client(place, user) as client:
            for node, case_id, activation in case_ids:
                acted = client.act(action, case_id, comment, duration_s, activation, node=node)
                changed += msgspec.to_builtins(acted)
        elsewhere = [f"{node}:{case_label(case_id, activation)}" for node, case_id, activation in case_ids if node]
        done = [f"case {one}: {action.value} is done; `albireo cases list` of that node shows it" for one in elsewhere]
        done += [f"case {case_label(case['case_id'], case['activations'])}: {state_text(case)}" for case in changed]
        return Output({"cases": changed, "elsewhere": elsewhere}, done)


def _duration_option(wanted: bool) -> Callable[[_Function], _Function]:
    if not wanted:
        return lambda function: function
    told = "Seconds; without: until it next clears."
    return click.option("--for", "duration_s", type=SecondsType(), default=None, help=told)


_action(
    Action.ACK,
    "Acknowledge CASE_IDS as they were shown: 12; 12.2 at its second activation; north:12 below.",
)
_action(Action.RESET, "Reset latched CASE_IDS once their cause is gone.")
_action(Action.SHELVE, "Shelve CASE_IDS for a time, or until they clear.")
_action(Action.UNSHELVE, "Bring shelved CASE_IDS back.")
_action(Action.OUT_OF_SERVICE, "Take the alarms of CASE_IDS out of service.")
_action(Action.IN_SERVICE, "Put the alarms of CASE_IDS back into service.")
_action(Action.COMMENT, "Add a comment to CASE_IDS.")
