"""Alarm figures from journals small enough to count by hand, and from a generated one by DuckDB."""

import random
from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from albireo.codec import history as stored
from albireo.pipeline import rollup
from albireo.pipeline.report import alarms, coverage
from albireo.pipeline.source import local_frame
from tests.unit.pipeline.history_files import DAY0, SECOND, Row

pytestmark = [pytest.mark.spark, pytest.mark.slow]

MINUTE = 60 * SECOND
WINDOW = 10 * MINUTE


def event(at_s: float, case_id: int, *, item_id: int = 1, condition: str = "hi", **more: Any) -> Row:
    """One record of a case: active and not acknowledged, unless said otherwise."""
    at_ns = DAY0 + int(at_s * SECOND)
    plain: Row = dict.fromkeys(stored.EVENTS.names)
    plain |= {"at_ns": at_ns, "kind": "case", "action": "", "user": "", "detail": "", "case_id": case_id}
    plain |= {"principal": "", "speaker": "", "subject": ""}
    plain |= {"item_id": item_id, "condition": condition, "severity": 500, "lifecycle_status": "updated"}
    plain |= {"is_active": True, "is_acked": False, "is_latched": False, "shelving": "unshelved", "activations": 1}
    plain |= {"is_suppressed": False, "is_out_of_service": False, "is_chattering": False, "raised_ns": at_ns}
    return plain | {"node_ns": at_ns, "epoch": 1} | more


def numbered(rows: Sequence[Row]) -> list[Row]:
    return [row | {"sequence": place} for place, row in enumerate(sorted(rows, key=lambda row: row["at_ns"]), 1)]


def changes_of(spark: SparkSession, rows: Sequence[Row]) -> DataFrame:
    schema = from_arrow_schema(stored.EVENTS)
    frame = local_frame(spark, schema, [tuple(row[name] for name in stored.EVENTS.names) for row in numbered(rows)])
    # Each record twice, as from a file read with the one that replaces it.
    return alarms.transitions(frame.unionByName(frame)).persist()


def test_a_case_is_followed_from_raising_to_closing(spark: SparkSession) -> None:
    rows = [
        event(0, 7),
        event(30, 7, is_acked=True),
        event(100, 7, is_acked=True, is_active=False),
        event(160, 7, is_acked=False, activations=2),
        event(200, 7, is_acked=False, is_active=False, activations=2),
        event(201, 7, is_acked=True, is_active=False, activations=2, lifecycle_status="closed"),
    ]
    raised = {"raised_ns": DAY0}
    (case,) = alarms.cases(changes_of(spark, [row | raised for row in rows]), DAY0 + 500 * SECOND).collect()
    assert case.activations == case.annunciations == 2
    assert case.active_ns == (100 + 40) * SECOND
    assert case.time_to_ack_ns == 30 * SECOND
    assert case.cleared_ns == DAY0 + 200 * SECOND
    assert case.closed_ns == DAY0 + 201 * SECOND
    assert not case.is_active


def test_standing_counts_from_the_last_activation_and_not_from_the_raising_of_the_case(spark: SparkSession) -> None:
    day = 86_400
    rows = [
        event(0, 7, raised_ns=DAY0),
        event(day - 60, 7, raised_ns=DAY0, is_active=False),
        event(day, 7, raised_ns=DAY0, activations=2),
        event(day + 60, 7, raised_ns=DAY0, activations=2, is_acked=True),
    ]
    known_to_ns = DAY0 + (day + 3_600) * SECOND
    (stands,) = alarms.standing(alarms.cases(changes_of(spark, rows), known_to_ns), known_to_ns).collect()
    assert stands.since_ns == DAY0 + day * SECOND
    assert (stands.standing_ns, stands.is_stale) == (3_600 * SECOND, False)


def test_standing_counts_from_the_last_activation_that_a_record_only_counts(spark: SparkSession) -> None:
    """A record may tell of later activations of a case that was active in the record before."""
    rows = [event(0, 7, raised_ns=DAY0), event(600, 7, raised_ns=DAY0, activations=3)]
    (stands,) = alarms.standing(alarms.cases(changes_of(spark, rows), DAY0 + WINDOW), DAY0 + 2 * WINDOW).collect()
    assert stands.since_ns == DAY0 + 600 * SECOND


