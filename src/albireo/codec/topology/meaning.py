"""Meaning of a loaded topology: what its files say, however they say it; and its hash, by which nodes compare files.

Two topologies have one meaning when no node, client or person could tell them apart: comments, the order of keys, of
rows, of nodes, adapters and witnesses, names of item tables, keys that say the default, and whether a key of a node
stands in the node or in a section of the whole file are no part of it. The order of voters, of objects and of groups
and their members is: voters compare their lists, and people see the others in it. Cells of item tables count as they
are written, `1.0` is not `1`.

A default that a later version changes, or a key that it adds, changes no hash of a file that does not name it.
"""

import hashlib
from typing import Any, Final

import msgspec

from albireo.codec.topology.said import said_of
from albireo.codec.topology.topology import SECTIONS, LoadedTopology

FORM: Final = b"albireo topology 1\n"
"""Stands before the meaning in what is hashed; another number if this module ever says the same otherwise."""

Meaning = dict[str, Any]
"""JSON values. Keys: `cluster`; `witness` by name; `group`; `node` by id, with `adapter`, `face` (if there is
one) and `item` by name."""


def meaning_of(loaded: LoadedTopology) -> Meaning:
    """Meaning of the topology and its item tables. Cost: O(size of the files)."""
    meaning: Meaning = said_of(loaded.topology)
    for section in SECTIONS:
        meaning.pop(section, None)  # It stands in each node.
    meaning["witness"] = _by("name", meaning.pop("witness", []))
    meaning["node"] = _by("id", meaning["node"])
    for node_id, node in meaning["node"].items():
        node["adapter"] = _by("name", node.pop("adapter", []))
        if faces := node.pop("face", []):
            node["face"] = _by("name", faces)
        node.pop("items", None)
        node["item"] = {}
        for adapter in loaded.arguments[node_id]:
            node["adapter"][adapter["name"]].pop("items", None)
            for cells in adapter["items"]:
                node["item"][cells["name"]] = {**cells, "adapter": adapter["name"]}
                del node["item"][cells["name"]]["name"]
    return meaning


def topology_hash(loaded: LoadedTopology) -> str:
    """SHA-256 of the meaning, 64 hexadecimal digits; equal for two files of one meaning, different for any other."""
    return hashlib.sha256(FORM + msgspec.json.encode(meaning_of(loaded), order="sorted")).hexdigest()


def _by(key: str, entries: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {one.pop(key): one for one in entries}
