"""`albireo node`: run a node, or stop one."""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import click

from albireo.cli.output import ExitCode, Failure, say, show
from albireo.cli.place import DIRECTORY, VAR, data_option, find_data, topology_option
from albireo.cli.process import own_keys, run_until_stopped
from albireo.cli.target import node_client
from albireo.cli.timespan import WholeNumber
from albireo.cli.topology_file import load_again, read_topology
from albireo.model.feature import FEATURE_LEVEL, OLDEST_LEVEL
from albireo.model.topology import NodeConfig, Topology, UnknownPlace, find_place, places
from albireo.node import boot
from albireo.runtime.line_writer import never_block


@click.group("node")
def command() -> None:
    """Run a node, or stop one."""


@command.command()
@topology_option
@click.option("--id", "node_id", default=None, help="Which node, such as root/north; not needed where there is one.")
@click.option("--data", type=DIRECTORY, default=None, help="Data directory; default var/<id>.")
@click.option(
    "--keys",
    type=DIRECTORY,
    default=None,
    help="Directory of the keys; default <data>/keys if it is there. Without keys a pair stays on loopback, and "
    "the door of a node that stands alone stays closed.",
)
@click.option(
    "--feature-level",
    type=WholeNumber(OLDEST_LEVEL, FEATURE_LEVEL),
    default=None,
    help="Hold the node back to what the version before knows, so that one may go back to it; see docs/pair.md.",
)
def run(
    topology_file: Path, node_id: str | None, data: Path | None, keys: Path | None, feature_level: int | None
) -> None:
    """Run one node of a topology until Ctrl-C or SIGTERM; both stop it cleanly.

    Its log goes to standard output: lines for people on a terminal, one JSON object per line anywhere else.
    """
    never_block()
    loaded = read_topology(topology_file)
    known = places(loaded.topology)
    if node_id is None:
        if len(known) != 1:
            names = ", ".join(one.name for one in known)
            raise Failure(f"{topology_file} has several nodes: {names}", "say which with --id", ExitCode.USAGE)
        node_id = known[0].name
    try:
        place = find_place(loaded.topology, node_id)
    except UnknownPlace as error:
        raise Failure(str(error), "name one of them with --id", ExitCode.BAD_CONFIGURATION) from error
    directory = VAR / place.directory_name if data is None else data
    # Without keys a member can't speak to the other; a lone node only keeps its door closed.
    needing = _endpoints(loaded.topology, place.node) if place.member else ()
    keys = own_keys(place.name, directory, keys, needing)
    say(f"node {node_id}, data in {directory}")
    hint = f"node {node_id} runs; in another terminal: albireo status, albireo watch; Ctrl-C stops it"
    started = (lambda _: say(hint)) if sys.stderr.isatty() else None
    work = partial(boot.run, loaded, place, directory, keys, started, feature_level, load_again)
    raise SystemExit(run_until_stopped(directory, work))


def _endpoints(topology: Topology, node: NodeConfig) -> Iterator[str]:
    """Endpoints that a member binds or dials."""
    for one in filter(None, (node.primary, node.backup)):
        yield from (one.client, *one.peer)
    yield from (one.endpoint for one in topology.witness if f"witness:{one.name}" in node.voters)


@command.command()
@data_option
def stop(data: Path | None) -> None:
    """Ask a running node to stop cleanly."""
    with node_client(find_data(data)) as client:
        client.ask("stop", of="boot")
    show("asked to stop")
