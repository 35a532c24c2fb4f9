"""`albireo witness`: a voter of the pairs that list it."""

from functools import partial
from pathlib import Path

import click

from albireo.cli.output import ExitCode, Failure, Output, printed, say
from albireo.cli.pair.votes import votes_text
from albireo.cli.place import DIRECTORY, VAR, topology_option
from albireo.cli.process import own_keys, run_until_stopped, status_of
from albireo.cli.topology_file import read_topology
from albireo.node.vote import boot as witness_boot
from albireo.runtime.line_writer import never_block


@click.command("witness")
@topology_option
@click.option("--name", required=True, help="Which [[witness]] of the topology this is.")
@click.option("--data", type=DIRECTORY, help="Where its promises are kept; default var/witness.<name>.")
@click.option(
    "--keys",
    type=DIRECTORY,
    help="Directory of its keys; default <data>/keys if it is there. Without keys it stays on loopback.",
)
@click.option("--status", "shows_status", is_flag=True, help="Show what the one that runs on --data has promised.")
@printed
def command(topology_file: Path, name: str, data: Path | None, keys: Path | None, shows_status: bool) -> Output:
    """Vote for every pair that lists witness:NAME, until Ctrl-C or SIGTERM.

    Exit codes: 0 stopped; 1 the disk failed, it votes no more; 75 start it again; 78 bad configuration.
    """
    directory = VAR / f"witness.{name}" if data is None else data
    if shows_status:
        status = status_of("witness", directory)
        return Output(status, votes_text(status))
    code = _run(topology_file, name, directory, keys)
    return Output({"witness": name, "exit": code}, exit_code=code)


def _run(topology_file: Path, name: str, directory: Path, keys: Path | None) -> int:
    never_block()
    loaded = read_topology(topology_file)
    bound = (one.endpoint for one in loaded.topology.witness if one.name == name)
    keys = own_keys(f"witness:{name}", directory, keys, bound)
    say(f"witness {name}, data in {directory}")
    try:
        work = partial(witness_boot.run, loaded.topology, name, directory, keys)
        return run_until_stopped(directory, work)
    except (witness_boot.NoSuchWitness, witness_boot.NoPairs) as error:
        raise Failure(str(error), f"correct --name or {topology_file}", ExitCode.BAD_CONFIGURATION) from error
