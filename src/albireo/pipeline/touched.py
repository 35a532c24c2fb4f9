"""New rows that came late: read from the new files alone, so that no run must guess from the smallest time of a file.

A file's smallest time may be 1970 by one wrong clock. Its partials tell which minutes it has, sixty times less to read
than its samples; where rows were copied into it, sequences decide, and its samples are read.

A late row may be earlier than all that its item had. Then gaps behind it count that said nothing before, and hold like
a row: they touch days of their own. The gaps of the history are read for that, and only then.

A history may know otherwise what was declared in days that the tables have: that of the other member of a pair, which
began later and takes the first declaration that it knows for all times before. Then values held for another time.

Spec: ADR-0172, ADR-0177, ADR-0178.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from albireo.codec import history as stored
from albireo.codec.history import FileEntry, FileKind, Manifest
from albireo.machine.history.declared import DeclaredItems
from albireo.machine.history.trace import HOLD_NS, hold_limit_ns
from albireo.model.instant import WALL_NS_MAX
from albireo.pipeline import delta
from albireo.pipeline.plan import LateRows, News, midnight
from albireo.pipeline.source import HistoryFolder, items_of, named_damage
from albireo.pipeline.tables import AVAILABILITY, DAY_NS, ITEMS_SCD

READ_ROWS: Final = 1 << 18
_COLUMNS: Final = {
    FileKind.SAMPLES: ("source_ns", "sequence", "item_id"),
    FileKind.PARTIALS: ("bucket_ns", "sequence_max", "item_id"),
    FileKind.GAPS: ("from_ns", "sequence"),
}


class Begin(msgspec.Struct, frozen=True, kw_only=True):
    """Days by which the begin of an item moves back."""

    from_ns: int
    """Midnight at or before its first sample."""
    to_ns: int
    """Midnight behind the day of the first sample that the tables know."""


def late_rows(history: HistoryFolder, found: list[News], open_ns: int, availability: Path) -> LateRows:
    """Facts on the new rows before `open_ns`.

    Args:
        availability: the table of that name, which is committed behind all others that have days: what it has, they
            have.
    Raises:
        SourceDamaged: a file can't be read.
        OutputUnusable: the table can't be read.
    """
    days: dict[str, set[int]] = {}
    firsts: dict[int, int] = {}
    for one in found:
        if midnight(one.entry.min_source_ns) < open_ns:
            days[one.entry.path] = _read_late(history, one, open_ns, firsts)
    begins = _begins(firsts, availability) if firsts else {}
    if begins:
        for entry in history.entries(FileKind.GAPS):
            days.setdefault(entry.path, set()).update(_days_of_gaps(history, entry, begins))
    return LateRows(
        days=days,
        hold_ns=_longest_hold_ns(history),
        begun={item_id: one.from_ns for item_id, one in begins.items()},
    )


def is_declared_otherwise(history: HistoryFolder, tables: Path, open_ns: int) -> bool:
    """Whether values before `open_ns` of an item that has rows there held longer or shorter than the tables say, or
    were of another type or unit.

    Args:
        tables: folder of the tables. `items_scd` is committed behind all that have days: they count by it.
    Raises:
        SourceDamaged: a file can't be read.
        OutputUnusable: a table can't be read.
    """
    versions, availability = (delta.opened_table(tables / one.name) for one in (ITEMS_SCD, AVAILABILITY))
    if versions is None or availability is None:
        return False
    both = [versions.to_pyarrow_table(), items_of(history)]
    before, now = (_steps_before(one, open_ns) for one in both)
    undeclared = [(None, HOLD_NS)]
    changed = {one for one in before.keys() | now.keys() if before.get(one, undeclared) != now.get(one, undeclared)}
    changed |= _otherwise_kinds(*(DeclaredItems.of_rows(one.sort_by("sequence").to_pylist()) for one in both))
    if not changed:
        return False
    earlier = [("day", "<", stored.day_of(open_ns))]
    have_rows = availability.to_pyarrow_table(columns=["item_id"], filters=earlier)["item_id"].unique()
    return not changed.isdisjoint(have_rows.to_pylist())


def hold_steps(items: pa.Table) -> dict[int, list[tuple[int | None, int]]]:
    """How long values of each item may hold: from when on, and so long. The first step counts before, too (None).

    Args:
        items: columns of codec.history.ITEMS or of the table `items_scd`.
    """
    rows = items.select(["item_id", "stale_ns", "valid_from_ns"]).to_pylist()
    found: dict[int, list[tuple[int | None, int]]] = {}
    for row in sorted(rows, key=lambda one: one["valid_from_ns"] or 0):
        steps, limit_ns = found.setdefault(row["item_id"], []), hold_limit_ns(row["stale_ns"])
        if not steps:
            steps.append((None, limit_ns))
        elif steps[-1][1] != limit_ns:
            steps.append((row["valid_from_ns"] or 0, limit_ns))
    return found


def _steps_before(items: pa.Table, open_ns: int) -> dict[int, list[tuple[int | None, int]]]:
    steps = hold_steps(items)
    return {item_id: [one for one in known if one[0] is None or one[0] < open_ns] for item_id, known in steps.items()}


def _otherwise_kinds(before: DeclaredItems, now: DeclaredItems) -> set[int]:
    """Items of which the kinds that were known are others now; that more come behind them is no change."""
    found = set()
    for item_id in before.versions:
        old, new = before.kinds(item_id), now.kinds(item_id)
        count = len(old.types)
        if (old.types, old.units, old.declared[1:]) != (new.types[:count], new.units[:count], new.declared[1:count]):
            found.add(item_id)
    return found


def _longest_hold_ns(history: HistoryFolder) -> int:
    """Longest hold of any item: what a new sample may change behind it."""
    return max([HOLD_NS, *(hold_limit_ns(one.as_py()) for one in items_of(history)["stale_ns"].unique())])


def _read_late(history: HistoryFolder, one: News, open_ns: int, firsts: dict[int, int]) -> set[int]:
    """Midnights of the new rows of a file; `firsts` gets the earliest of each item."""
    entry = one.entry
    partials = _partials(history.manifest, entry.path)
    if entry.kind is FileKind.SAMPLES and not one.is_copied and partials is not None:
        entry = partials
    days: set[int] = set()
    for batch in _batches(history, entry, _COLUMNS[entry.kind]):
        ns, sequence, *item_ids = (batch.column(name) for name in _COLUMNS[entry.kind])
        is_new = np.zeros(len(batch), bool)
        for low, high in one.sequences:
            is_new |= (sequence.to_numpy() >= low) & (sequence.to_numpy() <= high)
        is_late = pa.array(is_new & (ns.to_numpy() < open_ns))
        late_ns = ns.filter(is_late)
        days.update(midnight(int(number) * DAY_NS) for number in np.unique(late_ns.to_numpy() // DAY_NS))
        for item_id in item_ids:
            _keep_least(firsts, item_id.filter(is_late), late_ns)
    return days


def _keep_least(firsts: dict[int, int], item_id: "pa.Array[Any]", ns: "pa.Array[Any]") -> None:
    least = pa.table({"item_id": item_id, "ns": ns}).group_by("item_id").aggregate([("ns", "min")])
    for one, first_ns in zip(least["item_id"].to_numpy(), least["ns_min"].to_numpy(), strict=True):
        firsts[int(one)] = min(firsts.get(int(one), WALL_NS_MAX), midnight(int(first_ns)))


def _begins(firsts: Mapping[int, int], availability: Path) -> dict[int, Begin]:
    """Items among `firsts` of which the tables know no row on or before that day."""
    known: dict[int, int] = {}
    opened = delta.opened_table(availability)
    if opened is not None:
        table = opened.to_pyarrow_table(columns=["item_id", "day"])
        table = table.filter(pc.is_in(table["item_id"], pa.array(list(firsts), pa.int64())))
        days = table.group_by("item_id").aggregate([("day", "min")])
        for item_id, day in zip(days["item_id"].to_pylist(), days["day_min"].to_pylist(), strict=True):
            known[item_id] = stored.day_start_ns(day)
    found = {}
    for item_id, from_ns in firsts.items():
        until_ns = known.get(item_id, WALL_NS_MAX)
        if from_ns < until_ns:
            found[item_id] = Begin(from_ns=from_ns, to_ns=until_ns + DAY_NS)
    return found


def _days_of_gaps(history: HistoryFolder, entry: FileEntry, begins: Mapping[int, Begin]) -> Iterator[int]:
    """Midnights of the gaps that count now. One that names nothing may be about any item."""
    for batch in _batches(history, entry, ("from_ns", "item_ids")):
        for from_ns, item_ids in zip(batch["from_ns"].to_numpy(), batch["item_ids"].to_pylist(), strict=True):
            ns = midnight(int(from_ns))
            concerned = begins.keys() & item_ids if item_ids else begins.keys()
            if any(begins[item_id].from_ns <= ns < begins[item_id].to_ns for item_id in concerned):
                yield ns


def _partials(manifest: Manifest, samples_path: str) -> FileEntry | None:
    path = stored.partials_path(samples_path)
    return next((entry for entry in manifest.of_kind(FileKind.PARTIALS) if entry.path == path), None)


def _batches(history: HistoryFolder, entry: FileEntry, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    with (
        named_damage(history, entry),
        pq.ParquetFile(history.path(entry), page_checksum_verification=True) as file,
    ):
        yield from file.iter_batches(READ_ROWS, columns=list(columns), use_threads=False)