def test_hidden_activations_are_no_annunciations(spark: SparkSession) -> None:
    rows = [
        event(0, 1, is_suppressed=True),
        event(1, 2, shelving="timed"),
        event(2, 3, is_out_of_service=True),
        event(3, 4, severity=900),
    ]
    changes = changes_of(spark, rows)
    (window,) = alarms.rate(changes, DAY0, DAY0 + WINDOW).collect()
    assert (window.annunciations, window.urgent, window.medium) == (1, 1, 0)
    standing = {
        row.case_id: row for row in alarms.standing(alarms.cases(changes, DAY0 + MINUTE), DAY0 + MINUTE).collect()
    }
    assert {case_id for case_id, row in standing.items() if row.is_hidden} == {1, 2, 3}
    assert standing[4].standing_ns == 57 * SECOND


def test_a_flood_ends_below_five(spark: SparkSession) -> None:
    """12, 7, 5, 4, 10, 0 annunciations: two floods, the first through the windows of 7 and 5."""
    counts = [12, 7, 5, 4, 10, 0]
    rows = [
        event(600 * window + number, 100 * window + number)
        for window, count in enumerate(counts)
        for number in range(count)
    ]
    rates = alarms.rate(changes_of(spark, rows), DAY0, DAY0 + len(counts) * WINDOW)
    assert [row.annunciations for row in rates.orderBy("window_ns").collect()] == counts
    floods = alarms.floods(rates).orderBy("start_ns").collect()
    assert [(row.start_ns - DAY0, row.end_ns - DAY0, row.annunciations, row.peak) for row in floods] == [
        (0, 3 * WINDOW, 24, 12),
        (4 * WINDOW, 5 * WINDOW, 10, 10),
    ]


def test_chatter_is_three_within_a_minute(spark: SparkSession) -> None:
    quick = [event(at, at) for at in (0, 20, 40, 300, 320, 340, 345)]
    slow = [event(at, 1000 + at, item_id=2) for at in (0, 31, 62, 93)]
    counted = [event(0, 2000, item_id=3, activations=8)]
    found = {row.item_id: row for row in alarms.chatter(changes_of(spark, quick + slow + counted)).collect()}
    assert set(found) == {1, 3}
    assert (found[1].episodes, found[1].activations) == (2, 7), "the first two of an episode count too"
    assert (found[1].first_ns, found[1].last_ns) == (DAY0, DAY0 + 345 * SECOND)
    assert found[3].activations == 8


def test_chatter_counts_what_one_record_tells_of_several_activations(spark: SparkSession) -> None:
    """Two at once and one more half a minute later are three; two at once alone are not."""
    rows = [event(0, 1, activations=2), event(30, 1, activations=3), event(300, 2, item_id=2, activations=2)]
    (found,) = alarms.chatter(changes_of(spark, rows)).collect()
    assert (found.item_id, found.activations, found.first_ns) == (1, 3, DAY0)


def test_a_case_raised_while_suppressed_is_acknowledged_by_nobody(spark: SparkSession) -> None:
    """It asks nobody, so nobody answers; once it is shown, the time runs from then on."""
    silent = [event(0, 1, is_suppressed=True, is_acked=True), event(50, 1, is_acked=True, is_active=False)]
    shown = [
        event(0, 2, is_suppressed=True, is_acked=True),
        event(100, 2, raised_ns=DAY0),
        event(130, 2, raised_ns=DAY0, is_acked=True),
    ]
    plain = [event(10, 3), event(17, 3, raised_ns=DAY0 + 10 * SECOND, is_acked=True)]
    cases = alarms.cases(changes_of(spark, silent + shown + plain), DAY0 + MINUTE).collect()
    found = {row.case_id: (row.acked_ns, row.time_to_ack_ns, row.has_asked) for row in cases}
    assert found == {
        1: (None, None, False),
        2: (DAY0 + 130 * SECOND, 30 * SECOND, True),
        3: (DAY0 + 17 * SECOND, 7 * SECOND, True),
    }


