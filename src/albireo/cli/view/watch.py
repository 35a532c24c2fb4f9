"""`albireo watch`: the live view of a node."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from albireo.cli.display import quality_text
from albireo.cli.output import ExitCode, Failure, Output, json_asked, printed, until_interrupted
from albireo.cli.target import FarNode, Place, node_client, place_option, refused
from albireo.cli.timespan import SecondsType
from albireo.cli.view.state import LiveState, own_number
from albireo.cli.view.view import BeginScenario, LiveView
from albireo.client import Client
from albireo.model.case import Case
from albireo.model.refusal import Refusal, RefusalCode
from albireo.plant.tunnel.plc.wire import SOCKET_NAME
from albireo.plant.tunnel.processes import begin
from albireo.runtime.clock import boot_ns

SITE = "site"
"""Folder in a demo's data directory, with topology, item tables, and for each site a folder with its plant's socket."""
SHOWN = "south"
"""Site of a demo whose tunnel is meant where none is named."""
FIRST_STATE_S = 5.0


@click.command("watch")
@click.argument("patterns", nargs=-1)
@click.option("--for", "seconds", type=SecondsType(), default=None, help="End after so many seconds.")
@place_option
@printed
def command(patterns: tuple[str, ...], seconds: float | None, place: Place) -> Output | None:
    """Live view of items and their cases, and of nodes if there are several; ? shows the keys. With --json: the state
    as it is now, and the end.

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
        LiveView(lambda: place, _scenarios_of(place), patterns).run(lambda _live: time.monotonic() >= ends)
    return None


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
