"""Sessions: who is present at the node that serves, put on record as it begins and ends.

A session is the presence of a principal from one address: all of its links from there, and single commands that follow
each other, are one.

    absent --asks something--> present --nothing heard for SILENCE_NS----------------------> ended: link
                                |  ^  \\--somebody ends it--> ended: its links are turned away
                                |  +-- anything that its links say, a question or follower from the same place
                                +-- another tenure --> returning --asks again in time--> present
                                                               \\--SILENCE_NS----------> ended: takeover

A client asks `session` every ten seconds (machine/producer/asking.py), so a session without words is one whose links
are gone. A node that stands alone ends what it finds at its start: nobody knows how long it was away.

Invariants
    one of a kind:  at most one session of a principal and address goes on, by the appended records.
    bounded:        sessions, links, links that are turned away, and records per second; who is left out is counted.
    no lock:        a session that ends takes no right away: the same principal begins the next one on a new link.

Not decided here: whether a principal may ask (machine/access), who it is and where it speaks from (runtime/link).
Spec: ADR-0206.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec

from albireo.codec.message import Answer, Ask, FeedAnswer, FeedHello
from albireo.codec.record import Audited, Record, SessionBegan, SessionEnded, SessionRoleChanged, Stream
from albireo.machine.access.judge import AccessJudge
from albireo.machine.access.refusals import refusal_of
from albireo.machine.desk.admission import Admission
from albireo.machine.desk.role import Role
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.people.persons import People
from albireo.machine.fold.people.sessions import SessionFold
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.events import LettersDrained, OneLetter
from albireo.machine.kernel.part import Footing, RootPart
from albireo.machine.kernel.turn import Moment, Question, Turn
from albireo.machine.orders.kind import OrderAtOwner
from albireo.machine.producer.asking import KEEP_NS, UNASKED
from albireo.model.bounded import Count
from albireo.model.instant import MS, Instant
from albireo.model.principal import PERSON_PREFIX, UNKEYED, kind_of
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.tree.session import EndCause, Session, who_text

SILENCE_NS: Final = 3 * KEEP_NS
"""Time without a word after which the links of a session are gone: three times as long as a client is silent."""
BEGUN_MAX: Final = 50
"""Most sessions that begin within a second: one that is left out begins with its next question."""
CHANGED_MAX: Final = 250
"""Most sessions that one turn ends, or records another role of."""
LOGINS_OF_ONE_MAX: Final = 32
"""Most logins of one person: the oldest gives way."""
LINKS_MAX: Final = 4_096
"""Most links that are known to belong to sessions; the one not heard for longest goes first."""
TURNED_AWAY_MAX: Final = 1_000
"""Most links of ended sessions that are remembered, the latest."""

Place = tuple[str, str]
"""Principal and address."""


class SessionEndBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a message that ends a session."""

    session_id: Count


class _Presence(msgspec.Struct, eq=False):
    """A session as its node knows it in this tenure."""

    session_id: int
    place: Place
    role: str
    """Word of its role, by the appended records."""
    heard_at: Instant
    is_returning: bool = False
    """True: it is of an earlier tenure, and nothing was heard of it in this one."""
    until_ms: int = 0
    """Log time at which the login of a person is over; 0: it is the presence of somebody."""
    links: dict[bytes, bool] = {}
    """Links that spoke for it; True: it follows on this one."""


class SessionsRoot(Protocol):
    """The root machine, as far as sessions need it."""

    config: RootConfig
    folds: Folds
    role: Role
    admission: Admission
    access: AccessJudge

    @property
    def feeds(self) -> RootPart:
        """The feeds of this node."""

    @property
    def tree(self) -> RootPart: ...

    def log_time_ns(self, now: Instant) -> int:
        """Log time at this instant."""


