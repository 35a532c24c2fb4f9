"""Requests: what a client asks a node, and how it understands the answers; the same for threads and for coroutines.

The questions are listed in docs/node-protocol.md.
"""

import fnmatch
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from albireo.client.conversation import Conversation, understood
from albireo.client.errors import NodeRefused
from albireo.client.history import ToldRows, pieces
from albireo.client.live import matches
from albireo.client.questions import Request, milliseconds
from albireo.codec.questions.pieces import PIECE_ENTRIES_MAX
from albireo.model.case import Action, Case, ItemCase
from albireo.model.command import ItemSelection, Receipt
from albireo.model.force import ForcedItem
from albireo.model.instant import SECOND
from albireo.model.item import DataItem, KnownItem, Reading
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.tree.node_names import nodes_meant
from albireo.model.tree.node_row import NodeRow
from albireo.model.tree.session import SessionRow
from albireo.model.value import Value

if TYPE_CHECKING:
    import pyarrow as pa

_Row = TypeVar("_Row")

GRACE_S: Final = 5.0
"""The answer of a command that runs out comes this much later than its time at most."""
NAMES_MAX: Final = PIECE_ENTRIES_MAX
"""Names in one question: as many rows as a node gives in one piece."""
WILD: Final = frozenset("*?[")
"""Characters that make a name a pattern."""
END_S: Final = 20.0
"""Longest time until it is known whether a session at a node below was ended."""
ACTION_S: Final = 20.0
"""Longest time that an action which has to be committed may take."""


class ItemReading(msgspec.Struct, frozen=True, kw_only=True):
    """An item with its latest reading."""

    name: str
    """Full name, `<node>:<name>`."""
    item_id: int
    item: DataItem
    reading: Reading


class _Rows(msgspec.Struct, kw_only=True):
    """One piece of a long answer of CORE."""

    next: str
    rows: list[Any]


def tree() -> Conversation[list[NodeRow]]:
    """The other nodes."""
    reply = yield Request(what="tree")
    return understood("tree", reply.result, list[NodeRow])


def by_node(patterns: Sequence[str]) -> Conversation[dict[str, list[str]]]:
    """Names and patterns by the node whose items they mean; "": the node that is asked.

    The part before the colon is a node's id, its end (`north` for `root/north`), or a pattern of either.
    """
    found: dict[str, list[str]] = {}
    rows = (yield from tree()) if any(":" in one for one in patterns) else []
    for one in patterns:
        head, _, local = one.rpartition(":")
        below = _called(head, [row.node for row in rows])
        for node in below:
            found.setdefault(node, []).append(local)
        if not below or WILD.intersection(head):
            found.setdefault("", []).append(one)
    return found


def _called(pattern: str, nodes: Sequence[str]) -> list[str]:
    """Those of these nodes that a pattern of ids or of their ends means; the end of one: unless it is a whole id."""
    if not WILD.intersection(pattern):
        return nodes_meant(pattern, nodes)
    return [one for one in nodes if fnmatch.fnmatchcase(one, pattern) or fnmatch.fnmatchcase(one, f"*/{pattern}")]


def _surely_called(pattern: str, nodes: Sequence[str]) -> list[str]:
    """As `_called`.

    Raises:
        NodeRefused: none of them is meant.
    """
    if found := _called(pattern, nodes):
        return found
    remedy = f"name one by its id or the end of it; there are: {', '.join(nodes) or 'none'}"
    raise NodeRefused("tree", Refusal(RefusalCode.UNKNOWN_NODE, f"no node is called {pattern!r} here", remedy))


def items(patterns: Sequence[str]) -> Conversation[list[ItemReading]]:
    """Items with their readings, by name."""
    found: list[ItemReading] = []
    wanted = yield from by_node(patterns)
    for node, some in wanted.items():
        found += yield from _items_of(node, some)
    return sorted(found, key=lambda one: one.name)


