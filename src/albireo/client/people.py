"""People: what a client asks about who is present, and for the doors of other actors."""

from typing import Final, TypeVar

import msgspec

from albireo.client.conversation import Conversation, all_rows, asks
from albireo.client.conversed import AnyClient, conversed
from albireo.client.nodes import listed_nodes, node_of
from albireo.client.questions import sayable
from albireo.codec.questions import persons as q
from albireo.codec.questions.kind import Nothing
from albireo.codec.questions.people import (
    SESSION_END,
    SESSIONS,
    TICKET,
    SessionEndAsked,
    SessionsAsked,
    TicketAsked,
    TicketGiven,
)
from albireo.model.person import Person
from albireo.model.tree.session import SessionRow

AskedT = TypeVar("AskedT", bound=msgspec.Struct)
END_S: Final = 20.0
"""Longest time until it is known whether a session at a node below was ended."""


def checked(shape: type[AskedT], **arguments: object) -> AskedT:
    """Arguments that a node takes. Raises ArgumentRefused."""
    return sayable(shape.__name__, lambda: msgspec.convert(arguments, shape))


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

    # Persons: for faces, and for whoever keeps them.

    @conversed
    def people(self) -> Conversation[list[q.PersonRow]]:
        """The persons on record, without what lets them in. Raises: AccessRefused: we are no admin, as below."""
        return asks(q.PEOPLE, Nothing())

    @conversed
    def credentials(self, name: str = "", *, certificate: str = "") -> Conversation[Person | None]:
        """By what a person logs in (`client/credentials.py`), of this name or certificate; None: there is none."""
        return asks(q.CREDENTIALS, q.CredentialsAsked(name=name, certificate=certificate))

    @conversed
    def add_person(
        self, name: str, password: str = "", *, is_one_time: bool = False, certificate: str = ""
    ) -> Conversation[q.PersonRow]:
        """Put a person on record.

        Args:
            password: as `password_words` makes them of a password; empty: none.
            is_one_time: it is to be changed by whoever logs in with it.
            certificate: SHA-256 of the certificate, in hex; empty: none.
        Raises:
            NodeRefused: the name is no person's, or one of that name is on record.
        """
        kind = {"name": name, "password": password, "is_one_time": is_one_time, "certificate": certificate}
        return self._set(is_new=True, **kind)

    @conversed
    def change_person(
        self,
        name: str,
        *,
        password: str | None = None,
        is_one_time: bool = False,
        certificate: str | None = None,
        is_enabled: bool | None = None,
    ) -> Conversation[q.PersonRow]:
        """Change what is given; None: it stays. Who is not enabled may nothing, and its logins end within a second."""
        kind = {"password": password, "is_one_time": is_one_time, "certificate": certificate, "is_enabled": is_enabled}
        return self._set(name=name, **kind)

    @conversed
    def first_admin(self, password: str) -> Conversation[q.FirstAdminTold]:
        """Put `admin` on record, with this one-time password and that role everywhere, if nobody is on record."""
        return asks(q.PERSON_FIRST, checked(q.FirstAdmin, password=password))

    @conversed
    def add_token(self, name: str, digest: str, role: str, until_ns: int, label: str = "") -> Conversation[q.PersonRow]:
        """Give a person a token. `digest`: of `new_token`; `role`: the most that it may do; `until_ns`: wall time."""
        token = {"digest": digest, "role": role, "until_ns": until_ns, "label": label}
        return self._set(name=name, token=token)

    @conversed
    def end_token(self, name: str, token_id: int) -> Conversation[q.PersonRow]:
        """Take a token back."""
        return self._set(name=name, end_token=token_id)

    def _set(self, **arguments: object) -> Conversation[q.PersonRow]:
        return asks(q.PERSON_SET, checked(q.PersonSet, **arguments, user=self.user))

    @conversed
    def cookie_key(self) -> Conversation[bytes]:
        """The 32 bytes with which faces sign, the same at both members; for a face beside one of them."""
        return (yield from asks(q.COOKIE_KEY, Nothing())).key

    @conversed
    def begin_login(self, name: str, address: str, for_s: int = q.LOGIN_S) -> Conversation[SessionRow]:
        """Put on record that a person logged in from this address. `end_session` ends it, or its time does."""
        return asks(q.LOGIN_BEGIN, checked(q.LoginBegin, name=name, address=address, for_s=for_s))

    @conversed
    def login(self, session_id: int) -> Conversation[SessionRow | None]:
        """A login that goes on; None: it is over, or the session is none."""
        return asks(q.LOGIN, q.LoginShown(session_id=session_id))

    @conversed
    def ticket(self, door: str) -> Conversation[TicketGiven]:
        """Have a ticket for the door of another actor of the node, a face say, and the endpoint at which to show it.

        Raises:
            AccessRefused: our role does not suffice for that door. NodeRefused: there is none of this name.
        """
        return asks(TICKET, TicketAsked(door=door))