class Sessions(RootPart):
    """The machine; lives as long as its root machine."""

    def __init__(self, root: SessionsRoot) -> None:
        self._root = root
        self.left_out = 0
        """Number of questions of principals who are present without a session, for want of room."""
        self._turned_away: dict[bytes, Refusal] = {}
        """Links of sessions that somebody ended, with what they are told."""

    def begin_afresh(self, now: Instant) -> None:
        """Take anew from the fold who is present: nobody is connected yet."""
        self._present: dict[Place, _Presence] = {}
        """Sessions whose end is not appended, the one not heard for longest first."""
        self._logins: dict[int, _Presence] = {}
        """Logins of persons, whose end is not appended, by the ids of their sessions."""
        self._links: dict[bytes, _Presence] = {}
        """Session of each link, the link not heard for longest first."""
        self._watching: dict[bytes, Place] = {}
        """Where the followers are without a session: they belong to the one that begins there, the oldest first."""
        self._ending: dict[int, _Presence] = {}
        """Sessions whose end by somebody is appended and not folded."""
        self._begun = 0
        self._judged: tuple[int, object] = (-1, None)
        """Changes of access, as of which the roles of all sessions are on record."""
        for one in self._root.folds.of(SessionFold):
            place = (one.principal, one.address)
            found = _Presence(one.session_id, place, one.role, now, is_returning=True, until_ms=one.until_ms)
            if one.until_ms:
                self._logins[one.session_id] = found
            else:
                self._present[place] = found

    def begin(self, turn: Turn) -> None:
        """Begin a tenure, right behind `begin_afresh`: in a pair sessions may go on, at a lone node all are over."""
        if not self._root.config.is_paired:
            self._end(list(self._present.values()), EndCause.START, turn)

    # Who is heard.

    def refusal_of(self, sender: bytes) -> Refusal | None:
        """Refusal of a link whose session was ended; None: it may ask."""
        return self._turned_away.get(sender)

    def hears(self, letter: OneLetter, among: LettersDrained, now: Footing, turn: Turn) -> bool:
        """Tell a link whose session was ended so. While this node serves, who speaks is present."""
        if (over := self._turned_away.get(letter[0])) is not None:
            if (answer := refusal_of(letter[1], over)) is not None:
                turn.send(letter[0], answer)
                return True
        elif now.is_serving:
            self._heard(letter, among.addresses, now.moment, turn)
        return False

    def _heard(self, letter: OneLetter, addresses: Mapping[bytes, str], moment: Moment, turn: Turn) -> None:
        sender, message, _, principal = letter
        known = self._links.get(sender)
        if known is not None:
            if known.session_id in self._ending:
                return
            self._freshen(known, moment.now)
            self._links[sender] = self._links.pop(sender)
        is_hello = isinstance(message, FeedHello)
        if sender not in addresses or not (is_hello or (known is None and isinstance(message, Ask))):
            return
        if isinstance(message, FeedHello) and self._is_child(message.follower, principal):
            return
        place = (principal, addresses[sender])
        found = self._present.get(place)
        if found is None and is_hello:
            self._watch(sender, place)
        elif found is None:
            found = self._begin(place, moment, turn)
        if found is not None:
            self._attach(sender, found, moment.now, follows=is_hello)

    def spoken_for(self, person: str, address: str | None, now: Footing, turn: Turn) -> None:
        """Take that a question was asked for a person, who is present by it. `address`: None for our own actors."""
        if not now.is_serving or address is None:
            return
        if any(one.place[0] == person for one in self._logins.values()):
            return
        found = self._present.get((person, address)) or self._begin((person, address), now.moment, turn)
        if found is not None:
            self._freshen(found, now.moment.now)

    def log_in(self, person: str, address: str, for_s: int, question: Question, turn: Turn) -> Session | Refusal:
        """Begin a login of a person, on record in this turn."""
        if self._is_full():
            return Refusal(RefusalCode.BUSY, "there is no room for another session now", "try again in a moment")
        own = [one for one in self._logins.values() if one.place[0] == person]
        self._end(own[: max(0, len(own) - LOGINS_OF_ONE_MAX + 1)], EndCause.EXPIRED, turn)
        began = SessionBegan(
            principal=person,
            address=address,
            role=self._root.access.role_of(person).word,
            since_ns=question.moment.wall,
            until_ms=self._root.log_time_ns(question.moment.now) // MS + for_s * 1000,
        )
        number = self._put(began, question.moment, turn)
        entry = Audited(
            at_ns=began.since_ns,
            user="",
            action="logged_in",
            subject=f"session {number} from {address}",
            principal=person,
            speaker=question.principal,
        )
        turn.record(Stream.AUDIT, [entry])
        return Session(session_id=number, **{name: getattr(began, name) for name in began.__struct_fields__})

    def _is_child(self, follower: str, principal: str) -> bool:
        """True: a node below follows, which is no part of a session, whoever else has its key or its address."""
        places = next((one.places for one in self._root.config.children if one.node == follower), ())
        return bool(places) and (principal in places or kind_of(principal) in UNKEYED)

    def _watch(self, sender: bytes, place: Place) -> None:
        self._watching[sender] = place
        if len(self._watching) > LINKS_MAX:
            del self._watching[next(iter(self._watching))]

    def _freshen(self, one: _Presence, now: Instant) -> None:
        one.heard_at, one.is_returning = now, False
        self._present[one.place] = self._present.pop(one.place)

    def _attach(self, sender: bytes, one: _Presence, now: Instant, *, follows: bool) -> None:
        self._freshen(one, now)
        one.links[sender] = follows or one.links.get(sender, False)
        self._links[sender] = one
        if len(self._links) > LINKS_MAX:
            oldest = next(iter(self._links))
            del self._links.pop(oldest).links[oldest]

    def _begin(self, place: Place, moment: Moment, turn: Turn) -> _Presence | None:
        if self._root.admission.closed_because:
            return None
        if self._is_full():
            self.left_out += 1
            return None
        principal, address = place
        role = self._root.access.role_of(principal).word
        self._put(SessionBegan(principal=principal, address=address, role=role, since_ns=moment.wall), moment, turn)
        one = self._present[place]
        for sender in [sender for sender, where in self._watching.items() if where == place]:
            del self._watching[sender]
            self._attach(sender, one, moment.now, follows=True)
        return one

    def _is_full(self) -> bool:
        known = len(self._present) + len(self._logins) + len(self._ending)
        return known >= self._root.config.limits.sessions_max or self._begun >= BEGUN_MAX

    def _put(self, began: SessionBegan, moment: Moment, turn: Turn) -> int:
        self._begun += 1
        number, place = turn.record(Stream.STATE, [began]), (began.principal, began.address)
        one = _Presence(number, place, began.role, moment.now, until_ms=began.until_ms)
        if began.until_ms:
            self._logins[number] = one
        else:
            self._present[place] = one
        return number

    # Who is gone, and who has another role.

    def tick(self, now: Footing, turn: Turn) -> None:
        """End the sessions of which nothing is heard any more."""
        if not now.is_serving:
            return
        self._begun, moment = 0, now.moment
        if not now.is_open:
            return
        silent: dict[bool, list[_Presence]] = {False: [], True: []}
        for one in self._present.values():
            if moment.now - one.heard_at < SILENCE_NS or len(silent[False]) + len(silent[True]) >= CHANGED_MAX:
                break
            silent[one.is_returning].append(one)
        self._end(silent[False], EndCause.LINK, turn)
        self._end(silent[True], EndCause.TAKEOVER, turn)
        self._end_logins(moment.now, turn)
        self._judge_roles(turn)

    def _end(self, some: list[_Presence], cause: EndCause, turn: Turn) -> None:
        if not some:
            return
        turn.record(Stream.STATE, [SessionEnded(session_id=one.session_id, cause=cause.value) for one in some])
        for one in some:
            self._drop(one)
            for sender in one.links:
                del self._links[sender]

    def _drop(self, one: _Presence) -> None:
        if one.until_ms:
            del self._logins[one.session_id]
        else:
            del self._present[one.place]

    def _end_logins(self, now: Instant, turn: Turn) -> None:
        """End the logins whose time is over, and those of persons who are disabled."""
        people, logins = self._root.folds.of(People), list(self._logins.values())
        over = [one for one in logins if one.until_ms * MS <= self._root.log_time_ns(now)]
        self._end(over[:CHANGED_MAX], EndCause.EXPIRED, turn)
        names = {one.place[0] for one in self._logins.values()}
        known = {one: people.find(one.removeprefix(PERSON_PREFIX)) for one in names}
        barred = {one for one, person in known.items() if person is not None and not person.is_enabled}
        self._end([one for one in self._logins.values() if one.place[0] in barred][:CHANGED_MAX], EndCause.ENDED, turn)

    def _judge_roles(self, turn: Turn) -> None:
        """Record the role of every session whose principal has another one by now."""
        judged = (self._root.access.fold.changes, self._root.access.listed)
        if judged[0] == self._judged[0] and judged[1] is self._judged[1]:
            return
        roles = {
            one: self._root.access.role_of(one.place[0]).word
            for one in (*self._present.values(), *self._logins.values())
        }
        changed = [(one, role) for one, role in roles.items() if role != one.role][:CHANGED_MAX]
        if not changed:
            self._judged = judged
            return
        facts = [SessionRoleChanged(session_id=one.session_id, role=role) for one, role in changed]
        turn.record(Stream.STATE, facts)
        for one, role in changed:
            one.role = role

    # Ended by somebody.

    def owner_of(self, session_id: int) -> str | None:
        """Principal of a session; None: there is no such session."""
        found = self._root.folds.of(SessionFold).find(session_id)
        return None if found is None else found.principal

    def of_link(self, sender: bytes) -> Session | None:
        """Session for which a link speaks; None: it has none, or its record is not committed yet."""
        one = self._links.get(sender)
        return None if one is None else self._root.folds.of(SessionFold).find(one.session_id)

    def goes_on(self, session_id: int) -> bool:
        """True: the session is on record, and nobody has ended it."""
        return self._root.folds.of(SessionFold).find(session_id) is not None and session_id not in self._ending

    def end(self, order: OrderAtOwner[SessionEndBody], turn: Turn) -> Session | Refusal:
        """End a session, or say why not. Its links are told when the record is committed."""
        session_id, principal = order.body.session_id, order.question.principal
        session = self._root.folds.of(SessionFold).find(session_id)
        if session is None:
            place = self._root.config.node
            cause = f"no session {session_id} goes on at {place}"
            return Refusal(RefusalCode.UNKNOWN_NAME, cause, "`albireo sessions list`")
        one = self._logins.get(session_id) or self._present.get((session.principal, session.address))
        if one is None or one.session_id != session_id:
            cause = f"session {session_id} is ending already"
            return Refusal(RefusalCode.ENDED, cause, "`albireo sessions list`")
        ended = SessionEnded(
            session_id=session_id, cause=EndCause.ENDED.value, by=principal or order.user, reason=order.reason
        )
        turn.record(Stream.STATE, [ended])
        subject = f"session {session_id} of {who_text(session)}"
        audited = Audited(
            at_ns=order.question.moment.wall,
            user=order.user,
            action="session_ended",
            subject=subject,
            detail=order.reason,
            principal=principal,
        )
        turn.record(Stream.AUDIT, [audited])
        self._drop(one)
        self._ending[one.session_id] = one
        return session

    def folded(self, records: Sequence[Record], moment: Moment, turn: Turn) -> None:
        """Turn the links of a session away, as the record of its end is committed."""
        for record in records:
            if isinstance(record, SessionEnded) and (one := self._ending.pop(record.session_id, None)) is not None:
                self._turn_away(one, record, moment, turn)

    def _turn_away(self, one: _Presence, record: SessionEnded, moment: Moment, turn: Turn) -> None:
        why = f": {record.reason}" if record.reason else ""
        cause = f"your session was ended by {record.by or 'somebody'}{why}"
        over = Refusal(RefusalCode.SESSION_OVER, cause, "connect anew, or ask who ended it")
        for sender, follows in one.links.items():
            del self._links[sender]
            self._turned_away[sender] = over
            if len(self._turned_away) > TURNED_AWAY_MAX:
                del self._turned_away[next(iter(self._turned_away))]
            turn.send(sender, Answer(request_id=UNASKED, refusal=over))
            self._root.tree.lost(sender, moment, turn)
            if follows:
                turn.send(sender, FeedAnswer(verdict="refused", refusal=over))
                self._root.feeds.lost(sender, moment, turn)
