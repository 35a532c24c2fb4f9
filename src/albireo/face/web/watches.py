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

from albireo.face.web.callers import CallerHost, CallerRefused
from albireo.face.web.pages import STUCK_S
from albireo.face.web.state import PlantState, Wanted

ALIVE_S: Final = 1.0
JUDGED_S: Final = 10.0
"""Time after which it is looked again whether its reader may look."""
TICK_HZ: Final = 10.0


class Watch(Response):
    """One watch, until its reader ends it, or takes nothing."""

    media_type = "text/event-stream"

    def __init__(
        self,
        host: CallerHost,
        state: PlantState,
        wanted: Wanted,
        address: str,
        may: Callable[[], Awaitable[object]],
        all_: "set[Watch]",
    ) -> None:
        """
        Args:
            may: raises CallerRefused once its reader may look no more.
            all_: open watches; it is one of them from its begin to its end.
        """
        super().__init__(headers={"x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._host = host
        self._state = state
        self._seen = state.seen(wanted)
        self.address = address
        self._may = may
        self._all = all_

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._all.add(self)
        tasks = [asyncio.ensure_future(self._tell(send)), asyncio.ensure_future(_gone(receive))]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            with contextlib.suppress(CallerRefused, TimeoutError):  # Its reader may look no more, or takes nothing.
                for one in done:
                    one.result()
        finally:
            self._all.discard(self)
            for one in tasks:
                one.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _tell(self, send: Send) -> None:
        loop = asyncio.get_running_loop()
        tick, alive_at, judged_at = 0, 0.0, loop.time() + JUDGED_S
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        while True:
            said = b""
            if loop.time() >= alive_at:
                alive_at = loop.time() + ALIVE_S
                said = _event("alive", msgspec.json.encode(self._host.alive(TICK_HZ)))
            if loop.time() >= judged_at:
                judged_at = loop.time() + JUDGED_S
                await self._judge()
            text = self._state.told_since(self._seen, tick, self._host.now_ms())
            tick = tick if text is None else self._state.tick
            if text:
                said += _event("changes", text)
            if said:
                async with asyncio.timeout(STUCK_S):
                    await send({"type": "http.response.body", "body": said, "more_body": True})
            await self._host.next_tick()

    async def _judge(self) -> None:
        """Raises CallerRefused: its reader may look no more. While nobody can say that it goes on."""
        try:
            await self._may()
        except CallerRefused as error:
            if error.status == 401:
                raise


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _event(name: str, text: bytes) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), text)
