"""Questions about who is here, who may do what, and tickets for the doors of faces."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from albireo.codec.questions.kind import Answerer, Asked, Nothing, QuestionKind
from albireo.codec.questions.pieces import InPieces
from albireo.model.access import AccessRole
from albireo.model.bounded import Count, Name, Text
from albireo.model.order_text import OrderText
from albireo.model.topology import ADAPTER_NAME_PATTERN
from albireo.model.tree.session import SessionRow

SHOWN_MAX: Final = 500
"""Most tickets in one question of a door: CORE's turn is short."""


class SessionsAsked(InPieces, frozen=True, kw_only=True):
    """Arguments of `sessions`, besides those of a piece."""

    node: Name = ""
    """Node below whose sessions are meant; empty: this node."""


class SessionEndAsked(Asked, frozen=True, kw_only=True):
    """Arguments of the question `session_end`."""

    session_id: Count
    node: Name = ""
    """Node below that has the session; empty: this node."""
    reason: OrderText = ""
    user: Annotated[str, Meta(max_length=100)] = "unknown"


class TicketAsked(Asked, frozen=True, kw_only=True):
    """Arguments of the question `ticket`."""

    door: Name


class ShownTicket(msgspec.Struct, frozen=True, array_like=True):
    """A ticket that somebody shows at a door."""

    number: Count
    digest: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}(?!\n)$")]
    principal: Name


class TicketsShown(Asked, frozen=True, kw_only=True):
    """Arguments of the question `tickets_shown`, by which the actor of a door also says that it is open."""

    door: Annotated[str, Meta(pattern=ADAPTER_NAME_PATTERN)]
    endpoint: Annotated[str, Meta(max_length=512)]
    needs: Name
    shown: Annotated[tuple[ShownTicket, ...], Meta(max_length=SHOWN_MAX)] = ()


class TicketJudged(msgspec.Struct, frozen=True):
    """CORE's word on a ticket that was shown."""

    reason: str = ""
    """Reason why it lets nobody in; empty: it does."""
    session_id: int = 0
    role: str = ""


class TicketsTold(msgspec.Struct, frozen=True):
    """Answer to `tickets_shown`."""

    judged: list[TicketJudged]
    """CORE's word on each ticket, in the order in which they were shown."""
    visitors_max: Count
    """Most visitors that the door may have (`[limits]`)."""


class GrantAsked(Asked, frozen=True, kw_only=True):
    """Arguments of the question `access_grant`."""

    principal: Text
    role: Name
    node: Text = ""
    """Id of the topmost node; empty: every node."""
    user: Text = ""


class RevokeAsked(Asked, frozen=True, kw_only=True):
    """Arguments of the question `access_revoke`."""

    principal: Text
    node: Text = ""
    """Node at which the role was given; empty: every role."""
    user: Text = ""


class TicketGiven(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `ticket`."""

    ticket: str
    endpoint: str
    expires_ms: int


class AccessRow(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who has a role."""

    principal: str
    role: str
    """Role at the node that is asked."""
    grants: tuple["AccessGrant", ...]
    is_on_record: bool
    has_key: bool | None
    """None: the node goes by no keys."""


class AccessGrant(msgspec.Struct, frozen=True):
    """A role at a node."""

    role: str
    node: str
    """Empty: every node."""


class AccessChanged(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to a change of access."""

    principal: str
    node: str


SESSION: Final[QuestionKind[Nothing, SessionRow | None]] = QuestionKind(
    name="session",
    shape=Nothing,
    answer=SessionRow | None,  # type: ignore[arg-type]  # There is no type of a union to mypy.
    answerer=Answerer.CORE,
    meaning="one's own session; a client says by it that it is still there",
    told="the session of who asks, null before its record is committed. A client asks it every 10 s, with request id "
    "0, to say that it is there",
    is_reading=True,
)
SESSIONS: Final = QuestionKind(
    name="sessions",
    shape=SessionsAsked,
    answer=list[SessionRow],
    answerer=Answerer.CORE,
    meaning="who is present",
    told="who is present at this node or at one below: `session_id`, `principal`, `address`, `role`, `since_ns`, "
    "`node`, `stale_since_ns` (docs/access.md)",
    is_reading=True,
)
SESSION_END: Final = QuestionKind(
    name="session_end",
    shape=SessionEndAsked,
    answer=object,
    answerer=Answerer.ACTING,
    meaning="end one's own session; that of another principal needs admin at its node",
    told="the session, once it is committed that it is over",
)
TICKET: Final = QuestionKind(
    name="ticket",
    shape=TicketAsked,
    answer=TicketGiven,
    answerer=Answerer.CORE,
    meaning="a ticket for the door of a face; the door may need a higher role",
    told="a ticket for the door of another actor of this node: `ticket`, `endpoint`, `expires_ms` (docs/access.md, "
    "Tickets)",
    is_reading=True,
)
TICKETS_SHOWN: Final = QuestionKind(
    name="tickets_shown",
    shape=TicketsShown,
    answer=TicketsTold,
    answerer=Answerer.CORE,
    role=AccessRole.ADMIN,
    meaning="by the actor of a door, on its own machine only: which tickets are good",
    told="of each ticket, given by number, digest and principal: `reason` (empty: it is good), `session_id`, `role`; "
    "and how many visitors the door may have; for actors of this node, which say so that their door is open",
)
ACCESS_LIST: Final = QuestionKind(
    name="access_list",
    shape=Nothing,
    answer=list[AccessRow],
    answerer=Answerer.CORE,
    role=AccessRole.ENGINEER,
    meaning="who has which role",
    told="who has which role (docs/access.md)",
    is_reading=True,
)
ACCESS_GRANT: Final = QuestionKind(
    name="access_grant",
    shape=GrantAsked,
    answer=AccessChanged,
    answerer=Answerer.ACTING,
    role=AccessRole.ADMIN,
    meaning="give a role",
    told="the name and the node, once committed",
)
ACCESS_REVOKE: Final = QuestionKind(
    name="access_revoke",
    shape=RevokeAsked,
    answer=AccessChanged,
    answerer=Answerer.ACTING,
    role=AccessRole.ADMIN,
    meaning="take a role",
    told="the same",
)
KINDS: Final = (SESSION, SESSIONS, SESSION_END, TICKET, TICKETS_SHOWN, ACCESS_LIST, ACCESS_GRANT, ACCESS_REVOKE)
