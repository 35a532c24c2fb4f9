"""`albireo chp`: serve a node's items to programs that speak the Clustered Hashmap Protocol."""

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from albireo.cli.output import ExitCode, Failure, Output, printed, say
from albireo.cli.place import MEMBERS, is_pair
from albireo.cli.target import FarNode, Place, failure_of, place_option
from albireo.runtime.actor.exits import STOP_SIGNALS
from albireo.runtime.errors import AddressTaken
from albireo.runtime.line_writer import never_block

if TYPE_CHECKING:
    from albireo.client import Client
    from albireo.face.chp.face import ChpFace
    from albireo.face.chp.settings import ChpSettings
    from albireo.machine.chp.server import ChpNoted

FIRST_ANSWER_S: Final = 3.0
"""Time for the node to be there at the start; later it may come and go."""


@click.command("chp")
@click.option(
    "--bind",
    "endpoint",
    default="tcp://127.0.0.1:5556",
    show_default=True,
    help="Address and port for snapshots; the next port publishes, the one after that collects.",
)
@click.option("--of", "other", default="", metavar="NODE", help="Serve the items of this other node of the tree.")
@click.option("--subtree", "subtrees", multiple=True, help="Serve this only: /NODE/ or longer. May be given again.")
@click.option(
    "--peer", "peers", multiple=True, help="Address or network that may connect, for a --bind that others reach."
)
@click.option("--allow-set", is_flag=True, help="A KVSET of a client is an order to the node.")
@place_option
@printed
def command(
    endpoint: str, other: str, subtrees: tuple[str, ...], peers: tuple[str, ...], allow_set: bool, place: Place
) -> Output:
    """Serve a node's own items to CHP clients (ZeroMQ RFC 12), until Ctrl-C or SIGTERM; with --of those of
    another node that it knows.

    The protocol has no security: without --peer only programs of this machine may connect. Exit codes: 0 stopped; 1
    the ports are taken; 2 wrong usage; 69 the node can't be reached.
    """
    from albireo.face.chp.settings import ChpSettings

    try:
        settings = ChpSettings(bind=endpoint, of=other, subtrees=subtrees, peers=peers, allow_set=allow_set)
    except ValueError as error:
        raise Failure(str(error), "correct --bind, --peer or --subtree (docs/chp.md)", ExitCode.USAGE) from error
    never_block()
    face = _made(place, settings)
    say(f"serving {', '.join(subtrees) or 'all items'} at {endpoint} and the two ports behind it")
    with _ended_by_signals(face):
        face.run()
    return Output({"chp": endpoint, "exit": 0, **face.machine.describe()})


def _made(place: Place, settings: "ChpSettings") -> "ChpFace":
    """The server, listening; of this other node, by its id or the end of it.

    Raises:
        Failure: it can't listen there, or its node can't be what is meant.
    """
    from albireo.face.chp.face import ChpFace

    client = _connected(place)
    if settings.of:
        settings = msgspec.structs.replace(settings, of=_id_of(client, settings.of, place))
    try:
        return ChpFace(client, settings, _tell)
    except AddressTaken as error:
        raise Failure(str(error), "stop the other program, or give --bind another port") from error


def _id_of(client: "Client", other: str, place: Place) -> str:
    from albireo.client import ClientError
    from albireo.client.nodes import nodes_of

    try:
        found = client.converse(nodes_of([other]))
    except ClientError as error:
        raise failure_of(error, place) from error
    if len(found) != 1:
        told = ", ".join(found) or "no node"
        raise Failure(f"{other!r} means {told}", "name one node by its whole id", ExitCode.USAGE)
    return found[0]


def _connected(place: Place) -> "Client":
    """A client of the node, of both members if it is a pair; nobody has to act yet.

    Raises:
        Failure: our key is not trusted there, or it is no node.
    """
    from albireo.client import ClientError, KeyNotTrusted, NodeUnreachable, connect

    target, keys = (place.at, place.keys) if isinstance(place, FarNode) else (_both_members(place), None)
    try:
        try:
            return connect(target, keys=keys, timeout_s=FIRST_ANSWER_S, name="chp")
        except KeyNotTrusted:
            raise
        except NodeUnreachable as error:
            client = connect(target, keys=keys, name="chp", waits=False)
            say(f"nobody is answered until the node acts: {error.cause}")
            return client
    except ClientError as error:
        raise failure_of(error, place) from error


def _both_members(directory: Path) -> Path:
    """The directory of the pair, if this one belongs to a member whose other one is on this machine too."""
    return directory.parent if directory.name in MEMBERS and is_pair(directory.parent) else directory


def _tell(noted: "ChpNoted") -> None:
    say(f"{noted.what}: {noted.detail}")


@contextlib.contextmanager
def _ended_by_signals(face: "ChpFace") -> Iterator[None]:
    heard = [one for one in STOP_SIGNALS if signal.getsignal(one) is not signal.SIG_IGN]  # nohup
    before = {one: signal.signal(one, lambda *_: face.stop()) for one in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
