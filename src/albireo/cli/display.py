"""Values, qualities, times and names as text for people, and the order in which names are listed."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from albireo.model import quality
from albireo.model.case import Shelving
from albireo.model.instant import MS, SECOND
from albireo.model.item import name_parts

HIGH: Final = 600
"""Severity from which on a case of a node itself stands among those of the plant."""
_Row = TypeVar("_Row")
_UNITS: Final = (("d", 86_400), ("h", 3_600), ("min", 60))


def moment_text(wall_ns: int) -> str:
    """UTC, rounded down to the millisecond; also of a device whose clock begins at 1970."""
    return f"{datetime.fromtimestamp(wall_ns // SECOND, UTC):%Y-%m-%d %H:%M:%S}.{wall_ns // MS % 1000:03d}"


def time_text(wall_ns: int) -> str:
    """As `moment_text`; a dash for a time that never was, which is 0."""
    return moment_text(wall_ns) if wall_ns else "-"


def not_heard_text(since_ns: int | None) -> str:
    """Mark of something that is as its node was heard last; empty if the node is heard (None)."""
    if since_ns is None:
        return ""
    return f"  (not heard since {time_text(since_ns)})" if since_ns else "  (not heard in this run)"


def who_text(user: str, principal: str, speaker: str = "") -> str:
    """The name that somebody gave, behind it the principal that the link has proven, or a person and who spoke."""
    behind = f"{principal} by {speaker}" if speaker else principal
    return f"{user} ({behind})" if behind else user


def role_text(role: str = "", node: str = "") -> str:
    """A role, if there is one, and where it counts; an empty node is every node."""
    return f"{role} at {node}" if node else role


def where_listed(item: str) -> str:
    """Command that lists the names among which one was not found; a name may have a node before it."""
    node, _ = name_parts(item)
    of_node = f"`albireo items '{node}:*'` lists those of that node, `albireo tree` says which nodes are heard"
    return of_node if node else "`albireo items` lists them, `albireo items '*:*'` those of other nodes too"


def clock_text(wall_ns: int) -> str:
    """Time of the day, UTC; a dash for a time that never was."""
    return datetime.fromtimestamp(wall_ns // SECOND, UTC).strftime("%H:%M:%S") if wall_ns else "-"


def quality_text(code: int) -> str:
    return quality.name(code)


def left_text(left_ms: int) -> str:
    """A duration as people say it, in its two largest units: `2 h 5 min`, `40 s`."""
    left_s, parts = round(left_ms / 1000), list[str]()
    for unit, seconds in _UNITS:
        if left_s >= seconds:
            parts.append(f"{left_s // seconds} {unit}")
            left_s %= seconds
    if left_s or not parts:
        parts.append(f"{left_s} s")
    return " ".join(parts[:2])


def state_text(case: dict[str, Any]) -> str:
    """The state in words, as ISA-18.2 names it."""
    asked = "unasked" if case["is_unasked"] else "unacked"
    words = ["active" if case["is_active"] else "normal", "acked" if case["is_acked"] else asked]
    if case["is_latched"]:
        words.append("latched")
    if case["shelving"] != Shelving.UNSHELVED:
        words.append("shelved")
    words += [name for name in ("suppressed", "out_of_service", "chattering") if case[f"is_{name}"]]
    if case["is_forced"]:
        words.append("by a forced value")
    if case.get("is_item_forced"):
        words.append("(item forced)")
    return " ".join(word.replace("_", " ") for word in words)


def is_diagnostic(name: str) -> bool:
    """Whether a node, an adapter or the machine says it of itself: such names have a slash, no item of a plant has.

    The name of a node before it does not count.
    """
    return "/" in name_parts(name)[1]


def of_plant(rows: Iterable[_Row], name_of: Callable[[_Row], str], asked: Iterable[str] = ()) -> list[_Row]:
    """Those rows that are shown: what nodes say of themselves only where a pattern with a slash asks for it, or where
    nothing else is there."""
    every = list(rows)
    found = [one for one in every if not is_diagnostic(name_of(one))]
    return found if found and not any(map(is_diagnostic, asked)) else every


def fitted(name: str, cells: int) -> str:
    """The name in so many cells. What is too long is cut before its last half, which tells it from its neighbours."""
    if len(name) <= cells:
        return name.ljust(cells)
    head = (cells - 1) // 3
    return f"{name[:head]}…{name[head + 1 - cells :]}"


def counted(count: int, thing: str) -> str:
    """`1 item`, `2 items`."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def natural(name: str) -> tuple[tuple[str, int], ...]:
    """Sort key in which digits count as numbers."""
    key: list[tuple[str, int]] = []
    text, digits = "", ""
    for character in name + "\0":
        if character.isdecimal():
            digits += character
        else:
            if digits:
                key.append((text, int(digits)))
                text, digits = "", ""
            text += character
    return (*key, (text, -1))
