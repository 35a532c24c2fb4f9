"""`albireo stop`: one node, or with --all both members of a pair, with logs that end alike."""

import secrets
from pathlib import Path
from typing import Any

import click

from albireo.cli.output import ExitCode, Failure, Output, printed
from albireo.cli.pair.reach import ReachedMember, other_member, own_member
from albireo.cli.place import DIRECTORY, find_data
from albireo.cli.target import node_client
from albireo.client import NodeUnreachable
from albireo.model.position import Position


@click.command("stop")
@click.option(
    "--data",
    type=DIRECTORY,
    multiple=True,
    help="Data directory of a node here; with --all one of the two is enough. Without it the only node in ./var.",
)
@click.option("--all", "is_all", is_flag=True, help="Both members of the pair, level and with one shutdown id.")
@printed
def command(data: tuple[Path, ...], is_all: bool) -> Output:
    """Stop a node cleanly; of a pair, one member, or both (--all).

    One member hands over first, if it leads. Both stop like this: nothing new is taken, the passive member gets level
    with the active one, and both stores get the same shutdown id, by which `albireo stores` knows them as equal.
    """
    if is_all:
        answer = _stop_both(data[0] if data else None)
        said = f"both members stop at {Position(*answer['position'])}, shutdown id {answer['shutdown_id']}"
    else:
        answer = {"asked": [_stop_one(directory) for directory in data or (None,)]}
        said = f"asked to stop: {', '.join(answer['asked'])}"
    return Output(answer, said)


def _stop_one(directory: Path | None) -> str:
    found = find_data(directory)
    with node_client(found) as client:
        client.ask("stop", of="boot")
    return str(found)


def _stop_both(data: Path | None) -> dict[str, Any]:
    with own_member(data) as (own, directory):
        try:
            with other_member(own, directory) as other:
                return stop_level(own, other)
        except NodeUnreachable as error:
            remedy = "start it, or stop this one alone: albireo stop"
            raise Failure(f"both are needed, and {error}", remedy, ExitCode.UNREACHABLE) from error


def stop_level(one: ReachedMember, another: ReachedMember) -> dict[str, Any]:
    """The three steps of a joint stop (node/member/joint_stop.py).

    Raises:
        Failure: nobody leads, or a step was refused; both go on then.
    """
    active = next((member for member in (one, another) if member.pair.state == "active"), None)
    if active is None:
        states = ", ".join(f"{member.place} is {member.pair.state}" for member in (one, another))
        raise Failure(
            f"the two can't be made level: {states}",
            "wait until `albireo status` shows one active and one ready, or stop each alone: albireo stop",
        )
    passive = another if active is one else one
    passive.act("stop_hold")
    level = active.act("stop_level")
    shutdown_id = secrets.token_hex(8)
    passive.act("stop_now", position=level["position"], shutdown_id=shutdown_id)
    active.act("stop_now", position=level["position"], shutdown_id=shutdown_id)
    return {"position": level["position"], "shutdown_id": shutdown_id, "members": [active.place, passive.place]}
