"""Benchmarks: figures against a floor or a peer measured in the same pass. No test judges a figure.

Each module `bench/<name>.py` has `run(progress) -> Result`, where `progress` takes one line for the person who waits.
`python -m bench NAME [--json]` runs one, `python -m bench --all` runs all and rewrites `bench/RESULTS.md`.
"""

import platform
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

Progress = Callable[[str], None]


class Case(msgspec.Struct, frozen=True):
    """One figure."""

    case: str
    unit: str
    ours: float
    floor: float | None = None
    """The same by the simplest thing that could do it, or by a peer; None: there is none."""
    ratio: float | None = None
    """ours / floor."""
    goal: str | None = None
    """As text, like "<= 1.3"; of the ratio where there is a floor, else of `ours`. None: for information."""
    held: bool = True


class Result(msgspec.Struct, frozen=True):
    """Result that a benchmark prints."""

    name: str
    machine: str
    cases: list[Case]
    held: bool


def case(name: str, unit: str, ours: float, floor: float | None = None, goal: str | None = None) -> Case:
    """A case with its ratio, judged by its goal."""
    ratio = None if floor is None else ours / floor
    return Case(
        name,
        unit,
        _rounded(ours),
        None if floor is None else _rounded(floor),
        None if ratio is None else round(ratio, 3),
        goal,
        goal is None or _holds(ours if ratio is None else ratio, goal),
    )


def result(name: str, cases: Sequence[Case]) -> Result:
    return Result(name, machine(), list(cases), all(one.held for one in cases))


def machine(proc: Path = Path("/proc")) -> str:
    """Facts that a reader needs to compare: processor, cores, memory, kernel, Python."""
    import psutil

    processor = platform.processor() or platform.machine()
    try:
        lines = (proc / "cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("model name"):
            processor = line.partition(":")[2].strip()
            break
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"{processor}, {psutil.cpu_count()} cores, {memory:.0f} GiB, "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    )


def median(values: Sequence[float]) -> float:
    return float(statistics.median(values))


def _holds(value: float, goal: str) -> bool:
    comparison, _, limit = goal.partition(" ")
    bound = float(limit.replace(",", ""))
    match comparison:
        case "<=":
            return value <= bound
        case ">=":
            return value >= bound
        case "<":
            return value < bound
        case "=":
            return value == bound
    raise ValueError(f"goal {goal!r}: expected <=, >=, < or = and a number")


def _rounded(value: float) -> float:
    """Four figures are more than a shared machine can repeat."""
    return float(f"{value:.4g}")
