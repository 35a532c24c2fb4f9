"""Text of a ticket: what its holder shows at a door, and may read of it.

    ticket = node ":" door ":" number ":" secret        secret: 64 hexadecimal digits

Nothing in front of the secret is believed: it says at once, in words, why a ticket is none of this door. Whether a
ticket is good is judged where it was given, by its digest (machine/access/tickets.py).
"""

import hashlib
import re
from typing import Final

import msgspec

from albireo.codec.errors import DecodeError
from albireo.model.bounded import INT64_MAX

TICKET_CHARS_MAX: Final = 512
_FORM: Final = re.compile(r"(?P<node>[^:]+):(?P<door>[^:]+):(?P<number>[0-9]{1,19}):(?P<secret>[0-9a-f]{64})")


class Ticket(msgspec.Struct, frozen=True):
    """A ticket, in parts."""

    node: str
    door: str
    number: int
    """Number of the ticket in the run of CORE that gave it."""
    secret: bytes


def encode_ticket(ticket: Ticket) -> str:
    return f"{ticket.node}:{ticket.door}:{ticket.number}:{ticket.secret.hex()}"


def decode_ticket(text: str) -> Ticket:
    """Inverse of `encode_ticket`.

    Raises:
        DecodeError: it is no ticket.
    """
    found = _FORM.fullmatch(text) if len(text) <= TICKET_CHARS_MAX else None
    if found is None or int(found["number"]) > INT64_MAX:
        raise DecodeError(0, "it has not the form of a ticket")
    return Ticket(found["node"], found["door"], int(found["number"]), bytes.fromhex(found["secret"]))


def digest_of(text: str) -> str:
    """SHA-256 of the text, 64 hexadecimal digits: all that is kept of a ticket."""
    return hashlib.sha256(text.encode()).hexdigest()
