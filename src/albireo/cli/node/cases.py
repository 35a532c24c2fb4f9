"""`albireo cases`: list them, acknowledge, shelve."""

import fnmatch
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import click
import msgspec

from albireo.cli.display import HIGH, is_diagnostic, moment_text, not_heard_text, state_text
from albireo.cli.output import ExitCode, Failure, Output, TextTable, printed
from albireo.cli.target import Place, failure_of, node_client, place_option, user_option
from albireo.cli.timespan import SecondsType
from albireo.client import Client, ClientError, NodeRefused
from albireo.client.nodes import nodes_of
from albireo.model.case import Action, Case, ItemCase, Shelving, case_label, label_parts
from albireo.model.value import value_text

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
    """List open cases, the plant's and what is high first, then by severity. 12.2 is case 12 at its second activation.

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
    found.sort(key=lambda one: (is_diagnostic(one[1].item) and one[1].severity < HIGH, -one[1].severity))
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
            moment_text(case["raised_ns"]),
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


Named = tuple[str, int, int]
"""A case as `CaseLabel` gives it: node, number, activation."""

_WAITING: Final[dict[Action, Callable[[ItemCase], bool]]] = {
    Action.ACK: lambda case: not case.is_acked and not case.is_unasked,
    Action.RESET: lambda case: case.is_latched,
    Action.SHELVE: lambda case: case.shelving is Shelving.UNSHELVED,
    Action.UNSHELVE: lambda case: case.shelving is not Shelving.UNSHELVED,
    Action.OUT_OF_SERVICE: lambda case: not case.is_out_of_service,
    Action.IN_SERVICE: lambda case: case.is_out_of_service,
    Action.COMMENT: lambda _case: True,
}
"""Which open cases `--all` means, by the action."""


def _action(action: Action, text: str) -> None:
    """One operator action as a subcommand."""

    @command.command(action.replace("_", "-"), help=text)
    @click.argument("case_ids", nargs=-1, type=CaseLabel())
    @click.option(
        "--all",
        "pattern",
        is_flag=False,
        flag_value="*",
        metavar="[PATTERN]",
        help="All open cases that wait for it; with a PATTERN such as 'co_*' or 'north:*' those of such items.",
    )
    @click.option("--comment", default="", help="Why; kept in the journal.")
    @user_option
    @place_option
    @printed
    @_duration_option(action is Action.SHELVE)
    def act(
        case_ids: tuple[Named, ...],
        pattern: str | None,
        comment: str,
        user: str,
        place: Place,
        duration_s: float | None = None,
    ) -> Output:
        if bool(case_ids) == (pattern is not None):
            raise click.UsageError("name the cases, or give --all")
        with node_client(place, user, told_by="albireo cases list") as client:
            wanted = list(dict.fromkeys(case_ids)) if pattern is None else _waiting(client, action, pattern)
            became: list[list[Case] | ClientError] = []
            for one in wanted:
                became.append(_tried(client, action, one, comment, duration_s))
                if isinstance(became[-1], ClientError) and not isinstance(became[-1], NodeRefused):
                    break  # The node is away: each of the others would wait for it as long.
        return _told(action, place, wanted, became)


def _waiting(client: Client, action: Action, pattern: str) -> list[Named]:
    """Open cases of the items that a pattern means, for which the action is still to be done."""
    node, _, name = pattern.rpartition(":")
    found: list[Named] = []
    is_here = node in ("", client.status().node)
    for at in ("",) if is_here else client.converse(nodes_of((node,))):
        found += [
            (at, one.case_id, one.activations)
            for one in client.cases(node=at)
            if _WAITING[action](one) and fnmatch.fnmatchcase(one.item.rpartition(":")[2], name)
        ]
    return found


def _tried(
    client: Client, action: Action, one: Named, comment: str, duration_s: float | None
) -> list[Case] | ClientError:
    node, case_id, activation = one
    try:
        return client.act(action, case_id, comment, duration_s, activation, node=node)
    except ClientError as error:
        return error


def _told(action: Action, place: Place, wanted: Sequence[Named], became: Sequence[list[Case] | ClientError]) -> Output:
    """Tell what became of each case. One that is refused hides nothing of the others."""
    names = [f"{node}:" * bool(node) + case_label(case_id, activation) for node, case_id, activation in wanted]
    value: dict[str, Any] = {"cases": [], "elsewhere": [], "refused": [], "not_tried": names[len(became) :]}
    lines: list[str] = []
    failures: list[Failure] = []
    for name, one in zip(names, became, strict=False):
        if isinstance(one, ClientError):
            failure = failure_of(one, place)
            failures.append(failure)
            value["refused"].append(
                {"case": name, "error": failure.message, "remedy": failure.remedy, **failure.details}
            )
            lines.append(f"case {name}: not done: {failure.message}")
        elif ":" in name:
            value["elsewhere"].append(name)
            lines.append(f"case {name}: {action.value} is done; `albireo cases list` of that node shows it")
        else:
            changed = msgspec.to_builtins(one)
            value["cases"] += changed
            lines += [
                f"case {case_label(case['case_id'], case['activations'])}: {state_text(case)}" for case in changed
            ]
    lines += [f"case {name}: not tried" for name in value["not_tried"]] if names else ["no open case waits for it"]
    if not failures:
        return Output(value, lines)
    first, done = failures[0], len(became) - len(failures)
    text = f"case {value['refused'][0]['case']}: {first.message}"
    if len(wanted) > 1:
        text = f"{len(wanted) - done} of {len(wanted)} cases are not done, the first of them: {text}"
    code = ExitCode.SOME if done else ExitCode(first.exit_code)
    return Output(
        value, lines if len(wanted) > 1 else (), failure=Failure(text, first.remedy, code, first.details | value)
    )


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
