"""`albireo watch`: the live view of a node."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from albireo.cli.display import is_diagnostic, quality_text, state_text, time_text
from albireo.cli.output import ExitCode, Failure, Output, TextTable, json_asked, printed, show_table, until_interrupted
from albireo.cli.target import FarNode, Place, node_client, place_option, refused
from albireo.cli.timespan import SecondsType
from albireo.cli.view.state import LiveState, own_number
from albireo.cli.view.view import BeginScenario, LiveView
from albireo.client import Client
from albireo.model.case import Case, case_label
from albireo.model.item_states import word_of
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.value import value_text
from albireo.plant.tunnel.plc.wire import SOCKET_NAME
from albireo.plant.tunnel.processes import begin
from albireo.runtime.clock import boot_ns

SITE = "site"
"""Folder in a demo's data directory, with topology, item tables, and for each site a folder with its plant's socket."""
SHOWN = "south"
"""Site of a demo whose tunnel is meant where none is named."""
FIRST_STATE_S = 5.0
LOOK_S = 0.25
"""Longest time between two looks at the clock."""


@click.command("watch")
@click.argument("patterns", nargs=-1)
@click.option("--for", "seconds", type=SecondsType(), default=None, help="End after so many seconds.")
@place_option
@printed
def command(patterns: tuple[str, ...], seconds: float | None, place: Place) -> Output | None:
    """Live view of items and their cases, and of nodes if there are several; ? shows the keys. Where no terminal is,
    each change is a line, at first everything. With --json: the state as it is now, and the end.

    PATTERNS are names with * and ?, of items of any node that is known here: `north:*` are those of a node below, `*`
    those of the node itself, and `*:*` those of all nodes. Without one the whole node itself is shown.
    """
    with node_client(place) as client:
        client.status()
        if patterns:
            check_named(client, patterns)
        if json_asked():
            return Output(snapshot(_first_changes(client, patterns or ("*",))))
    ends = time.monotonic() + seconds if seconds is not None else float("inf")
    with until_interrupted(True):
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            _print_changes(place, patterns, ends)
            return None
        LiveView(lambda: place, _scenarios_of(place), patterns).run(lambda _live: time.monotonic() >= ends)
    return None


def _print_changes(place: Place, patterns: Sequence[str], ends: float) -> None:
    """Print what changes until `ends`; what a node says of itself only where it is asked for."""
    with node_client(place) as client:
        for changes in client.watch(patterns or "*", timeout_s=LOOK_S):
            rows = [
                (
                    time_text(one.source_ns),
                    one.name,
                    value_text(one.value, one.unit, one.word),
                    quality_text(one.quality),
                )
                for one in changes.readings
                if patterns or not is_diagnostic(one.name)
            ]
            for case in changes.cases:
                label = f"case {case_label(case.case_id, case.activations)}: {state_text(msgspec.to_builtins(case))}"
                rows.append((time_text(case.changed_ns), case.item, case.condition, label))
            show_table(TextTable((), rows))
            if time.monotonic() >= ends:
                return


def check_named(client: Client, patterns: Sequence[str]) -> None:
    """Raises Failure: no item is called by any of these."""
    if not client.items(patterns):
        listed = ", ".join(patterns)
        remedy = "`albireo items '*:*'` lists all; names may hold * and ?"
        raise refused(Refusal(RefusalCode.UNKNOWN_ITEM, f"no item is called {listed}", remedy))


def _scenarios_of(place: Place) -> BeginScenario | None:
    """Beginner of scenarios of the simulated plant; None: there is none here."""
    if isinstance(place, FarNode):
        return None
    if not (tunnel_of(place) / SOCKET_NAME).exists():
        return None
    return lambda scenario, node: begin(tunnel_of(place, node), scenario)


def tunnel_of(directory: Path, node: str = "") -> Path:
    """Tunnel of a node of a demo whose data, or those of a member, lie in `directory`; of the root that of `SHOWN`.

    Args:
        node: site that is meant; empty, or no site: that of the directory.
    """
    for demo in [directory, *directory.parents][:3]:
        if (demo / SITE).is_dir():
            below = directory.relative_to(demo).parts
            for name in (node.rpartition("/")[2], *below[:1]):
                if name and (demo / SITE / name).is_dir():
                    return demo / SITE / name
            return demo / SITE / SHOWN
    return directory / SITE / SHOWN


def _first_changes(client: Client, patterns: Sequence[str]) -> LiveState:
    """The state of the nodes as each of them tells it at first.

    Raises:
        Failure: not all of it came within FIRST_STATE_S.
    """
    live = LiveState()
    for changes in client.watch(patterns, timeout_s=FIRST_STATE_S):
        if changes.is_whole:
            live.take(changes, boot_ns())
            return live
        break
    raise Failure("a node sent no state", "look at `albireo status`", ExitCode.UNREACHABLE)


def snapshot(live: LiveState) -> dict[str, Any]:
    """The state as JSON has it."""
    items = []
    for known in live.sorted_items():
        current = live.values.get(known.item_id)
        items.append(
            {
                "item": known.item.name,
                "value": None if current is None else current.value,
                "quality": None if current is None else quality_text(current.quality),
                "source_ns": None if current is None else current.source_ns,
                "unit": known.item.unit,
                "word": "" if current is None else word_of(known.item.states, current.value),
                "is_forced": known.item.name in live.forced,
            }
        )
    return {
        "node": live.node,
        "nodes": live.nodes,
        "epoch": live.position.epoch,
        "sequence": live.position.sequence,
        "items": items,
        "cases": [_case(live, case) for case in live.sorted_cases()],
        "stale": live.stale,
    }


def _case(live: LiveState, case: Case) -> dict[str, Any]:
    known = live.items.get(case.item_id)
    name = "" if known is None else known.item.name
    numbers = {"case_id": own_number(case.case_id), "item_id": own_number(case.item_id)}
    row: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(case, case_id=0, item_id=0))
    return row | numbers | {"item": name}
