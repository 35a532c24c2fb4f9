"""Cost of encryption: one message there and back, and a stream of them, over TCP on the loopback.

Ours is CURVE, the floor the same socket pair without keys (NULL). Both ends are in one process, so the CPU figure is
that of sender and receiver together, libzmq's two threads included.
"""

import resource
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import zmq

from albireo.runtime.link.curve import call_as, serve_as
from albireo.runtime.link.key_files import new_pair
from albireo.runtime.link.zap import ZapHandler
from bench import Case, Progress, Result, case, result

SIZES: Final = {100: 20_000, 65_536: 3_000}
"""Bytes of a message: how many are streamed."""
IN_FLIGHT_MAX: Final = 500
ROUNDS: Final = 5
HANDSHAKES: Final = 50


class Pair:
    """A connected ROUTER and DEALER in contexts of their own."""

    def __init__(self, *, is_secret: bool) -> None:
        self._contexts = zmq.Context(), zmq.Context()
        self.server, self.client = self._contexts[0].socket(zmq.ROUTER), self._contexts[1].socket(zmq.DEALER)
        self._gate: ZapHandler | None = None
        if is_secret:
            server, client = new_pair(), new_pair()
            self._gate = ZapHandler(self._contexts[0].socket(zmq.ROUTER), lambda _: None)
            self._gate.domains["bench"] = lambda public: "client" if public == client.public else ""
            serve_as(self.server, server, "bench")
            call_as(self.client, client, server.public)
        self.server.bind("tcp://127.0.0.1:*")
        self.client.connect(self.server.getsockopt_string(zmq.LAST_ENDPOINT))
        self.client.send(b"hello")
        while not self.server.poll(1):
            if self._gate is not None:
                self._gate.answer()
        self.peer = self.server.recv_multipart()[0]

    def there_and_back_us(self, message: bytes, count: int) -> float:
        took = []
        for _ in range(count):
            began = time.perf_counter_ns()
            self.client.send(message)
            self.server.send_multipart([self.peer, self.server.recv_multipart()[1]])
            self.client.recv()
            took.append(time.perf_counter_ns() - began)
        return statistics.median(took) / 1000

    def stream_cpu_us(self, message: bytes, count: int) -> float:
        began, sent = _cpu_s(), 0
        for received in range(count):
            while sent < count and sent - received < IN_FLIGHT_MAX:
                self.client.send(message)
                sent += 1
            self.server.recv_multipart()
        return (_cpu_s() - began) / count * 1e6

    def close(self) -> None:
        self.server.close(0)
        self.client.close(0)
        if self._gate is not None:
            self._gate.close()
        for context in self._contexts:
            context.term()


@contextmanager
def connected(*, is_secret: bool) -> Iterator[Pair]:
    pair = Pair(is_secret=is_secret)
    try:
        yield pair
    finally:
        pair.close()


def run(progress: Progress) -> Result:
    cases: list[Case] = []
    for size, count in SIZES.items():
        progress(f"messages of {size} B, {ROUNDS} rounds")
        back: dict[bool, list[float]] = {True: [], False: []}
        stream: dict[bool, list[float]] = {True: [], False: []}
        for _ in range(ROUNDS):
            for is_secret in (True, False):
                with connected(is_secret=is_secret) as pair:
                    back[is_secret].append(pair.there_and_back_us(bytes(size), count // 10))
                    stream[is_secret].append(pair.stream_cpu_us(bytes(size), count))
        cases.append(case(f"{size} B there and back, p50", "us", min(back[True]), min(back[False])))
        cases.append(case(f"{size} B in a stream, CPU of both ends", "us", min(stream[True]), min(stream[False])))
    progress(f"{HANDSHAKES} handshakes")
    made = {
        is_secret: statistics.median(_connect_ms(is_secret) for _ in range(HANDSHAKES)) for is_secret in (True, False)
    }
    cases.append(case("connection, handshake and first message, p50", "ms", made[True], made[False]))
    return result("curve", cases)


def _connect_ms(is_secret: bool) -> float:
    began = time.perf_counter()
    with connected(is_secret=is_secret):
        return (time.perf_counter() - began) * 1000


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
