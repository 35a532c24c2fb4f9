"""`albireo message`: send messages and files to programs at other nodes, and receive them."""

import getpass
import sys
from pathlib import Path
from typing import IO

import click
import msgspec

from albireo.cli.node.timespan import SecondsType
from albireo.cli.output import Failure, emit, json_option, progress, say, show
from albireo.cli.target import Place, node_client, place_option
from albireo.client import Client, InboxMessage
from albireo.client.message.files import FILE, PART_BYTES, new_transfer, read_up_to_one_more, write_durably
from albireo.machine.answers.posts import SEND_BYTES_MAX
from albireo.model.tree.message import DEFAULT_INBOX, EXPIRES_MS_MAX
from albireo.model.tree.proof import MessageProof

inbox_option = click.option("--inbox", default=DEFAULT_INBOX, show_default=True, help="Inbox at the receiving node.")


@click.group("message")
def command() -> None:
    """Messages and files from node to node, for programs."""


@command.command("send")
@click.argument("node")
@click.argument("file", type=click.File("rb"), default="-")
@inbox_option
@click.option("--as-file", is_flag=True, help="Send it as a file, also if it fits into one message.")
@click.option("--name", default="", help="Name of the file there; as here by default.")
@click.option("--resume", "transfer", default="", metavar="ID", help="Go on with a transfer that did not end.")
@click.option(
    "--expires",
    "expires_s",
    type=SecondsType(EXPIRES_MS_MAX / 1000),
    default=60.0,
    show_default=True,
    help="Seconds in which it must be taken; 7 days at most.",
)
@click.option("--no-wait", is_flag=True, help="Return once it is on record here, with its id.")
@click.option("--reason", default="", help="Why.")
@click.option("--user", default=getpass.getuser, help="Who sends; the login name by default.")
@place_option
@json_option
def send_message(
    node: str,
    file: IO[bytes],
    inbox: str,
    as_file: bool,
    name: str,
    transfer: str,
    expires_s: float,
    no_wait: bool,
    reason: str,
    user: str,
    place: Place,
    as_json: bool,
) -> None:
    """Send FILE, or standard input, to the programs that receive at NODE.

    Up to 512 KiB go as one message; more, up to 64 MiB, go as a file, in parts, to `albireo message receive --out DIR`.
    """
    data = read_up_to_one_more(file)
    is_file = as_file or bool(name or transfer) or len(data) > SEND_BYTES_MAX
    if is_file and no_wait:
        raise Failure("a file can't be left with the node: its parts are sent as they are taken", "leave --no-wait out")
    with node_client(place, user) as client:
        if no_wait:
            command_id = client.send(node, data, inbox=inbox, reason=reason, expires_s=expires_s, wait=False)
            if as_json:
                emit({"command_id": command_id})
            else:
                show(command_id)
            return
        if is_file:
            called = name or ("stdin" if file is sys.stdin.buffer else Path(file.name).name)
            proof = _send_file(client, node, data, called, inbox, reason, expires_s, transfer or new_transfer())
        else:
            proof = client.send(node, data, inbox=inbox, reason=reason, expires_s=expires_s)
    _tell(proof, as_json)


def _send_file(
    client: Client, node: str, data: bytes, name: str, inbox: str, reason: str, expires_s: float, transfer: str
) -> MessageProof:
    say(f"transfer {transfer}; if it does not end, --resume {transfer} goes on with it")
    with progress(f"{name} to {node}", len(data)) as advance:
        done = 0

        def told(so_far: int, of: int) -> None:
            nonlocal done
            advance(so_far - done, f"{so_far // PART_BYTES} of {-(-of // PART_BYTES)} parts")
            done = so_far

        proof = client.send_file(
            node, data, name=name, inbox=inbox, reason=reason, expires_s=expires_s, progress=told, transfer=transfer
        )
    return msgspec.structs.replace(proof, reply=None)  # It is a word between the two ends, for no person.


def _tell(proof: MessageProof, as_json: bool) -> None:
    if proof.outcome != "executed":
        raise Failure(
            f"{proof.outcome}: {proof.detail or proof.cause}",
            f"albireo command show {proof.command_id!r}",
            details=msgspec.to_builtins(proof),
        )
    if as_json:
        emit(proof)
        return
    show(f"taken; proof {proof.guid}")
    if proof.reply:
        show(f"reply: {proof.reply.decode(errors='replace')}")


@command.command("show")
@click.argument("command_id", metavar="ID")
@click.option("--wait", "timeout_s", type=SecondsType(least=0.0), default=0.0, help="Seconds to wait for its end.")
@place_option
@json_option
def show_message(command_id: str, timeout_s: float, place: Place, as_json: bool) -> None:
    """Tell what became of a message, and its reply. ID is that of `send --no-wait`; ask the node it was sent from."""
    with node_client(place) as client:
        proof = client.message(command_id, timeout_s=timeout_s)
    if proof is not None:
        _tell(proof, as_json)
    elif as_json:
        emit({"command_id": command_id, "outcome": None})
    else:
        show("it has no end yet")


@command.command("receive")
@inbox_option
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Directory for what comes, files too.")
@click.option("--count", default=1, show_default=True, type=click.IntRange(1), help="How many messages or files.")
@click.option("--wait", "timeout_s", type=SecondsType(least=0.0), help="Seconds without a message after which it ends.")
@click.option("--user", default=getpass.getuser, help="Who receives; the login name by default.")
@place_option
@json_option
def receive_message(
    inbox: str, out: Path | None, count: int, timeout_s: float | None, user: str, place: Place, as_json: bool
) -> None:
    """Receive messages at this node, and say that they are taken.

    Without --out the body of each goes to standard output, and files are given back for other receivers. With it each
    is a file there.
    """
    found: list[dict[str, object]] = []
    with node_client(place, user) as client:
        while len(found) < count:
            message = next(client.inbox(inbox, timeout_s=timeout_s), None)
            if message is None:
                break
            told = _received(client, message, out, as_json)
            found += [] if told is None else [told]
    if as_json:
        emit({"messages": found})
    elif not found:
        raise Failure("no message came", "wait longer, or look at what was sent: albireo command list")


def _received(client: Client, message: InboxMessage, out: Path | None, as_json: bool) -> dict[str, object] | None:
    """Take one message; None: it is a file that is not whole yet."""
    told: dict[str, object] = {"name": str(message.name), "origin": message.origin, "kind": message.kind}
    if message.kind == FILE:
        if out is None:
            client.give_back(message)
            say(f"a file from {message.origin}: it is given back for a receiver with --out")
            return None
        path = client.receive_file(message, out)
    elif out is not None:
        out.mkdir(parents=True, exist_ok=True)
        path = out / f"message-{message.name.life}-{message.name.number}-{message.origin.replace('/', '~')}"
        write_durably(path, message.body)  # Who takes a message answers for it.
        client.take(message)
    else:
        client.take(message)
        if not as_json:
            click.echo(message.body, nl=False)
        return told | {"body": msgspec.to_builtins(message.body)}
    if path is None:
        return None
    if not as_json:
        show(str(path))
    return told | {"path": str(path)}
