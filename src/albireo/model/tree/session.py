"""Session: the presence of a principal at a node, from one place: who, from where, since when, with what role.

Not a connection: one session covers all links of its principal from there, and single commands that follow each other.
When it begins and ends is decided in machine/orders/session/sessions.py.
"""

from enum import StrEnum
from typing import Final

import msgspec

from albireo.model.bounded import Count, Name, Signed

SESSIONS_MAX: Final = 10_000
"""Most sessions that a node can be set to have (`[limits] sessions_max`)."""
LOCALHOST: Final = "localhost"
"""Address of everybody who speaks over a socket in the data directory."""


class EndCause(StrEnum):
    """Cause of the end of a session."""

    LINK = "link"
    """Nothing was heard of the principal from there for a while: its links are gone."""
    ENDED = "ended"
    """Somebody ended it."""
    TAKEOVER = "takeover"
    """The other member of the pair began to serve, and the principal did not come back to it."""
    EXPIRED = "expired"
    """The time of a login is over."""
    START = "start"
    """The node was started anew."""


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A session that goes on."""

    session_id: Count
    """Sequence of the record with which it began: never another session's in this log."""
    principal: Name
    """Who it is (model.principal)."""
    address: Name
    """Address of the machine that it speaks from, without a port; LOCALHOST; empty: not known."""
    role: Name
    """Word of the role that it has at the node (model.access)."""
    since_ns: Signed
    """Wall time at the node."""
    until_ms: Count = 0
    """Log time at which the login of a person is over; 0: it is none, and lasts as long as anything is heard."""


class SessionRow(Session, frozen=True, kw_only=True):
    """A session as people see it, at its node or above."""

    node: str
    stale_since_ns: int | None = None
    """Wall time since which nothing was heard of its node; 0: never in this run; None: the row is of now."""


def who_text(session: Session) -> str:
    """The principal and where it speaks from, for people."""
    return f"{session.principal or 'anybody'} from {session.address or 'somewhere'}"
