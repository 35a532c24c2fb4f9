"""`albireo doctor`: is this machine fit for a node, and a PLC for a vote? Each finding with what to do about it."""

from pathlib import Path

import click

from albireo.cli.output import Output, printed
from albireo.cli.place import DIRECTORY, FILE
from albireo.cli.site import plc_voter


@click.group("doctor", invoke_without_command=True)
@click.option(
    "--data",
    type=DIRECTORY,
    default=Path("var"),
    show_default=True,
    help="Directory whose disk is judged: where the node keeps, or will keep, its data.",
)
@click.option("--topology", "file", type=FILE, help="Also judge the ports and devices named in this topology.")
@printed
@click.pass_context
def command(ctx: click.Context, data: Path, file: Path | None) -> Output | None:
    """Check this machine: ports, disk, sync latency, clock, Java, versions.

    Exit code 0 when nothing failed (warnings included), else 1.
    """
    if ctx.invoked_subcommand is not None:
        return None
    from albireo.cli.findings import told
    from albireo.cli.site import checkup
    from albireo.cli.site.device_look import devices
    from albireo.cli.topology_file import read_topology

    loaded = read_topology(file) if file else None
    findings = checkup.examine(data, loaded.topology if loaded else None)
    findings += devices(loaded) if loaded else []
    return told(findings)


command.add_command(plc_voter.command)
