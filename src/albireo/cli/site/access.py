"""`albireo access`: who may do what; changed on record.

Spec: docs/access.md.
"""

import shlex
from typing import Any, Final

import click

from albireo.cli.display import role_text
from albireo.cli.output import Output, TextTable, printed
from albireo.cli.target import Place, node_client, place_option, user_option
from albireo.model.access import ROLE_WORDS
from albireo.model.tree.nodes import is_below

SOURCES: Final = {True: "on record", False: "with its key"}
NODE_HELP: Final = "Only at this node and below, such as root/north; without it everywhere."


@click.group("access")
def command() -> None:
    """Who may do what: the roles view, operate, engineer and admin of every key that is trusted.

    A role given here is on record in the log of the node or pair, and counts before the role that `albireo keys trust`
    gave. Users of this machine who may reach the data directory are admins.
    """


@command.command("list")
@place_option
@printed
def list_access(place: Place) -> Output:
    """List everybody who has a role, and where it comes from."""
    with node_client(place) as client:
        rows: Any = client.ask("access_list")
    cells = (
        (
            row["principal"],
            row["role"],
            ", ".join(role_text(**one) for one in row["grants"]) or "none",
            SOURCES[row["is_on_record"]],
            {True: "trusted", False: "not trusted", None: ""}[row["has_key"]],
        )
        for row in rows
    )
    return Output({"access": rows}, TextTable(("who", "role here", "roles", "given", "key"), cells))


@command.command("grant")
@click.argument("name")
@click.argument("role", type=click.Choice(ROLE_WORDS))
@click.option("--node", default="", help=NODE_HELP)
@user_option
@place_option
@printed
def grant(name: str, role: str, node: str, user: str, place: Place) -> Output:
    """Give the holder of the key trusted as NAME a role.

    It takes the place of the role that NAME was given at the same node. Without anything on record NAME has the role of
    its key; from the first change on only what is on record counts.
    """
    return _change(place, "access_grant", principal=name, role=role, node=node, user=user)


@command.command("revoke")
@click.argument("name")
@click.option("--node", default="", help="Only the role given at this node; without it every role.")
@user_option
@place_option
@printed
def revoke(name: str, node: str, user: str, place: Place) -> Output:
    """Take roles from NAME; what is left to it is to view.

    An order that NAME has under way goes on to its receipt; the next one is refused. To keep NAME out altogether revoke
    its keys: `albireo keys revoke NAME`.
    """
    return _change(place, "access_revoke", principal=name, node=node, user=user)


def _change(place: Place, what: str, **arguments: Any) -> Output:
    name = arguments["principal"]
    with node_client(place) as client:
        client.ask(what, **arguments)
        rows: Any = client.ask("access_list")
        own, known = client.status().node, [one.node for one in client.tree()]
    row = next(one for one in rows if one["principal"] == name)
    hints = []
    if row["has_key"] is False:
        hints.append(f"No key is trusted under this name yet: albireo keys trust {shlex.quote(name)} KEY")
    node = arguments["node"]
    if what == "access_grant" and is_below(node, own):
        hints.append(f"An order that is given at {own} needs the role at {own} as well: docs/access.md")
        if node not in known:
            hints.append(f"No node {node} is known here: albireo tree")
    return Output(row, f"{name}: {', '.join(role_text(**one) for one in row['grants']) or 'view'}", hints)
