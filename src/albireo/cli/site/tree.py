"""Tree and changes of topologies as `albireo topology show` and `diff` tell them.

Each node stands there with what it runs, and with its health if it was asked.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from albireo.cli.below.nodes import NodeTold, heard_text, missing_text, nodes_told, to_come_text
from albireo.cli.display import counted
from albireo.cli.node.page import StatusAnswer, page_of
from albireo.codec.topology.changes import TopologyChange
from albireo.codec.topology.meaning import topology_hash
from albireo.codec.topology.topology import LoadedTopology
from albireo.model.topology import FaceConfig, GroupConfig, NodeConfig, WitnessConfig, places_of
from albireo.model.tree.node_row import NodeRow
from albireo.model.tree.nodes import dialled, subtree, wanted_from_above

NOT_ASKED: Final = "not asked"
VALUE_CHARS_MAX: Final = 60
"""Characters of a value in the line of a change; `--json` has it whole."""


class NodeHealth(msgspec.Struct, frozen=True, kw_only=True):
    """How a node is."""

    state: str = NOT_ASKED
    """`answers`, `not asked`, or what the node that is asked says of it: `heard`, `not heard`."""
    seen_by: str = ""
    """Node that says so; empty: it was asked itself, or nobody was."""
    stale_since_ns: int | None = None
    """Wall time since which nothing was heard of it, as another node says; 0: never; null: it is heard, or unknown."""
    behind: int | None = None
    """Number of its records that are still to come there; null: not known."""
    leads: str = ""
    """Sentence that says who leads; of a node that another one sees, how it is heard there and what is to come."""
    is_safe: bool | None = None
    """Whether each new record is kept in as many places as it should be; null: not known."""
    wrong: tuple[str, ...] = ()
    """Troubles, one sentence each."""
    hash: str = ""
    """Hash of the topology by which it runs; empty: not known."""


class PlaceShown(msgspec.Struct, frozen=True, kw_only=True):
    """A place and its address."""

    name: str
    endpoint: str


class AdapterShown(msgspec.Struct, frozen=True, kw_only=True):
    """An adapter of a node."""

    name: str
    kind: str
    url: str
    label: str
    items: int
    """Number of items in its tables; of an adapter that knows its own items, 0."""


class NodeShown(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the tree."""

    id: str
    parent: str
    kind: str
    """`lone` or `pair`."""
    label: str
    description: str
    places: tuple[PlaceShown, ...]
    """The node itself, or the members of a pair."""
    voters: tuple[str, ...]
    adapters: tuple[AdapterShown, ...]
    items: int
    faces: tuple[FaceConfig, ...]
    objects: tuple[str, ...]
    """Names of its objects."""
    dials: tuple[PlaceShown, ...]
    """Places that it dials: its parent."""
    wants: tuple[str, ...]
    """Nodes outside its subtree whose current values it asks for."""
    health: NodeHealth


class TreeShown(msgspec.Struct, frozen=True, kw_only=True):
    """The whole tree."""

    file: str
    hash: str
    cluster: str
    nodes: tuple[NodeShown, ...]
    """Each node before those below it."""
    witnesses: tuple[WitnessConfig, ...]
    groups: tuple[GroupConfig, ...]

    def lines(self) -> Iterator[str]:
        """The tree for people."""
        yield f"{self.file}: {counted(len(self.nodes), 'node')}, hash {self.hash[:12]}"
        below: dict[str, list[NodeShown]] = {}
        for node in self.nodes:
            below.setdefault(node.parent, []).append(node)
        yield from _branch(below[""][0], below, "", "")
        yield from (f"witness {one.name}  {one.endpoint}" for one in self.witnesses)
        yield from (f"group {one.label}: {', '.join(one.members)}" for one in self.groups)


def tree_of(file: str, loaded: LoadedTopology, health: Mapping[str, NodeHealth]) -> TreeShown:
    """The tree of a topology.

    Args:
        health: of the nodes that were asked, by their ids.
    """
    topology = loaded.topology
    root = next(node.id for node in topology.node if not node.parent)
    return TreeShown(
        file=file,
        hash=topology_hash(loaded),
        cluster=topology.cluster,
        nodes=tuple(_shown(node, loaded, health.get(node.id, NodeHealth())) for node in subtree(topology, root)),
        witnesses=topology.witness,
        groups=topology.group,
    )


def health_of(status: StatusAnswer, hashed: str, file: str) -> NodeHealth:
    """Health of a node by what it answers.

    Args:
        hashed: hash of the topology by which it runs; empty: not known.
        file: hash of the topology that is shown.
    """
    page = page_of(status)
    wrong = (f"{one.what}: {one.todo}" if one.todo else one.what for one in page.wrong)
    return NodeHealth(
        state="answers",
        leads=page.leads,
        is_safe=page.is_safe,
        wrong=(*wrong, *_other_file(hashed, file)),
        hash=hashed,
    )


