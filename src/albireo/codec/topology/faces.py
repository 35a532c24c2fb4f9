"""Faces of a topology: their names and kinds, and their own keys, which the struct of each kind judges."""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from albireo.codec.topology.mistakes import Findings, KeyPath, build, did_you_mean, shown
from albireo.codec.topology.said import said_of
from albireo.model.topology import FaceConfig, NodeConfig, Topology

FaceKinds = Mapping[str, Callable[[], type[msgspec.Struct] | str]]
"""Loads the struct of a kind's own keys, by the kind's name, or says why that is not possible. Called for kinds that a
file names, so that nothing is loaded for the others."""
_TAKEN: Final = frozenset({"core", "pair", "host"})
"""Names before the slash of items that every node may have."""


def check_faces(topology: Topology, kinds: FaceKinds, found: Findings) -> Topology:
    """The topology in which each face has its settings as its kind understands them."""
    nodes = [_checked(node, ("node", index), kinds, found) for index, node in enumerate(topology.node)]
    return msgspec.structs.replace(topology, node=tuple(nodes))


def _checked(node: NodeConfig, path: KeyPath, kinds: FaceKinds, found: Findings) -> NodeConfig:
    if not node.face:
        return node
    taken = _TAKEN | {adapter.name for adapter in node.adapter}
    faces: list[FaceConfig] = []
    for index, face in enumerate(node.face):
        where = (*path, "face", index)
        if face.name in taken:
            text = f"{node.id} has something else of the name {face.name}: an adapter, a face, or items of its own"
            found.add((*where, "name"), text, "Rename the face: <name>/running is an item of it.")
        taken |= {face.name}
        if face.member and not node.is_pair:
            found.add((*where, "member"), f"{node.id} is no pair and has no members", "Take it away.")
        faces.append(_with_settings(face, where, kinds, found))
    return msgspec.structs.replace(node, face=tuple(faces))


def _with_settings(face: FaceConfig, path: KeyPath, kinds: FaceKinds, found: Findings) -> FaceConfig:
    if face.kind not in kinds:
        found.add((*path, "kind"), f"no face of kind {shown(face.kind)}", did_you_mean(face.kind, kinds))
        return face
    shape = kinds[face.kind]()
    if isinstance(shape, str):
        found.add((*path, "kind"), f"the face of kind {face.kind} can't be loaded: {shape}", "Mend its distribution.")
        return face
    settings = build(shape, face.settings, path, found)
    return face if settings is None else msgspec.structs.replace(face, settings=said_of(settings))
