"""Parts that tests share: rollups against DuckDB, and against the kernels that the historian answers with."""

from collections.abc import Sequence

import numpy as np

from albireo.codec import history as stored
from albireo.machine.history import aggregate
from tests.unit.pipeline.history_files import Row


def kernel_rows(rows: Sequence[Row], item_id: int | None = None) -> aggregate.Rows:
    """Rows as the historian hands them to its kernels."""
    chosen = sorted(
        (row for row in rows if item_id is None or row["item_id"] == item_id),
        key=lambda row: (row["item_id"], row["source_ns"], row["sequence"]),
    )
    numbers = [row["value_f64"] if row["value_i64"] is None else float(row["value_i64"]) for row in chosen]
    return aggregate.rows_of(
        item_id=np.array([row["item_id"] for row in chosen], np.int64),
        source_ns=np.array([row["source_ns"] for row in chosen], np.int64),
        value=np.array([np.nan if one is None else one for one in numbers], np.float64),
        is_text=np.array([row["value_str"] is not None for row in chosen], np.bool_),
        quality=np.array([row["quality"] for row in chosen], np.int64),
        sequence=np.array([row["sequence"] for row in chosen], np.int64),
    )


def kernel_partials(rows: Sequence[Row]) -> list[Row]:
    """Stored partials of one file, NaN as null."""
    columns = aggregate.partials_of(kernel_rows(rows), stored.BUCKET_NS).columns()
    lists = {name: [_or_none(one) for one in column.tolist()] for name, column in columns.items()}
    return [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]


def _or_none(value: float) -> float | None:
    return None if value != value else value
