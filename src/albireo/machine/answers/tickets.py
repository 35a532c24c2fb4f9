"""Answers about tickets: one is given to a principal, and the actor of a door asks which are good."""

from typing import Final, Protocol

from albireo.codec.questions.people import (
    TICKET,
    TICKETS_SHOWN,
    ShownTicket,
    TicketAsked,
    TicketJudged,
    TicketsShown,
    TicketsTold,
)
from albireo.machine.access.judge import AccessJudge
from albireo.machine.access.tickets import TICKET_NS, FaceDoor, Tickets
from albireo.machine.desk.role import Role
from albireo.machine.desk.roles import RoleNeeded, check_role
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.handling import handled
from albireo.machine.kernel.turn import NotAnswered, Question, Turn
from albireo.machine.orders.places import Places
from albireo.machine.orders.session.sessions import Sessions
from albireo.model.access import role_from
from albireo.model.instant import MS, Instant
from albireo.model.principal import PrincipalKind, kind_of
from albireo.model.refusal import Refusal, RefusalCode

_NOT_HERE: Final = "this member does not lead, and knows no tickets"


class TicketRoot(Protocol):
    """The root machine, as far as these answers need it."""

    config: RootConfig
    role: Role
    access: AccessJudge
    sessions: Sessions


class TicketAnswers:
    """The part of the answers that is about tickets."""

    def __init__(self, root: TicketRoot, _: Places) -> None:
        self._root = root
        self._tickets = Tickets(root.config.node, root.config.ticket_key)
        self.handlers = (
            handled(TICKET, self._give),
            handled(TICKETS_SHOWN, self._judge_all),
        )

    def _give(self, question: Question, asked: TicketAsked, turn: Turn) -> None:
        root, now = self._root, question.moment.now
        if not root.role.is_serving:
            raise NotAnswered(Refusal(RefusalCode.NOT_HOLDER, _NOT_HERE, "ask the member that leads"))
        if kind_of(question.principal) is PrincipalKind.PERSON:
            cause = "a ticket lets in whoever connects to the door, and nobody speaks for a person there"
            raise NotAnswered(Refusal(RefusalCode.ACCESS, cause, "ask in your own name"))
        session = root.sessions.of_link(question.sender)
        door = self._tickets.find_door(asked.door, now)
        if door is None:
            cause = f"no door {asked.door!r} is open at {root.config.node}"
            raise NotAnswered(Refusal(RefusalCode.UNKNOWN_NAME, cause, "look at its actor"))
        needed = RoleNeeded(root.config.node, f"ticket for {asked.door}", "", door.needs)
        check_role(root.access, question, needed, turn)
        if session is None or not root.config.ticket_key:
            cause = "a ticket is of a session, and yours is not on record"
            raise NotAnswered(Refusal(RefusalCode.NOT_YET, cause, "ask again"))
        place = (asked.door, session.session_id, question.principal)
        text = self._tickets.give(*place, now, root.sessions.goes_on, 2 * root.config.limits.visitors_max)
        result = {"ticket": text, "endpoint": door.endpoint, "expires_ms": TICKET_NS // MS}
        turn.answer(question, result)

    def _judge_all(self, question: Question, told: TicketsShown, turn: Turn) -> None:
        now, needs = question.moment.now, role_from(told.needs)
        if kind_of(question.principal) is not PrincipalKind.LOCAL:
            raise NotAnswered(
                Refusal(RefusalCode.ACCESS, "only an actor of this node asks about tickets that were shown to it")
            )
        if needs is None or not self._tickets.door_heard(told.door, FaceDoor(told.endpoint, needs, now)):
            cause = f"no door {told.door!r} can be opened: its role is none, or too many are open"
            raise NotAnswered(Refusal(RefusalCode.NOT_POSSIBLE, cause))
        judged = [self._judged(told.door, one, now) for one in told.shown]
        turn.answer(question, TicketsTold(judged, self._root.config.limits.visitors_max))

    def _judged(self, door: str, shown: ShownTicket, now: Instant) -> TicketJudged:
        root = self._root
        given, open_door = self._tickets.find(shown.number, shown.digest), self._tickets.find_door(door, now)
        if not root.role.is_serving:
            return TicketJudged(_NOT_HERE)
        if given is None or open_door is None:
            return TicketJudged("no such ticket was given since CORE runs, or it was replaced by later ones")
        if given.door != door:
            return TicketJudged(f"this is a ticket for the door {given.door}, and here is {door}")
        if given.principal != shown.principal:
            return TicketJudged(f"this is a ticket of {given.principal!r}, and {shown.principal!r} shows it")
        if now >= given.until:
            return TicketJudged("the ticket has expired")
        if not root.sessions.goes_on(given.session_id):
            return TicketJudged(f"session {given.session_id}, of which the ticket was, is over")
        role, needs = root.access.role_of(given.principal), open_door.needs
        if role < needs:
            return TicketJudged(f"{door} needs the role {needs.word}, and {given.principal!r} has {role.word}")
        return TicketJudged(session_id=given.session_id, role=role.word)
