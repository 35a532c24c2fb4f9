"""News of connections that come late, in any order, and connections that are believed in and are not there.

libzmq queues news of all connections of a socket. A dialer that hangs up at one piece of news, and takes the next, of
the connection that it just ended, for good news would stay outside for ever.
"""

import asyncio
import contextlib
import itertools
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import zmq

from albireo.codec.message import Ask
from albireo.model.instant import SECOND
from albireo.runtime import Journal, Link, LinkLimits, running
from albireo.runtime.clock import boot_ns, wall_ns
from albireo.runtime.link import tcp
from albireo.runtime.link.connection import ConnectionEvent, ConnectionNews, Dialling, Monitor
from albireo.runtime.link.dialing import SILENT_LOOKS_MAX, TCP_LIMITS, BlockingDialer, Dialer, LinkSilence
from albireo.runtime.link.sockets import Sockets
from albireo.runtime.link.tcp import TcpLinks
from tests.parts.transport import End, Foreign, until
from tests.parts.waiting import PATIENCE_S

CONNECTED, PROVEN, ENDED = ConnectionEvent.CONNECTED, ConnectionEvent.PROVEN, ConnectionEvent.ENDED
REFUSED, BROKEN_OFF, RETRIED = ConnectionEvent.REFUSED, ConnectionEvent.BROKEN_OFF, ConnectionEvent.RETRIED
FIRST, SECOND_ONE = 11, 12
"""Descriptors of two connections."""


def news(*told: tuple[ConnectionEvent, int]) -> list[ConnectionNews]:
    return [ConnectionNews(event, descriptor) for event, descriptor in told]


STORY = news((CONNECTED, FIRST), (BROKEN_OFF, 0), (ENDED, FIRST), (RETRIED, 0), (CONNECTED, SECOND_ONE), (PROVEN, 0))
"""A handshake is broken off, and the socket connects again by itself before anybody has looked."""


class Door:
    """A port that breaks off the first handshake, and lets a real socket take the next."""

    def __init__(self, server: Foreign) -> None:
        self._server = server
        self._port = socket.create_server(("127.0.0.1", 0))
        self._port.settimeout(PATIENCE_S)
        self.endpoint = f"tcp://127.0.0.1:{self._port.getsockname()[1]}"

    def break_off(self) -> None:
        self._port.accept()[0].close()

    def open(self) -> None:
        """Return when a connection is proven."""
        self._port.setblocking(False)
        self._server.socket.setsockopt(zmq.USE_FD, os.dup(self._port.fileno()))
        self._server.socket.bind(self.endpoint)
        ends = boot_ns() + PATIENCE_S * SECOND
        while not self._server.has_heard(PROVEN):
            assert boot_ns() < ends
        self._port.close()


@contextlib.contextmanager
def a_door() -> Iterator[Door]:
    with Foreign(zmq.ROUTER) as server:
        yield Door(server)


@pytest.fixture
def sockets() -> Iterator[Sockets]:
    made = Sockets()
    yield made
    made.close(lingers=False)


def dialer_to(sockets: Sockets, endpoint: str) -> tuple[Dialer, Monitor]:
    raw = sockets.dealer(TCP_LIMITS, b"me")
    dialer = Dialer(sockets.keep(Link("peer", b"me", raw, 0)), raw, endpoint, None, "")
    return dialer, Monitor(raw, sockets.pair())


def test_a_program_does_not_believe_news_of_a_connection_that_it_hung_up(sockets: Sockets) -> None:
    with a_door() as door:
        dialer, monitor = dialer_to(sockets, door.endpoint)
        blocking = BlockingDialer(dialer, monitor)
        blocking.begin()
        door.break_off()
        door.open()  # The news of both connections wait now, and nobody has looked.
        assert blocking.mind() == []
        assert not dialer.is_up
        ends = boot_ns() + PATIENCE_S * SECOND
        while not blocking.mind():
            assert boot_ns() < ends, "it dials again by itself"
        assert dialer.is_up
        assert dialer.link.send(Ask(request_id=1, what="x"))


class Held:
    """Calls into an actor that stands still; made when it goes on."""

    def __init__(self) -> None:
        self._calls: list[tuple[Callable[..., object], tuple[object, ...]]] = []

    def call(self, function: Callable[..., object], *args: object) -> None:
        self._calls.append((function, args))

    def go_on(self) -> None:
        calls, self._calls = self._calls, []
        for function, args in calls:
            function(*args)


def journal() -> Journal:
    return Journal("test", lambda _: True, wall_ns, boot_ns)


def test_an_actor_that_stood_still_does_not_believe_news_of_a_connection_that_it_hung_up(sockets: Sockets) -> None:
    async def story() -> None:
        held, told = Held(), list[bool]()
        links = TcpLinks(sockets, "test", held.call, journal())
        with a_door() as door:
            link = links.connect("peer", door.endpoint, None, TCP_LIMITS, "")
            link.on_connection = told.append
            door.break_off()
            door.open()
            held.go_on()
            assert told == []
            async with asyncio.timeout(PATIENCE_S):
                while told != [True]:
                    await asyncio.sleep(0)
                    held.go_on()
            assert link.send(Ask(request_id=1, what="x"))
            links.close()
            sockets.close(lingers=False)

    asyncio.run(story())


