"""Machines: what programs that watch over a node ask its face.

    GET /livez      200 while the loop of the face turns
    GET /readyz     200 while the own member is heard; else 503, and why
    GET /leader     200 if the own member leads, as it says itself; else 503
    GET /metrics    figures for Prometheus; ?items=PATTERN adds values of up to 1,000 items

However many ask, the node is asked once a second at most.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from albireo.client import ClientError
from albireo.codec.questions.boot import ACTORS
from albireo.codec.questions.kind import Nothing, QuestionKind
from albireo.codec.questions.node import STATUS, TREE
from albireo.face.web.arrivals import CountedAnswers
from albireo.face.web.callers import Callers
from albireo.face.web.face import Face
from albireo.face.web.metrics import CONTENT_TYPE, ScrapedNode, exposition, items_exposition, leads, role_of
from albireo.face.web.refusals import HttpRefused, malformed
from albireo.face.web.rest import Rest
from albireo.face.web.words import Pattern
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.status import NodeStatus

KEPT_S: Final = 1.0
"""Time for which an answer of the node is told again."""
ASKED_S: Final = 2.0
"""Time that the node has for it."""
ITEMS_MAX: Final = 1_000
"""Most items of one scrape."""

MadeT = TypeVar("MadeT")


class Kept(Generic[MadeT]):
    """Something that is made once a second at most, for whoever wants it meanwhile."""

    def __init__(self, make: Callable[[], Awaitable[MadeT]]) -> None:
        self._make = make
        self._making: asyncio.Future[MadeT] | None = None
        self._until = 0.0

    async def get(self) -> MadeT:
        now = asyncio.get_running_loop().time()
        if self._making is None or (self._making.done() and now >= self._until):
            self._making, self._until = asyncio.ensure_future(self._make()), now + KEPT_S
        return await asyncio.shield(self._making)


class Machines:
    """Routes for machines."""

    def __init__(self, face: Face) -> None:
        self._face = face
        self._callers = Callers(face)
        self._status = Kept(self._ask_status)
        self._text = Kept(self._exposition)

    def before(self, app: ASGIApp) -> ASGIApp:
        """The whole application: these routes and those of programs, then another one; all its answers are counted."""
        own = [
            Route("/livez", self._livez),
            Route("/readyz", self._readyz),
            Route("/leader", self._leader),
            Route("/metrics", self._metrics),
            *Rest(self._face, self._callers).routes,
        ]
        self._answers = CountedAnswers(Starlette(routes=[*own, Mount("/", app)]))
        return self._answers

    async def _livez(self, _: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _readyz(self, _: Request) -> Response:
        if self._face.is_heard:
            return PlainTextResponse("ok\n")
        return PlainTextResponse("the own member is not heard\n", 503)

    async def _leader(self, _: Request) -> Response:
        status = await self._status.get()
        if status is None:
            return PlainTextResponse("the own member does not answer\n", 503)
        return PlainTextResponse(f"{role_of(status)}\n", 200 if leads(status) else 503)

    async def _metrics(self, request: Request) -> Response:
        try:
            await self._callers.looking(request, is_near_enough=True)
            items = await self._items(request.query_params.get("items", ""))
            text = await self._text.get() + items
        except HttpRefused as error:
            return error.response()
        return Response(text, media_type=CONTENT_TYPE)

    async def _items(self, pattern: str) -> bytes:
        if not pattern:
            return b""
        try:
            msgspec.convert(pattern, Pattern)
        except msgspec.ValidationError as error:
            raise malformed(error) from error
        rows = await self._face.state.search(self._face.full_name(pattern), limit=ITEMS_MAX + 1)
        if len(rows) > ITEMS_MAX:
            cause = f"more than {ITEMS_MAX} items are called {pattern!r:.80}"
            raise HttpRefused(422, Refusal(RefusalCode.TOO_MUCH, cause, "name fewer of them"))
        return items_exposition(self._face, rows)

    async def _ask(self, kind: QuestionKind[Nothing, Any]) -> Any:
        """The answer; None: there is none."""
        try:
            return await self._face.pinned.ask_kind(kind, Nothing(), ASKED_S)
        except ClientError:
            return None

    async def _ask_status(self) -> NodeStatus | None:
        status: NodeStatus | None = await self._ask(STATUS)
        return status

    async def _exposition(self) -> bytes:
        status, tree, actors = await asyncio.gather(self._status.get(), self._ask(TREE), self._ask(ACTORS))
        told = ScrapedNode(status=status, tree=tree or (), actors=actors or ())
        return exposition(self._face, self._answers, told)
