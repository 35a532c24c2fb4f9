"""Key figures of the alarm system from the event journal.

    events ──transitions──▶ one row per change of a case, with what changed
                            ├── cases       one row per case: raised, acknowledged, cleared, how long active
                            │   ├── actors      which items alarm most
                            │   └── standing    what is still active at the end
                            ├── rate        annunciations per 10 minutes
                            │   └── floods      when there were too many to read
                            └── chatter     what comes and goes

An **annunciation** is an activation that an operator could see: not shelved, not suppressed, not out of service.

Spec: the limits are those commonly quoted from ISA-18.2 / IEC 62682 and EEMUA 191: flood from 10 per 10 minutes on,
over when a window has fewer than 5; chattering from 3 activations within 60 s on; stale after 24 h. ASSUMED: the
standards' text was not at hand; a reading of it would settle it. The whole history counts as one operator's position.
"""

import operator
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from albireo.pipeline.tables import (
    ALARM_ACTORS,
    ALARM_CASES,
    ALARM_CHATTER,
    ALARM_FLOODS,
    ALARM_RATE,
    ALARM_STANDING,
    DAY_NS,
    MINUTE_NS,
    bounded,
    conforming,
    floored,
    timestamp,
)

WINDOW_NS: Final = 10 * MINUTE_NS
FLOOD_BEGINS: Final = 10
FLOOD_ENDS_BELOW: Final = 5
CHATTER_ACTIVATIONS: Final = 3
CHATTER_NS: Final = MINUTE_NS
STALE_NS: Final = DAY_NS
WINDOWS_MAX: Final = 600_000
"""Eleven years of 10 minutes, the latest: no wrong timestamp makes more rows than that."""
_PRIORITIES: Final = {"urgent": (801, 1000), "high": (601, 800), "medium": (401, 600), "low": (1, 400)}
"""Bands of OPC UA severity."""


def transitions(events: DataFrame) -> DataFrame:
    """Changes of cases, one row each, with what changed.

    Args:
        events: codec.history.EVENTS; other kinds than `case` are left out, repeated rows counted once.
    Returns:
        The case's columns and: `activated` (times it became active with this record), `is_cleared`, `is_acknowledged`
        (it became so now), `annunciated`, `active_ns` (how long it had been active since the last record), `asked_ns`
        (since when it asks to be acknowledged, or did last; null: it never did).
    """
    in_order = Window.partitionBy("case_id").orderBy("sequence")
    before = {
        "was_active": F.lag("is_active", 1, False).over(in_order),
        # Raised while suppressed, a case asks nobody and so counts as acknowledged: nobody did that.
        "was_acked": F.coalesce(F.lag("is_acked").over(in_order), F.col("is_acked")),
        "is_first": F.row_number().over(in_order) == 1,
        "were_activations": F.lag("activations", 1, 0).over(in_order),
        "was_ns": F.lag("at_ns").over(in_order),
    }
    times = {name: bounded(F.col(name)) for name in ("at_ns", "raised_ns")}
    case = events.where((F.col("kind") == "case") & F.col("case_id").isNotNull()).dropDuplicates(["epoch", "sequence"])
    became_active = (F.col("is_active") & ~F.col("was_active")).cast("bigint")
    # A case that chatters may be recorded once for many activations; its own count tells.
    activated = F.greatest(F.col("activations") - F.col("were_activations"), became_active)
    begins_to_ask = ~F.col("is_acked") & (F.col("was_acked") | F.col("is_first"))
    asked_ns = F.when(begins_to_ask, F.when(F.col("is_first"), F.col("raised_ns")).otherwise(F.col("at_ns")))
    return (
        case.withColumns(times)
        .withColumns(before)
        .withColumns(
            {
                "activated": F.greatest(activated, F.lit(0)),
                "is_cleared": ~F.col("is_active") & F.col("was_active"),
                "is_acknowledged": F.col("is_acked") & ~F.col("was_acked"),
                "active_ns": F.when(F.col("was_active"), F.greatest(F.col("at_ns") - F.col("was_ns"), F.lit(0))),
                "asked_ns": F.last(asked_ns, ignorenulls=True).over(in_order),
                "is_hidden": F.col("is_suppressed") | F.col("is_out_of_service") | (F.col("shelving") != "unshelved"),
            }
        )
        .withColumn("annunciated", F.when(F.col("is_hidden"), 0).otherwise(F.col("activated")).cast("bigint"))
    )


