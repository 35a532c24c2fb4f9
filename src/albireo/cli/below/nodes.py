"""Nodes below as a node knows them: how far its copy of their logs is, and what is missing of it for good.

Two things may lack records of a node that was away for longer than it waits: the log above, for good, and the stored
history above, which fetches the rows from that of the node itself (ADR-0218).
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from albireo.cli.display import time_text
from albireo.model.instant import SECOND
from albireo.model.tree.node_row import NodeRow

LATE_NS: Final = 5 * SECOND
"""A watermark younger than this is as good as now."""


class GapTold(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that the stored history of a node lacks."""

    from_ns: int
    to_ns: int
    reason: str
    is_final: bool
    """Nobody has them any more."""


class StoredTold(msgspec.Struct, frozen=True, kw_only=True):
    """Stored history of a node below, as the node that is asked keeps it."""

    from_ns: int = 0
    """Node time of the first record of its store; 0: not known."""
    complete_to_ns: int
    """Node time up to which its files have all that is in the log here."""
    lacks: int = 0
    """Number of stretches that are missing, and are asked for."""
    gone: int = 0
    """Number of stretches that nobody has any more."""
    files: int = 0
    """Number of files to copy for the stretch that is under way; 0: none, or not counted yet."""
    done: int = 0
    trouble: str = ""
    """Reason why nothing comes at the moment."""
    refused: dict[str, int] = {}
    """Number of files and answers that were not taken, by reason."""
    gaps: tuple[GapTold, ...] = ()
    """The newest of these stretches."""


class NodeTold(msgspec.Struct, frozen=True, kw_only=True):
    """Another node, and what there is of it here."""

    node: str
    by: str
    """Child through which it is reached, or the parent."""
    is_below: bool
    """False: it is beyond; its values are shown here, and nothing else of it is kept."""
    is_heard: bool
    stale_since_ns: int | None
    """Wall time since which nothing was heard of it; 0: never in this run; null: it is heard."""
    items: int
    position: str
    complete_to_ns: int
    """Wall time up to which the log here has all that it recorded; 0: nothing yet."""
    behind: int | None
    """Number of records that are still to come; null: not known, as it is not heard."""
    oldest_unsent_ns: int | None
    """Its oldest record that is not here is younger than this; null: all is here, or nobody knows."""
    caught_up_s: float | None = None
    """Seconds until all is here, at the present pace; null: not known, or the pace does not suffice."""
    missing_in_log: int
    """Number of its records that no log here will ever have."""
    refused: int
    trouble: str
    stored: StoredTold | None = None
    """Stored history here of its present store; null: there is none, or the history does not answer."""
    stores: int = 1
    """Number of its stores that are known here; questions about its past join them."""
    set_back_ns: int = 0
    """Wall time at which its present store came with less than is known of the node; 0: it did not."""
    earlier: tuple[StoredTold, ...] = ()
    """Stored histories of its earlier stores."""
    leads: str = ""
    """As in `NodeRow`, and the next one."""
    pair: dict[str, float | None] = {}


def nodes_told(asked: str, rows: Sequence[NodeRow], stats: dict[str, Any] | None) -> list[NodeTold]:
    """The other nodes.

    Args:
        asked: node that tells it.
        stats: what its history says of itself; None: it does not answer.
    """
    stored: dict[str, list[StoredTold]] = {}
    for one in sorted((stats or {}).get("below", ()), key=lambda one: one["index"]):
        stored.setdefault(one["node"], []).append(_stored(one))
    return [_told(row, stored.get(row.node, []), is_below=row.node.startswith(f"{asked}/")) for row in rows]


def _told(row: NodeRow, stored: list[StoredTold], *, is_below: bool) -> NodeTold:
    is_heard = row.stale_since_ns is None
    behind = row.behind if is_heard and row.behind >= 0 else None
    return NodeTold(
        node=row.node,
        by=row.by,
        is_below=is_below,
        is_heard=is_heard,
        stale_since_ns=row.stale_since_ns,
        items=row.items,
        position=row.position,
        complete_to_ns=row.complete_to_ns,
        behind=behind,
        oldest_unsent_ns=row.complete_to_ns if behind else None,
        caught_up_s=0.0 if behind == 0 else None,
        missing_in_log=row.missing,
        refused=row.refused,
        trouble=row.trouble,
        stored=stored[-1] if stored else None,
        stores=row.stores,
        set_back_ns=row.set_back_ns,
        earlier=tuple(stored[:-1]),
        leads=row.leads,
        pair=row.pair,
    )


def _stored(told: dict[str, Any]) -> StoredTold:
    copy = told.get("copy") or {}
    gaps = tuple(msgspec.convert(one, GapTold) for one in told.get("lacks", ()))
    gone = told.get("settled", 0)
    return StoredTold(
        from_ns=told.get("from_ns", 0),
        complete_to_ns=told["complete_to_ns"],
        lacks=told.get("holes", 0) - gone,
        gone=gone,
        files=copy.get("files", 0),
        done=copy.get("done", 0),
        trouble=copy.get("trouble", ""),
        refused=told.get("refused", {}),
        gaps=gaps,
    )


