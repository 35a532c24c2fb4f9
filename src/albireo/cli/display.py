"""Values, qualities and times as text for people."""

from datetime import UTC, datetime

from albireo.model import quality
from albireo.model.value import Value


def value_text(value: Value | None, unit: str = "") -> str:
    """A value as an operator reads it; unknown is a dash, never a zero."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return f"{text} {unit}" if unit else text


def time_text(wall_ns: int) -> str:
    """UTC to the millisecond; a dash for a time that never was."""
    if wall_ns <= 0:
        return "-"
    moment = datetime.fromtimestamp(wall_ns / 1e9, UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{wall_ns // 1_000_000 % 1000:03d}"


def not_heard_text(since_ns: int | None) -> str:
    """Mark of something that is as its node was heard last; empty if the node is heard (None)."""
    if since_ns is None:
        return ""
    return f"  (not heard since {time_text(since_ns)})" if since_ns else "  (not heard in this run)"


def where_listed(item: str) -> str:
    """Command that lists the names among which one was not found; a name may have a node before it."""
    node, _, _ = item.rpartition(":")
    of_node = f"`albireo items '{node}:*'` lists those of that node, `albireo tree` says which nodes are heard"
    return of_node if node else "`albireo items` lists them, `albireo items '*:*'` those of other nodes too"


def clock_text(wall_ns: int) -> str:
    """Time of the day, UTC; a dash for a time that never was."""
    return datetime.fromtimestamp(wall_ns / 1e9, UTC).strftime("%H:%M:%S") if wall_ns > 0 else "-"


def quality_text(code: int) -> str:
    return quality.name(code)
