"""Arrivals: requests as they reach the face: bounded in size, time and number, their answers are counted.

uvicorn itself waits for the rest of a request for ever, takes as much of a head as comes, and has no bound for what one
address has open. Of a WebSocket it answers each ping, also when nobody reads the answers, and not each bad handshake.
"""

import asyncio
import socket
from collections import Counter
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode
from websockets.protocol import State

HEAD_BYTES_MAX: Final = 64 << 10
"""Longest head of a request; one piece of the network more may be taken."""
HEAD_S: Final = 10.0
"""Time that a head may take."""
BODY_S: Final = 10.0
"""Time that a body may take, whether somebody waits for it or it is answered already."""
CONNECTIONS_MAX: Final = 1_000
CONNECTIONS_OF_ONE_MAX: Final = 500
"""Most connections, and of one address."""
REFUSED_MAX: Final = 50
"""Connections beyond these that are told so, once their handshake is over; others end without a word."""
FRAMES_MAX: Final = 500
"""Frames of a WebSocket within a second, and of one message; a page has some in a second, each a message."""
PIECE_BYTES: Final = 4 << 10
"""Bytes of a WebSocket that are taken at a time: what comes at once may be many thousand frames."""
_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
)
_TOO_MANY: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 10\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
)


class BoundedListener(socket.socket):
    """Takes no more connections than there may be: a handshake takes memory, and nobody else counts those under way."""

    _taken: tuple[tuple[socket.socket, str], ...] = ()

    def accept(self) -> tuple[socket.socket, Any]:
        line, address = super().accept()
        self._taken = tuple(one for one in self._taken if one[0].fileno() >= 0)
        of_one = sum(host == address[0] for _, host in self._taken)
        if max(len(self._taken) - CONNECTIONS_MAX, of_one - CONNECTIONS_OF_ONE_MAX) >= REFUSED_MAX:
            line.close()
            raise ConnectionAbortedError
        self._taken += ((line, address[0]),)
        return line, address


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's protocol with bounds for a request, and for connections."""

    _head_bytes = 0
    _is_head = True
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # As uvicorn has it.
        super().connection_made(transport)
        self._await_head()
        address = _address_of(self)
        of_one = sum(_address_of(one) == address for one in self.connections)
        if len(self.connections) > CONNECTIONS_MAX or of_one > CONNECTIONS_OF_ONE_MAX:
            transport.write(_TOO_MANY)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._await_nothing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
                self.transport.write(_TOO_LARGE)
                self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._await_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_head:
            super().on_header(name, value)
        elif not self.transport.is_closing():  # Behind a body uvicorn would keep as many as come; no program sends any.
            self.transport.abort()

    def on_headers_complete(self) -> None:
        self._is_head = False
        self._await_nothing()
        self._timer = self.loop.call_later(BODY_S, self.transport.abort)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._await_nothing()
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        self._await_nothing()
        super().handle_websocket_upgrade()

    def _await_head(self) -> None:
        self._is_head, self._head_bytes = True, 0
        if self._timer is None:
            self._timer = self.loop.call_later(HEAD_S, self.transport.abort)

    def _await_nothing(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _address_of(connection: object) -> str:
    client = getattr(connection, "client", None)  # Of each protocol that uvicorn may have.
    return client[0] if client else ""


class BoundedSocket(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket, which refuses each bad handshake and floods of frames, and piles up no answers to pings."""

    _frames = 0
    _until = 0.0

    def data_received(self, data: bytes) -> None:
        for at in range(0, len(data), PIECE_BYTES):
            if not self.transport.is_closing():
                super().data_received(data[at : at + PIECE_BYTES])
        if self.conn.handshake_exc is not None and not self.transport.is_closing():
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()

    def handle_events(self) -> None:
        now = self.loop.time()
        if now >= self._until:
            self._frames, self._until = 0, now + 1.0
        self._frames += len(self.conn.events)
        if max(self._frames, len(self.frames)) <= FRAMES_MAX:
            super().handle_events()
        elif self.conn.state is State.OPEN:
            self.conn.send_close(CloseCode.POLICY_VIOLATION, f"more than {FRAMES_MAX} frames at once")
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()

    def handle_ping(self) -> None:
        if self.writable.is_set():
            super().handle_ping()
        else:  # Whoever does not read needs no answer either.
            self.conn.data_to_send()


class CountedAnswers:
    """An application whose answers are counted, and kept by nobody and taken for no other kind unless they say so."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.by_status: Counter[int] = Counter()
        """Answers, by their status."""
        self.by_close: Counter[int] = Counter()
        """Pages that the face closed, by the code (RFC 6455, 7.4)."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counting(message: Message) -> None:
            self._count(message)
            if message["type"] == "http.response.start":
                told = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(one for one in _HEADERS if one[0] not in told)]
            await send(message)

        await self._app(scope, receive, counting)

    def _count(self, message: "Message | dict[str, Any]") -> None:
        if message["type"] == "http.response.start":
            self.by_status[message["status"]] += 1
        elif message["type"] == "websocket.close":
            self.by_close[message.get("code", 1000)] += 1
