"""Trends over the stored history: one item of 30 days at 1 Hz beside 999 items at one sample a minute.

Floor of the raw query: DuckDB's window query over the same files, its threads as many as there are cores, taking turns
with ours. Both answers are compared before anything is timed. The data lies in a temporary directory that goes away.
"""

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import duckdb
import msgspec
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from albireo.client import readable
from albireo.client.history import items_of
from albireo.codec.history import (
    BUCKET_NS,
    DAY_NS,
    SAMPLES,
    FileEntry,
    FileKind,
    day_of,
    file_path,
    partials_path,
)
from albireo.codec.questions.history import Aggregate, RowsQuestion
from albireo.machine.history.aggregate import partials_of
from albireo.machine.history.declared import DeclaredItems, item_row
from albireo.machine.history.intervals import Extent, Intervals, averages
from albireo.machine.history.trace import AggregateSettings
from albireo.model import quality as q
from albireo.model.instant import SECOND
from albireo.model.item import DataItem, KnownItem
from albireo.model.value import ItemId, ValueType
from albireo.node.history.files import parquet
from albireo.node.history.files.entries import entry_of
from albireo.node.history.files.hot import HotTail
from albireo.node.history.files.intact import check_whole
from albireo.node.history.files.joined import NodeStore
from albireo.node.history.files.store import FOLDER, HistoryStore, read_manifest
from albireo.node.history.paging import PagedHistory
from albireo.node.history.query import StoredHistory, TimeRange
from bench import Progress, Result, case, median, result

DAYS: Final = 30
SLOW_ITEMS: Final = 999
FAST_ITEM: Final = 1
START_NS: Final = 1_700_006_400 * SECOND
SPAN: Final = TimeRange(START_NS, START_NS + DAYS * DAY_NS)
ROUNDS: Final = 9
FAST: Final = item_row(
    KnownItem(item_id=ItemId(FAST_ITEM), node="root", item=DataItem(name="fast", value_type=ValueType.FLOAT64))
)
SETTINGS: Final = AggregateSettings()
FLOOR: Final = """
WITH mine AS (
    SELECT source_ns AS t, value_f64 AS v, quality >> 30 AS q, sequence AS s FROM read_parquet($files)
    WHERE item_id = $item AND source_ns >= $from AND source_ns < $to
), held AS (
    SELECT t, v, q, coalesce(lead(t) OVER (ORDER BY t, s), $to) AS n FROM mine
), pieces AS (  -- At 1 Hz a hold crosses one minute at most.
    SELECT t // 60000000000 AS bucket, v, q, least(n, (t // 60000000000 + 1) * 60000000000) - t AS d FROM held
    UNION ALL
    SELECT n // 60000000000, v, q, n % 60000000000 FROM held WHERE n // 60000000000 > t // 60000000000
)
SELECT bucket, sum(CASE WHEN q = 0 THEN v * d END) / sum(CASE WHEN q = 0 THEN d END) AS average
FROM pieces WHERE bucket < $to // 60000000000 GROUP BY bucket ORDER BY bucket
"""


