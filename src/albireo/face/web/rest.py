"""REST: `/api/v1` for programs: the client's methods by their names, bounded as they are.

    request --> who asks (callers.py) --> arguments --> state of the face, or client as the person --> JSON

What is told at once (`items`, `read`, `watch`) comes out of the state of the face and costs the node nothing.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from albireo.client import AsyncClient
from albireo.client.conversation import Conversation, request_of, understood
from albireo.client.errors import ClientBusy, ClientError, NodeRefused, OutcomeUnknown
from albireo.client.history import items_of, table_of, wall_ns
from albireo.client.questions import NodeReply
from albireo.codec.questions.history import HISTORY_PIECE, RowsQuestion
from albireo.face.web.callers import CallerHost, CallerRefused, Callers, no_token, refused
from albireo.face.web.operations import (
    CSV,
    JSON,
    LINES,
    OPERATIONS,
    PREFIX,
    HistoryRead,
    ItemsListed,
    ItemsRead,
    ItemsTold,
    ItemsWatched,
    ItemTold,
    Operation,
    full_name,
    lists_of,
    openapi,
)
from albireo.face.web.plain import plain
from albireo.face.web.state import PlantState, Row
from albireo.face.web.watches import Watch
from albireo.model.instant import MS, SECOND
from albireo.model.refusal import Refusal, RefusalCode, kind_of_code

REQUESTS_MAX: Final = 64
"""Requests under way; one more is refused."""
WATCHES_MAX: Final = 100
BODY_BYTES_MAX: Final = 256 << 10
ANSWER_BYTES_MAX: Final = 16 << 20
_BY_STATUS: Final[Mapping[int, str]] = {
    401: "session_over",
    403: "access ticket not_owner",
    404: "unknown_question unknown_item unknown_topic unknown_node unknown_name",
    413: "too_much",
    422: "malformed bad_value ambiguous",
    429: "busy",
    503: "full not_holder not_recording disk_failed damaged",
    504: "no_answer outcome_unknown",
}
"""Codes of docs/refusals.md by the status that they have; of all others it is 503 if it may pass, else 409."""
_STATUS: Final[dict[str, int]] = {code: status for status, codes in _BY_STATUS.items() for code in codes.split()}
_ANY: Final = ["GET", "POST", "PUT", "PATCH", "DELETE"]


class Rest:
    """Routes for programs."""

    def __init__(self, host: CallerHost, state: PlantState, callers: Callers) -> None:
        self._host = host
        self._state = state
        self._callers = callers
        self._under_way = 0
        self.watches: set[Watch] = set()
        self._openapi = msgspec.json.encode(openapi())
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
            return refused(CallerRefused(429, Refusal(RefusalCode.BUSY, cause, "ask again a little later")))
        self._under_way += 1
        try:
            return await self._answer(request)
        except CallerRefused as error:
            return refused(error)
        except ClientError as error:
            return refused(refusal_of(error))
        except ValueError as error:  # A method judges more of its arguments than their form.
            return refused(CallerRefused(422, Refusal(RefusalCode.MALFORMED, str(error)[:500])))
        finally:
            self._under_way -= 1

    async def _answer(self, request: Request) -> Response:
        operation = OPERATIONS.get(request.path_params.get("name", ""))
        if operation is None:
            cause = f"there is no {request.url.path!r:.80} here"
            raise CallerRefused(404, Refusal(RefusalCode.UNKNOWN_NAME, cause, f"{PREFIX}/openapi.json lists all"))
        method = "GET" if operation.is_reading else "POST"
        if request.method != method:
            raise CallerRefused(405, Refusal(RefusalCode.MALFORMED, f"{operation.name} is asked by {method}"))
        person = await self._callers.looking(request)
        if person is None and operation.needs_token:
            raise no_token()
        match await _arguments(operation, request):
            case ItemsListed() as asked:
                return await self._items(asked)
            case ItemsRead() as asked:
                return self._read(asked)
            case ItemsWatched() as asked:
                return self._watch(asked, request)
            case HistoryRead() as asked if person is not None:
                return await _history(self._host.client_of(person), asked, request.headers.get("accept", ""))
            case asked:
                assert person is not None
                found = await self._host.methods[operation.name].run(self._host.client_of(person), asked)
                return await asyncio.to_thread(_json, found)

    async def _items(self, asked: ItemsListed) -> Response:
        pattern = full_name(asked.pattern, self._host.facts().node)
        rows = await self._state.search(pattern, asked.cursor, asked.limit + 1)
        return self._told(rows[: asked.limit], rows[asked.limit - 1].name if len(rows) > asked.limit else "")

    def _read(self, asked: ItemsRead) -> Response:
        rows = []
        for name in asked.names:
            row = self._state.row_of(full_name(name, self._host.facts().node))
            if row is None:
                cause = f"no item {name!r:.100}"
                raise CallerRefused(404, Refusal(RefusalCode.UNKNOWN_ITEM, cause, f"{PREFIX}/items lists them"))
            rows.append(row)
        return self._told(rows)

    def _told(self, rows: Sequence[Row], after: str = "") -> Response:
        """Items with their values, unless these may be old."""
        if not self._host.facts().is_heard:
            cause = "the member beside this face is not heard, so nothing is known that is so right now"
            raise CallerRefused(503, Refusal(RefusalCode.NO_ANSWER, cause, "ask the face of the other member"))
        nodes = {one.shown.node for one in rows}
        stale = {node: since for node, since in self._state.stale.items() if node in nodes}
        told = ItemsTold(at_ms=self._host.now_ms(), items=[_item(one) for one in rows], stale=stale, next=after)
        return Response(msgspec.json.encode(told), media_type=JSON)

    def _watch(self, asked: ItemsWatched, request: Request) -> Response:
        address = "" if request.client is None else request.client.host
        of_address = sum(one.address == address for one in self.watches)
        if len(self.watches) >= WATCHES_MAX or of_address >= WATCHES_MAX // 2:
            cause = f"{len(self.watches)} watches are open, {WATCHES_MAX} at most and half of them from one address"
            raise CallerRefused(429, Refusal(RefusalCode.FULL, cause, "end some, or watch with more patterns in one"))
        wanted = tuple(full_name(one, self._host.facts().node) for one in asked.pattern)
        return Watch(self._host, self._state, wanted, address, partial(self._callers.looking, request), self.watches)


async def _arguments(operation: Operation, request: Request) -> msgspec.Struct:
    """Arguments of a request. Raises CallerRefused: they are no such thing."""
    try:
        if not operation.is_reading:
            body = await _body(request)
            return msgspec.json.decode(body or b"{}", type=operation.arguments)
        given: dict[str, Any] = dict(request.query_params)
        if len(given) < len(request.query_params.multi_items()):
            raise CallerRefused(422, Refusal(RefusalCode.MALFORMED, "an argument is given twice; lists have commas"))
        lists = lists_of(operation)
        told = {name: text.split(",") if name in lists else text for name, text in given.items()}
        return msgspec.convert(told, operation.arguments, strict=False)
    except (ValueError, RecursionError) as error:  # `ValidationError` and `DecodeError` are values that are wrong.
        status = 422 if isinstance(error, msgspec.ValidationError) else 400
        raise CallerRefused(status, Refusal(RefusalCode.MALFORMED, str(error)[:500])) from error


async def _body(request: Request) -> bytes:
    body = b""
    try:
        async for part in request.stream():
            body += part
            if len(body) > BODY_BYTES_MAX:
                raise CallerRefused(413, Refusal(RefusalCode.MALFORMED, f"more than {BODY_BYTES_MAX} bytes"))
    except ClientDisconnect as error:
        raise CallerRefused(408, Refusal(RefusalCode.MALFORMED, "the body did not come")) from error
    return body


def _json(found: object) -> Response:
    body = msgspec.json.encode(plain(found))
    if len(body) > ANSWER_BYTES_MAX:
        cause = f"the answer has {len(body)} bytes, and may have {ANSWER_BYTES_MAX}"
        raise CallerRefused(413, Refusal(RefusalCode.TOO_MUCH, cause, "ask for less, or of one node"))
    return Response(body, media_type=JSON)


def _item(row: Row) -> ItemTold:
    _, value, quality, at_ms = row.value or (0, None, None, None)
    shown = row.shown
    return ItemTold(name=row.name, node=shown.node, item=shown.item, value=value, quality=quality, source_ms=at_ms)


async def _history(client: AsyncClient, asked: HistoryRead, accept: str) -> Response:
    """One piece."""
    question = RowsQuestion(
        names=asked.items,
        from_ns=asked.start_ms * MS,
        to_ns=wall_ns(None) if asked.end_ms is None else asked.end_ms * MS,
        aggregate=asked.aggregate,
        bucket_ns=round(asked.every_s * SECOND),
        cursor=asked.cursor,
        rows_max=asked.limit,
    )

    def asking() -> Conversation[NodeReply]:
        return (yield request_of(HISTORY_PIECE, question))

    reply = await client.converse(asking())
    after = understood(HISTORY_PIECE.name, reply.result, _Next).next
    media = CSV if CSV in accept else LINES
    body = await asyncio.to_thread(_rows, reply, asked.aggregate, media)
    return Response(body, media_type=media, headers={"albireo-next": after} if after else None)


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


def refusal_of(error: ClientError) -> CallerRefused:
    """The refusal that an error of the client means."""
    if isinstance(error, OutcomeUnknown):
        return CallerRefused(504, Refusal(RefusalCode.OUTCOME_UNKNOWN, error.cause, error.remedy), is_unknown=True)
    if isinstance(error, NodeRefused):
        usual = 503 if kind_of_code(error.code).may_pass else 409
        return CallerRefused(_STATUS.get(error.code, usual), error.refusal)
    if isinstance(error, ValueError):
        return CallerRefused(422, Refusal(RefusalCode.MALFORMED, error.cause, error.remedy))
    status = 429 if isinstance(error, ClientBusy) else 504
    return CallerRefused(status, Refusal(RefusalCode.NO_ANSWER, error.cause, error.remedy))
