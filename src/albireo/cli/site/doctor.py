"""`albireo doctor`: is this machine fit for a node, and a PLC for a vote? Each finding with what to do about it."""

import sys
from pathlib import Path

import click
import msgspec

from albireo.cli.output import ExitCode, emit, json_option, show, show_table
from albireo.cli.site import plc_voter

_SIGNS = {"good": "good", "warning": "WARNING", "failed": "FAILED", "unknown": "unknown"}


@click.group("doctor", invoke_without_command=True)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("var"),
    show_default=True,
    help="Directory whose disk is judged: where the node keeps, or will keep, its data.",
)
@click.option(
    "--topology",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also judge the ports and devices named in this topology.",
)
@json_option
@click.pass_context
def command(ctx: click.Context, data: Path, file: Path | None, as_json: bool) -> None:
    """Check this machine: ports, disk, sync latency, clock, Java, versions.

    Exit code 0 when nothing failed (warnings included), else 1.
    """
    if ctx.invoked_subcommand is not None:
        return
    from albireo.cli.site import checkup
    from albireo.cli.topology_file import read_topology

    topology = read_topology(file).topology if file else None
    findings = checkup.examine(data, topology)
    rows = [(_SIGNS[one.status], one.name, one.value) for one in findings]
    if not as_json:
        show_table(("state", "what", "found"), rows)
        for one in findings:
            if one.remedy:
                show(f"{one.name}: {one.remedy}")
    worst = next((status for status in ("failed", "warning") if any(one.status == status for one in findings)), "good")
    if as_json:
        emit({"worst": worst, "checks": msgspec.to_builtins(findings)})
    if worst == "failed":
        sys.exit(ExitCode.FAILED)


command.add_command(plc_voter.command)
