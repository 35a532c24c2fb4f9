"""Folders of the histories of nodes below, and which of them answers for a node.

    <data>/history-below/<node>-<log id>/      a history folder of its own: manifest, files (docs/formats/history.md)

`node` has `~` in place of `/`. The folder stands beside the node's own history, not in it, because a history removes
what its own manifest does not list.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from albireo.codec.history import BELOW, BelowFolder, Enclosed, is_node
from albireo.model.item import name_parts
from albireo.model.topology import NODE_ID_PATTERN
from albireo.model.tree.node_names import nodes_meant
from albireo.node.history.errors import AmbiguousNode, QueryRefused, UnknownNode
from albireo.node.history.files.store import FOLDER, read_manifest

_LOG_ID_BYTES: Final = 16


def is_folder_of(node: str, log_id: bytes) -> bool:
    """True if an origin of this node and log can have a folder: both come from another node."""
    return re.fullmatch(NODE_ID_PATTERN[1:-1], node) is not None and is_node(node) and len(log_id) == _LOG_ID_BYTES


def folders_below(data: Path) -> list[BelowFolder]:
    """The folders that are there, by name."""
    try:
        names = sorted(path.name for path in (data / BELOW).iterdir())
    except FileNotFoundError:
        return []
    return [one for one in map(BelowFolder.of_name, names) if one is not None]


def roots_of(data: Path, node: str) -> list[Path]:
    """The history folders that answer for a node, named by its id or the end of it; no name at all: the own one.

    There is one for each of its stores, that of the latest one last.

    Raises:
        UnknownNode: there is none.
        AmbiguousNode: the name is the end of several.
        HistoryDamaged: a manifest can't be used.
    """
    own = read_manifest(data / FOLDER)
    node = node_meant(node, [own.node, *nodes_below(data)])
    if not node or own.node == node:
        return [data / FOLDER]
    paths = [data / one.path for one in folders_below(data) if one.node == node]
    if not paths:
        raise UnknownNode(node, nodes_below(data))
    return sorted(paths, key=lambda one: age_of(read_manifest(one).enclosed, own.log_id))


def nodes_below(data: Path) -> list[str]:
    """Nodes below that have a history here."""
    return sorted({one.node for one in folders_below(data)})


def age_of(enclosed: Enclosed | None, log_id: str) -> tuple[bool, int]:
    """Number by which origins of one node are ordered: those of the present log above are the younger ones."""
    return (False, 0) if enclosed is None else (enclosed.log_id == log_id, enclosed.index)


def node_meant(name: str, nodes: Sequence[str]) -> str:
    """The one of these nodes that a name means, by its id or the end of it; the name itself, if it means none.

    Raises:
        AmbiguousNode: it is the end of several.
    """
    found = nodes_meant(name, nodes)
    if len(found) > 1:
        raise AmbiguousNode(name, found)
    return found[0] if found else name


def node_asked(node: str, names: Sequence[str]) -> str:
    """The one node that a question is about; empty: it names none.

    Args:
        node: named by itself.
        names: full or local names of items; the end of an id beside the whole id means the same node.

    Raises:
        QueryRefused: it names several.
    """
    named = {name_parts(name)[0] for name in names if ":" in name} | ({node} if node else set())
    named = {one for one in named if not any(other.endswith(f"/{one}") for other in named)}
    if len(named) > 1:
        raise QueryRefused(f"one node at a time, not {', '.join(sorted(named))}")
    return next(iter(named), "")
