"""Session fold: the sessions that go on, and the latest that ended, by the committed records.

    absent --SessionBegan--> present --SessionEnded--> ended, remembered for viewers until others took its place
                              |  ^
                              +--+ SessionRoleChanged

Time ends no session here: CORE appends the record, so a fold is the same wherever it is made. The fold of the passive
member has the sessions too, and so they go on there after a takeover.

Not decided here: who begins a session and what ends it (`sessions`).
Spec: ADR-0206.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from albireo.codec.record import SessionBegan, SessionEnded, SessionRoleChanged
from albireo.machine.fold.columns import unsliced
from albireo.model.bounded import INT64_MAX, INT64_MIN, NAME_CHARS_MAX
from albireo.model.tree.session import Session

SessionFact = SessionBegan | SessionRoleChanged | SessionEnded
ENDED_KEPT: Final = 1_000
"""Ended sessions of which viewers are still told; a viewer that lacks older ones takes the whole state."""


class _SessionSection(msgspec.Struct, frozen=True, array_like=True):
    present: tuple[tuple[Session, int], ...]
    """Each session, with the sequence of the latest record about it."""
    ended: tuple[tuple[int, int], ...]
    """Id of each session that ended lately, with the sequence of the record."""
    forgotten_at: int


class SessionFold:
    """The fold; bounded by who appends (model/tree/session.py)."""

    def __init__(self) -> None:
        self._present: dict[int, Session] = {}
        self._changed: dict[int, int] = {}
        """Sequence of the latest record about each session, by id: of those present, and of those that ended lately."""
        self._ended: dict[int, None] = {}
        """Ids of sessions that ended lately, the first one first."""
        self._changed_at = 0
        self.forgotten_at = 0
        """Sequence of the latest record that nobody is told of any more; 0: none."""

    def __len__(self) -> int:
        return len(self._present)

    def __iter__(self) -> Iterator[Session]:
        """Sessions by rising id: the order of their records."""
        return iter(self._present.values())

    def find(self, session_id: int) -> Session | None:
        return self._present.get(session_id)

    def fold(self, record: SessionFact, sequence: int) -> None:
        match record:
            case SessionBegan():
                self._enter(
                    Session(
                        session_id=sequence,
                        principal=record.principal[:NAME_CHARS_MAX],
                        address=record.address[:NAME_CHARS_MAX],
                        role=record.role[:NAME_CHARS_MAX],
                        since_ns=min(max(record.since_ns, INT64_MIN), INT64_MAX),
                    ),
                    sequence,
                )
            case SessionRoleChanged(session_id=session_id, role=role):
                if (known := self._present.get(session_id)) is not None:
                    self._enter(msgspec.structs.replace(known, role=role[:NAME_CHARS_MAX]), sequence)
            case SessionEnded(session_id=session_id):
                if self._present.pop(session_id, None) is not None:
                    self._ended[session_id] = None
                    self._changed[session_id] = self._changed_at = sequence
                    self._forget()

    def _enter(self, session: Session, sequence: int) -> None:
        self._present[session.session_id] = session
        self._changed[session.session_id] = self._changed_at = sequence

    def _forget(self) -> None:
        if len(self._ended) > ENDED_KEPT:
            oldest = next(iter(self._ended))
            del self._ended[oldest]
            self.forgotten_at = self._changed.pop(oldest)

    def changed_since(self, sequence: int) -> list[tuple[int, Session | None]]:
        """Sessions by id that began or changed after `sequence`, or that ended (None); -1: all that go on."""
        if sequence < 0:
            return list(self._present.items())
        if self._changed_at <= sequence:
            return []
        return [(one, self._present.get(one)) for one, at in self._changed.items() if at > sequence]

    def snapshot(self) -> bytes:
        present = tuple((one, self._changed[number]) for number, one in self._present.items())
        ended = tuple((number, self._changed[number]) for number in self._ended)
        return msgspec.msgpack.encode(_SessionSection(present, ended, self.forgotten_at))

    @classmethod
    def restore(cls, section: bytes) -> "SessionFold":
        """Inverse of `snapshot`.

        Raises:
            DecodeError: the section is malformed.
        """
        self, found = cls(), unsliced(section, _SessionSection)
        for session, at in found.present:
            self._present[session.session_id], self._changed[session.session_id] = session, at
        for number, at in found.ended:
            self._ended[number], self._changed[number] = None, at
        self.forgotten_at = found.forgotten_at
        self._changed_at = max(self._changed.values(), default=0)
        return self