def _of(node: str) -> dict[str, object]:
    """Arguments that name a node below."""
    return {"node": node} if node else {}


def _items_of(node: str, patterns: Sequence[str]) -> Conversation[list[ItemReading]]:
    known = yield from _known(node, patterns)
    if "*" in patterns:
        found = yield from _all_rows("read", list[Reading], **_of(node))
    else:
        found = yield from _readings_of(node, [one.full_name for one in known])
    by_id = {one.item_id: one for one in found}
    return [
        ItemReading(name=one.full_name, item_id=one.item_id, item=one.item, reading=by_id[one.item_id])
        for one in known
        if one.item_id in by_id
    ]


def _known(node: str, patterns: Sequence[str]) -> Conversation[list[KnownItem]]:
    """Declarations of the items. Names are asked for by themselves: a node may have very many items."""
    if not patterns:  # To a node no names are all names.
        return []
    if len(patterns) <= NAMES_MAX and not any(WILD.intersection(one) for one in patterns):
        try:
            reply = yield Request(what="items", arguments={"names": list(patterns), **_of(node)})
            return list({one.item_id: one for one in understood("items", reply.result, list[KnownItem])}.values())
        except NodeRefused:
            pass  # One of them is none: those that there are come out of the whole list.
    listed = yield from _all_rows("items", list[KnownItem], **_of(node))
    return [one for one in listed if matches(one, patterns)]


def _all_rows(what: str, shape: type[list[_Row]], **arguments: object) -> Conversation[list[_Row]]:
    """All rows of an answer that CORE gives in pieces."""
    found: list[_Row] = []
    cursor = ""
    while True:
        piece = {**arguments, "cursor": cursor, "rows_max": PIECE_ENTRIES_MAX}
        reply = yield Request(what=what, arguments=piece)
        rows = understood(what, reply.result, _Rows)
        found += understood(what, rows.rows, shape)
        cursor = rows.next
        if not cursor:
            return found


def readings(names: Sequence[str]) -> Conversation[list[Reading]]:
    """Latest readings of these items, in this sequence. Most often all are of the node that is asked."""
    try:
        return (yield from _readings_of("", names))
    except NodeRefused:
        rows = (yield from tree()) if any(":" in one for one in names) else []
        if not rows:
            raise
    groups: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        head = name.rpartition(":")[0]
        below = nodes_meant(head, [row.node for row in rows])
        node = below[0] if len(below) == 1 else head * bool(below)  # Whoever is asked says which ones it may be.
        groups.setdefault(node, []).append(place)
    found: dict[int, Reading] = {}
    for node, places in groups.items():
        wanted = [names[place].rpartition(":")[2] if node else names[place] for place in places]
        told = yield from _readings_of(node, wanted)
        found |= dict(zip(places, told, strict=False))
    return [found[place] for place in sorted(found)]


def _readings_of(node: str, names: Sequence[str]) -> Conversation[list[Reading]]:
    found: list[Reading] = []
    for first in range(0, len(names), NAMES_MAX):
        some = list(names[first : first + NAMES_MAX])
        reply = yield Request(what="read", arguments={"names": some, **_of(node)})
        found += understood("read", reply.result, list[Reading])
    return found


def write(
    item: str, value: Value, user: str, reason: str, expires_s: float, selection: ItemSelection | None
) -> Conversation[Receipt]:
    """Order a write."""
    arguments: dict[str, Any] = {
        "item": item,
        "value": value,
        "command_id": str(uuid.uuid4()),
        "user": user,
        "reason": reason,
        "expires_ms": milliseconds(expires_s),
    }
    if selection is not None:
        arguments["selection"] = selection.selection_id
    reply = yield Request(what="write", arguments=arguments, wait_s=expires_s + GRACE_S)
    return understood("write", reply.result, Receipt)


