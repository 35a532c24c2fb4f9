"""Completeness of the record: gaps as written by whoever lost something, and availability per item and day."""

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from albireo.pipeline.rollup import touched_items
from albireo.pipeline.tables import AVAILABILITY, GAPS, ITEMS, ITEMS_SCD, bounded, conforming, timestamp


def item_table(items: pa.Table) -> pa.Table:
    """The items as last declared. Few rows, so they need no Spark.

    Args:
        items: codec.history.ITEMS.
    """
    by_time = sorted(items.to_pylist(), key=lambda row: (row["valid_from_ns"] is not None, row["valid_from_ns"] or 0))
    last = {row["item_id"]: row for row in by_time}
    schema = to_arrow_schema(ITEMS.schema, timezone="UTC")
    return pa.Table.from_pylist([last[item_id] for item_id in sorted(last)], schema=schema)


def item_versions(items: pa.Table) -> pa.Table:
    """Every version of every item.

    Args:
        items: codec.history.ITEMS.
    """
    rows = items.to_pylist()
    for row in rows:
        row["start"] = None if row["valid_from_ns"] is None else row["valid_from_ns"] // 1000
    return pa.Table.from_pylist(rows, schema=to_arrow_schema(ITEMS_SCD.schema, timezone="UTC"))


def gap_table(gaps: DataFrame, items: DataFrame) -> DataFrame:
    """One row per gap record, however often it was stored.

    Args:
        gaps: codec.history.GAPS and `node`.
        items: codec.history.ITEMS.
    """
    times = {name: bounded(F.col(name)) for name in ("from_ns", "to_ns")}
    once = gaps.dropDuplicates(["node", "epoch", "sequence", "source", "from_ns"]).withColumns(times)
    key = ["node", "epoch", "sequence", "source", "from_ns"]
    touched = touched_items(once, items).groupBy(*key).agg(F.count_distinct("item_id").alias("items"))
    return conforming(
        once.join(touched, key, "left").select(
            "node",
            "source",
            "reason",
            "from_ns",
            "to_ns",
            timestamp(F.col("from_ns")).alias("start"),
            ((F.col("to_ns") - F.col("from_ns")) / 1e9).alias("duration_s"),
            F.coalesce("items", F.lit(0)).cast("bigint").alias("items"),
            "lost",
            "epoch",
            "sequence",
        ),
        GAPS,
    )


def availability(hours: DataFrame) -> DataFrame:
    """Time for which each item's value was good, per day.

    Args:
        hours: rows of rollup_1h.
    """
    sums = ("rows", "good_ns", "uncertain_ns", "bad_ns", "lost_ns")
    known = F.col("good_ns") + F.col("uncertain_ns") + F.col("bad_ns")
    return conforming(
        hours.groupBy("item_id", "day")
        .agg(*(F.sum(name).alias(name) for name in sums), F.min("start").alias("start"))
        .withColumn("known_ns", known)
        .withColumn("availability", F.when(F.col("known_ns") > 0, F.col("good_ns") / F.col("known_ns"))),
        AVAILABILITY,
    )
