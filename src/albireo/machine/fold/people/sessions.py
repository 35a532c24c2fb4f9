"""Session fold: the sessions that go on, and the latest that ended, by the committed records.

    absent --SessionBegan--> present --SessionEnded--> ended, remembered for viewers until others took its place
                              |  ^
                              +--+ SessionRoleChanged

Time ends no session here: CORE appends the record, so a fold is the same wherever it is made. The fold of the passive
member has the sessions too, and so they go on there after a takeover.

Not decided here: who begins a session and what ends it (`sessions`).
Spec: ADR-0206.
"""

from typing import Final

import msgspec

from albireo.codec.frame import FrameHeader
from albireo.codec.record import SessionBegan, SessionEnded, SessionRoleChanged
from albireo.machine.table.fold import TableFold
from albireo.machine.table.shape import TableShape
from albireo.model.tree.session import SESSIONS_MAX, Session

SESSIONS: Final = TableShape("sessions", Session, lambda one: one.session_id, SESSIONS_MAX)


class SessionFold(TableFold[int, Session]):
    """The fold; bounded by who appends (model/tree/session.py)."""

    shape = SESSIONS
    records = (SessionBegan, SessionRoleChanged, SessionEnded)

    def fold(
        self, record: SessionBegan | SessionRoleChanged | SessionEnded, sequence: int, header: FrameHeader
    ) -> None:
        match record:
            case SessionBegan():
                fields = {name: getattr(record, name) for name in SessionBegan.__struct_fields__}
                self.table.put(Session(session_id=sequence, **fields), sequence)
            case SessionRoleChanged(session_id=session_id, role=role):
                if (known := self.table.get(session_id)) is not None:
                    self.table.put(msgspec.structs.replace(known, role=role), sequence)
            case SessionEnded(session_id=session_id):
                self.table.remove(session_id, sequence)
