"""REST: `/api/v1` for programs: the methods of the page, and some of its own; bounded as they are.

    GET /api/v1/NAME?argument=...      whatever reads; lists with commas
    POST /api/v1/NAME                  whatever does something; its arguments are the JSON body

    request --> who asks (callers.py) --> arguments --> state of the face, or client as the person --> JSON

What is told at once (`items`, `read`, `watch`) comes out of the state of the face and costs the node nothing.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from albireo.client.conversation import Conversation, request_of, understood
from albireo.client.errors import ClientError
from albireo.client.history import items_of, table_of, wall_ns
from albireo.client.questions import NodeReply
from albireo.codec.questions.history import HISTORY_PIECE, PIECE_ROWS_MAX, Aggregate, RowsQuestion
from albireo.face.web.callers import Callers, no_token
from albireo.face.web.face import Face
from albireo.face.web.method import JSON, Count, Method, method, named
from albireo.face.web.openapi import PREFIX, lists_of, openapi
from albireo.face.web.plain import plain
from albireo.face.web.refusals import HttpRefused, asked_of, malformed, refusal_of
from albireo.face.web.state import Row
from albireo.face.web.watches import Watch
from albireo.face.web.words import ChangesTold, PagePerson, Pattern, Shown
from albireo.model.bounded import Text
from albireo.model.instant import MS, SECOND
from albireo.model.item import DataItem
from albireo.model.refusal import Refusal, RefusalCode

LINES: Final = "application/x-ndjson"
CSV: Final = "text/csv"
REQUESTS_MAX: Final = 64
"""Requests under way; one more is refused."""
WATCHES_MAX: Final = 100
BODY_BYTES_MAX: Final = 256 << 10
ANSWER_BYTES_MAX: Final = 16 << 20
PAGE_MAX: Final = 1_000
"""Most items of one answer."""
NAMES_MAX: Final = 100
"""Most items that one question names."""
Names = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=300)], ...], Meta(min_length=1, max_length=NAMES_MAX)
]
_ANY: Final = ["GET", "POST", "PUT", "PATCH", "DELETE"]


class ItemTold(msgspec.Struct, frozen=True, kw_only=True):
    """An item, and its latest value."""

    name: str
    """Full name."""
    node: str
    item: DataItem
    value: Shown = None
    """None: no value is known."""
    quality: int | None = None
    source_ms: int | None = None


class ItemsTold(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `items` and `read`."""

    at_ms: int
    """Time of the face."""
    items: list[ItemTold]
    stale: dict[str, int]
    """Nodes that are not heard: their values are old; with the time since when, 0: never."""
    next: str = ""
    """`cursor` of the next question; empty: that is all."""


