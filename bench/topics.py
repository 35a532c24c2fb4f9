"""Topics, beside the same load as samples (`bench pair`), and beside brokers in their durable modes.

100-byte messages. Each figure is taken in turns, three rounds, medians; all servers and clients share the machine's
cores, and all run all the time. What an acknowledgement survives stands beside each name. A peer that is not on this
machine is left out with a word.
"""

import contextlib
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import psutil

from albireo.client import Client, TopicPolicy
from bench import Case, Progress, Result, case, median, pair, result
from bench._filtered import COUNT as FOLLOWERS
from bench._filtered import FilteredFollowers, cpu_s
from bench._pair import CLIENT, MEMBERS
from bench.brokers import BODY, Absent, Broker, crowd
from bench.brokers.mosquitto import mosquitto
from bench.brokers.nats import nats
from bench.brokers.ours import TOPIC, Ours, ours
from bench.brokers.rabbitmq import rabbitmq
from bench.brokers.valkey import valkey

ROUNDS: Final = 3
ROUND_S: Final = 2.0
TAKEOVER_S: Final = 12.0
CROWD: Final = (4, 5, 500)
"""Programs, clients of each, and consumers of each of these."""
CROWD_S: Final = 120.0
CALM_S: Final = 3.0
SHAPES: Final = (
    (1000, 16, "1000 x 100 B, 16 in flight"),
    (1, 64, "one each, 64 in flight"),
    (1, 1, "one each, one in flight"),
)
AS_SAFE: Final = ("NATS", "RabbitMQ", "Valkey")
"""Peers whose acknowledgement survives as much."""
MANY: Final = 1_000
SEEK_GIB: Final = 10
SEEKS: Final = 5
LARGE_BYTES: Final = 10_000
Play = Callable[[int, int, float], list[float]]


def run(progress: Progress, seek_gib: int = SEEK_GIB) -> Result:
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as afterwards:
        mine = afterwards.enter_context(ours(_folder(scratch, "ours")))
        brokers: list[Broker] = [mine]
        for name, factory in (("nats", nats), ("rabbitmq", rabbitmq), ("valkey", valkey), ("mosquitto", mosquitto)):
            try:
                brokers.append(afterwards.enter_context(factory(_folder(scratch, name))))
            except Absent as error:
                progress(f"{name} is left out: {error}")
        samples = afterwards.enter_context(pair.ours(mine.pair))
        cases: list[Case] = []
        for shape in SHAPES:
            cases += _shape(*shape, brokers, samples, progress)
        cases += _cpu_of_core(mine, progress)
        cases += _filtered(mine, progress)
        cases += _many(mine, progress)
        cases += _seek(mine, seek_gib, progress)
        cases += _crowd(mine, progress)
        cases += _takeovers(brokers, progress)
    return result("topics", cases)


def _folder(scratch: str, name: str) -> Path:
    folder = Path(scratch) / name
    folder.mkdir()
    return folder


def _shape(
    batch: int, in_flight: int, what: str, brokers: Sequence[Broker], samples: Play, progress: Progress
) -> list[Case]:
    """One shape of load: all in turns."""
    rates: dict[str, list[float]] = {}
    p50s: dict[str, list[float]] = {}
    reads: dict[str, list[float]] = {}
    cpu: dict[str, list[float]] = {}
    for number in range(ROUNDS + 1):  # The first one warms up.
        for name, play, broker in [("samples", samples, None), *((one.name, one.put, one) for one in brokers)]:
            began, cpu_began = time.perf_counter(), 0.0 if broker is None else broker.cpu_s()
            times = play(batch, in_flight, ROUND_S)
            count = len(times) * batch
            rate = count / (time.perf_counter() - began)
            used = 0.0 if broker is None else (broker.cpu_s() - cpu_began) / count * 1e6
            read_began = time.perf_counter()
            if broker is not None:
                broker.consume(count)
            read = count / (time.perf_counter() - read_began)
            progress(
                f"{what}, round {number}, {name}: {rate:,.0f} msg/s, p50 {median(times) * 1e3:.2f} ms, read {read:,.0f}"
            )
            if number:
                rates.setdefault(name, []).append(rate)
                p50s.setdefault(name, []).append(median(times) * 1e3)
                reads.setdefault(name, []).append(read)
                cpu.setdefault(name, []).append(used)
    mine, *peers = brokers
    put, p50 = median(rates[mine.name]), median(p50s[mine.name])
    goal = {(1000, 16): ">= 1.0", (1, 64): ">= 0.9"}.get((batch, in_flight))
    cases = [case(f"{what}: beside samples of `bench pair`", "msg/s", put, median(rates["samples"]), goal)]
    if in_flight == 1:
        cases.append(case(f"{what}, p50: beside `bench pair`", "ms", p50, median(p50s["samples"]), "<= 1.1"))
    for one in peers:
        is_judged = one.name.startswith(AS_SAFE) and in_flight > 1
        wanted = ">= 1.0" if is_judged else None
        cases.append(case(f"{what}: beside {one.name} ({one.survives})", "msg/s", put, median(rates[one.name]), wanted))
        if in_flight == 1:
            cases.append(case(f"{what}, p50: beside {one.name}", "ms", p50, median(p50s[one.name])))
    if batch > 1:
        read = median(reads[mine.name])
        cases.append(case(f"{what}: consumed and acknowledged, beside put", "msg/s", read, put, ">= 0.9"))
        pulling = [one for one in peers if not one.name.startswith("Mosquitto")]
        cases += [
            case(f"consumed and acknowledged: beside {one.name}", "msg/s", read, median(reads[one.name]))
            for one in pulling
        ]
    for one in peers:
        figures = median(cpu[mine.name]), median(cpu[one.name])
        if figures[1]:
            cases.append(case(f"{what}, CPU of all servers: beside {one.name}", "s per million", *figures))
    for one in brokers if batch > 1 else ():
        cases.append(case(f"memory of all servers of {one.name}", "MiB", one.memory_mib()))
    return cases


