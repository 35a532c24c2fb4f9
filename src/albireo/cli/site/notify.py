"""`albireo notify`: look at the rules by which people are told of alarms, and try them. Spec: docs/notify.md."""

import asyncio
import time
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any

import click

from albireo.cli.output import ExitCode, Failure, Output, TextTable, printed, say
from albireo.cli.place import FILE
from albireo.cli.topology_file import read_topology, refusal
from albireo.codec.topology.zone import zone_named
from albireo.face.notify.notice import Notice, SendOutcome, Try
from albireo.face.notify.rules import Duty, NotifyRules, load_rules
from albireo.face.notify.sending import send
from albireo.model.case import ItemCase
from albireo.model.item import Condition

file_argument = click.argument("file", type=click.Path(path_type=Path))


@click.group("notify")
def command() -> None:
    """Rules and rosters by which people are told of alarms: mail, webhook, script.

    FILE is the one that the face of the kind notify names as its rules.
    """


def _rules(file: Path, zone: tzinfo = UTC) -> NotifyRules:
    rules, mistakes = load_rules(file, zone)
    if rules is None:
        raise refusal(file, mistakes)
    for one in mistakes:
        say(str(one))
    return rules


@command.command()
@file_argument
@click.option("--item", default="root:example", show_default=True, help="Full name of the item of an example alarm.")
@click.option("--severity", type=click.IntRange(1, 1000), default=800, show_default=True, help="Severity of it.")
@click.option("--topology", "topology_file", type=FILE, envvar="ALBIREO_TOPOLOGY", help="File with the zone; else UTC.")
@printed
def check(file: Path, item: str, severity: int, topology_file: Path | None) -> Output:
    """Read the rules and rosters of FILE, and show who would be told now of an example alarm, in which order.

    Exit codes: 0 good; 78 there are mistakes, each told with its line and its remedy.
    """
    rules = _rules(file, zone_named(read_topology(topology_file).topology.zone) if topology_file else UTC)
    local, zone = rules.local(time.time_ns()), str(rules.zone)
    case = ItemCase(case_id=1, item_id=1, condition=Condition.HI, severity=severity, item=item)
    told: list[dict[str, Any]] = []
    for name, rule in rules.rules.items():
        duties = rule.on_duty(local)
        is_told = rule.takes(case) and rule.holds(local)
        told.append({"rule": name, "tells": is_told, "on_duty": [_row(one) for one in duties]})
    rows = (
        (one["rule"], "yes" if one["tells"] else "no", ", ".join(_words(it) for it in one["on_duty"]) or "NOBODY")
        for one in told
    )
    title = f"{item}, {severity}, at {local:%a %H:%M} {zone}"
    table = TextTable(("rule", "tells now", "on duty now, the first one first"), rows, title=title)
    return Output({"file": str(file), "at": f"{local:%Y-%m-%d %H:%M}", "zone": zone, "rules": told}, table)


def _row(one: Duty) -> dict[str, Any]:
    return {"name": one.name, "kind": one.kind, "address": one.address, "order": one.order}


def _words(one: dict[str, Any]) -> str:
    return f"{one['name']} ({one['kind']} {one['address']})"


@command.command()
@file_argument
@click.argument("name")
@printed
def test(file: Path, name: str) -> Output:
    """Send a test message to NAME of the rosters of FILE, by each way that stands there, on duty or not.

    Exit codes: 0 sent; 1 one did not leave; 2 nobody has this name; 78 there are mistakes.
    """
    rules = _rules(file)
    ways = {(one.kind, one.address): one for rule in rules.rules.values() for one in rule.roster if one.name == name}
    if not ways:
        known = sorted({one.name for rule in rules.rules.values() for one in rule.roster})
        raise Failure(f"nobody in the rosters is called {name!r}", f"name one of {', '.join(known)}", ExitCode.USAGE)
    now = time.time_ns()
    notice = Notice(f"test.{now:x}", "test", 1, "[test] Albireo", "This is a test.\n", (("test", 1, 1),), now)
    rows = []
    for one in ways.values():
        to = Try(one.name, one.kind, one.address, SendOutcome.LEAVING, 1, now)
        outcome, why = asyncio.run(send(notice, to, rules, "test", may_be_second=False))
        rows.append(_row(one) | {"outcome": outcome.value, "why": why})
    is_good = all(one["outcome"] == SendOutcome.SENT for one in rows)
    table = TextTable(("to", "outcome", "why"), ((_words(one), one["outcome"], one["why"]) for one in rows))
    return Output({"tried": rows}, table, exit_code=ExitCode.GOOD if is_good else ExitCode.FAILED)
