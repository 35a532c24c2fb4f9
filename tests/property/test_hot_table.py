"""The table of the hot tail: every row once, in the order that files have."""

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from albireo.codec.history import BUCKET_NS, SAMPLES
from albireo.codec.questions.history import HotQuestion
from albireo.machine.history.aggregate import PARTIAL_COLUMNS, merge, partials_of
from albireo.model.instant import SECOND
from albireo.model.position import Position
from albireo.model.value import Value, ValueType
from albireo.node.history.files import parquet
from albireo.node.history.files.chunks import NULLS_AT_ONCE, samples_table
from albireo.node.history.files.hot import HotTail
from albireo.node.history.hot_answer import hot_answer
from tests.parts.history import DAY_ZERO, MemoryLog, fill

VALUES: dict[ValueType, Value] = {ValueType.FLOAT64: 1.5, ValueType.INT64: -7, ValueType.STRING: "closed"}
COLUMNS = {ValueType.FLOAT64: "value_f64", ValueType.INT64: "value_i64", ValueType.STRING: "value_str"}
ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), min_size=1, max_size=5)
FRAMES = st.lists(st.tuples(st.sampled_from(list(VALUES)), ROWS), max_size=8)


def tail_of(log: MemoryLog) -> HotTail:
    tail = HotTail(Position(), 0)
    fill(tail, log)
    return tail


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    assert table.schema == SAMPLES
    table.validate(full=True)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


@given(FRAMES)
def test_every_row_is_there_once_and_in_order(frames: list[tuple[ValueType, list[tuple[int, int]]]]) -> None:
    """Whatever the frames are: of one item or several, in time or late, and of an item that has changed its type."""
    log = MemoryLog()
    types = []
    for value_type, rows in frames:
        log.samples([(item, DAY_ZERO + at, VALUES[value_type], 0) for item, at in rows], DAY_ZERO, value_type)
        types += [value_type] * len(rows)
    found = rows_of(samples_table(tail_of(log).content().chunks))
    expected = sorted((item, at, sequence) for sequence, item, at, _, _ in log.rows)
    assert [(row["item_id"], row["source_ns"], row["sequence"]) for row in found] == expected
    for row in found:
        value_type = types[row["sequence"] - 1]
        assert {name: row[name] for name in COLUMNS.values()} == {
            name: VALUES[one] if one is value_type else None for one, name in COLUMNS.items()
        }


def test_rows_by_the_hundred_thousand_are_the_same_in_pieces() -> None:
    """More rows than a piece of nulls or a block has; sums of blocks are sums of all."""
    log = MemoryLog()
    count = parquet.BLOCK_ROWS // 2 + 1
    for number in range(3):
        first = DAY_ZERO + number * count * SECOND // 100
        log.samples([(2, first + i * SECOND // 100, float(i % 7), 0) for i in range(count)], DAY_ZERO)
        log.samples([(1, first, 1, 0)], DAY_ZERO, ValueType.INT64)
    table = samples_table(tail_of(log).content().chunks)
    assert len(table) == 3 * count + 3 > parquet.BLOCK_ROWS
    assert table.column("item_id").to_numpy().tolist() == [1] * 3 + [2] * 3 * count
    assert table.column("value_str").null_count == len(table) > NULLS_AT_ONCE
    assert table.column("value_i64").null_count == 3 * count
    whole = partials_of(parquet.rows_from(table), BUCKET_NS)
    parts = [partials_of(parquet.rows_from(block), BUCKET_NS) for block in parquet.blocks(table)]
    assert len(parts) == 2
    merged = merge(parts, BUCKET_NS).partials
    for name in PARTIAL_COLUMNS:
        np.testing.assert_allclose(getattr(merged, name), getattr(whole, name), rtol=1e-12, err_msg=name)


def test_an_answer_of_many_small_frames_is_no_larger_than_one_of_few() -> None:
    """Else the newest rows of a busy node would not fit into a message."""

    def size_of(rows_per_frame: int) -> int:
        log = MemoryLog()
        for first in range(0, 4096, rows_per_frame):
            rows = [(1, DAY_ZERO + at, "x" * 72, 0) for at in range(first, first + rows_per_frame)]
            log.samples(rows, DAY_ZERO, ValueType.STRING)
        answer, told = hot_answer(tail_of(log).content(), HotQuestion())
        assert told["rows"] == 4096
        return len(answer)

    assert size_of(1) < 1.2 * size_of(4096)
