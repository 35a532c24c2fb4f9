"""Rollups of the pipeline beside DuckDB and Polars on the same files: 20 million samples of 1,000 irregular items.

The history is written by the historian's own writer: closed days as one file, the open day as several. Items have
rates of their own, a few fast and many slow, and their samples come at irregular times. Each way runs in a process of
its own, one after the other, and what it takes to start is told apart. DuckDB and Polars compute from raw rows what
the pipeline has in its tables; rows and values are compared. Then 1 % more rows come, and then nothing. At last a
demo is recorded, and its run is told by its parts.
"""

import itertools
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import psutil
import pyarrow as pa
from deltalake import DeltaTable

from albireo.codec.history import DAY_NS, ITEMS, SAMPLES, FileEntry, FileKind, day_of, items_path
from albireo.model import quality as q
from albireo.model.instant import SECOND
from albireo.node.history.files import parquet
from albireo.node.history.files.store import FOLDER, HistoryStore
from bench import Case, Progress, Result, case, result
from bench._rollup_peers import differences
from bench.history import write_day

SAMPLE_COUNT: Final = 20_000_000
ITEM_COUNT: Final = 1_000
DAYS: Final = 4
NEW_SHARE: Final = 0.01
END_NS: Final = 1_700_006_400 * SECOND + DAYS * DAY_NS - 3600 * SECOND
"""An hour before a midnight."""
SPAN_NS: Final = DAYS * DAY_NS - 3600 * SECOND
"""Time in which SAMPLE_COUNT samples come; fewer come in less."""
OPEN_FILES: Final = 8
"""Files of the day that is not closed yet."""
SPREAD: Final = 1.5
"""Standard deviation of the logarithm of the items' rates: the fastest tenth has half of the samples."""
WIDTHS: Final = {"rollup_1min": 60 * SECOND, "rollup_1h": 3600 * SECOND, "rollup_1s": SECOND}
FROM_PARTIALS: Final = ("rollup_1min", "rollup_1h")
LOOK_S: Final = 0.1
DEMO_SECONDS: Final = "30"

Times = dict[str, Any]


def run(progress: Progress, samples: int = SAMPLE_COUNT) -> Result:
    with tempfile.TemporaryDirectory(prefix="albireo-bench-pipeline-") as name:
        data = Path(name)
        store, _ = HistoryStore.open(data, "root")
        rows = write_history(store, samples, progress)
        history, out = str(data / FOLDER), str(data / "out")
        peers = {way: child(progress, way, history, str(data / way)) for way in ("duckdb", "polars")}
        lanes = child(progress, "lanes", history, str(data / "lanes"))
        first = child(progress, "full", history, out)
        different = compared(data)
        write_news(store, rows)
        some = child(progress, "full", history, out)
        nothing = child(progress, "full", history, out)
        demo = demonstrated(data / "demo", progress)
    return result(
        "pipeline", cases(peers, lanes, first, some, nothing, demo) + differing(different) + sizes(first, rows)
    )


def cases(peers: dict[str, Times], lanes: Times, first: Times, some: Times, nothing: Times, demo: Times) -> list[Case]:
    duckdb, polars = peers["duckdb"], peers["polars"]
    whole_s = first["parts"]["jobs"] + first["parts"]["commits"]
    return [
        case(
            "minutes and hours from partials, against DuckDB over raw rows",
            "s",
            lanes["minutes"],
            some_of(duckdb, FROM_PARTIALS),
            "<= 1.0",
        ),
        case("with seconds: all jobs and commits, against DuckDB", "s", whole_s, some_of(duckdb, WIDTHS), "<= 3.5"),
        case("seconds alone, against DuckDB", "s", lanes["seconds"], duckdb["rollup_1s"]),
        case(
            "minutes and hours from partials, against Polars over raw rows",
            "s",
            lanes["minutes"],
            some_of(polars, FROM_PARTIALS),
        ),
        case("with seconds: all jobs and commits, against Polars", "s", whole_s, some_of(polars, WIDTHS)),
        case("1 % new rows, against the first run", "s", some["wall_s"], first["wall_s"], "<= 0.15"),
        case("nothing new", "s", nothing["wall_s"], goal="<= 2"),
        case("demo's run", "s", demo["wall_s"], goal="<= 20"),
        case("CPU of all, start included, against DuckDB", "s", first["cpu_s"], duckdb["cpu_s"]),
        case("CPU of Polars", "s", polars["cpu_s"]),
        case("peak memory, all processes, against DuckDB", "MiB", first["peak_mib"], duckdb["peak_mib"]),
        case("peak memory of Polars", "MiB", polars["peak_mib"]),
        *parts("first run", first),
        *parts("1 % new", some),
        *parts("nothing new", nothing),
        *parts("demo's run", demo),
    ]


