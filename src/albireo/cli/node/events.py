"""`albireo events`: the journal of cases, audit entries and node starts and stops."""

from pathlib import Path
from typing import Any, Final

import click

from albireo.cli.display import time_text, value_text
from albireo.cli.node.timespan import TIME
from albireo.cli.output import Failure, emit, json_option, say, show_table
from albireo.cli.place import data_option, find_data
from albireo.node.history.access import HistoryAccess
from albireo.node.history.errors import HistoryError
from albireo.node.history.query import StoredHistory, TimeRange

KINDS: Final = ("case", "audit", "control")


@click.command("events")
@click.option("--from", "from_ns", type=TIME, default="-1d", show_default=True, help="Start: ISO time, -2h, now.")
@click.option("--to", "to_ns", type=TIME, default="now", show_default=True, help="End (not included).")
@click.option("--kind", type=click.Choice(KINDS), default=None, help="Only these; without it all.")
@click.option("--item", default=None, help="Only cases of this item.")
@click.option("--limit", type=click.IntRange(1, 1_000_000), default=1000, show_default=True, help="The newest only.")
@data_option
@json_option
def command(
    from_ns: int, to_ns: int, kind: str | None, item: str | None, limit: int, data: Path | None, as_json: bool
) -> None:
    """The journal: transitions of alarm cases, what operators did, starts and stops of the node."""
    access = HistoryAccess(find_data(data))
    try:
        reader = access.event_reader()
        table = reader.events(TimeRange(from_ns, to_ns))
        item_id = reader.item(item)["item_id"] if item else None
        rows = [
            row
            for row in table.to_pylist()
            if (kind is None or row["kind"] == kind) and (item_id is None or row["item_id"] == item_id)
        ][-limit:]
        for row in rows:
            row["item"] = _item_name(reader, row["item_id"])
            row["principal"] = (row["value_str"] or "") if row["kind"] == "audit" else ""
    except (HistoryError, ValueError) as error:
        raise Failure(str(error)) from error
    if not access.is_live:
        say("the node does not run: what is stored in files is shown")
    if as_json:
        emit({"from_ns": from_ns, "to_ns": to_ns, "events": rows})
        return
    show_table(
        ("time (UTC)", "kind", "what", "who", "detail"),
        [(time_text(row["at_ns"]), row["kind"], _what(row), _who(row), _detail(row)) for row in rows],
    )


def _item_name(reader: StoredHistory, item_id: int | None) -> str | None:
    if item_id is None:
        return None
    row = reader.items().get(item_id)
    return f"{row['node']}:{row['name']}" if row else str(item_id)


def _what(row: dict[str, Any]) -> str:
    if row["kind"] != "case":
        return f"{row['action']} {row['subject']}".strip()
    return f"{row['item']} {row['condition']} {row['action']}"


def _who(row: dict[str, Any]) -> str:
    """The name that was claimed, and behind it the principal that the link has proven."""
    return f"{row['user']} ({row['principal']})" if row["principal"] else str(row["user"])


def _detail(row: dict[str, Any]) -> str:
    if row["kind"] == "audit":
        return str(row["detail"])
    value = row["value_str"] if row["value_f64"] is None else row["value_f64"]
    return " ".join(part for part in ("" if value is None else value_text(value), row["detail"]) if part)
