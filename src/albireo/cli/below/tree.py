"""`albireo tree`: the other nodes that a node knows, how far its copy of them is, and what is missing."""

import contextlib
import time
from collections.abc import Iterator
from typing import Any, Final

import click

from albireo.cli.below.nodes import (
    NodeTold,
    heard_text,
    missing_lines,
    missing_text,
    nodes_told,
    pair_text,
    to_come_text,
    with_pace,
)
from albireo.cli.display import time_text
from albireo.cli.output import Looks, Output, Shown, TextTable, watched
from albireo.cli.target import Place, node_client, place_option
from albireo.client import Client, ClientError
from albireo.runtime.clock import wall_ns

LOOK_S: Final = 2.0
"""Time between the two looks that tell the pace at which records come."""
STATS_S: Final = 2.0


@click.command("tree")
@place_option
@watched(every_s=LOOK_S)
def command(place: Place) -> Looks:
    """The nodes below and what there is of them here: is it heard, up to when is all here, what is still to come and
    for how long, and what is missing for good.

    Two things keep records of a node below. The log of this node lacks for good what the node let go of before it was
    fetched (`hold_gib` and `hold_days` of its [node.uplink]). The stored history fetches the rows from the node's own
    history meanwhile; what that lacks too is gone.
    """
    with node_client(place) as client:
        while True:
            told = _look(client)
            if any(one.behind for one in told):
                before, at = told, time.monotonic()
                time.sleep(LOOK_S)
                told = with_pace(before, _look(client), time.monotonic() - at)
            yield Output({"nodes": told}, _text(told))


def _look(client: Client) -> list[NodeTold]:
    stats: Any = None
    with contextlib.suppress(ClientError):  # Without its history a node tells less.
        stats = client.ask("stats", of="history", timeout_s=STATS_S)
    return nodes_told(client.status().node, client.tree(), stats)


def _text(told: list[NodeTold]) -> Iterator[Shown]:
    now_ns = wall_ns()
    rows = (
        (
            one.node,
            one.by,
            heard_text(one.stale_since_ns, now_ns),
            one.items,
            time_text(one.complete_to_ns),
            to_come_text(one, now_ns),
            pair_text(one),
            missing_text(one) or ("-" if one.is_below else ""),
        )
        for one in told
    )
    columns = ("node", "by", "state", "items", "complete to (UTC)", "to come", "pair", "missing")
    yield TextTable(columns, rows, empty="no other node is known here")
    for one in told:
        yield from [*([f"{one.node}: {one.trouble}"] if one.trouble else []), *missing_lines(one)]
