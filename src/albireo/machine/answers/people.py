"""Answers about people: whose a session is, who may do what, who is on record, and by what persons log in."""

import hmac
from typing import Final, Protocol

from msgspec.structs import replace

from albireo.codec.message import AnyMessage
from albireo.codec.people_records import CookieKeyMade, PersonChanged
from albireo.codec.questions import persons as questions
from albireo.codec.questions.kind import Nothing
from albireo.codec.questions.people import (
    ACCESS_GRANT,
    ACCESS_LIST,
    ACCESS_REVOKE,
    SESSION,
    AccessChanged,
    GrantAsked,
    RevokeAsked,
)
from albireo.codec.record import AccessGranted, AccessRevoked, Audited, Record, Stream
from albireo.machine.access.changes import AccessChanges
from albireo.machine.access.judge import AccessJudge
from albireo.machine.access.people_changes import PeopleChange, changed, first_admin
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.people.persons import CookieKeys, People
from albireo.machine.fold.people.sessions import SessionFold
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.handling import handled
from albireo.machine.kernel.turn import NotAnswered, Question, Turn, answer_to, granted
from albireo.machine.orders.places import Places
from albireo.machine.orders.session.kinds import session_row
from albireo.machine.orders.session.sessions import Sessions
from albireo.model.access import AccessRole
from albireo.model.person import Person
from albireo.model.position import Position
from albireo.model.principal import OWN_KINDS, PERSON_PREFIX, kind_of
from albireo.model.refusal import Refusal, RefusalCode

_NOT_YET: Final = Refusal(
    RefusalCode.NOT_YET, "another change of persons is not committed yet", "ask again in a moment"
)


class PeopleRoot(Protocol):
    """The root machine, as far as these answers need it."""

    config: RootConfig
    folds: Folds
    folded_to: Position
    access: AccessJudge
    access_changes: AccessChanges
    sessions: Sessions

    def after(self, sequence: int, to: bytes, message: AnyMessage, turn: Turn) -> None:
        """Say `message` once everything up to `sequence` is committed."""


