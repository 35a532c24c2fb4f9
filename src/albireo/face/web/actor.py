"""WebActor: the page of a node, as an actor of it; uvicorn serves it in the actor's loop.

Two clients: one pinned to the member beside the face, for what is shown; one for the member that acts, for orders and
questions, which speaks for the person who asks.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from albireo.client import ClientError, SessionOver, aconnect
from albireo.codec.questions.boot import NAVIGATION
from albireo.codec.questions.kind import Nothing
from albireo.face.behaviour import FaceBehaviour
from albireo.face.follower import PlantFollower
from albireo.face.kinds import FacePlace
from albireo.face.web.arrivals import CONNECTIONS_MAX, HEAD_S, BoundedHttp, BoundedListener, BoundedSocket
from albireo.face.web.face import Face
from albireo.face.web.logins import ADMIN
from albireo.face.web.machines import Machines
from albireo.face.web.settings import WebSettings, url_parts
from albireo.face.web.site import PageSite
from albireo.model.instant import SECOND
from albireo.model.status import FaceAddress
from albireo.runtime.actor.actor import ActorContext
from albireo.runtime.errors import ConfigurationRefused

WORD_BYTES_MAX: Final = 64 << 10
"""Longest word of a page."""
TAKES_NOTHING_MS: Final = 30_000
"""Time after which the kernel ends a connection whose other end takes nothing."""
LOOK_NS: Final = 5 * SECOND
"""Time between two looks at what people are led to."""


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


class WebActor(FaceBehaviour):
    """Behaviour of the actor."""

    def __init__(self, settings: WebSettings, place: FacePlace) -> None:
        super().__init__(place)
        self._settings = settings

    async def start(self, actor: ActorContext) -> None:
        self._actor = actor
        settings, place = self._settings, self._place
        parts = url_parts(settings.bind)
        assert parts.hostname is not None and parts.port is not None
        context, fingerprint = None, ""
        if settings.is_secure:
            context, fingerprint = await asyncio.to_thread(self._secured, actor.data)
        listener = self._listening(parts.hostname, parts.port)
        actor.at_end(listener.close)
        target = place.target(actor.data)
        self._pinned = await aconnect(target[place.own], name="page", waits=False, is_pinned=True)
        self._client = await aconnect(target, keys=place.keys or None, name="page", waits=False)
        face = self.face = Face(settings, place, self._pinned, self._client, actor)
        follower = PlantFollower(self._pinned, face.take, actor.now, face.tick)
        config = _config(Machines(face).before(PageSite(face).app))
        config.ssl = context
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        self._server = _Server(config)
        self._serving = self._begin(self._server.serve([listener]))
        actor.address = FaceAddress(face.member.url or face.members[0].url, fingerprint)
        for work in (follower.run(), self._look(), self._first_admin(actor.data)):
            self._begin(work)
        actor.log.info("page_served", url=actor.address.url, fingerprint=fingerprint)

    async def stop(self) -> None:
        self._is_over = True
        self._server.should_exit = True
        await asyncio.wait([self._serving], timeout=3.0)
        await self._end_tasks()
        await self._pinned.close(0.0)
        await self._client.close(0.0)

    async def _look(self) -> None:
        """Look what people are led to. Raises SessionOver: the next life of the face has another session."""
        while True:
            try:
                self.face.navigation = await self._pinned.ask_kind(NAVIGATION, Nothing())
                await self._client.login(0)  # Nobody's: does its own session go on?
            except SessionOver:
                raise
            except ClientError:
                pass
            await self._look_at_pictures()
            await asyncio.sleep(LOOK_NS / SECOND)

    async def _look_at_pictures(self) -> None:
        """Read the pictures if they have changed, and tell pages which there are."""
        mistakes = await asyncio.to_thread(self.face.pictures.read_again)
        if mistakes is None:
            return
        for one in mistakes:
            self._actor.log.error("picture_not_shown", why=str(one), remedy=one.remedy)
        # None waits for another one; whose browser is gone fails here, and ends by itself.
        await asyncio.gather(*(greet() for greet in self.face.greetings), return_exceptions=True)

    async def _first_admin(self, data: Path) -> None:
        """Have somebody who can log in, and say where the password is."""
        file = data / "web" / f"{self._place.name}.first-login"
        if await self.face.logins.make_first_admin(file, self._actor.address.url):
            self._actor.log.info("first_login", name=ADMIN, password_in=str(file))

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
