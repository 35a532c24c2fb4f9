"""The same rollups by DuckDB and by Polars, from raw rows: one window query each, written as Parquet.

Columns are those that the comparison looks at. Both are told as little as the pipeline is: files in any order, and a sort
that is theirs to find.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import duckdb

COLUMNS: Final = (
    "item_id bucket_ns rows good_rows end_ns end_value integral good_ns uncertain_ns bad_ns minimum maximum total "
    "sequence_max"
).split()
DUCKDB: Final = """
COPY (
    WITH samples AS (
        SELECT item_id, source_ns AS t, sequence, value_f64 AS v, least(quality >> 30, 2) AS c
        FROM read_parquet($files)
    ), held AS (
        SELECT *, greatest(t, least($known, coalesce(lead(t) OVER (PARTITION BY item_id ORDER BY t, sequence), $known)))
            AS n
        FROM samples
    ), pieces AS (
        SELECT *, unnest(range(t // $width * $width, greatest(n - 1, t) // $width * $width + 1, $width)) AS b FROM held
    ), shares AS (
        SELECT *, t >= b AS own, least(n, b + $width) - greatest(t, b) AS d FROM pieces
        WHERE NOT $sparse OR t >= b OR n >= b + $width OR n = $known OR true
    )
    SELECT item_id, b AS bucket_ns,
           count(*) FILTER (own) AS rows,
           count(*) FILTER (own AND c = 0) AS good_rows,
           max(t) AS end_ns,
           arg_max(CASE WHEN c < 2 THEN v END, (t, sequence)) AS end_value,
           coalesce(sum(v * d * 1e-9) FILTER (c = 0), 0) AS integral,
           coalesce(sum(d) FILTER (c = 0), 0)::BIGINT AS good_ns,
           coalesce(sum(d) FILTER (c = 1), 0)::BIGINT AS uncertain_ns,
           coalesce(sum(d) FILTER (c = 2), 0)::BIGINT AS bad_ns,
           min(v) FILTER (c = 0) AS minimum,
           max(v) FILTER (c = 0) AS maximum,
           coalesce(sum(v) FILTER (c = 0 AND own), 0) AS total,
           max(sequence) FILTER (own) AS sequence_max
    FROM shares GROUP BY item_id, b
    HAVING rows > 0 OR (NOT $sparse AND good_ns + uncertain_ns + bad_ns > 0)
) TO '{target}' (FORMAT parquet, COMPRESSION zstd)
"""