def orders() -> list[Sequence[ConnectionNews]]:
    return [one[:cut] for one in itertools.permutations(STORY) for cut in (len(one), 4)]


def test_in_every_order_of_news_a_dialer_is_up_or_dials_again(sockets: Sockets) -> None:
    async def story() -> None:
        links = TcpLinks(sockets, "test", lambda function, *args: None, journal())
        links.connect("peer", "tcp://127.0.0.1:9", None, TCP_LIMITS, "")
        (dialer,) = links._dialers
        for order in orders():
            dialer.is_up = False
            links._redial(dialer)
            for one in order:
                links._heard_by_dialer(dialer, one)
            is_hung_up = dialer.dialling is None
            assert not (is_hung_up and dialer.is_up), order
            assert not is_hung_up or dialer in links._timers, order
        links.close()

    asyncio.run(story())


def heard(order: Sequence[ConnectionNews], dialling: Dialling) -> list[ConnectionEvent]:
    return [event for one in order if (event := dialling.takes(one)) is not None]


@pytest.mark.parametrize(
    ("order", "means"),
    [
        (STORY[:3], [BROKEN_OFF]),
        (STORY[2:], [RETRIED, PROVEN]),
        (news((CONNECTED, FIRST), (PROVEN, 0), (ENDED, FIRST), (RETRIED, 0), (RETRIED, 0)), [PROVEN, ENDED, RETRIED]),
        (news((PROVEN, 0), (ENDED, FIRST)), []),
        (news((BROKEN_OFF, 0), (REFUSED, 0)), []),
        (news((CONNECTED, FIRST), (PROVEN, 0), (ENDED, FIRST)), [PROVEN, ENDED]),
        (news((CONNECTED, FIRST), (PROVEN, 0), (ENDED, SECOND_ONE)), [PROVEN]),
        (news((CONNECTED, FIRST), (PROVEN, 0), (BROKEN_OFF, 0), (PROVEN, 0)), [PROVEN]),
        (news((CONNECTED, FIRST), (PROVEN, 0), (CONNECTED, SECOND_ONE), (ENDED, FIRST)), [PROVEN, ENDED]),
        (news((CONNECTED, FIRST), (ENDED, FIRST), (PROVEN, 0)), [ENDED]),
    ],
)
def test_news_are_taken_only_as_one_connection_causes_them(
    order: Sequence[ConnectionNews], means: list[ConnectionEvent]
) -> None:
    assert heard(order, Dialling()) == means


def test_a_connection_on_which_nothing_is_heard_is_dialled_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The peer is there and says nothing. A link that is answered, here or elsewhere, or not spoken on, stays."""
    monkeypatch.setattr(tcp, "LOOK_S", 0.002)
    limits = LinkLimits(holds_for_peer=False, silence_ms=60)

    async def story() -> None:
        mute, echo = End("mute"), End("echo", answers=True)
        ends = [End(name) for name in ("silent", "answered", "elsewhere", "idle")]
        async with contextlib.AsyncExitStack() as stack:
            for one in (mute, echo, *ends):
                await stack.enter_async_context(running(one, tmp_path / one.name))
            at, back = mute.bind(None).endpoint, echo.bind(None).endpoint
            links = [one.connect(at if one is not ends[1] else back, None, limits=limits) for one in ends]
            await until(lambda: all(one.connections == [True] for one in ends))
            while ends[0].connections.count(False) < 2:
                for link in links[:3]:
                    link.send(Ask(request_id=1, what="x"))
                links[2].answered += 1
                await asyncio.sleep(0.001)
        assert [one.connections[:2] for one in ends[1:]] == [[True]] * 3

    asyncio.run(story())


def link_of(sockets: Sockets) -> Link:
    raw = sockets.dealer(TCP_LIMITS, b"me")
    return sockets.keep(Link("peer", b"me", raw, 0))


def test_silence_may_last_twice_as_long_each_time_until_something_is_heard(sockets: Sockets) -> None:
    link = link_of(sockets)
    silence = LinkSilence(link, 20)

    def looks() -> int:
        silence.begin()
        link.sent += 1
        return next(number for number in itertools.count(1) if silence.has_lasted())

    assert [looks() for _ in range(6)] == [20, 40, 80, 160, SILENT_LOOKS_MAX, SILENT_LOOKS_MAX]
    link.received += 1
    assert not silence.has_lasted()
    assert looks() == 20


@pytest.mark.parametrize("counter", ["received", "answered", "malformed", "unheard"])
def test_whatever_is_heard_ends_a_silence(sockets: Sockets, counter: str) -> None:
    link = link_of(sockets)
    silence = LinkSilence(link, 2)
    silence.begin()
    for _ in range(5):
        link.sent += 1
        assert not silence.has_lasted()
        setattr(link, counter, getattr(link, counter) + 1)
        assert not silence.has_lasted()


def test_who_says_nothing_waits_for_no_answer(sockets: Sockets) -> None:
    silence = LinkSilence(link_of(sockets), 1)
    silence.begin()
    assert not any(silence.has_lasted() for _ in range(5))
