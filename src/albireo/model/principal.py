"""Principals: who speaks on a link, by name.

    name of a trusted key    root[primary], witness:w1, anna@desk        proven by CURVE
    local:UID                a process on this machine                   told by the kernel, of the socket that it uses
    person:anna              a person for whom an admin speaks           named in its question (machine/access/judge.py)
    (empty)                  anybody, on a loopback link without keys

Not done here: which messages are heard from whom (codec/principal.py).
"""

import re
from enum import StrEnum
from typing import Final

WITNESS_PREFIX: Final = "witness:"
MEMBER_ENDINGS: Final = ("[primary]", "[backup]")
LOCAL_PREFIX: Final = "local:"
"""Begin of the name of a process on this machine; no key is trusted under such a name."""
PERSON_PREFIX: Final = "person:"
"""Begin of the name of a person for whom somebody speaks; no key is trusted under such a name either."""
ANYBODY: Final = ""
PERSON_NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_.@\-]{0,47}(?!\n)$"
"""Names that a person may have, without the prefix."""
TOKEN_MARK: Final = "#"
"""Stands between a person and the number of one of its tokens: `anna#812` asks by that, and may do no more than it."""
PERSON_NAME_WORDS: Final = "up to 48 letters, digits and _ . @ -, beginning with a letter or digit"
KEY_NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_.:/\[\]~@\-]{0,63}(?!\n)$"
"""Names that a key may have, but those that begin with LOCAL_PREFIX or PERSON_PREFIX. Those of the topology fit:
`root[primary]`, `witness:w1`; and `operator@desk`."""
KEY_NAME_WORDS: Final = (
    f"up to 64 letters, digits and _ . : / [ ] ~ @ -, beginning with a letter or digit, not with {LOCAL_PREFIX} "
    f"or {PERSON_PREFIX}"
)
"""The same for people."""


class PrincipalKind(StrEnum):
    """Kind of a principal, as its name says."""

    MEMBER = "member"
    """Member of a pair: `root[primary]`."""
    WITNESS = "witness"
    """Voter with a process of its own: `witness:w1`."""
    PROGRAM = "program"
    """Any other name of a key: a program, a person at a desk."""
    LOCAL = "local"
    """Process on this machine that may reach the sockets in the data directory."""
    PERSON = "person"
    """Person for whom an admin speaks; nobody on a link is one."""
    ANYBODY = "anybody"
    """Process at the other end of a link without keys."""


UNKEYED: Final = frozenset({PrincipalKind.LOCAL, PrincipalKind.ANYBODY})
"""Kinds of principals that have no key."""


OWN_KINDS: Final = UNKEYED | {PrincipalKind.MEMBER}
"""The same, and members: kinds of those that a door of a node hears beside programs."""


def kind_of(name: str) -> PrincipalKind:
    """Kind of the principal with this name."""
    if name.startswith(WITNESS_PREFIX):
        return PrincipalKind.WITNESS
    if name.startswith(LOCAL_PREFIX):
        return PrincipalKind.LOCAL
    if name.startswith(PERSON_PREFIX):
        return PrincipalKind.PERSON
    if name.endswith(MEMBER_ENDINGS):
        return PrincipalKind.MEMBER
    return PrincipalKind.PROGRAM if name else PrincipalKind.ANYBODY


def may_be_one(first: str, second: str) -> bool:
    """True: the two names may mean one program: they are one, or one has a name and the other none, and none a key."""
    return first == second or (ANYBODY in (first, second) and {kind_of(first), kind_of(second)} <= UNKEYED)


def members_named(node: str) -> frozenset[str]:
    """Names of the keys that the members of a node have."""
    return frozenset(f"{node}{ending}" for ending in MEMBER_ENDINGS)


def is_of_node(name: str, node: str) -> bool:
    """Whether this is a process of the node: on its machine, or one that runs beside its other member."""
    return kind_of(name) is PrincipalKind.LOCAL or name in members_named(node)


def is_key_name(name: str) -> bool:
    """Whether a key may have this name."""
    reserved = (LOCAL_PREFIX, PERSON_PREFIX)
    return re.fullmatch(KEY_NAME_PATTERN[1:-1], name) is not None and not name.startswith(reserved)


def is_person_name(name: str) -> bool:
    """Whether a person may have this name, which is without the prefix."""
    return re.fullmatch(PERSON_NAME_PATTERN[1:-1], name) is not None


def local_name(address: str) -> str:
    """Name of the principal behind a socket of this machine.

    Args:
        address: as libzmq gives it of a peer, `localhost:UID:GID:PID`, with the credentials that the kernel knows.
    """
    parts = address.rsplit(":", 3)
    return LOCAL_PREFIX + (parts[1] if len(parts) == 4 else "unknown")