def run(progress: Progress) -> Result:
    with tempfile.TemporaryDirectory(prefix="albireo-bench-history-") as name:
        data = Path(name)
        began = time.perf_counter()
        size_bytes, rows = write_history(data, progress)
        wrote_s = time.perf_counter() - began
        root = data / FOLDER
        files = [str(root / one.path) for one in read_manifest(root).of_kind(FileKind.SAMPLES)]
        with duckdb.connect(config={"threads": psutil.cpu_count() or 2}) as database:
            compare(root, database, files)
            progress("querying")
            partials_ms = [milliseconds(lambda: trend(root)) for _ in range(2 * ROUNDS)]
            slow_ms = [milliseconds(lambda: trend(root, item_id=FAST_ITEM + 500)) for _ in range(ROUNDS)]
            first_ms, plain_ms = list[float](), list[float]()
            whole_ms, bare_ms = list[float](), list[float]()
            for number in range(ROUNDS):
                forgotten(root, number)
                first_ms.append(milliseconds(lambda: trend(root)))
                plain_ms.append(milliseconds(lambda: trend(root)))  # Files are compared once in a process.
                whole_ms.append(milliseconds(lambda: read_day(root, is_checked=True)))
                bare_ms.append(milliseconds(lambda: read_day(root, is_checked=False)))
            asked_ms: dict[Aggregate, list[float]] = {"band": [], "min": [], "max": [], "last": [], "average": []}
            for _ in range(ROUNDS):
                for name, taken_ms in asked_ms.items():
                    taken_ms.append(milliseconds(lambda name=name: answered(root, name)))  # type: ignore[misc]  # Bound.
            band_ms, *four_ms = (median(one) for one in asked_ms.values())
            raw_ms, floor_ms = list[float](), list[float]()
            for _ in range(ROUNDS):
                raw_ms.append(milliseconds(lambda: trend(root, only_raw=True)))
                floor_ms.append(milliseconds(lambda: window_query(database, files)))
    return result(
        "history",
        [
            case("30 days at 1 Hz, 1 min average, from stored partials, p50", "ms", median(partials_ms), goal="<= 150"),
            case("the same from raw rows, against DuckDB", "ms", median(raw_ms), median(floor_ms), goal="<= 0.7"),
            case("30 days at 1 per minute, 1 min average, from stored partials, p50", "ms", median(slow_ms)),
            case("30 days at 1 Hz, 600 intervals, band, against min", "ms", band_ms, four_ms[0], "<= 1.2"),
            case("the same, against average", "ms", band_ms, four_ms[3]),
            case("the same, against min, max, last and average", "ms", band_ms, sum(four_ms)),
            case("the first of a process, files compared, against not", "ms", median(first_ms), median(plain_ms)),
            case("a day read whole, file and pages compared, against not", "ms", median(whole_ms), median(bare_ms)),
            case("rows stored", "million", rows / 1e6),
            case("size of a row, partials included", "B", size_bytes / rows),
            case("rows written and summed up per second", "million/s", rows / wrote_s / 1e6),
        ],
    )


def forgotten(root: Path, number: int) -> None:
    """Have the historian compare all files anew: it does so once in a process, unless a file changes."""
    changed_ns = time.time_ns() - (3600 + number) * SECOND
    for one in read_manifest(root).files:
        os.utime(root / one.path, ns=(changed_ns, changed_ns))


def read_day(root: Path, *, is_checked: bool) -> None:
    """All rows of one day, as a run of the pipeline takes its files: compared whole, and page by page."""
    entry = read_manifest(root).of_kind(FileKind.SAMPLES)[0]
    if is_checked:
        check_whole(root / entry.path, entry)
    pq.read_table(root / entry.path, page_checksum_verification=is_checked, use_threads=False)


def trend(root: Path, *, item_id: int = FAST_ITEM, only_raw: bool = False) -> Intervals:
    """The question of the benchmark, cold: manifest and file footers are read each time."""
    reader = StoredHistory(root, read_manifest(root))
    return reader.intervals(item_id, SPAN, BUCKET_NS, SETTINGS, only_raw=only_raw, extent=Extent.SUMS)


def answered(root: Path, aggregate: Aggregate) -> pa.Table:
    """600 intervals of the fast item as a client gets them, but for the sockets."""
    manifest = read_manifest(root)
    asked = RowsQuestion(
        item_ids=(FAST_ITEM,),
        from_ns=SPAN.from_ns,
        to_ns=SPAN.to_ns,
        aggregate=aggregate,
        bucket_ns=DAYS * DAY_NS // 600,
    )
    declared = DeclaredItems.of_rows([FAST])
    hot = HotTail(manifest.position, manifest.complete_to_ns, declared).content()
    raw, _ = PagedHistory([NodeStore(root, manifest, declared)], [hot]).piece(asked).encoded()
    table = pa.ipc.open_stream(pa.py_buffer(raw)).read_all()
    return readable.readable(readable.typed(table, items_of(table), aggregate))


def window_query(database: duckdb.DuckDBPyConnection, files: list[str]) -> dict[str, Any]:
    parameters = {"files": files, "item": FAST_ITEM, "from": SPAN.from_ns, "to": SPAN.to_ns}
    answer: dict[str, Any] = database.execute(FLOOR, parameters).fetchnumpy()
    return answer


