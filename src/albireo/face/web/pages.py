"""Pages: one WebSocket each. What changed goes out as fast as the page takes it, and never more than the latest.

state --tick--> Page --View, Alive--> browser        a page that takes slowly gets its next view later, not older ones
browser --PageAsked--> task --> client as the person --PageAnswered--> browser
"""

import asyncio
import contextlib
from typing import Final

import msgspec
from starlette.websockets import WebSocket, WebSocketState

from albireo.client import AsyncClient
from albireo.client.errors import ClientError
from albireo.face.web.face import Face, until_first
from albireo.face.web.methods import answered
from albireo.face.web.refusals import refusal_of
from albireo.face.web.words import (
    Alive,
    Hello,
    PageAnswered,
    PageAsked,
    PageBegin,
    PageDraw,
    PageLook,
    PagePerson,
    PageWord,
    Picture,
)
from albireo.model.instant import SECOND
from albireo.model.refusal import Refusal, RefusalCode

ASKED_MAX: Final = 32
"""Questions of one page under way; one more is refused."""
ALIVE_S: Final = 0.5
SLOW_S: Final = 0.25
"""A view that takes longer to leave lowers the rate of its page."""
STUCK_S: Final = 10.0
"""Time after which a page that takes nothing is closed."""
CLOSE_S: Final = 1.0
"""Time for the last word to a page."""
LOOK_NS: Final = 5 * SECOND
"""Time between two looks whether a login goes on."""
REST_S_MAX: Final = 1.0
BEGIN_S: Final = 10.0
"""Time that a page has for its first word."""
TOO_SLOW: Final = 4008
"""Close code (RFC 6455, 7.4.2: private use): the page takes nothing."""
MALFORMED: Final = 4007
OVER: Final = 4001
"""The login is over, or there has to be one."""
OVER_TEXT: Final = "the login is over"
REASON_BYTES_MAX: Final = 123
"""Longest reason of a close (RFC 6455, 5.5)."""

_decoder: Final = msgspec.json.Decoder(PageWord)
Sent = Hello | Alive | Picture | PageAnswered


