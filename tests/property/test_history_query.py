"""Answers over files, merged files, late rows, gaps and the hot tail against SQL: DuckDB knows nothing of partials."""

import math
import random
import threading
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from albireo.codec.history import BUCKET_NS, DAY_NS
from albireo.codec.record import GapFound, ItemDeclared, Stream
from albireo.machine.history.intervals import averages
from albireo.machine.history.sealing import merge_plan
from albireo.machine.history.trace import AggregateSettings
from albireo.model import quality as q
from albireo.model.instant import SECOND
from albireo.model.item import DataItem
from albireo.model.value import ItemId, ValueType
from albireo.node.history.files import merging
from albireo.node.history.files.chunks import samples_table
from albireo.node.history.files.hot import HotRows
from albireo.node.history.files.store import HistoryStore
from albireo.node.history.query import StoredHistory, TimeRange
from tests.parts.history import DAY_ZERO, LOG_ID, MemoryLog, fill, hot_of

ITEM = 2
QUALITIES = (int(q.GOOD),) * 6 + (int(q.UNCERTAIN), int(q.BAD_NO_COMMUNICATION))
ORACLE = """
WITH events AS (
    SELECT source_ns AS t, 0 AS rank, sequence AS s, value AS v, quality >> 30 AS q FROM rows WHERE source_ns < $to
    UNION ALL SELECT from_ns, 1, 0, NULL, 2 FROM holes WHERE from_ns < $to
), held AS (
    SELECT *, coalesce(lead(t) OVER (ORDER BY t, rank, s), greatest(t, $known_to)) AS n FROM events
)
SELECT i.start,
    coalesce(sum(least(n, i.stop) - greatest(t, i.start)) FILTER (q = 0), 0) AS good,
    coalesce(sum(least(n, i.stop) - greatest(t, i.start)) FILTER (q = 1), 0) AS uncertain,
    coalesce(sum(least(n, i.stop) - greatest(t, i.start)) FILTER (q = 2), 0) AS bad,
    sum(v * (least(n, i.stop) - greatest(t, i.start))) FILTER (q <= $usable)
        / sum(least(n, i.stop) - greatest(t, i.start)) FILTER (q <= $usable) AS average,
    min(v) FILTER (q <= $usable AND (t >= i.start OR n > i.start)) AS minimum,
    max(v) FILTER (q <= $usable AND (t >= i.start OR n > i.start)) AS maximum,
    count(*) FILTER (rank = 0 AND t >= i.start) AS rows,
    count(*) FILTER (rank = 0 AND t >= i.start AND q = 0) AS good_rows
FROM intervals i LEFT JOIN held ON t < i.stop AND (n > i.start OR t >= i.start)
GROUP BY i.start ORDER BY i.start
"""


def recorded(chance: random.Random, tmp_path: Path) -> tuple[StoredHistory, MemoryLog, list[int]]:
    """A history of two items around a midnight, with everything that makes one hard; and its holes."""
    log, holes = MemoryLog(), list[int]()
    start = DAY_ZERO + DAY_NS - 20 * 60 * SECOND
    item = DataItem(name="co", value_type=ValueType.FLOAT64, adapter="p1")
    log.records(Stream.STATE, [ItemDeclared(item_id=ItemId(ITEM), node="root", item=item)], start)
    store, _ = HistoryStore.open(tmp_path, "root")
    hot = hot_of(store)
    now = start
    for block in range(12):
        rows = []
        for _ in range(chance.choice([0, 1, 5, 30])):
            now += chance.choice([1, SECOND, 7 * SECOND, 20 * SECOND])
            late = chance.randint(0, 600) * SECOND if chance.random() < 0.05 else 0
            at = now - late if chance.random() < 0.9 else now // BUCKET_NS * BUCKET_NS
            rows.append((chance.choice([1, ITEM, ITEM]), at, float(chance.randint(-9, 9)), chance.choice(QUALITIES)))
        if rows:
            log.samples(rows, now)
        if chance.random() < 0.15:
            gap = GapFound(source=chance.choice(["p1", "other"]), reason="device_lost", from_ns=now, to_ns=now + SECOND)
            log.records(Stream.SAMPLES, [gap], now)
            holes += [now] if gap.source == "p1" else []
        now += chance.choice([0, 0, 0, 5 * 60 * SECOND])
        fill(hot, log)
        if block < 21 and chance.random() < 0.8:
            content = hot.content()
            store.seal(content, LOG_ID.hex(), now)
            hot.drop(content)
        plan = merge_plan(store.manifest.files, now + chance.choice([0, DAY_NS]))
        if plan is not None and chance.random() < 0.5:
            outputs = merging.merge_files(store, plan, store.manifest.generation + 1, threading.Event())
            store.replace(merging.inputs_listed(store, plan), outputs, now)
    content = hot.content()
    newest = HotRows(samples=samples_table(content.chunks), gaps=content.gaps, known_to_ns=content.complete_to_ns)
    return StoredHistory(store.root, store.manifest, newest), log, holes


