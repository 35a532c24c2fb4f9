"""`albireo selections`: which items are selected for an order, here and at the nodes that are known here.

Spec: docs/messages.md, Select before operate.
"""

import click

from albireo.cli.display import left_text, not_heard_text, time_text, who_text
from albireo.cli.node.write import known_item
from albireo.cli.output import Failure, Output, TextTable, printed
from albireo.cli.target import Place, node_client, place_option, user_option


@click.group("selections")
def command() -> None:
    """Items that somebody has to himself for a moment before writing them (select before operate).

    A selection ends with the order, when it is given back, or after its time (30 s, 300 s at most).
    """


@command.command("list")
@click.argument("node", default="*")
@place_option
@printed
def list_selections(node: str, place: Place) -> Output:
    """List the selected items of this node and of those below, or only of nodes that NODE means.

    NODE is the id of a node (root/north), its end (north), or a pattern of either ('north*').
    """
    with node_client(place) as client:
        found = client.selections(node)
    rows = (
        (
            one.item,
            who_text(one.user, one.principal),
            one.reason,
            time_text(one.since_ns),
            left_text(one.left_ms) + not_heard_text(one.stale_since_ns),
        )
        for one in found
    )
    table = TextTable(("item", "who", "why", "since (UTC)", "left"), rows, empty="nothing is selected")
    return Output({"selections": found}, table)


@command.command("end")
@click.argument("item")
@click.option("--reason", default="", help="Why; it is kept in the audit journal.")
@user_option
@place_option
@printed
def end(item: str, reason: str, user: str, place: Place) -> Output:
    """End the selection of ITEM before its time, whoever has it: nothing is written, and others may select it.

    It needs the role admin at the node that owns the item. Whoever had it is refused with the next order.
    """
    with node_client(place, user, told_by="albireo selections list") as client:
        name = known_item(client, item).name
        selected = [one for one in client.selections() if one.item == name]
        if not selected:
            raise Failure(f"{name} is not selected", "`albireo selections list` shows what is")
        client.end_selection(selected[0], reason)
    text = f"{selected[0].item} is not selected any more; {selected[0].user} had it"
    return Output({"ended": True, "selection": selected[0]}, text)
