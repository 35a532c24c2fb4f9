"""The access fold: which roles are on record, by principal.

A principal of which nothing is on record has the role that the key directory gives its name. As soon as something is -
a role given or taken away - the directory's word counts no more, so an empty entry is kept too.

Spec: ADR-0154.
"""

from collections.abc import Iterator

import msgspec

from albireo.codec.record import AccessGranted, AccessRevoked
from albireo.codec.slices import unsliced
from albireo.model.access import AccessRole, RoleGrant, role_from


class _AccessSection(msgspec.Struct, frozen=True, array_like=True):
    principals: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    """Name of each principal, with (role, node) of what it was given."""


class AccessFold:
    """Roles on record; bounded by who appends (changes.py)."""

    def __init__(self) -> None:
        self._grants: dict[str, tuple[RoleGrant, ...]] = {}
        self.changes = 0
        """Number of changes folded in this run; who remembers roles looks at it."""

    def __len__(self) -> int:
        return len(self._grants)

    def __iter__(self) -> Iterator[str]:
        return iter(self._grants)

    def grants_of(self, principal: str) -> tuple[RoleGrant, ...] | None:
        """Roles of a principal; None: nothing is on record of it, empty: it was given none, or lost all."""
        return self._grants.get(principal)

    def fold(self, record: AccessGranted | AccessRevoked) -> None:
        self._grants[record.principal] = changed(self._grants.get(record.principal, ()), record)
        self.changes += 1

    def snapshot(self) -> bytes:
        rows = tuple(
            (name, tuple((one.role.word, one.node) for one in grants)) for name, grants in self._grants.items()
        )
        return msgspec.msgpack.encode(_AccessSection(rows))

    @classmethod
    def restore(cls, section: bytes) -> "AccessFold":
        """Inverse of `snapshot`.

        Raises:
            DecodeError: the section is malformed.
        """
        self = cls()
        for name, grants in unsliced(section, _AccessSection).principals:
            self._grants[name] = tuple(RoleGrant(_known(role), node) for role, node in grants)
        return self


def changed(grants: tuple[RoleGrant, ...], record: AccessGranted | AccessRevoked) -> tuple[RoleGrant, ...]:
    """Roles of a principal after a record."""
    if isinstance(record, AccessRevoked):
        return tuple(one for one in grants if record.node and one.node != record.node)
    others = (one for one in grants if one.node != record.node)
    return (*others, RoleGrant(_known(record.role), record.node))


def _known(word: str) -> AccessRole:
    """The role of this name; one that only a later version knows gives no more than every key has."""
    return role_from(word) or AccessRole.VIEW
