"""`albireo message`: send messages and files to programs at other nodes, and receive them."""

import sys
from pathlib import Path
from typing import IO, Any

import click
import msgspec

from albireo.cli.output import Failure, Output, json_asked, printed, progress, say, show
from albireo.cli.place import DIRECTORY
from albireo.cli.target import Place, node_client, place_option, user_option
from albireo.cli.timespan import SecondsType, WholeNumber
from albireo.client import Client, InboxMessage
from albireo.client.message.files import FILE, PART_BYTES, new_transfer, read_up_to_one_more, write_durably
from albireo.codec.questions.messages import SEND_BYTES_MAX
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
@user_option
@place_option
@printed
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
) -> Output:
    """Send FILE, or standard input, to the programs that receive at NODE.

    Up to 512 KiB go as one message; more, up to 64 MiB, go as a file, in parts, to `albireo message receive --out DIR`.
    """
    data = read_up_to_one_more(file)
    is_file = as_file or bool(name or transfer) or len(data) > SEND_BYTES_MAX
    if is_file and no_wait:
        raise Failure("a file can't be left with the node: its parts are sent as they are taken", "leave --no-wait out")
    with node_client(place, user, told_by="albireo command list") as client:
        if no_wait:
            command_id = client.send(node, data, inbox=inbox, reason=reason, expires_s=expires_s, wait=False)
            return Output({"command_id": command_id}, command_id)
        if is_file:
            called = name or ("stdin" if file is sys.stdin.buffer else Path(file.name).name)
            proof = _send_file(client, node, data, called, inbox, reason, expires_s, transfer or new_transfer())
        else:
            proof = client.send(node, data, inbox=inbox, reason=reason, expires_s=expires_s)
    return _told(proof)


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


def _told(proof: MessageProof) -> Output:
    if proof.outcome != "executed":
        raise Failure(
            f"{proof.outcome}: {proof.detail or proof.cause}",
            f"albireo command show {proof.command_id!r}",
            details=msgspec.to_builtins(proof),
        )
    reply = [f"reply: {proof.reply.decode(errors='replace')}"] if proof.reply else []
    return Output(proof, [f"taken; proof {proof.guid}", *reply])


@command.command("show")
@click.argument("command_id", metavar="ID")
@click.option("--wait", "timeout_s", type=SecondsType(least=0.0), default=0.0, help="Seconds to wait for its end.")
@place_option
@printed
def show_message(command_id: str, timeout_s: float, place: Place) -> Output:
    """Tell what became of a message, and its reply. ID is that of `send --no-wait`; ask the node it was sent from."""
    with node_client(place) as client:
        proof = client.message(command_id, timeout_s=timeout_s)
    if proof is None:
        return Output({"command_id": command_id, "outcome": None}, "it has no end yet")
    return _told(proof)


@command.command("receive")
@inbox_option
@click.option("--out", type=DIRECTORY, help="Directory for what comes, files too.")
@click.option("--count", default=1, show_default=True, type=WholeNumber(1), help="How many messages or files.")
@click.option("--wait", "timeout_s", type=SecondsType(least=0.0), help="Seconds without a message after which it ends.")
@user_option
@place_option
@printed
def receive_message(
    inbox: str, out: Path | None, count: int, timeout_s: float | None, user: str, place: Place
) -> Output:
    """Receive messages at this node, and say that they are taken.

    Without --out the body of each goes to standard output, and files are given back for other receivers. With it each
    is a file there.
    """
    found: list[dict[str, Any]] = []
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    with node_client(place, user) as client:
        while len(found) < count:
            message = next(client.inbox(inbox, timeout_s=timeout_s), None)
            if message is None:
                break
            told = _received(client, message, out)
            if told is not None:
                found.append(told)
                _show_at_once(told)
    if not found and not json_asked():
        raise Failure("no message came", "wait longer, or look at what was sent: albireo command list")
    return Output({"messages": found})


def _show_at_once(told: dict[str, Any]) -> None:
    """Have a reader of the text get each message when it comes; JSON has them all at the end."""
    if json_asked():
        return
    if "body" in told:
        click.echo(told["body"], nl=False)
    else:
        show(told["path"])


def _received(client: Client, message: InboxMessage, out: Path | None) -> dict[str, Any] | None:
    """Take one message; None: it is a file that is not whole yet."""
    told = {"name": str(message.name), "origin": message.origin, "kind": message.kind}
    if message.kind == FILE:
        if out is None:
            client.give_back(message)
            say(f"a file from {message.origin}: it is given back for a receiver with --out")
            return None
        path = client.receive_file(message, out)
    elif out is not None:
        path = out / f"message-{message.name.life}-{message.name.number}-{message.origin.replace('/', '~')}"
        try:
            write_durably(path, message.body)  # Who takes a message answers for it.
        except OSError as error:
            client.give_back(message)
            remedy = "make room there, or name another directory with --out; another receiver may have the message now"
            raise Failure(f"{path} ({len(message.body)} bytes): {error.strerror}; it is given back", remedy) from error
        client.take(message)
    else:
        client.take(message)
        return told | {"body": message.body}
    return None if path is None else told | {"path": str(path)}
