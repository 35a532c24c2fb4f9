"""Answers about the hot tail, made in a thread beside the actor."""

from typing import Annotated, Final

import msgspec
import pyarrow as pa
from msgspec import Meta

from albireo.codec.bounds import ENTRIES_MAX
from albireo.model.bounded import INT64_MAX, INT64_MIN, Number32, Signed64
from albireo.node.history import hot
from albireo.node.history.errors import QueryRefused
from albireo.node.history.hot import HotContent, Row

HOT_ANSWER_ROWS_MAX: Final = 200_000
"""Most rows of the hot tail in one answer: some 16 MB, half of what a message may have."""


class HotQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of the question `history`."""

    item_ids: Annotated[tuple[Number32, ...], Meta(max_length=ENTRIES_MAX)] = ()
    """Items asked for; empty: all."""
    from_ns: Signed64 = INT64_MIN
    to_ns: Signed64 = INT64_MAX


def hot_answer(content: HotContent, wanted: HotQuestion) -> tuple[bytes, Row]:
    """The wanted rows of the hot tail as an Arrow stream, with its gaps and items.

    Raises:
        QueryRefused: more than HOT_ANSWER_ROWS_MAX rows.
    """
    table = hot.samples_table(content.chunks, wanted.item_ids or None)
    source_ns = table.column("source_ns").to_numpy()
    table = table.filter(pa.array((source_ns >= wanted.from_ns) & (source_ns < wanted.to_ns)))
    if len(table) > HOT_ANSWER_ROWS_MAX:
        raise QueryRefused(
            f"{len(table)} rows in memory, at most {HOT_ANSWER_ROWS_MAX} in an answer; ask for fewer items"
        )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    items = [hot.item_row(known) for known in content.items]
    return sink.getvalue().to_pybytes(), {"rows": len(table), "gaps": content.all_gaps, "items": items}
