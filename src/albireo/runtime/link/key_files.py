"""The files of a key directory: their content, their access, their replacement.

    <keys>/             0700
    <keys>/own.json     0600   own name, the pair in use, during a rotation the next one
    <keys>/trusted.json 0600   names with their public keys (two at most), the role of each program that was given one
                               (the others have `view`, ADR-0154), and every key ever revoked
    <keys>/lock         0600   held while one of them is written

Public keys are written as 64 hexadecimal digits, because Z85 has characters that a shell takes for its own; Z85 is
read as well. A directory or file that others may reach is refused and not put right: a secret that was readable has to
be replaced, not hidden again.

Decision: ADR-0100.
"""

import contextlib
import fcntl
import os
import re
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final, TypeVar

import msgspec
import zmq
from zmq.utils import z85

from albireo.log import OsFileSystem, write_aside
from albireo.model.principal import KEY_NAME_PATTERN, KEY_NAME_WORDS, is_key_name
from albireo.runtime.clock import wall_ns
from albireo.runtime.errors import KeysRefused

OWN_FILE: Final = "own.json"
TRUSTED_FILE: Final = "trusted.json"
LOCK_FILE: Final = "lock"
KEY_PATTERN: Final = r"^[0-9a-f]{64}(?!\n)$"
KEYS_PER_NAME_MAX: Final = 2
"""Keys of one name: the key in use and the next one, while a rotation is under way."""
FILE_BYTES_MAX: Final = 4 * 1024 * 1024
TRUSTED_MAX: Final = 1000
REVOKED_MAX: Final = 10_000
NODE_CHARS_MAX: Final = 200

KNOWN_SECRETS: Final = frozenset(
    z85.decode(secret).hex()
    for secret in (b"JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6", b"D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs")
)
"""Secrets printed as an example in zmq_curve(7): everybody has them."""
_MAKE: Final = "make them: albireo keys new NAME --keys {}"

Hex32 = Annotated[str, msgspec.Meta(pattern=KEY_PATTERN)]
"""32 bytes as 64 lower-case hexadecimal digits."""
KeyName = Annotated[str, msgspec.Meta(pattern=KEY_NAME_PATTERN)]
Mark = tuple[tuple[int, int, int] | None, ...]
_File = TypeVar("_File", bound="OwnKeys | Trust")


