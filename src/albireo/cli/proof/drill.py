"""`albireo drill`: a fault rehearsed on a throw-away pair or tree of real processes, or on a node at unruly devices."""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from albireo.cli.output import ExitCode, Failure, Output, TextTable, printed, say, tell
from albireo.cli.place import DIRECTORY
from albireo.cli.timespan import Number, WholeNumber
from albireo.drill import unruly
from albireo.drill.chaos import chaos
from albireo.drill.chaos.chaos import ChaosDrill, ChaosReport
from albireo.drill.fault.faults import FAULTS
from albireo.drill.rehearsal import DrillReport, Rehearsal, Round, objection
from albireo.drill.tree import lone
from albireo.drill.tree.lone import TreeDrill, TreeReport, TreeRound
from albireo.drill.tree.shapes import SHAPES
from albireo.drill.tree.takeover import TakeoverDrill, TakeoverReport, TakeoverRound
from albireo.drill.unruly import GatewayAccount, GatewayDrill, GatewayReport

AnyReport = DrillReport | TreeReport | TakeoverReport | GatewayReport | ChaosReport


def _list(context: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if is_asked and not context.resilient_parsing:
        faults = {name: entry.what for name, entry in FAULTS.items()} | lone.FAULTS
        faults |= {name: one.what for name, one in SHAPES.items()} | {unruly.NAME: unruly.WHAT, chaos.NAME: chaos.WHAT}
        tell(Output({"faults": faults}, TextTable((), faults.items())))
        context.exit()


@click.command("drill")
@click.option("--list", is_flag=True, is_eager=True, expose_value=False, callback=_list, help="Every fault in a line.")
@click.argument("fault", type=click.Choice([*FAULTS, *lone.FAULTS, *SHAPES, unruly.NAME, chaos.NAME]), metavar="FAULT")
@click.option("--rounds", type=WholeNumber(min=1), default=1, show_default=True, help="How often.")
@click.option(
    "--voters",
    type=click.Choice(["witness", "plc"]),
    default="witness",
    show_default=True,
    help="Three witnesses, or the demo's mix: two PLCs and a witness.",
)
@click.option("--minutes", type=Number(0.1, 1e5), default=2.0, show_default=True, help="Time of chaos.")
@click.option("--seed", type=WholeNumber(0), default=1, show_default=True, help="What chaos does, and when.")
@click.option("--keep", type=DIRECTORY, help="Do it in this empty directory, and leave it.")
@printed
def command(fault: str, rounds: int, voters: str, minutes: float, seed: int, keep: Path | None) -> Output:
    """Rehearse FAULT on a pair made for it, under a live load, and print what was lost, doubled, late.

    `cut-site`, `kill-site`, `kill-root`, `dns`, `slow-link` and `restart-tree` do so with a site below a root,
    `stale-parent`, `stale-child` and `pair-under-pair` where one of them or both are pairs, `pair-at-root`,
    `pair-in-middle`, `pair-at-bottom` and `pairs-everywhere` with a tree of three levels, `bad-gateway` with a node
    that polls devices which misbehave. `chaos` goes on for a time, not in rounds. Nothing of yours is touched:
    everything lives in a temporary directory and ends with the drill.
    """
    reason = objection(fault) if fault in FAULTS else lone.objection(fault)
    if reason:
        say(f"{fault}: skipped: {reason}")  # It is neither held nor not held.
        return Output({"fault": fault, "rounds": [], "held": None, "skipped": reason})
    directory = Path(tempfile.mkdtemp(prefix="albireo-drill-")) if keep is None else keep
    if keep is not None and keep.exists() and any(keep.iterdir()):
        raise Failure(f"{keep} is not empty", "name a directory that is not there yet", ExitCode.USAGE)
    try:
        report: AnyReport
        if fault == unruly.NAME:
            report = GatewayDrill(directory, say).run(rounds)
        elif fault == chaos.NAME:
            report = ChaosDrill(directory, say, seed).run(60 * minutes)
        elif fault in lone.FAULTS:
            report = TreeDrill(fault, directory, say).run(rounds)
        elif fault in SHAPES:
            report = TakeoverDrill(fault, directory, say).run(rounds)
        else:
            report = Rehearsal(fault, directory, say, voters).run(rounds)
    finally:
        if keep is None:
            shutil.rmtree(directory, ignore_errors=True)
    return _told(report)


def _told(report: AnyReport) -> Output:
    rows: Sequence[msgspec.Struct]
    if isinstance(report, ChaosReport):
        columns, rows = ChaosReport.__struct_fields__, [report]
    elif isinstance(report, DrillReport):
        columns, rows = Round.__struct_fields__, report.rounds
    elif isinstance(report, TreeReport):
        columns, rows = TreeRound.__struct_fields__, report.rounds
    elif isinstance(report, TakeoverReport):
        columns, rows = TakeoverRound.__struct_fields__, report.rounds
    else:
        columns, rows = GatewayAccount.__struct_fields__, [one for each in report.rounds for one in each.devices]
    cells = (["" if value is None else value for value in msgspec.structs.astuple(one)] for one in rows)
    text = (TextTable(columns, cells), f"{report.fault}: {'held' if report.held else 'DID NOT HOLD'}")
    return Output(report, text, exit_code=ExitCode.GOOD if report.held else ExitCode.FAILED)
