"""Days of new rows: read from the new files alone, so that no run must guess from the smallest time of a file.

A file's smallest time may be 1970 by one wrong clock. Its partials tell which minutes it has, sixty times less to read
than its samples; where rows were copied into it, sequences decide, and its samples are read.
"""

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from albireo.codec import history as stored
from albireo.codec.history import FileKind, Manifest
from albireo.machine.history.trace import HOLD_NS, hold_limit_ns
from albireo.pipeline.errors import SourceDamaged
from albireo.pipeline.plan import News, midnight
from albireo.pipeline.source import RESTORE, HistoryFolder
from albireo.pipeline.tables import DAY_NS

READ_ROWS: Final = 1 << 18
_COLUMNS: Final = {
    FileKind.SAMPLES: ("source_ns", "sequence"),
    FileKind.PARTIALS: ("bucket_ns", "sequence_max"),
    FileKind.GAPS: ("from_ns", "sequence"),
}


def days_of(history: HistoryFolder, found: list[News], open_ns: int) -> dict[str, set[int]]:
    """Midnights before `open_ns` of the new rows in each file, by path; files without such rows are left out.

    Raises:
        SourceDamaged: a file can't be read.
    """
    days = {}
    for one in found:
        if midnight(one.entry.min_source_ns) < open_ns:
            days[one.entry.path] = {ns for ns in _days(history, one) if ns < open_ns}
    return days


def longest_hold_ns(history: HistoryFolder) -> int:
    """Longest hold of any item: what a new sample may change behind it.

    Raises:
        SourceDamaged: the list of items can't be read.
    """
    longest = HOLD_NS
    for entry in history.entries(FileKind.ITEMS):
        try:
            stale_ns = pq.read_table(history.path(entry), columns=["stale_ns"], schema=stored.ITEMS)["stale_ns"]
        except (pa.ArrowException, OSError) as error:
            raise SourceDamaged(history.original(entry), f"can't be read ({error})", RESTORE) from error
        longest = max([longest, *(hold_limit_ns(one.as_py()) for one in stale_ns.unique())])
    return longest


def _days(history: HistoryFolder, one: News) -> set[int]:
    entry, kind = one.entry, one.entry.kind
    first, last = midnight(entry.min_source_ns), midnight(entry.max_source_ns)
    if first == last and not one.is_copied:
        return {first}
    partials = _partials(history.manifest, entry.path)
    if kind is FileKind.SAMPLES and not one.is_copied and partials is not None:
        entry, kind = partials, FileKind.PARTIALS
    try:
        return _read(history.path(entry), _COLUMNS[kind], one)
    except (pa.ArrowException, OSError) as error:
        raise SourceDamaged(history.original(entry), f"can't be read ({error})", RESTORE) from error


def _partials(manifest: Manifest, samples_path: str) -> stored.FileEntry | None:
    path = stored.partials_path(samples_path)
    return next((entry for entry in manifest.of_kind(FileKind.PARTIALS) if entry.path == path), None)


def _read(path: Path, columns: tuple[str, str], one: News) -> set[int]:
    days: set[int] = set()
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        for batch in file.iter_batches(READ_ROWS, columns=list(columns), use_threads=False):
            ns, sequence = (batch.column(name).to_numpy() for name in columns)
            is_new = np.zeros(len(batch), bool)
            for low, high in one.sequences:
                is_new |= (sequence >= low) & (sequence <= high)
            days.update(midnight(int(number) * DAY_NS) for number in np.unique(ns[is_new] // DAY_NS))
    return days
