"""History of a client: a long answer as one Arrow table, put together from the pieces in which a node gives it.

A piece is a question of its own and its cursor means the same on both members, so an answer goes on behind a takeover.
Arrow is loaded with the first answer: a program that asks for no history does without it.

Spec: docs/node-protocol.md, Long answers, in pieces; ADR-0156.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from albireo.client.conversation import Conversation, understood
from albireo.client.errors import (
    AnswerNotUnderstood,
    ClientError,
    HistoryCutShort,
    NodeRefused,
)
from albireo.client.questions import NodeReply, Request
from albireo.model.refusal import kind_of_code

if TYPE_CHECKING:
    import pyarrow as pa

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


def pieces(
    what: str, arguments: dict[str, Any], limit: int | None = None, told: ToldRows | None = None
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
    cursor = str(arguments.get("cursor", ""))
    while True:
        try:
            left = {} if limit is None else {"rows_max": min(limit - rows, LIMITED_ROWS)}
            reply = yield from _piece(what, {**arguments, **left, "cursor": cursor})
            piece = understood(what, reply.result, _Piece)
            tables.append(_table(what, reply.raw))
        except ClientError as error:
            if not tables:
                raise
            raise HistoryCutShort(error, _joined(tables, complete_to_ns or 0), cursor) from error
        known = piece.complete_to_ns
        complete_to_ns = known if complete_to_ns is None else min(complete_to_ns, known)
        cursor = piece.next
        rows += len(tables[-1])
        if told is not None:
            told(rows)
        if not cursor or (limit is not None and rows >= limit):
            return _joined(tables, complete_to_ns)


def _piece(what: str, arguments: dict[str, Any]) -> Conversation[NodeReply]:
    """One piece, asked for again while what is wrong may pass."""
    for tries in range(TRIES_MAX):
        try:
            pause_s = PAUSE_S if tries else 0.0
            return (yield Request(what=what, of="history", arguments=arguments, pause_s=pause_s))
        except NodeRefused as error:
            if tries == TRIES_MAX - 1 or not kind_of_code(error.code).may_pass:
                raise
    raise AssertionError("the last try returns or raises")


def _table(what: str, raw: Sequence[bytes | memoryview]) -> "pa.Table":
    import pyarrow as pa  # A client that asks for no history does without it.

    try:
        (part,) = raw
        return pa.ipc.open_stream(pa.py_buffer(part)).read_all()
    except (ValueError, pa.ArrowException) as error:
        raise AnswerNotUnderstood(what, str(error)) from error


def _joined(tables: Sequence["pa.Table"], complete_to_ns: int) -> "pa.Table":
    import pyarrow as pa

    whole = pa.concat_tables(tables)
    return whole.replace_schema_metadata({**(whole.schema.metadata or {}), b"complete_to_ns": b"%d" % complete_to_ns})