def expected(log: MemoryLog, holes: list[int], edges: np.ndarray[Any, Any], known_to: int, usable: int) -> list[Any]:
    mine = [row for row in log.rows if row[1] == ITEM]
    with duckdb.connect() as database:
        columns: dict[str, pa.Array[Any]] = {
            "sequence": pa.array([row[0] for row in mine], pa.int64()),
            "source_ns": pa.array([row[2] for row in mine], pa.int64()),
            "value": pa.array([row[3] for row in mine], pa.float64()),
            "quality": pa.array([row[4] for row in mine], pa.int64()),
        }
        database.register("rows", pa.table(columns))
        database.register("holes", pa.table({"from_ns": pa.array(holes, pa.int64())}))
        database.register("intervals", pa.table({"start": pa.array(edges[:-1]), "stop": pa.array(edges[1:])}))
        parameters = {"to": int(edges[-1]), "known_to": known_to, "usable": usable}
        rows: list[Any] = database.execute(ORACLE, parameters).fetchall()
    return rows


def same(found: float, wanted: float | None) -> bool:
    return (
        math.isnan(found)
        if wanted is None or math.isnan(wanted)
        else math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-9)
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_every_way_to_an_answer_gives_what_sql_gives(tmp_path: Path, seed: int) -> None:
    """From partials, from raw rows, with aligned and unaligned edges, across midnight, gaps, late rows, hot tail."""
    chance = random.Random(seed)
    reader, log, holes = recorded(chance, tmp_path)
    start = DAY_ZERO + DAY_NS - 20 * 60 * SECOND
    for every, shift in (
        (BUCKET_NS, 0),
        (5 * BUCKET_NS, 0),
        (90 * SECOND, 0),
        (BUCKET_NS, 13 * SECOND),
        (7 * SECOND, 1),
    ):
        span = TimeRange(start + chance.randint(0, 5) * BUCKET_NS + shift, start + 40 * BUCKET_NS + shift)
        settings = AggregateSettings(treat_uncertain_as_bad=chance.random() < 0.7)
        edges = span.edges(every)
        wanted = expected(log, holes, edges, reader.complete_to_ns, settings.usable_max)
        for only_raw in (False, True):
            found = reader.intervals(ITEM, span, every, settings, only_raw=only_raw)
            average = averages(found, settings)
            for index, row in enumerate(wanted):
                _, good, uncertain, bad, mean, low, high, rows, good_rows = row
                place = f"seed {seed} every {every} only_raw {only_raw} interval {index}"
                durations = [int(one[index]) for one in (found.good_ns, found.uncertain_ns, found.bad_ns)]
                assert durations == [good, uncertain, bad], place
                assert same(average[index], mean), place
                assert same(found.minimum[index], low), place
                assert same(found.maximum[index], high), place
                assert (int(found.rows[index]), int(found.good_rows[index])) == (rows, good_rows), place


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 103))
def test_raw_last_and_neighbours(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    reader, log, holes = recorded(chance, tmp_path)
    mine = sorted((row for row in log.rows if row[1] == ITEM), key=lambda row: (row[2], row[0]))
    times = [row[2] for row in mine]
    for _ in range(10):
        at = chance.choice(times) + chance.choice([-1, 0, 1, 30 * SECOND])
        span = TimeRange(at, at + 10 * BUCKET_NS)
        raw = reader.raw([ITEM], span)
        assert raw.column("sequence").to_pylist() == [row[0] for row in mine if at <= row[2] < span.to_ns]
        before = [row for row in mine if row[2] < at]
        assert reader.last(ITEM, at).column("sequence").to_pylist() == [row[0] for row in before[-1:]]
        after = [one for one in times if one >= at]
        assert reader.row_after(ITEM, at) == (after[0] if after else None)
        starts, rows = reader.last_rows(ITEM, span, BUCKET_NS)
        kept = []
        known_to = reader.complete_to_ns
        for start in span.edges(BUCKET_NS)[:-1].tolist():
            if start >= known_to:
                continue
            end = min(start + BUCKET_NS, known_to)
            held = [row for row in mine if row[2] < start + BUCKET_NS]
            if held and not any(held[-1][2] <= hole < end for hole in holes):
                kept.append((start, held[-1][0]))
        assert list(zip(starts.tolist(), rows.column("sequence").to_pylist(), strict=True)) == kept
