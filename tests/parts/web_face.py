"""A lone node's CORE and history with a page beside them, in one loop, and requests to it from threads."""

import asyncio
import contextlib
import http.client
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from albireo.client import connect
from albireo.face.kinds import FacePlace
from albireo.face.web.actor import WebActor
from albireo.face.web.settings import WebSettings
from albireo.model import quality
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType
from albireo.runtime import running
from albireo.runtime.link.lines import LineTo
from tests.parts.history import batch_of
from tests.parts.lone import NODE, LoneNode
from tests.parts.port import free_ports
from tests.parts.producing import producing
from tests.parts.waiting import PATIENCE_S, awaited
from tests.parts.web import PASSWORD


class Answered(msgspec.Struct, frozen=True):
    """An answer over HTTP."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class WebNode:
    """The node, and its face."""

    def __init__(self, home: Path, **settings: Any) -> None:
        self.lone = LoneNode(home, faces=frozenset({"page"}))
        self.port = free_ports(1)[0]
        self.settings = msgspec.convert({"bind": f"http://127.0.0.1:{self.port}", **settings}, WebSettings)
        place = FacePlace(name="page", node=NODE, doors=(LineTo(""),))
        self.actor = WebActor(self.settings, place)

    @contextlib.asynccontextmanager
    async def up(self, *, with_face: bool = True) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self.lone.core_up())
            await stack.enter_async_context(self.lone.history_up())
            if with_face:
                await stack.enter_async_context(self.face_up())
                await self.until("/readyz", lambda one: one.status == 200)
            yield

    @contextlib.asynccontextmanager
    async def face_up(self) -> AsyncIterator[None]:
        async with running(self.actor, self.lone.data):
            yield

    def produce(self, *items: DataItem, value: float = 1.5) -> None:
        """Record a value of each item, in a thread of its own."""
        lines = [LineTo(str(self.lone.data))]
        with producing("plc", list(items), lines, None) as producer:
            producer.offer([_batch(len(items), value)])
            assert producer.wait(PATIENCE_S)

    @cached_property
    def token(self) -> str:
        """Token of the admin, who chooses a password. For a thread of its own."""
        with connect(self.lone.data, timeout_s=PATIENCE_S) as client:
            awaited(client.people)
        words = (self.lone.data / "web" / "page.first-login").read_text().splitlines()
        form = {"name": "admin", "password": words[2], "new_password": PASSWORD}
        told = self.request("POST", "/login", form, {"Origin": self.url})
        assert told.status == 200, told.text
        token: str = told.json["token"]
        return token

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def request(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None, token: str = ""
    ) -> Answered:
        """For a thread of its own."""
        told = {**(headers or {}), **({"Authorization": f"Bearer {token}"} if token else {})}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        with contextlib.closing(connection):
            text = body if isinstance(body, bytes | None) else json.dumps(body)
            connection.request(method, path, text, told)
            answer = connection.getresponse()
            named = {name.lower(): value for name, value in answer.getheaders()}
            return Answered(answer.status, named, answer.read())

    async def get(self, path: str, token: str = "", **headers: str) -> Answered:
        return await asyncio.to_thread(self.request, "GET", path, None, headers, token)

    async def post(self, path: str, body: object, token: str = "", **headers: str) -> Answered:
        return await asyncio.to_thread(self.request, "POST", path, body, headers, token)

    async def until(self, path: str, is_so: Callable[[Answered], object], token: str = "") -> Answered:
        """Ask again and again."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                with contextlib.suppress(OSError):
                    if is_so(found := await self.get(path, token)):
                        return found
                await asyncio.sleep(0.02)


def events_of(lines: Iterator[bytes]) -> Iterator[tuple[str, Any]]:
    """Server-sent events of a stream of lines."""
    name = ""
    for line in lines:
        word, _, rest = line.decode().rstrip("\n").partition(": ")
        if word == "event":
            name = rest
        elif word == "data":
            yield name, json.loads(rest)


def item(name: str, **settings: Any) -> DataItem:
    return DataItem(name=name, value_type=ValueType.FLOAT64, unit="ppm", **settings)


HIGH = AlarmSettings(hi=100.0, severity=850)


def _batch(items: int, value: float) -> SampleBatch:
    now_ns = time.time_ns()
    return batch_of([(one, now_ns, value, quality.GOOD) for one in range(items)], ValueType.FLOAT64, now_ns)
