"""`albireo items`: the items of a node with value, quality and age."""

from operator import itemgetter
from typing import Any

import click
import msgspec

from albireo.cli.display import (
    is_diagnostic,
    moment_text,
    natural,
    not_heard_text,
    of_plant,
    quality_text,
    time_text,
    where_listed,
)
from albireo.cli.output import Looks, Output, TextTable, watched
from albireo.cli.target import Place, node_client, place_option, refused
from albireo.client import Client
from albireo.model.item import name_parts
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.value import value_text


@click.command("items")
@click.argument("patterns", nargs=-1)
@place_option
@watched(every_s=1.0)
def command(patterns: tuple[str, ...], place: Place) -> Looks:
    """List items, the plant's first. PATTERNS are names with * and ?, such as `co_*`; without one all of
    the node itself are listed.

    `north:*` lists those of a node below, and `*:*` those of all nodes.

    Values of a node that is not heard are as they were when it was heard last, and say since when it is not.

    Names with a slash, such as plc/connected, are what the node, its adapters and its machine say of themselves. They
    are listed for a pattern with a slash, such as `*/*`, and in JSON.
    """
    with node_client(place) as client:
        while True:
            rows = _rows(client, patterns)
            if not rows and patterns:
                listed = ", ".join(patterns)
                remedy = f"{where_listed(patterns[0])}; names may hold * and ?"
                raise refused(Refusal(RefusalCode.UNKNOWN_ITEM, f"no item is called {listed}", remedy))
            shown = of_plant(rows, itemgetter("name"), patterns)
            hidden = len(rows) - len(shown)
            hints = [f"{hidden} more of what the node says of itself: albireo items '*/*'"] if hidden else []
            yield Output({"items": rows}, _table(shown), hints)


def _rows(client: Client, patterns: tuple[str, ...]) -> list[dict[str, Any]]:
    found = client.items(patterns or "*")
    has_others = any(":" in one for one in patterns)
    stale = {row.node: row.stale_since_ns for row in client.tree()} if has_others else {}
    rows = [
        msgspec.to_builtins(one.reading)
        | {"quality_name": quality_text(one.reading.quality), "stale_since_ns": stale.get(name_parts(one.name)[0])}
        for one in found
    ]
    return sorted(rows, key=lambda row: place_in_list(row["name"]))


def place_in_list(full_name: str) -> tuple[bool, tuple[tuple[str, int], ...]]:
    """Place in the list: the plant's items first, then what the node and its adapters say of themselves."""
    name = name_parts(full_name)[1]
    return is_diagnostic(name), natural(name)


def _table(rows: list[dict[str, Any]]) -> TextTable:
    cells = (
        (
            row["name"],
            value_text(row["value"], row["unit"], row["word"]),
            row["quality_name"],
            (time_text if row["value"] is None else moment_text)(row["source_ns"])
            + not_heard_text(row["stale_since_ns"]),
        )
        for row in rows
    )
    return TextTable(("item", "value", "quality", "source time (UTC)"), cells)
