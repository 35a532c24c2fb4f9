"""The tables of the pipeline: names, columns, and how a frame is held to them.

Times are Unix ns, UTC; every table also has the start of its rows as a timestamp (microseconds), because few tools read
nanoseconds. `day` is the UTC day, `YYYY-MM-DD`.
"""

from typing import Final

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from albireo.model.instant import WALL_NS_MAX

SECOND_NS: Final = 1_000_000_000
MINUTE_NS: Final = 60 * SECOND_NS
HOUR_NS: Final = 60 * MINUTE_NS
DAY_NS: Final = 24 * HOUR_NS
_TYPES: Final[dict[str, DataType]] = {
    "bigint": LongType(),
    "boolean": BooleanType(),
    "double": DoubleType(),
    "string": StringType(),
    "timestamp": TimestampType(),
}


class LakeTable(msgspec.Struct, frozen=True, kw_only=True):
    """One table."""

    name: str
    columns: str
    """Names and Spark's names of their types, in order."""
    partition_by: tuple[str, ...] = ()
    """Columns of the partitions; a pass replaces by the first of them."""

    @property
    def schema(self) -> StructType:
        # Spark's own parser of such text needs a JVM; the report does without one.
        pairs = (column.split() for column in self.columns.split(","))
        return StructType([StructField(name, _TYPES[kind]) for name, kind in pairs])


_ROLLUP: Final = """
    item_id bigint, bucket_ns bigint, start timestamp,
    rows bigint, good_rows bigint, first_ns bigint, first_value double,
    end_ns bigint, end_value double, end_quality bigint,
    integral double, good_ns bigint, uncertain_ns bigint, bad_ns bigint, lost_ns bigint,
    average double, minimum double, maximum double, total double,
    quality bigint, sequence_max bigint, is_end_hole boolean,
    first_i64 bigint, end_i64 bigint, minimum_i64 bigint, maximum_i64 bigint, declared bigint, day string
"""
"""One item in one bucket `bucket_ns <= t < bucket_ns + width`.

rows, good_rows       samples in the bucket
first_*               first sample of the bucket, null without one
end_*                 what holds at its end: value, quality, and when that was sampled
integral              value x seconds while good
good_ns .. bad_ns     how long the value held was of that class; bad_ns includes lost_ns
lost_ns               how long nothing was known because of a gap
average               integral / good time; null without good time
minimum, maximum      of the good values that held at any time of the bucket
total                 sum of the good samples, not weighted
quality               OPC UA Part 13 status of the row
sequence_max          newest sample in it
is_end_hole           what holds at its end is a gap, and no sample
declared              type and unit of its last good value: `sequence` in items_scd, 0: as first declared; null: none.
                      If there were several, average, integral, total, minimum and maximum are null, and quality says
                      BadAggregateInvalidInputs
*_i64                 the same value of an integer item, exactly; null below 2^53, where the double is exact
"""

ROLLUP_1S: Final = LakeTable(name="rollup_1s", columns=_ROLLUP, partition_by=("day",))
"""Only seconds with samples: in one without, the end value of the last row before it holds."""
ROLLUP_1MIN: Final = LakeTable(name="rollup_1min", columns=_ROLLUP, partition_by=("day",))
"""Every minute from an item's first sample on in which anything is known of it."""
ROLLUP_1H: Final = LakeTable(name="rollup_1h", columns=_ROLLUP, partition_by=("day",))
"""Every hour from an item's first sample on in which anything is known of it."""

AVAILABILITY: Final = LakeTable(
    name="availability",
    columns="""
        item_id bigint, start timestamp, rows bigint, known_ns bigint, good_ns bigint, uncertain_ns bigint,
        bad_ns bigint, lost_ns bigint, availability double, day string
    """,
    partition_by=("day",),
)
"""One item on one day: how long its value was good. `availability` = good / known, 0..1. known_ns: from its first
sample (or midnight) to the end of what is known (or midnight), without the time in which nothing was known any more."""

ITEMS_SCD: Final = LakeTable(
    name="items_scd",
    columns="""
        item_id bigint, node string, name string, value_type bigint, unit string, description string, adapter string,
        stale_ns bigint, valid_from_ns bigint, start timestamp, valid_to_ns bigint, sequence bigint
    """,
)
"""Items with their versions: one row per declaration, from when (null: nobody knows) to when (null: still) it counted,
in times of the node. sequence: place of the declaration in the log, behind which samples are of this version; 0: nobody
knows. stale_ns: longest time for which a value is held; null: 31 days."""
ITEMS: Final = LakeTable(
    name="items",
    columns="""
        item_id bigint, node string, name string, value_type bigint, unit string, description string, adapter string
    """,
)
GAPS: Final = LakeTable(
    name="gaps",
    columns="""
        node string, source string, reason string, from_ns bigint, to_ns bigint, start timestamp, duration_s double,
        items bigint, lost bigint, epoch bigint, sequence bigint
    """,
)
"""Gaps, where samples were or may have been lost. items: number of items; lost: samples, null where unknown."""

