"""Questions to a history."""

from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from albireo.codec.questions.kind import Answerer, Asked, Nothing, QuestionKind
from albireo.model.bounded import ENTRIES_MAX, INT64_MAX, INT64_MIN, Name, Number32, Signed


class NodeQuestion(Asked, frozen=True, kw_only=True):
    """Arguments that every question about rows has."""

    node: Name = ""
    """Node below whose history is asked; empty: that which the names of items say, or this node."""


class StoreQuestion(NodeQuestion, frozen=True, kw_only=True):
    """Arguments of `events`, and of every question for what no file has yet."""

    folder: Name = ""
    """Folder of one of the node's stores; empty, or no such folder: the latest one."""


class ItemQuestion(NodeQuestion, frozen=True, kw_only=True):
    """Arguments of the question `history_item`."""

    name: Name
    """Full or local name, or id."""


class HotQuestion(StoreQuestion, frozen=True, kw_only=True):
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


class PieceQuestion(NodeQuestion, frozen=True, kw_only=True):
    """Arguments that every question for a piece has."""

    from_ns: Signed
    to_ns: Signed
    """Range of time, `to_ns` not included."""
    item_ids: _ItemIds = ()
    cursor: Name = ""
    """`next` of the piece before; empty: the first piece is wanted."""
    rows_max: _RowsMax = PIECE_ROWS_MAX


Aggregate = Literal["", "raw", "average", "min", "max", "count", "duration", "band", "last", "interpolated"]
EventKind = Literal["", "case", "audit", "control"]


class RowsQuestion(PieceQuestion, frozen=True, kw_only=True):
    """Arguments of the question `history_piece`."""

    names: Annotated[tuple[Name, ...], Meta(max_length=ITEMS_ASKED_MAX)] = ()
    """Items by full or local name, beside those in `item_ids`."""
    aggregate: Aggregate = ""
    """Aggregate per interval; empty, or `raw`: the rows themselves."""
    bucket_ns: Annotated[int, Meta(ge=0, le=INT64_MAX)] = 0
    """Length of an interval."""
    uncertain_is_good: bool = False
    only_raw: bool = False


class EventsQuestion(PieceQuestion, frozen=True, kw_only=True):
    """Arguments of the question `events_piece`. No items: events of every item and of none."""

    kind: EventKind = ""
    newest_first: bool = False
    """The last records of the log come first."""


class GapsQuestion(PieceQuestion, frozen=True, kw_only=True):
    """Arguments of the question `gaps_piece`. No items: gaps of all."""


AnyPieceQuestion = RowsQuestion | EventsQuestion | GapsQuestion


HISTORY: Final = QuestionKind(
    name="history",
    shape=HotQuestion,
    answer=dict[str, Any],
    answerer=Answerer.HISTORY,
    meaning="values that stand in no file yet",
    told="their gaps and items; the rows in a raw part (docs/formats/history.md)",
    is_reading=True,
)
EVENTS: Final = QuestionKind(
    name="events",
    shape=StoreQuestion,
    answer=dict[str, Any],
    answerer=Answerer.HISTORY,
    meaning="events that stand in no file yet",
    told="events and items (docs/formats/history.md)",
    is_reading=True,
)
SEAL: Final = QuestionKind(
    name="seal",
    shape=Nothing,
    answer=dict[str, Any],
    answerer=Answerer.HISTORY,
    meaning="write what stands in no file yet",
    told="figures of the history, once it is written",
)
STATS: Final = QuestionKind(
    name="stats",
    shape=Nothing,
    answer=dict[str, Any],
    answerer=Answerer.HANDED_ON,
    meaning="figures of the history",
    told="figures of the history (docs/formats/history.md)",
    is_reading=True,
)
HISTORY_ITEM: Final = QuestionKind(
    name="history_item",
    shape=ItemQuestion,
    answer=dict[str, Any],
    answerer=Answerer.HANDED_ON,
    meaning="an item as it was declared last, of the history",
    told="its declaration and id",
    is_reading=True,
)
HISTORY_PIECE: Final = QuestionKind(
    name="history_piece",
    shape=RowsQuestion,
    answer=dict[str, Any],
    answerer=Answerer.HANDED_ON,
    meaning="stored values and aggregates, of the history",
    told="a piece (see below)",
    is_reading=True,
)
EVENTS_PIECE: Final = QuestionKind(
    name="events_piece",
    shape=EventsQuestion,
    answer=dict[str, Any],
    answerer=Answerer.HANDED_ON,
    meaning="the journal, of the history",
    told="a piece (see below)",
    is_reading=True,
)
GAPS_PIECE: Final = QuestionKind(
    name="gaps_piece",
    shape=GapsQuestion,
    answer=dict[str, Any],
    answerer=Answerer.HANDED_ON,
    meaning="gaps in stored values, of the history",
    told="a piece (see below)",
    is_reading=True,
)
KINDS: Final = (HISTORY, EVENTS, SEAL, STATS, HISTORY_ITEM, HISTORY_PIECE, EVENTS_PIECE, GAPS_PIECE)
