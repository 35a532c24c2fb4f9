"""Conversation: a generator that yields requests, is sent their replies, and returns what the caller wanted.

Whoever runs it decides how to wait: a thread or a coroutine (conversed.py).
"""

from collections.abc import Generator, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from albireo.client.errors import AnswerNotUnderstood
from albireo.client.questions import NodeReply, Request, sayable
from albireo.codec.questions.kind import QuestionKind, ShapeT, arguments_of
from albireo.codec.questions.pieces import PIECE_ENTRIES_MAX, InPieces

_Wanted = TypeVar("_Wanted")
_Row = TypeVar("_Row")
_PieceT = TypeVar("_PieceT", bound=InPieces)
Conversation = Generator[Request, NodeReply, _Wanted]


def understood(what: str, result: object, shape: type[_Wanted]) -> _Wanted:
    """The answer as a value.

    Raises:
        AnswerNotUnderstood: it has another form.
    """
    try:
        return msgspec.convert(result, shape)
    except msgspec.ValidationError as error:
        raise AnswerNotUnderstood(what, str(error)) from error


def request_of(
    kind: QuestionKind[ShapeT, Any],
    asked: ShapeT,
    wait_s: float | None = None,
    member: int | None = None,
    pause_s: float = 0.0,
) -> Request:
    """One question of the list, as a request."""
    return Request(
        what=kind.name,
        of=kind.answerer.part,
        arguments=sayable(kind.name, partial(arguments_of, asked)),
        wait_s=wait_s,
        member=member,
        pause_s=pause_s,
    )


def asks(
    kind: QuestionKind[ShapeT, _Wanted],
    asked: ShapeT,
    wait_s: float | None = None,
    member: int | None = None,
    pause_s: float = 0.0,
) -> Conversation[_Wanted]:
    """One question of the list, and its answer as a value.

    Args:
        wait_s: time that the answer may take; None: that of the client.
        member: member that is asked, acting or not; None: the one that acts.
        pause_s: time that whoever asks waits before.
    """
    reply = yield request_of(kind, asked, wait_s, member, pause_s)
    return understood(kind.name, reply.result, kind.answer)


class _Rows(msgspec.Struct, kw_only=True):
    """One piece of a long answer of CORE."""

    next: str
    rows: list[Any]


def all_rows(kind: QuestionKind[_PieceT, list[_Row]], asked: _PieceT) -> Conversation[list[_Row]]:
    """All rows of an answer that CORE gives in pieces."""
    found: list[_Row] = []
    asked = msgspec.structs.replace(asked, rows_max=PIECE_ENTRIES_MAX)
    while True:
        reply = yield request_of(kind, asked)
        piece = understood(kind.name, reply.result, _Rows)
        found += understood(kind.name, piece.rows, kind.answer)
        if not piece.next:
            return found
        asked = msgspec.structs.replace(asked, cursor=piece.next)


def patterns_of(names: str | Sequence[str]) -> list[str]:
    """One name or pattern, or several."""
    return [names] if isinstance(names, str) else sayable("names", lambda: msgspec.convert(list(names), list[str]))
