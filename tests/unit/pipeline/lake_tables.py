"""Tables of the lake as a test of the report wants them, without Spark."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake
from pyspark.sql.pandas.types import to_arrow_schema

from albireo.codec.history import Manifest
from albireo.model.position import Position
from albireo.pipeline import tables
from tests.unit.pipeline.history_files import SECOND, Row

MINUTE = 60 * SECOND
HOUR = 60 * MINUTE


def store(directory: Path, table: tables.LakeTable, rows: Sequence[Row] | pa.Table) -> None:
    """Rows as a Delta table; columns that are not given are null."""
    schema = to_arrow_schema(table.schema, timezone="UTC")
    given = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(list(rows))
    missing = [one for one in schema if one.name not in given.column_names]
    for one in missing:
        given = given.append_column(one.name, pa.nulls(len(given), one.type))
    write_deltalake(
        str(directory / table.name),
        given.select(schema.names).cast(schema),
        partition_by=list(table.partition_by) or None,
    )


def rollup_rows(items: int, begin_ns: int, end_ns: int, width_ns: int) -> pa.Table:
    """Waves of the items 0 and up, a row for each bucket."""
    bucket_ns = np.tile(np.arange(begin_ns, end_ns, width_ns), items)
    item_id = np.repeat(np.arange(items), len(bucket_ns) // items)
    value = 20 + item_id + np.sin(bucket_ns / HOUR)
    columns: dict[str, Any] = {
        "item_id": item_id,
        "bucket_ns": bucket_ns,
        "average": value,
        "minimum": value - 1,
        "maximum": value + 1,
        "quality": np.where(bucket_ns % (7 * HOUR), 0x401, 0x8000_0401),
    }
    alike = {
        "rows": width_ns // SECOND,
        "good_rows": 60,
        "good_ns": width_ns,
        "uncertain_ns": 0,
        "bad_ns": 0,
        "lost_ns": 0,
    }
    every = {name: pa.repeat(one, len(value)) for name, one in (alike | {"day": "2026-03-01"}).items()}
    return pa.table(columns | every)


def manifest(complete_to_ns: int) -> Manifest:
    return Manifest(node="root", log_id="5f" * 16, position=Position(1, 99), complete_to_ns=complete_to_ns)
