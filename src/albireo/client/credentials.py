"""Credentials: what is put on record of passwords and tokens, and whether what somebody shows fits it.

For faces and commands. Hashing takes about 0.1 s and 32 MiB on purpose: in a thread, never on a loop, never in CORE.
"""

import base64
import hashlib
import hmac
import secrets
from typing import Final

import msgspec

from albireo.model.person import Person, PersonToken
from albireo.model.principal import TOKEN_MARK

COST: Final = 15
"""Cost of new hashes, as a power of two (RFC 7914: N)."""
COST_MAX: Final = 17
BLOCK: Final = 8
SALT_BYTES: Final = 16
HASH_BYTES: Final = 32
SECRET_BYTES: Final = 24
PASSWORD_CHARS: Final = range(8, 1025)
"""Number of characters that a password may have."""


class NewToken(msgspec.Struct, frozen=True):
    """A token that was just drawn."""

    text: str
    """Shown once, and kept nowhere."""
    digest: str


def password_words(password: str, cost: int = COST) -> str:
    """Words of scrypt of a password: cost, salt and hash. Blocks.

    Raises:
        ValueError: it is too short or too long.
    """
    if len(password) not in PASSWORD_CHARS:
        raise ValueError(f"a password has {PASSWORD_CHARS.start} to {PASSWORD_CHARS.stop - 1} characters")
    salt = secrets.token_bytes(SALT_BYTES)
    made = (base64.b64encode(one).decode() for one in (salt, _hashed(password, salt, cost)))
    return "$".join(("scrypt", str(cost), *made))


def password_fits(password: str, words: str) -> bool:
    """Whether these are the words of the password. Blocks; as long if there are none, so that nobody learns who is."""
    _, cost, salt, known = words.split("$") if words else ("", str(COST), "", "")
    if not 1 <= int(cost) <= COST_MAX or len(password) >= PASSWORD_CHARS.stop:
        return False
    try:
        return hmac.compare_digest(_hashed(password, base64.b64decode(salt), int(cost)), base64.b64decode(known))
    except ValueError:  # What is on record is no base64.
        return False


def _hashed(password: str, salt: bytes, cost: int) -> bytes:
    data, most = password.encode("utf-8", "surrogatepass"), 256 * BLOCK << cost
    return hashlib.scrypt(data, salt=salt, n=1 << cost, r=BLOCK, p=1, maxmem=most, dklen=HASH_BYTES)


def new_token(name: str) -> NewToken:
    """A new token of a person, as letters that a header takes; it says whose it is."""
    text = base64.urlsafe_b64encode(f"{name}:".encode() + secrets.token_bytes(SECRET_BYTES)).decode().rstrip("=")
    return NewToken(text, _digest(text))


def token_name(text: str) -> str:
    """Name of the person whose token this says to be; empty: it is none."""
    try:
        name, found, _ = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True).partition(b":")
        return name.decode("ascii") if found else ""
    except ValueError:
        return ""


def token_of(person: Person | None, text: str, wall_ns: int) -> PersonToken | None:
    """The token of this text; None: the person has none such, it is over, or the person is not enabled."""
    if person is None or not person.is_enabled:
        return None
    digest = _digest(text)
    fitting = [one for one in person.tokens if hmac.compare_digest(one.digest, digest) and wall_ns < one.until_ns]
    return fitting[0] if fitting else None


def speaks_as(person: Person, token: PersonToken) -> str:
    """Name for `speaking_for`, by which a program asks that has shown a token."""
    return f"{person.name}{TOKEN_MARK}{token.token_id}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
