"""Watches: what changes, as server-sent events. A reader who is slow gets the latest of each item.

    event: changes      `ChangesTold`: all of it at first, then what changed, 20 times a second at most
    event: alive        `Alive`, once a second

Spec: WHATWG HTML, 9.2 (server-sent events).
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from albireo.face.web.face import Face, counted, until_first
from albireo.face.web.pages import STUCK_S
from albireo.face.web.refusals import HttpRefused
from albireo.face.web.state import Wanted

ALIVE_S: Final = 1.0
JUDGED_S: Final = 10.0
"""Time after which it is looked again whether its reader may look."""
TICK_HZ: Final = 10.0


class Watch(Response):
    """One watch, until its reader ends it, or takes nothing."""

    media_type = "text/event-stream"

    def __init__(self, face: Face, wanted: Wanted, address: str, may: Callable[[], Awaitable[object]]) -> None:
        """`may`: raises HttpRefused once its reader may look no more."""
        super().__init__(headers={"x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._face = face
        self._seen = face.state.seen(wanted)
        self._address = address
        self._may = may

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.suppress(HttpRefused, TimeoutError), counted(self._face.watches, self._address):
            await until_first(self._tell(send), _gone(receive))  # Suppressed: it may look no more, or takes nothing.

    async def _tell(self, send: Send) -> None:
        loop = asyncio.get_running_loop()
        tick, alive_at, judged_at = 0, 0.0, loop.time() + JUDGED_S
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        while True:
            said = b""
            if loop.time() >= alive_at:
                alive_at = loop.time() + ALIVE_S
                said = _event("alive", msgspec.json.encode(self._face.alive(TICK_HZ)))
            if loop.time() >= judged_at:
                judged_at = loop.time() + JUDGED_S
                await self._judge()
            text = self._face.state.since(self._seen, tick, self._face.now_ms(), is_named=True)
            tick = tick if text is None else self._face.state.tick
            if text:
                said += _event("changes", text)
            if said:
                async with asyncio.timeout(STUCK_S):
                    await send({"type": "http.response.body", "body": said, "more_body": True})
            await self._face.next_tick()

    async def _judge(self) -> None:
        """Raises HttpRefused: its reader may look no more. While nobody can say that it goes on."""
        try:
            await self._may()
        except HttpRefused as error:
            if error.status == 401:
                raise


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _event(name: str, text: bytes) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), text)