def selections(pattern: str) -> Conversation[list[ItemSelection]]:
    """Selected items of this node and of those that it knows, by name; `pattern`: only of nodes that it means."""
    found: list[ItemSelection] = []
    for node in (yield from _meant(pattern)):
        found += yield from _all_rows("selections", list[ItemSelection], **_of(node))
    return sorted(found, key=lambda one: one.item)


def _meant(pattern: str) -> Conversation[list[str]]:
    """Nodes that a pattern means, of which there must be one; "": the one that is asked."""
    own = str((yield Request(what="status")).result["node"])
    nodes = [own, *(row.node for row in (yield from tree()))]
    return ["" if one == own else one for one in _surely_called(pattern, nodes)]


def force(item: str, value: Value, user: str, reason: str, for_s: float) -> Conversation[ForcedItem]:
    """Put a value to an item."""
    arguments = {"item": item, "value": value, "user": user, "reason": reason, "for_ms": milliseconds(for_s)}
    reply = yield Request(what="force", arguments=arguments, wait_s=ACTION_S)
    return understood("force", reply.result, ForcedItem)


def release(item: str, user: str, reason: str) -> Conversation[None]:
    """End the force of an item."""
    yield Request(what="force_release", arguments={"item": item, "user": user, "reason": reason}, wait_s=ACTION_S)


def sessions(pattern: str) -> Conversation[list[SessionRow]]:
    """Sessions of this node and of those below, by node and id; `pattern`: only of nodes that it means."""
    found: list[SessionRow] = []
    for node in (yield from _meant(pattern)):
        found += yield from _all_rows("sessions", list[SessionRow], **_of(node))
    return sorted(found, key=lambda one: (one.node, one.session_id))


def end_session(session: SessionRow | int, user: str, reason: str, node: str) -> Conversation[None]:
    """End a session. `node`: the node that has it, by its id or the end of that; empty: the one that is asked.

    A row says itself which node has it.
    """
    number, where = (session.session_id, session.node) if isinstance(session, SessionRow) else (session, node)
    asked = {"session_id": number, "reason": reason, "user": user}
    at = (yield from node_of(where)) if where else ""
    yield Request(what="session_end", arguments=asked | _of(at), wait_s=END_S)


def forces() -> Conversation[list[ForcedItem]]:
    """Forced items of the node that is asked and of those below, by name."""
    found = yield from _all_rows("forces", list[ForcedItem])
    for row in (yield from tree()):
        found += yield from _all_rows("forces", list[ForcedItem], node=row.node)
    return sorted(found, key=lambda one: one.item)


def cases(node: str = "", *, include_closed: bool) -> Conversation[list[ItemCase]]:
    """Cases of a node below ("": of the node that is asked), the most severe first."""
    found = yield from _all_rows("cases", list[ItemCase], include_closed=include_closed, **_of(node))
    return sorted(found, key=lambda one: (-one.severity, -one.case_id))


def nodes_of(patterns: Sequence[str]) -> Conversation[list[str]]:
    """Other nodes that these name; of a pattern other than `*` there must be one."""
    known = [row.node for row in (yield from tree())]
    found = {node for one in patterns for node in (known if one == "*" else _surely_called(one, known))}
    return [one for one in known if one in found]


def node_of(name: str) -> Conversation[str]:
    """Id of the other node that a name means, by its end too; the name itself if none here is called so, or several.

    The node that is asked says then what is known to it.
    """
    found = nodes_meant(name, [row.node for row in (yield from tree())])
    return found[0] if len(found) == 1 else name


def seen_activation(case: Case | int, activation: int | None) -> tuple[int, int]:
    """Case id, and the activation that somebody saw: that of the case at hand, unless another is named."""
    if isinstance(case, Case):
        return case.case_id, case.activations if activation is None else activation
    return case, 1 if activation is None else activation


