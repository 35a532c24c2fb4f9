"""One way of `bench pipeline`, in a process of its own: `python -m bench._pipeline_child WAY ARGUMENTS`."""

import contextlib
import itertools
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import psutil


def whole_run(history: str, out: str) -> dict[str, Any]:
    """A run as the command makes it, by its parts."""
    from albireo.pipeline import pipeline

    begins = [("python", psutil.Process().create_time(), 0.0), ("look and plan", time.time(), cpu_s())]
    names = {"starting Spark": "Spark start", "seconds": "jobs", "minutes": "jobs", "gaps and alarms": "jobs"}
    names |= {"commit": "commits", "report": "report"}

    def progress(_done: int, _total: int, text: str) -> None:
        name = names.get(text)
        if name is not None and name not in [known for known, _, _ in begins]:
            begins.append((name, time.time(), cpu_s()))

    answer = pipeline.run(Path(history), Path(out), progress=progress)
    begins.append(("", time.time(), cpu_s()))
    parts, spent = {}, {}
    for (name, wall, cpu), (_, wall_end, cpu_end) in itertools.pairwise(begins):
        parts[name], spent[name] = round(wall_end - wall, 3), round(cpu_end - cpu, 3)
    return {"parts": parts, "cpu": spent, "answer": answer}


def cpu_s() -> float:
    """Processor time of this process and of all below it, of those that have ended too."""
    own = os.times()
    spent = own.user + own.system + own.children_user + own.children_system
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            spent += times.user + times.system
    return spent


def lanes(history: str, out: str) -> dict[str, Any]:
    """Each lane of a first run alone, Spark started already."""
    from albireo.pipeline import staging, tables
    from albireo.pipeline.config import SparkConfig
    from albireo.pipeline.delta import TableState
    from albireo.pipeline.plan import LateRows, plan
    from albireo.pipeline.session import spark_session
    from albireo.pipeline.source import open_history, read_manifest

    folder = Path(history)
    manifest = read_manifest(folder)
    todo, took = plan(manifest, None, LateRows()), {}
    config = SparkConfig(shuffle_tasks_local=SparkConfig().shuffle_tasks(todo.sample_rows))
    with spark_session(config, Path(out)) as spark:
        work = staging.StagingWork(
            spark=spark,
            history=open_history(folder, manifest),
            plan=todo,
            run=1,
            states={table.name: TableState() for table in tables.TABLES},
            tables=Path(out) / "tables",
            staging=Path(out) / "staging",
        )
        spark.range(1).count()  # The first job of a session loads its classes.
        for name, lane in (("minutes", staging.stage_minutes), ("seconds", staging.stage_seconds)):
            began = time.perf_counter()
            lane(work, lambda _text: None)
            took[name] = time.perf_counter() - began
    return took


def peer(way: str, history: str, out: str) -> dict[str, Any]:
    """All rollups by DuckDB or Polars, the libraries loaded before."""
    from albireo.codec.history import FileKind
    from albireo.node.history.files.store import read_manifest
    from bench import _rollup_peers
    from bench.pipeline import WIDTHS

    folder = Path(history)
    manifest = read_manifest(folder)
    files = [folder / one.path for one in manifest.of_kind(FileKind.SAMPLES)]
    work = {"duckdb": _rollup_peers.by_duckdb, "polars": _rollup_peers.by_polars}[way]
    Path(out).mkdir()
    took = {}
    for name, width_ns in WIDTHS.items():
        began = time.perf_counter()
        work(files, Path(out) / f"{name}.parquet", width_ns, manifest.complete_to_ns, is_dense=name != "rollup_1s")
        took[name] = time.perf_counter() - began
    return took


if __name__ == "__main__":
    os.environ.setdefault("POLARS_VERBOSE", "0")
    way, *arguments = sys.argv[1:]
    answer = {"full": whole_run, "lanes": lanes}[way](*arguments) if way in ("full", "lanes") else peer(way, *arguments)
    print(json.dumps(answer), flush=True)