def _core_of(mine: Ours) -> psutil.Process:
    """CORE of the member that leads."""
    family = mine.pair.family(mine.pair.wait_until_whole())
    return next(one for one in family if "core" in " ".join(one.cmdline()).split())


def _cpu_of_core(mine: Ours, progress: Progress) -> list[Case]:
    core = _core_of(mine)
    per_batch: dict[int, float] = {}
    for batch in (1, 1000):
        mine.put(batch, 1, 1.0)
        began = sum(core.cpu_times()[:2])
        times = mine.put(batch, 1, ROUND_S)
        per_batch[batch] = (sum(core.cpu_times()[:2]) - began) / len(times) * 1e6
        progress(f"CORE: {per_batch[batch]:.0f} us of CPU per batch of {batch}")
    return [case("CPU of CORE per batch of 1,000, beside a batch of 1", "us", per_batch[1000], per_batch[1], "<= 1.5")]


def _filtered(mine: Ours, progress: Progress) -> list[Case]:
    """CPU of CORE for each frame and follower that wants none of it, less what these take while nothing is put."""
    core = _core_of(mine)
    data = mine.pair.data(mine.pair.wait_until_whole())
    found: list[float] = []
    for _ in range(ROUNDS):
        bare_frames, bare = _core_load(mine, core)
        with FilteredFollowers(data):
            idle_began = cpu_s(core)
            time.sleep(ROUND_S)
            idle = cpu_s(core) - idle_began
            frames, loaded = _core_load(mine, core)
        found.append(((loaded - idle) / frames - bare / bare_frames) / FOLLOWERS * 1e6)
    progress(f"a further filtered follower: {', '.join(f'{one:.2f}' for one in found)} us of CORE per frame")
    return [case("a further filtered follower, CPU of CORE per frame", "us", median(found), goal="<= 0.5")]


def _core_load(mine: Ours, core: psutil.Process) -> tuple[int, float]:
    """Frames that were put one by one in a round, and the CPU of CORE meanwhile, in seconds."""
    began = cpu_s(core)
    return len(mine.put(1, 1, ROUND_S)), cpu_s(core) - began


def _many(mine: Ours, progress: Progress) -> list[Case]:
    """The cost of a further topic, and of a further subscription."""
    cases: list[Case] = []
    client = mine.client

    def declare(number: int) -> None:
        with_admin.topics.create(f"many.{number}")

    def subscribe(number: int) -> None:
        client.topics.subscribe(f"many.{number}", subscriber="many")

    with _admin(mine) as with_admin:
        for what, add in (("topic", declare), ("subscription", subscribe)):
            before, began = mine.memory_mib(), time.perf_counter()
            for number in range(MANY):
                add(number)
            took = (time.perf_counter() - began) / MANY * 1e3
            grown = (mine.memory_mib() - before) * 1024 / MANY
            progress(f"a further {what}: {took:.2f} ms, {grown:.1f} KiB in all processes of both members")
            cases.append(case(f"a further {what} of {MANY:,}, time", "ms", took))
            cases.append(case(f"a further {what} of {MANY:,}, memory of all processes of the pair", "KiB", grown))
    return cases


@contextlib.contextmanager
def _admin(mine: Ours) -> Iterator[Client]:
    from albireo.client import connect

    with connect(mine.pair.data(mine.pair.wait_until_whole())) as admin:
        yield admin


