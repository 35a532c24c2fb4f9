"""WebActor: the page of a node, as an actor of it; uvicorn serves it in the actor's loop.

Two clients: one pinned to the member beside the face, for what is shown; one for the member that acts, for orders and
questions, which speaks for the person who asks.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
import time
from collections.abc import Coroutine, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp

from albireo import __version__
from albireo.client import AsyncClient, ClientError, SessionOver, aconnect
from albireo.client.live import Changes
from albireo.codec.questions.boot import NAVIGATION
from albireo.codec.questions.kind import Nothing
from albireo.face.follower import PlantFollower
from albireo.face.kinds import FacePlace
from albireo.face.web.arrivals import CONNECTIONS_MAX, HEAD_S, BoundedHttp, BoundedListener, BoundedSocket
from albireo.face.web.callers import Callers
from albireo.face.web.door_keys import DoorKeys
from albireo.face.web.logins import ADMIN, Logins
from albireo.face.web.machines import Machines
from albireo.face.web.method import Methods
from albireo.face.web.methods import methods_of
from albireo.face.web.metrics import Facts
from albireo.face.web.pages import LOOKERS_ASK_MAX
from albireo.face.web.pictures.shelf import PictureShelf
from albireo.face.web.plain import ms
from albireo.face.web.reports import Reports
from albireo.face.web.rest import Rest
from albireo.face.web.settings import WebSettings, url_parts
from albireo.face.web.site import STATIC, Addresses, PageSite
from albireo.face.web.state import PlantState, SeenItems
from albireo.face.web.trends import Trends
from albireo.face.web.words import Alive, Hello, PageMember, PagePerson, Picture
from albireo.model import quality
from albireo.model.instant import SECOND, Instant
from albireo.model.status import FaceAddress
from albireo.model.tree.navigation import Navigation
from albireo.runtime.actor.actor import ActorContext
from albireo.runtime.errors import ConfigurationRefused
from albireo.runtime.link.sockets import Letter

WORD_BYTES_MAX: Final = 64 << 10
"""Longest word of a page."""
TAKES_NOTHING_MS: Final = 30_000
"""Time after which the kernel ends a connection whose other end takes nothing."""
LOOK_NS: Final = 5 * SECOND
"""Time between two looks at what people are led to."""
SECRET_MODE: Final = 0o600


class _Server(uvicorn.Server):
    """The server; signals are the actor's, and a handshake has its time."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        config, loop = self.config, asyncio.get_running_loop()
        make = partial(BoundedHttp, config, self.server_state, {})
        most_s = HEAD_S if config.ssl else None
        self.servers = [
            await loop.create_server(make, sock=one, ssl=config.ssl, ssl_handshake_timeout=most_s)
            for one in sockets or ()
        ]
        self.started = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class WebActor:
    """Behaviour of the actor."""

    def __init__(self, settings: WebSettings, place: FacePlace) -> None:
        self.name = f"face.{place.name}"
        self._settings = settings
        self._place = place
        self._own = next(index for index, one in enumerate(place.doors) if not one.endpoint)
        self._state = PlantState()
        self.lookers = asyncio.Semaphore(LOOKERS_ASK_MAX)
        self._navigation = Navigation()
        self._pictures = PictureShelf(place.file(settings.pictures) if settings.pictures else None, place.node)
        self._ticked = asyncio.Event()
        self._silent_since_ms = 0
        self._leads: tuple[int | None, int] = (None, 0)
        self._is_over = False
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, actor: ActorContext) -> None:
        self._actor = actor
        settings = self._settings
        parts = url_parts(settings.bind)
        assert parts.hostname is not None and parts.port is not None
        self._addresses = Addresses(settings.urls or (settings.bind,), socket.gethostname())
        context, fingerprint = None, ""
        if settings.is_secure:
            context, fingerprint = await asyncio.to_thread(self._secured, actor.data)
        listener = self._listening(parts.hostname, parts.port)
        actor.at_end(listener.close)
        own = self._place.target(actor.data)[self._own]
        keys = self._place.keys or None
        self._pinned = await aconnect(own, name="page", waits=False, is_pinned=True)
        self._client = await aconnect(self._place.target(actor.data), keys=keys, name="page", waits=False)
        self._follower = PlantFollower(self._pinned, self._take, actor.now, self._took)
        self._logins = Logins(self._pinned, self._client, actor.now, actor.wall_ns)
        door_keys = DoorKeys(self._place.keys, self._pinned, actor.log.info)
        report = self._place.file(settings.report) if settings.report else actor.data / "pipeline"
        reports = Reports(report, self._place.node, self._addresses.urls, actor.now)
        self.methods: Methods = {**methods_of(Trends()), **door_keys.methods, **reports.methods}
        self._site = PageSite(self, self._addresses, self._logins)
        callers = Callers(self, self._addresses)
        self._rest = Rest(self, self._state, callers)
        machines = Machines(self, self._pinned, self._state, callers)
        config = _config(machines.before(self._site.app, [*self._rest.routes, *reports.routes]))
        config.ssl = context
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        self._server = _Server(config)
        self._serving = self._begin(self._server.serve([listener]))
        self._begin(self._follower.run())
        self._begin(self._look())
        self._begin(self._first_admin(actor.data))
        actor.address = FaceAddress(self._urls()[self._own] or self._urls()[0], fingerprint)
        actor.log.info("page_served", url=actor.address.url, fingerprint=fingerprint)

    def drained(self, letters: Sequence[Letter]) -> None:
        """Nobody of the node writes to a face."""

    def ticked(self, now: Instant) -> None:
        """No time is awaited here."""

    async def stop(self) -> None:
        self._is_over = True
        self._server.should_exit = True
        await asyncio.wait([self._serving], timeout=3.0)
        for one in self._tasks:
            one.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._pinned.close(0.0)
        await self._client.close(0.0)

    # What pages need.

    def hello(self, person: PagePerson | None) -> Hello:
        members = [PageMember(place=one, url=url) for one, url in zip(self._places(), self._urls(), strict=True)]
        return Hello(
            node=self._place.node,
            member=self._places()[self._own],
            members=tuple(members),
            build=_build(),
            person=person,
            may_look=self.may_look(person),
            zone=self._settings.zone,
            objects=self._navigation.objects,
            groups=self._navigation.groups,
            pictures=self._pictures.titles if self.may_look(person) else (),
            qualities={str(code): name for code, name in quality.names().items()},
        )

    def _take(self, changes: Changes) -> None:
        self._state.take(changes, self.now_ms())

    def alive(self, rate_hz: float) -> Alive:
        index, since_ms = self._leads
        return Alive(
            at_ms=self.now_ms(),
            newest_ms=self._state.newest_ms,
            silent_since_ms=self._silent_since_ms,
            leads="" if index is None else self._places()[index],
            leads_since_ms=since_ms,
            items=self._state.items,
            closed_ms=self._state.closed_ms,
            returned_ms=self._state.returned_ms,
            rate_hz=rate_hz,
        )

    def seen(self, wanted: tuple[str, ...]) -> SeenItems:
        return self._state.seen(wanted)

    def view(self, seen: SeenItems, tick: int) -> tuple[bytes, int]:
        text = self._state.since(seen, tick, self.now_ms())
        return (b"", tick) if text is None else (text, self._state.tick)

    def picture(self, name: str) -> Picture:
        return self._pictures.picture(name)

    async def person(self, token: str) -> PagePerson | None:
        return await self._logins.person(token)

    def may_look(self, person: PagePerson | None) -> bool:
        return self._settings.open or person is not None

    def client_of(self, person: PagePerson | None) -> AsyncClient:
        return self._client if person is None else self._client.speaking_for(person.name)

    async def why_over(self, token: str) -> str:
        return await self._logins.why_over(token)

    async def next_tick(self) -> None:
        await self._ticked.wait()

    # What programs need.

    def facts(self) -> Facts:
        return Facts(
            node=self._place.node,
            place=self._places()[self._own],
            is_heard=self._follower.is_live and not self._silent_since_ms,
            pages=len(self._site.pages),
            watches=len(self._rest.watches),
        )

    # The work.

    def _took(self) -> None:
        self._ticked.set()
        self._ticked = asyncio.Event()
        if self._follower.is_live:
            self._silent_since_ms = 0
        elif not self._silent_since_ms:
            self._silent_since_ms = self.now_ms()
        leads = self._client.acting
        if leads != self._leads[0]:
            self._leads = (leads, self.now_ms())

    async def _look(self) -> None:
        """Look what people are led to. Raises SessionOver: the next life of the face has another session."""
        while True:
            try:
                self._navigation = await self._pinned.ask_kind(NAVIGATION, Nothing())
                await self._client.login(0)  # Nobody's: does its own session go on?
            except SessionOver:
                raise
            except ClientError:
                pass
            await self._look_at_pictures()
            await asyncio.sleep(LOOK_NS / SECOND)

    async def _look_at_pictures(self) -> None:
        """Read the pictures if they have changed, and tell pages which there are."""
        mistakes = await asyncio.to_thread(self._pictures.read_again)
        if mistakes is None:
            return
        for one in mistakes:
            self._actor.log.error("picture_not_shown", why=str(one), remedy=one.remedy)
        # None waits for another one; whose browser is gone fails here, and ends by itself.
        await asyncio.gather(*(one.greet() for one in self._site.pages), return_exceptions=True)

    async def _first_admin(self, data: Path) -> None:
        """Have somebody who can log in, and say where the password is."""
        file = data / "web" / f"{self._place.name}.first-login"
        if await self._logins.make_first_admin(file, self._actor.address.url):
            self._actor.log.info("first_login", name=ADMIN, password_in=str(file))

    def _begin(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = self._actor.loop.create_task(work)
        self._tasks.append(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._is_over:
            self._actor.fail(f"{type(error).__name__}: {error}")

    def _places(self) -> list[str]:
        node = self._place.node
        return [f"{node}[primary]", f"{node}[backup]"] if len(self._place.doors) > 1 else [node]

    def _urls(self) -> list[str]:
        urls = list(self._addresses.urls)
        return [*urls, *[""] * len(self._places())][: len(self._places())]

    def now_ms(self) -> int:
        return ms(self._actor.wall_ns())

    def _listening(self, host: str, port: int) -> socket.socket:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = BoundedListener(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, TAKES_NOTHING_MS)
        try:
            listener.bind((host, port))
        except OSError as error:
            listener.close()
            raise ConfigurationRefused(f"face {self._place.name}: {self._settings.bind}: {error.strerror}") from error
        return listener

    def _secured(self, data: Path) -> tuple[ssl.SSLContext, str]:
        """The context of the server, and the fingerprint of its certificate."""
        from albireo.face.web.certificate import fingerprint_of, own_certificate, secured  # With its library of 5 MB.

        settings = self._settings
        try:
            file, key = map(self._place.file, (settings.certificate, settings.certificate_key))
            if not settings.certificate:
                hosts = [url_parts(one).hostname or "" for one in (settings.bind, *settings.urls)]
                names = [one for one in hosts if one not in ("0.0.0.0", "::")]
                file = key = own_certificate(data / "web", self._place.name, [*names, socket.gethostname()])
            return secured(file, key), fingerprint_of(file)
        except (OSError, ValueError) as error:
            raise ConfigurationRefused(f"face {self._place.name}: its certificate: {error}") from error


def _config(app: ASGIApp) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        http=BoundedHttp,
        ws=BoundedSocket,
        ws_max_size=WORD_BYTES_MAX,
        ws_per_message_deflate=False,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=CONNECTIONS_MAX + 1,
        timeout_graceful_shutdown=1,
        timeout_keep_alive=30,
    )
    config.load()
    return config


def _build() -> str:
    """Changes with the bundle, so that a page which is open loads the new one."""
    file = STATIC / "page.js"
    return f"{__version__}-{int(file.stat().st_mtime)}" if file.exists() else f"{__version__}-{int(time.time())}"
