"""Access: what a principal may do, and in which part of the tree of nodes.

    view < operate < engineer < admin        each may do what those before it may

Not decided here: which message or question needs which role (machine/access/needs.py), who has which (machine/access).
Not the same as the role of a node or adapter, which says who leads (machine/desk/role.py, field/role.py).
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final

import msgspec


class AccessRole(IntEnum):
    """Role of a principal; a higher one includes all lower ones."""

    NONE = 0
    """Nothing at all: a witness, whose key is for votes. Nobody is given it."""
    VIEW = 1
    """Sees everything, changes nothing."""
    OPERATE = 2
    """Sends samples, writes items, acts on alarm cases."""
    ENGINEER = 3
    """Changes who leads, takes alarms out of service, sees who has which role."""
    ADMIN = 4
    """Begins, forces and stops a pair; gives roles."""

    @property
    def word(self) -> str:
        return self.name.lower()


ROLE_WORDS: Final = tuple(one.word for one in AccessRole if one > AccessRole.NONE)
"""Roles that can be given, as people and records write them, the lowest first."""


class RoleGrant(msgspec.Struct, frozen=True):
    """A role at a node and all nodes below it."""

    role: AccessRole
    node: str = ""
    """Id of the topmost node, such as `root/north`; empty: every node."""

    def covers(self, node: str) -> bool:
        return not self.node or node == self.node or node.startswith(f"{self.node}/")


def role_from(word: str) -> AccessRole | None:
    """The role that can be given under this name; None: there is none."""
    return AccessRole[word.upper()] if word in ROLE_WORDS else None


def highest(grants: Iterable[RoleGrant], node: str) -> AccessRole:
    """Highest role that these grants give at a node; whoever is known there may at least view."""
    return max((one.role for one in grants if one.covers(node)), default=AccessRole.VIEW)


def is_admin_everywhere(grants: Iterable[RoleGrant]) -> bool:
    """True: one of these grants gives the highest role over the whole tree."""
    return any(one.role is AccessRole.ADMIN and not one.node for one in grants)
