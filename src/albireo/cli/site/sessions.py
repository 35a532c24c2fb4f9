"""`albireo sessions`: who is present at a node and at those below it, and how to end that.

Spec: docs/access.md, Sessions.
"""

from typing import Final

import click

from albireo.cli.display import not_heard_text, time_text
from albireo.cli.output import Failure, Output, TextTable, printed
from albireo.cli.target import Place, node_client, place_option, user_option
from albireo.model.tree.session import SessionRow
from albireo.model.typed_number import whole_of

_HEAD: Final = ("session", "who", "from", "since (UTC)", "role")


@click.group("sessions")
def command() -> None:
    """Who is present: programs and people who ask or watch here, and at the nodes below.

    One session is everything that a principal does from one place. It begins with a question, and ends 30 s after the
    last word of its links, or by `albireo sessions end`.
    """


@command.command("list")
@click.argument("node", default="*")
@place_option
@printed
def list_sessions(node: str, place: Place) -> Output:
    """List the sessions of this node and of those below, or only of nodes that NODE means.

    NODE is the id of a node (root/north), its end (north), or a pattern of either ('north*').
    """
    with node_client(place) as client:
        found = client.sessions(node)
    return Output({"sessions": found}, TextTable(_HEAD, map(_cells, found), empty="nobody is present"))


@command.command("end")
@click.argument("session", metavar="ID")
@click.option("--reason", default="", help="Why; its client is told, and it is kept in the audit journal.")
@user_option
@place_option
@printed
def end(session: str, reason: str, user: str, place: Place) -> Output:
    """End a session, by its ID as `albireo sessions list` shows it: 812, or north:812 at a node below.

    Its client is told so, and what it asks is refused until it connects anew. That takes no right from it: the same key
    may connect again at once. To keep a key out use `albireo keys revoke`, to take a role `albireo access revoke`.

    One's own session may be ended by everybody, that of another one by an admin of its node.
    """
    node, _, number = session.rpartition(":")
    try:
        session_id = whole_of(number)
    except ValueError as error:
        raise Failure(
            f"{session!r} is no session: {error}", "`albireo sessions list` shows their ids, such as 812 or north:812"
        ) from error
    with node_client(place, user, told_by="albireo sessions list") as client:
        client.end_session(session_id, reason, node=node)
    return Output({"session": session, "ended": True}, f"session {session} is ended")


def _cells(one: SessionRow) -> tuple[str, ...]:
    stale = not_heard_text(one.stale_since_ns)
    return (
        f"{one.node}:{one.session_id}",
        one.principal or "anybody",
        one.address or "-",
        time_text(one.since_ns),
        one.role + stale,
    )
