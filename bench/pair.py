"""The pair: messages durable on both members, beside a bare loop of the same shape.

A message is one sample of 100 bytes; "1000 x 100 B" is one batch of a thousand. Each figure is taken in turns with the
floor (bench/_bare_pair.py), both with CURVE; the floor is printed without it too. Producer, active and passive share
the machine's cores, as do the three processes of the floor; both have been warmed up. Ours is sent by the client
library, which joins what waits into few messages when many are in flight, as any program's would be.
"""

import contextlib
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import numpy as np
import zmq

from albireo.client import SampleProducer, connect
from albireo.drill.ports import KeptPorts
from albireo.machine.producer.sending import Acknowledged
from albireo.model.item import DataItem
from albireo.model.samples import SampleBatch, Strings
from albireo.model.value import ValueType
from albireo.runtime.link.lines import LineTo
from bench import Case, Progress, Result, case, median, result
from bench._bare_pair import NUMBER, socket_of
from bench._pair import MEMBERS, Pair, running_pair

ROUNDS: Final = 3
ROUND_S: Final = 4.0
WARM_S: Final = 8.0
"""Unmeasured, before the rounds of each shape: what lasts is of interest, not the first touch of memory and log."""
TEXT_BYTES: Final = 72
"""With its times, id and quality a sample of a text of this length takes 100 bytes."""
SHAPES: Final = ((1000, 16), (1, 64), (1, 1))
"""(messages in a batch, batches in flight)."""
Round = Callable[[int, int, float], list[float]]
"""(messages in a batch, batches in flight, seconds) -> seconds that each batch took; they end within the time."""


def run(progress: Progress) -> Result:
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        (directory / "pair").mkdir()
        with (
            running_pair(directory / "pair") as pair,
            bare(directory, "curve", curve=True) as floor,
            bare(directory, "null", curve=False) as plain,
            ours(pair) as producer,
        ):
            cases: list[Case] = []
            for batch, in_flight in SHAPES:
                cases += shape(batch, in_flight, producer, floor, plain, progress)
    return result("pair", cases)


def shape(batch: int, in_flight: int, ours: Round, floor: Round, plain: Round, progress: Progress) -> list[Case]:
    """One shape of load: ours and the two floors in turns; of the rounds the median counts."""
    found: dict[str, list[tuple[float, float]]] = {"ours": [], "floor": [], "plain": []}
    for play in (ours, floor, plain):
        play(batch, in_flight, WARM_S)
    for number in range(ROUNDS):
        for name, play in (("ours", ours), ("floor", floor), ("plain", plain)):
            began = time.perf_counter()
            times = play(batch, in_flight, ROUND_S)
            seconds = time.perf_counter() - began
            found[name].append((len(times) * batch / seconds, median(times) * 1e3))
            progress(
                f"{batch} x 100 B, {in_flight} in flight, round {number + 1}, {name}: "
                f"{found[name][-1][0]:,.0f} msg/s, p50 {found[name][-1][1]:.2f} ms"
            )
    rate = {name: median([one[0] for one in rounds]) for name, rounds in found.items()}
    p50 = {name: median([one[1] for one in rounds]) for name, rounds in found.items()}
    what = f"durable on both, {batch} x 100 B, {in_flight} in flight"
    goal = {(1000, 16): ">= 1,000,000", (1, 64): ">= 15,000"}.get((batch, in_flight))
    cases = [
        case(what, "msg/s", rate["ours"], goal=goal),
        case(f"{what}: beside the bare loop", "msg/s", rate["ours"], floor=rate["floor"], goal=">= 0.7"),
        case(f"{what}: the bare loop without CURVE", "msg/s", rate["plain"]),
        case(f"{what}, p50", "ms", p50["ours"], goal="<= 1.0" if in_flight == 1 else None),
        case(f"{what}, p50 of the bare loop", "ms", p50["floor"]),
    ]
    return cases


@contextlib.contextmanager
def ours(pair: Pair) -> Iterator[Round]:
    pair.wait_until_whole()
    with program(pair) as producer:

        def play(batch: int, in_flight: int, seconds: float) -> list[float]:
            rows = [messages(batch)]
            ends = time.perf_counter() + seconds
            under_way: deque[tuple[int, float]] = deque()
            times: list[float] = []
            while under_way or time.perf_counter() < ends:
                while len(under_way) < in_flight and time.perf_counter() < ends:
                    began = time.perf_counter()
                    under_way.append((producer.offer(rows), began))
                receipts = producer.wait(10.0)
                assert receipts, "no answer within 10 s"
                now = time.perf_counter()
                for receipt in receipts:
                    assert isinstance(receipt, Acknowledged), receipt
                    assert receipt.durability == "both", receipt
                    while under_way and under_way[0][0] <= receipt.batch:
                        times.append(now - under_way.popleft()[1])
            return times

        yield play


@contextlib.contextmanager
def program(pair: Pair) -> Iterator[SampleProducer]:
    """One that uses the client library, and speaks to both members."""
    members = [LineTo(pair.clients[name], pair.place(name)) for name in MEMBERS]
    with (
        connect(members, keys=pair.keys) as client,
        client.producer("bench", [DataItem(name="message", value_type=ValueType.STRING)]) as producer,
    ):
        yield producer


def messages(count: int) -> SampleBatch:
    """So many of 100 bytes."""
    times = np.full(count, time.time_ns(), np.int64)
    return SampleBatch(
        value_type=ValueType.STRING,
        item_id=np.zeros(count, np.uint32),
        source_ns=times,
        node_ns=times,
        value=Strings.of(["x" * TEXT_BYTES] * count),
        quality=np.zeros(count, np.uint32),
    )


@contextlib.contextmanager
def bare(directory: Path, name: str, *, curve: bool) -> Iterator[Round]:
    """The bare loop's two processes, and a producer."""
    kept = KeptPorts(2)
    first, replica = (f"tcp://127.0.0.1:{port}" for port in kept.numbers)
    processes = []
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        for role, bind, connect in (("replica", replica, "-"), ("first", first, replica)):
            file = str(directory / f"{name}.{role}.log")
            command = [sys.executable, "-m", "bench._bare_pair", role, file, bind, connect, str(int(curve))]
            process = subprocess.Popen(command, stdout=subprocess.PIPE)
            processes.append(process)
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
        link = socket_of(context, zmq.DEALER, curve, first)
        sent = 0

        def play(batch: int, in_flight: int, seconds: float) -> list[float]:
            nonlocal sent
            body = b"x" * 100 * batch
            ends = time.perf_counter() + seconds
            under_way: deque[tuple[int, float]] = deque()
            times: list[float] = []
            while under_way or time.perf_counter() < ends:
                while len(under_way) < in_flight and time.perf_counter() < ends:
                    sent += 1
                    under_way.append((sent, time.perf_counter()))
                    link.send_multipart([NUMBER.pack(sent), body])
                (number,) = link.recv_multipart()
                now = time.perf_counter()
                while under_way and under_way[0][0] <= NUMBER.unpack(number)[0]:
                    times.append(now - under_way.popleft()[1])
            return times

        yield play
    finally:
        context.destroy(linger=0)
        for process in processes:
            process.kill()
            process.wait()
        kept.close()
