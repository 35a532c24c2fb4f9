"""Checks of objects and groups in a topology: what people are led to is there.

Items that an adapter, CORE or a program declares by itself are not in the file. A pattern that begins with the name of
an adapter, with `core/` or `pair/`, is therefore not judged.
"""

import fnmatch
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from albireo.codec.topology.mistakes import Findings, KeyPath, did_you_mean
from albireo.model.topology import NodeConfig, Topology
from albireo.model.tree.navigation import Navigation, PlantGroup, PlantObject

PUBLISHERS: Final = frozenset({"core", "pair", "host"})
"""First parts of the names of items that a node declares by itself."""
_SIGNS: Final = frozenset("*?[")


class KnownItems(msgspec.Struct, frozen=True, kw_only=True):
    """Names of the items of a node, as far as its files tell."""

    names: frozenset[str]
    is_all: bool
    """False: an adapter of the node knows its own items, so others may be there too."""


def items_of(patterns: Iterable[str], names: Iterable[str]) -> tuple[str, ...]:
    """Names that one of the patterns matches, in their order."""
    wanted = tuple(patterns)
    return tuple(name for name in names if any(fnmatch.fnmatchcase(name, one) for one in wanted))


def navigation_of(topology: Topology, node_id: str) -> Navigation:
    """Navigation at a node: it and those below it."""
    objects: list[PlantObject] = []
    for node in topology.node:
        if node.id == node_id or node.id.startswith(f"{node_id}/"):
            objects.append(PlantObject(node=node.id, label=node.label, description=node.description))
            objects += [
                PlantObject(node=node.id, name=one.name, label=one.label, description=one.description, items=one.items)
                for one in node.object
            ]
    groups = [PlantGroup(label=one.label, description=one.description, members=one.members) for one in topology.group]
    return Navigation(objects=tuple(objects), groups=tuple(groups))


def check_navigation(topology: Topology, known: Mapping[str, KnownItems], found: Findings) -> None:
    """Check objects, then groups.

    Args:
        known: items of each node, by its id.
    """
    for index, node in enumerate(topology.node):
        _check_objects(node, ("node", index, "object"), known[node.id], found)
    nodes = {node.id: node for node in topology.node}
    objects = {node.id: [one.name for one in node.object] for node in topology.node}
    labels: set[str] = set()
    for index, group in enumerate(topology.group):
        path = ("group", index)
        if group.label in labels:
            found.add((*path, "label"), f"the group {group.label!r} is there twice", "Rename one.")
        labels.add(group.label)
        seen: set[str] = set()
        for at, member in enumerate(group.members):
            where = (*path, "members", at)
            node_id, _, behind = member.partition(":")
            if member in seen:
                found.add(where, f"{member} stands there twice", "Name it once.")
            elif node_id not in nodes:
                found.add(where, f"the node {node_id} is not there", did_you_mean(node_id, nodes))
            elif behind and behind not in objects[node_id]:
                check_pattern(behind, nodes[node_id], known[node_id], where, found, objects[node_id])
            seen.add(member)


def _check_objects(node: NodeConfig, path: KeyPath, known: KnownItems, found: Findings) -> None:
    names: set[str] = set()
    for at, one in enumerate(node.object):
        where = (*path, at)
        if one.name in names:
            found.add((*where, "name"), f"{node.id} has two objects {one.name}", "Rename one.")
        elif one.name in known.names:
            text = f"{node.id} has an item {one.name} too: a group could mean either"
            found.add((*where, "name"), text, "Rename the object.")
        names.add(one.name)
        for number, pattern in enumerate(one.items):
            check_pattern(pattern, node, known, (*where, "items", number), found)


def check_pattern(
    pattern: str, node: NodeConfig, known: KnownItems, path: KeyPath, found: Findings, others: Iterable[str] = ()
) -> None:
    """Check that the pattern matches an item; `others` are names that could have been meant beside items."""
    if pattern in known.names or pattern.partition("/")[0] in PUBLISHERS | {one.name for one in node.adapter}:
        return
    is_pattern = not _SIGNS.isdisjoint(pattern)
    if is_pattern and any(fnmatch.fnmatchcase(name, pattern) for name in known.names):
        return
    text = f"no item of {node.id} is called like {pattern}" if is_pattern else f"{node.id} has no item {pattern}"
    remedy = did_you_mean(pattern, [*others, *sorted(known.names)])
    if known.is_all:
        found.add(path, text, remedy)
    else:
        text += " in its tables, and not all of its items stand there"
        found.add(path, text, remedy, is_warning=True)
