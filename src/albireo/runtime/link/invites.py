"""Invites: public keys of a whole site as lines of text, and one fingerprint over all of them.

    albireo-invite-1 NAME KEY [ROLE [NODE]]

NAME as the others list it, KEY as 64 hexadecimal digits, ROLE what a program asks for (`view` without it), NODE the
topmost node at which it has that role. Empty lines and lines that begin with # say nothing.

Whoever can change a line on its way can pose as its owner, or ask for more than he should. Therefore people compare the
fingerprint of all lines, on every machine; 128 bits, because somebody between two machines may look for two lists with
one fingerprint, which takes the square root of all tries.

No I/O. Decision: ADR-0157.
"""

import hashlib
from collections.abc import Iterable
from typing import Final

import msgspec

from albireo.model.access import RoleGrant, role_from
from albireo.model.principal import PrincipalKind, kind_of
from albireo.runtime.errors import KeysRefused
from albireo.runtime.link.key_files import TRUSTED_MAX, check_name, public_key

HEAD: Final = "albireo-invite-1"
FINGERPRINT_DIGITS: Final = 32
"""Hexadecimal digits, 128 bits."""
_GROUP: Final = 4
_REMEDY: Final = "give the lines as `albireo keys invite` wrote them on each machine"


class Invite(msgspec.Struct, frozen=True, order=True):
    """One holder of a key, as he introduces himself."""

    name: str
    public: str
    role: str = ""
    """Role that is asked for; empty: none beyond `view`, and always for members and witnesses."""
    node: str = ""

    @property
    def line(self) -> str:
        return " ".join(filter(None, (HEAD, self.name, self.public, self.role, self.node)))

    @property
    def grant(self) -> RoleGrant | None:
        role = role_from(self.role)
        return None if role is None else RoleGrant(role, self.node)

    def trusts(self, other: "Invite") -> bool:
        """True: these two speak with each other, so each has to trust the other's key."""
        kinds = {kind_of(self.name), kind_of(other.name)}
        if kinds == {PrincipalKind.MEMBER}:
            return self.name != other.name and self.name.rpartition("[")[0] == other.name.rpartition("[")[0]
        return PrincipalKind.MEMBER in kinds


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
    if one.role and role_from(one.role) is None:
        raise KeysRefused(None, f"{one.name!r} asks for a role {one.role!r}, which does not exist", _REMEDY)
    if one.role and kind_of(one.name) is not PrincipalKind.PROGRAM:
        raise KeysRefused(None, f"{one.name!r} can have no role", "only programs and people have one")


def fingerprint(invites: Iterable[Invite]) -> str:
    """Digits that people compare: the same on every machine that has the same lines, in whatever order."""
    text = "\n".join(one.line for one in sorted(invites))
    digits = hashlib.sha256(text.encode()).hexdigest()[:FINGERPRINT_DIGITS]
    return " ".join(digits[at : at + _GROUP] for at in range(0, FINGERPRINT_DIGITS, _GROUP))
