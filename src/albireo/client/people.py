"""People: what a client asks about who is present, and for the doors of other actors."""

from typing import Final

from albireo.client.conversation import Conversation, all_rows, asks
from albireo.client.conversed import AnyClient, conversed
from albireo.client.nodes import listed_nodes, node_of
from albireo.codec.questions.people import (
    SESSION_END,
    SESSIONS,
    TICKET,
    SessionEndAsked,
    SessionsAsked,
    TicketAsked,
    TicketGiven,
)
from albireo.model.tree.session import SessionRow

END_S: Final = 20.0
"""Longest time until it is known whether a session at a node below was ended."""


class PeopleClient(AnyClient):
    """A client, as far as it asks who is present."""

    @conversed
    def sessions(self, pattern: str = "*") -> Conversation[list[SessionRow]]:
        """Who is present here and at the nodes below, since when. `pattern`: only at nodes that it means."""
        found: list[SessionRow] = []
        for node in (yield from listed_nodes(pattern)):
            found += yield from all_rows(SESSIONS, SessionsAsked(node=node))
        return sorted(found, key=lambda one: (one.node, one.session_id))

    @conversed
    def end_session(self, session: SessionRow | int, reason: str = "", *, node: str = "") -> Conversation[None]:
        """End a session: another principal's as an admin of its node, or one of our own here; its key stays trusted.

        `node`: where the session is, if only its id is given. Raises: as `write`.
        """
        number, where = (session.session_id, session.node) if isinstance(session, SessionRow) else (session, node)
        at = yield from node_of(where)
        asked = SessionEndAsked(session_id=number, reason=reason, user=self.user, node=at)
        yield from asks(SESSION_END, asked, END_S)

    @conversed
    def ticket(self, door: str) -> Conversation[TicketGiven]:
        """Have a ticket for the door of another actor of the node, a face say, and the endpoint at which to show it.

        Raises:
            AccessRefused: our role does not suffice for that door. NodeRefused: there is none of this name.
        """
        return asks(TICKET, TicketAsked(door=door))
