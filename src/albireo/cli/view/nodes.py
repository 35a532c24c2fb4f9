"""The nodes in the live view: one line each, with what is wrong with it first. No I/O.

A node that is not heard never looks live: it is marked, and so are the values of its items.
"""

from collections.abc import Iterable

import msgspec

from albireo.cli.below.nodes import LATE_NS, NodeTold, age_text, heard_text, missing_text, nodes_told
from albireo.cli.display import clock_text
from albireo.cli.view.state import LiveState, is_put_away
from albireo.model import quality
from albireo.model.instant import SECOND


class NodeCounts(msgspec.Struct):
    """Numbers of the items and cases of one node."""

    items: int = 0
    bad: int = 0
    forced: int = 0
    alarms: int = 0
    unacked: int = 0


def away_text(node: str, since_ns: int, wall_ns: int) -> str:
    """A node that is not heard, and for how long."""
    return f"{node} for {age_text(max(0, wall_ns - since_ns) // SECOND)}" if since_ns else f"{node} (never in this run)"


def counts_of(live: LiveState) -> dict[str, NodeCounts]:
    """Items and cases of each node that is shown."""
    found = {node: NodeCounts() for node in live.nodes}
    for item_id, known in live.items.items():
        one = found.setdefault(known.node, NodeCounts())
        current = live.values.get(item_id)
        one.items += 1
        one.bad += current is not None and quality.is_bad(current.quality)
        one.forced += known.item.name in live.forced
    for case in live.cases.values():
        one = found.setdefault(live.node_of(case), NodeCounts())
        one.alarms += 1
        one.unacked += not case.is_acked and not is_put_away(case)
    return found


def node_lines(live: LiveState, wall_ns: int, *, is_silent: bool) -> list[tuple[str, str]]:
    """Mark and text of each node that is shown.

    Args:
        is_silent: the node that is asked is not heard, so nothing here is of now.
    """
    told = {one.node: one for one in nodes_told(live.asked, list(live.rows.values()), live.status.stats)}
    counts = counts_of(live)
    nodes = live.nodes
    width = max((len(node) for node in nodes), default=0)
    lines = []
    for node in nodes:
        one = told.get(node)
        mark, state = _state(live, node, one, wall_ns, is_silent=is_silent)
        text = "  ".join([f"{node:<{width}}", f"{state:<14}", *_facts(one, counts[node], wall_ns)])
        lines.append((mark, text))
    return lines


def _state(live: LiveState, node: str, told: NodeTold | None, wall_ns: int, *, is_silent: bool) -> tuple[str, str]:
    if is_silent:
        return "?  ", "not known now"
    if node == live.asked:
        return "   ", "asked here"
    since_ns = live.stale.get(node)
    if since_ns is None and told is not None:
        since_ns = told.stale_since_ns
    is_well = since_ns is None and (told is None or not told.trouble)
    return "   " if is_well else "!! ", heard_text(since_ns, wall_ns)


def _facts(told: NodeTold | None, counts: NodeCounts, wall_ns: int) -> Iterable[str]:
    if counts.alarms:
        unacked = f" ({counts.unacked} UNACKED)" if counts.unacked else ""
        yield f"alarms {counts.alarms}{unacked}"
    if counts.bad:
        yield f"{counts.bad} bad"
    if counts.forced:
        yield f"{counts.forced} forced"
    if told is not None and told.is_below:
        late = wall_ns - told.complete_to_ns > LATE_NS
        yield f"complete to {clock_text(told.complete_to_ns)}" + (_late(told, wall_ns) if late else "")
        if missing := missing_text(told):
            yield missing
        if told.trouble:
            yield told.trouble
    yield f"{counts.items} items"


def _late(told: NodeTold, wall_ns: int) -> str:
    """How old the watermark is, and how much is to come."""
    if not told.complete_to_ns:
        return ""
    to_come = f", {told.behind} to come" if told.behind else ""
    return f" ({age_text((wall_ns - told.complete_to_ns) // SECOND)} ago{to_come})"
