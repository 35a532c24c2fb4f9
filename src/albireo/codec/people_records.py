"""Records of persons (stream PEOPLE). They are part of `codec.record.Record`; no follower of the log is given them.

Spec: ADR-0271.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from albireo.model.person import Person


class PersonChanged(msgspec.Struct, frozen=True, kw_only=True, tag="person"):
    """A person as it stands from here on. Stream PEOPLE."""

    person: Person


class CookieKeyMade(msgspec.Struct, frozen=True, kw_only=True, tag="cookie_key"):
    """Key with which faces sign their cookies, at either member. Stream PEOPLE."""

    key: Annotated[bytes, Meta(max_length=64)]


PeopleRecord = PersonChanged | CookieKeyMade