def some_of(times: Times, names: Iterable[str]) -> float:
    return float(sum(times[name] for name in names))


def parts(name: str, times: Times) -> list[Case]:
    """Times by the wall; in the place of a floor those of all processors, which count by ticks: a short part may have
    none."""
    return [
        case(f"{name}: {part}, beside its CPU time", "s", wall_s, times["cpu"][part] or None)
        for part, wall_s in times["parts"].items()
    ]


def differing(different: dict[str, int]) -> list[Case]:
    return [case(f"rows that are not those of {way}", "", count, goal="= 0") for way, count in different.items()]


def sizes(first: Times, rows: int) -> list[Case]:
    counts = first["answer"]["tables"]
    return [
        case("samples", "million", rows / 1e6),
        *(case(f"rows of {name}", "million", counts[name] / 1e6) for name in WIDTHS),
    ]


def child(progress: Progress, way: str, *arguments: str) -> Times:
    """Answer of a process of its own, with its time from begin to end and the most memory of all its processes."""
    progress(way)
    began, spent_s = time.perf_counter(), cpu_s()
    with subprocess.Popen(
        [sys.executable, "-m", "bench._pipeline_child", way, *arguments], stdout=subprocess.PIPE, text=True
    ) as process:
        memory = Peak(process.pid)
        assert process.stdout is not None
        said = process.stdout.read().splitlines()
        code = process.wait()
        wall_s = time.perf_counter() - began
    if code or not said:
        raise RuntimeError(f"{way} ended with {code}")
    answer: Times = json.loads(said[-1]) | {"wall_s": wall_s, "cpu_s": cpu_s() - spent_s, "peak_mib": memory.ended()}
    progress(json.dumps({key: value for key, value in answer.items() if key != "answer"}))
    return answer


def cpu_s() -> float:
    """Processor time of all processes below that have ended."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


class Peak:
    """Most resident memory that a process and all below it had together, looked at from time to time."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._most = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def ended(self) -> float:
        self._is_over.set()
        self._thread.join()
        return self._most / 2**20

    def _look(self) -> None:
        while not self._is_over.wait(LOOK_S):
            total = 0
            try:
                for one in (self._process, *self._process.children(recursive=True)):
                    total += resident(one)
            except psutil.NoSuchProcess:
                return
            self._most = max(self._most, total)


def resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def compared(data: Path) -> dict[str, int]:
    """Rows of all three tables that differ, by peer."""
    found = dict.fromkeys(("duckdb", "polars"), 0)
    for name in WIDTHS:
        table = data / "out" / "tables" / name
        files = [table / one for one in DeltaTable(str(table)).get_add_actions()["path"].to_pylist()]
        for way in found:
            found[way] += differences(files, data / way / f"{name}.parquet")
    return {"DuckDB": found["duckdb"], "Polars": found["polars"]}


def demonstrated(data: Path, progress: Progress) -> Times:
    """Run over what a demo has recorded: two members of a pair, 30 seconds."""
    progress("demo")
    command = [sys.executable, "-c", "from albireo.cli import main; main()", "demo", "--for", DEMO_SECONDS]
    command += ["--json", "--no-pipeline", "--data", str(data)]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)  # Its news are progress, and say why it failed.
    (history,) = sorted(data.rglob(f"{FOLDER}/manifest.json"))[:1]
    return child(progress, "full", str(history.parent), str(data / "out"))


def write_history(store: HistoryStore, samples: int, progress: Progress) -> int:
    """All rows but the news; returns how many."""
    random = np.random.default_rng(3)
    rates = random.lognormal(0.0, SPREAD, ITEM_COUNT)
    sequence = 1
    entries = [write_items(store)]
    span_ns = SPAN_NS * samples // SAMPLE_COUNT
    known_ns = END_NS - round(span_ns * NEW_SHARE)
    for begin_ns, end_ns in spans(END_NS - span_ns, known_ns):
        progress(f"writing {day_of(begin_ns)}")
        table = rows_between(random, rates, begin_ns, end_ns, sequence)
        entries += write_day(store, table, day_of(begin_ns), (sequence, sequence + len(table) - 1))
        sequence += len(table)
    publish(store, entries, sequence - 1, known_ns)
    return sequence - 1


