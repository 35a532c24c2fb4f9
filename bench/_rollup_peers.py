"""The same rollups by DuckDB and by Polars, from raw rows: one window query each, written as Parquet.

Their columns are those that the comparison looks at. Both get the same list of files, and rows of bad quality too.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import duckdb
import polars as pl

COUNTS: Final = ("rows", "good_rows", "end_ns", "good_ns", "uncertain_ns", "bad_ns", "sequence_max")
"""Columns that must be equal."""
NUMBERS: Final = ("end_value", "integral", "minimum", "maximum", "total")
"""Columns that may differ by a billionth."""
QUERY: Final = """
COPY (
    WITH samples AS (
        SELECT item_id, source_ns AS t, sequence, value_f64 AS v, least(quality >> 30, 2) AS c
        FROM read_parquet({files})
    ), held AS (
        SELECT *, greatest(t, least({known}, lead(t, 1, {known}) OVER (PARTITION BY item_id ORDER BY t, sequence))) AS n
        FROM samples
    ), pieces AS (
        SELECT *, unnest({buckets}) AS b FROM held
    ), shares AS (
        SELECT *, t >= b AS own, greatest(least(n, b + {width}) - greatest(t, b), 0) AS d FROM pieces
    )
    SELECT item_id, b AS bucket_ns,
           count(*) FILTER (own) AS rows,
           count(*) FILTER (own AND c = 0) AS good_rows,
           max(t) AS end_ns,
           arg_max_null(CASE WHEN c < 2 THEN v END, sequence) AS end_value,
           coalesce(sum(v * d * 1e-9) FILTER (c = 0), 0) AS integral,
           coalesce(sum(d) FILTER (c = 0), 0)::BIGINT AS good_ns,
           coalesce(sum(d) FILTER (c = 1), 0)::BIGINT AS uncertain_ns,
           coalesce(sum(d) FILTER (c = 2), 0)::BIGINT AS bad_ns,
           min(v) FILTER (c = 0 AND (own OR d > 0)) AS minimum,
           max(v) FILTER (c = 0 AND (own OR d > 0)) AS maximum,
           coalesce(sum(v) FILTER (c = 0 AND own), 0) AS total,
           max(sequence) FILTER (own) AS sequence_max
    FROM shares GROUP BY item_id, b
    HAVING rows > 0 OR ({dense} AND good_ns + uncertain_ns + bad_ns > 0)
) TO '{target}' (FORMAT parquet, COMPRESSION zstd)
"""
DENSE: Final = "range(t // {width} * {width}, greatest(n - 1, t) // {width} * {width} + 1, {width})"
SPARSE: Final = "list_distinct([t // {width} * {width}, greatest(n - 1, t) // {width} * {width}])"
DIFFERENT: Final = """
SELECT count(*) FROM read_parquet({ours}) a FULL JOIN read_parquet({theirs}) b
USING (item_id, bucket_ns) WHERE {unlike}
"""


def by_duckdb(files: Sequence[Path], target: Path, width_ns: int, known_ns: int, *, is_dense: bool) -> None:
    buckets = (DENSE if is_dense else SPARSE).format(width=width_ns)
    query = QUERY.format(
        files=listed(files), known=known_ns, width=width_ns, buckets=buckets, dense=is_dense, target=target
    )
    with duckdb.connect() as database:
        database.execute(query)


def by_polars(files: Sequence[Path], target: Path, width_ns: int, known_ns: int, *, is_dense: bool) -> None:
    samples = pl.scan_parquet([str(path) for path in files]).select(
        "item_id",
        pl.col("source_ns").alias("t"),
        "sequence",
        pl.col("value_f64").alias("v"),
        pl.min_horizontal(pl.col("quality") // 2**30, pl.lit(2)).alias("c"),
    )
    following = pl.min_horizontal(pl.col("t").shift(-1).over("item_id").fill_null(known_ns), pl.lit(known_ns))
    t, n, b = pl.col("t"), pl.col("n"), pl.col("b")
    held = samples.sort("item_id", "t", "sequence").with_columns(pl.max_horizontal(following, t).alias("n"))
    first, last = t // width_ns * width_ns, pl.max_horizontal(n - 1, t) // width_ns * width_ns
    if is_dense:
        buckets = pl.int_ranges(first, last + 1, width_ns)
    else:
        buckets = pl.concat_list(first, last).list.unique()
    own, is_good = t >= b, pl.col("c") == 0
    share = pl.max_horizontal(pl.min_horizontal(n, b + width_ns) - pl.max_horizontal(t, b), pl.lit(0))
    shares = (
        held.with_columns(buckets.alias("b"))
        .explode("b")
        .with_columns(own.alias("own"), share.cast(pl.Int64).alias("d"))
    )
    good, v, d = is_good & (pl.col("own") | (pl.col("d") > 0)), pl.col("v"), pl.col("d")
    summed = shares.group_by("item_id", pl.col("b").alias("bucket_ns")).agg(
        pl.col("own").sum().cast(pl.Int64).alias("rows"),
        (pl.col("own") & is_good).sum().cast(pl.Int64).alias("good_rows"),
        t.max().alias("end_ns"),
        pl.when(pl.col("c") < 2).then(v).last().alias("end_value"),
        (v * d * 1e-9).filter(is_good).sum().alias("integral"),
        *(
            d.filter(pl.col("c") == of).sum().alias(name)
            for of, name in enumerate(("good_ns", "uncertain_ns", "bad_ns"))
        ),
        v.filter(good).min().alias("minimum"),
        v.filter(good).max().alias("maximum"),
        v.filter(is_good & pl.col("own")).sum().alias("total"),
        pl.col("sequence").filter(pl.col("own")).max().alias("sequence_max"),
    )
    known = pl.col("good_ns") + pl.col("uncertain_ns") + pl.col("bad_ns")
    kept = (pl.col("rows") > 0) | (known > 0) if is_dense else pl.col("rows") > 0
    # In memory: the streaming engine does not keep the order of rows within a group.
    summed.filter(kept).collect(engine="in-memory").write_parquet(target, compression="zstd")


def differences(ours: Sequence[Path], theirs: Path) -> int:
    """Rows that are in one of both only, or differ."""
    unlike = [f"a.{name} IS DISTINCT FROM b.{name}" for name in COUNTS]
    unlike += [
        f"(a.{name} IS NULL) <> (b.{name} IS NULL) OR abs(a.{name} - b.{name}) > 1e-9 * greatest(1, abs(b.{name}))"
        for name in NUMBERS
    ]
    query = DIFFERENT.format(ours=listed(ours), theirs=listed([theirs]), unlike=" OR ".join(unlike))
    with duckdb.connect() as database:
        answer = database.execute(query).fetchone()
    assert answer is not None
    return int(answer[0])


def listed(files: Sequence[Path]) -> str:
    """Paths as SQL writes a list of them."""
    return "[" + ", ".join(f"'{path}'" for path in files) + "]"
