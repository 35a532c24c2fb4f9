"""Which node a command means: `--data DIR`, else the only one in `./var`.

The client is imported where it is used: a command that runs a node or a witness must not keep it in memory.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from albireo.cli.output import ExitCode, Failure

if TYPE_CHECKING:
    from albireo.client import Client

VAR: Final = Path("var")
MEMBERS: Final = ("primary", "backup")


data_option = click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="Data directory of the node; without it the only node in ./var.",
)
"""Gives a command the option `--data`, handed in as `data` (None: not given)."""
topology_option = click.option(
    "--topology",
    "topology_file",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("topology.toml"),
    show_default=True,
    help="The topology file.",
)
"""Gives a command the option `--topology`, handed in as `topology_file`."""


def find_data(data: Path | None) -> Path:
    """The data directory that is meant.

    Raises:
        Failure: none or several could be meant.
    """
    if data is not None:
        if is_pair(data):
            from albireo.cli.pair.acting import ActingDirectory

            return ActingDirectory([data / member for member in MEMBERS])()
        if not is_store(data):
            raise Failure(
                f"{data} holds no node", "name the directory that `albireo node run --data` was given", ExitCode.USAGE
            )
        return data
    found = sorted(one.parent for one in VAR.rglob("log") if is_store(one.parent)) if VAR.is_dir() else []
    if len(found) == 1:
        return found[0]
    if found and all(one.parent == found[0].parent for one in found) and is_pair(found[0].parent):
        return find_data(found[0].parent)
    if not found:
        raise Failure("there is no node in ./var", "start one (`albireo node run`) or name it with --data DIR")
    listed = ", ".join(str(one) for one in found)
    raise Failure(f"several nodes are here: {listed}", "say which one with --data DIR", ExitCode.USAGE)


def is_pair(directory: Path) -> bool:
    """Both members of a pair keep their data below it, as in the demo: the one that acts is meant."""
    return all(is_store(directory / member) for member in MEMBERS)


def is_store(directory: Path) -> bool:
    return (directory / "log").is_dir()


@contextlib.contextmanager
def node_client(data: Path | None) -> "Iterator[Client]":
    """A client of the node that is meant; its errors become failures with a remedy."""
    from albireo.client import NodeRefused, NodeUnreachable, connect

    directory = find_data(data)
    try:
        with connect(directory, is_pinned=True) as client:
            yield client
    except NodeUnreachable as error:
        raise Failure(str(error), f"start it: albireo node run --data {directory} ...", ExitCode.UNREACHABLE) from error
    except NodeRefused as error:
        raise Failure(error.reason) from error