def test_actors_are_ranked_with_shares(spark: SparkSession) -> None:
    rows = [event(at, at, item_id=1 if at < 6 else 2, condition="hi" if at % 2 else "lo") for at in range(8)]
    ranked = alarms.actors(alarms.cases(changes_of(spark, rows), DAY0 + MINUTE)).orderBy("rank").collect()
    assert [(row.item_id, row.condition, row.annunciations) for row in ranked] == [
        (1, "hi", 3),
        (1, "lo", 3),
        (2, "hi", 1),
        (2, "lo", 1),
    ]
    assert [row.cumulated_share for row in ranked] == [0.375, 0.75, 0.875, 1.0]


def test_an_empty_journal_gives_empty_tables(spark: SparkSession) -> None:
    changes = changes_of(spark, [])
    rates = alarms.rate(changes, DAY0, DAY0 + 25 * MINUTE)
    assert [row.annunciations for row in rates.collect()] == [0, 0, 0]
    cases = alarms.cases(changes, DAY0)
    for frame in (
        cases,
        alarms.floods(rates),
        alarms.actors(cases),
        alarms.standing(cases, DAY0),
        alarms.chatter(changes),
    ):
        assert frame.count() == 0


def test_cases_of_a_busy_day_are_what_duckdb_counts(spark: SparkSession) -> None:
    chance = random.Random(5)
    rows = []
    for case_id in range(1, 200):
        at, active, acked, activations = chance.uniform(0, 80_000), True, False, 1
        raised_ns = DAY0 + int(at * SECOND)
        for _ in range(chance.randrange(1, 7)):
            more: Row = {"is_active": active, "is_acked": acked, "activations": activations, "raised_ns": raised_ns}
            rows.append(event(at, case_id, item_id=case_id % 9, **more))
            at += chance.uniform(1, 900)
            match chance.randrange(3):
                case 0:
                    acked = True
                case 1 if active:
                    active = False
                case _ if not active:
                    active, activations = True, activations + 1
    known_to = DAY0 + 86_400 * SECOND
    found = {row.case_id: row for row in alarms.cases(changes_of(spark, rows), known_to).collect()}
    table = pa.Table.from_pylist(numbered(rows), schema=stored.EVENTS)
    with duckdb.connect() as connection:
        connection.register("events", table)
        wanted = connection.execute(
            """WITH spans AS (SELECT case_id, is_active, at_ns,
                      coalesce(lead(at_ns) OVER (PARTITION BY case_id ORDER BY sequence), $known) AS until_ns
                      FROM events)
               SELECT e.case_id, max(activations), min(at_ns) FILTER (is_acked),
                      (SELECT coalesce(sum(until_ns - at_ns) FILTER (is_active), 0)::BIGINT FROM spans s
                       WHERE s.case_id = e.case_id),
                      last(is_active ORDER BY sequence)
               FROM events e GROUP BY e.case_id""",
            {"known": known_to},
        ).fetchall()
    assert len(wanted) == len(found) == 199
    for case_id, activations, acked_ns, active_ns, is_active in wanted:
        row = found[case_id]
        assert (row.activations, row.acked_ns, row.active_ns, row.is_active) == (
            activations,
            acked_ns,
            active_ns,
            is_active,
        )


def test_times_that_no_difference_may_have_are_counted_and_stop_nothing(spark: SparkSession) -> None:
    """The changed time of a case is a producer's: it can be anything that 64 bits hold."""
    first, last = -(2**63), 2**63 - 1
    rows = [
        event(0, 1, at_ns=first, raised_ns=first),
        event(1, 1, at_ns=last, raised_ns=first, is_active=False, is_acked=True),
        event(2, 2, at_ns=first, raised_ns=last),
    ]
    found = alarms.cases(changes_of(spark, rows), DAY0).collect()
    assert {one.case_id: one.activations for one in found} == {1: 1, 2: 1}
    plain = {"source": "p1", "reason": "overflow", "item_ids": [], "lost": last, "node_ns": DAY0, "epoch": 1}
    schema = from_arrow_schema(stored.GAPS)
    row = plain | {"from_ns": first, "to_ns": last, "sequence": 9}
    frame = local_frame(spark, schema, [tuple(row[name] for name in stored.GAPS.names)])
    items = local_frame(spark, from_arrow_schema(stored.ITEMS))
    (gap,) = coverage.gap_table(frame.withColumn("node", F.lit("root")), items).collect()
    assert gap.duration_s == pytest.approx(2**63 / 1e9)
    assert rollup.points_of_gaps(frame.withColumn("node", F.lit("root")), items).count() == 0
