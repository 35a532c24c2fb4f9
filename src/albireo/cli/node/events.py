"""`albireo events`: the journal of cases, audit entries and node starts and stops."""

from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from albireo.cli.display import moment_text, who_text
from albireo.cli.node.far_history import (
    as_far_as_it_came,
    cut_failure,
    far_item,
    far_node,
)
from albireo.cli.output import Failure, Output, TextTable, printed, say
from albireo.cli.target import FarNode, Place, node_client, place_option, refused
from albireo.cli.timespan import TIME, WholeNumber
from albireo.client import HistoryCutShort
from albireo.codec.questions.history import EventKind
from albireo.model.value import value_text
from albireo.node.history.access import HistoryAccess
from albireo.node.history.below.folders import node_asked
from albireo.node.history.errors import HistoryError, HistoryRefused
from albireo.node.history.query import TimeRange
from albireo.node.history.rows import worded

_Rows = list[dict[str, Any]]

KINDS: Final = ("case", "audit", "control")


@click.command("events")
@click.option("--from", "from_ns", type=TIME, default="-1d", show_default=True, help="Start: ISO time, -2h, now.")
@click.option("--to", "to_ns", type=TIME, default="now", show_default=True, help="End (not included).")
@click.option("--kind", type=click.Choice(KINDS), default=None, help="Only these; without it all.")
@click.option("--item", default=None, help="Only cases of this item.")
@click.option(
    "--node", default="", help="The journal of this node below, by its id or the end of it; without, its own."
)
@click.option("--limit", type=WholeNumber(1, 1_000_000), default=1000, show_default=True, help="The newest only.")
@place_option
@printed
def command(
    from_ns: int, to_ns: int, kind: EventKind | None, item: str | None, node: str, limit: int, place: Place
) -> Output:
    """The journal: transitions of alarm cases, what operators did, starts and stops of the node."""
    try:
        asked = _EventsWanted(from_ns, to_ns, kind, item, limit, node_asked(node, [item] if item else []))
        rows, cut = _asked_far(place, asked) if isinstance(place, FarNode) else (_asked_here(place, asked), None)
    except HistoryRefused as error:
        raise refused(error.refusal) from error
    except (HistoryError, ValueError) as error:
        raise Failure(str(error)) from error
    shown = [row.pop("shown") for row in rows]  # For people: JSON has the bare values.
    answer = {"from_ns": from_ns, "to_ns": to_ns, "events": rows}
    table = TextTable(("time (UTC)", "kind", "what", "who", "detail"), map(_cells, rows, shown))
    first_ns = rows[0]["at_ns"] + 1_000 if rows else to_ns  # What is missing is older; times are told in microseconds.
    failure = None if cut is None else cut_failure(cut, first_ns, answer, "--to")
    return Output(answer, table, failure=failure)


class _EventsWanted(NamedTuple):
    from_ns: int
    to_ns: int
    kind: EventKind | None
    item: str | None
    limit: int
    node: str
    """Node whose journal it is; empty: the node that is asked."""


def _asked_here(data: Path, asked: _EventsWanted) -> _Rows:
    access = HistoryAccess(data, asked.node)
    reader = access.event_reader()
    table = worded(reader.events(TimeRange(asked.from_ns, asked.to_ns)), reader.declared())
    item_id = reader.item(asked.item)["item_id"] if asked.item else None
    rows = [
        row
        for row in table.to_pylist()
        if (asked.kind is None or row["kind"] == asked.kind) and (item_id is None or row["item_id"] == item_id)
    ][-asked.limit :]
    if access.lacks:
        say(access.lacks)
    names = {item_id: f"{row['node']}:{row['name']}" for item_id, row in reader.items().items()}
    for row in rows:
        item_id = row["item_id"]
        row["item"] = None if item_id is None else names.get(item_id, str(item_id))
    return rows


def _asked_far(place: FarNode, asked: _EventsWanted) -> tuple[_Rows, HistoryCutShort | None]:
    with node_client(place) as client:
        span = TimeRange(asked.from_ns, asked.to_ns)
        item_ids = [far_item(client, asked.item).item_id] if asked.item else []
        node = far_node(client, f"{asked.node}:") if asked.node else ""
        table, cut = as_far_as_it_came(
            "events",
            lambda told: client.events(
                span.from_ns,
                span.to_ns,
                kind=asked.kind or "",
                item_ids=item_ids,
                newest_first=True,
                limit=asked.limit,
                told=told,
                node=node,
            ),
        )
        return table.to_pylist()[::-1], cut


def _cells(row: dict[str, Any], shown: str | None) -> tuple[str, ...]:
    return (
        moment_text(row["at_ns"]),
        row["kind"],
        _what(row),
        who_text(row["user"], row["principal"], row["speaker"]),
        _detail(row, shown),
    )


def _what(row: dict[str, Any]) -> str:
    if row["kind"] != "case":
        return f"{row['action']} {row['subject']}".strip()
    return f"{row['item']} {row['condition']} {row['action']}"


def _detail(row: dict[str, Any], shown: str | None) -> str:
    value = row["value_str"] if row["value_f64"] is None else row["value_f64"]
    return " ".join(part for part in (shown or ("" if value is None else value_text(value)), row["detail"]) if part)