def cases(changes: DataFrame, known_to_ns: int) -> DataFrame:
    """One row per case.

    Args:
        changes: from `transitions`.
        known_to_ns: until when a case that is still active counts as active.
    """
    became_active = F.when(F.col("is_active") & (F.col("activated") > 0), F.col("at_ns"))
    first_ack = F.when(F.col("is_acknowledged"), F.col("sequence"))
    summed = changes.groupBy("case_id").agg(
        F.min("item_id").alias("item_id"),
        F.min("condition").alias("condition"),
        F.max("severity").alias("severity"),
        F.min("raised_ns").alias("raised_ns"),
        F.min(F.when(F.col("is_acknowledged"), F.col("at_ns"))).alias("acked_ns"),
        F.min_by("asked_ns", first_ack).alias("asked_ns"),
        F.max((~F.col("is_acked")).cast("int")).cast("boolean").alias("has_asked"),
        F.max(F.when(F.col("is_cleared"), F.col("at_ns"))).alias("cleared_ns"),
        F.min(F.when(F.col("lifecycle_status") == "closed", F.col("at_ns"))).alias("closed_ns"),
        F.sum("annunciated").alias("annunciations"),
        F.sum("activated").alias("activations"),
        F.coalesce(F.sum("active_ns"), F.lit(0)).alias("closed_active_ns"),
        F.max(became_active).alias("active_since_ns"),
        F.max_by("at_ns", "sequence").alias("changed_ns"),
        *(F.max_by(name, "sequence").alias(name) for name in ("is_active", "is_acked", "is_hidden")),
    )
    still = F.when(F.col("is_active"), F.greatest(F.lit(known_to_ns) - F.col("changed_ns"), F.lit(0))).otherwise(0)
    return conforming(
        summed.withColumns(
            {
                "start": timestamp(F.col("raised_ns")),
                "active_ns": F.col("closed_active_ns") + still,
                "time_to_ack_ns": F.when(
                    F.col("acked_ns").isNotNull(), F.greatest(F.col("acked_ns") - F.col("asked_ns"), F.lit(0))
                ),
            }
        ).drop("closed_active_ns", "changed_ns", "asked_ns"),
        ALARM_CASES,
    )