def seen_health(
    asked: str, stats: dict[str, Any] | None, rows: Sequence[NodeRow], wall_ns: int, file: str
) -> dict[str, NodeHealth]:
    """Health of the other nodes as the node that is asked sees them, by their ids.

    Args:
        asked: id of that node.
        stats: figures of its history; None: it does not answer.
        rows: what it answers to `albireo tree`.
        wall_ns: the time now.
        file: hash of the topology that is shown.
    """
    told = nodes_told(asked, rows, stats)
    return {one.node: _seen(asked, one, row, wall_ns, file) for one, row in zip(told, rows, strict=True)}


def _seen(asked: str, one: NodeTold, row: NodeRow, wall_ns: int, file: str) -> NodeHealth:
    missing = missing_text(one)
    is_told = one.is_heard and not (one.is_below and one.behind is None)  # A passive member follows no log.
    to_come = f", {to_come_text(one, wall_ns)}" if is_told else ""
    return NodeHealth(
        state="heard" if one.is_heard else "not heard",
        leads=f"{heard_text(one.stale_since_ns, wall_ns)} as {asked} sees it{to_come}",
        wrong=(*filter(None, (one.trouble, missing)), *_other_file(row.topology_hash, file)),
        hash=row.topology_hash,
        seen_by=asked,
        stale_since_ns=one.stale_since_ns,
        behind=one.behind,
    )


def _other_file(hashed: str, file: str) -> Iterator[str]:
    if hashed not in ("", file):
        yield f"it runs by another file, hash {hashed[:12]}: albireo topology apply"


def _shown(node: NodeConfig, loaded: LoadedTopology, health: NodeHealth) -> NodeShown:
    topology = loaded.topology
    counts = {one["name"]: len(one["items"]) for one in loaded.arguments[node.id]}
    return NodeShown(
        id=node.id,
        parent=node.parent,
        kind="pair" if node.is_pair else "lone",
        label=node.label,
        description=node.description,
        places=tuple(PlaceShown(name=one.name, endpoint=one.endpoint) for one in places_of(node)),
        voters=node.voters,
        adapters=tuple(
            AdapterShown(name=one.name, kind=one.kind, url=one.url, label=one.label, items=counts[one.name])
            for one in node.adapter
        ),
        items=sum(counts.values()),
        faces=node.face,
        objects=tuple(one.name for one in node.object),
        dials=tuple(PlaceShown(name=name, endpoint=at) for name, at in dialled(topology, node.id).items()),
        wants=tuple(one.id for one in wanted_from_above(topology, node.id)),
        health=health,
    )


def _branch(node: NodeShown, below: Mapping[str, list[NodeShown]], first: str, rest: str) -> Iterator[str]:
    """Lines of a node and of all below it: the first behind `first`, the others behind `rest`."""
    yield first + _title(node)
    nodes = below.get(node.id, [])
    stem = "|    " if nodes else "     "
    yield from (f"{rest}{stem}{line}" for line in _facts(node))
    for at, one in enumerate(nodes):
        is_last = at == len(nodes) - 1
        yield from _branch(one, below, f"{rest}{'`- ' if is_last else '|- '}", f"{rest}{'   ' if is_last else '|  '}")


def _title(node: NodeShown) -> str:
    health = node.health.leads or node.health.state
    if node.health.is_safe is not None:
        health += ", SAFE" if node.health.is_safe else ", NOT SAFE"
    label = f'  "{node.label}"' if node.label else ""
    return f"{node.id}{label}  {node.kind}, {counted(node.items, 'item')}; {health}"


def _facts(node: NodeShown) -> Iterator[str]:
    for place in node.places:
        if place.endpoint:
            yield f"{place.name}  {place.endpoint}"
    if node.voters:
        yield f"voters {', '.join(node.voters)}"
    for one in node.adapters:
        url = f", {one.url}" if one.url else ""
        yield f"adapter {one.name}  {one.kind}{url}, {counted(one.items, 'item')}"
    yield from (f"face {one.name}  {one.kind}{f', {one.member}' * bool(one.member)}" for one in node.faces)
    if node.objects:
        yield f"objects {', '.join(node.objects)}"
    if node.wants:
        yield f"wants values of {', '.join(node.wants)}"
    yield from (f"! {line}" for line in node.health.wrong)


def change_text(change: TopologyChange) -> str:
    """A change between two topologies, in one line."""
    of = f" of {change.node}" if change.node and change.what != "node" else ""
    name = change.name or (change.node if change.what == "node" else "")
    values = ""
    if change.what != "node" and change.how == "changed":
        values = f": {_value(change.old)} -> {_value(change.new)}"
    takes = f"restart {', '.join(change.restart)}" if change.restart else "no restart"
    if change.started_anew:
        takes = f"no restart, {', '.join(change.started_anew)} starts anew"
    return f"{change.how} {change.what} {name}{of}{values} ({takes}{f'; {change.because}' if change.because else ''})"


def _value(value: object) -> str:
    text = "(default)" if value is None else msgspec.json.encode(value, order="sorted").decode()
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[: VALUE_CHARS_MAX - 3]}..."
