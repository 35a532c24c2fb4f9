"""`albireo gate`: the only path to a PLC that can't refuse late orders itself."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from albireo.cli.output import ExitCode, Failure, emit, json_option, say, show, show_table
from albireo.cli.place import VAR, topology_option
from albireo.cli.process import run_until_stopped, status_of
from albireo.cli.topology_file import read_topology
from albireo.field.contract import ConfigurationError
from albireo.node.gate import boot as gate_boot


@click.command("gate")
@topology_option
@click.option("--name", required=True, help="Adapter whose PLC this gate guards, or NODE:ADAPTER.")
@click.option(
    "--listen",
    default="",
    help="tcp://HOST:PORT to listen on, where it is not the adapter's url (a gateway with several addresses).",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="Where its guard is kept; default var/gate.<name>.",
)
@click.option("--status", "shows_status", is_flag=True, help="Show what the one that runs on --data does.")
@json_option
def command(topology_file: Path, name: str, listen: str, data: Path | None, shows_status: bool, as_json: bool) -> None:
    """Stand between a pair and a PLC: let reads pass, and orders of the member that leads, until Ctrl-C or SIGTERM.

    Exit codes: 0 stopped; 1 the disk failed, it lets nothing pass any more; 75 start it again; 78 bad configuration.
    """
    directory = VAR / f"gate.{name.replace('/', '~').replace(':', '.')}" if data is None else data
    if shows_status:
        _show(status_of("gate", directory), as_json)
    else:
        raise SystemExit(_run(topology_file, name, listen, directory, as_json))


def _run(topology_file: Path, name: str, listen: str, directory: Path, as_json: bool) -> int:
    loaded = read_topology(topology_file)
    say(f"gate {name}, data in {directory}")
    try:
        work = partial(gate_boot.run, loaded, name, directory, listen)
        return run_until_stopped("gate", name, directory, work, as_json=as_json)
    except (gate_boot.NoSuchGate, ConfigurationError) as error:
        remedy = f"correct --name, --listen or {topology_file} (docs/gate.md)"
        raise Failure(str(error), remedy, ExitCode.BAD_CONFIGURATION) from error


def _show(status: dict[str, Any], as_json: bool) -> None:
    if as_json:
        emit(status)
        return
    orders = ", ".join(f"{count} {result}" for result, count in sorted(status["orders"].items())) or "none"
    state = "writes" if not status["quiet_ms"] else f"writes nothing for {status['quiet_ms']} ms"
    columns = ("gate", "device", "state", "guard", "boot", "orders", "connections")
    device = status["device"] if status["is_connected"] else f"{status['device']} (not connected)"
    row = (status["gate"], device, state, status["guard"], status["boot"], orders, status["connections"])
    show_table(columns, [row])
    refused = ", ".join(f"{count} {reason}" for reason, count in sorted(status["refused"].items()))
    if refused:
        show(f"refused: {refused}")
    if status["store"]["is_damaged"]:
        show("its store was unreadable: it began with another boot number and without a guard")