class KeyPair(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One CURVE pair. Its text never shows the secret."""

    public: Hex32
    secret: Hex32
    made_ns: int
    """Time of its making, Unix ns, UTC."""

    def __repr__(self) -> str:
        return f"KeyPair({self.public})"

    @property
    def secret_bytes(self) -> bytes:
        return bytes.fromhex(self.secret)

    @property
    def public_bytes(self) -> bytes:
        return bytes.fromhex(self.public)


class KnownKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A public key of somebody else."""

    name: KeyName
    public: Hex32
    since_ns: int
    """Time at which it was trusted or revoked, Unix ns, UTC."""


class OwnKeys(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Content of `own.json`."""

    name: KeyName
    pair: KeyPair
    next: KeyPair | None = None
    """During a rotation: the pair that follows."""


class KeyRole(msgspec.Struct, frozen=True, kw_only=True):
    """Role that a name was given with its key."""

    name: KeyName
    role: str
    """Word of the role (model.access); one that only a later version knows counts as `view`."""
    node: Annotated[str, msgspec.Meta(max_length=NODE_CHARS_MAX)] = ""
    """Topmost node at which it has the role; empty: every node."""


class Trust(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Content of `trusted.json`."""

    trusted: Annotated[tuple[KnownKey, ...], msgspec.Meta(max_length=TRUSTED_MAX)] = ()
    roles: Annotated[tuple[KeyRole, ...], msgspec.Meta(max_length=TRUSTED_MAX)] = ()
    """A name whose keys are trusted no more has none."""
    revoked: Annotated[tuple[KnownKey, ...], msgspec.Meta(max_length=REVOKED_MAX)] = ()


def new_pair() -> KeyPair:
    """A pair nobody has had before, from the system's randomness."""
    public, secret = (z85.decode(half).hex() for half in zmq.curve_keypair())
    return KeyPair(public=public, secret=secret, made_ns=wall_ns())


def public_key(text: str) -> str:
    """A public key in its stored form.

    Args:
        text: 64 hexadecimal digits, or 40 characters of Z85.
    Raises:
        KeysRefused: it is neither.
    """
    if re.fullmatch(r"[0-9a-fA-F]{64}", text):
        return text.lower()
    with contextlib.suppress(ValueError, KeyError, OverflowError):
        if len(text) == 40 and len(key := z85.decode(text)) == 32:
            return key.hex()
    raise KeysRefused(None, f"{text!r} is no public key", "a public key has 64 hexadecimal digits, or 40 of Z85")


def check_name(name: str) -> None:
    """Refuse what is no name for a key."""
    if not is_key_name(name):
        raise KeysRefused(None, f"{name!r} is no name for a key", KEY_NAME_WORDS)


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Lock of a key directory: one writer at a time."""
    check_directory(directory)
    handle = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def write(directory: Path, name: str, content: OwnKeys | Trust) -> None:
    """Replace a file as a whole, mode 0600."""
    (directory / f"{name}.aside").unlink(missing_ok=True)  # One left over might have another mode.
    text = msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"
    write_aside(OsFileSystem(), directory / name, [text])


def read(directory: Path, name: str, kind: type[_File]) -> _File:
    """A file's content.

    Raises:
        KeysRefused: the file is missing, open to others, somebody else's, or damaged.
    """
    check_directory(directory)
    path = directory / name
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        raise KeysRefused(path, "is not there", _MAKE.format(directory)) from None
    except OSError as error:
        raise KeysRefused(path, f"cannot be opened: {error.strerror}", "it has to be a plain file of yours") from error
    with os.fdopen(handle, "rb") as file:
        _check_access(path, os.fstat(handle), "600")
        text = file.read(FILE_BYTES_MAX + 1)
    try:
        content = msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        # The cause is not told and not chained: it could quote a secret.
        raise KeysRefused(path, "is damaged", "restore it, or make new keys in another directory") from None
    if isinstance(content, OwnKeys):
        _check_pairs(path, content)
    else:
        _check_trust(path, content)
    return content


def check_directory(directory: Path) -> None:
    """Refuse a key directory that is none, or not ours alone."""
    try:
        found = directory.lstat()
    except FileNotFoundError:
        raise KeysRefused(directory, "there are no keys", _MAKE.format(directory)) from None
    if not stat.S_ISDIR(found.st_mode):
        raise KeysRefused(directory, "is not a directory", "name the directory that `albireo keys new` has made")
    _check_access(directory, found, "700")


def mark_of(directory: Path) -> Mark:
    """Changes whenever a file was replaced or its access changed."""
    found: list[tuple[int, int, int] | None] = []
    for path in (directory, directory / OWN_FILE, directory / TRUSTED_FILE):
        try:
            told = path.lstat()
        except OSError:
            found.append(None)
        else:
            found.append((told.st_ino, told.st_ctime_ns, told.st_size))
    return tuple(found)


def _check_access(path: Path, found: os.stat_result, mode: str) -> None:
    if found.st_uid != os.geteuid():
        raise KeysRefused(path, f"belongs to user {found.st_uid}, not to {os.geteuid()}", "run as its owner")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise KeysRefused(
            path,
            f"others may reach it (mode {stat.S_IMODE(found.st_mode):04o})",
            f"chmod {mode} {path}; if others have had access, replace the key: albireo keys rotate",
        )


def _check_pairs(path: Path, own: OwnKeys) -> None:
    for pair in filter(None, (own.pair, own.next)):
        if pair.secret in KNOWN_SECRETS:
            raise KeysRefused(path, "holds an example key that everybody knows", "make new keys")
        if z85.decode(zmq.curve_public(z85.encode(pair.secret_bytes))).hex() != pair.public:
            raise KeysRefused(path, "is damaged: the public key is not that of the secret", "restore it")


def _check_trust(path: Path, trust: Trust) -> None:
    doubled = [key for key, count in Counter(one.public for one in trust.trusted).items() if count > 1]
    if doubled:
        raise KeysRefused(path, f"lists {doubled[0]} twice", "keep one of the two lines")
    crowded = [name for name, count in Counter(one.name for one in trust.trusted).items() if count > KEYS_PER_NAME_MAX]
    if crowded:
        raise KeysRefused(path, f"lists more than {KEYS_PER_NAME_MAX} keys of {crowded[0]!r}", "remove the old ones")
