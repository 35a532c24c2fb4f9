"""Catch-up: a member that was away for a gigabyte comes back, while its pair goes on working.

The producer is driven at 60 % of what the remaining member takes alone, for as long as the other one needs until it is
in the set again. The live path is to keep 70 % of that rate. Both members, their histories and the producer share the
machine's cores. The cost does not end with that moment: from then on each message goes to both, and the history of the
member that came back has most of its work before it. So the rate of the seconds that follow is told too.
"""

import shutil
import tempfile
import threading
import time
from collections import deque
from pathlib import Path
from typing import Final

from albireo.client import SampleProducer
from bench import Case, Progress, Result, case, result
from bench._pair import MEMBERS, Pair, running_pair
from bench.pair import messages, program

BATCH: Final = 1000
MESSAGE_BYTES: Final = 100
IN_FLIGHT: Final = 16
BEHIND_BYTES: Final = 1 << 30
SOLO_S: Final = 4.0
"""A member writes up to 200 MB/s alone, so not more than BEHIND_BYTES in all."""
SHARE: Final = 0.6
LIMIT_S: Final = 300.0
FREE_BYTES: Final = 60 * 10**9
"""2 members x 130 MB/s x 200 s, and more: a full disk would be measured as a pair that stands still."""
AFTER_S: Final = 20.0
ASK_S: Final = 1.0
STALL_S: Final = 30.0


def run(progress: Progress) -> Result:
    with tempfile.TemporaryDirectory() as scratch:
        if (free := shutil.disk_usage(scratch).free) < FREE_BYTES:
            raise RuntimeError(
                f"{scratch} has {free / 1e9:.0f} GB free; two members at this rate may write {FREE_BYTES / 1e9:.0f}. "
                "Name a larger disk: TMPDIR=/path python -m bench catch_up"
            )
        (Path(scratch) / "pair").mkdir()
        with running_pair(Path(scratch) / "pair") as pair, program(pair) as producer:
            return result("catch_up", measured(pair, producer, progress))


def measured(pair: Pair, producer: SampleProducer, progress: Progress, behind_bytes: int = BEHIND_BYTES) -> list[Case]:
    away = next(name for name in MEMBERS if name != pair.wait_until_whole())
    pair.kill(away)
    drive(producer, 1.0, None, None)  # Until it is alone.
    solo = drive(producer, SOLO_S, None, None)
    progress(f"alone: {solo:,.0f} msg/s")
    missing = behind_bytes / MESSAGE_BYTES - solo * SOLO_S
    if missing > 0:
        drive(producer, missing / solo, None, None)
    came = time.monotonic()
    pair.start(away)
    whole = threading.Event()
    watch = threading.Thread(target=_watch, args=(pair, away, whole, came), daemon=True)
    watch.start()
    wanted = SHARE * solo
    kept = drive(producer, LIMIT_S, wanted, whole)
    seconds = time.monotonic() - came
    whole.set()
    watch.join()
    progress(f"back: {kept:,.0f} msg/s of {wanted:,.0f} for {seconds:.0f} s")
    after = drive(producer, AFTER_S, wanted, None)
    what = f"{away} {behind_bytes / 2**30:g} GiB behind, the live path driven at {SHARE:.0%} of {solo:,.0f} msg/s"
    return [
        case(f"{what}: kept", "msg/s", kept, floor=wanted, goal=">= 0.7"),
        case(f"{what}: until it is in the set", "s", seconds, goal=f"<= {LIMIT_S:g}"),
        case(f"{what}: it took", "MB/s", (behind_bytes + kept * seconds * MESSAGE_BYTES) / seconds / 1e6),
        case(f"{what}: kept in the {AFTER_S:g} s after that", "msg/s", after, floor=wanted),
    ]


def _watch(pair: Pair, away: str, whole: threading.Event, since: float) -> None:
    """Asks seldom, and one member only: each question is a client of its own, and takes the same cores."""
    while not whole.is_set() and time.monotonic() - since < LIMIT_S:
        if pair.status(away).get("role") == "ready":
            whole.set()
        whole.wait(ASK_S)


def drive(producer: SampleProducer, seconds: float, rate: float | None, until: threading.Event | None) -> float:
    """Offer batches, at most `rate` messages a second, for so long or until told; messages acknowledged a second."""
    rows = [messages(BATCH)]
    began = heard = time.perf_counter()
    under_way: deque[int] = deque()
    offered = done = 0
    while (elapsed := time.perf_counter() - began) < seconds and not (until is not None and until.is_set()):
        due = IN_FLIGHT if rate is None else int(elapsed * rate / BATCH) + 1 - offered
        for _ in range(min(due, IN_FLIGHT - len(under_way))):
            under_way.append(producer.offer(rows))
            offered += 1
        if rate is None or len(under_way) == IN_FLIGHT:
            wait_s = STALL_S  # For a receipt: a rate that is not kept must not make a program spin on shared cores.
        else:
            wait_s = max(0.0, offered * BATCH / rate - elapsed)
        for receipt in producer.wait(wait_s):
            while under_way and under_way[0] <= receipt.batch:
                under_way.popleft()
                done += 1
            heard = time.perf_counter()
        if time.perf_counter() - heard > STALL_S:
            raise RuntimeError(f"nothing was acknowledged for {STALL_S:g} s")
    elapsed = time.perf_counter() - began
    while under_way and (receipts := producer.wait(STALL_S)):
        while under_way and under_way[0] <= receipts[-1].batch:
            under_way.popleft()
    return done * BATCH / elapsed
