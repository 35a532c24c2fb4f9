"""Which node of this machine a command means: `--data DIR`, else the only one in `./var`, or the only one that runs.

The client is imported where it is used: a command that runs a node or a witness must not keep it in memory.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import click

from albireo.cli.output import ExitCode, Failure, say
from albireo.runtime.directory import holder

VAR: Final = Path("var")
MEMBERS: Final = ("primary", "backup")
DIRECTORY: Final = click.Path(path_type=Path, file_okay=False)
FILE: Final = click.Path(path_type=Path, dir_okay=False)


data_option = click.option(
    "--data",
    type=DIRECTORY,
    help="Data directory of the node, or of a pair; without it the only one in ./var, or the only one that runs.",
)
"""Gives a command the option `--data`, handed in as `data` (None: not given)."""
topology_option = click.option(
    "--topology",
    "topology_file",
    type=FILE,
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
    if data is None:
        return _acting(_only_node())
    if not is_pair(data) and not is_store(data):
        raise Failure(
            f"{data} holds no node", "name the directory that `albireo node run --data` was given", ExitCode.USAGE
        )
    return _acting([data / member for member in MEMBERS] if is_pair(data) else [data])


def _acting(members: list[Path]) -> Path:
    """The member that acts, of one or two."""
    if len(members) == 1:
        return members[0]
    from albireo.cli.acting import ActingDirectory

    return ActingDirectory(members)()


def _only_node() -> list[Path]:
    """Data directories (two for a pair) of the only node in ./var, or where there are several, of the one that runs."""
    nodes = _nodes(stores_here())
    if not nodes:
        raise Failure("there is no node in ./var", "start one (`albireo node run`) or name it with --data DIR")
    running = [node for node in nodes if any(runs(one) for one in node)]
    if len(nodes) == 1:
        say(f"{_named(nodes[0])} is meant")
        return nodes[0]
    if len(running) == 1:
        say(f"{_named(running[0])} is meant: of the {len(nodes)} nodes in ./var only it runs")
        return running[0]
    meant = running or nodes
    above = next((node for node in meant if _is_above(node, meant)), None)
    if above is not None:
        say(f"{_named(above)} is meant: the others lie below it")
        return above
    listed = ", ".join(map(_named, meant))
    what = f"{len(running)} nodes run here" if running else "several nodes are here, and none runs"
    raise Failure(f"{what}: {listed}", "say which one with --data DIR", ExitCode.USAGE)


def stores_here() -> list[Path]:
    """Data directories of nodes in ./var."""
    return [one.parent for one in VAR.rglob("log") if is_store(one.parent)] if VAR.is_dir() else []


def _is_above(node: list[Path], nodes: list[list[Path]]) -> bool:
    """A pair in whose directory all others lie, as the root of a demo."""
    directory = node[0].parent
    return len(node) > 1 and is_pair(directory) and all(directory in path.parents for other in nodes for path in other)


def _nodes(stores: Iterable[Path]) -> list[list[Path]]:
    """The stores by node: `x/primary` and `x/backup` are one, and so are `x.primary` and `x.backup`."""
    by_node: dict[tuple[Path, str, bool], list[Path]] = {}
    for store in sorted(stores, reverse=True):
        name, _, member = store.name.rpartition(".")
        key = (store.parent, name, True) if member in MEMBERS else (store.parent, store.name, False)
        by_node.setdefault(key, []).append(store)
    return sorted(by_node.values())


def _named(node: list[Path]) -> str:
    return str(node[0].parent) if is_pair(node[0].parent) else " and ".join(map(str, node))


def runs(data: Path) -> bool:
    """Whether a process holds the lock of that data directory."""
    return holder(data) != 0


def is_pair(directory: Path) -> bool:
    """Both members of a pair keep their data below it, as in the demo: the one that acts is meant."""
    return all(is_store(directory / member) for member in MEMBERS)


def is_store(directory: Path) -> bool:
    return (directory / "log" / "segments").is_dir()  # "log" alone has /var, too, where a container begins in "/".
