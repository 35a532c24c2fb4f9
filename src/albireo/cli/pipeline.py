"""`albireo pipeline`: the history into tables and a report, with Spark."""

import importlib
from pathlib import Path
from typing import Any

import click

from albireo.cli.output import ExitCode, Failure, Output, TextTable, printed, progress
from albireo.cli.place import data_option, find_data, is_pair
from albireo.cli.target import seal_here
from albireo.pipeline import errors


@click.group()
def command() -> None:
    """Turn the history into tables and a report with Spark."""


@command.command()
@data_option
@click.option("--out", type=click.Path(path_type=Path), help="Where tables and report go [default: DATA/pipeline].")
@click.option("--master", help="Spark master URL [default: $ALBIREO_SPARK_MASTER, else local[*]].")
@printed
def run(data: Path | None, out: Path | None, master: str | None) -> Output:
    """Read what is new in the history and bring tables and report up to date.

    Writes Delta tables to OUT/tables and a self-contained page to OUT/report.html. The node may be running meanwhile.
    At a node above others, OUT/below has the same for each of them.
    """
    # A copied history needs no log beside it.
    directory = find_data(data) if data is None or is_pair(data) else data
    seal_here(directory)
    answer = _run(directory, out or directory / "pipeline", master)
    reports = [f"Report of {one['node']}: {one['report']}" for one in answer.get("below", ())]
    tables = TextTable(("table", "rows"), sorted(answer["tables"].items()), "Tables")
    return Output(answer, [tables, f"Report: {answer['report']}", *reports], (f"{answer['seconds']:.1f} s",))


def _run(data: Path, out: Path, master: str | None) -> dict[str, Any]:
    """A run for each history, its failures as the command line says them."""
    try:
        pipeline = importlib.import_module("albireo.pipeline.pipeline")
    except ImportError as error:
        raise Failure(f"the pipeline is not installed ({error.name} is missing)", errors.INSTALL) from error
    steps = pipeline.STEPS * (1 + len(pipeline.nodes_below(data)))
    with progress("pipeline", steps) as advance:
        try:
            answer: dict[str, Any] = pipeline.run_all(
                data, out, master=master, progress=lambda done, _total, text: advance(min(done, 1), text)
            )
        except errors.JavaMissing as error:
            raise Failure(error.problem, error.remedy, ExitCode.BAD_CONFIGURATION) from error
        except errors.PipelineError as error:
            raise Failure(error.problem, error.remedy) from error
    return answer
