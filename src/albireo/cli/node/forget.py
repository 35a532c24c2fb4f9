"""`albireo forget`: take names that are no more out of the tables of a node."""

from typing import Any

import click

from albireo.cli.output import Output, printed
from albireo.cli.target import Place, node_client, place_option, user_option


@click.command("forget")
@click.argument("kind", type=click.Choice(["producer", "item"]))
@click.argument("names", nargs=-1, required=True)
@click.option("--reason", default="", help="Why; kept in the audit journal.")
@user_option
@place_option
@printed
def command(kind: str, names: tuple[str, ...], reason: str, user: str, place: Place) -> Output:
    """Forget producers or items by their names: all that are given, or none.

    Neither is forgotten while it is alive or configured, nor an item with an open case. Stored values stay, under the
    name and the id that the item had. A program of a forgotten producer that comes back has to be started again.
    """
    with node_client(place) as client:
        arguments: dict[str, Any] = {"producers": names} if kind == "producer" else {"items": names}
        done = client.ask("forget", user=user, reason=reason, **arguments)
    return Output(done, f"forgotten: {', '.join(names)}")