class Rest:
    """Routes for programs."""

    def __init__(self, face: Face, callers: Callers) -> None:
        self._face = face
        self._callers = callers
        self._under_way = 0
        reading = partial(method, is_reading=True, needs_token=False)
        self._own = named(
            reading(answer=ItemsTold)(self.items),
            reading(answer=ItemsTold)(self.read),
            reading(answer=ChangesTold, media=("text/event-stream",))(self.watch),
            method(is_reading=True, answer=dict[str, Any], media=(LINES, CSV))(self.history),
        )
        self.methods = self._own | {name: one for name, one in face.methods.items() if not one.is_for_pages}
        self._openapi = msgspec.json.encode(openapi(self.methods))
        self.routes = [
            Route(f"{PREFIX}/openapi.json", self._document),
            Route(f"{PREFIX}/{{name}}", self._asked, methods=_ANY),
            Route("/api/{rest:path}", self._asked, methods=_ANY),
        ]

    async def _document(self, _: Request) -> Response:
        return Response(self._openapi, media_type=JSON)

    async def _asked(self, request: Request) -> Response:
        if self._under_way >= REQUESTS_MAX:
            cause = f"{REQUESTS_MAX} requests are under way"
            return HttpRefused(429, Refusal(RefusalCode.BUSY, cause, "ask again a little later")).response()
        self._under_way += 1
        try:
            return await self._answer(request)
        except HttpRefused as error:
            return error.response()
        except (ClientError, ValueError) as error:  # A method judges more of its arguments than their form.
            return refusal_of(error).response()
        finally:
            self._under_way -= 1

    async def _answer(self, request: Request) -> Response:
        asked_for = self.methods.get(request.path_params.get("name", ""))
        if asked_for is None:
            cause = f"there is no {request.url.path!r:.80} here"
            raise HttpRefused(404, Refusal(RefusalCode.UNKNOWN_NAME, cause, f"{PREFIX}/openapi.json lists all"))
        verb = "GET" if asked_for.is_reading else "POST"
        if request.method != verb:
            raise HttpRefused(405, Refusal(RefusalCode.MALFORMED, f"{asked_for.name} is asked by {verb}"))
        person = await self._callers.looking(request)
        if person is None and asked_for.needs_token:
            raise no_token()
        asked = await _arguments(asked_for, request)
        if asked_for.name in self._own:
            told: Response = await asked_for.run(request, person, asked=asked)
            return told
        return await asyncio.to_thread(_json, await asked_for.run(self._face.client_of(person), asked=asked))

    async def items(
        self,
        *_: object,
        pattern: Pattern = "*",
        limit: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = 100,
        cursor: Annotated[str, Meta(max_length=300)] = "",
    ) -> Response:
        """Items with their latest values, by full name with * and ?; `*:*` are those of all nodes."""
        rows = await self._face.state.search(self._face.full_name(pattern), cursor, limit + 1)
        return self._told(rows[:limit], rows[limit - 1].name if len(rows) > limit else "")

    async def read(self, *_: object, names: Names) -> Response:
        """Latest values of named items."""
        rows = []
        for name in names:
            row = self._face.state.row_of(self._face.full_name(name))
            if row is None:
                cause = f"no item {name!r:.100}"
                raise HttpRefused(404, Refusal(RefusalCode.UNKNOWN_ITEM, cause, f"{PREFIX}/items lists them"))
            rows.append(row)
        return self._told(rows)

    def _told(self, rows: Sequence[Row], after: str = "") -> Response:
        """Items with their values, unless these may be old."""
        face = self._face
        if not face.is_heard:
            cause = "the member beside this face is not heard, so nothing is known that is so right now"
            raise HttpRefused(503, Refusal(RefusalCode.NO_ANSWER, cause, "ask the face of the other member"))
        nodes = {one.shown.node for one in rows}
        stale = {node: since for node, since in face.state.stale.items() if node in nodes}
        told = ItemsTold(at_ms=face.now_ms(), items=[_item(one) for one in rows], stale=stale, next=after)
        return Response(msgspec.json.encode(told), media_type=JSON)

    async def watch(
        self, request: Request, _: object, *, pattern: Annotated[tuple[Pattern, ...], Meta(min_length=1, max_length=20)]
    ) -> Response:
        """Changes, as server-sent events `changes` and, once a second, `alive`."""
        watches, address = self._face.watches, "" if request.client is None else request.client.host
        if watches.total() >= WATCHES_MAX or watches[address] >= WATCHES_MAX // 2:
            cause = f"{watches.total()} watches are open, {WATCHES_MAX} at most and half of them from one address"
            raise HttpRefused(429, Refusal(RefusalCode.FULL, cause, "end some, or watch with more patterns in one"))
        wanted = tuple(map(self._face.full_name, pattern))
        return Watch(self._face, wanted, address, partial(self._callers.looking, request))

    async def history(
        self,
        request: Request,
        person: PagePerson,
        *,
        items: Names,
        start_ms: Count,
        end_ms: Count | None = None,
        aggregate: Aggregate = "",
        every_s: Annotated[float, Meta(ge=0, le=366 * 86_400)] = 0.0,
        limit: Annotated[int, Meta(ge=1, le=PIECE_ROWS_MAX)] = 1_000,
        cursor: Text = "",
    ) -> Response:
        """Stored values, or aggregates of them by intervals, in pieces: header `albireo-next` is the next `cursor`."""
        question = RowsQuestion(
            names=items,
            from_ns=start_ms * MS,
            to_ns=wall_ns(None) if end_ms is None else end_ms * MS,
            aggregate=aggregate,
            bucket_ns=round(every_s * SECOND),
            cursor=cursor,
            rows_max=limit,
        )

        def asking() -> Conversation[NodeReply]:
            return (yield request_of(HISTORY_PIECE, question))

        reply = await self._face.client_of(person).converse(asking())
        after = understood(HISTORY_PIECE.name, reply.result, _Next).next
        media = CSV if CSV in request.headers.get("accept", "") else LINES
        body = await asyncio.to_thread(_rows, reply, aggregate, media)
        return Response(body, media_type=media, headers={"albireo-next": after} if after else None)


async def _arguments(asked_for: Method, request: Request) -> msgspec.Struct:
    """Arguments of a request. Raises HttpRefused: they are no such thing."""
    if not asked_for.is_reading:
        return await asked_of(request, asked_for.arguments, BODY_BYTES_MAX)
    given, lists = request.query_params, lists_of(asked_for)
    if len(given) < len(given.multi_items()):
        raise HttpRefused(422, Refusal(RefusalCode.MALFORMED, "an argument is given twice; lists have commas"))
    told = {name: text.split(",") if name in lists else text for name, text in given.items()}
    try:
        return msgspec.convert(told, asked_for.arguments, strict=False)
    except ValueError as error:
        raise malformed(error) from error


def _json(found: object) -> Response:
    body = msgspec.json.encode(plain(found))
    if len(body) > ANSWER_BYTES_MAX:
        cause = f"the answer has {len(body)} bytes, and may have {ANSWER_BYTES_MAX}"
        raise HttpRefused(413, Refusal(RefusalCode.TOO_MUCH, cause, "ask for less, or of one node"))
    return Response(body, media_type=JSON)


def _item(row: Row) -> ItemTold:
    _, value, quality, at_ms = row.value or (0, None, None, None)
    shown = row.shown
    return ItemTold(name=row.name, node=shown.node, item=shown.item, value=value, quality=quality, source_ms=at_ms)


class _Next(msgspec.Struct):
    next: str = ""


def _rows(reply: NodeReply, aggregate: str, media: str) -> bytes:
    from pyarrow import BufferOutputStream, csv  # Arrow is loaded with the first history.

    from albireo.client import readable

    table = table_of(HISTORY_PIECE.name, reply.raw)
    told = readable.readable(readable.typed(table, items_of(table), aggregate))
    if media == CSV:
        sink = BufferOutputStream()
        csv.write_csv(told, sink)
        return bytes(sink.getvalue())
    return msgspec.json.Encoder().encode_lines([plain(one) for one in told.to_pylist()])
