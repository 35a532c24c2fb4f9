"""Ingest: from an adapter process to committed, folded and seen by a follower; and what 400 items at 10 Hz cost.

Three processes share the machine's cores: a producer that sends 1000-sample batches as fast as its credit lets it, the
node (CORE and history) and a follower that takes every frame. A sample counts once the follower has its frame, which
is after it was durable, committed and folded.

Turns are judged by the CPU time they used. By the wall a turn also holds what the machine gave to others: beside it
stands how long bare loops that do nothing pause on the same machine.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import psutil

from albireo.client import Client, connect
from albireo.codec.frame import frames
from albireo.codec.message import Appended, AppendRefused, FeedAlive, FeedAnswer, FeedData, ProducerWelcome
from albireo.codec.record import Stream
from albireo.machine.feed.follower import Digested, Follower, FollowerConfig, LinkUp, Received, TellLeader
from albireo.machine.producer.config import ProducerConfig
from albireo.machine.producer.producer import LinkOpened, Offered, Producer, SendToCore
from albireo.model.instant import MS, SECOND, TimePassed
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.position import Position
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType
from albireo.plant.tunnel import start_tunnel, write_site
from albireo.runtime import SyncLink
from albireo.runtime.clock import boot_ns, wall_ns
from bench import Case, Progress, Result, case, median, result
from bench._node import cpu_seconds, family, longest_turn_ms, running_node, write_topology

ITEMS: Final = 2_000
BATCH: Final = 1_000
ROUNDS: Final = 3
ROUND_S: Final = 6.0
PACED: Final = 600_000
"""Samples/s offered where turns are judged: above the goal, and with room for the four processes on two cores."""
SITE_SETTLE_S: Final = 15.0
SITE_MEASURE_S: Final = 30.0
QUEUE_BYTES: Final = 16 << 20
CASES: Final = 20_000
LIMIT: Final = AlarmSettings(hi=50.0)
TURN_WINDOW_S: Final = 21.0
"""The meter of turns looks back up to 20 s."""


def run(progress: Progress) -> Result:
    return result("ingest", [*throughput(progress), *site(progress), *flood(progress)])


def throughput(progress: Progress) -> list[Case]:
    """Rounds of full load, then one at the rate that is asked for; of the rounds the median counts."""
    rates, costs = [], []
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        topology = write_topology(directory)
        data = directory / "data"
        with running_node(topology, data) as node, connect(data, is_pinned=True) as client:
            core = next(one for one in family(node) if one.cmdline()[-1:] == ["core"])
            for number in range(1, ROUNDS + 1):
                rate, cost = _round(data, core, number, 0)
                rates.append(rate)
                costs.append(cost)
                progress(f"round {number}: {rate:,.0f} samples/s, {cost:.2f} us of CORE's CPU per sample")
            full = longest_turn_ms(client)
            time.sleep(TURN_WINDOW_S)
            progress(f"{PACED:,} samples/s")
            paced, _ = _round(data, core, ROUNDS + 1, PACED)
            turn = longest_turn_ms(client)
    return [
        case("1000-sample batches, adapter to follower", "samples/s", median(rates), goal=">= 500,000"),
        case("CPU of CORE per sample", "us", median(costs)),
        *_turns("both cores full with that load", full, goal=None),
        case("the same, the adapter paced", "samples/s", paced, goal=">= 500,000"),
        *_turns("the adapter paced", turn),
        case("longest pause of a loop that does nothing, both cores busy", "ms", longest_pause_ms()),
    ]


def _turns(when: str, turn: tuple[float, float], goal: str | None = "<= 20") -> list[Case]:
    cpu_ms, wall_ms = turn
    return [
        case(f"longest turn of CORE, {when}", "ms CPU", cpu_ms, goal=goal),
        case(f"longest turn of CORE, {when}, by the wall", "ms", wall_ms),
    ]


def longest_pause_ms(seconds: float = ROUND_S) -> float:
    """Pauses of the machine itself: no turn can be sure to be shorter. Two bare loops, one on each core."""
    program = (
        "import time\n"
        "before = time.perf_counter(); ends = before + " + str(seconds) + "; longest = 0.0\n"
        "while before < ends:\n"
        "    now = time.perf_counter(); longest = max(longest, now - before); before = now\n"
        "print(longest)"
    )
    loops = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) for _ in range(2)]
    return max(float(one.communicate()[0]) for one in loops) * 1e3


def _round(data: Path, core: psutil.Process, number: int, pace: int) -> tuple[float, float]:
    """One round: (samples/s seen by the follower, us of CORE's CPU per sample); `pace` 0 is as fast as it goes."""
    arguments = [str(data), str(ROUND_S), str(number), str(pace)]
    producer = subprocess.Popen([sys.executable, "-m", "bench.ingest", "produce", *arguments])
    before = core.cpu_times()
    try:
        seen, seconds = _follow(data, ROUND_S)
    finally:
        producer.wait()
    after = core.cpu_times()
    spent = after.user + after.system - before.user - before.system
    return seen / seconds, spent / max(1, seen) * 1e6


def _follow(data: Path, seconds: float) -> tuple[int, float]:
    """Take frames for `seconds` from the first sample on; (samples seen, how long it took)."""
    with connect(data, is_pinned=True) as client, SyncLink(data, "core") as link:
        status = client.ask("status")
        assert isinstance(status, dict)
        log = status["log"]
        head = Position(log["epoch"], log["sequence"])  # What earlier rounds left behind is not to be read again.
        config = FollowerConfig(name="bench", streams=(int(Stream.SAMPLES),), capacity_bytes=16 << 20)
        machine = Follower(config, head, bytes.fromhex(log["log_id"]))
        _say(link, machine.step(LinkUp(), boot_ns()))
        seen, began, last = 0, 0, 0
        while not began or boot_ns() < began + seconds * SECOND:
            received = link.receive(0.5)
            if received is None:
                _say(link, machine.step(TimePassed(), boot_ns()))
                continue
            message, raw = received
            if not isinstance(message, FeedAnswer | FeedData | FeedAlive):
                continue
            effects = machine.step(Received(message, sum(map(len, raw))), boot_ns())
            if isinstance(message, FeedData) and message.last == machine.position:
                counts = [h.record_count for h, _ in frames(raw[0], verify=False) if h.record_count >= BATCH]
                if counts:
                    began = began or boot_ns()
                    seen += sum(counts)
                    last = boot_ns()
                effects += machine.step(Digested(machine.position), boot_ns())
            _say(link, effects)
    return seen, (last - began) / SECOND


def _say(link: SyncLink, effects: object) -> None:
    assert isinstance(effects, list)
    for effect in effects:
        if isinstance(effect, TellLeader):
            link.send(effect.message)


def produce(data: Path, seconds: float, number: int, pace: int) -> None:
    """The adapter process: batches as fast as the producer machine takes them."""
    alarm = AlarmSettings(hi=99.5, lo=-99.5, hysteresis=1.0)
    items = [DataItem(name=f"x_{n}", value_type=ValueType.FLOAT64, alarm=alarm) for n in range(ITEMS)]
    machine = Producer("load", items, run=number, config=ProducerConfig(queue_bytes_max=QUEUE_BYTES))
    source = np.random.default_rng(number)
    rows = [source.permutation(ITEMS)[:BATCH].astype(np.uint32) for _ in range(16)]
    values = [source.normal(0.0, 10.0, BATCH) for _ in range(16)]
    quality = np.zeros(BATCH, np.uint32)
    with SyncLink(data, "core") as link:
        _send(link, machine.step(LinkOpened(), boot_ns()))
        began = boot_ns()
        ends = began + (seconds + 2.0) * SECOND
        turn = 0
        while boot_ns() < ends:
            allowed = (boot_ns() - began) * pace // (SECOND * BATCH) if pace else turn + 8
            while machine.is_streaming and machine.queue_bytes < QUEUE_BYTES // 2 and turn < allowed:
                times = np.full(BATCH, wall_ns(), np.int64)
                batch = SampleBatch(
                    value_type=ValueType.FLOAT64,
                    item_id=rows[turn % 16],
                    source_ns=times,
                    node_ns=times,
                    value=values[turn % 16],
                    quality=quality,
                )
                turn += 1
                _send(link, machine.step(Offered(batches=(batch,)), boot_ns()))
                if turn % 8 == 0:
                    break
            is_free = machine.queue_bytes < QUEUE_BYTES // 2 and machine.is_streaming
            received = link.receive((0.002 if pace else 0.0) if is_free else 0.2)
            if received is None:
                _send(link, machine.step(TimePassed(), boot_ns()))
            elif isinstance(received[0], ProducerWelcome | Appended | AppendRefused):
                _send(link, machine.step(received[0], boot_ns()))


def _send(link: SyncLink, sends: list[SendToCore]) -> None:
    for one in sends:
        link.send(one.message, one.raw)


def site(progress: Progress) -> list[Case]:
    """The demo's tunnel, 400 items polled at 10 Hz: what the whole node costs."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        with start_tunnel(directory / "plant") as tunnel:
            topology = write_site(directory / "site", tunnel.ports)
            data = directory / "data"
            with running_node(topology, data) as node, connect(data, is_pinned=True) as client:
                progress(f"400 items at 10 Hz for {SITE_MEASURE_S:g} s")
                time.sleep(SITE_SETTLE_S)
                processes = family(node)
                before = cpu_seconds(processes)
                time.sleep(SITE_MEASURE_S)
                percent = (cpu_seconds(processes) - before) / SITE_MEASURE_S * 100
                turn = longest_turn_ms(client)
    return [
        case("400 items at 10 Hz, whole node, of one core", "%", percent, goal="< 15"),
        *_turns("400 items at 10 Hz", turn),
    ]


def flood(progress: Progress) -> list[Case]:
    """20,000 items go above their limits in one batch, while another producer's values are timed."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        topology = write_topology(directory)
        data = directory / "data"
        with running_node(topology, data), connect(data, is_pinned=True) as client, SyncLink(data, "core") as link:
            progress(f"{CASES:,} cases at once")
            items = [DataItem(name=f"x_{n}", value_type=ValueType.FLOAT64, alarm=LIMIT) for n in range(CASES)]
            machine = Producer("flood", items, run=1, config=ProducerConfig())
            _send(link, machine.step(LinkOpened(), boot_ns()))
            _pump(link, machine, lambda: machine.is_streaming)
            _offer(link, machine, 0.0)
            _pump(link, machine, lambda: machine.is_all_acknowledged)
            time.sleep(TURN_WINDOW_S)  # The turns of the start leave the meter.
            began = boot_ns()
            _offer(link, machine, 100.0)
            _pump(link, machine, lambda: machine.is_all_acknowledged)
            slowest = 0.0
            while _open_cases(client) < CASES:
                asked = boot_ns()
                client.ask("items", names=["x_1"])
                slowest = max(slowest, (boot_ns() - asked) / MS)
            seconds = (boot_ns() - began) / SECOND
            turn = longest_turn_ms(client)
    return [
        case("20,000 cases at once: until all are raised", "s", seconds),
        *_turns("20,000 cases at once", turn),
        case("20,000 cases at once: slowest answer to a question meanwhile", "ms", slowest),
    ]


def _offer(link: SyncLink, machine: Producer, value: float) -> None:
    """One value for every item."""
    times = np.full(CASES, wall_ns(), np.int64)
    batch = SampleBatch(
        value_type=ValueType.FLOAT64,
        item_id=np.arange(CASES, dtype=np.uint32),
        source_ns=times,
        node_ns=times,
        value=np.full(CASES, value),
        quality=np.zeros(CASES, np.uint32),
    )
    _send(link, machine.step(Offered(batches=(batch,)), boot_ns()))


def _pump(link: SyncLink, machine: Producer, is_done: Callable[[], bool]) -> None:
    while not is_done():
        received = link.receive(0.1)
        if received is None:
            _send(link, machine.step(TimePassed(), boot_ns()))
        elif isinstance(received[0], ProducerWelcome | Appended | AppendRefused):
            _send(link, machine.step(received[0], boot_ns()))


def _open_cases(client: Client) -> int:
    status = client.ask("status")
    assert isinstance(status, dict)
    return int(status["cases"]["open"])


if __name__ == "__main__":
    produce(Path(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
