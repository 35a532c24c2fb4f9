"""Face: what all pages and programs of one face share: what is so, who is who, and who may be asked. For one loop."""

import asyncio
import contextlib
import ipaddress
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Final

from albireo import __version__
from albireo.client import AsyncClient
from albireo.client.live import Changes
from albireo.face.kinds import FacePlace
from albireo.face.web.door_keys import DoorKeys
from albireo.face.web.logins import Logins
from albireo.face.web.method import Methods
from albireo.face.web.methods import methods_of
from albireo.face.web.pictures.shelf import PictureShelf
from albireo.face.web.plain import ms
from albireo.face.web.reports import Reports
from albireo.face.web.settings import WebSettings, url_parts
from albireo.face.web.state import PlantState
from albireo.face.web.trends import Trends
from albireo.face.web.words import Alive, Hello, PageMember, PagePerson
from albireo.model import quality
from albireo.model.tree.navigation import Navigation
from albireo.runtime.actor.actor import ActorContext

STATIC: Final = Path(__file__).parent / "static"
LOOKERS_ASK_MAX: Final = 4
"""Questions of all pages without a login that are asked at a time; the others wait, so that people do not."""


class Addresses:
    """Where browsers may find the page, and who may therefore speak to it."""

    def __init__(self, urls: tuple[str, ...], own_host: str) -> None:
        self.urls = tuple(one.rstrip("/") for one in urls)
        self._hosts = {url_parts(one).hostname for one in urls} | {"localhost", own_host.lower()}

    def knows_host(self, host: str) -> bool:
        """Whether a page may be asked for at this `Host`: a name that is not ours is one that somebody led here."""
        name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
        with contextlib.suppress(ValueError):
            ipaddress.ip_address(name.strip("[]"))
            return True
        return name in self._hosts

    def knows_origin(self, origin: str, host: str) -> bool:
        """Whether a page of this `Origin` may speak: it is one of ours, or was loaded where it speaks to."""
        return origin in self.urls or (origin.partition("://")[2] == host and self.knows_host(host))


class Face:
    """The face of one member."""

    def __init__(
        self, settings: WebSettings, place: FacePlace, pinned: AsyncClient, client: AsyncClient, actor: ActorContext
    ) -> None:
        """
        Args:
            pinned: client of the member beside the face, for what is shown.
            client: client of the member that acts, for orders and questions.
        """
        node = self.node = place.node
        self.addresses = Addresses(settings.urls or (settings.bind,), socket.gethostname())
        places = [f"{node}[primary]", f"{node}[backup]"] if len(place.doors) > 1 else [node]
        urls = (*self.addresses.urls, *[""] * len(places))
        self.members = tuple(PageMember(place=one, url=url) for one, url in zip(places, urls, strict=False))
        self.member = self.members[place.own]
        self.state = PlantState()
        self.pictures = PictureShelf(place.file(settings.pictures) if settings.pictures else None, node)
        self.navigation = Navigation()
        self.logins = Logins(pinned, client, actor.now, actor.wall_ns)
        report = place.file(settings.report) if settings.report else actor.data / "pipeline"
        self.reports = Reports(report, node, self.addresses.urls, actor.now)
        door_keys = DoorKeys(place.keys, pinned, actor.log.info)
        self.methods: Methods = {**methods_of(Trends()), **door_keys.methods, **self.reports.methods}
        self.lookers = asyncio.Semaphore(LOOKERS_ASK_MAX)
        """Turns of pages without a login."""
        self.pages: Counter[str] = Counter()
        """Open pages, by address."""
        self.watches: Counter[str] = Counter()
        self.greetings: set[Callable[[], Awaitable[None]]] = set()
        """Greets each page anew."""
        self.pinned = pinned
        self.is_heard = False
        """The own member tells what is so right now."""
        self._client = client
        self._settings = settings
        self._zone = place.zone
        self._wall_ns = actor.wall_ns
        self._ticked = asyncio.Event()
        self._silent_since_ms = 0
        self._leads: tuple[int | None, int] = (None, 0)

    def take(self, changes: Changes) -> None:
        """Take what changed, perhaps nothing."""
        self.state.take(changes, self.now_ms())
        self.tick(is_heard=changes.is_live)

    def tick(self, *, is_heard: bool = False) -> None:
        """Tell all who wait that there may be something new, and that the own member is heard, or not."""
        self.is_heard = is_heard
        self._silent_since_ms = 0 if is_heard else self._silent_since_ms or self.now_ms()
        if self._client.acting != self._leads[0]:
            self._leads = (self._client.acting, self.now_ms())
        self._ticked.set()
        self._ticked = asyncio.Event()

    async def next_tick(self) -> None:
        await self._ticked.wait()

    def hello(self, person: PagePerson | None) -> Hello:
        return Hello(
            node=self.node,
            member=self.member.place,
            members=self.members,
            build=_build(),
            person=person,
            may_look=self.may_look(person),
            zone=self._zone,
            objects=self.navigation.objects,
            groups=self.navigation.groups,
            pictures=self.pictures.titles if self.may_look(person) else (),
            qualities={str(code): name for code, name in quality.names().items()},
        )

    def alive(self, rate_hz: float) -> Alive:
        index, since_ms = self._leads
        return Alive(
            at_ms=self.now_ms(),
            newest_ms=self.state.newest_ms,
            silent_since_ms=self._silent_since_ms,
            leads="" if index is None else self.members[index].place,
            leads_since_ms=since_ms,
            items=self.state.items,
            closed_ms=self.state.closed_ms,
            returned_ms=self.state.returned_ms,
            rate_hz=rate_hz,
        )

    def may_look(self, person: PagePerson | None) -> bool:
        return self._settings.open or person is not None

    def client_of(self, person: PagePerson | None) -> AsyncClient:
        """A client that speaks for the person; None: for the face itself."""
        return self._client if person is None else self._client.speaking_for(person.name)

    def full_name(self, name: str) -> str:
        """A full name, or a pattern of such: without a colon it is about the own node."""
        return name if ":" in name else f"{self.node}:{name}"

    def now_ms(self) -> int:
        return ms(self._wall_ns())


@contextlib.contextmanager
def counted(by_address: Counter[str], address: str) -> Iterator[None]:
    """Count one more of an address, as long as the block lasts."""
    by_address[address] += 1
    try:
        yield
    finally:
        by_address[address] -= 1
        if not by_address[address]:
            del by_address[address]


async def until_first(*works: Coroutine[Any, Any, None]) -> None:
    """Do these side by side until one of them is done, and end the others. Raises: as that one."""
    tasks = [asyncio.ensure_future(one) for one in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for one in done:
            one.result()
    finally:
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _build() -> str:
    """Changes with the bundle, so that a page which is open loads the new one."""
    file = STATIC / "page.js"
    return f"{__version__}-{int(file.stat().st_mtime)}" if file.exists() else f"{__version__}-{int(time.time())}"
