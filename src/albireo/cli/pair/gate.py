"""`albireo gate`: the only path to a PLC that can't refuse late orders itself."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click

from albireo.cli.output import ExitCode, Failure, Output, Shown, TextTable, printed, say
from albireo.cli.place import DIRECTORY, VAR, topology_option
from albireo.cli.process import run_until_stopped, status_of
from albireo.cli.topology_file import read_topology
from albireo.field.contract import ConfigurationError
from albireo.node.gate import boot as gate_boot
from albireo.runtime.line_writer import never_block


@click.command("gate")
@topology_option
@click.option("--name", required=True, help="Adapter whose PLC this gate guards, or NODE:ADAPTER.")
@click.option(
    "--listen",
    default="",
    help="tcp://HOST:PORT to listen on, where it is not the adapter's url (a gateway with several addresses).",
)
@click.option("--data", type=DIRECTORY, help="Where its guard is kept; default var/gate.<name>.")
@click.option("--status", "shows_status", is_flag=True, help="Show what the one that runs on --data does.")
@printed
def command(topology_file: Path, name: str, listen: str, data: Path | None, shows_status: bool) -> Output:
    """Stand between a pair and a PLC: let reads pass, and orders of the member that leads, until Ctrl-C or SIGTERM.

    Exit codes: 0 stopped; 1 the disk failed, it lets nothing pass any more; 75 start it again; 78 bad configuration.
    """
    directory = VAR / f"gate.{name.replace('/', '~').replace(':', '.')}" if data is None else data
    if shows_status:
        status = status_of("gate", directory)
        return Output(status, _text(status))
    code = _run(topology_file, name, listen, directory)
    return Output({"gate": name, "exit": code}, exit_code=code)


def _run(topology_file: Path, name: str, listen: str, directory: Path) -> int:
    never_block()
    loaded = read_topology(topology_file)
    say(f"gate {name}, data in {directory}")
    try:
        work = partial(gate_boot.run, loaded, name, directory, listen)
        return run_until_stopped(directory, work)
    except (gate_boot.NoSuchGate, ConfigurationError) as error:
        remedy = f"correct --name, --listen or {topology_file} (docs/gate.md)"
        raise Failure(str(error), remedy, ExitCode.BAD_CONFIGURATION) from error


def _text(status: dict[str, Any]) -> Iterator[Shown]:
    orders = ", ".join(f"{count} {result}" for result, count in sorted(status["orders"].items())) or "none"
    state = "writes" if not status["quiet_ms"] else f"writes nothing for {status['quiet_ms']} ms"
    columns = ("gate", "device", "state", "guard", "boot", "orders", "connections")
    device = status["device"] if status["is_connected"] else f"{status['device']} (not connected)"
    row = (status["gate"], device, state, status["guard"], status["boot"], orders, status["connections"])
    yield TextTable(columns, [row])
    refused = ", ".join(f"{count} {reason}" for reason, count in sorted(status["refused"].items()))
    if refused:
        yield f"refused: {refused}"
    if status["store"]["is_damaged"]:
        yield "its store was unreadable: it began with another boot number and without a guard"
