"""Invites: public keys of a whole site as lines of text, and one fingerprint over all of them.

    albireo-invite-1 NAME KEY [ROLE [NODE]]
    albireo-invite-1 NAME KEY node

NAME as the others list it, KEY as 64 hexadecimal digits, ROLE what a program asks for (`view` without it), NODE the
topmost node at which it has that role. `node` says that NAME is a node that stands alone: by its name it could be a
program. Empty lines and lines that begin with # say nothing.

Whoever can change a line on its way can pose as its owner, or ask for more than he should. Therefore people compare the
fingerprint of all lines, on every machine; 128 bits, because somebody between two machines may look for two lists with
one fingerprint, which takes the square root of all tries.

No I/O. Decision: ADR-0157.
"""

import hashlib
import re
from collections.abc import Iterable
from typing import Final

import msgspec

from albireo.model.access import RoleGrant, role_from
from albireo.model.principal import PrincipalKind, kind_of
from albireo.model.topology import NODE_ID_PATTERN
from albireo.model.tree.nodes import ancestors, is_below
from albireo.runtime.errors import KeysRefused
from albireo.runtime.link.key_files import TRUSTED_MAX, check_name, public_key

HEAD: Final = "albireo-invite-1"
LONE: Final = "node"
"""Stands in the place of a role where a node that stands alone introduces itself."""
FINGERPRINT_DIGITS: Final = 32
"""Hexadecimal digits, 128 bits."""
_GROUP: Final = 4
_REMEDY: Final = "give the lines as `albireo keys invite` wrote them on each machine"


class Invite(msgspec.Struct, frozen=True, order=True):
    """One holder of a key, as he introduces himself."""

    name: str
    public: str
    role: str = ""
    """Role that is asked for, or LONE; empty: none beyond `view`, and always for members and witnesses."""
    node: str = ""

    @property
    def line(self) -> str:
        return " ".join(filter(None, (HEAD, self.name, self.public, self.role, self.node)))

    @property
    def grant(self) -> RoleGrant | None:
        role = role_from(self.role)
        return None if role is None else RoleGrant(role, self.node)

    @property
    def is_member(self) -> bool:
        return kind_of(self.name) is PrincipalKind.MEMBER

    @property
    def is_node(self) -> bool:
        """True: it is a place of the topology, where a node runs."""
        return self.is_member or self.role == LONE

    @property
    def node_id(self) -> str:
        """Id of the node whose place this is; meant for places only."""
        return self.name.rpartition("[")[0] if self.is_member else self.name

    def trusts(self, other: "Invite") -> bool:
        """True: these two speak with each other, so each has to trust the other's key.

        A node speaks with its parent. That it votes for a pair further up is not in its line, so it counts as one that
        does; what it may say there is judged by its name (codec/principal.py).
        """
        if self.is_node and other.is_node:
            above, below = sorted((self, other), key=lambda one: len(one.node_id))
            if above.node_id == below.node_id:
                return above.name != below.name
            is_parent = ancestors(below.node_id)[:1] == (above.node_id,)
            return is_parent or (above.is_member and is_below(below.node_id, above.node_id))
        witness = PrincipalKind.WITNESS in (kind_of(self.name), kind_of(other.name))
        return (self.is_member or other.is_member) if witness else (self.is_node or other.is_node)


def read_invites(text: str) -> list[Invite]:
    """All invites of a text, by name.

    Raises:
        KeysRefused: a line is none, asks for what can't be given, or a name has two lines, or a key two names.
    """
    found: dict[str, Invite] = {}
    for line in text.splitlines():
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        one = _invite(words, line)
        if found.setdefault(one.name, one) != one:
            raise KeysRefused(None, f"two different lines of {one.name!r}", "find out which is right; drop the other")
    if len({one.public for one in found.values()}) < len(found):
        raise KeysRefused(None, "one key under two names", "each process needs keys of its own")
    if not 2 <= len(found) <= TRUSTED_MAX:
        raise KeysRefused(None, f"{len(found)} invites, 2 to {TRUSTED_MAX} are needed", _REMEDY)
    return sorted(found.values())


def _invite(words: list[str], line: str) -> Invite:
    if words[0] != HEAD or not 3 <= len(words) <= 5:
        raise KeysRefused(None, f"{line[:80]!r} is no invite", _REMEDY)
    one = Invite(words[1], public_key(words[2]), *words[3:])
    check_invite(one)
    return one


def check_invite(one: Invite) -> None:
    """Refuse a name that is none, and a role that does not exist or that this name can't have."""
    check_name(one.name)
    if one.role == LONE:
        if one.node or re.fullmatch(NODE_ID_PATTERN[1:-1], one.name) is None:
            raise KeysRefused(None, f"{one.name!r} can be no node that stands alone", _REMEDY)
        return
    if one.role and role_from(one.role) is None:
        raise KeysRefused(None, f"{one.name!r} asks for a role {one.role!r}, which does not exist", _REMEDY)
    if one.role and kind_of(one.name) is not PrincipalKind.PROGRAM:
        raise KeysRefused(None, f"{one.name!r} can have no role", "only programs and people have one")


def fingerprint(invites: Iterable[Invite]) -> str:
    """Digits that people compare: the same on every machine that has the same lines, in whatever order."""
    text = "\n".join(one.line for one in sorted(invites))
    digits = hashlib.sha256(text.encode()).hexdigest()[:FINGERPRINT_DIGITS]
    return " ".join(digits[at : at + _GROUP] for at in range(0, FINGERPRINT_DIGITS, _GROUP))
