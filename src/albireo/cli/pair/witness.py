"""`albireo witness`: a voter of the pairs that list it."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from albireo.cli.output import ExitCode, Failure, emit, json_option, say, show, show_table
from albireo.cli.place import MEMBERS, VAR, topology_option
from albireo.cli.process import own_keys, run_until_stopped, status_of
from albireo.cli.site.topology import read_topology
from albireo.node.vote import boot as witness_boot


@click.command("witness")
@topology_option
@click.option("--name", required=True, help="Which [[witness]] of the topology this is.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="Where its promises are kept; default var/witness.<name>.",
)
@click.option(
    "--keys",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="Directory of its keys; default <data>/keys if it is there. Without keys it stays on loopback.",
)
@click.option("--status", "shows_status", is_flag=True, help="Show what the one that runs on --data has promised.")
@json_option
def command(
    topology_file: Path, name: str, data: Path | None, keys: Path | None, shows_status: bool, as_json: bool
) -> None:
    """Vote for every pair that lists witness:NAME, until Ctrl-C or SIGTERM.

    Exit codes: 0 stopped; 1 the disk failed, it votes no more; 75 start it again; 78 bad configuration.
    """
    directory = VAR / f"witness.{name}" if data is None else data
    if shows_status:
        status = status_of("witness", directory)
        if as_json:
            emit(status)
        else:
            show_votes(status)
    else:
        raise SystemExit(_run(topology_file, name, directory, keys, as_json))


def _run(topology_file: Path, name: str, directory: Path, keys: Path | None, as_json: bool) -> int:
    loaded = read_topology(topology_file)
    bound = (one.endpoint for one in loaded.topology.witness if one.name == name)
    keys = own_keys(f"witness:{name}", directory, keys, bound)
    say(f"witness {name}, data in {directory}")
    try:
        work = partial(witness_boot.run, loaded.topology, name, directory, keys)
        return run_until_stopped("witness", name, directory, work, as_json=as_json)
    except (witness_boot.NoSuchWitness, witness_boot.NoPairs) as error:
        raise Failure(str(error), f"correct --name or {topology_file}", ExitCode.BAD_CONFIGURATION) from error


def show_votes(status: dict[str, Any]) -> None:
    """Show the promises of a voter to each pair: a witness, or a node that votes for pairs above it."""
    columns = ("pair", "state", "promised", "holder", "epoch", "set", "lease left", "floor", "members", "refused")
    show_table(columns, [_row(pair) for pair in status["pairs"]], title=status["voter"])
    for pair in status["pairs"]:
        if pair["lists_differ"]:
            show(f"{pair['node']}: the topology lists other voters than the members agreed on")
        if pair["store"]["is_damaged"]:
            show(f"{pair['node']}: its store is unreadable, so it votes for nobody until it is admitted again")
    strays = ", ".join(f"{count} {reason}" for reason, count in status["stray"].items() if count)
    if strays:
        show(f"not taken: {strays}")


def _row(pair: dict[str, Any]) -> tuple[object, ...]:
    record = pair["record"]
    names = [str(member["place"]).rpartition("[")[2].rstrip("]") for member in pair["members"]]
    seen = [
        f"{name} {'gone' if one['is_gone'] else 'connected' if one['connected'] else 'not connected'}"
        for name, one in zip(names, pair["members"], strict=True)
    ]
    return (
        pair["node"],
        pair["state"],
        "-" if record is None else pair["promised"],
        "-" if record is None else MEMBERS[record["holder"]],
        "-" if record is None else f"{record['epoch']}.{record['version']}",
        "-" if record is None else "+".join(MEMBERS[member] for member in record["members"]),
        f"{pair['lease_left_ms']} ms",
        ":".join(str(number) for number in pair["floor"]),
        ", ".join(seen) or "-",
        sum(pair["refused"].values()),
    )
