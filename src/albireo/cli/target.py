"""Which node an everyday command means, on this machine or another, and how it is spoken with.

    1. an option        --data DIR | --at ENDPOINT[,ENDPOINT] | --topology FILE --id ID | --site NAME
    2. the environment  ALBIREO_DATA | ALBIREO_AT | ALBIREO_TOPOLOGY, ALBIREO_ID | ALBIREO_SITE
    3. the site that `albireo site use` named; orders are refused where a node is in ./var as well
    4. the only node in ./var, or the only one there that runs

For users: docs/remote.md.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
import msgspec
from click.core import ParameterSource

from albireo.cli.output import ExitCode, Failure, say
from albireo.cli.place import DIRECTORY, FILE, VAR, find_data, runs, stores_here
from albireo.cli.saved_sites import SavedSite, load_sites
from albireo.model.refusal import Refusal, kind_of_code
from albireo.runtime.login import login_name

if TYPE_CHECKING:
    from albireo.client import Client, ClientError

_Function = TypeVar("_Function", bound=Callable[..., Any])

REMOTE_S: Final = 10.0
"""Time for a node on another machine, longer than a takeover."""
TCP: Final = "tcp://"


class FarNode(msgspec.Struct, frozen=True):
    """A node that is reached by its doors; the member that acts is spoken with."""

    at: str
    """Its endpoints, with a comma between them."""
    keys: Path | None = None

    def __str__(self) -> str:
        return self.at


Place = Path | FarNode
"""A data directory of this machine, or a node anywhere."""

_WAYS: Final = {"data": "--data", "at": "--at", "topology_file": "--topology", "site": "--site"}
"""Parameters that name a node, each by itself, and their options."""
FAR_OPTIONS: Final = (
    click.option("--at", envvar="ALBIREO_AT", help="Endpoints of a node: tcp://HOST:PORT, of a pair two with a comma."),
    click.option("--keys", type=DIRECTORY, envvar="ALBIREO_KEYS", help="Directory of your keys, for --at and so on."),
    click.option("--topology", "topology_file", type=FILE, envvar="ALBIREO_TOPOLOGY", help="Topology file, for --id."),
    click.option("--id", "node_id", envvar="ALBIREO_ID", help="Node of the topology; not needed where there is one."),
)
_OPTIONS: Final = (
    click.option("--data", type=DIRECTORY, envvar="ALBIREO_DATA", help="Data directory of a node here, or of a pair."),
    *FAR_OPTIONS,
    click.option("--site", envvar="ALBIREO_SITE", help="Site saved by `albireo site add`; without all, the default."),
)


user_option = click.option("--user", default=login_name, help="Who acts; the login name by default.")
"""Gives a command the option `--user`, as whom it speaks."""


def place_option(function: _Function) -> _Function:
    """Give a command the options that name a node, handed in as `place`."""

    @functools.wraps(function)
    def chosen(*arguments: Any, **options: Any) -> Any:
        given = {name: options.pop(name) for name in (*_WAYS, "keys", "node_id")}
        return function(*arguments, place=_place_meant(given), **options)

    for option in reversed(_OPTIONS):
        chosen = option(chosen)
    return chosen  # type: ignore[return-value]  # Its parameters are the function's but for those taken above.


def _place_meant(given: Mapping[str, Any]) -> Place:
    for source in (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT):
        named = [name for name in _WAYS if _is_from(name, source)]
        if len(named) > 1:
            names = " and ".join(
                _WAYS[name] if source is ParameterSource.COMMANDLINE else _variable(name) for name in named
            )
            raise Failure(f"{names} name two places", "give one of them", ExitCode.USAGE)
        if named:
            return _place_named(named[0], given)
    default = load_sites().default
    if default:
        is_here = bool(stores_here())
        if is_here and any(one.name == "user" for one in click.get_current_context().command.params):
            remedy = f"say which one: --site {default}, or --data DIR; `albireo site use --none` ends the default"
            raise Failure(f"two nodes could be meant: the site {default}, and one in ./{VAR}", remedy, ExitCode.USAGE)
        say(f"site {default} is meant" + (f", not the node in ./{VAR} (--data DIR)" if is_here else ""))
        return _place_named("site", {**given, "site": default})
    return _place_named("data", given)


def _place_named(way: str, given: Mapping[str, Any]) -> Place:
    if way != "topology_file" and _is_from("node_id", ParameterSource.COMMANDLINE):
        raise Failure("--id says which node of a topology", "give --topology FILE too", ExitCode.USAGE)
    match way:
        case "data":
            if _is_from("keys", ParameterSource.COMMANDLINE):
                raise Failure("--keys is for a node on another machine", "name it with --at", ExitCode.USAGE)
            return find_data(given["data"])
        case "site":
            site = load_sites().site(given["site"])
            is_chosen = _is_from("keys", ParameterSource.COMMANDLINE) or not site.keys
            return FarNode(site.at, given["keys"] if is_chosen else Path(site.keys))
        case _:
            return far_node(
                given["at"] if way == "at" else None, given["topology_file"], given["node_id"], given["keys"]
            )


def far_node(at: str | None, topology_file: Path | None, node_id: str | None, keys: Path | None) -> FarNode:
    """The node that is named by its endpoints, or else by its place in a topology.

    Raises:
        Failure: it is neither.
    """
    if at is None:
        if topology_file is None:
            raise Failure("which node?", "give --at ENDPOINT, or --topology FILE --id ID", ExitCode.USAGE)
        at = _doors(topology_file, node_id)
    endpoints = [one.strip() for one in at.split(",")]
    for one in endpoints:
        if not one.startswith(TCP):
            raise Failure(f"{one!r} is no endpoint", "give tcp://HOST:PORT, of a pair two with a comma", ExitCode.USAGE)
    return FarNode(",".join(endpoints), keys)


def _doors(file: Path, node_id: str | None) -> str:
    """Endpoints of a node of a topology, each with the name that its key must have."""
    from albireo.cli.topology_file import read_topology
    from albireo.client import TargetRefused, members_of

    nodes = {node.id: node for node in read_topology(file).topology.node}
    if node_id is None and len(nodes) == 1:
        (node_id,) = nodes
    if node_id not in nodes:
        what = f"{file} has no node {node_id}" if node_id else f"{file} has several nodes"
        raise Failure(f"{what}: {', '.join(nodes)}", "say which with --id", ExitCode.USAGE)
    try:
        return ",".join(f"{one.endpoint}#{one.peer}" for one in members_of(nodes[node_id]))
    except TargetRefused as error:
        raise Failure(error.cause, error.remedy, ExitCode.BAD_CONFIGURATION) from error


def _is_from(name: str, source: ParameterSource) -> bool:
    return click.get_current_context().get_parameter_source(name) is source


def _variable(name: str) -> str:
    return f"ALBIREO_{_WAYS[name].strip('-').upper()}"


def opened(place: Place, timeout_s: float = REMOTE_S, name: str | None = None) -> "Client":
    """A client of the node; of this machine the member in that directory, whether it acts or not.

    Args:
        name: who speaks, for the audit journal; None: the login name.
    Raises:
        ClientError: it can't be reached, or refuses us.
    """
    from albireo.client import connect

    if isinstance(place, FarNode):
        return connect(place.at, keys=place.keys, timeout_s=timeout_s, name=name)
    return connect(place, timeout_s=timeout_s, name=name, is_pinned=True)


@contextlib.contextmanager
def node_client(place: Place, name: str | None = None, told_by: str = "") -> "Iterator[Client]":
    """A client of the node that is meant, for `name`; its errors become failures with a remedy.

    Args:
        told_by: command that tells what became of what is ordered here, for whoever breaks it off; empty: nothing is.
    """
    from albireo.client import ClientError

    try:
        with opened(place, name=name) as client:
            yield client
    except ClientError as error:
        raise failure_of(error, place) from error
    except KeyboardInterrupt as error:
        if not told_by:
            raise
        raise Failure("broken off: what was ordered may be done, or be done still", f"{told_by} tells") from error


def failure_of(error: "ClientError", place: Place) -> Failure:
    """An error of the client as the failure of a command."""
    from albireo.client import NodeRefused, NodeUnreachable, NotInTime, OutcomeUnknown, TargetRefused

    if isinstance(error, NodeRefused):
        return refused(error.refusal, error.reason)
    if isinstance(error, TargetRefused):
        return Failure(error.cause, error.remedy, ExitCode.USAGE)
    if isinstance(error, NodeUnreachable):
        is_here = isinstance(place, Path) and not isinstance(error, NotInTime | OutcomeUnknown)
        remedy = f"start it: albireo node run --data {place} ..." if is_here else error.remedy
        return Failure(error.cause, remedy, ExitCode.UNREACHABLE)
    return Failure(error.cause, error.remedy)


def refused(refusal: Refusal, cause: str = "") -> Failure:
    """A refusal as the failure of a command.

    Args:
        cause: words that say more than those of the refusal.
    """
    kind = kind_of_code(refusal.code)
    return Failure(cause or refusal.cause, refusal.remedy, ExitCode(kind.exit_code), {"code": refusal.code})


def seal_here(directory: Path) -> None:
    """Have the node that runs in a directory write what stands in no file yet, for readers of its files."""
    from albireo.client import ClientError

    if runs(directory):
        try:
            with opened(directory) as client:
                client.ask("seal", of="history")
        except ClientError as error:
            say(f"the latest minute may be missing: {error.cause}")


def saved_of(node: FarNode) -> SavedSite:
    """The node as it is saved; the directory of its keys is found from anywhere."""
    return SavedSite(at=node.at, keys=str(node.keys.absolute()) if node.keys else "")
