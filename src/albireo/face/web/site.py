"""PageSite: what a browser asks for over HTTP, and the line of each page.

    GET /                  the page, and its bundle below /static/
    POST /login, /logout   a token for the first word of a page
    WS /ws                 one page (pages.py)

Nobody but pages of the known addresses is heard (`Origin`, `Host`), and nothing of another server is loaded.
"""

import contextlib
import ipaddress
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from albireo.client import ClientError
from albireo.face.web.logins import LoginRefused, Logins, PageLogin
from albireo.face.web.pages import Page, PageHost
from albireo.face.web.settings import url_parts
from albireo.model.refusal import Refusal, RefusalCode

STATIC: Final = Path(__file__).parent / "static"
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


AskedT = TypeVar("AskedT", bound=msgspec.Struct)


class Addresses:
    """Where browsers may find the page, and who may therefore speak to it."""

    def __init__(self, urls: tuple[str, ...], own_host: str) -> None:
        self.urls = tuple(one.rstrip("/") for one in urls)
        self._hosts = {url_parts(one).hostname for one in urls} | {"localhost", own_host.lower()}

    def knows_host(self, host: str) -> bool:
        """Whether a page may be asked for at this `Host`: a name that is not ours is one that somebody led here."""
        name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
        with contextlib.suppress(ValueError):
            ipaddress.ip_address(name.strip("[]"))
            return True
        return name in self._hosts

    def knows_origin(self, origin: str, host: str) -> bool:
        """Whether a page of this `Origin` may speak: it is one of ours, or was loaded where it speaks to."""
        return origin in self.urls or (origin.partition("://")[2] == host and self.knows_host(host))


class WebSocketLine:
    """The line of a page."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket

    async def send(self, text: bytes) -> None:
        await self._websocket.send({"type": "websocket.send", "text": text.decode()})

    async def receive(self) -> str | bytes | None:
        message = await self._websocket.receive()
        if message["type"] != "websocket.receive":
            return None
        found: str | bytes | None = message.get("text")
        return found if found is not None else message["bytes"]

    async def close(self, code: int, reason: str) -> None:
        if self._websocket.application_state is WebSocketState.CONNECTED:
            await self._websocket.close(code, reason)


class PageSite:
    """Routes of the face."""

    def __init__(self, host: PageHost, addresses: Addresses, logins: Logins) -> None:
        self._host = host
        self._addresses = addresses
        self._logins = logins
        self._lines: Counter[str] = Counter()
        self.pages: set[Page] = set()
        self.app = Starlette(
            routes=[
                Route("/", self._index),
                Route("/static/{name}", self._static),
                Route("/favicon.ico", self._nothing),
                Route("/login", self._login, methods=["POST"]),
                Route("/login", self._asked_before, methods=["OPTIONS"]),
                Route("/logout", self._logout, methods=["POST"]),
                Route("/logout", self._asked_before, methods=["OPTIONS"]),
                WebSocketRoute("/ws", self._line),
            ]
        )
        self._headers = self._headers_of(addresses.urls)

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

    async def _asked_before(self, request: Request) -> Response:
        """Let a page of the other member post here: it asks before (Fetch standard, CORS preflight)."""
        allowed = {"access-control-allow-methods": "POST", "access-control-allow-headers": "content-type"}
        return Response(status_code=204, headers={**self._shared(request), **allowed})

    def _shared(self, request: Request) -> dict[str, str]:
        """Headers that let a page of the other member read an answer."""
        origin = request.headers.get("origin", "")
        return {"access-control-allow-origin": origin, "vary": "origin"} if origin in self._addresses.urls else {}

    async def _login(self, request: Request) -> Response:
        return await self._posted(request, PageLogin, lambda asked: self._logins.log_in(asked, _address(request)))

    async def _logout(self, request: Request) -> Response:
        return await self._posted(request, PageLogout, lambda asked: self._logins.log_out(asked.token))

    async def _posted(
        self, request: Request, shape: type[AskedT], answer: Callable[[AskedT], Awaitable[object]]
    ) -> Response:
        """Answer a page that posts a form."""
        origin, host = request.headers.get("origin", ""), request.headers.get("host", "")
        if not self._addresses.knows_origin(origin, host):
            return self._refused(403, Refusal(RefusalCode.ACCESS, f"no page of {origin[:200]!r} may log in here"))
        try:
            asked = msgspec.json.decode(await _body(request), type=shape)
            answered = self._answer(msgspec.json.encode(await answer(asked)), "application/json")
        except LoginRefused as refused:
            answered = self._refused(refused.status, refused.refusal)
        except (msgspec.DecodeError, UnicodeError) as error:
            answered = self._refused(400, Refusal(RefusalCode.MALFORMED, str(error)))
        except ClientError as error:
            answered = self._refused(503, Refusal(RefusalCode.NO_ANSWER, error.cause, error.remedy))
        answered.headers.update(self._shared(request))
        return answered

    def _refused(self, status: int, refusal: Refusal) -> Response:
        return self._answer(msgspec.json.encode(refusal), "application/json", status)

    async def _line(self, websocket: WebSocket) -> None:
        origin, host = websocket.headers.get("origin", ""), websocket.headers.get("host", "")
        address = _address(websocket)
        await websocket.accept()
        if not self._addresses.knows_origin(origin, host):
            await websocket.close(STRANGE, "no page of that address may speak here")
            return
        if self._lines.total() >= LINES_MAX or self._lines[address] >= LINES_OF_ONE_MAX:
            await websocket.close(
                TOO_MANY, f"{self._lines[address]} pages of this address, {self._lines.total()} in all"
            )
            return
        self._lines[address] += 1
        page = Page(WebSocketLine(websocket), self._host)
        self.pages.add(page)
        try:
            with contextlib.suppress(WebSocketDisconnect, TimeoutError, RuntimeError):  # The browser is gone.
                await page.run()
        finally:
            self.pages.discard(page)
            self._lines[address] -= 1
            if not self._lines[address]:
                del self._lines[address]


async def _body(request: Request) -> bytes:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > BODY_BYTES_MAX:
            raise LoginRefused(413, Refusal(RefusalCode.MALFORMED, f"more than {BODY_BYTES_MAX} bytes"))
    return body


def _address(request: Request | WebSocket) -> str:
    return request.client.host if request.client is not None else ""
