"""Answers about the hot tail, made in a thread beside the actor."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from albireo.codec.questions.history import HotQuestion
from albireo.machine.history.declared import Row
from albireo.node.history.errors import QueryRefused
from albireo.node.history.files.chunks import samples_table
from albireo.node.history.files.hot import HotContent

HOT_ANSWER_ROWS_MAX: Final = 200_000
"""Most rows of the hot tail in one answer: some 16 MB, half of what a message may have."""


def hot_answer(content: HotContent, wanted: HotQuestion) -> tuple[bytes, Row]:
    """The wanted rows of the hot tail as an Arrow stream, with its gaps and items.

    Raises:
        QueryRefused: more than HOT_ANSWER_ROWS_MAX rows.
    """
    table = samples_table(content.chunks, wanted.item_ids or None)
    source_ns = table.column("source_ns").to_numpy()
    table = table.filter(pa.array((source_ns >= wanted.from_ns) & (source_ns < wanted.to_ns)))
    if len(table) > HOT_ANSWER_ROWS_MAX:
        raise QueryRefused(
            f"{len(table)} rows in memory, at most {HOT_ANSWER_ROWS_MAX} in an answer; ask for fewer items"
        )
    gaps = [_trimmed(row, wanted.item_ids) for row in content.all_gaps]
    more: Row = {"gaps": [row for row in gaps if row is not None], "items": list(content.items)}
    return arrow_stream(table), {"rows": len(table), **more}


def _trimmed(gap: Row, item_ids: Sequence[int]) -> Row | None:
    """The gap as far as it is about these items (none: about all); None: it is not."""
    named = gap["item_ids"]
    if not item_ids or not isinstance(named, list) or not named:
        return gap
    mine = [one for one in named if one in item_ids]
    return {**gap, "item_ids": mine} if mine else None


def arrow_stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()
