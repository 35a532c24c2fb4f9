"""Nodes: what a client asks about a node, its items, and the nodes below."""

import fnmatch
from collections.abc import Sequence
from typing import Final

import msgspec

from albireo.client.conversation import Conversation, all_rows, asks, patterns_of
from albireo.client.conversed import AnyClient, conversed
from albireo.client.errors import NodeRefused
from albireo.client.live import matches
from albireo.client.questions import NodeReply, Request
from albireo.codec.questions.kind import AnswerT, Nothing, QuestionKind, ShapeT
from albireo.codec.questions.node import ITEMS, READ, STATUS, TREE, ItemsAsked
from albireo.codec.questions.pieces import PIECE_ENTRIES_MAX
from albireo.model.item import DataItem, KnownItem, Reading, name_parts
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.status import NodeStatus
from albireo.model.tree.node_names import nodes_meant
from albireo.model.tree.node_row import NodeRow

NAMES_MAX: Final = PIECE_ENTRIES_MAX
"""Names in one question: as many rows as a node gives in one piece."""
WILD: Final = frozenset("*?[")
"""Characters that make a name a pattern."""


class ItemReading(msgspec.Struct, frozen=True, kw_only=True):
    """An item with its latest reading."""

    name: str
    """Full name, `<node>:<name>`."""
    item_id: int
    item: DataItem
    reading: Reading


class NodeClient(AnyClient):
    """A client, as far as it asks about nodes and items."""

    @conversed
    def items(self, pattern: str | Sequence[str] = "*") -> Conversation[list[ItemReading]]:
        """Items with their readings, by name.

        Args:
            pattern: full or local names, with * and ?. `north:*` names a node below by its id or the end of it, and
                `*:*` means the items of all nodes; without a colon those of the node that is asked are meant.
        """
        found: list[ItemReading] = []
        for node, some in (yield from by_node(patterns_of(pattern))).items():
            found += yield from _items_of(node, some)
        return sorted(found, key=lambda one: one.name)

    @conversed
    def tree(self) -> Conversation[list[NodeRow]]:
        """The other nodes known here: whether they are heard, and of those below how much of their log lies here."""
        return tree()

    @conversed
    def status(self, member: int | None = None) -> Conversation[NodeStatus]:
        """State of the node as the acting member tells it, or this one."""
        return asks(STATUS, Nothing(), member=member)

    @conversed
    def ask(
        self,
        what: str,
        /,
        *,
        of: str = "core",
        member: int | None = None,
        timeout_s: float | None = None,
        **arguments: object,
    ) -> Conversation[object]:
        """The answer to one question of docs/node-protocol.md, as the node gives it.

        Args:
            of: part of the node that is asked: `core`, `history`, `boot`.
            member: member that is asked, acting or not; None: the one that acts.
            timeout_s: time that the answer may take; None: that of the client.
        Raises:
            NodeUnreachable, NodeRefused, and what is below them.
        """
        return (yield Request(what=what, arguments=arguments, of=of, member=member, wait_s=timeout_s)).result

    @conversed
    def ask_parts(
        self,
        what: str,
        /,
        *,
        of: str = "core",
        member: int | None = None,
        timeout_s: float | None = None,
        **arguments: object,
    ) -> Conversation[NodeReply]:
        """As `ask`, with the raw parts of the answer."""
        return (yield Request(what=what, arguments=arguments, of=of, member=member, wait_s=timeout_s))

    @conversed
    def ask_kind(
        self,
        kind: QuestionKind[ShapeT, AnswerT],
        asked: ShapeT,
        timeout_s: float | None = None,
        member: int | None = None,
    ) -> Conversation[AnswerT]:
        """The answer to a question of the list, as a value. Arguments: as `ask`.

        Raises: as `ask`, and AnswerNotUnderstood.
        """
        return asks(kind, asked, timeout_s, member)


def tree() -> Conversation[list[NodeRow]]:
    """The other nodes."""
    return asks(TREE, Nothing())


def by_node(patterns: Sequence[str]) -> Conversation[dict[str, list[str]]]:
    """Names and patterns by the node whose items they mean; "": the node that is asked.

    The part before the colon is a node's id, its end (`north` for `root/north`), or a pattern of either.
    """
    found: dict[str, list[str]] = {}
    rows = (yield from tree()) if any(":" in one for one in patterns) else []
    for one in patterns:
        head, local = name_parts(one)
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


def _items_of(node: str, patterns: Sequence[str]) -> Conversation[list[ItemReading]]:
    known = yield from _known(node, patterns)
    if "*" in patterns:
        found = yield from all_rows(READ, ItemsAsked(node=node))
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
            named = yield from asks(ITEMS, ItemsAsked(names=tuple(patterns), node=node))
            return list({one.item_id: one for one in named}.values())
        except NodeRefused:
            pass  # One of them is none: those that there are come out of the whole list.
    listed = yield from all_rows(ITEMS, ItemsAsked(node=node))
    return [one for one in listed if matches(one, patterns)]


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
        head, _ = name_parts(name)
        below = nodes_meant(head, [row.node for row in rows])
        node = below[0] if len(below) == 1 else head * bool(below)  # Whoever is asked says which ones it may be.
        groups.setdefault(node, []).append(place)
    found: dict[int, Reading] = {}
    for node, places in groups.items():
        wanted = [name_parts(names[place])[1] if node else names[place] for place in places]
        told = yield from _readings_of(node, wanted)
        found |= dict(zip(places, told, strict=False))
    return [found[place] for place in sorted(found)]


def _readings_of(node: str, names: Sequence[str]) -> Conversation[list[Reading]]:
    found: list[Reading] = []
    for first in range(0, len(names), NAMES_MAX):
        found += yield from asks(READ, ItemsAsked(names=tuple(names[first : first + NAMES_MAX]), node=node))
    return found


def listed_nodes(pattern: str) -> Conversation[list[str]]:
    """Nodes whose rows a list is to have; "": the one that is asked. Of a pattern there must be one."""
    own = (yield from asks(STATUS, Nothing())).node
    nodes = [own, *(row.node for row in (yield from tree()))]
    return ["" if one == own else one for one in _surely_called(pattern, nodes)]


def nodes_of(patterns: Sequence[str]) -> Conversation[list[str]]:
    """Other nodes that these name; of a pattern other than `*` there must be one."""
    known = [row.node for row in (yield from tree())]
    found = {node for one in patterns for node in (known if one == "*" else _surely_called(one, known))}
    return [one for one in known if one in found]


def node_of(name: str) -> Conversation[str]:
    """Id of the other node that a name means, by its end too; the name itself if none here is called so, or several.

    The node that is asked says then what is known to it. Empty: it itself, and nobody is asked.
    """
    if not name:
        return ""
    found = nodes_meant(name, [row.node for row in (yield from tree())])
    return found[0] if len(found) == 1 else name
