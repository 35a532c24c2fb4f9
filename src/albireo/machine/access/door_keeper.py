"""Door keeper: who is let in at the door of an actor other than CORE, by a ticket, and is out again when that is over.

    outside --`ticket_show`--> shown --CORE: good--> inside --CORE: over, or silent for SILENT_NS--> outside
                               shown --CORE: a reason--> outside

Each ASK_NS CORE is asked about everybody who is inside or has shown a ticket, in questions of SHOWN_MAX; and when
somebody shows one: at once, or when the question before is answered, so that nobody who shows tickets all the time
keeps CORE from answering. Only the digest of a ticket is kept. A visitor is a link and the principal that it has
proven: another principal that takes the name of a link is outside.

Not done here: sockets (runtime/actor/ticket_door.py); judging a ticket (tickets.py). Spec: ADR-0232.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Final

import msgspec

from albireo.codec.errors import DecodeError
from albireo.codec.message import Answer, AnyMessage, Ask
from albireo.codec.questions.kind import NO_PERSONS
from albireo.codec.questions.people import SHOWN_MAX, TICKETS_SHOWN, TicketJudged, TicketsTold
from albireo.codec.ticket import decode_ticket, digest_of
from albireo.machine.producer.asking import UNASKED
from albireo.model.access import AccessRole
from albireo.model.instant import SECOND, Instant
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.settings import LimitSettings

SHOW: Final = "ticket_show"
"""Question by which a visitor shows its ticket; its argument is `ticket`."""
ASK_NS: Final = SECOND
VISITORS_MAX: Final = LimitSettings().visitors_max
"""Most visitors of one door, until CORE tells how many."""
_CROWDED: Final = "come again later, or raise visitors_max in [limits]"
QUIET_NS: Final = 60 * SECOND
"""Time without a word after which a visitor gives way to another one, where there is no room."""
SILENT_NS: Final = 10 * SECOND
"""Time without an answer of CORE after which nobody is inside: a session may be over."""
ANOTHER: Final = "ask CORE for another one (`ticket`), and show it"

Visitor = tuple[bytes, str]
"""Link and principal."""


class DoorSays(msgspec.Struct, frozen=True):
    """A message to a visitor, or a question to CORE."""

    to: bytes
    """Link of the visitor; empty: CORE."""
    message: AnyMessage


Effects = Sequence[DoorSays]


class Entrance(msgspec.Struct, frozen=True):
    """A ticket that was shown."""

    number: int
    digest: str
    request_id: int
    is_inside: bool = False
    session_id: int = 0
    role: str = ""
    """Word of the role of its principal, by CORE's last answer."""


