"""`albireo items`: the items of a node with value, quality and age."""

import time
from typing import Any

import click
import msgspec

from albireo.cli.display import (
    is_diagnostic,
    natural,
    not_heard_text,
    quality_text,
    time_text,
    value_text,
    where_listed,
)
from albireo.cli.output import Failure, emit, json_option, show_table, until_interrupted
from albireo.cli.target import Place, node_client, place_option
from albireo.client import Client

WATCH_S = 1.0


@click.command("items")
@click.argument("patterns", nargs=-1)
@place_option
@json_option
@click.option("--watch", is_flag=True, help="Show again every second until Ctrl-C.")
def command(patterns: tuple[str, ...], place: Place, as_json: bool, watch: bool) -> None:
    """List items, the plant's first. PATTERNS are names with * and ?, such as `co_*`; without one all of
    the node itself are listed.

    `north:*` lists those of a node below, and `*:*` those of all nodes.

    Values of a node that is not heard are as they were when it was heard last, and say since when it is not.

    Names with a slash, such as plc/connected, are what the node, its adapters and its machine say of themselves.
    """
    with until_interrupted(watch), node_client(place) as client:
        while True:
            rows = _rows(client, patterns)
            if not rows and patterns:
                listed = ", ".join(patterns)
                raise Failure(f"no item is called {listed}", f"{where_listed(patterns[0])}; names may hold * and ?")
            if as_json:
                emit({"items": rows})
            else:
                _show(rows, watch)
            if not watch:
                return
            time.sleep(WATCH_S)


def _rows(client: Client, patterns: tuple[str, ...]) -> list[dict[str, Any]]:
    found = client.items(patterns or "*")
    has_others = any(":" in one for one in patterns)
    stale = {row.node: row.stale_since_ns for row in client.tree()} if has_others else {}
    rows = [
        msgspec.to_builtins(one.reading)
        | {"quality_name": quality_text(one.reading.quality), "stale_since_ns": stale.get(one.name.rpartition(":")[0])}
        for one in found
    ]
    return sorted(rows, key=lambda row: place_in_list(row["name"]))


def place_in_list(full_name: str) -> tuple[bool, tuple[tuple[str, int], ...]]:
    """Place in the list: the plant's items first, then what the node and its adapters say of themselves."""
    name = full_name.partition(":")[2]
    return is_diagnostic(name), natural(name)


def _show(rows: list[dict[str, Any]], watch: bool) -> None:
    if watch:
        click.clear()
    show_table(
        ("item", "value", "quality", "source time (UTC)"),
        [
            (
                row["name"],
                value_text(row["value"], row["unit"]),
                row["quality_name"],
                time_text(row["source_ns"]) + not_heard_text(row["stale_since_ns"]),
            )
            for row in rows
        ],
    )
