"""Keys of one process: its own CURVE pair, the keys that it trusts, the keys that are revoked.

    keys = Keys.load(data / "keys")
    keys.name_of(public)      "root[backup]", or "" when that key is not trusted
    keys.roles[name]          role of a program at a node and below
    keys.keys_of(name)        keys to expect when we connect to that name: one, or two while it rotates

One pair serves both as server and as client. It changes in three steps, on a port that stays: a next pair is made
beside the one in use; the others trust its public key under the same name; then it takes over. A peer that trusts both
keys is served all the time. A revoked key beats a trusted one and can't be trusted again.

Writing syncs to disk: some ms, meant for commands and tests and not for a loop.

Not done here: files (key_files.py), sockets (curve.py), who is let in (zap.py). Decisions: ADR-0100.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from albireo.model.access import AccessRole, RoleGrant, role_from
from albireo.model.principal import PrincipalKind, kind_of
from albireo.runtime.clock import wall_ns
from albireo.runtime.errors import KeysRefused
from albireo.runtime.link.key_files import (
    KEYS_PER_NAME_MAX,
    NODE_CHARS_MAX,
    OWN_FILE,
    REVOKED_MAX,
    TRUSTED_FILE,
    TRUSTED_MAX,
    KeyPair,
    KeyRole,
    KnownKey,
    Mark,
    OwnKeys,
    Trust,
    check_name,
    locked,
    mark_of,
    new_pair,
    public_key,
    read,
    write,
)


class Keys:
    """The keys in one directory, as last read. `refresh` sees what others changed on disk."""

    def __init__(self, directory: Path, own: OwnKeys, trust_list: Trust, mark: Mark) -> None:
        """Use `load` or `new`."""
        self.directory = directory
        self.trouble: KeysRefused | None = None
        """Why the directory can't be read now, as the last `look` found it; None: it can."""
        self._take(own, trust_list, mark)

    @classmethod
    def load(cls, directory: Path) -> "Keys":
        """Read the keys of a directory.

        Raises:
            KeysRefused: none there, open to others, somebody else's, or damaged; says the remedy.
        """
        directory = directory.absolute()
        mark = mark_of(directory)
        own, trust_list = read(directory, OWN_FILE, OwnKeys), read(directory, TRUSTED_FILE, Trust)
        return cls(directory, own, trust_list, mark)

    @classmethod
    def new(cls, directory: Path, name: str) -> "Keys":
        """Make a directory with a pair of its own and nobody trusted.

        Args:
            directory: made if it is not there.
            name: how others will list us.
        Raises:
            KeysRefused: there are keys already, the name is none, or the directory is open to others.
        """
        check_name(name)
        directory = directory.absolute()
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(directory):
            if (directory / OWN_FILE).exists():
                raise KeysRefused(directory, "there are keys already", "replace them with: albireo keys rotate")
            if not (directory / TRUSTED_FILE).exists():
                write(directory, TRUSTED_FILE, Trust())
            write(directory, OWN_FILE, OwnKeys(name=name, pair=new_pair()))
        return cls.load(directory)

    def __repr__(self) -> str:
        return f"Keys({self.name}, {self.public}, trusts {len(self.trusted)})"

    @property
    def name(self) -> str:
        """Name under which others list us."""
        return self.own.name

    @property
    def pair(self) -> KeyPair:
        """The pair in use."""
        return self.own.pair

    @property
    def public(self) -> str:
        """Our public key in use."""
        return self.own.pair.public

    @property
    def trusted(self) -> frozenset[str]:
        """Every public key that is trusted."""
        return frozenset(self._names)

    def name_of(self, public: str) -> str:
        """Name of the holder of a public key; empty when the key is not trusted."""
        return self._names.get(public, "")

    def keys_of(self, name: str) -> tuple[str, ...]:
        """The trusted keys of `name`, newest first; empty when the name is unknown."""
        found = [known for known in self.trust_list.trusted if known.name == name and known.public in self._names]
        return tuple(known.public for known in sorted(found, key=lambda known: -known.since_ns))

    def keys_of_places(self) -> tuple[str, ...]:
        """The trusted keys of nodes and members: all that are no witness's. Members come first, newest first."""
        found = [known for known in self.trust_list.trusted if known.public in self._names]
        places = [one for one in found if kind_of(one.name) is not PrincipalKind.WITNESS]
        places.sort(key=lambda one: (kind_of(one.name) is not PrincipalKind.MEMBER, -one.since_ns))
        return tuple(one.public for one in places)

    def trust(self, name: str, public: str, grant: RoleGrant | None = None) -> None:
        """Trust a key under a name; trusting it again changes nothing but its role.

        Args:
            name: name of the holder; a second key of the same name is its next one, while it rotates.
            public: 64 hexadecimal digits, or Z85.
            grant: role of the name, whichever key it uses; None: the one that it has, `view` at first.
        Raises:
            KeysRefused: the key was revoked, is our own, another's, or the third of that name, or is none; or the name
                is no program's and can have no role.
        """
        check_name(name)
        key = public_key(public)
        with self._changing():
            self._check_trustable(name, key)
            self._check_role(name, grant)
            trusted, roles = self.trust_list.trusted, self.trust_list.roles
            if grant is not None or not self.keys_of(name):
                roles = self._roles_with(name, grant)
            if self.name_of(key) != name:
                trusted = (*trusted, KnownKey(name=name, public=key, since_ns=self._after_all()))
            changed = msgspec.structs.replace(self.trust_list, trusted=trusted, roles=roles)
            if changed != self.trust_list:
                write(self.directory, TRUSTED_FILE, changed)

    def revoke(self, name: str, public: str = "") -> tuple[str, ...]:
        """Trust the keys of a name no more, for ever.

        Args:
            name: name of the holder.
            public: the only key to revoke; empty: all of that name.
        Returns:
            The keys that were revoked.
        Raises:
            KeysRefused: nothing of that name is trusted.
        """
        with self._changing():
            wanted = {public_key(public)} if public else {one.public for one in self.trust_list.trusted}
            gone = [one for one in self.trust_list.trusted if one.name == name and one.public in wanted]
            if not gone:
                raise KeysRefused(self.directory, f"trusts no such key of {name!r}", "see: albireo keys list")
            if len(self.trust_list.revoked) + len(gone) > REVOKED_MAX:
                raise KeysRefused(self.directory, f"{REVOKED_MAX} keys are revoked", "begin anew: albireo keys new")
            now = wall_ns()
            revoked = (*self.trust_list.revoked, *(msgspec.structs.replace(one, since_ns=now) for one in gone))
            trusted = tuple(one for one in self.trust_list.trusted if one not in gone)
            is_known = any(one.name == name for one in trusted)
            roles = self.trust_list.roles if is_known else self._roles_with(name, None)
            write(self.directory, TRUSTED_FILE, Trust(trusted=trusted, roles=roles, revoked=revoked))
        return tuple(one.public for one in gone)

    def begin_rotation(self) -> str:
        """Make the next pair beside the one in use.

        Returns:
            Its public key, to be trusted by the others before `finish_rotation`.
        Raises:
            KeysRefused: a rotation is under way.
        """
        with self._changing():
            if self.own.next is not None:
                raise KeysRefused(
                    self.directory,
                    f"a rotation is under way: the next key is {self.own.next.public}",
                    "end it once the others trust that key: albireo keys rotate --finish (or --cancel)",
                )
            following = new_pair()
            write(self.directory, OWN_FILE, msgspec.structs.replace(self.own, next=following))
        return following.public

    def finish_rotation(self) -> str:
        """Use the next pair and forget the old one.

        Returns:
            The old public key, which the others may revoke now.
        """
        with self._changing():
            old, following = self.own.pair.public, self._following()
            write(self.directory, OWN_FILE, msgspec.structs.replace(self.own, pair=following, next=None))
        return old

    def cancel_rotation(self) -> str:
        """Forget the next pair.

        Returns:
            Its public key, which the others may revoke.
        """
        with self._changing():
            following = self._following()
            write(self.directory, OWN_FILE, msgspec.structs.replace(self.own, next=None))
        return following.public

    def refresh(self) -> bool:
        """Read again what has changed on disk; True if anything did. Costs three calls of stat when nothing has.

        Raises:
            KeysRefused: it can't be read any more; what was read before stays in force.
        """
        mark = mark_of(self.directory)
        if mark == self._read_mark:
            return False
        own, trust_list = read(self.directory, OWN_FILE, OwnKeys), read(self.directory, TRUSTED_FILE, Trust)
        self._take(own, trust_list, mark)
        return True

    def look(self) -> None:
        """As `refresh`, for a program that runs: what can't be read changes nothing, and is the `trouble` until it can.

        A slip of an operator in the key directory is no reason to end the control of a plant.
        """
        try:
            self.refresh()
            self.trouble = None
        except KeysRefused as error:
            self.trouble = error

    def _take(self, own: OwnKeys, trust_list: Trust, mark: Mark) -> None:
        revoked = {one.public for one in trust_list.revoked}
        self.own = own
        self.trust_list = trust_list
        self._names = {one.public: one.name for one in trust_list.trusted if one.public not in revoked}
        programs = {one for one in self._names.values() if kind_of(one) is PrincipalKind.PROGRAM}
        view = dict.fromkeys(programs, RoleGrant(AccessRole.VIEW))
        given = {one.name: RoleGrant(role_from(one.role) or AccessRole.VIEW, one.node) for one in trust_list.roles}
        self.roles = view | {name: grant for name, grant in given.items() if name in programs}
        """Role of every program whose key is trusted, by name; another object whenever the files have changed."""
        self._read_mark = mark

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """Lock out other writers, and read the files again before and after the change."""
        with locked(self.directory):
            self.refresh()
            yield
            self.refresh()

    def _check_trustable(self, name: str, key: str) -> None:
        if key in (self.public, self.own.next.public if self.own.next else ""):
            raise KeysRefused(self.directory, "that is our own key", "give the public key of the other side")
        if any(one.public == key for one in self.trust_list.revoked):
            raise KeysRefused(
                self.directory, f"{key} was revoked", f"have {name!r} make a new one: albireo keys rotate"
            )
        holder = self.name_of(key)
        if holder and holder != name:
            raise KeysRefused(
                self.directory, f"that key is trusted as {holder!r}", f"first: albireo keys revoke {holder!r}"
            )
        if not holder and len(self.keys_of(name)) >= KEYS_PER_NAME_MAX:
            raise KeysRefused(
                self.directory,
                f"{name!r} has {KEYS_PER_NAME_MAX} keys already",
                f"first revoke its old one: albireo keys revoke {name!r} --key {self.keys_of(name)[-1]}",
            )
        if not holder and len(self.trust_list.trusted) >= TRUSTED_MAX:
            raise KeysRefused(self.directory, f"{TRUSTED_MAX} keys are trusted already", "revoke some")

    def _check_role(self, name: str, grant: RoleGrant | None) -> None:
        if grant is None:
            return
        kind = kind_of(name)
        if kind is not PrincipalKind.PROGRAM:
            reason = f"{name!r} is the name of a {kind.value}, which has no role"
            raise KeysRefused(self.directory, reason, "leave --role out; only programs and people have one")
        if len(grant.node) > NODE_CHARS_MAX or not grant.node.isprintable():
            raise KeysRefused(self.directory, "that is no id of a node", "give one of the topology, such as root/north")

    def _roles_with(self, name: str, grant: RoleGrant | None) -> tuple[KeyRole, ...]:
        """The roles with another one of a name; None: `view`, for which no line is needed."""
        others = tuple(one for one in self.trust_list.roles if one.name != name)
        if grant is None or grant == RoleGrant(AccessRole.VIEW):
            return others
        return (*others, KeyRole(name=name, role=grant.role.word, node=grant.node))

    def _following(self) -> KeyPair:
        if self.own.next is None:
            raise KeysRefused(self.directory, "no rotation is under way", "begin one: albireo keys rotate")
        return self.own.next

    def _after_all(self) -> int:
        """Now, but after every other entry: newest first must hold on a clock that was set back."""
        return max([wall_ns(), *(one.since_ns + 1 for one in self.trust_list.trusted)])


def introduce(*all_keys: Keys, role: AccessRole = AccessRole.VIEW) -> None:
    """Make each of them trust all others, and give this role to the programs among them: demo, drills, tests."""
    for keys in all_keys:
        for other in all_keys:
            if other is not keys:
                is_program = kind_of(other.name) is PrincipalKind.PROGRAM
                keys.trust(other.name, other.public, RoleGrant(role) if is_program else None)