def compare(root: Path, database: duckdb.DuckDBPyConnection, files: list[str]) -> None:
    """All three ways must give the same averages, or no time means anything."""
    wanted = np.ma.filled(window_query(database, files)["average"].astype(np.float64), np.nan)
    for only_raw in (False, True):
        found = averages(trend(root, only_raw=only_raw), SETTINGS)
        np.testing.assert_allclose(found, wanted, rtol=1e-9)


def milliseconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1e3


def write_history(data: Path, progress: Progress) -> tuple[int, int]:
    """A history of closed days, each one samples file and its partials. Returns its size in bytes and its rows."""
    store, _ = HistoryStore.open(data, "root")
    random = np.random.default_rng(2)
    entries: list[FileEntry] = []
    sequence = 1
    for index in range(DAYS):
        progress(f"writing day {index + 1} of {DAYS}")
        table = one_day(random, START_NS + index * DAY_NS, sequence)
        entries += write_day(store, table, day_of(START_NS + index * DAY_NS), (sequence, sequence + len(table) - 1))
        sequence += len(table)
    store.manifest = msgspec.structs.replace(store.manifest, complete_to_ns=SPAN.to_ns)
    store.replace([], entries, SPAN.to_ns)
    return sum(entry.size_bytes for entry in entries), sequence - 1


def one_day(random: np.random.Generator, start_ns: int, sequence: int) -> pa.Table:
    """Analog values as a PLC gives them (0.01 and 0.1 of a unit), poll times with some jitter, a few bad ones."""
    seconds, minutes = 86_400, 1_440
    fast_ns = start_ns + np.arange(seconds) * SECOND + random.integers(0, 50, seconds) * 1_000_000
    phase_ns = random.integers(0, 59_000, (SLOW_ITEMS, 1)) * 1_000_000
    slow_ns = (start_ns + np.arange(minutes)[None, :] * BUCKET_NS + phase_ns).ravel()
    fast = 20 + 5 * np.sin(np.arange(seconds) / 3000) + random.normal(0, 0.3, seconds)
    slow = 50 + np.cumsum(random.normal(0, 0.2, (SLOW_ITEMS, minutes)), axis=1)
    source_ns = np.concatenate([fast_ns, slow_ns])
    count = len(source_ns)
    sequences = np.empty(count, np.int64)
    sequences[np.argsort(source_ns, kind="stable")] = np.arange(sequence, sequence + count)
    is_bad = random.random(count) < 0.0005
    item_id = np.concatenate([np.full(seconds, FAST_ITEM), np.repeat(FAST_ITEM + 1 + np.arange(SLOW_ITEMS), minutes)])
    columns: dict[str, Any] = {
        "item_id": item_id.astype(np.int64),
        "source_ns": source_ns,
        "node_ns": source_ns + 3_000_000,
        "value_f64": np.concatenate([np.round(fast, 2), np.round(slow, 1).ravel()]),
        "value_i64": pa.nulls(count, pa.int64()),
        "value_str": pa.nulls(count, pa.string()),
        "quality": np.where(is_bad, int(q.BAD_NO_COMMUNICATION), int(q.GOOD)),
        "epoch": np.ones(count, np.int64),
        "sequence": sequences,
    }
    return pa.Table.from_arrays([pa.array(column) for column in columns.values()], schema=SAMPLES)


def write_day(store: HistoryStore, table: pa.Table, day: str, span: tuple[int, int]) -> list[FileEntry]:
    samples_path = file_path(FileKind.SAMPLES, "root", day, span, 1)
    partials = parquet.partials_table(partials_of(parquet.rows_from(table), BUCKET_NS))
    entries: list[FileEntry] = []
    for kind, path, rows in (
        (FileKind.SAMPLES, samples_path, table),
        (FileKind.PARTIALS, partials_path(samples_path), partials),
    ):
        store.make_folder(store.root / path)
        size_bytes = parquet.write(store.files, store.root / path, kind, rows)
        entries.append(entry_of(kind, path, rows, ("root", day), size_bytes, 0, span))
    return entries
