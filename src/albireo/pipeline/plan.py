"""Plan of a pass: which days are touched, which files it must read. No I/O.

A table's watermark says up to which position of which log it has taken everything in. Files beyond it hold something
new. A new sample changes its own bucket and all that its hold reaches; so every day from the earliest new time on is
computed anew, and at least the day in which the end of what is known lay before. Earlier days stay as they are;
the value that held of each item at that midnight comes from the table.

Everything is computed anew when there is no watermark, when the log is another one, when it went back, when rows of
before it were added (ADR-0124), or when the tables' format changed.
"""

from collections.abc import Collection, Sequence

import msgspec

from albireo.codec import history as stored
from albireo.codec.history import FileEntry, FileKind, Manifest
from albireo.model.instant import WALL_NS_MAX
from albireo.model.position import EpochHistory
from albireo.pipeline.delta import FORMAT, Watermark
from albireo.pipeline.tables import DAY_NS


class WorkPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Work of one pass."""

    mark: Watermark
    """Watermark of the tables after the pass."""
    from_ns: int
    """A midnight, UTC; buckets from here on are computed anew."""
    known_to_ns: int
    is_everything: bool
    """Nothing of the tables stays."""
    samples: tuple[FileEntry, ...]
    """Files that hold anything from `from_ns` on."""
    partials: tuple[FileEntry, ...] | None
    """Their partials; None if one of them has none, then everything comes from samples."""

    @property
    def from_day(self) -> str:
        return stored.day_of(self.from_ns)


def mark_of(manifest: Manifest) -> Watermark:
    """The watermark of a table that has taken in this whole manifest."""
    return Watermark(
        log_id=manifest.log_id,
        epoch=manifest.position.epoch,
        sequence=manifest.position.sequence,
        complete_to_ns=manifest.complete_to_ns,
        filled=manifest.filled,
    )


def plan(manifest: Manifest, marks: Collection[Watermark | None]) -> WorkPlan | None:
    """Work after which every table has taken in `manifest`; None if there is none.

    Args:
        marks: watermark of each table, None where there is none yet. They differ after a pass that was ended between
            two commits.
    """
    mark = mark_of(manifest)
    if marks and all(one == mark for one in marks):
        return None
    known = [one for one in marks if one is not None and _continues(one, mark, manifest)]
    is_everything = len(known) < len(marks) or not known
    from_ns = _first_midnight(manifest) if is_everything else _touched_from(manifest, known)
    samples = tuple(one for one in manifest.of_kind(FileKind.SAMPLES) if _bounded(one.max_source_ns) >= from_ns)
    return WorkPlan(
        mark=mark,
        from_ns=from_ns,
        known_to_ns=_bounded(manifest.complete_to_ns),
        is_everything=is_everything,
        samples=samples,
        partials=_partials_of(manifest, samples),
    )


def _continues(old: Watermark, new: Watermark, manifest: Manifest) -> bool:
    """Whether the old watermark lies on the way to the new one."""
    epochs = EpochHistory(manifest.history)
    # A log that lost its end and went on has other records there: the epoch of that sequence is a later one now.
    is_of_this_branch = old.sequence == 0 or not epochs.entries or epochs.epoch_of(old.sequence) == old.epoch
    return (
        old.format == FORMAT
        and old.filled == new.filled
        and old.log_id == new.log_id
        and is_of_this_branch
        and (old.epoch, old.sequence) <= (new.epoch, new.sequence)
        and old.sequence <= new.sequence
        and old.complete_to_ns <= new.complete_to_ns
    )


def _first_midnight(manifest: Manifest) -> int:
    times = [entry.min_source_ns for entry in manifest.of_kind(FileKind.SAMPLES)]
    return _midnight(min(times, default=manifest.complete_to_ns))


def _touched_from(manifest: Manifest, marks: Sequence[Watermark]) -> int:
    sequence = min(one.sequence for one in marks)
    times = [
        entry.min_source_ns
        for kind in (FileKind.SAMPLES, FileKind.GAPS)
        for entry in manifest.of_kind(kind)
        if entry.last_sequence > sequence
    ]
    return _midnight(min([*times, *(one.complete_to_ns for one in marks)]))


def _partials_of(manifest: Manifest, samples: Sequence[FileEntry]) -> tuple[FileEntry, ...] | None:
    by_path = {entry.path: entry for entry in manifest.of_kind(FileKind.PARTIALS)}
    found = [by_path.get(stored.partials_path(entry.path)) for entry in samples]
    complete = tuple(entry for entry in found if entry is not None)
    return complete if len(complete) == len(found) else None


def _bounded(ns: int) -> int:
    return max(-WALL_NS_MAX, min(WALL_NS_MAX, ns))


def _midnight(ns: int) -> int:
    bounded = _bounded(ns)
    return bounded - bounded % DAY_NS
