"""Tickets: what lets somebody in at the door of another actor of this node, once CORE's judge has looked.

    client --asks CORE `ticket`--> given to it, once
    client --shows it--> door --number and digest, each second--> CORE: good, or the reason why not

A ticket is bound to node, door, session, principal and time. Nothing of it is on record: a CORE that starts anew knows
no ticket, and who has one asks for another. It is taken back by no message: the door asks again about each one that it
let in, so whoever lost session or role is out within a second.

Invariants
    secret:   the text leaves once, to whoever asked; its digest is kept, and compared in constant time.
    random:   each secret follows from a key of this run of CORE, which was drawn and handed in, and is used once.
    bounded:  tickets, and doors; where there is no room, a ticket of the session that has most gives way.

Not decided here: who is present (orders/session), who has which role (judge.py), who spoke (runtime/link).
Spec: ADR-0232.
"""

import hmac
from collections import Counter
from collections.abc import Callable
from typing import Final

import msgspec

from albireo.codec.ticket import Ticket, digest_of, encode_ticket
from albireo.model.access import AccessRole
from albireo.model.instant import SECOND, Instant

TICKET_NS: Final = 600 * SECOND
"""Time for which a ticket lets in; whoever is in shows another one before."""
DOORS_MAX: Final = 64
CLOSED_NS: Final = 10 * SECOND
"""Silence after which a door counts as closed: an open one speaks each second."""


class FaceDoor(msgspec.Struct, frozen=True):
    """A door, as its actor told of it last."""

    endpoint: str
    needs: AccessRole
    """Role that somebody needs to be let in."""
    heard_at: Instant


class GivenTicket(msgspec.Struct, frozen=True):
    """A ticket that was given, without its text."""

    digest: str
    door: str
    session_id: int
    principal: str
    until: Instant


class Tickets:
    """The tickets of one run of CORE."""

    def __init__(self, node: str, key: bytes) -> None:
        """`key`: random bytes that nobody else knows."""
        self._node = node
        self._key = key
        self._number = 0
        self._given: dict[int, GivenTicket] = {}
        """By number, the oldest first; those that are over stay while there is room, so that it is said why."""
        self._doors: dict[str, FaceDoor] = {}

    def door_heard(self, name: str, door: FaceDoor) -> bool:
        """Take note of an open door; False: there are too many."""
        gone = [one for one, known in self._doors.items() if door.heard_at - known.heard_at >= CLOSED_NS]
        for one in gone:
            del self._doors[one]
        if name not in self._doors and len(self._doors) >= DOORS_MAX:
            return False
        self._doors[name] = door
        return True

    def find_door(self, name: str, now: Instant) -> FaceDoor | None:
        """An open door; None: there is none of that name."""
        door = self._doors.get(name)
        return door if door is not None and now - door.heard_at < CLOSED_NS else None

    def give(
        self,
        door: str,
        session_id: int,
        principal: str,
        now: Instant,
        is_present: Callable[[int], bool],
        tickets_max: int,
    ) -> str:
        """A ticket for a door, in words; the only time that they are there.

        Args:
            is_present: says of the id of a session whether it goes on.
            tickets_max: most tickets that are remembered: all clients of one key on one machine are one session, so
                it may need many.
        """
        if len(self._given) >= tickets_max:
            self._given = {
                number: one for number, one in self._given.items() if now < one.until and is_present(one.session_id)
            }
        if len(self._given) >= tickets_max:
            ((most, _),) = Counter(one.session_id for one in self._given.values()).most_common(1)
            del self._given[next(number for number, one in self._given.items() if one.session_id == most)]
        self._number += 1
        secret = hmac.digest(self._key, self._number.to_bytes(8), "sha256")
        text = encode_ticket(Ticket(self._node, door, self._number, secret))
        until = Instant(now + TICKET_NS)
        self._given[self._number] = GivenTicket(digest_of(text), door, session_id, principal, until)
        return text

    def find(self, number: int, digest: str) -> GivenTicket | None:
        """The ticket with this digest; None: none was given in this run that is still remembered."""
        known = self._given.get(number)
        return known if known is not None and hmac.compare_digest(known.digest, digest) else None