def act(
    action: Action,
    case_id: int,
    user: str,
    comment: str,
    duration_s: float | None = None,
    activation: int = 1,
    node: str = "",
) -> Conversation[list[Case]]:
    """Act on a case; the cases that changed, none if it is one of another node."""
    arguments: dict[str, Any] = {"action": action.value, "case_id": case_id, "user": user, "comment": comment}
    if node:
        arguments["node"] = yield from node_of(node)
    if action is Action.ACK:
        arguments["activation"] = activation
    if duration_s is not None:
        arguments["duration_ms"] = milliseconds(duration_s)
    elif action is Action.SHELVE:
        arguments["action"] = Action.SHELVE_ONCE.value
    reply = yield Request(what="case_action", arguments=arguments, wait_s=ACTION_S)
    return understood("case_action", reply.result, list[Case])


def status(member: int | None) -> Conversation[dict[str, Any]]:
    """State of the node, as it says it itself."""
    reply = yield Request(what="status", member=member)
    return understood("status", reply.result, dict[str, Any])


class Summing(msgspec.Struct, frozen=True, kw_only=True):
    """How rows of the history are summed up."""

    aggregate: str = ""
    """Name of the aggregate; empty: the rows themselves."""
    every_s: float = 0.0
    """Length of an interval."""
    uncertain_is_good: bool = False
    only_raw: bool = False


class Extent(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a long answer is wanted, and who hears how far it is."""

    cursor: str = ""
    limit: int | None = None
    told: ToldRows | None = None
    node: str = ""
    """Node below whose history is asked; empty: the one that the items' names say, or the node itself."""

    @property
    def place(self) -> dict[str, str]:
        """The node as an argument."""
        return {"node": self.node} if self.node else {}


def history(
    wanted: str | int | Sequence[str | int],
    start: datetime | int,
    end: datetime | int | None,
    summing: Summing,
    extent: Extent,
) -> Conversation["pa.Table"]:
    """Rows of items, or an aggregate of them per interval."""
    listed = [wanted] if isinstance(wanted, str | int) else list(wanted)
    arguments = {
        "names": [one for one in listed if isinstance(one, str)],
        "item_ids": [one for one in listed if isinstance(one, int)],
        "from_ns": wall_ns(start),
        "to_ns": wall_ns(end),
        "aggregate": summing.aggregate,
        "bucket_ns": round(summing.every_s * SECOND),
        "uncertain_is_good": summing.uncertain_is_good,
        "only_raw": summing.only_raw,
        "cursor": extent.cursor,
        **extent.place,
    }
    return pieces("history_piece", arguments, extent.limit, extent.told)


def events(
    start: datetime | int, end: datetime | int | None, kind: str, item_ids: Sequence[int], extent: Extent
) -> Conversation["pa.Table"]:
    """The journal."""
    arguments = {
        "from_ns": wall_ns(start),
        "to_ns": wall_ns(end),
        "kind": kind,
        "item_ids": list(item_ids),
        "cursor": extent.cursor,
        **extent.place,
    }
    return pieces("events_piece", arguments, extent.limit, extent.told)


def gaps(
    start: datetime | int, end: datetime | int | None, item_ids: Sequence[int], extent: Extent
) -> Conversation["pa.Table"]:
    """Gap records that touch the range, and one of the items if some are named."""
    arguments = {"from_ns": wall_ns(start), "to_ns": wall_ns(end), "item_ids": list(item_ids), **extent.place}
    return pieces("gaps_piece", arguments)


def patterns_of(names: str | Sequence[str]) -> list[str]:
    """One name or pattern, or several."""
    return [names] if isinstance(names, str) else list(names)


def wall_ns(moment: datetime | int | None) -> int:
    """Wall time in ns: of a datetime, UTC if it names no zone; None: now."""
    if isinstance(moment, int):
        return moment
    if moment is None:
        moment = datetime.now(UTC)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    since = moment - datetime.fromtimestamp(0, UTC)
    return (since // timedelta(seconds=1)) * SECOND + since.microseconds * 1000
