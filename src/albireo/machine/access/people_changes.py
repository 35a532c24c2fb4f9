"""Changes of persons: what is asked, as the person that is put on record, or why not.

One change at a time, as with roles (changes.py): the next is judged when the one before it is committed. So two faces
that find nobody on record do not both make the first admin.

Spec: ADR-0271.
"""

from typing import Final

import msgspec
from msgspec.structs import replace

from albireo.codec.questions.persons import FirstAdmin, PersonAdd, PersonChange, TokenAdd, TokenEnd
from albireo.machine.fold.people.persons import People
from albireo.model.access import ROLE_WORDS, role_from
from albireo.model.bounded import NAME_CHARS_MAX
from albireo.model.instant import WallTime
from albireo.model.person import PEOPLE_MAX, TOKENS_MAX, Person, PersonToken
from albireo.model.refusal import Refusal, RefusalCode

FIRST: Final = "admin"
"""Name of the person that a face makes where nobody is on record."""

ChangeAsked = PersonAdd | PersonChange | TokenAdd | TokenEnd | FirstAdmin


class PeopleChange(msgspec.Struct, frozen=True):
    """A change, as it is put on record."""

    person: Person
    action: str
    """Name for the audit trail."""
    detail: str = ""


def changed(people: People, asked: ChangeAsked, sequence: int, wall: WallTime) -> PeopleChange | Refusal | None:
    """The change that does what is asked; None: there is nothing to do.

    Args:
        sequence: a number that no earlier change had, for a token.
    """
    if isinstance(asked, FirstAdmin):
        first = Person(name=FIRST, since_ns=wall, password=asked.password, is_one_time=True)
        return None if len(people) else PeopleChange(first, "person_added", "the first admin, with a one-time password")
    known = people.find(asked.name)
    if isinstance(asked, PersonAdd):
        return _added(people, asked, wall) if known is None else _exists(asked.name)
    if known is None:
        return Refusal(RefusalCode.UNKNOWN_NAME, f"no person {asked.name!r} is on record", "see: albireo people list")
    match asked:
        case PersonChange():
            return _of_certificate(people, asked.certificate, known.name) or _changed(known, asked)
        case TokenAdd():
            return _with_token(known, asked, sequence, wall)
        case TokenEnd():
            left = tuple(one for one in known.tokens if one.token_id != asked.token_id)
            if len(left) == len(known.tokens):
                cause = f"{known.name!r} has no token {asked.token_id}"
                return Refusal(RefusalCode.UNKNOWN_NAME, cause, "see: albireo people list")
            return PeopleChange(replace(known, tokens=left), "token_ended", f"token {asked.token_id}")


def _added(people: People, asked: PersonAdd, wall: WallTime) -> PeopleChange | Refusal:
    if len(people) >= PEOPLE_MAX:
        return Refusal(RefusalCode.FULL, f"{PEOPLE_MAX} persons are on record")
    if (refusal := _of_certificate(people, asked.certificate, asked.name)) is not None:
        return refusal
    person = Person(
        name=asked.name,
        since_ns=wall,
        password=asked.password,
        is_one_time=asked.is_one_time,
        certificate=asked.certificate,
    )
    return PeopleChange(person, "person_added")


def _exists(name: str) -> Refusal:
    remedy = f"change the password: albireo people passwd {name}"
    return Refusal(RefusalCode.IN_USE, f"a person {name!r} is on record already", remedy)


def _of_certificate(people: People, certificate: str | None, name: str) -> Refusal | None:
    other = next((one.name for one in people if certificate and one.certificate == certificate), name)
    if other == name:
        return None
    return Refusal(RefusalCode.IN_USE, f"this certificate is {other!r}'s", "each person has one of its own")


def _changed(known: Person, asked: PersonChange) -> PeopleChange:
    person, told = known, []
    if asked.password is not None:
        person = replace(person, password=asked.password, is_one_time=asked.is_one_time)
        told.append("one-time password" if asked.is_one_time else "password")
    if asked.certificate is not None:
        person = replace(person, certificate=asked.certificate)
        told.append("certificate")
    if asked.is_enabled is not None:
        person = replace(person, is_enabled=asked.is_enabled)
        told.append("enabled" if asked.is_enabled else "disabled")
    return PeopleChange(person, "person_changed", ", ".join(told))


def _with_token(known: Person, asked: TokenAdd, number: int, wall: WallTime) -> PeopleChange | Refusal:
    if role_from(asked.role) is None:
        cause = f"there is no role {asked.role[:NAME_CHARS_MAX]!r}; the roles are {', '.join(ROLE_WORDS)}"
        return Refusal(RefusalCode.BAD_VALUE, cause)
    if asked.until_ns <= wall:
        return Refusal(RefusalCode.BAD_VALUE, "this token would be over already", "give it a later end")
    live = tuple(one for one in known.tokens if one.until_ns > wall)
    if len(live) >= TOKENS_MAX:
        remedy = f"end one first: albireo people token {known.name} --end NUMBER"
        return Refusal(RefusalCode.FULL, f"{known.name!r} has {TOKENS_MAX} tokens", remedy)
    token = PersonToken(
        token_id=number,
        digest=asked.digest,
        role=asked.role,
        label=asked.label,
        since_ns=wall,
        until_ns=asked.until_ns,
    )
    return PeopleChange(replace(known, tokens=(*live, token)), "token_added", f"token {number}, {asked.role}")
