"""`albireo demo`: two simulated tunnels with a node on each, a root above them, the live view, the report at the end.

    recording (recording.py) -> what is on disk (told.py) -> pipeline

Whatever ends it - q, `--for`, Ctrl-C, a signal - goes this way; SIGTERM and a second Ctrl-C leave the pipeline out.
"""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from albireo.cli.demo.house import run_house
from albireo.cli.demo.processes import run_pipeline
from albireo.cli.demo.recording import DemoOptions, Recording
from albireo.cli.demo.signals import Signals
from albireo.cli.demo.spark import wait_for_spark
from albireo.cli.demo.told import DemoTold, told_of
from albireo.cli.output import ExitCode, Failure, Output, json_asked, printed, say, show
from albireo.cli.place import data_option
from albireo.cli.process import unusable
from albireo.cli.timespan import SecondsType, WholeNumber
from albireo.cli.view.watch import tunnel_of
from albireo.plant.tunnel import Scenario, TunnelError
from albireo.plant.tunnel.processes import begin
from albireo.runtime.clock import wall_ns
from albireo.runtime.directory import DataLock
from albireo.runtime.errors import RuntimeFault

DATA: Final = Path("var/demo")
LOCK_NAME: Final = "lock"
MARK: Final = "demo"
"""File in a data directory that a demo made, and so may empty."""
INTERRUPTED: Final = 130
"""Exit code after Ctrl-C, as shells have it."""


@click.group("demo", invoke_without_command=True)
@click.option("--for", "seconds", type=SecondsType(least=0.5), default=None, help="End so long after all is connected.")
@click.option("--seed", type=WholeNumber(), default=1, show_default=True, help="The same seed gives the same tunnels.")
@click.option("--no-pipeline", is_flag=True, help="Leave out Spark.")
@click.option(
    "--plant",
    type=click.Choice(["tunnel", "house"]),
    default="tunnel",
    show_default=True,
    help="Two road tunnels, or a house of small devices below a pair (as root).",
)
@data_option
@printed
@click.pass_context
def command(
    context: click.Context, seconds: float | None, seed: int, no_pipeline: bool, plant: str, data: Path | None
) -> Output | None:
    """Two simulated road tunnels, a tree of nodes on them, a live view, and a report of what was recorded.

    Without --data it starts afresh in var/demo; with it, it goes on with what is there. In the view, ? shows the keys.
    """
    if context.invoked_subcommand is not None:
        context.obj = data
        return None
    if plant == "house":
        told, complaints = run_house(seconds, seed, data)
        if complaints:
            say("did not hold: " + "; ".join(complaints))
        return Output(told, exit_code=ExitCode.FAILED if complaints else ExitCode.GOOD)
    options = DemoOptions(
        data=(data or DATA).absolute(),
        is_fresh=data is None,
        seconds=seconds,
        seed=seed,
        has_pipeline=not no_pipeline,
        has_view=not json_asked(),
    )
    answer, complaints, is_interrupted = run(options)
    if complaints:
        say("did not hold: " + "; ".join(complaints))
    code = INTERRUPTED if is_interrupted else ExitCode.FAILED if complaints else ExitCode.GOOD
    return Output(answer, exit_code=code)


@command.command()
@click.argument("name", type=click.Choice([one.value for one in Scenario]))
@click.option("--at", "place", type=WholeNumber(), help="Section (1..8) or fan (1..10); a usual one without it.")
@click.option("--plc", default="p1", show_default=True, help="Which PLC goes off.")
@data_option
@printed
@click.pass_obj
def scenario(outer: Path | None, name: str, place: int | None, plc: str, data: Path | None) -> Output:
    """Begin a scenario in a demo that runs in another terminal; `clear` ends all of them.

    It begins in the tunnel in the south; in the other one with --data var/demo/north.
    """
    tunnel = tunnel_of(data or outer or DATA)
    try:
        begin(tunnel, Scenario(name), None if place is None else place - 1, plc)
    except TunnelError as error:
        raise Failure(str(error), "see `albireo demo scenario --help`", ExitCode.UNREACHABLE) from error
    value = {"scenario": name, "site": tunnel.name, "at": place, "plc": plc}
    return Output(value, f"scenario {name} has begun in the tunnel in the {tunnel.name}")


def run(options: DemoOptions) -> tuple[dict[str, Any], list[str], bool]:
    """The whole demo.

    Returns:
        The answer with the keys of `--json`, everything that did not hold, and whether a signal ended it.
    Raises:
        Failure: it could not begin.
    """
    since_ns = wall_ns()
    with prepared(options), Signals() as signals:
        recorded = Recording(options, signals).run()
        told = told_of(recorded, since_ns)
        complaints = recorded.complaints + told.complaints
        pipeline: dict[str, Any] = {"tables": {}, "seconds": 0.0, "report": None, "below": []}
        if options.has_pipeline and not signals.are_urgent and told.answer["samples_committed"]:
            pipeline |= _analysed(told.root, signals, complaints)
    _tell(options, told, pipeline)
    return {**told.answer, "pipeline": pipeline}, complaints, signals.have_come


@contextlib.contextmanager
def prepared(options: DemoOptions) -> Iterator[None]:
    """Makes the data directory, or empties that of an earlier demo; within, it is ours alone.

    Raises:
        Failure: another demo runs there, or it holds what no demo has made.
    """
    data = options.data
    try:
        is_new = not data.exists() or not any(data.iterdir())
        lock = DataLock.acquire(data)
    except OSError as error:
        raise unusable(data, error) from error
    except RuntimeFault as error:
        remedy = "leave the other demo (q), or give this one --data DIR"
        raise Failure(str(error), remedy, ExitCode.BAD_CONFIGURATION) from error
    try:
        if options.is_fresh and not is_new:
            if not (data / MARK).exists():
                raise Failure(f"{data} was not made by a demo and is left alone", "give another place with --data DIR")
            _empty(data)
        (data / MARK).write_text("Made by `albireo demo`, which empties it at its next start.\n")
        yield
    finally:
        lock.release()


def _empty(data: Path) -> None:
    for entry in data.iterdir():
        if entry.name == LOCK_NAME:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _analysed(data: Path, signals: Signals, complaints: list[str]) -> dict[str, Any]:
    """The pipeline's answer, or nothing and a complaint."""
    try:
        with signals.raising():
            wait_for_spark()
            say("running the pipeline; Ctrl-C leaves it out")
            return run_pipeline(data)
    except Failure as failure:
        complaints.append(f"{failure.message} ({failure.remedy})")
    return {}


def _tell(options: DemoOptions, told: DemoTold, pipeline: dict[str, Any]) -> None:
    """The account for the human."""
    tell = show if options.has_view else say
    for line in told.lines():
        tell(line)
    if pipeline["report"]:
        for one in pipeline["below"]:
            tell(f"Report of {one['node']}: {one['report']}")
        tell(f"Report: {pipeline['report']}")
    elif options.has_pipeline:
        say(f"No report yet; make one: albireo pipeline run --data {told.root}")