def spans(begin_ns: int, known_ns: int) -> list[tuple[int, int]]:
    """Times of the files: closed days whole, the open one in pieces."""
    open_ns = max(begin_ns, known_ns - known_ns % DAY_NS)
    edges = [open_ns + (known_ns - open_ns) * index // OPEN_FILES for index in range(OPEN_FILES + 1)]
    midnights = range(begin_ns - begin_ns % DAY_NS, open_ns - open_ns % DAY_NS, DAY_NS)
    return [(max(ns, begin_ns), ns + DAY_NS) for ns in midnights] + list(itertools.pairwise(edges))


def write_news(store: HistoryStore, rows: int) -> None:
    random = np.random.default_rng(4)
    rates = np.random.default_rng(3).lognormal(0.0, SPREAD, ITEM_COUNT)
    begin_ns = store.manifest.complete_to_ns
    table = rows_between(random, rates, begin_ns, END_NS, rows + 1)
    publish(store, write_day(store, table, day_of(begin_ns), (rows + 1, rows + len(table))), rows + len(table), END_NS)


def publish(store: HistoryStore, entries: Sequence[FileEntry], sequence: int, known_ns: int) -> None:
    store.manifest = msgspec.structs.replace(
        store.manifest,
        log_id="5f" * 16,
        position=msgspec.structs.replace(store.manifest.position, epoch=1, sequence=sequence),
        complete_to_ns=known_ns,
    )
    store.replace([], entries, known_ns)


def rows_between(
    random: np.random.Generator, rates: np.ndarray[Any, Any], begin_ns: int, end_ns: int, sequence: int
) -> pa.Table:
    """A Poisson process for each item; values as a PLC gives them, a few of them bad."""
    counts = random.poisson(rates / rates.sum() * SAMPLE_COUNT * (end_ns - begin_ns) / SPAN_NS)
    item_id = np.repeat(np.arange(1, ITEM_COUNT + 1), counts)
    count = len(item_id)
    source_ns = begin_ns + random.integers(0, (end_ns - begin_ns) // 1_000_000, count) * 1_000_000
    source_ns = source_ns[np.lexsort((source_ns, item_id))]
    sequences = np.empty(count, np.int64)
    sequences[np.argsort(source_ns, kind="stable")] = np.arange(sequence, sequence + count)
    value = 50 + 20 * np.sin(source_ns / 3e12 + item_id) + random.normal(0, 0.3, count)
    columns: dict[str, Any] = {
        "item_id": item_id.astype(np.int64),
        "source_ns": source_ns,
        "node_ns": source_ns + 3_000_000,
        "value_f64": np.round(value, 2),
        "value_i64": pa.nulls(count, pa.int64()),
        "value_str": pa.nulls(count, pa.string()),
        "quality": np.where(random.random(count) < 0.0005, int(q.BAD_NO_COMMUNICATION), int(q.GOOD)),
        "epoch": np.ones(count, np.int64),
        "sequence": sequences,
    }
    return pa.Table.from_arrays([pa.array(column) for column in columns.values()], schema=SAMPLES)


def write_items(store: HistoryStore) -> FileEntry:
    empty = dict.fromkeys(ITEMS.names)
    texts = {"node": "root", "unit": "", "description": "", "adapter": "p1", "value_type": 1, "sequence": 0}
    rows = [empty | texts | {"item_id": index, "name": f"i_{index}"} for index in range(1, ITEM_COUNT + 1)]
    path = items_path(1)
    store.make_folder(store.root / path)
    written = parquet.write(store.files, store.root / path, FileKind.ITEMS, pa.Table.from_pylist(rows, schema=ITEMS))
    return FileEntry(
        kind=FileKind.ITEMS,
        path=path,
        node="root",
        day="",
        rows=len(rows),
        min_source_ns=0,
        max_source_ns=0,
        first_sequence=0,
        last_sequence=0,
        size_bytes=written.size_bytes,
        content_crc=written.crc,
        footer_crc=written.footer_crc,
    )
