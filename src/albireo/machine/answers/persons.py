"""Answers about persons: who is on record, by what they log in, their logins, and the key that signs cookies."""

import hmac
from typing import Final, Protocol

from msgspec.structs import replace

from albireo.codec.people_records import CookieKeyMade, PersonChanged
from albireo.codec.questions import persons as questions
from albireo.codec.questions.kind import Nothing
from albireo.codec.record import AccessGranted, Audited, Record, Stream
from albireo.machine.access.judge import AccessJudge
from albireo.machine.access.people_changes import changed, first_admin
from albireo.machine.answers.people import PeopleRoot
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.people.persons import CookieKeys, People
from albireo.machine.fold.people.sessions import SessionFold
from albireo.machine.kernel.handling import handled
from albireo.machine.kernel.turn import NotAnswered, Question, Turn, answer_to, granted
from albireo.machine.orders.places import Places
from albireo.machine.orders.session.kinds import session_row
from albireo.model.access import AccessRole
from albireo.model.person import Person
from albireo.model.principal import OWN_KINDS, PERSON_PREFIX, kind_of
from albireo.model.refusal import Refusal, RefusalCode

_NOT_YET: Final = Refusal(
    RefusalCode.NOT_YET, "another change of persons is not committed yet", "ask again in a moment"
)


class PersonsRoot(PeopleRoot, Protocol):
    """The root machine, as far as these answers need it."""

    folds: Folds
    access: AccessJudge


class PersonAnswers:
    """The part of the answers that is about persons."""

    def __init__(self, root: PersonsRoot, _: Places) -> None:
        self._root = root
        self._under_way = (0, 0)
        """Epoch and sequence of the last change that was appended."""
        self.handlers = (
            handled(questions.PEOPLE, self._people),
            handled(questions.CREDENTIALS, self._credentials),
            handled(questions.PERSON_SET, self._set),
            handled(questions.PERSON_FIRST, self._first),
            handled(questions.COOKIE_KEY, self._cookie_key),
            handled(questions.LOGIN_BEGIN, self._login_begin),
            handled(questions.LOGIN, self._login),
        )

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
        end = self._record(
            question, [PersonChanged(person=change.person)], change.action, change.detail, asked.user, turn
        )
        self._root.after(end, question.sender, answer_to(question.request_id, self._row(change.person)), turn)

    def _first(self, question: Question, asked: questions.FirstAdmin, turn: Turn) -> None:
        self._check_free(turn)
        change = first_admin(self._root.folds.of(People), asked.password, question.moment.wall)
        if change is None:
            turn.answer(question, questions.FirstAdminTold(is_made=False))
            return
        name = change.person.name
        turn.record(Stream.CONTROL, [AccessGranted(principal=PERSON_PREFIX + name, role=AccessRole.ADMIN.word)])
        end = self._record(question, [PersonChanged(person=change.person)], change.action, change.detail, "", turn)
        told = questions.FirstAdminTold(is_made=True, name=name)
        self._root.after(end, question.sender, answer_to(question.request_id, told), turn)

    def _check_free(self, turn: Turn) -> None:
        epoch, sequence = self._under_way
        if epoch == turn.epoch and sequence > self._root.folded_to.sequence:
            raise NotAnswered(_NOT_YET)

    def _record(
        self, question: Question, records: list[Record], action: str, detail: str, user: str, turn: Turn
    ) -> int:
        subject = next((one.person.name for one in records if isinstance(one, PersonChanged)), "")
        entry = Audited(
            at_ns=question.moment.wall,
            user=user,
            action=action,
            subject=subject,
            detail=detail,
            principal=question.principal,
        )
        turn.record(Stream.PEOPLE, records)
        end = turn.record(Stream.AUDIT, [entry])
        self._under_way = turn.epoch, end
        return end

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
        end = self._record(question, [CookieKeyMade(key=made)], "cookie_key_made", "", "", turn)
        self._root.after(end, question.sender, answer_to(question.request_id, questions.CookieKeyTold(key=made)), turn)

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
