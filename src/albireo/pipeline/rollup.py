"""Rollups: what an item did in each second, minute and hour. Time-weighted, stepped, aware of quality.

The idea. Whatever is known of an item is a row of **points**: a raw sample, a stored partial (all samples of one minute
in one file), or a hole (a gap begins). A point knows what happened inside it (nothing, for a sample), and what holds
after its last row. That **holds** until the next point of the item, the hole, or the end of what is known. A rollup
cuts these holds at bucket edges, and adds what happened inside the points of the bucket: so the bridge between two
partials, the value carried into a bucket and the one carried out of it are all the same thing.

    points ──held──▶ points with the end of their hold ──rollup──▶ one row per item and bucket ──coarser──▶ hours, days

Two ways give the same rows and are tested against each other and against DuckDB: from samples (exact, always), and from
stored partials (60 times less to read), which is wrong for an item whose partials interleave because rows came late, or
were made across a gap: `useless` finds these, and they are taken from samples.

Decisions, the same as in machine.history.aggregate and machine.history.trace: a hole makes what follows bad
(BadDataLost) until the next row; one before the first row says nothing; a float that is not finite is bad; rows of one
instant count in the order of the log; a hold ends at its limit (the item's stale time), and at `known_to_ns`.

Integers that a double can't hold have columns of their own (`..._i64`), which are null wherever the double is exact.

Spec: OPC UA Part 13 (TimeAverage2, Minimum2, Maximum2, Stepped; StatusCode); ADR-0074, ADR-0168.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from albireo.codec.history import NO_ITEM
from albireo.machine.history.declared import WHOLE_NODE
from albireo.model import quality as q
from albireo.pipeline.tables import LakeTable, bounded, conforming, day, floored, timestamp

EXACT_BELOW: Final = 2**53
"""Size of an integer from which not every double is exact."""
_ORDER: Final = ("first_ns", "is_hole", "epoch", "sequence")
_INSIDE: Final = (
    "rows",
    "good_rows",
    "first_value",
    "integral",
    "good_ns",
    "uncertain_ns",
    "bad_ns",
    "minimum",
    "maximum",
    "total",
)
_AT_END: Final = ("end_ns", "end_value", "end_quality", "end_i64", "is_end_hole")
_OF_ONE_KIND: Final = ("integral", "total", "average", "minimum", "maximum", "minimum_i64", "maximum_i64")
_EXACT: Final = ("value_i64", "first_i64", "minimum_i64", "maximum_i64")
"""Integers of the size of EXACT_BELOW or above; null elsewhere."""


def points_of_samples(samples: DataFrame) -> DataFrame:
    """Each sample as a point.

    Args:
        samples: codec.history.SAMPLES, any order, repeated rows allowed.
    """
    number = F.coalesce(F.col("value_f64"), F.col("value_i64").cast("double"))
    is_large = (F.col("value_i64") >= EXACT_BELOW) | (F.col("value_i64") <= -EXACT_BELOW)
    is_broken = F.coalesce(F.isnan("value_f64") | (F.abs("value_f64") == float("inf")), F.lit(False))
    is_bad = is_broken | (class_of(F.col("quality")) == q.BAD_CLASS)
    ns = bounded(F.col("source_ns"))
    return samples.select(
        "item_id",
        ns.alias("first_ns"),
        ns.alias("last_ns"),
        F.lit(True).alias("is_row"),
        F.lit(False).alias("is_hole"),
        "epoch",
        "sequence",
        F.when(~is_bad, number).alias("value"),
        F.when(is_broken & (class_of(F.col("quality")) < q.BAD_CLASS), F.lit(int(q.BAD)).cast("bigint"))
        .otherwise(F.col("quality"))
        .alias("quality"),
        F.when(~is_bad & is_large, F.col("value_i64")).alias("value_i64"),
        _no_integer("declared"),
    )


def points_of_partials(partials: DataFrame) -> DataFrame:
    """Each stored partial as a point, with what happened inside it.

    Args:
        partials: codec.history.PARTIALS.
    """
    inside = [F.col(name) for name in _INSIDE if name != "first_value"]
    return partials.select(
        "item_id",
        "first_ns",
        "last_ns",
        F.lit(True).alias("is_row"),
        F.lit(False).alias("is_hole"),
        F.lit(0).cast("bigint").alias("epoch"),
        F.col("sequence_max").alias("sequence"),
        _meant("last_value", "last_quality").alias("value"),
        F.col("last_quality").alias("quality"),
        _meant("first_value", "first_quality").alias("first_value"),
        *inside,
        *(_no_integer(name) for name in (*_EXACT, "declared")),
    )


def points_of_gaps(gaps: DataFrame, items: DataFrame) -> DataFrame:
    """A hole in every item that a gap touches, where the gap begins.

    Args:
        gaps: codec.history.GAPS and `node`.
        items: codec.history.ITEMS.
    """
    touched = touched_items(gaps, items)
    ns = bounded(F.col("from_ns"))
    return touched.select(
        "item_id",
        ns.alias("first_ns"),
        ns.alias("last_ns"),
        F.lit(False).alias("is_row"),
        F.lit(True).alias("is_hole"),
        "epoch",
        "sequence",
        F.lit(None).cast("double").alias("value"),
        F.lit(int(q.BAD_DATA_LOST)).cast("bigint").alias("quality"),
        *(_no_integer(name) for name in ("value_i64", "declared")),
    )


def points_of_rollup(rollup: DataFrame, begun: DataFrame, before_ns: int) -> DataFrame:
    """Value that held of each item at `before_ns`, as a point that is no row of its own: carried in.

    Args:
        rollup: dense rows that reach up to `before_ns`.
        begun: ids (`item_id`) of all items that had a row before; of which nothing held, a point says that they had.
    """
    newest = Window.partitionBy("item_id").orderBy(F.col("bucket_ns").desc())
    last = rollup.where(F.col("bucket_ns") < before_ns).withColumn("n", F.row_number().over(newest)).where("n = 1")
    ended = begun.join(last, "item_id", "left_anti").select(
        "item_id",
        F.lit(before_ns - 1).alias("end_ns"),
        F.lit(False).alias("is_end_hole"),
        F.lit(None).cast("double").alias("end_value"),
        F.lit(int(q.BAD_NO_DATA)).cast("bigint").alias("end_quality"),
        *(_no_integer(name) for name in ("end_i64", "declared")),
    )
    return (
        last.select(*ended.columns)
        .unionByName(ended)
        .select(
            "item_id",
            F.col("end_ns").alias("first_ns"),
            F.col("end_ns").alias("last_ns"),
            F.lit(False).alias("is_row"),
            F.col("is_end_hole").alias("is_hole"),
            F.lit(0).cast("bigint").alias("epoch"),
            F.lit(0).cast("bigint").alias("sequence"),
            F.col("end_value").alias("value"),
            F.col("end_quality").alias("quality"),
            F.col("end_i64").alias("value_i64"),
            "declared",
        )
    )


def with_inside(points: DataFrame) -> DataFrame:
    """Points that may stand beside partials."""
    return points if "rows" in points.columns else points.withColumns(_inside_of_sample())


def touched_items(gaps: DataFrame, items: DataFrame) -> DataFrame:
    """One row per gap and item, and none of a gap whose source had no item (NO_ITEM). A gap that names nothing is about
    every item of the node, or about those that its source had when it was recorded.

    Args:
        items: codec.history.ITEMS.
    """
    named = gaps.select("*", F.explode("item_ids").alias("item_id")).where(F.col("item_id") != NO_ITEM)
    versions = items.select("item_id", F.col("node").alias("owner_node"), "adapter", "valid_from_ns", "valid_to_ns")
    is_of_time = (F.coalesce("valid_from_ns", F.col("node_ns")) <= F.col("node_ns")) & (
        F.col("valid_to_ns").isNull() | (F.col("valid_to_ns") > F.col("node_ns"))
    )
    is_whole_node = F.col("source").isin(*WHOLE_NODE)
    is_of_source = is_whole_node | ((F.col("adapter") == F.col("source")) & is_of_time)
    whole = (
        gaps.where(F.size("item_ids") == 0)
        .join(F.broadcast(versions), (F.col("node") == F.col("owner_node")) & is_of_source)
        .drop("owner_node", "adapter", "valid_from_ns", "valid_to_ns")
        .dropDuplicates(["node", "epoch", "sequence", "source", "from_ns", "item_id"])
    )
    return named.unionByName(whole)


def useless(points: DataFrame, known_to_ns: int, integers: DataFrame | None) -> DataFrame:
    """Items (`item_id`) whose partials can't be used: the next point begins before one has ended.

    Rows came late, or a gap lies within a minute, or the end of what is known; or integers are larger than the doubles
    of a partial can tell.

    Args:
        points: of partials and of gaps.
        integers: ids (`item_id`) of the items whose values are integers; None: there are none.
    """
    in_order = Window.partitionBy("item_id").orderBy(*_ORDER)
    following = {name: F.lead(name).over(in_order) for name in ("first_ns", "is_hole", "sequence")}
    is_wrong = (
        (F.coalesce(following["first_ns"], F.col("last_ns")) < F.col("last_ns"))
        | (
            (following["first_ns"] == F.col("last_ns"))
            & ~following["is_hole"]
            & (following["sequence"] <= F.col("sequence"))
        )
        | (F.col("last_ns") > known_to_ns)
    )
    marked = points.where("is_row OR is_hole").withColumn(
        "is_wrong", F.coalesce(is_wrong, F.lit(False)) & F.col("is_row")
    )
    wrong = marked.where("is_wrong").select("item_id")
    if integers is None:
        return wrong.distinct()
    ends = [F.abs(F.col(name)) for name in ("value", "first_value", "minimum", "maximum")]
    is_large = F.coalesce(F.greatest(*ends), F.lit(0.0)) >= float(EXACT_BELOW)
    is_large_one = points.where(is_large & F.expr("is_row OR is_hole")).select("item_id")
    large = is_large_one.join(F.broadcast(integers), "item_id", "left_semi")
    return wrong.unionByName(large).distinct()


def held(points: DataFrame, known_to_ns: int) -> DataFrame:
    """Each point once, with `hold_end_ns`, and `place`, its number within the item. One shuffle.

    Args:
        points: with `limit_ns`, from `declared_points.with_limits`.
    """
    in_order = Window.partitionBy("item_id").orderBy(*_ORDER)
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    following = {name: F.lead(name).over(in_order) for name in _ORDER}
    limit = F.col("limit_ns")
    marked = points.withColumns(
        {
            "place": F.row_number().over(in_order),
            "next_ns": following["first_ns"],
            "has_begun": F.max(F.col("is_row") | is_carried()).over(so_far),
            # The same row in two files, as after a merge that was read half done: the last of its copies counts.
            "is_copy": F.col("is_row")
            & (following["first_ns"] == F.col("first_ns"))
            & ~following["is_hole"]
            & (following["epoch"] == F.col("epoch"))
            & (following["sequence"] == F.col("sequence")),
        }
    )
    end = F.least(F.coalesce("next_ns", F.lit(known_to_ns)), F.lit(known_to_ns), F.col("last_ns") + limit)
    return (
        marked.where(~F.coalesce("is_copy", F.lit(False)) & F.col("has_begun"))
        .withColumn("hold_end_ns", F.greatest(end, "last_ns"))
        .drop("next_ns", "is_copy", "has_begun")
    )


def rollup(points: DataFrame, width_ns: int, table: LakeTable, *, from_ns: int, is_dense: bool) -> DataFrame:
    """One row per item and bucket from `from_ns` on.

    Args:
        points: from `held`.
        from_ns: a multiple of `width_ns`; points before it only matter for what they hold.
        is_dense: also the buckets in which a value is only held.
    """
    start = F.greatest(F.col("last_ns"), F.lit(from_ns))
    last = F.greatest(F.col("hold_end_ns") - 1, start)
    first, last, second = floored(start, width_ns), floored(last, width_ns), floored(start, width_ns) + width_ns
    # Buckets that a hold fills alone are all alike: the first of them is summed, and stands for those up to the last.
    buckets = [first, F.least(second, last), last] if is_dense else [first, last]
    is_wanted = (F.col("is_row") & (F.col("first_ns") >= from_ns)) | (F.col("hold_end_ns") > from_ns)
    cut = (
        with_inside(points.where(is_wanted))
        .withColumn("start_ns", start)
        .withColumn("bucket_ns", F.explode(F.array_distinct(F.array(*buckets))))
        .withColumns(_share(width_ns))
    )
    alike_to = F.greatest("bucket_ns", F.when(F.col("bucket_ns") == second, last - width_ns))
    summed = cut.groupBy("item_id", "bucket_ns").agg(*_sums(), *_kinds(), F.max(alike_to).alias("alike_to_ns"))
    kept = summed.where("rows > 0" if not is_dense else "rows > 0 OR good_ns + uncertain_ns + bad_ns > 0")
    if is_dense:
        kept = kept.withColumn("bucket_ns", F.explode(F.sequence("bucket_ns", "alike_to_ns", F.lit(width_ns))))
    return conforming(_finished(kept.drop("alike_to_ns"), width_ns), table)


def coarser(rollup: DataFrame, width_ns: int, table: LakeTable) -> DataFrame:
    """Wider buckets from a dense rollup whose width divides `width_ns`: nothing but sums, extremes, first and last."""
    bucket = floored(F.col("bucket_ns"), width_ns)
    has_rows = F.when(F.col("rows") > 0, F.col("bucket_ns"))
    summed = (
        rollup.withColumn("finer_ns", F.col("bucket_ns"))
        .groupBy("item_id", bucket.alias("bucket_ns"))
        .agg(
            *(F.sum(name).alias(name) for name in ("rows", "good_rows", "integral", "total")),
            *(F.sum(name).alias(name) for name in ("good_ns", "uncertain_ns", "bad_ns", "lost_ns")),
            F.min("first_ns").alias("first_ns"),
            *(F.min_by(name, has_rows).alias(name) for name in ("first_value", "first_i64")),
            *(F.max_by(name, "finer_ns").alias(name) for name in _AT_END),
            *(F.min(name).alias(name) for name in ("minimum", "minimum_i64")),
            *(F.max(name).alias(name) for name in ("maximum", "maximum_i64")),
            F.max("sequence_max").alias("sequence_max"),
            F.max_by("declared", F.when(F.col("declared").isNotNull(), F.col("finer_ns"))).alias("declared"),
            F.min(
                F.when(F.col("quality") == int(q.BAD_AGGREGATE_INVALID_INPUTS), -1).otherwise(F.col("declared"))
            ).alias("kind_min"),
            F.max("declared").alias("kind_max"),
        )
    )
    return conforming(_finished(summed, width_ns), table)


def is_carried() -> Column:
    """The point was carried in from the day before; no record has sequence 0."""
    return (F.col("epoch") == 0) & (F.col("sequence") == 0)


def _no_integer(name: str) -> Column:
    return F.lit(None).cast("bigint").alias(name)


def class_of(quality: Column) -> Column:
    return F.least(F.shiftright(quality, q.SEVERITY_SHIFT), F.lit(q.BAD_CLASS))


def _meant(value: str, quality: str) -> Column:
    """A value under a bad quality is never meant."""
    return F.when((class_of(F.col(quality)) < q.BAD_CLASS) & ~F.isnan(value), F.col(value))


def _inside_of_sample() -> dict[str, Column]:
    """Sums inside a point that is one sample."""
    is_good = F.col("is_row") & (class_of(F.col("quality")) == q.GOOD_CLASS)
    good_value = F.when(is_good, F.col("value"))
    nothing = F.lit(0).cast("bigint")
    return {
        "rows": F.col("is_row").cast("bigint"),
        "good_rows": is_good.cast("bigint"),
        "first_value": F.col("value"),
        "integral": F.lit(0.0),
        "good_ns": nothing,
        "uncertain_ns": nothing,
        "bad_ns": nothing,
        "minimum": good_value,
        "maximum": good_value,
        "total": F.coalesce(good_value, F.lit(0.0)),
        "first_i64": F.col("value_i64"),
        "minimum_i64": F.when(is_good, F.col("value_i64")),
        "maximum_i64": F.when(is_good, F.col("value_i64")),
    }


def _share(width_ns: int) -> dict[str, Column]:
    """Share of a point and its hold that falls into the bucket of this row."""
    end = F.least(F.col("hold_end_ns"), F.col("bucket_ns") + width_ns)
    return {
        "own": F.col("is_row")
        & (F.col("first_ns") >= F.col("bucket_ns"))
        & (F.col("first_ns") < F.col("bucket_ns") + width_ns),
        "held_ns": F.greatest(end - F.greatest(F.col("start_ns"), F.col("bucket_ns")), F.lit(0)),
        "class": class_of(F.col("quality")),
    }


def _sums() -> list[Column]:
    """Sums of the shares in one bucket. Only primitive buffers, so that Spark aggregates by hash."""
    own, held_ns, place = F.col("own"), F.col("held_ns"), F.col("place")
    is_good = F.col("class") == q.GOOD_CLASS

    def inside(name: str, otherwise: float | int | None = 0) -> Column:
        return F.when(own, F.col(name)).otherwise(F.lit(otherwise))

    def held_as(which: int) -> Column:
        return F.when(F.col("class") == which, held_ns).otherwise(F.lit(0))

    carries = is_good & (held_ns > 0)
    carried, carried_i64 = F.when(carries, F.col("value")), F.when(carries, F.col("value_i64"))
    weighted = F.when(is_good, F.coalesce("value", F.lit(0.0)) * held_ns * 1e-9).otherwise(F.lit(0.0))
    own_place = F.when(own, place)
    return [
        F.sum(inside("rows")).alias("rows"),
        F.sum(inside("good_rows")).alias("good_rows"),
        F.min(inside("first_ns", None)).alias("first_ns"),
        F.min_by("first_value", own_place).alias("first_value"),
        F.max_by("last_ns", place).alias("end_ns"),
        F.max_by("value", place).alias("end_value"),
        F.max_by("quality", place).alias("end_quality"),
        F.sum(inside("integral", 0.0) + weighted).alias("integral"),
        F.sum(inside("good_ns") + held_as(q.GOOD_CLASS)).alias("good_ns"),
        F.sum(inside("uncertain_ns") + held_as(q.UNCERTAIN_CLASS)).alias("uncertain_ns"),
        F.sum(inside("bad_ns") + held_as(q.BAD_CLASS)).alias("bad_ns"),
        F.sum(F.when(F.col("is_hole"), held_ns).otherwise(F.lit(0))).alias("lost_ns"),
        F.min(F.least(inside("minimum", None), carried)).alias("minimum"),
        F.max(F.greatest(inside("maximum", None), carried)).alias("maximum"),
        F.min_by("first_i64", own_place).alias("first_i64"),
        F.max_by("value_i64", place).alias("end_i64"),
        F.max_by("is_hole", place).alias("is_end_hole"),
        F.min(F.least(inside("minimum_i64", None), carried_i64)).alias("minimum_i64"),
        F.max(F.greatest(inside("maximum_i64", None), carried_i64)).alias("maximum_i64"),
        F.sum(inside("total", 0.0)).alias("total"),
        F.max(inside("sequence", None)).alias("sequence_max"),
    ]


def _kinds() -> list[Column]:
    """Kinds of the values that count in one bucket: that of the last one, the first and the last in the log."""
    is_counted = (F.col("class") == q.GOOD_CLASS) & (F.col("own") | (F.col("held_ns") > 0))
    kind = F.when(is_counted, F.col("declared"))
    return [
        F.max_by("declared", F.when(is_counted, F.col("place"))).alias("declared"),
        F.min(kind).alias("kind_min"),
        F.max(kind).alias("kind_max"),
    ]


def _finished(summed: DataFrame, width_ns: int) -> DataFrame:
    """Adds what follows from the sums. Of values of several kinds there is no number (ADR-0264)."""
    is_mixed = F.coalesce(F.col("kind_min") < F.col("kind_max"), F.lit(False))
    good, known = F.col("good_ns"), F.col("good_ns") + F.col("uncertain_ns") + F.col("bad_ns")
    bits = F.when(known < width_ns, F.lit(q.CALCULATED | q.PARTIAL)).otherwise(F.lit(q.CALCULATED)).cast("bigint")

    def computed(status: int) -> Column:
        return F.lit(int(status)).cast("bigint").bitwiseOR(bits)

    status = (
        F.when(known == 0, F.lit(int(q.BAD_NO_DATA)).cast("bigint"))
        .when(is_mixed, F.lit(int(q.BAD_AGGREGATE_INVALID_INPUTS)).cast("bigint"))
        .when(good == known, computed(q.GOOD))
        .when(good > 0, computed(q.UNCERTAIN_DATA_SUB_NORMAL))
        .otherwise(computed(q.BAD))
    )
    # Rounding must not carry the average of a constant beside the constant.
    within = F.least(F.greatest(F.col("integral") / (good * 1e-9), "minimum"), "maximum")
    exact = {f"{name}_i64": F.when(F.abs(name) >= EXACT_BELOW, F.col(f"{name}_i64")) for name in ("minimum", "maximum")}
    figures = summed.withColumns(
        {
            **exact,
            "start": timestamp(F.col("bucket_ns")),
            "average": F.when((good > 0) & F.col("minimum").isNotNull(), within),
            "quality": status,
            "day": day(F.col("bucket_ns")),
        }
    )
    none = {name: F.when(~is_mixed, F.col(name)) for name in _OF_ONE_KIND}
    return figures.withColumns(none).drop("kind_min", "kind_max")
