"""Parts that tests share: the page of a real CORE in this process, and pages at the other end of a real WebSocket."""

import asyncio
import contextlib
import http.client
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import websockets

from albireo.client import connect
from albireo.face.kinds import FacePlace
from albireo.face.web.actor import WebActor
from albireo.face.web.settings import WebSettings
from albireo.model import quality
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.value import ValueType
from albireo.node.core.actor import create
from albireo.node.history.actor import Historian, HistoryArguments
from albireo.runtime import Keys, running
from albireo.runtime.link.lines import LineTo
from tests.parts.core_actor import ARGUMENTS
from tests.parts.history import batch_of
from tests.parts.port import free_port
from tests.parts.producing import producing
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


class Answered(NamedTuple):
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


class Served:
    """The page of a node, from outside."""

    def __init__(self, data: Path, port: int, password: str) -> None:
        """`password`: of the admin."""
        self.data = data
        self.port = port
        self.password = password
        self.url = f"http://127.0.0.1:{port}"
        self.keys: Keys | None = None
        self.endpoint = ""

    def request(self, method: str, path: str, body: object = None, token: str = "", **headers: str) -> Answered:
        """Ask as a page of the face does, unless `Origin` says otherwise; empty: none. Blocks: call it in a thread."""
        named = {"Origin": self.url, **{name.replace("_", "-"): one for name, one in headers.items()}}
        if token:
            named["Authorization"] = f"Bearer {token}"
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        with contextlib.closing(line):
            text = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            line.request(method, path, text, {name: one for name, one in named.items() if one})
            answer = line.getresponse()
            return Answered(answer.status, {name.lower(): one for name, one in answer.getheaders()}, answer.read())

    async def get(self, path: str, token: str = "", **headers: str) -> Answered:
        """Ask as a program does."""
        return await asyncio.to_thread(self.request, "GET", path, None, token, **{"Origin": "", **headers})

    async def post(self, path: str, body: object, token: str = "", **headers: str) -> Answered:
        return await asyncio.to_thread(self.request, "POST", path, body, token, **{"Origin": "", **headers})

    async def until(self, path: str, is_so: Callable[[Answered], object], token: str = "") -> Answered:
        """Ask again and again."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                with contextlib.suppress(OSError):
                    if is_so(found := await self.get(path, token)):
                        return found
                await asyncio.sleep(0.02)

    def log_in(self) -> str:
        """Token of the admin, who chooses a password first. Blocks."""
        asked = {"name": "admin", "password": self.password}
        if self.password != PASSWORD:
            asked, self.password = {**asked, "new_password": PASSWORD}, PASSWORD
        answer = self.request("POST", "/login", asked)
        assert answer.status == 200, answer.text
        found: str = answer.json["token"]
        return found

    async def token(self) -> str:
        return await asyncio.to_thread(self.log_in)

    def line(self, **options: Any) -> websockets.connect:
        """A WebSocket of a browser that has loaded the page, unless an option says otherwise."""
        return websockets.connect(f"ws://127.0.0.1:{self.port}/ws", **{"origin": self.url, "max_size": None, **options})

    @contextlib.asynccontextmanager
    async def page(self, token: str = "", patterns: tuple[str, ...] = ("*",), **options: Any) -> AsyncIterator[PageEnd]:
        async with self.line(**options) as line:
            page = PageEnd(line)
            await page.say("begin", token=token, patterns=patterns)
            yield page


class WebNode(Served):
    """CORE and history of a lone node, and its page, in this process."""

    def __init__(self, directory: Path, *, with_keys: bool = False, zone: str = "UTC", **settings: Any) -> None:
        """`with_keys`: it has keys and a door, and trusts nobody."""
        super().__init__(directory, free_port(), "")
        core, keys = CORE, ""
        if with_keys:
            self.keys = Keys.new(directory / "keys", "root")
            self.endpoint, keys = f"tcp://127.0.0.1:{free_port()}", str(self.keys.directory)
            core = {**CORE, "door": {"endpoint": self.endpoint, "keys": keys}}
        self._core = create(core)
        place = FacePlace(name="page", node="root", doors=(LineTo(""),), keys=keys, zone=zone)
        self.actor = WebActor(WebSettings(**{"bind": self.url, **settings}), place)

    @contextlib.asynccontextmanager
    async def up(self) -> AsyncIterator[None]:
        """All of it, once the face hears the node, and its admin is on record."""
        historian = Historian(HistoryArguments(node="root"))
        async with running(self._core, self.data), running(historian, self.data), self.face_up():
            await asyncio.to_thread(awaited, lambda: is_somebody_on_record(self.data))
            file = self.data / "web" / "page.first-login"
            self.password = (await asyncio.to_thread(file.read_text)).split()[2]
            await self.until("/readyz", lambda one: one.status == 200)
            yield

    @contextlib.asynccontextmanager
    async def face_up(self) -> AsyncIterator[None]:
        async with running(self.actor, self.data):
            yield

    def produce(self, *items: DataItem, value: float = 1.5) -> None:
        """Record a value of each item. Blocks."""
        now_ns = time.time_ns()
        rows = [(one, now_ns, value, quality.GOOD) for one in range(len(items))]
        with producing("plc", list(items), [LineTo(str(self.data))], None) as producer:
            producer.offer([batch_of(rows, ValueType.FLOAT64, now_ns)])
            assert producer.wait(PATIENCE_S)


def is_somebody_on_record(data: Path) -> bool:
    with connect(data, timeout_s=PATIENCE_S) as client:
        return bool(client.people())


@contextlib.asynccontextmanager
async def served(directory: Path, **options: Any) -> AsyncIterator[WebNode]:
    """A node with its page. `options`: as `WebNode`."""
    node = WebNode(directory, **options)
    async with node.up():
        yield node


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
