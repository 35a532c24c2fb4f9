"""History and journal of a node on another machine, for `albireo history` and `albireo events`.

Answers come in pieces through the door of the member that acts, and go on at the other member's after a takeover. One
that can't go on is shown as far as it came; then the command fails, and says where to go on.

Items are found in the list of those that the node has now: one that was forgotten is found on the node's machine only.
"""

import contextlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from albireo.cli.output import ExitCode, Failure, progress
from albireo.client import Client, HistoryCutShort
from albireo.client.history import ToldRows
from albireo.machine.history.aggregate import TIME_LIMIT_NS
from albireo.model.item import name_parts
from albireo.node.history.errors import UnknownItem
from albireo.node.history.query import TimeRange


class FarItem(NamedTuple):
    """An item of the node that is asked, or of a node below."""

    node: str
    """Node below; empty: the one that is asked."""
    item_id: int
    name: str
    unit: str


def far_item(client: Client, name: str) -> FarItem:
    """An item by full or local name, or by id; of the id in a full name the end will do.

    Raises:
        UnknownItem: the node has none.
        NodeRefused: it has no history of the node that the name says, or that has no such item, or the name says the
            end of several nodes' ids.
    """
    found = client.items(name)
    if not found and name.isdecimal():
        found = [one for one in client.items() if str(one.item_id) == name]
    if len(found) != 1 and ":" in name:
        return _item_below(client, name)
    if len(found) != 1:
        raise UnknownItem(name)
    (one,) = found
    return FarItem(far_node(client, one.name), one.item_id, one.name, one.item.unit)


def far_node(client: Client, name: str) -> str:
    """The node below to which a full name belongs; empty: it is that of the node which is asked."""
    node, _ = name_parts(name)
    return "" if node == client.status().node else node


def _item_below(client: Client, name: str) -> FarItem:
    """An item of a node below, as the history of the node that is asked knows it."""
    known = msgspec.convert(client.ask("history_item", of="history", name=name), _ItemTold)
    return FarItem(known.node, known.item_id, f"{known.node}:{known.name}", known.unit)


class _ItemTold(msgspec.Struct, kw_only=True):
    node: str
    item_id: int
    name: str
    unit: str


def first_row_ns(client: Client, item: FarItem, span: TimeRange) -> int | None:
    """Source time of the first row ever stored, if it lies in the range."""
    first = client.history(item.item_id, -TIME_LIMIT_NS, span.to_ns, limit=1, node=item.node, raw=True)
    source_ns: int | None = first.column("source_ns").to_pylist()[0] if len(first) else None
    return source_ns if source_ns is not None and source_ns >= span.from_ns else None


def gaps_of(client: Client, item: FarItem, span: TimeRange) -> list[dict[str, Any]]:
    """Gap records that touch the range and the item, by start."""
    return client.gaps(span.from_ns, span.to_ns, item_ids=[item.item_id], node=item.node).to_pylist()


def as_far_as_it_came(description: str, ask: Callable[[ToldRows], pa.Table]) -> tuple[pa.Table, HistoryCutShort | None]:
    """The answer, with a progress from its second piece on; and why it ended, if that was before its end."""
    with _progress_of_pieces(description) as told:
        try:
            return ask(told), None
        except HistoryCutShort as cut:
            table: pa.Table = cut.table
            return table, cut


@contextlib.contextmanager
def _progress_of_pieces(description: str) -> Iterator[ToldRows]:
    with contextlib.ExitStack() as stack:
        shown = 0
        advance: Callable[[float, str], None] | None = None

        def told(rows: int) -> None:
            nonlocal shown, advance
            if shown and advance is None:
                advance = stack.enter_context(progress(description, None))
                advance(shown, "rows")
            if advance is not None:
                advance(rows - shown, "rows")
            shown = rows

        yield told


def complete_to_ns(table: pa.Table) -> int:
    """Node time up to which the node knew everything, of any answer in pieces."""
    return int((table.schema.metadata or {})[b"complete_to_ns"])


def cut_failure(cut: HistoryCutShort, goes_on_ns: int, details: dict[str, Any], option: str = "--from") -> Failure:
    """An answer that ended early as the failure of its command.

    Args:
        goes_on_ns: time from which on rows may be missing; with the option `--to`: up to which.
        details: what came, for `--json`.
    """
    moment = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=goes_on_ns // 1000)
    rest = f"the same command with {option} {moment:%Y-%m-%dT%H:%M:%S.%f} gives the rest"
    return Failure(cut.cause, rest, ExitCode.UNREACHABLE, {**details, "goes_on_ns": goes_on_ns})