class Page:
    """One page, from its first word to its end."""

    def __init__(self, line: WebSocket, face: Face) -> None:
        self._line = line
        self._face = face
        self._seen = face.state.seen(())
        self.token = ""
        self.person: PagePerson | None = None
        self._tick = 0
        self._rest_s = 0.0
        self._asked: set[asyncio.Task[None]] = set()
        self._sending = asyncio.Lock()

    async def run(self) -> None:
        """Serve the page until it ends."""
        async with asyncio.timeout(BEGIN_S):
            first = await self._receive()
        begin = None if first is None else _read(first)
        if not isinstance(begin, PageBegin):
            await self._close(MALFORMED, "the first word is `begin`")
            return
        self.token = begin.token
        self.person = await self._face.logins.person(begin.token) if begin.token else None
        if begin.token and self.person is None and await self._end(""):
            return
        self._seen = self._face.state.seen(begin.patterns)
        await self.greet()
        self._face.greetings.add(self.greet)
        works = [self._hear(), self._judge()]
        if self._face.may_look(self.person):
            works += [self._tell(), self._tell_alive()]
        try:
            await until_first(*works)
        finally:
            self._face.greetings.discard(self.greet)
            for one in self._asked:
                one.cancel()
            await asyncio.gather(*self._asked, return_exceptions=True)

    async def greet(self) -> None:
        """Tell anew what a greeting tells."""
        await self._send(self._face.hello(self.person))

    async def _judge(self) -> None:
        """Look again and again whether the login goes on."""
        while True:
            await asyncio.sleep(LOOK_NS / SECOND)
            if await self._is_over():
                return

    async def _is_over(self) -> bool:
        """See whether the login goes on, and with which roles; else close the line. While nobody can say it goes on."""
        with contextlib.suppress(ClientError):
            person = self.person and await self._face.logins.person(self.token)
            if person is None and self.person is not None:
                await self._end(OVER_TEXT)
                return True
            if person != self.person:
                self.person = person
                await self.greet()
        return False

    async def _end(self, otherwise: str) -> bool:
        """Close the line with the reason why the login is over; False: it is not known, and none is said otherwise."""
        why = ""
        with contextlib.suppress(ClientError):
            why = await self._face.logins.why_over(self.token)
        if why or otherwise:
            await self._close(OVER, (why or otherwise).encode()[:REASON_BYTES_MAX].decode(errors="ignore"))
        return bool(why or otherwise)

    async def _hear(self) -> None:
        while (text := await self._receive()) is not None:
            match _read(text):
                case PageLook(patterns=patterns):
                    self._seen, self._tick = self._face.state.seen(patterns), 0
                case PageDraw(name=name):
                    told = self._face.pictures.picture(name) if self._face.may_look(self.person) else Picture(name=name)
                    await self._send(told)
                case PageAsked() as asked:
                    await self._take(asked)
                case _:
                    await self._close(MALFORMED, "this is no word of a page")
                    return

    async def _take(self, asked: PageAsked) -> None:
        client = self._face.client_of(self.person) if self._may_ask(asked.method) else None
        if client is None:
            cause = "nobody is logged in at this page"
            await self._refuse(asked.id, Refusal(RefusalCode.ACCESS, cause, "log in"))
        elif len(self._asked) >= ASKED_MAX:
            cause = f"{ASKED_MAX} questions of this page wait for their answers"
            await self._refuse(asked.id, Refusal(RefusalCode.FULL, cause, "wait for some of them"))
        else:
            task = asyncio.ensure_future(self._answer(asked, client))
            self._asked.add(task)
            task.add_done_callback(self._asked.discard)

    def _may_ask(self, name: str) -> bool:
        method = self._face.methods.get(name)
        is_open = method is not None and method.is_for_lookers and self._face.may_look(None)
        return self.person is not None or is_open

    async def _refuse(self, asked_id: int, refusal: Refusal) -> None:
        await self._send(PageAnswered(id=asked_id, refusal=refusal))

    async def _answer(self, asked: PageAsked, client: AsyncClient) -> None:
        method = self._face.methods.get(asked.method)
        if method is not None and not method.is_reading and await self._is_over():
            return
        try:
            async with self._face.lookers if self.person is None else contextlib.nullcontext():
                result = await answered(self._face.methods, client, asked.method, asked.arguments)
            answer = PageAnswered(id=asked.id, result=result)
        except (ClientError, ValueError) as error:
            refused = refusal_of(error)
            answer = PageAnswered(id=asked.id, refusal=refused.refusal, is_unknown=refused.is_unknown)
        await self._send(answer)

    async def _tell(self) -> None:
        while True:
            await self._face.next_tick()
            text = self._face.state.since(self._seen, self._tick, self._face.now_ms())
            self._tick = self._tick if text is None else self._face.state.tick
            if text:
                await self._send_timed(text)
            if self._rest_s:
                await asyncio.sleep(self._rest_s)

    async def _send_timed(self, text: bytes) -> None:
        """Send a view, and lower the rate of a page that takes it slowly, or raise it again."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        await self._send_text(text)
        is_slow = loop.time() - begun > SLOW_S
        self._rest_s = min(REST_S_MAX, max(0.1, 2 * self._rest_s)) if is_slow else max(0.0, self._rest_s - 0.05)

    async def _tell_alive(self) -> None:
        while True:
            await self._send(self._face.alive(1 / (0.1 + self._rest_s)))
            await asyncio.sleep(ALIVE_S)

    async def _receive(self) -> str | bytes | None:
        """The next word; None: the line is closed."""
        message = await self._line.receive()
        if message["type"] != "websocket.receive":
            return None
        found: str | bytes | None = message.get("text")
        return found if found is not None else message["bytes"]

    async def _close(self, code: int, reason: str) -> None:
        if self._line.application_state is WebSocketState.CONNECTED:
            await self._line.close(code, reason)

    async def _send(self, word: Sent) -> None:
        await self._send_text(msgspec.json.encode(word))

    async def _send_text(self, text: bytes) -> None:
        async with self._sending:
            try:
                async with asyncio.timeout(STUCK_S):
                    await self._line.send_text(text.decode())
            except TimeoutError:
                with contextlib.suppress(TimeoutError):  # Nor does it take this word, perhaps.
                    async with asyncio.timeout(CLOSE_S):
                        await self._close(TOO_SLOW, f"this browser took nothing for {STUCK_S:g} s")
                raise


def _read(text: str | bytes) -> PageWord | None:
    """A word of a page; None: it is none."""
    try:
        word: PageWord = _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return word