def _seek(mine: Ours, gib: int, progress: Progress) -> list[Case]:
    """The first message of a subscription that begins with what is kept."""
    with _admin(mine) as admin:
        admin.topics.create("large", TopicPolicy(keep_s=86_400))
    drawn = random.Random(1).randbytes(8 << 20)  # A file has no use for what a compressor takes away.
    for number in range((gib << 30) // (LARGE_BYTES * 50)):
        begin = number * 4_999 % (len(drawn) - LARGE_BYTES * 50)
        bodies = [drawn[at : at + LARGE_BYTES] for at in range(begin, begin + LARGE_BYTES * 50, LARGE_BYTES)]
        mine.client.topics.put_many("large", bodies)
    found: list[float] = []
    for number in range(SEEKS):
        mine.client.topics.subscribe("large", subscriber=f"seek-{number}", from_first=True)
        began = time.perf_counter()
        with mine.client.topics.consumer("large", subscriber=f"seek-{number}") as consumer:
            assert consumer.take(30.0)
        found.append((time.perf_counter() - began) * 1e3)
        mine.client.topics.unsubscribe("large", subscriber=f"seek-{number}")
    progress(f"first message of {gib} GiB: {', '.join(f'{one:.0f}' for one in found)} ms")
    return [case(f"first message of a seek in {gib} GiB, p50", "ms", median(found), goal="<= 50")]


def _takeovers(brokers: Sequence[Broker], progress: Progress) -> list[Case]:
    found = {one.name: told for one in brokers if (told := one.takeover(TAKEOVER_S)) is not None}
    for name, told in found.items():
        progress(f"{name}: {told}")
    mine, *peers = found.items()
    cases = [
        case("kill -9 of the leader under puts: lost, doubled, reordered", "messages", float(wrong), goal="<= 0")
        for wrong in (mine[1].lost + mine[1].doubled + mine[1].reordered,)
    ]
    for name, told in peers:
        cases.append(case(f"gap of a takeover: beside {name}", "s", mine[1].gap_s, told.gap_s, "<= 1.0"))
    return cases


def _crowd(mine: Ours, progress: Progress) -> list[Case]:
    """Ten thousand consumers of one topic, whose member is killed. They are niced: others have them elsewhere."""
    topics, programs = mine.client.topics, CROWD[0]
    with _admin(mine) as admin:
        admin.topics.create(crowd.TOPIC)
    places = [word for name in MEMBERS for word in (mine.pair.clients[name], mine.pair.place(name))]
    told: dict[str, list[float]] = {}
    puts: list[float] = []
    with contextlib.ExitStack() as afterwards:

        def listen(program: "subprocess.Popen[str]") -> None:
            for line in program.stdout or ():
                told.setdefault(line.strip(), []).append(time.perf_counter())

        for number in range(programs):
            command = ["nice", "-n", "15", sys.executable, "-m", "bench.brokers.crowd"]
            command += [str(mine.pair.directory / CLIENT / "keys"), *map(str, (number, *CROWD[1:])), *places]
            program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            afterwards.callback(program.wait)
            afterwards.callback(program.terminate)
            threading.Thread(target=listen, args=(program,), daemon=True).start()

        def put() -> None:
            began = time.perf_counter()
            topics.put(TOPIC, BODY)
            puts.append((time.perf_counter() - began) * 1e3)
            time.sleep(0.005)

        def wait_for(word: str) -> float:
            """When the last program said this."""
            ends = time.perf_counter() + CROWD_S
            while len(told.get(word, ())) < programs:
                assert time.perf_counter() < ends, f"{word}: {len(told.get(word, ()))} of {programs} programs"
                put()
            return max(told[word])

        wait_for("ready")
        topics.put(crowd.TOPIC, b"before")
        wait_for("all before")
        puts.clear()
        calm = time.perf_counter() + CALM_S
        while time.perf_counter() < calm:
            put()
        before = list(puts)
        leader = mine.pair.wait_until_whole()
        mine.pair.kill(leader)
        killed = time.perf_counter()
        puts.clear()
        topics.put(crowd.TOPIC, b"after")
        back = wait_for("all after") - killed
        after_ms, before_ms = (sorted(one)[int(0.99 * len(one))] for one in (puts, before))
        mine.pair.start(leader)
        mine.pair.wait_until_whole()
    progress(f"{programs * CROWD[1] * CROWD[2]:,} consumers have a message {back:.1f} s after the kill")
    return [
        case("10,000 consumers back after a takeover", "s", back, goal="<= 60"),
        case("p99 of puts meanwhile, beside puts before", "ms", after_ms, before_ms, goal="<= 3.0"),
    ]
