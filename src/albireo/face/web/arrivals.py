"""Arrivals: requests as they reach the face: their heads are bounded in size and time, their answers are counted.

uvicorn itself waits for the head of a first request for ever, and takes as much of it as comes.
"""

import asyncio
from collections import Counter
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES_MAX: Final = 64 << 10
"""Longest head of a request; one piece of the network more may be taken."""
HEAD_S: Final = 10.0
"""Time that a head may take."""
_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's protocol with bounds for the head of a request."""

    _head_bytes = 0
    _is_head = True
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # As uvicorn has it.
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._has_head()
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

    def on_headers_complete(self) -> None:
        self._has_head()
        super().on_headers_complete()

    def _await_head(self) -> None:
        self._is_head, self._head_bytes = True, 0
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_S, self.transport.abort)

    def _has_head(self) -> None:
        self._is_head = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


class CountedAnswers:
    """An application whose answers are counted."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.by_status: Counter[int] = Counter()
        """Answers, by their status."""
        self.by_close: Counter[int] = Counter()
        """Pages that the face closed, by the code (RFC 6455, 7.4)."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counting(message: Message) -> None:
            self._count(message)
            await send(message)

        await self._app(scope, receive, counting)

    def _count(self, message: "Message | dict[str, Any]") -> None:
        if message["type"] == "http.response.start":
            self.by_status[message["status"]] += 1
        elif message["type"] == "websocket.close":
            self.by_close[message.get("code", 1000)] += 1
