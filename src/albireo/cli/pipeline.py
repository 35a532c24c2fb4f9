"""`albireo pipeline`: the history into tables and a report, with Spark."""

import importlib
import os
from pathlib import Path
from typing import Any

import click

from albireo.cli.findings import SPARK_LIBRARIES, Finding, java, libraries, told, version_of
from albireo.cli.output import ExitCode, Failure, Output, TextTable, printed, progress
from albireo.cli.place import DIRECTORY, data_option, find_data, is_pair
from albireo.cli.target import seal_here
from albireo.pipeline import errors, surroundings


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


@command.command()
@click.option("--data", type=DIRECTORY, default=Path("var"), show_default=True, help="Directory of the node's data.")
@click.option("--out", type=click.Path(path_type=Path), help="Where tables and report go [default: DATA/pipeline].")
@printed
def doctor(data: Path, out: Path | None) -> Output:
    """Check this machine for a run: versions, Java, other Sparks, a disk that lets programs run.

    Exit code 0 when nothing failed (warnings included), else 1.
    """
    findings = [*libraries(SPARK_LIBRARIES, errors.INSTALL, "failed"), java("failed")]
    try:
        place = next(one for one in (out or data, *(out or data).absolute().parents) if one.is_dir())
        used = surroundings.place_to_execute(place, os.environ) if version_of("pyspark") else place
        why = "" if used == place else f", because {place} is {surroundings.unfit(place)}"
        findings.append(Finding(name="spark", status="good", value=f"unpacks its libraries in {used}{why}"))
    except errors.SparkFailed as error:
        findings.append(Finding(name="spark", status="failed", value=error.problem, remedy=error.remedy))
    names = ", ".join(sorted(surroundings.foreign(os.environ)))
    value = f"kept out: {names}" if names else "no variable of one"
    return told([*findings, Finding(name="other Sparks", status="good", value=value)])


def _run(data: Path, out: Path, master: str | None) -> dict[str, Any]:
    """A run for each history, its failures as the command line says them."""
    try:
        pipeline = importlib.import_module("albireo.pipeline.pipeline")
    except ImportError as error:
        remedy = f"{errors.INSTALL}; `albireo pipeline doctor` says what is there"
        raise Failure(f"the pipeline is not installed ({error.name} is missing)", remedy) from error
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
