"""Navigation: what the topology leads people to, as a running node tells it."""

import msgspec


class PlantObject(msgspec.Struct, frozen=True, kw_only=True):
    """A node, or a thing of the plant with its items."""

    node: str
    name: str = ""
    """Empty: the node itself."""
    label: str = ""
    description: str = ""
    items: tuple[str, ...] = ()
    """Patterns of local names."""


class PlantGroup(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the navigation."""

    label: str
    description: str = ""
    members: tuple[str, ...] = ()
    """Nodes, `<node>:<object>`, and `<node>:<pattern>`."""


class Navigation(msgspec.Struct, frozen=True, kw_only=True):
    """All of it, in the order of the file: of a node and those below it."""

    objects: tuple[PlantObject, ...] = ()
    groups: tuple[PlantGroup, ...] = ()
