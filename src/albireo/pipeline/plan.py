"""Plan of a run: which days are touched, which files it must read. No I/O.

A table's watermark says up to which position of which log it has taken everything in. Rows beyond it are new, and so
are rows that were copied into a hole which the watermark knows. A new sample changes its own bucket and all that its
hold reaches: the days from its own on, up to the longest hold. So a sample that is stamped 1970 touches days of 1970,
and not all since. Everything from the day on in which the end of what is known lay before is touched always. Touched
days are computed anew, all others stay as they are; the value that held of each item at the midnight before comes
from the table. A new sample that is earlier than all that an item had makes the gaps behind it count: these touch days
as if they were new.

    history ──news──▶ files with new rows ──(late rows are read)──▶ plan ──▶ parts: touched days, files to read

Everything is computed anew when there is no watermark, when the log is another one, when it went back, or when the
tables' format changed.

Spec: ADR-0172.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from albireo.codec import history as stored
from albireo.codec.history import FileEntry, FileKind, Hole, Manifest
from albireo.machine.history.trace import HOLD_NS
from albireo.model.instant import WALL_NS_MAX
from albireo.model.position import EpochHistory
from albireo.pipeline.delta import FORMAT, Watermark
from albireo.pipeline.tables import DAY_NS

PARTS_MAX: Final = 8
"""Parts of a plan: each is a query of its own. Beyond, the nearest ones become one."""
SEQUENCE_MAX: Final = 2**63 - 1


class News(msgspec.Struct, frozen=True, kw_only=True):
    """A file of samples or gaps that may hold rows which the tables lack."""

    entry: FileEntry
    sequences: tuple[tuple[int, int], ...]
    """The new rows' sequences: each range with both ends."""
    is_copied: bool
    """Some of them are older than the tables: copied from the other member of a pair."""


class LateRows(msgspec.Struct, frozen=True, kw_only=True):
    """Facts on the new rows that lie before the open part of a plan; without any by default."""

    days: Mapping[str, Collection[int]] = {}
    """Midnights of the new rows in each file of `news`, and of the gaps that count now, by path."""
    hold_ns: int = HOLD_NS
    """Longest hold of any item."""
    begun: Mapping[int, int] = {}
    """Items that begin earlier than the tables say: id, and the midnight at or before the first sample."""


class WorkPart(msgspec.Struct, frozen=True, kw_only=True):
    """A run of touched days, with the files that hold anything of them."""

    from_ns: int
    """A midnight, UTC; buckets from here on are computed anew."""
    to_ns: int | None
    """A midnight, UTC; buckets from here on are not. None: there is no end."""
    samples: tuple[FileEntry, ...]
    partials: tuple[FileEntry, ...] | None
    """Their partials; None if one of them has none, then everything comes from samples."""

    def has_day(self, day: str) -> bool:
        return self.from_day <= day and (self.to_ns is None or day < stored.day_of(self.to_ns))

    @property
    def from_day(self) -> str:
        return stored.day_of(self.from_ns)


class WorkPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Work of one run."""

    mark: Watermark
    """Watermark of the tables after the run."""
    parts: tuple[WorkPart, ...]
    """Oldest first; the last one has no end."""
    known_to_ns: int
    is_everything: bool
    """Nothing of the tables stays."""
    begun: Mapping[int, int] = {}
    """As in `LateRows`."""

    @property
    def files(self) -> list[FileEntry]:
        """The files of samples and partials that the run reads, each once."""
        found = {one.path: one for part in self.parts for one in (*part.samples, *(part.partials or ()))}
        return list(found.values())

    @property
    def sample_rows(self) -> int:
        return sum({one.path: one.rows for part in self.parts for one in part.samples}.values())

    def is_touched(self, day: str) -> bool:
        return any(part.has_day(day) for part in self.parts)


def mark_of(manifest: Manifest) -> Watermark:
    """The watermark of a table that has taken in this whole manifest."""
    return Watermark(
        log_id=manifest.log_id,
        epoch=manifest.position.epoch,
        sequence=manifest.position.sequence,
        complete_to_ns=manifest.complete_to_ns,
        filled=manifest.filled,
        holes=manifest.holes,
    )


def is_known(manifest: Manifest, marks: Collection[Watermark | None]) -> bool:
    """Whether every table has taken in the whole manifest: then there is nothing to do."""
    mark = mark_of(manifest)
    return bool(marks) and all(one == mark for one in marks)


def base_of(manifest: Manifest, marks: Collection[Watermark | None]) -> Watermark | None:
    """The watermark from which a run goes on: the oldest one; None if it must compute everything anew."""
    mark = mark_of(manifest)
    known = [one for one in marks if one is not None and _continues(one, mark, manifest)]
    if not known or len(known) < len(marks):
        return None
    return min(known, key=lambda one: (one.sequence, one.complete_to_ns, one.filled))


def news(manifest: Manifest, base: Watermark) -> list[News]:
    """The files that hold rows which a table with this watermark lacks."""
    found = []
    for entry in (*manifest.of_kind(FileKind.SAMPLES), *manifest.of_kind(FileKind.GAPS)):
        later = [(base.sequence + 1, SEQUENCE_MAX)] if entry.last_sequence > base.sequence else []
        copied = [(hole.first_sequence, hole.last_sequence) for hole in base.holes if _was_copied(entry, hole)]
        if later or copied:
            found.append(News(entry=entry, sequences=(*later, *copied), is_copied=bool(copied)))
    return found


def with_partials(manifest: Manifest, entries: Sequence[FileEntry]) -> list[FileEntry]:
    """The files, and the partials of those that have some."""
    wanted = {stored.partials_path(one.path) for one in entries if one.kind is FileKind.SAMPLES}
    return [*entries, *(one for one in manifest.of_kind(FileKind.PARTIALS) if one.path in wanted)]


def open_from_ns(base: Watermark) -> int:
    """Midnight from which on everything is touched: what held at the end of what was known goes on."""
    return midnight(base.complete_to_ns)


def plan(manifest: Manifest, base: Watermark | None, late: LateRows) -> WorkPlan:
    """The work after which every table has taken in `manifest`.

    Args:
        base: from `base_of`.
        late: new rows before `open_from_ns`.
    """
    mark = mark_of(manifest)
    if base is None:
        ranges: list[tuple[int, int | None]] = [(_firstmidnight(manifest), None)]
    else:
        midnights = {midnight(ns) for ns in _ended_or_new(base.holes, manifest.holes)}.union(*late.days.values())
        ranges = _touched(midnights, open_from_ns(base), late.hold_ns)
    return WorkPlan(
        mark=mark,
        parts=tuple(_part(manifest, from_ns, to_ns) for from_ns, to_ns in ranges),
        known_to_ns=_bounded(manifest.complete_to_ns),
        is_everything=base is None,
        begun=late.begun,
    )


def _continues(old: Watermark, new: Watermark, manifest: Manifest) -> bool:
    """Whether the old watermark lies on the way to the new one."""
    epochs = EpochHistory(manifest.history)
    # A log that lost its end and went on has other records there: the epoch of that sequence is a later one now.
    is_of_this_branch = old.sequence == 0 or not epochs.entries or epochs.epoch_of(old.sequence) == old.epoch
    return (
        old.format == FORMAT
        and old.filled <= new.filled
        and old.log_id == new.log_id
        and is_of_this_branch
        and (old.epoch, old.sequence) <= (new.epoch, new.sequence)
        and old.sequence <= new.sequence
        and old.complete_to_ns <= new.complete_to_ns
    )


def _ended_or_new(before: Sequence[Hole], after: Sequence[Hole]) -> list[int]:
    """Begins of the holes that are in one of both: with a hole its gap comes and goes."""
    old, new = ({hole.gap: hole.from_ns for hole in holes} for holes in (before, after))
    return [(old | new)[gap] for gap in old.keys() ^ new.keys()]


def _was_copied(entry: FileEntry, hole: Hole) -> bool:
    """Whether the file may have rows of the hole that came later than it was noted: groups come newest first."""
    group = stored.group_of(entry)
    was_there = hole.is_settled or (bool(hole.upto) and group >= hole.upto and group not in hole.missed)
    if entry.path == hole.gap:
        return False
    return not was_there and entry.first_sequence <= hole.last_sequence and entry.last_sequence >= hole.first_sequence


def _touched(midnights: Collection[int], open_ns: int, hold_ns: int) -> list[tuple[int, int | None]]:
    """Runs of touched days, oldest first: each of these days, and as many more as a hold can reach."""
    ends: list[list[int]] = []
    for begin in sorted(one for one in midnights if one < open_ns):
        end = begin + DAY_NS + -(-hold_ns // DAY_NS) * DAY_NS
        if ends and begin <= ends[-1][1]:
            ends[-1][1] = end
        else:
            ends.append([begin, end])
    while ends and ends[-1][1] >= open_ns:
        open_ns = min(open_ns, ends.pop()[0])
    while len(ends) >= PARTS_MAX:
        nearest = min(range(1, len(ends)), key=lambda index: ends[index][0] - ends[index - 1][1])
        ends[nearest - 1 : nearest + 1] = [[ends[nearest - 1][0], ends[nearest][1]]]
    return [*((begin, end) for begin, end in ends), (open_ns, None)]


def _part(manifest: Manifest, from_ns: int, to_ns: int | None) -> WorkPart:
    samples = tuple(
        one
        for one in manifest.of_kind(FileKind.SAMPLES)
        if _bounded(one.max_source_ns) >= from_ns and (to_ns is None or _bounded(one.min_source_ns) < to_ns)
    )
    return WorkPart(from_ns=from_ns, to_ns=to_ns, samples=samples, partials=_partials_of(manifest, samples))


def _firstmidnight(manifest: Manifest) -> int:
    times = [entry.min_source_ns for entry in manifest.of_kind(FileKind.SAMPLES)]
    return midnight(min(times, default=manifest.complete_to_ns))


def _partials_of(manifest: Manifest, samples: Sequence[FileEntry]) -> tuple[FileEntry, ...] | None:
    by_path = {entry.path: entry for entry in manifest.of_kind(FileKind.PARTIALS)}
    found = [by_path.get(stored.partials_path(entry.path)) for entry in samples]
    complete = tuple(entry for entry in found if entry is not None)
    return complete if len(complete) == len(found) else None


def _bounded(ns: int) -> int:
    return max(-WALL_NS_MAX, min(WALL_NS_MAX, ns))


def midnight(ns: int) -> int:
    """The midnight, UTC, at or before a time; times that no table can hold are moved to the nearest that it can."""
    bounded = _bounded(ns)
    return bounded - bounded % DAY_NS
