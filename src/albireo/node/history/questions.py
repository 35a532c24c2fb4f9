"""Arguments of the questions to a history, and answers about the hot tail, made in a thread beside the actor."""

from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec
import pyarrow as pa
from msgspec import Meta

from albireo.machine.history.declared import Row
from albireo.model.bounded import ENTRIES_MAX, INT64_MAX, INT64_MIN, Name, Number32, Signed
from albireo.node.history.errors import QueryRefused
from albireo.node.history.files import hot
from albireo.node.history.files.hot import HotContent

HOT_ANSWER_ROWS_MAX: Final = 200_000
"""Most rows of the hot tail in one answer: some 16 MB, half of what a message may have."""


class NodeQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments that every question about rows has, and all of `events`."""

    node: Name = ""
    """Node below whose history is asked; empty: that which the names of items say, or this node."""


class ItemQuestion(NodeQuestion, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of the question `history_item`."""

    name: Name
    """Full or local name, or id."""


class HotQuestion(NodeQuestion, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of the question `history`."""

    item_ids: Annotated[tuple[Number32, ...], Meta(max_length=ENTRIES_MAX)] = ()
    """Items asked for; empty: all."""
    from_ns: Signed = INT64_MIN
    to_ns: Signed = INT64_MAX


ITEMS_ASKED_MAX: Final = 10_000
"""Most items of one piece-wise question."""
PIECE_ROWS_MAX: Final = 15_000
"""Most rows of a piece: of samples just below PIECE_BYTES."""

_RowsMax = Annotated[int, Meta(ge=1, le=ENTRIES_MAX)]
_ItemIds = Annotated[tuple[Number32, ...], Meta(max_length=ITEMS_ASKED_MAX)]


class PieceQuestion(NodeQuestion, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments that every question for a piece has."""

    from_ns: Signed
    to_ns: Signed
    """Range of time, `to_ns` not included."""
    item_ids: _ItemIds = ()
    cursor: Name = ""
    """`next` of the piece before; empty: the first piece is wanted."""
    rows_max: _RowsMax = PIECE_ROWS_MAX


class RowsQuestion(PieceQuestion, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of the question `history_piece`."""

    names: Annotated[tuple[Name, ...], Meta(max_length=ITEMS_ASKED_MAX)] = ()
    """Items by full or local name, beside those in `item_ids`."""
    aggregate: Literal["", "raw", "average", "min", "max", "count", "duration", "last", "interpolated"] = ""
    """Aggregate per interval; empty, or `raw`: the rows themselves."""
    bucket_ns: Annotated[int, Meta(ge=0, le=INT64_MAX)] = 0
    """Length of an interval."""
    uncertain_is_good: bool = False
    only_raw: bool = False


class EventsQuestion(PieceQuestion, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of the question `events_piece`. No items: events of every item and of none."""

    kind: Literal["", "case", "audit", "control"] = ""


class GapsQuestion(PieceQuestion, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of the question `gaps_piece`. No items: gaps of all."""


AnyPieceQuestion = RowsQuestion | EventsQuestion | GapsQuestion
PIECES: Final[dict[str, type[AnyPieceQuestion]]] = {
    "history_piece": RowsQuestion,
    "events_piece": EventsQuestion,
    "gaps_piece": GapsQuestion,
}
"""Arguments of the questions that are answered in pieces, by name."""


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
