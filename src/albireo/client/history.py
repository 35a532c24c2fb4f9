"""History of a client: a long answer as one Arrow table, put together from the pieces in which a node gives it.

A piece is a question of its own and its cursor means the same on both members, so an answer goes on behind a takeover.
Arrow is loaded with the first answer: a program that asks for no history does without it.

Spec: docs/node-protocol.md, Long answers, in pieces; ADR-0156.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from albireo.client.conversation import Conversation, request_of, understood
from albireo.client.conversed import AnyClient, conversed
from albireo.client.errors import AnswerNotUnderstood, ClientError, HistoryCutShort, NodeRefused
from albireo.client.questions import NodeReply, checked_s
from albireo.codec.questions.history import (
    EVENTS_PIECE,
    GAPS_PIECE,
    HISTORY_PIECE,
    Aggregate,
    EventKind,
    EventsQuestion,
    GapsQuestion,
    PieceQuestion,
    RowsQuestion,
)
from albireo.codec.questions.kind import QuestionKind
from albireo.model.instant import SECOND
from albireo.model.refusal import kind_of_code

if TYPE_CHECKING:
    import pyarrow as pa

    from albireo.codec.item_kinds import ItemKinds

PieceT = TypeVar("PieceT", bound=PieceQuestion)

TRIES_MAX: Final = 10
"""Times that a piece is asked for which comes to nothing for a reason that may pass."""
PAUSE_S: Final = 0.5
"""Pause before a piece is asked for again."""
LIMITED_ROWS: Final = 10_000
"""Most rows that a piece of an answer with a limit is asked for."""

ToldRows = Callable[[int], None]
"""Is told after each piece how many rows have come."""


class _Piece(msgspec.Struct, kw_only=True):
    next: str = ""
    complete_to_ns: int = 0
    rows: int = 0


class HistoryClient(AnyClient):
    """A client, as far as it asks for history."""

    @conversed
    def history(
        self,
        items: str | int | Sequence[str | int],
        start: datetime | int,
        end: datetime | int | None = None,
        *,
        aggregate: Aggregate = "",
        every_s: float = 0.0,
        uncertain_is_good: bool = False,
        only_raw: bool = False,
        cursor: str = "",
        limit: int | None = None,
        told: ToldRows | None = None,
        node: str = "",
        wide: bool = False,
        raw: bool = False,
    ) -> Conversation["pa.Table"]:
        """Stored and recent values as an Arrow table (client.readable); `to_pandas()` makes a DataFrame of it.

        Args:
            items: full or local names, or ids.
            start: begin of the range; a datetime (UTC if it names no zone), or wall time in ns.
            end: end of the range, not included; None: now.
            aggregate: "" for the rows themselves, or average, min, max, count, duration, last, interpolated, band.
            every_s: length of an interval, for aggregates.
            uncertain_is_good: aggregates use uncertain values too.
            only_raw: aggregates are computed from raw rows, even where stored sums would do.
            cursor: place where an answer that was cut short goes on.
            limit: most rows, the first ones of the answer; None: all of it.
            told: is called with the number of rows so far, after each piece.
            node: node below whose history is asked, when ids or local names are given; full names say it themselves.
            wide: a row for each time and a column for each item, instead of a row for each value.
            raw: the columns as they are stored and sent: ids, codes, nanoseconds (docs/node-protocol.md).
        Raises:
            NodeRefused: there is no such item, or the range is none.
            HistoryCutShort: some of it came, and then nobody answered.
        """
        asked = RowsQuestion(
            from_ns=wall_ns(start),
            to_ns=wall_ns(end),
            aggregate=aggregate,
            bucket_ns=round(checked_s(every_s) * SECOND),
            uncertain_is_good=uncertain_is_good,
            only_raw=only_raw,
            cursor=cursor,
            node=node,
        )
        return _rows(items, asked, limit, told, is_wide=wide, is_raw=raw)

    @conversed
    def band(
        self,
        items: str | int | Sequence[str | int],
        start: datetime | int,
        end: datetime | int | None,
        every_s: float,
        *,
        uncertain_is_good: bool = False,
        cursor: str = "",
        limit: int | None = None,
        told: ToldRows | None = None,
        node: str = "",
        wide: bool = False,
        raw: bool = False,
    ) -> Conversation["pa.Table"]:
        """Values that a trend draws: `min`, `max`, `first`, `last`, `average` and `count` of each interval, at once.

        As an Arrow table with a row for each item and interval, also of those without a value. A bool counts as 0 or 1;
        a text has `first_text`, `last_text` and a count. An interval that ends before `complete_to_ns`, which stands in
        the metadata of the schema, changes no more but by values that come late.

        Args: as `history`; `every_s`: length of an interval, counted from `start` on.
        Raises: as `history`.
        """
        asked = RowsQuestion(
            from_ns=wall_ns(start),
            to_ns=wall_ns(end),
            aggregate="band",
            bucket_ns=round(checked_s(every_s) * SECOND),
            uncertain_is_good=uncertain_is_good,
            cursor=cursor,
            node=node,
        )
        return _rows(items, asked, limit, told, is_wide=wide, is_raw=raw)

    @conversed
    def events(
        self,
        start: datetime | int,
        end: datetime | int | None = None,
        *,
        kind: EventKind = "",
        item_ids: Sequence[int] = (),
        newest_first: bool = False,
        cursor: str = "",
        limit: int | None = None,
        told: ToldRows | None = None,
        node: str = "",
    ) -> Conversation["pa.Table"]:
        """The journal as an Arrow table: changes of cases, what people did, starts and stops.

        A row of a case has the full name of its `item`. An answer that `limit` has ended has in the metadata of its
        schema, as `next`, the `cursor` at which it goes on.

        Args: as `history`; `kind`: only these: case, audit, control; `item_ids`: only the cases of these items;
            `newest_first`: the last ones of the range come first.
        Raises: as `history`.
        """
        asked = EventsQuestion(
            from_ns=wall_ns(start),
            to_ns=wall_ns(end),
            kind=kind,
            item_ids=tuple(item_ids),
            newest_first=newest_first,
            cursor=cursor,
            node=node,
        )
        return _read_by(_named, pieces(EVENTS_PIECE, asked, limit, told))

    @conversed
    def gaps(
        self,
        start: datetime | int,
        end: datetime | int | None = None,
        *,
        item_ids: Sequence[int] = (),
        node: str = "",
    ) -> Conversation["pa.Table"]:
        """Times of which something is missing, as an Arrow table: those that touch the range, by start.

        Args: as `history`; `item_ids`: only what these items miss.
        Raises: as `history`.
        """
        asked = GapsQuestion(from_ns=wall_ns(start), to_ns=wall_ns(end), item_ids=tuple(item_ids), node=node)
        return pieces(GAPS_PIECE, asked)


def wall_ns(moment: datetime | int | None) -> int:
    """Wall time in ns: of a datetime, UTC if it names no zone; None: now."""
    if isinstance(moment, int):
        return moment
    if moment is None:
        moment = datetime.now(UTC)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    since = moment - datetime.fromtimestamp(0, UTC)
    return (since // timedelta(seconds=1)) * SECOND + since.microseconds * 1000


def pieces(
    kind: QuestionKind[PieceT, Any], asked: PieceT, limit: int | None = None, told: ToldRows | None = None
) -> Conversation["pa.Table"]:
    """The whole answer to a question that is answered in pieces.

    Args:
        limit: rows after which no more are asked for; None: all are.
        told: what it raises ends the answer.
    Returns:
        One table; `complete_to_ns` in the metadata of its schema is the time up to which the node knew everything.
    Raises:
        HistoryCutShort: some pieces came, and then none did.
    """
    tables: list[pa.Table] = []
    rows = 0
    complete_to_ns: int | None = None
    while True:
        if limit is not None:
            asked = msgspec.structs.replace(asked, rows_max=min(limit - rows, LIMITED_ROWS))
        try:
            reply = yield from _piece(kind, asked)
            piece = understood(kind.name, reply.result, _Piece)
            tables.append(table_of(kind.name, reply.raw))
        except ClientError as error:
            if not tables:
                raise
            raise HistoryCutShort(error, _joined(tables, complete_to_ns or 0), asked.cursor) from error
        known = piece.complete_to_ns
        complete_to_ns = known if complete_to_ns is None else min(complete_to_ns, known)
        asked = msgspec.structs.replace(asked, cursor=piece.next)
        rows += len(tables[-1])
        if told is not None:
            told(rows)
        if not piece.next or (limit is not None and rows >= limit):
            return _joined(tables, complete_to_ns, piece.next)


def _rows(
    items: str | int | Sequence[str | int],
    asked: RowsQuestion,
    limit: int | None,
    told: ToldRows | None,
    *,
    is_wide: bool,
    is_raw: bool,
) -> Conversation["pa.Table"]:
    """The whole answer about these items."""
    listed = [items] if isinstance(items, str | int) else items
    asked = msgspec.structs.replace(
        asked,
        names=tuple(one for one in listed if isinstance(one, str)),
        item_ids=tuple(one for one in listed if isinstance(one, int)),
    )
    answer = pieces(HISTORY_PIECE, asked, limit, told)
    return answer if is_raw else _readable(answer, asked.aggregate, is_wide=is_wide)


def _readable(answer: Conversation["pa.Table"], aggregate: Aggregate, *, is_wide: bool) -> Conversation["pa.Table"]:
    from albireo.client import readable

    def read(table: "pa.Table") -> "pa.Table":
        kinds = items_of(table)
        try:
            found = readable.typed(table, kinds, aggregate)
        except (ValueError, LookupError, TypeError) as error:
            raise AnswerNotUnderstood(HISTORY_PIECE.name, str(error)) from error
        shown = readable.readable(readable.wide(found, kinds, aggregate) if is_wide else found)
        return shown.replace_schema_metadata(table.schema.metadata)

    return _read_by(read, answer)


def _read_by(read: Callable[["pa.Table"], "pa.Table"], answer: Conversation["pa.Table"]) -> Conversation["pa.Table"]:
    """The answer as `read` makes it of what came, all or some of it."""
    try:
        return read((yield from answer))
    except HistoryCutShort as cut:
        cut.table = read(cut.table)
        raise


def _named(events: "pa.Table") -> "pa.Table":
    """Events with the full names of their items."""
    import pyarrow as pa

    names: dict[int | None, str] = {one.item_id: one.name for one in items_of(events)}
    found = [names.get(item_id) for item_id in events["item_id"].to_pylist()]
    return events.append_column("item", pa.array(found, pa.string()))


def _piece(kind: QuestionKind[PieceT, Any], asked: PieceT) -> Conversation[NodeReply]:
    """One piece, asked for again while what is wrong may pass."""
    for tries in range(TRIES_MAX):
        try:
            return (yield request_of(kind, asked, pause_s=PAUSE_S if tries else 0.0))
        except NodeRefused as error:
            if tries == TRIES_MAX - 1 or not kind_of_code(error.code).may_pass:
                raise
    raise AssertionError("the last try returns or raises")


def table_of(what: str, raw: Sequence[bytes | memoryview]) -> "pa.Table":
    import pyarrow as pa  # A client that asks for no history does without it.

    try:
        (part,) = raw
        return pa.ipc.open_stream(pa.py_buffer(part)).read_all()
    except (ValueError, pa.ArrowException) as error:
        raise AnswerNotUnderstood(what, str(error)) from error


def _joined(tables: Sequence["pa.Table"], complete_to_ns: int, goes_on_at: str = "") -> "pa.Table":
    import pyarrow as pa

    from albireo.codec.item_kinds import metadata_of

    items = {one.item_id: one for table in tables for one in items_of(table)}
    known = {b"complete_to_ns": b"%d" % complete_to_ns, **metadata_of(list(items.values()))}
    if goes_on_at:
        known[b"next"] = goes_on_at.encode()
    return pa.concat_tables(tables).replace_schema_metadata(known)


def items_of(table: "pa.Table") -> list["ItemKinds"]:
    """The items that an answer names.

    Raises:
        AnswerNotUnderstood: what it says of them is no such thing.
    """
    from albireo.codec.item_kinds import kinds_in

    try:
        return kinds_in(table.schema.metadata)
    except msgspec.DecodeError as error:
        raise AnswerNotUnderstood(HISTORY_PIECE.name, str(error)) from error
