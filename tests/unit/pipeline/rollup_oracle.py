"""The rollup once more, by DuckDB, as plainly as possible: every hold joined with every bucket it meets."""

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

ROLLUP_SQL = """
WITH unique_samples AS (
    SELECT DISTINCT item_id, source_ns, epoch, sequence, quality,
           coalesce(value_f64, value_i64::DOUBLE) AS number
    FROM samples
),
judged AS (
    SELECT item_id, source_ns AS ns, false AS is_hole, epoch, sequence,
           CASE WHEN NOT isfinite(coalesce(number, 0)) AND quality < 2147483648 THEN 2147483648
                ELSE quality END AS quality,
           CASE WHEN isfinite(number) AND quality < 2147483648 THEN number END AS value
    FROM unique_samples
),
owned AS (
    SELECT g.from_ns, g.epoch, g.sequence, unnest(g.item_ids) AS item_id FROM gaps g WHERE len(g.item_ids) > 0
    UNION ALL
    SELECT g.from_ns, g.epoch, g.sequence, i.item_id FROM gaps g, items i
    WHERE len(g.item_ids) = 0 AND (g.source = i.adapter OR g.source IN ('core', 'history'))
),
points AS (
    SELECT * FROM judged
    UNION ALL
    SELECT item_id, from_ns, true, epoch, sequence, 2157772800, NULL FROM owned o
    WHERE from_ns >= (SELECT min(ns) FROM judged j WHERE j.item_id = o.item_id)
),
holds AS (
    SELECT *, greatest(ns, least($known, coalesce(
        lead(ns) OVER (PARTITION BY item_id ORDER BY ns, is_hole, epoch, sequence), $known))) AS until_ns
    FROM points
),
spans AS (
    SELECT item_id, min(ns) // $width * $width AS low,
           greatest(max(until_ns), max(ns)) // $width * $width AS high FROM holds GROUP BY item_id
),
buckets AS (SELECT item_id, unnest(range(low, high + $width, $width)) AS bucket_ns FROM spans),
met AS (
    SELECT b.item_id, b.bucket_ns, h.*,
           NOT is_hole AND ns >= b.bucket_ns AND ns < b.bucket_ns + $width AS own,
           greatest(0, least(until_ns, b.bucket_ns + $width) - greatest(ns, b.bucket_ns)) AS held,
           least(quality >> 30, 2) AS class
    FROM buckets b JOIN holds h ON h.item_id = b.item_id AND ns < b.bucket_ns + $width
         AND (until_ns > b.bucket_ns OR ns >= b.bucket_ns)
)
SELECT item_id, bucket_ns,
       count(*) FILTER (own) AS rows,
       count(*) FILTER (own AND class = 0) AS good_rows,
       min(ns) FILTER (own) AS first_ns,
       (array_agg(value ORDER BY ns, is_hole, epoch, sequence) FILTER (own))[1] AS first_value,
       last(ns ORDER BY ns, is_hole, epoch, sequence) AS end_ns,
       last(value ORDER BY ns, is_hole, epoch, sequence) AS end_value,
       last(quality ORDER BY ns, is_hole, epoch, sequence) AS end_quality,
       coalesce(sum(value * held / 1e9) FILTER (class = 0), 0) AS integral,
       coalesce(sum(held) FILTER (class = 0), 0)::BIGINT AS good_ns,
       coalesce(sum(held) FILTER (class = 1), 0)::BIGINT AS uncertain_ns,
       coalesce(sum(held) FILTER (class = 2), 0)::BIGINT AS bad_ns,
       coalesce(sum(held) FILTER (is_hole), 0)::BIGINT AS lost_ns,
       min(value) FILTER (class = 0 AND (own OR held > 0)) AS minimum,
       max(value) FILTER (class = 0 AND (own OR held > 0)) AS maximum,
       coalesce(sum(value) FILTER (class = 0 AND own), 0) AS total,
       max(sequence) FILTER (own) AS sequence_max
FROM met
GROUP BY item_id, bucket_ns
HAVING rows > 0 OR (NOT $sparse AND sum(held) > 0)
ORDER BY item_id, bucket_ns
"""
COLUMNS = (
    "item_id bucket_ns rows good_rows first_ns first_value end_ns end_value end_quality integral good_ns uncertain_ns "
    "bad_ns lost_ns minimum maximum total sequence_max"
).split()
FLOATS = {"first_value", "end_value", "integral", "minimum", "maximum", "total"}


def rollup_by_duckdb(
    samples: pa.Table, gaps: pa.Table, items: pa.Table, *, width_ns: int, known_to_ns: int, is_sparse: bool
) -> list[dict[str, Any]]:
    """Rows as plain dicts, sorted by item and bucket."""
    with duckdb.connect() as connection:
        for name, table in {"samples": samples, "gaps": gaps, "items": items}.items():
            connection.register(name, table)
        answer = connection.execute(ROLLUP_SQL, {"width": width_ns, "known": known_to_ns, "sparse": is_sparse})
        return [dict(zip(COLUMNS, row, strict=True)) for row in answer.fetchall()]


def table_rows(table_directory: Path) -> list[dict[str, Any]]:
    """Rows of a Delta table, sorted by item and bucket, without what follows from the other columns."""
    from deltalake import DeltaTable

    rows = DeltaTable(str(table_directory)).to_pyarrow_table(columns=COLUMNS).to_pylist()
    return sorted(rows, key=lambda row: (row["item_id"], row["bucket_ns"]))


def assert_same(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    """Integers and nulls exactly, floats to a billionth of the value or of 1."""
    assert [(row["item_id"], row["bucket_ns"]) for row in found] == [
        (row["item_id"], row["bucket_ns"]) for row in wanted
    ]
    for one, other in zip(found, wanted, strict=True):
        for name in COLUMNS:
            if name in FLOATS and one[name] is not None and other[name] is not None:
                assert abs(one[name] - other[name]) <= 1e-9 * max(1.0, abs(other[name])), (name, one, other)
            else:
                assert one[name] == other[name], (name, one, other)