class DoorKeeper:
    """The machine of one door."""

    def __init__(self, node: str, door: str, endpoint: str, needs: AccessRole, now: Instant) -> None:
        """
        Args:
            door: name of the door, unique in the node.
            endpoint: address that CORE tells to whoever asks for a ticket.
            needs: role that somebody needs to be let in.
        """
        self._node = node
        self._door = door
        self._told = {"door": door, "endpoint": endpoint, "needs": needs.word}
        self._visitors: dict[Visitor, Entrance] = {}
        """Those who were judged last stand last."""
        self._spoke_at: dict[Visitor, Instant] = {}
        self._visitors_max = VISITORS_MAX
        """As CORE told last."""
        self._number = 0
        self._asked: list[tuple[Visitor, Entrance]] = []
        """Tickets in the last question, in its order."""
        self._heard_at = now
        """Instant of CORE's last answer."""
        self._ask_at = now
        self._is_awaited = self._is_shown = False
        """Whether the last question is not answered, and whether somebody showed a ticket since."""

    def deadline(self) -> Instant:
        return self._ask_at

    def inside(self, sender: bytes, principal: str) -> Entrance | None:
        """The entrance of whoever is inside; None: it is not."""
        found = self._visitors.get((sender, principal))
        return found if found is not None and found.is_inside else None

    def hears(self, sender: bytes, principal: str, message: AnyMessage, now: Instant) -> tuple[bool, Effects]:
        """True: the message is let through, for it comes from inside."""
        if isinstance(message, Ask) and message.what == SHOW:
            return False, self._shown((sender, principal), message, now)
        if isinstance(message, Ask) and message.person:
            return False, [_refused(sender, message.request_id, NO_PERSONS)]
        if self.inside(sender, principal) is not None:
            self._spoke_at[sender, principal] = now
            return True, ()
        refusal = _no_good(f"{self._door} lets in who shows a ticket")
        return False, [_refused(sender, message.request_id, refusal)] if isinstance(message, Ask) else ()

    def _shown(self, visitor: Visitor, ask: Ask, now: Instant) -> Effects:
        text = ask.arguments.get("ticket")
        refusal = self._refusal(text, visitor, now)
        if refusal is not None or not isinstance(text, str):
            return [_refused(visitor[0], ask.request_id, refusal)]
        before = self._visitors.get(visitor)
        is_inside = before is not None and before.is_inside
        self._spoke_at[visitor] = now
        self._visitors[visitor] = Entrance(decode_ticket(text).number, digest_of(text), ask.request_id, is_inside)
        self._is_shown = True
        return () if self._is_awaited else self._ask(now)

    def _refusal(self, text: object, visitor: Visitor, now: Instant) -> Refusal | None:
        """Reason why a ticket is none of this door, as it says itself; None: CORE has to judge it."""
        try:
            ticket = decode_ticket(text if isinstance(text, str) else "")
        except DecodeError as error:
            return _no_good(error.reason)
        if ticket.node != self._node:
            return _no_good(f"this is a ticket of the node {ticket.node}, and the door is one of {self._node}")
        if ticket.door != self._door:
            return _no_good(f"this is a ticket for the door {ticket.door}, and here is {self._door}")
        if visitor not in self._visitors and len(self._visitors) >= self._visitors_max and not self._makes_room(now):
            return Refusal(RefusalCode.BUSY, f"{self._visitors_max} are at this door", _CROWDED)
        return None

    def _makes_room(self, now: Instant) -> bool:
        """Forget the visitor that has been quiet for the longest time, if that is long."""
        quiet = min(self._visitors, key=self._spoke_at.__getitem__)
        if now - self._spoke_at[quiet] < QUIET_NS:
            return False
        del self._visitors[quiet], self._spoke_at[quiet]
        return True

    def answered(self, answer: Answer, now: Instant) -> Effects:
        """Take CORE's word on the tickets of the last question."""
        if answer.request_id != self._number or answer.refusal is not None:
            return ()  # Without an answer that says otherwise everybody goes out in time.
        try:
            told = msgspec.convert(answer.result, TicketsTold)
        except msgspec.ValidationError:
            return ()
        self._heard_at, self._is_awaited, self._visitors_max = now, False, told.visitors_max
        asked, self._asked = self._asked, []
        effects: list[DoorSays] = []
        for (visitor, entrance), word in zip(asked, told.judged, strict=False):
            if self._visitors.get(visitor) is entrance:
                effects += self._judged(visitor, entrance, word)
        return [*effects, *self._ask(now)] if self._is_shown else effects

    def _judged(self, visitor: Visitor, entrance: Entrance, word: TicketJudged) -> Effects:
        if word.reason:
            return [self._out(visitor, word.reason)]
        del self._visitors[visitor]
        self._visitors[visitor] = Entrance(
            entrance.number, entrance.digest, UNASKED, is_inside=True, session_id=word.session_id, role=word.role
        )
        if entrance.request_id == UNASKED:
            return ()
        return [DoorSays(visitor[0], Answer(request_id=entrance.request_id, result=msgspec.to_builtins(word)))]

    def time_passed(self, now: Instant) -> Effects:
        """Ask again, each second."""
        gone: Effects = ()
        if now - self._heard_at >= SILENT_NS:
            cause = "CORE does not say any more whether this ticket is good"
            gone = [self._out(visitor, cause) for visitor in list(self._visitors)]
        return [*gone, *self._ask(now)] if now >= self._ask_at else gone

    def _out(self, visitor: Visitor, cause: str) -> DoorSays:
        del self._spoke_at[visitor]
        return _refused(visitor[0], self._visitors.pop(visitor).request_id, _no_good(cause))

    def _ask(self, now: Instant) -> Effects:
        self._ask_at = Instant(now + ASK_NS // -(-max(1, len(self._visitors)) // SHOWN_MAX))
        self._number += 1
        new = [one for one in self._visitors.items() if one[1].request_id != UNASKED]
        others = (one for one in self._visitors.items() if one[1].request_id == UNASKED)
        self._asked = [*new[:SHOWN_MAX], *islice(others, max(0, SHOWN_MAX - len(new)))]
        self._is_awaited, self._is_shown = True, len(new) > SHOWN_MAX
        shown = [(one.number, one.digest, principal) for (_, principal), one in self._asked]
        ask = Ask(request_id=self._number, what=TICKETS_SHOWN.name, arguments={**self._told, "shown": shown})
        return [DoorSays(b"", ask)]


def _no_good(cause: str) -> Refusal:
    return Refusal(RefusalCode.TICKET, cause, ANOTHER)


def _refused(to: bytes, request_id: int, refusal: Refusal | None) -> DoorSays:
    return DoorSays(to, Answer(request_id=request_id, refusal=refusal))
