"""RabbitMQ: a quorum queue of three servers, which answers once two of them have a message on disk."""

import asyncio
import contextlib
import importlib
import importlib.util
import os
import shutil
import time
from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import psutil

from albireo.drill.ports import KeptPorts
from bench.brokers import BODY, Absent, Broker, Takeover, judged, servers, until

QUEUE: Final = "bench"
MOVED: Final = "takeover"
SERVER: Final = "/usr/lib/rabbitmq/bin/rabbitmq-server"
PREFETCH: Final = 2_000
ANSWER_S: Final = 2.0
AGAIN_S: Final = 60.0
BEGIN_S: Final = 120.0
_Result = TypeVar("_Result")


class RabbitMq(Broker):
    name = "RabbitMQ, quorum queue of 3"
    survives = "one of three servers, and all at once: two have it on disk"

    def __init__(self, ports: Sequence[int], started: Sequence[Any], loop: asyncio.AbstractEventLoop) -> None:
        self._urls = [f"amqp://guest:guest@127.0.0.1:{port}/" for port in ports]
        self._started = started
        self._loop = loop
        self._amqp: Any = importlib.import_module("aiormq")
        self._connection: Any = None
        self._channel: Any = None
        self._came: asyncio.Queue[Any] = asyncio.Queue()
        self._is_reading = False

    def processes(self) -> Sequence[psutil.Process]:
        """The servers run below the scripts that started them."""
        alive = [psutil.Process(one.pid) for one in self._started if one.poll() is None]
        return [each for one in alive for each in (one, *one.children(recursive=True))]

    def _done(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        return self._loop.run_until_complete(work)

    def declare(self) -> None:
        self._done(self._declare())

    async def _declare(self) -> None:
        self._connection = await self._amqp.connect(self._urls[0])
        self._channel = await self._connection.channel()
        for name in (QUEUE, MOVED):
            await self._channel.queue_declare(name, durable=True, arguments={"x-queue-type": "quorum"})
        await self._channel.basic_qos(prefetch_count=PREFETCH)

    def close(self) -> None:
        with contextlib.suppress(Exception):  # It may be gone with its server.
            self._done(asyncio.wait_for(self._connection.close(), ANSWER_S))
        left = asyncio.all_tasks(self._loop)
        for one in left:
            one.cancel()
        if left:
            self._done(asyncio.wait(left, timeout=ANSWER_S))

    def put(self, batch: int, in_flight: int, seconds: float) -> list[float]:
        return self._done(self._put(batch, in_flight, seconds))

    async def _put(self, batch: int, in_flight: int, seconds: float) -> list[float]:
        ends, times = time.perf_counter() + seconds, list[float]()

        async def go_on() -> None:
            while (began := time.perf_counter()) < ends:
                await asyncio.gather(*(self._put_one(self._channel, QUEUE, BODY) for _ in range(batch)))
                times.append(time.perf_counter() - began)

        await asyncio.gather(*(go_on() for _ in range(in_flight)))
        return times

    async def _put_one(self, channel: Any, queue: str, body: bytes) -> None:
        await channel.basic_publish(
            body, routing_key=queue, properties=self._amqp.spec.Basic.Properties(delivery_mode=2)
        )

    def consume(self, count: int) -> None:
        self._done(self._consume(count))

    async def _consume(self, count: int) -> None:
        if not self._is_reading:
            self._is_reading = True
            await self._channel.basic_consume(QUEUE, self._came.put)
        for number in range(1, count + 1):
            message = await asyncio.wait_for(self._came.get(), AGAIN_S)
            if number == count or number % (PREFETCH // 4) == 0:
                await self._channel.basic_ack(message.delivery.delivery_tag, multiple=True)
        await self._channel.queue_declare(QUEUE, passive=True)

    def takeover(self, seconds: float) -> Takeover:
        return self._done(self._takeover(seconds))

    async def _takeover(self, seconds: float) -> Takeover:
        """Kill the first server: the queue was declared there, so it leads."""
        began = time.perf_counter()
        times, acked, number, is_killed = [began], list[int](), 0, False
        connection, channel = self._connection, self._channel
        while time.perf_counter() < began + seconds:
            if not is_killed and time.perf_counter() > began + seconds / 2:
                for one in self.processes_of(0):
                    one.kill()
                is_killed = True
            number += 1
            connection, channel = await self._put_through(connection, channel, number)
            acked.append(number)
            times.append(time.perf_counter())
        there: list[int] = []
        while len(set(there)) < len(acked):
            got = await channel.basic_get(MOVED, no_ack=True)
            if got.delivery_tag is None and not got.body:
                break
            there.append(int(got.body))
        self._connection = connection
        return judged(times, acked, there)

    def processes_of(self, server: int) -> list[psutil.Process]:
        script = psutil.Process(self._started[server].pid)
        return [*script.children(recursive=True), script]

    async def _put_through(self, connection: Any, channel: Any, number: int) -> tuple[Any, Any]:
        """Put again at another server until one answers."""
        ends = time.monotonic() + AGAIN_S
        while True:
            try:
                await asyncio.wait_for(self._put_one(channel, MOVED, b"%d" % number), ANSWER_S)
            except Exception:  # Whatever a client says of a server that is gone.
                if time.monotonic() > ends:
                    raise
                with contextlib.suppress(Exception):
                    connection = await asyncio.wait_for(self._amqp.connect(self._urls[1]), ANSWER_S)
                    channel = await connection.channel()
            else:
                return connection, channel


@contextlib.contextmanager
def rabbitmq(directory: Path) -> Iterator[RabbitMq]:
    """Three servers and a client. Raises Absent: they, or the client, are not there."""
    mapper = shutil.which("epmd")
    if not Path(SERVER).exists() or mapper is None or importlib.util.find_spec("aiormq") is None:
        raise Absent("no rabbitmq-server (Debian: rabbitmq-server), or no aiormq of the package index")
    with KeptPorts(7) as kept:
        clients, links, names = kept.numbers[:3], kept.numbers[3:6], kept.numbers[6]
        commands = [[mapper, "-port", str(names), "-address", "127.0.0.1"]]
        nodes = [f"bench{number}@localhost" for number in range(3)]
        for number, node in enumerate(nodes):
            config = directory / f"{number}.conf"
            peers = "".join(f"cluster_formation.classic_config.nodes.{i} = {one}\n" for i, one in enumerate(nodes, 1))
            config.write_text(
                f"listeners.tcp.1 = 127.0.0.1:{clients[number]}\n"
                f"cluster_formation.peer_discovery_backend = classic_config\n{peers}"
            )
            settings = {
                "HOME": directory, "RABBITMQ_NODENAME": node, "RABBITMQ_CONFIG_FILE": config,
                "RABBITMQ_DIST_PORT": links[number], "RABBITMQ_MNESIA_BASE": directory / f"data{number}",
                "RABBITMQ_LOG_BASE": directory / f"log{number}", "RABBITMQ_ENABLED_PLUGINS_FILE": directory / "plugins",
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
                "ERL_EPMD_PORT": names, "ERL_EPMD_ADDRESS": "127.0.0.1",
            }  # fmt: skip
            commands.append(["env", *(f"{key}={value}" for key, value in settings.items()), SERVER])
        (directory / "plugins").write_text("[].\n")
        cookie = directory / ".erlang.cookie"
        cookie.write_text(os.urandom(16).hex())
        cookie.chmod(0o400)
        loop = asyncio.new_event_loop()
        with servers(commands, directory) as started:
            broker = RabbitMq(clients, started[1:], loop)
            try:
                logs = [directory / f"log{one}" for one in range(3)]
                until("three servers are one", lambda: all(map(_is_up, logs)), BEGIN_S)
                broker.declare()
                yield broker
            finally:
                broker.close()
                loop.close()
                for one in broker.processes():
                    one.kill()


def _is_up(log: Path) -> bool:
    return any("Server startup complete" in one.read_text(errors="replace") for one in log.glob("*.log"))
