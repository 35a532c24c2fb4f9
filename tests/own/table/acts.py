"""A table of the tests' own: the latest act of each user that is on record, until somebody closes the book on him."""

from typing import Final

import msgspec

from albireo.codec.frame import FrameHeader
from albireo.codec.record import Audited
from albireo.machine.table.fold import TableFold
from albireo.machine.table.shape import TableShape
from albireo.model.bounded import Name, Signed, Text

CLOSED: Final = "closed the book on"
ACTS_MAX: Final = 3


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """What a user did last."""

    user: Name
    action: Text
    at_ns: Signed


ACTS: Final = TableShape("acts", Act, lambda one: one.user, ACTS_MAX, gone_max=2, is_kept_above=True)


class Acts(TableFold[str, Act]):
    """The fold."""

    shape = ACTS
    records = (Audited,)

    def fold(self, record: Audited, sequence: int, header: FrameHeader) -> None:
        if record.action == CLOSED:
            self.table.remove(record.subject, sequence)
        else:
            self.table.put(Act(user=record.user, action=record.action, at_ns=record.at_ns), sequence)