def rate(changes: DataFrame, from_ns: int, known_to_ns: int) -> DataFrame:
    """Annunciations per 10 minutes, from the window of `from_ns` to the last one before `known_to_ns`."""
    end = -(-known_to_ns // WINDOW_NS)
    count = min(max(0, end - from_ns // WINDOW_NS), WINDOWS_MAX)
    first = (end - count) * WINDOW_NS
    windows = changes.sparkSession.range(count).select((F.col("id") * WINDOW_NS + first).alias("window_ns"))
    seen = (
        changes.where("annunciated > 0")
        .groupBy(floored(F.col("at_ns"), WINDOW_NS).alias("window_ns"))
        .agg(
            F.sum("annunciated").alias("annunciations"),
            *(
                F.sum(F.when(F.col("severity").between(low, high), F.col("annunciated")).otherwise(0)).alias(name)
                for name, (low, high) in _PRIORITIES.items()
            ),
        )
    )
    names = ("annunciations", *_PRIORITIES)
    none = windows.select("window_ns", *(F.lit(0).cast("bigint").alias(name) for name in names))
    # Sums instead of a join: one shuffle less, and no window is left out of either side.
    every = none.unionByName(seen).groupBy("window_ns").agg(*(F.sum(name).alias(name) for name in names))
    return conforming(
        every.withColumn("start", timestamp(F.col("window_ns"))).withColumn(
            "is_flood", F.col("annunciations") >= FLOOD_BEGINS
        ),
        ALARM_RATE,
    )


def floods(rates: DataFrame) -> DataFrame:
    """Stretches of windows from one with 10 annunciations or more to the last before one with fewer than 5.

    Args:
        rates: from `rate`.
    """
    in_order = Window.orderBy("window_ns")
    mark = F.when(F.col("annunciations") >= FLOOD_BEGINS, 1).when(F.col("annunciations") < FLOOD_ENDS_BELOW, 0)
    states = rates.select(
        "window_ns",
        "annunciations",
        F.coalesce(F.last(mark, ignorenulls=True).over(in_order), F.lit(0)).alias("in_flood"),
    )
    begins = F.when((F.col("in_flood") == 1) & (F.lag("in_flood", 1, 0).over(in_order) == 0), 1).otherwise(0)
    numbered = states.withColumn("begins", begins).withColumn("flood", F.sum("begins").over(in_order))
    return conforming(
        numbered.where("in_flood = 1")
        .groupBy("flood")
        .agg(
            F.min("window_ns").alias("start_ns"),
            (F.max("window_ns") + WINDOW_NS).alias("end_ns"),
            F.sum("annunciations").alias("annunciations"),
            F.max("annunciations").alias("peak"),
        )
        .withColumn("start", timestamp(F.col("start_ns")))
        .drop("flood"),
        ALARM_FLOODS,
    )


def actors(all_cases: DataFrame) -> DataFrame:
    """Items and conditions by annunciations, most first.

    Args:
        all_cases: from `cases`.
    """
    summed = (
        all_cases.groupBy("item_id", "condition")
        .agg(
            F.sum("annunciations").alias("annunciations"),
            F.count("*").alias("cases"),
            F.sum("active_ns").alias("active_ns"),
        )
        .where("annunciations > 0")
    )
    by_count = Window.orderBy(F.desc("annunciations"), "item_id", "condition")
    total = F.sum("annunciations").over(Window.partitionBy())
    return conforming(
        summed.withColumns(
            {
                "rank": F.row_number().over(by_count).cast("bigint"),
                "share": F.col("annunciations") / total,
                "cumulated_share": F.sum("annunciations").over(by_count) / total,
            }
        ),
        ALARM_ACTORS,
    )


def standing(all_cases: DataFrame, known_to_ns: int) -> DataFrame:
    """Cases that are active at `known_to_ns`.

    Args:
        all_cases: from `cases`.
    """
    since = F.coalesce("active_since_ns", "raised_ns")
    return conforming(
        all_cases.where("is_active")
        .withColumns({"since_ns": since, "standing_ns": F.greatest(F.lit(known_to_ns) - since, F.lit(0))})
        .select(
            "case_id",
            "item_id",
            "condition",
            "severity",
            "since_ns",
            timestamp(F.col("since_ns")).alias("start"),
            "standing_ns",
            "is_acked",
            "is_hidden",
            (F.col("standing_ns") > STALE_NS).alias("is_stale"),
        ),
        ALARM_STANDING,
    )


def chatter(changes: DataFrame) -> DataFrame:
    """Items and conditions with three activations or more within 60 s, hidden ones included; all of these count.

    Args:
        changes: from `transitions`.
    """
    in_order = Window.partitionBy("item_id", "condition").orderBy("at_ns", "sequence", "copy")
    active = changes.where("activated > 0")
    # A record may tell of many activations at once; three of them are as good as all.
    copies = F.sequence(F.lit(1), F.least("activated", F.lit(CHATTER_ACTIVATIONS)).cast("int"))
    each = active.withColumn("copy", F.explode(copies))
    last = CHATTER_ACTIVATIONS - 1

    def reaches(back: int) -> Column:
        """The activation is one of three within the time, `back` of them before it."""
        begin, end = F.lag("at_ns", back).over(in_order), F.lead("at_ns", last - back).over(in_order)
        return F.coalesce(end - begin <= CHATTER_NS, F.lit(False))

    marked = each.withColumn("chatters", reduce(operator.or_, map(reaches, range(CHATTER_ACTIVATIONS))))
    chattering = (
        marked.where("chatters")
        .groupBy("item_id", "condition", "at_ns", "sequence")
        .agg(F.max("activated").alias("activated"))
    )
    in_time = Window.partitionBy("item_id", "condition").orderBy("at_ns", "sequence")
    is_new = F.coalesce(F.col("at_ns") - F.lag("at_ns").over(in_time) > CHATTER_NS, F.lit(True))
    return conforming(
        chattering.withColumn("is_new", is_new)
        .groupBy("item_id", "condition")
        .agg(
            F.sum(F.col("is_new").cast("bigint")).alias("episodes"),
            F.sum("activated").alias("activations"),
            F.min("at_ns").alias("first_ns"),
            F.max("at_ns").alias("last_ns"),
        )
        .withColumn("start", timestamp(F.col("first_ns"))),
        ALARM_CHATTER,
    )