class PeopleAnswers:
    """The part of the answers that is about people."""

    def __init__(self, root: PeopleRoot, _: Places) -> None:
        self._root = root
        self._under_way = (0, 0)
        """Epoch and sequence of the last change of persons that was appended."""
        self.handlers = (
            handled(SESSION, self._session),
            handled(ACCESS_LIST, self._access_list),
            handled(ACCESS_GRANT, self._change_access),
            handled(ACCESS_REVOKE, self._change_access),
            handled(questions.PEOPLE, self._people),
            handled(questions.CREDENTIALS, self._credentials),
            handled(questions.PERSON_SET, self._set),
            handled(questions.PERSON_FIRST, self._first),
            handled(questions.COOKIE_KEY, self._cookie_key),
            handled(questions.LOGIN_BEGIN, self._login_begin),
            handled(questions.LOGIN, self._login),
        )

    def _session(self, question: Question, _: Nothing, turn: Turn) -> None:
        """The session of who asks; by asking it a client says that it is still there."""
        own = self._root.sessions.of_link(question.sender)
        turn.answer(question, None if own is None else session_row(own, self._root.config.node))

    def _access_list(self, question: Question, _: Nothing, turn: Turn) -> None:
        turn.answer(question, self._root.access_changes.rows())

    def _change_access(self, question: Question, asked: GrantAsked | RevokeAsked, turn: Turn) -> None:
        root = self._root
        change = root.access_changes.record_of(asked, root.folded_to.sequence)
        if isinstance(change, Refusal):
            raise NotAnswered(change)
        role = change.role if isinstance(change, AccessGranted) else ""
        told = AccessChanged(principal=change.principal, node=change.node)
        end = self._record(
            [change],
            told,
            question,
            turn,
            user=asked.user,
            action="access_granted" if role else "access_revoked",
            subject=change.principal,
            detail=f"{role or 'role'} at {change.node or 'every node'}",
        )
        root.access_changes.appended(end)

    def _record(
        self, records: list[Record], told: object, question: Question, turn: Turn, *, user: str = "", **entry: str
    ) -> int:
        """Put records of a stream on record, with an entry of the journal; once committed, `told` is the answer."""
        is_role = isinstance(records[0], AccessGranted | AccessRevoked)
        turn.record(Stream.CONTROL if is_role else Stream.PEOPLE, records)
        audited = Audited(at_ns=question.moment.wall, user=user, principal=question.principal, **entry)
        end = turn.record(Stream.AUDIT, [audited])
        self._root.after(end, question.sender, answer_to(question.request_id, told), turn)
        return end

    def _people(self, question: Question, _: Nothing, turn: Turn) -> None:
        found = sorted(self._root.folds.of(People), key=lambda one: one.name)
        turn.answer(question, [self._row(one) for one in found])

    def _row(self, one: Person) -> questions.PersonRow:
        role = min(self._root.access.role_of(PERSON_PREFIX + one.name), one.most(""))
        return questions.PersonRow(
            name=one.name,
            role=role.word,
            is_enabled=one.is_enabled,
            has_password=bool(one.password),
            is_one_time=one.is_one_time,
            certificate=one.certificate,
            tokens=tuple(replace(each, digest="") for each in one.tokens),
            since_ns=one.since_ns,
        )

    def _credentials(self, question: Question, asked: questions.CredentialsAsked, turn: Turn) -> None:
        people = self._root.folds.of(People)
        found = people.find(asked.name)
        if asked.certificate:
            found = next((one for one in people if one.certificate == asked.certificate), None)
        turn.answer(question, found)

    def _set(self, question: Question, asked: questions.PersonSet, turn: Turn) -> None:
        self._check_free(turn)
        change = granted(changed(self._root.folds.of(People), asked, turn.end + 1, question.moment.wall))
        self._change(change, self._row(change.person), question, turn, asked.user)

    def _first(self, question: Question, asked: questions.FirstAdmin, turn: Turn) -> None:
        self._check_free(turn)
        change = first_admin(self._root.folds.of(People), asked.password, question.moment.wall)
        if change is None:
            turn.answer(question, questions.FirstAdminTold(is_made=False))
            return
        name = change.person.name
        turn.record(Stream.CONTROL, [AccessGranted(principal=PERSON_PREFIX + name, role=AccessRole.ADMIN.word)])
        self._change(change, questions.FirstAdminTold(is_made=True, name=name), question, turn)

    def _change(self, change: PeopleChange, told: object, question: Question, turn: Turn, user: str = "") -> None:
        person, entry = change.person, {"action": change.action, "detail": change.detail}
        end = self._record(
            [PersonChanged(person=person)], told, question, turn, user=user, subject=person.name, **entry
        )
        self._under_way = turn.epoch, end

    def _check_free(self, turn: Turn) -> None:
        epoch, sequence = self._under_way
        if epoch == turn.epoch and sequence > self._root.folded_to.sequence:
            raise NotAnswered(_NOT_YET)

    def _cookie_key(self, question: Question, _: Nothing, turn: Turn) -> None:
        config = self._root.config
        if kind_of(question.principal) not in OWN_KINDS:
            raise NotAnswered(
                Refusal(RefusalCode.NOT_POSSIBLE, "faces beside a member of this node sign cookies", "ask from there")
            )
        known = next(iter(self._root.folds.of(CookieKeys)), None)
        if known is not None:
            turn.answer(question, questions.CookieKeyTold(key=known.key))
            return
        self._check_free(turn)
        if not config.ticket_key:
            raise NotAnswered(
                Refusal(RefusalCode.NOT_POSSIBLE, "this node has no faces", "declare one in the topology")
            )
        made = hmac.digest(config.ticket_key, b"cookies" + turn.end.to_bytes(8), "sha256")
        told = questions.CookieKeyTold(key=made)
        end = self._record([CookieKeyMade(key=made)], told, question, turn, action="cookie_key_made", subject="")
        self._under_way = turn.epoch, end

    def _login_begin(self, question: Question, asked: questions.LoginBegin, turn: Turn) -> None:
        known = self._root.folds.of(People).find(asked.name)
        if known is None or not known.is_enabled:
            cause = f"no person {asked.name!r} is on record, or it is disabled"
            raise NotAnswered(Refusal(RefusalCode.ACCESS, cause, "see: albireo people list"))
        begun = granted(
            self._root.sessions.log_in(PERSON_PREFIX + asked.name, asked.address, asked.for_s, question, turn)
        )
        row = session_row(begun, self._root.config.node)
        self._root.after(turn.end, question.sender, answer_to(question.request_id, row), turn)

    def _login(self, question: Question, asked: questions.LoginShown, turn: Turn) -> None:
        found = self._root.folds.of(SessionFold).find(asked.session_id)
        goes_on = found is not None and found.until_ms and self._root.sessions.goes_on(asked.session_id)
        turn.answer(question, session_row(found, self._root.config.node) if found is not None and goes_on else None)
