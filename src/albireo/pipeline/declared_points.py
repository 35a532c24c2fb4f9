"""Points by what their items' declarations say: how long each may hold, and of which type and unit it is.

Spec: ADR-0168, ADR-0264.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from albireo.machine.history.trace import HOLD_NS
from albireo.model import quality as q
from albireo.pipeline.rollup import class_of, is_carried


def with_limits(points: DataFrame, limits: DataFrame | None) -> DataFrame:
    """Points with `limit_ns`: how long each may hold.

    Args:
        limits: `limited_id`, `begins_ns` (null: from ever), `ends_ns` (null: to ever) and `stale_limit_ns`: of items
            that declare a stale time, how long a usable value holds that was sampled then. None: no item does.
    """
    usable = (class_of(F.col("quality")) < q.BAD_CLASS) & ~F.col("is_hole")
    names: list[str] = []
    held_for: Column = F.lit(HOLD_NS)
    if limits is not None:
        at, names = F.col("last_ns"), limits.columns
        is_step = (
            (F.col("item_id") == F.col("limited_id"))
            & (F.col("begins_ns").isNull() | (F.col("begins_ns") <= at))
            & (F.col("ends_ns").isNull() | (F.col("ends_ns") > at))
        )
        points = points.join(F.broadcast(limits), is_step, "left")
        held_for = F.coalesce("stale_limit_ns", held_for)
    limit = F.when(is_carried() & (F.col("quality") == int(q.BAD_NO_DATA)), 0).when(usable, held_for).otherwise(HOLD_NS)
    return points.withColumn("limit_ns", limit.cast("bigint")).drop(*names)


def with_kinds(points: DataFrame, kinds: DataFrame | None) -> DataFrame:
    """Points with `declared`: of which kind each is, by its place in the log (codec.item_kinds); 0: the first.

    Args:
        kinds: `kind_of` (item), `after` and `upto` (sequences; null: from ever, to ever) and `kind`, of items that had
            several. None: no item had.
    """
    if kinds is None:
        return points.withColumn("declared", F.coalesce("declared", F.lit(0).cast("bigint")))
    is_kind = (
        (F.col("item_id") == F.col("kind_of"))
        & (F.col("after").isNull() | (F.col("sequence") > F.col("after")))
        & (F.col("upto").isNull() | (F.col("sequence") <= F.col("upto")))
    )
    joined = points.join(F.broadcast(kinds), is_kind, "left")
    return joined.withColumn("declared", F.coalesce("declared", "kind", F.lit(0))).drop(*kinds.columns)
