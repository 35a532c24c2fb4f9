"""Parts of the tests of TCP links: two actors with keys, a wire that remembers every byte, a foreign client."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import get_args

import zmq

from albireo.codec.message import AnyMessage, Ask
from albireo.model.instant import Instant
from albireo.runtime import ActorContext, Keys, Letter, Link, LinkLimits, running
from albireo.runtime.link.connection import ConnectionEvent, Monitor
from albireo.runtime.link.dialing import TCP_LIMITS
from albireo.runtime.link.keys import introduce
from albireo.runtime.link.link import Hears
from albireo.runtime.link.zap import ADDRESS
from tests.parts.waiting import PATIENCE_S

ANY_PORT = "tcp://127.0.0.1:*"
SERVER = "root[primary]"
CLIENT = "root[backup]"


def hear_all(name: str) -> frozenset[type]:
    """Everything that can be said, from everybody."""
    return frozenset(get_args(AnyMessage))


async def until(condition: Callable[[], object]) -> None:
    """Wait for a condition of the world, which nobody announces."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110  # Of the kernel or of libzmq; there is no event to set.
            await asyncio.sleep(0.002)


def key_pair(directory: Path) -> tuple[Keys, Keys]:
    """Keys of a server and of a client that trust each other."""
    server, client = Keys.new(directory / "server-keys", SERVER), Keys.new(directory / "client-keys", CLIENT)
    introduce(server, client)
    return server, client


class End:
    """An actor that keeps what it gets and answers each question with the same words."""

    def __init__(self, name: str, *, answers: bool = False) -> None:
        self.name = name
        self.answers = answers
        self.letters: list[Letter] = []
        self.connections: list[bool] = []
        """Calls of `on_connection`, of all links."""

    async def start(self, actor: ActorContext) -> None:
        self.actor = actor

    def drained(self, letters: Sequence[Letter]) -> None:
        self.letters += letters
        if self.answers:
            for letter in letters:
                letter.link.send(letter.message, letter.raw, to=letter.sender)

    def ticked(self, now: Instant) -> None:
        raise AssertionError("nothing armed")

    async def stop(self) -> None:
        pass

    def bind(
        self,
        keys: Keys | None,
        endpoint: str = ANY_PORT,
        limits: LinkLimits = TCP_LIMITS,
        hears: Hears = hear_all,
    ) -> Link:
        return self._watched(self.actor.bind_tcp("peer", endpoint, keys, limits, hears))

    def connect(
        self,
        endpoint: str,
        keys: Keys | None,
        peer: str = SERVER,
        limits: LinkLimits = TCP_LIMITS,
        hears: Hears = hear_all,
    ) -> Link:
        return self._watched(self.actor.connect_tcp("peer", endpoint, keys, limits, peer, hears))

    def _watched(self, link: Link) -> Link:
        link.on_connection = self.connections.append
        return link

    def said(self) -> list[str]:
        """The questions that have come, in order."""
        return [letter.message.what for letter in self.letters if isinstance(letter.message, Ask)]


@contextlib.asynccontextmanager
async def two_ends(directory: Path) -> AsyncIterator[tuple[End, End]]:
    """A server that answers and a client, both running."""
    server, client = End("server", answers=True), End("client")
    async with running(server, directory / "server"), running(client, directory / "client"):
        yield server, client


async def heard(client: End, link: Link, what: str) -> None:
    """Ask over `link` until the answer is there: the link may come and go meanwhile."""
    async with asyncio.timeout(PATIENCE_S):
        while what not in client.said():
            link.send(Ask(request_id=1, what=what))
            await asyncio.sleep(0.01)


class Wire:
    """A TCP cable between two ends that remembers what went over it, and can be cut."""

    def __init__(self, target: str) -> None:
        self.bytes_seen = bytearray()
        self._target = int(target.rpartition(":")[2])
        self._writers: list[asyncio.StreamWriter] = []

    @contextlib.asynccontextmanager
    async def laid(self) -> AsyncIterator[str]:
        """The endpoint at which the cable begins."""
        server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        try:
            yield f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            self.cut()
            await server.wait_closed()

    def cut(self) -> None:
        """End the connections that are there; new ones are carried."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        onward_reader, onward = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers += [writer, onward]
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pump(reader, onward))
            group.create_task(self._pump(onward_reader, writer))

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(65536):
                self.bytes_seen += data
                target.write(data)
                await target.drain()
        target.close()


class Foreign:
    """A bare ZeroMQ socket of somebody who does not keep our rules."""

    def __init__(self, kind: int = zmq.DEALER) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket: zmq.Socket[bytes] = self._context.socket(kind)
        self.socket.setsockopt(zmq.LINGER, 0)
        self._gate: zmq.Socket[bytes] | None = None
        self._monitor = Monitor(self.socket, self._context.socket(zmq.PAIR))
        self.told: list[ConnectionEvent] = []

    def __enter__(self) -> "Foreign":
        return self

    def __exit__(self, *_: object) -> None:
        self._monitor.close()
        self.socket.close(0)
        if self._gate is not None:
            self._gate.close(0)
        self._context.term()

    def as_client(self, public: str, secret: str, server: str) -> None:
        self.socket.setsockopt(zmq.CURVE_PUBLICKEY, bytes.fromhex(public))
        self.socket.setsockopt(zmq.CURVE_SECRETKEY, bytes.fromhex(secret))
        self.socket.setsockopt(zmq.CURVE_SERVERKEY, bytes.fromhex(server))

    def gate(self) -> "zmq.Socket[bytes]":
        """A handler of handshakes in this context that never answers by itself."""
        self._gate = self._context.socket(zmq.ROUTER)
        self._gate.bind(ADDRESS)
        return self._gate

    def has_heard(self, told: ConnectionEvent) -> bool:
        """True if that has happened to its connection so far."""
        self.socket.getsockopt(zmq.EVENTS)
        self.told += [news.event for news in self._monitor.take()]
        return told in self.told

    def received(self) -> list[list[bytes]]:
        """All messages that are there."""
        messages = []
        with contextlib.suppress(zmq.Again):
            while True:
                messages.append(self.socket.recv_multipart(zmq.DONTWAIT))
        return messages
