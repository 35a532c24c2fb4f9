"""Changes of persons: what is asked, as the person that is put on record, or why not.

One change at a time, as with roles (changes.py): the next is judged when the one before it is committed. So two faces
that find nobody on record do not both make the first admin.

Spec: ADR-0271.
"""

from typing import Final

import msgspec
from msgspec.structs import replace

from albireo.codec.questions.persons import PersonSet
from albireo.machine.fold.people.persons import People
from albireo.model.access import ROLE_WORDS, role_from
from albireo.model.bounded import NAME_CHARS_MAX
from albireo.model.instant import WallTime
from albireo.model.person import PEOPLE_MAX, TOKENS_MAX, Person, PersonToken
from albireo.model.refusal import Refusal, RefusalCode

FIRST: Final = "admin"
"""Name of the person that a face makes where nobody is on record."""


class PeopleChange(msgspec.Struct, frozen=True):
    """A change, as it is put on record."""

    person: Person
    action: str
    """Name for the audit trail."""
    detail: str = ""


def first_admin(people: People, password: str, wall: WallTime) -> PeopleChange | None:
    """The admin of a node at which nobody is on record; None: somebody is."""
    first = Person(name=FIRST, since_ns=wall, password=password, is_one_time=True)
    return None if len(people) else PeopleChange(first, "person_added", "the first admin, with a one-time password")


def changed(people: People, asked: PersonSet, number: int, wall: WallTime) -> PeopleChange | Refusal:
    """The change that does what is asked.

    Args:
        number: for a token, which no earlier one had.
    """
    known = people.find(asked.name)
    refusal = _refusal(people, known, asked, wall)
    if refusal is not None:
        return refusal
    person, told = known or Person(name=asked.name, since_ns=wall), list[str]()
    if asked.password is not None:
        person = replace(person, password=asked.password, is_one_time=asked.is_one_time)
        told.append("one-time password" if asked.is_one_time else "password")
    if asked.certificate is not None:
        person = replace(person, certificate=asked.certificate)
        told.append("certificate")
    if asked.is_enabled is not None:
        person = replace(person, is_enabled=asked.is_enabled)
        told.append("enabled" if asked.is_enabled else "disabled")
    if asked.end_token:
        person = replace(person, tokens=tuple(one for one in person.tokens if one.token_id != asked.end_token))
        told.append(f"token {asked.end_token} ended")
    if asked.token is not None:
        token = PersonToken(token_id=number, since_ns=wall, **msgspec.structs.asdict(asked.token))
        person = replace(person, tokens=(*_live(person, wall), token))
        told.append(f"token {number}, {token.role}")
    return PeopleChange(person, "person_changed" if known else "person_added", "; ".join(told))


def _live(person: Person, wall: WallTime) -> tuple[PersonToken, ...]:
    return tuple(one for one in person.tokens if one.until_ns > wall)


def _refusal(people: People, known: Person | None, asked: PersonSet, wall: WallTime) -> Refusal | None:
    name, token, see = asked.name, asked.token, "see: albireo people list"
    if known is None and not asked.is_new:
        return Refusal(RefusalCode.UNKNOWN_NAME, f"no person {name!r} is on record", see)
    if known is not None and asked.is_new:
        remedy = f"change the password: albireo people passwd {name}"
        return Refusal(RefusalCode.IN_USE, f"a person {name!r} is on record already", remedy)
    if known is None and len(people) >= PEOPLE_MAX:
        return Refusal(RefusalCode.FULL, f"{PEOPLE_MAX} persons are on record")
    other = next((one.name for one in people if asked.certificate and one.certificate == asked.certificate), name)
    if other != name:
        return Refusal(RefusalCode.IN_USE, f"this certificate is {other!r}'s", "each person has one of its own")
    tokens = () if known is None else known.tokens
    if asked.end_token and all(one.token_id != asked.end_token for one in tokens):
        return Refusal(RefusalCode.UNKNOWN_NAME, f"{name!r} has no token {asked.end_token}", see)
    if token is not None and role_from(token.role) is None:
        cause = f"there is no role {token.role[:NAME_CHARS_MAX]!r}; the roles are {', '.join(ROLE_WORDS)}"
        return Refusal(RefusalCode.BAD_VALUE, cause)
    if token is not None and token.until_ns <= wall:
        return Refusal(RefusalCode.BAD_VALUE, "this token would be over already", "give it a later end")
    if token is not None and known is not None and len(_live(known, wall)) >= TOKENS_MAX:
        remedy = f"end one first: albireo people token {name} --end NUMBER"
        return Refusal(RefusalCode.FULL, f"{name!r} has {TOKENS_MAX} tokens", remedy)
    return None
