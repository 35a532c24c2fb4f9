"""Orders of people on their way into the log, as `Audited` records: who ordered what of which member, and how it ended.

    given --> pair.json --this member serves--> appended here --committed--> out of pair.json
                  |                                                             ^
                  +--the other one serves, told with heartbeats--> appended there, told with its heartbeats

An order to a member that can't append (a passive one; one that is about to lead, or leads no more) waits for whichever
can. So force and the first record are on record as soon as the new holder serves. A member that follows sees its own
entries come back among the holder's frames, so that it does not append them once more when it leads next. What either
of them put on record right before a restart of CORE is found at the end of the log. An entry is told again until its
record is committed, and lost only with the disk of the member that was given the order.

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
"""Entries in one heartbeat."""
LOOK_BACK_RECORDS: Final = 1 << 18
"""Read of the log at a start. What is on record and waits all the same was committed moments before the end, or, if the
power failed then, before `pair.json` was last written back."""
READ_BYTES: Final = 1 << 20
USER_CHARS_MAX: Final = 100
DETAIL_CHARS_MAX: Final = 500


class OrderBook:
    """One per run of CORE."""

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
            places: of the own member and the other one, as records name them.
        """
        self._log = log
        self._place, self._other_place = places
        self._marks = marks
        self._append = append
        self._wall_ns = wall_ns
        self._last_ns = 0
        self._heard: tuple[Audited, ...] = ()
        """Of the other member, not on record yet as far as is known here."""
        self._entered: dict[Audited, Position] = {}
        """In this log, and not yet known to be committed or cut."""
        self._taken_ns = 0

    def note(self, user: str, action: str, subject: str, detail: str) -> None:
        """Something was ordered of this member, or an order has ended."""
        waiting = self._marks.orders
        last_ns = max(self._last_ns, waiting[-1].at_ns if waiting else 0)
        self._last_ns = max(self._wall_ns(), last_ns + 1)  # Its name, between the two: no two are alike.
        entry = Audited(
            at_ns=self._last_ns,
            user=user[:USER_CHARS_MAX],
            action=action,
            subject=subject,
            detail=detail[:DETAIL_CHARS_MAX],
        )
        self._marks.ordered([*waiting, entry])
        self._enter()

    def heard(self, beat: Heartbeat) -> None:
        """The other member's last heartbeat, fresh."""
        if any(one.at_ns <= beat.orders_taken_ns for one in self._marks.orders):
            self._marks.ordered([one for one in self._marks.orders if one.at_ns > beat.orders_taken_ns])
        self._heard = tuple(one for one in beat.orders if one.at_ns > self._taken_ns)
        self._enter()

    def followed(self, frames: Sequence[Frame]) -> None:
        """The holder's, appended here: what it put on record for this member is among them."""
        self.found(audits_of(frames))

    def found(self, entries: Iterable[tuple[Audited, Position]]) -> None:
        """They stand in this log."""
        for one, at in entries:
            if one.subject == self._place:
                self._last_ns = max(self._last_ns, one.at_ns)
            if one in self._marks.orders or one.subject == self._other_place:
                self._entered[one] = at

    def ticked(self) -> None:
        log = self._log()
        for one, position in list(self._entered.items()):
            if log.end.sequence < position.sequence or log.history.position(position.sequence) != position:
                del self._entered[one]  # It was cut: once more.
            elif log.told.sequence >= position.sequence:
                del self._entered[one]
                self._on_record(one)
        self._enter()

    def marked(self, beat: Heartbeat) -> Heartbeat:
        """With what the other one should know."""
        told = tuple(one for one in self._marks.orders if one not in self._entered)[:TOLD_MAX]
        if not told and not self._taken_ns:
            return beat
        return msgspec.structs.replace(beat, orders=told, orders_taken_ns=self._taken_ns)

    def _enter(self) -> None:
        entries = [one for one in (*self._marks.orders, *self._heard) if one not in self._entered]
        if not entries:
            return
        sequence = self._append(entries)
        if sequence:
            self._entered |= dict.fromkeys(entries, self._log().history.position(sequence))

    def _on_record(self, one: Audited) -> None:
        if one in self._marks.orders:
            self._marks.ordered([other for other in self._marks.orders if other != one])
        else:
            self._taken_ns = max(self._taken_ns, one.at_ns)
            self._heard = tuple(other for other in self._heard if other.at_ns > self._taken_ns)


def audits_of(frames: Iterable[Frame]) -> Iterator[tuple[Audited, Position]]:
    """Entries among the records of a log, with where they stand."""
    for frame in frames:
        if frame.header.stream == Stream.AUDIT:
            for record in decode_records(frame.body, frame.header.record_count):
                if isinstance(record, Audited):
                    yield record, frame.header.last


def audits_at_end(log: Log) -> Iterator[tuple[Audited, Position]]:
    """Entries among the last records of a log just opened, committed or not; what can't be read is left out."""
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
