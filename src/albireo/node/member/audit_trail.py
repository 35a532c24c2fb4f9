"""Admin actions on their way into the log, as `Audited` records: who asked which member for what, and how it ended.

    asked --> pair.json --this member serves--> appended here --committed--> out of pair.json
                  |                                                             ^
                  +--the other member serves, told with heartbeats--> appended there, told with its heartbeats

The entry of a member that can't append (a passive one; one that is about to lead, or leads no more) waits for whichever
can. So force and the first record are on record as soon as the new holder serves. A member that follows sees its own
entries come back among the holder's frames, so that it does not append them once more when it leads next. Entries that
either of them put on record right before a restart of CORE are found at the end of the log. An entry is told again
until its record is committed, and lost only with the disk of the member that was asked.

Decision: ADR-0123.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from albireo.codec.frame import Frame, frames
from albireo.codec.pair_message import Heartbeat
from albireo.codec.record import Audited, Stream, decode_records
from albireo.log import Corrupted, ReadFailed
from albireo.log.log import Log
from albireo.model.instant import WallTime
from albireo.model.log_view import LogView
from albireo.model.position import Position
from albireo.node.member.marks import Marks

TOLD_MAX: Final = 4
"""Most entries in one heartbeat."""
LOOK_BACK_RECORDS: Final = 1 << 18
"""Records read at a start, from the end of the log back. An entry on record that still waits was committed moments
before the end, or, if the power failed then, before `pair.json` was last written back."""
READ_BYTES: Final = 1 << 20
USER_CHARS_MAX: Final = 100
DETAIL_CHARS_MAX: Final = 500


class AuditTrail:
    """The audit trail of a member; one per run of CORE."""

    def __init__(
        self,
        log: Callable[[], LogView],
        marks: Marks,
        append: Callable[[Sequence[Audited]], int],
        wall_ns: Callable[[], WallTime],
        places: tuple[str, str],
    ) -> None:
        """
        Args:
            log: as it is now.
            append: to the own log, if this member may now; returns the sequence of the last, 0 if it may not.
            places: of the own and the other member, as records name them.
        """
        self._log = log
        self._place, self._other_place = places
        self._marks = marks
        self._append = append
        self._wall_ns = wall_ns
        self._last_ns = 0
        self._heard: tuple[Audited, ...] = ()
        """Entries of the other member that are not on record yet, as far as is known here."""
        self._entered: dict[Audited, Position] = {}
        """Entries in this log, not yet known to be committed or cut."""
        self._taken_ns = 0

    def note(self, user: str, action: str, subject: str, detail: str, voices: tuple[str, str]) -> None:
        """Enter that this member was asked for an action, or that an action has ended.

        Args:
            voices: principal who asked, and the one who spoke if that is another.
        """
        waiting = self._marks.actions
        last_ns = max(self._last_ns, waiting[-1].at_ns if waiting else 0)
        self._last_ns = max(
            self._wall_ns(), last_ns + 1
        )  # The instant names the entry between the members: no two are alike.
        entry = Audited(
            at_ns=self._last_ns,
            user=user[:USER_CHARS_MAX],
            action=action,
            subject=subject,
            detail=detail[:DETAIL_CHARS_MAX],
            principal=voices[0],
            speaker=voices[1],
        )
        self._marks.waiting([*waiting, entry])
        self._enter()

    def heard(self, beat: Heartbeat) -> None:
        """Take the other member's entries from its heartbeat, and cross off those of ours that it has on record."""
        if any(one.at_ns <= beat.orders_taken_ns for one in self._marks.actions):
            self._marks.waiting([one for one in self._marks.actions if one.at_ns > beat.orders_taken_ns])
        told = beat.orders[:TOLD_MAX]
        self._heard = tuple(one for one in told if one.at_ns > self._taken_ns)
        self._enter()

    def followed(self, frames: Sequence[Frame]) -> None:
        """Find this member's entries among frames of the holder that were appended here."""
        self.found(audits_of(frames))

    def found(self, entries: Iterable[tuple[Audited, Position]]) -> None:
        """Take note of entries that stand in this log."""
        for one, at in entries:
            if one.subject == self._place:
                self._last_ns = max(self._last_ns, one.at_ns)
            if one in self._marks.actions or one.subject == self._other_place:
                self._entered[one] = at

    def ticked(self) -> None:
        log = self._log()
        for one, position in list(self._entered.items()):
            if log.end.sequence < position.sequence or log.history.position(position.sequence) != position:
                del self._entered[one]  # It was cut: enter it once more.
            elif log.told.sequence >= position.sequence:
                del self._entered[one]
                self._on_record(one)
        self._enter()

    def marked(self, beat: Heartbeat) -> Heartbeat:
        """The heartbeat, with the entries that the other member should append."""
        told = tuple(one for one in self._marks.actions if one not in self._entered)[:TOLD_MAX]
        if not told and not self._taken_ns:
            return beat
        return msgspec.structs.replace(beat, orders=told, orders_taken_ns=self._taken_ns)

    def _enter(self) -> None:
        entries = [one for one in (*self._marks.actions, *self._heard) if one not in self._entered]
        if not entries:
            return
        sequence = self._append(entries)
        if sequence:
            self._entered |= dict.fromkeys(entries, self._log().history.position(sequence))

    def _on_record(self, one: Audited) -> None:
        if one in self._marks.actions:
            self._marks.waiting([other for other in self._marks.actions if other != one])
        else:
            self._taken_ns = max(self._taken_ns, one.at_ns)
            self._heard = tuple(other for other in self._heard if other.at_ns > self._taken_ns)


def audits_of(frames: Iterable[Frame]) -> Iterator[tuple[Audited, Position]]:
    """Entries among the records of a log, each with its position."""
    for frame in frames:
        if frame.header.stream == Stream.AUDIT:
            for record in decode_records(frame.body, frame.header.record_count):
                if isinstance(record, Audited):
                    yield record, frame.header.last


def audits_at_end(log: Log) -> Iterator[tuple[Audited, Position]]:
    """Entries among the last records of a log just opened, committed or not; unreadable records are left out."""
    after = max(log.end.sequence - LOOK_BACK_RECORDS, log.begin_sequence - 1)
    while after < log.end.sequence:
        try:
            read = [Frame(*one) for one in frames(log.read_appended(after, READ_BYTES))]
        except Corrupted as damage:
            after = damage.last_sequence
            continue
        except ReadFailed:
            return
        yield from audits_of(read)
        after = read[-1].header.last_sequence
