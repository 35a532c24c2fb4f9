"""Parts that tests share: the page of a real CORE in this process, and pages at the other end of a real WebSocket."""

import asyncio
import contextlib
import http.client
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import websockets

from albireo.client import connect
from albireo.face.kinds import FacePlace
from albireo.face.web.actor import WebActor
from albireo.face.web.settings import WebSettings
from albireo.node.core.actor import create
from albireo.node.history.actor import Historian, HistoryArguments
from albireo.runtime import Keys, running
from albireo.runtime.link.lines import LineTo
from tests.parts.core_actor import ARGUMENTS
from tests.parts.port import free_port
from tests.parts.waiting import PATIENCE_S, awaited

CORE = {**ARGUMENTS, "faces": ["page"]}
PASSWORD = "correct horse battery"


class PageEnd:
    """A page, at the browser's end of its line."""

    def __init__(self, line: websockets.ClientConnection) -> None:
        self.line = line
        self.hello: dict[str, Any] = {}
        self.alive: dict[str, Any] = {}
        self.names: dict[int, str] = {}
        self.values: dict[str, object] = {}
        self.cases: dict[int, dict[str, Any]] = {}
        self.views: list[dict[str, Any]] = []
        self.answers: dict[int, dict[str, Any]] = {}
        self.picture: dict[str, Any] = {}

    async def say(self, kind: str, **fields: object) -> None:
        await self.line.send(json.dumps({"kind": kind, **fields}))

    async def hear(self) -> None:
        """Take one word."""
        word = json.loads(await asyncio.wait_for(self.line.recv(), PATIENCE_S))
        match word["kind"]:
            case "hello":
                self.hello = word
            case "alive":
                self.alive = word
            case "picture":
                self.picture = word
            case "answered":
                self.answers[word["id"]] = word
            case "view":
                self._take(word)

    def _take(self, view: dict[str, Any]) -> None:
        self.views.append(view)
        if view.get("is_whole"):
            self.names, self.values, self.cases = {}, {}, {}
        for one in view.get("items", ()):
            self.names[one["key"]] = f"{one['node']}:{one['item']['name']}"
        for key, value, *_ in view.get("values", ()):
            self.values[self.names[key]] = value
        for one in view.get("cases", ()):
            self.cases[one["case_id"]] = one

    async def until(self, is_so: Callable[["PageEnd"], object]) -> None:
        while not is_so(self):
            await self.hear()

    async def asked(self, asked_id: int, method: str, **arguments: object) -> dict[str, Any]:
        await self.say("asked", id=asked_id, method=method, arguments=arguments)
        await self.until(lambda one: asked_id in one.answers)
        return self.answers[asked_id]


class Served:
    """The page of a CORE."""

    def __init__(self, data: Path, port: int, password: str) -> None:
        self.data = data
        self.port = port
        self.password = password
        self.url = f"http://127.0.0.1:{port}"
        self.keys: Keys | None = None
        self.endpoint = ""

    def request(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of an answer. Blocks: call it in a thread."""
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            text = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
            named = {name.replace("_", "-"): one for name, one in headers.items()}
            line.request(method, path, text, {"Origin": self.url, **named})
            answer = line.getresponse()
            return answer.status, {name.lower(): one for name, one in answer.getheaders()}, answer.read()
        finally:
            line.close()

    async def token(self) -> str:
        """Of the admin, who chooses a password first."""
        asked = {"name": "admin", "password": self.password}
        if self.password != PASSWORD:
            asked, self.password = {**asked, "new_password": PASSWORD}, PASSWORD
        status, _, body = await asyncio.to_thread(self.request, "POST", "/login", asked)
        assert status == 200, body
        found: str = json.loads(body)["token"]
        return found

    def line(self, **options: Any) -> websockets.connect:
        """A WebSocket of a browser that has loaded the page, unless an option says otherwise."""
        return websockets.connect(f"ws://127.0.0.1:{self.port}/ws", **{"origin": self.url, "max_size": None, **options})

    @contextlib.asynccontextmanager
    async def page(self, token: str = "", patterns: tuple[str, ...] = ("*",), **options: Any) -> AsyncIterator[PageEnd]:
        async with self.line(**options) as line:
            page = PageEnd(line)
            await page.say("begin", token=token, patterns=patterns)
            yield page


def is_somebody_on_record(data: Path) -> bool:
    with connect(data, timeout_s=PATIENCE_S) as client:
        return bool(client.people())


@contextlib.asynccontextmanager
async def served(directory: Path, *, with_keys: bool = False, **settings: Any) -> AsyncIterator[Served]:
    """CORE and history of a lone node, and its page. `with_keys`: it has keys and a door, and trusts nobody."""
    port = free_port()
    keys = Keys.new(directory / "keys", "root") if with_keys else None
    place = FacePlace(name="page", node="root", doors=(LineTo(""),), keys="" if keys is None else str(keys.directory))
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    core = CORE if keys is None else {**CORE, "door": {"endpoint": endpoint, "keys": str(keys.directory)}}
    face = WebActor(WebSettings(bind=f"http://127.0.0.1:{port}", **settings), place)
    historian = Historian(HistoryArguments(node="root"))
    async with running(create(core), directory), running(historian, directory), running(face, directory):
        file = directory / "web" / "page.first-login"
        await asyncio.to_thread(awaited, lambda: is_somebody_on_record(directory))
        password = (await asyncio.to_thread(file.read_text)).split()[2]
        at = Served(directory, port, password)
        at.keys, at.endpoint = keys, endpoint
        yield at
