"""`albireo cases`: list them, acknowledge, shelve."""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import click
import msgspec

from albireo.cli.display import HIGH, is_diagnostic, moment_text, not_heard_text, state_text
from albireo.cli.node.words import worded_by
from albireo.cli.output import ExitCode, Failure, Output, TextTable, printed
from albireo.cli.target import Place, failure_of, node_client, place_option, user_option
from albireo.cli.timespan import SecondsType, WholeNumber
from albireo.client.cases import CaseMeant, CaseOutcome
from albireo.client.load import DAY_NS
from albireo.client.nodes import nodes_of
from albireo.model.case import Action, case_label, label_parts
from albireo.model.item import Condition, name_parts
from albireo.runtime.clock import wall_ns

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
        worded = worded_by(client, (one.item for _, one in found if isinstance(one.value, int)))
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
            worded(case["item"], case["value"]),
            moment_text(case["raised_ns"]),
            case["activations"],
            case["message"],
        )
        for (before, _), case in zip(found, cases, strict=True)
    )
    return Output({"cases": cases}, TextTable(_COLUMNS, rows))


@command.command("load")
@click.option("--days", type=WholeNumber(1, 366), default=30, show_default=True, help="Up to now.")
@click.option("--node", default="", help="Of this node below; without, its own.")
@place_option
@printed
def load_of_cases(days: int, node: str, place: Place) -> Output:
    """How much the alarms ask of people: new ones by time, severity and rule, beside the aims of docs/alarms.md."""
    end = wall_ns()
    with node_client(place) as client:
        load = client.alarm_load(end - days * DAY_NS, end, node=node)
    new = sum(load.per_10min)
    flooded = sum(one >= 10 for one in load.per_10min) / len(load.per_10min)
    rows = (
        ("new per day", f"{new / days:.1f}{' or more' if load.is_cut else ''}", "150 or fewer"),
        ("highest in 10 min", max(load.per_10min), "below 10"),
        ("time in flood", f"{flooded:.1%}", "below 1 %"),
        *((f"severity {one}", count, "") for one, count in sorted(load.by_severity.items(), reverse=True)),
        *((f"{one.item} {one.condition}", one.count, "") for one in load.often),
    )
    return Output({"load": msgspec.to_builtins(load, str_keys=True)}, TextTable(("what", "figure", "aim"), rows))


_COLUMNS: Final = ("case", "severity", "item", "condition", "state", "value", "raised (UTC)", "times", "said")


class CaseLabel(click.ParamType[CaseMeant]):
    """A case as `list` shows it: 12, 12.2 at its second activation, or root/north:12.2 at another node.

    Or a rule by item and condition: co_1/hi, north:co_1/hi.
    """

    name = "case"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> CaseMeant:
        if isinstance(value, CaseMeant):
            return value
        node, label = name_parts(str(value))
        item, _, condition = label.rpartition("/")
        try:
            if item:
                return CaseMeant(node=node, item=item, condition=Condition(condition))
            case_id, activation = label_parts(label)
        except ValueError as error:
            self.fail(f"{error}; conditions: {', '.join(Condition)}" if item else str(error), param, ctx)
        return CaseMeant(node=node, case_id=case_id, activation=activation)


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
        help="All open cases that wait for it; with a PATTERN such as 'co_*', 'north:*', '*:*' those of such items.",
    )
    @click.option("--comment", default="", help="Why; kept in the journal.")
    @user_option
    @place_option
    @printed
    @_duration_option(action is Action.SHELVE)
    def act(
        case_ids: tuple[CaseMeant, ...],
        pattern: str | None,
        comment: str,
        user: str,
        place: Place,
        duration_s: float | None = None,
    ) -> Output:
        if bool(case_ids) == (pattern is not None):
            raise click.UsageError("name the cases, or give --all")
        with node_client(place, user, told_by="albireo cases list") as client:
            wanted = list(dict.fromkeys(case_ids)) if pattern is None else client.waiting(action, pattern)
            became = client.act_on(action, wanted, comment, duration_s=duration_s)
        return _told(action, place, wanted, became)


def _told(action: Action, place: Place, wanted: Sequence[CaseMeant], became: Sequence[CaseOutcome]) -> Output:
    """Tell what became of each case. One that is refused hides nothing of the others."""
    left = [one.label for one in wanted[len(became) :]]
    value: dict[str, Any] = {"cases": [], "elsewhere": [], "refused": [], "not_tried": left}
    lines: list[str] = []
    failures: list[Failure] = []
    for one in became:
        name = one.meant.label
        if one.error is not None:
            failure = failure_of(one.error, place)
            failures.append(failure)
            value["refused"].append(
                {"case": name, "error": failure.message, "remedy": failure.remedy, **failure.details}
            )
            lines.append(f"case {name}: not done: {failure.message}")
        elif one.meant.node:
            value["elsewhere"].append(name)
            lines.append(f"case {name}: {action.value} is done; `albireo cases list` of that node shows it")
        else:
            changed = msgspec.to_builtins(one.changed)
            value["cases"] += changed
            lines += [
                f"case {case_label(case['case_id'], case['activations'])}: {state_text(case)}" for case in changed
            ]
    lines += [f"case {name}: not tried" for name in left] if wanted else ["no open case waits for it"]
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
_action(Action.SHELVE, "Shelve CASE_IDS for a time, or until they clear; also rules without a case: north:co_1/hi.")
_action(Action.UNSHELVE, "Bring shelved CASE_IDS back.")
_action(
    Action.OUT_OF_SERVICE, "Take the alarms of CASE_IDS out of service, also of rules without a case: north:co_1/hi."
)
_action(Action.IN_SERVICE, "Put the alarms of CASE_IDS back into service.")
_action(Action.COMMENT, "Add a comment to CASE_IDS.")
