"""Persons on record: who may log in at a face, and by what.

A password is kept as the words of scrypt (client/credentials.py), a token by its digest, a certificate by its
fingerprint: what lets somebody in is never here itself.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from albireo.model.access import AccessRole, role_from
from albireo.model.bounded import Count, Name, Signed
from albireo.model.principal import PERSON_NAME_PATTERN

PEOPLE_MAX: Final = 1_000
"""Most persons on record, as many as principals can have roles."""
TOKENS_MAX: Final = 16
"""Most tokens of one person."""

Words = Annotated[str, Meta(max_length=200)]
"""Any of the following, as it stands on record: its form was checked as it was asked for."""
PersonName = Annotated[str, Meta(pattern=PERSON_NAME_PATTERN)]
PasswordWords = Annotated[
    str, Meta(pattern=r"^(scrypt\$[0-9]{1,2}\$[A-Za-z0-9+/=]{1,64}\$[A-Za-z0-9+/=]{1,128})?(?!\n)$")
]
"""Cost as a power of two, salt and hash; empty: there is no password."""
Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}(?!\n)$")]
Fingerprint = Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?(?!\n)$")]
"""SHA-256 of a certificate; empty: there is none."""
Label = Annotated[str, Meta(max_length=64)]


class PersonToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token of a person, for a program that asks in that one's name."""

    token_id: Count
    digest: Words
    """SHA-256 of its text."""
    role: Name
    """Word of the most that it may do."""
    label: Words = ""
    since_ns: Signed
    until_ns: Signed
    """Wall time at which it is over."""


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """A person."""

    name: Name
    since_ns: Signed
    """Wall time at which it was put on record."""
    password: Words = ""
    is_one_time: bool = False
    """The password is to be changed by whoever logs in with it."""
    certificate: Words = ""
    is_enabled: bool = True
    tokens: Annotated[tuple[PersonToken, ...], Meta(max_length=TOKENS_MAX)] = ()

    def most(self, token: str) -> AccessRole:
        """Most that this person may do, itself or by the token of this number; empty: itself."""
        if not self.is_enabled:
            return AccessRole.NONE
        if not token:
            return AccessRole.ADMIN
        words = (one.role for one in self.tokens if str(one.token_id) == token)
        return role_from(next(words, "")) or AccessRole.NONE