ALARM_CASES: Final = LakeTable(
    name="alarm_cases",
    columns="""
        case_id bigint, item_id bigint, condition string, severity bigint, raised_ns bigint, start timestamp,
        acked_ns bigint, cleared_ns bigint, closed_ns bigint, annunciations bigint, activations bigint,
        active_ns bigint, time_to_ack_ns bigint, active_since_ns bigint, is_active boolean, is_acked boolean,
        is_hidden boolean, has_asked boolean
    """,
)
"""One row per case. annunciations: activations an operator could see (not shelved, suppressed or out of service).
has_asked: it asked to be acknowledged; one that was raised while suppressed may never have. time_to_ack_ns: from when
it asked to its first acknowledgement. active_since_ns: last activation."""
ALARM_RATE: Final = LakeTable(
    name="alarm_rate",
    columns="""
        window_ns bigint, start timestamp, annunciations bigint, urgent bigint, high bigint, medium bigint, low bigint,
        is_flood boolean
    """,
)
"""Annunciations per 10 minutes, windows without one included. urgent .. low: severity 801.., 601.., 401.., 1.. ."""
ALARM_FLOODS: Final = LakeTable(
    name="alarm_floods",
    columns="start_ns bigint, start timestamp, end_ns bigint, annunciations bigint, peak bigint",
)
ALARM_ACTORS: Final = LakeTable(
    name="alarm_actors",
    columns="""
        rank bigint, item_id bigint, condition string, annunciations bigint, share double, cumulated_share double,
        cases bigint, active_ns bigint
    """,
)
"""Items and conditions by annunciations: those that alarm most."""
ALARM_STANDING: Final = LakeTable(
    name="alarm_standing",
    columns="""
        case_id bigint, item_id bigint, condition string, severity bigint, since_ns bigint, start timestamp,
        standing_ns bigint, is_acked boolean, is_hidden boolean, is_stale boolean
    """,
)
"""Cases still active at the end of what is known; stale: for more than 24 h."""
ALARM_CHATTER: Final = LakeTable(
    name="alarm_chatter",
    columns="""
        item_id bigint, condition string, episodes bigint, activations bigint, first_ns bigint, start timestamp,
        last_ns bigint
    """,
)
"""Items and conditions that became active three times or more within 60 s. activations: those of the episodes, the
first two included; first_ns: the first of them."""

TIMED_TABLES: Final = (ROLLUP_1S, ROLLUP_1MIN, ROLLUP_1H, AVAILABILITY)
"""Replaced day by day."""
WHOLE_TABLES: Final = (
    ITEMS,
    ITEMS_SCD,
    GAPS,
    ALARM_CASES,
    ALARM_RATE,
    ALARM_FLOODS,
    ALARM_ACTORS,
    ALARM_STANDING,
    ALARM_CHATTER,
)
"""Small; each pass that has anything new replaces them as a whole."""
TABLES: Final = TIMED_TABLES + WHOLE_TABLES


def conforming(frame: DataFrame, table: LakeTable) -> DataFrame:
    """The frame with the table's columns in the table's order; a difference of name or type is our bug."""
    found = {field.name: field.dataType for field in frame.schema.fields}
    wanted = {field.name: field.dataType for field in table.schema.fields}
    assert found == wanted, f"{table.name}: {found} is not {wanted}"
    return frame.select(*wanted)


def bounded(ns: Column) -> Column:
    """Times, no farther from 1970 than others may be, so that no difference overflows."""
    return F.greatest(F.least(ns, F.lit(WALL_NS_MAX)), F.lit(-WALL_NS_MAX))


def floored(ns: Column, width_ns: int) -> Column:
    """Start of the bucket that holds `ns`; exact, where a division by floating point is not."""
    return ns - F.pmod(ns, F.lit(width_ns))


def timestamp(ns: Column) -> Column:
    """Microsecond timestamp of Unix ns, rounded down."""
    return F.timestamp_micros(_divided(floored(ns, 1000), 1000))


def day(ns: Column) -> Column:
    """UTC day, `YYYY-MM-DD`."""
    return F.date_from_unix_date(_divided(floored(ns, DAY_NS), DAY_NS).cast("int")).cast("string")


def _divided(multiple: Column, width_ns: int) -> Column:
    """Exact quotient. Spark's `/` is of floating point, off by less than 0.2 here; a cast alone would round it down."""
    return F.round(multiple / width_ns).cast("bigint")