def with_pace(before: Sequence[NodeTold], now: Sequence[NodeTold], passed_s: float) -> list[NodeTold]:
    """The nodes as they are now, with the time until all is here by what came since `before`."""
    behind = {one.node: one.behind for one in before}
    return [_paced(one, behind.get(one.node), passed_s) for one in now]


def _paced(one: NodeTold, before: int | None, passed_s: float) -> NodeTold:
    if not one.behind or before is None or before <= one.behind:
        return one
    return msgspec.structs.replace(one, caught_up_s=round(one.behind * passed_s / (before - one.behind), 1))


def heard_text(since_ns: int | None, wall_ns: int) -> str:
    """Whether a node is heard, and since when not."""
    if since_ns is None:
        return "live"
    return f"NOT HEARD {age_text(max(0, wall_ns - since_ns) // SECOND)}" if since_ns else "NEVER HEARD"


def pair_text(one: NodeTold) -> str:
    """Who leads a pair, and what is wrong with it; empty: it is none, or was never heard."""
    if not one.pair:
        return ""
    said = [f"{one.leads.rpartition('[')[2].rstrip(']') or '?'} leads"]
    if one.pair.get("at_risk") is None:
        said.append("state not known")
    words = {"at_risk": "AT RISK", "other_lost": "the other one LOST"}
    said += [word for name, word in words.items() if one.pair.get(name)]
    if silent := one.pair.get("voters_silent"):
        said.append(f"{silent:g} voters SILENT")
    return ", ".join(said)


def to_come_text(one: NodeTold, wall_ns: int) -> str:
    """Records that are still to come."""
    if not one.is_below:
        return "values only"
    if one.behind is None:
        return "not known"
    if one.behind == 0:
        return "all here"
    age_ns = max(0, wall_ns - one.complete_to_ns)
    text = f"{one.behind} to come"
    if age_ns < LATE_NS:
        return text
    until = "not catching up" if one.caught_up_s is None else f"here in {age_text(round(one.caught_up_s))}"
    return f"{text}, the oldest {age_text(age_ns // SECOND)} old; {until}"


def missing_text(one: NodeTold) -> str:
    """Words for what is missing of the node, in log and stored history; empty: nothing is, as far as is known."""
    parts = [f"{one.missing_in_log} records missing in the log"] if one.missing_in_log else []
    return ", ".join(parts + ([stored_text(one.stored)] if one.stored is not None and stored_text(one.stored) else []))


def stored_text(stored: StoredTold) -> str:
    """Words for what the stored history lacks; empty: nothing."""
    parts = []
    if stored.lacks:
        copied = f", {stored.done} of {stored.files} files copied" if stored.files else ""
        trouble = f", {stored.trouble}" if stored.trouble else ""
        parts.append(f"{stored.lacks} {_stretches(stored.lacks)} of history to come{copied}{trouble}")
    if stored.gone:
        parts.append(f"{stored.gone} {_stretches(stored.gone)} of history GONE")
    return ", ".join(parts)


def _stretches(count: int) -> str:
    return "stretch" if count == 1 else "stretches"


def missing_lines(one: NodeTold) -> list[str]:
    """All that is missing of a node, in sentences."""
    lines = []
    if one.set_back_ns:
        back = time_text(one.set_back_ns)
        lines.append(f"{one.node}: came back at {back} with less than is known here: a backup, or a new disk")
    if one.stores > 1:
        found = [*one.earlier, *([] if one.stored is None else [one.stored])]
        spans = ", ".join(f"{time_text(each.from_ns)} to {time_text(each.complete_to_ns)}" for each in found)
        lines.append(f"{one.node}: {one.stores} stores, joined in questions about its past: {spans}")
    if one.missing_in_log:
        lines.append(
            f"{one.node}: {one.missing_in_log} records were let go before they came: no log here will have them"
        )
    stored = one.stored
    if stored is None:
        return lines
    for gap in stored.gaps:
        state = "nobody has them any more" if gap.is_final else "asked for"
        lines.append(
            f"{one.node}: its stored history lacks rows from {time_text(gap.from_ns)} to {time_text(gap.to_ns)}"
            f" ({gap.reason}): {state}"
        )
    if stored.lacks:
        copied = f"{stored.done} of {stored.files} files copied" if stored.files else "not begun"
        lines.append(f"{one.node}: {copied}" + (f"; {stored.trouble}" if stored.trouble else ""))
    if stored.refused:
        listed = ", ".join(f"{count} {reason}" for reason, count in sorted(stored.refused.items()))
        lines.append(f"{one.node}: refused of what its history gave: {listed}")
    return lines


def age_text(seconds: int) -> str:
    """An age in its largest unit."""
    if seconds < 100:
        return f"{seconds} s"
    return f"{seconds // 60} m" if seconds < 6_000 else f"{seconds // 3_600} h"
