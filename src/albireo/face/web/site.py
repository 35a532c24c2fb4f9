"""PageSite: what a browser asks for over HTTP, and the line of each page.

    GET /                  the page, and its bundle below /static/
    POST /login, /logout   a token for the first word of a page
    WS /ws                 one page (pages.py)

Nobody but pages of the known addresses is heard (`Origin`, `Host`), and nothing of another server is loaded.
"""

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from albireo.client import ClientError
from albireo.face.web.face import STATIC, Face, counted
from albireo.face.web.logins import PageLogin
from albireo.face.web.pages import Page
from albireo.face.web.refusals import HttpRefused, ShapeT, asked_of, refusal_of
from albireo.model.refusal import Refusal, RefusalCode

TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}
LINES_MAX: Final = 500
LINES_OF_ONE_MAX: Final = 250
"""Most pages, and of one address."""
BODY_BYTES_MAX: Final = 4_096
"""Longest body of a login."""
TOO_MANY: Final = 4029
STRANGE: Final = 4003


class PageLogout(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of POST /logout."""

    token: str


class PageSite:
    """Routes of the face."""

    def __init__(self, face: Face) -> None:
        self._face = face
        self._addresses = face.addresses
        self._logins = face.logins
        urls = face.addresses.urls
        others = Middleware(  # A page of the other member posts here too.
            CORSMiddleware, allow_origins=urls, allow_methods=["POST"], allow_headers=["content-type"]
        )
        self.app = Starlette(
            routes=[
                Route("/", self._index),
                Route("/static/{name}", self._static),
                Route("/favicon.ico", self._nothing),
                Route("/login", self._login, methods=["POST"]),
                Route("/logout", self._logout, methods=["POST"]),
                *face.reports.routes,
                WebSocketRoute("/ws", self._line),
            ],
            middleware=[others],
        )
        self._headers = self._headers_of(urls)

    def _headers_of(self, urls: tuple[str, ...]) -> Mapping[str, str]:
        lines = " ".join(f"{one} {one.replace('http', 'ws', 1)}" for one in urls)
        policy = (
            f"default-src 'self'; connect-src 'self' {lines}; img-src 'self' data:; frame-src 'self' {' '.join(urls)}; "
            "object-src 'none'; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        return {
            "content-security-policy": policy,
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
            "cache-control": "no-cache",
        }

    def _answer(self, body: bytes, media_type: str, status: int = 200) -> Response:
        return Response(body, status, self._headers, media_type)

    async def _index(self, request: Request) -> Response:
        if not self._addresses.knows_host(request.headers.get("host", "")):
            return PlainTextResponse("this name is none of this page; name it in `urls` of the face\n", 421)
        return self._file("index.html")

    async def _static(self, request: Request) -> Response:
        return self._file(request.path_params["name"])

    def _file(self, name: str) -> Response:
        file = STATIC / name
        if file.suffix not in TYPES or file not in STATIC.iterdir():
            return PlainTextResponse("there is no such file\n", 404)
        return self._answer(file.read_bytes(), TYPES[file.suffix])

    async def _nothing(self, _: Request) -> Response:
        return self._answer(b"", "image/x-icon", 204)

    async def _login(self, request: Request) -> Response:
        return await self._posted(request, PageLogin, lambda asked: self._logins.log_in(asked, _address(request)))

    async def _logout(self, request: Request) -> Response:
        return await self._posted(request, PageLogout, lambda asked: self._logins.log_out(asked.token))

    async def _posted(
        self, request: Request, shape: type[ShapeT], answer: Callable[[ShapeT], Awaitable[object]]
    ) -> Response:
        """Answer a page that posts a form."""
        origin, host = request.headers.get("origin", ""), request.headers.get("host", "")
        if not self._addresses.knows_origin(origin, host):
            refusal = Refusal(RefusalCode.ACCESS, f"no page of {origin[:200]!r} may log in here")
            return HttpRefused(403, refusal).response(self._headers)
        try:
            asked = await asked_of(request, shape, BODY_BYTES_MAX)
            return self._answer(msgspec.json.encode(await answer(asked)), "application/json")
        except HttpRefused as error:
            return error.response(self._headers)
        except ClientError as error:
            return refusal_of(error).response(self._headers)

    async def _line(self, websocket: WebSocket) -> None:
        origin, host = websocket.headers.get("origin", ""), websocket.headers.get("host", "")
        address = _address(websocket)
        await websocket.accept()
        if not self._addresses.knows_origin(origin, host):
            await websocket.close(STRANGE, "no page of that address may speak here")
            return
        pages = self._face.pages
        if pages.total() >= LINES_MAX or pages[address] >= LINES_OF_ONE_MAX:
            await websocket.close(TOO_MANY, f"{pages[address]} pages of this address, {pages.total()} in all")
            return
        with contextlib.suppress(WebSocketDisconnect, TimeoutError, RuntimeError), counted(pages, address):
            await Page(websocket, self._face).run()  # Suppressed: the browser is gone.


def _address(request: Request | WebSocket) -> str:
    return request.client.host if request.client is not None else ""
