"""Brokers beside which topics are measured, behind one interface: ours, and those of others, each as it is durable."""

import contextlib
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, Final

import msgspec
import psutil

BODY: Final = b"x" * 100
START_S: Final = 30.0


class Absent(Exception):
    """The broker is not on this machine; says what is missing."""


class Takeover(msgspec.Struct, frozen=True):
    """What a takeover cost."""

    gap_s: float
    """Longest time without an acknowledgement."""
    acked: int
    lost: int
    doubled: int
    reordered: int


class Broker(ABC):
    """A broker with one topic that is there and empty, and one reader of it."""

    name: ClassVar[str]
    survives: ClassVar[str]
    """What a message survives that is acknowledged."""

    @abstractmethod
    def put(self, batch: int, in_flight: int, seconds: float) -> list[float]:
        """Put batches for a time; seconds that each took until it was acknowledged."""

    @abstractmethod
    def consume(self, count: int) -> None:
        """Take so many messages and acknowledge them; returns once that is as durable as a put."""

    @abstractmethod
    def processes(self) -> Sequence[psutil.Process]:
        """The processes of its servers."""

    def takeover(self, seconds: float) -> Takeover | None:
        """Put one by one, kill whoever leads in the middle; None: nobody takes over by itself."""
        return None

    def cpu_s(self) -> float:
        """CPU time of all servers so far."""
        return sum(sum(one.cpu_times()[:2]) for one in self._alive())

    def memory_mib(self) -> float:
        return sum(one.memory_info().rss for one in self._alive()) / 2**20

    def _alive(self) -> Iterator[psutil.Process]:
        return (one for one in self.processes() if one.is_running() and one.status() != psutil.STATUS_ZOMBIE)


def paced(puts: Callable[[], None], until: float) -> list[float]:
    """Call again and again until then; seconds that each call took."""
    times: list[float] = []
    while (began := time.perf_counter()) < until:
        puts()
        times.append(time.perf_counter() - began)
    return times


def judged(times: Sequence[float], acked: Sequence[int], there: Sequence[int]) -> Takeover:
    """What became of numbered messages: those that were acknowledged, at these times, and those that are there."""
    counts: dict[int, int] = {}
    for one in there:
        counts[one] = counts.get(one, 0) + 1
    firsts = list(dict.fromkeys(there))
    return Takeover(
        gap_s=max(second - first for first, second in pairwise(times)),
        acked=len(acked),
        lost=sum(one not in counts for one in acked),
        doubled=sum(count - 1 for count in counts.values()),
        reordered=sum(second < first for first, second in pairwise(firsts)),
    )


@contextlib.contextmanager
def servers(commands: Sequence[Sequence[str]], directory: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Server processes in this directory, where what they leave behind goes as well; they end with the block."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        for number, command in enumerate(commands):
            with (directory / f"server-{number}.log").open("wb") as said:
                started.append(
                    subprocess.Popen(command, stdout=said, stderr=said, stdin=subprocess.DEVNULL, cwd=directory)
                )
        yield started
    finally:
        for one in started:
            one.kill()
            one.wait()


def until(what: str, condition: Callable[[], bool], wait_s: float = START_S) -> None:
    """Wait for a server. Raises RuntimeError: in vain."""
    ends = time.monotonic() + wait_s
    while not condition():
        if time.monotonic() > ends:
            raise RuntimeError(f"waited in vain until {what}")
        time.sleep(0.1)
