"""Folds of persons and of the key that signs cookies: kept by both members, told in no state.

Spec: ADR-0271.
"""

from typing import Final

import msgspec

from albireo.codec.frame import FrameHeader
from albireo.codec.people_records import CookieKeyMade, PersonChanged
from albireo.machine.table.fold import TableFold
from albireo.machine.table.shape import TableShape
from albireo.model.bounded import Count
from albireo.model.person import PEOPLE_MAX, Person


class CookieKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key that signs cookies."""

    number: Count = 1
    key: bytes


PEOPLE: Final = TableShape("people", Person, lambda one: one.name, PEOPLE_MAX, is_told=False)
COOKIE_KEYS: Final = TableShape("cookie_keys", CookieKey, lambda one: one.number, 1, is_told=False)


class People(TableFold[str, Person]):
    """The persons on record; bounded by who appends (machine/access/people_changes.py)."""

    shape = PEOPLE
    records = (PersonChanged,)

    def fold(self, record: PersonChanged, sequence: int, header: FrameHeader) -> None:
        self.table.put(record.person, sequence)


class CookieKeys(TableFold[int, CookieKey]):
    """The key that signs cookies, once a face has asked for one."""

    shape = COOKIE_KEYS
    records = (CookieKeyMade,)

    def fold(self, record: CookieKeyMade, sequence: int, header: FrameHeader) -> None:
        self.table.put(CookieKey(key=record.key), sequence)
