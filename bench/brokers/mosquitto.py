"""Mosquitto: QoS 1 to one server, which answers before it is on a disk."""

import contextlib
import importlib.util
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import psutil

from albireo.drill.ports import KeptPorts
from bench.brokers import BODY, Absent, Broker, servers, until

TOPIC: Final = "bench"


class Mosquitto(Broker):
    name = "Mosquitto, QoS 1"
    survives = "nothing that ends the server by force: it answers before it writes"

    def __init__(self, port: int, started: Sequence[Any]) -> None:
        from paho.mqtt.client import Client
        from paho.mqtt.enums import CallbackAPIVersion

        self._started = started
        self._port = port
        self._lock = threading.Condition()
        self._came = 0
        self._reader: Any = Client(CallbackAPIVersion.VERSION2, "reader", clean_session=False)
        self._reader.on_message = self._took
        self._writer: Any = Client(CallbackAPIVersion.VERSION2, "writer")
        self._writer.max_inflight_messages_set(20_000)

    def processes(self) -> Sequence[psutil.Process]:
        return [psutil.Process(one.pid) for one in self._started if one.poll() is None]

    def declare(self) -> None:
        self._reader.connect("127.0.0.1", self._port)
        self._reader.subscribe(TOPIC, qos=1)
        self._reader.loop_start()
        self._writer.connect("127.0.0.1", self._port)
        self._writer.loop_start()

    def close(self) -> None:
        for one in (self._writer, self._reader):
            one.disconnect()
            one.loop_stop()

    def _took(self, *_: Any) -> None:
        with self._lock:
            self._came += 1
            self._lock.notify_all()

    def put(self, batch: int, in_flight: int, seconds: float) -> list[float]:
        ends, times, under_way = time.perf_counter() + seconds, list[float](), list[tuple[list[Any], float]]()
        while under_way or time.perf_counter() < ends:
            while len(under_way) < in_flight and time.perf_counter() < ends:
                began = time.perf_counter()
                under_way.append(([self._writer.publish(TOPIC, BODY, qos=1) for _ in range(batch)], began))
            said, began = under_way.pop(0)
            for one in said:
                one.wait_for_publish(30)
            times.append(time.perf_counter() - began)
        return times

    def consume(self, count: int) -> None:
        """It pushes: what was put is taken meanwhile, or soon."""
        with self._lock:
            assert self._lock.wait_for(lambda: self._came >= count, 60), f"{self._came} of {count} came"
            self._came -= count


@contextlib.contextmanager
def mosquitto(directory: Path) -> Iterator[Mosquitto]:
    """A server. Raises Absent: it, or its client, is not there."""
    server = shutil.which("mosquitto") or shutil.which("/usr/sbin/mosquitto")
    if server is None or importlib.util.find_spec("paho") is None:
        raise Absent("no mosquitto (Debian: mosquitto), or no paho-mqtt")
    with KeptPorts(1) as kept:
        (port,) = kept.numbers
        config = directory / "mosquitto.conf"
        config.write_text(
            f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence true\n"
            f"persistence_location {directory}/\nmax_queued_messages 0\nmax_inflight_messages 0\nuser root\n"
        )
        with servers([[server, "-c", str(config)]], directory) as started:
            broker = Mosquitto(port, started)
            until("it listens", lambda: _listens(port))
            broker.declare()
            try:
                yield broker
            finally:
                broker.close()


def _listens(port: int) -> bool:
    import socket

    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0
