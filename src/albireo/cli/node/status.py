"""`albireo status`: the node in one look; with -v, all that it says of itself."""

from collections.abc import Iterable, Iterator
from typing import Any

import click
import msgspec

from albireo.cli.display import time_text
from albireo.cli.node.page import page_of
from albireo.cli.output import Looks, Output, Shown, TextTable, watched
from albireo.cli.pair.reach import REMOTE_S, ReachedMember, other_member, pair_of, untrusted
from albireo.cli.pair.table import (
    COLUMNS,
    VOTER_COLUMNS,
    MemberRow,
    cells_of,
    guard_text,
    level_text,
    local_text,
    private_text,
    refused_text,
    rows_of,
    voter_cells,
)
from albireo.cli.pair.votes import votes_text
from albireo.cli.target import FarNode, Place, node_client, place_option
from albireo.client import Client, ClientError


@click.command("status")
@place_option
@watched(every_s=1.0)
@click.option("--verbose", "-v", is_flag=True, help="Members, voters, actors, adapters, producers, followers too.")
def command(place: Place, verbose: bool) -> Looks:
    """Show who leads, whether what is recorded is safe, what is wrong, and what to do.

    The other member of a pair is asked too, by its client endpoint; if it does not answer, it is shown as last heard.
    """
    hints = () if verbose else ("(-v shows members, voters, processes, adapters, producers and followers)",)
    with node_client(place) as client:
        while True:
            status = gather(client, place)
            yield Output(status, _text(status, verbose=verbose), hints)


def gather(client: Client, place: Place) -> dict[str, Any]:
    """Answers of CORE, boot, history, voter and the other member; a part that does not answer is null, not a failure.

    Boot and voter speak with programs of their own machine only: nobody else has `actors` and `votes`.
    """
    status = client.status()
    status["data"] = str(place)
    parts = {"history": "stats"} | ({} if isinstance(place, FarNode) else {"boot": "actors"})
    for part, what in parts.items():
        try:
            status[what] = client.ask(what, of=part, timeout_s=2.0)
        except ClientError:
            status[what] = None
    status["votes"] = None if isinstance(place, FarNode) else _votes(client)
    if status["pair"] is not None:
        status["untrusted"] = [] if isinstance(place, FarNode) else untrusted(status["pair"], place)
        status["members"] = msgspec.to_builtins(rows_of(_views(client, status["pair"], place)))
    status["summary"] = msgspec.to_builtins(page_of(status))
    return status


def _votes(client: Client) -> Any:
    """Promises of the voter of this place to pairs above it; None: it votes for none, or its voter does not answer."""
    try:
        return client.ask("status", of="voter", timeout_s=2.0)
    except ClientError:
        return None


def _views(client: Client, pair: dict[str, Any], place: Place) -> list[dict[str, Any]]:
    """The pair as this member sees it, and as the other does if it answers."""
    try:
        return [pair, _others_view(client, pair, place)]
    except ClientError:
        return [pair]


def _others_view(client: Client, pair: dict[str, Any], place: Place) -> dict[str, Any]:
    """The pair as the other member sees it. Raises ClientError: it does not answer."""
    if not isinstance(place, FarNode):
        with other_member(ReachedMember(place=pair["place"], ask=client.ask, pair=pair), place) as other:
            return other.pair
    asked: Any = client.ask("status", member=0 if client.acting else 1, timeout_s=REMOTE_S)
    return pair_of(asked, pair["other"]["place"])


def _text(status: dict[str, Any], *, verbose: bool) -> Iterator[Shown]:
    yield from page_of(status).lines()
    if not verbose:
        return
    log, cases, commit = status["log"], status["cases"], status["acquire_to_commit_ms"]
    yield f"node {status['node']}  {status['role']}  epoch {log['epoch']}  sequence {log['sequence']}"
    if "members" in status:
        yield from _pair_text(msgspec.convert(status["members"], list[MemberRow]))
        local = local_text(status.get("durability") or {})
        private = private_text(status.get("replication") or {})
        yield from filter(None, (local, private))
    yield f"items {status['items']} ({status['bad_items']} bad)  cases {cases['open']} open, {cases['unacked']} unacked"
    if commit["p50"] is not None:
        yield f"acquired to committed {commit['p50']:.1f} ms p50, {commit['p99']:.1f} ms p99"
    if text := door_text(status.get("door") or {}):
        yield text
    yield actors_table(status.get("actors") or [])
    adapters = ((one["name"], device_text(one), f"{one['silent_ms']} ms ago") for one in status["adapters"])
    yield TextTable(("adapter", "device", "heard"), adapters)
    yield producers_table(status.get("producers", ()))
    if audit := status.get("audit") or {}:
        entries, head = audit["count"], audit["head"] or "-"
        yield f"audit {entries} entries since sequence {audit['first_sequence']}, head {head}"
    followers = ((one["name"], one["lag"], one["durable"]) for one in status["followers"])
    yield TextTable(("follower", "lag", "durable"), followers)
    if status["votes"]:
        yield from votes_text(status["votes"])
    if status["stats"]:
        yield history_text(status["stats"])


def door_text(door: dict[str, Any]) -> str:
    """The door for programs, in one line; empty: the node has none."""
    if not door.get("endpoint"):
        return ""
    if door["closed_because"]:
        return f"door {door['endpoint']} CLOSED"
    history = door["history"]
    return (
        f"door {door['endpoint']} {'open to trusted keys' if door['with_keys'] else 'OPEN TO EVERY PROGRAM HERE'}, "
        f"{history['handed_on']} questions handed to the history, {history['refused']} refused, {history['late']} late"
    )


def device_text(adapter: dict[str, Any]) -> str:
    """Whether the adapter's device answers, as far as anybody knows."""
    if not adapter.get("heard", adapter["connected"]) and adapter.get("device") is None:
        return "adapter NOT HEARD"
    match adapter.get("device"):
        case True:
            return "answers"
        case False:
            return "LOST"
        case _:
            return "not tried yet"


def producers_table(producers: Iterable[dict[str, Any]]) -> TextTable:
    """Programs by name: a run that comes and goes is that of a second program."""
    rows = (
        (
            one["name"],
            one["life"],
            one["run"],
            time_text(one["since_ns"]),
            one["last"],
            " ".join(str(life["run"]) for life in reversed(one["earlier"])) or "-",
        )
        for one in producers
    )
    return TextTable(("producer", "life", "run", "since", "batches", "runs before"), rows)


def _pair_text(rows: list[MemberRow]) -> Iterator[Shown]:
    yield TextTable(COLUMNS, map(cells_of, rows))
    yield TextTable(VOTER_COLUMNS, voter_cells(rows))
    yield level_text(rows)
    guards = guard_text(next((row.guards for row in rows if row.guards), {}))
    if guards:
        yield f"late orders to outputs are held off by: {guards}"
    yield from refused_text(rows)


def actors_table(actors: Iterable[dict[str, Any]]) -> TextTable:
    """Processes and threads of a node."""
    rows = (
        (
            one["name"],
            one["state"],
            one["pid"] or "-",
            one["restarts"],
            f"{one['cpu_ns'] / 1e9:.1f} s",
            f"{one['longest_turn_ns'] / 1e6:.1f} ms ({one['longest_turn_cpu_ns'] / 1e6:.1f} CPU)",
            one["cause"],
        )
        for one in actors
    )
    return TextTable(("actor", "state", "process", "restarts", "CPU", "longest turn", "cause"), rows)


def history_text(history: dict[str, Any]) -> str:
    """The stored history, in one line."""
    return (
        f"history {history['rows']} rows in {history['files']} files, {history['hot_rows']} not sealed yet, "
        f"{history['gaps']} gaps, complete to {time_text(history['complete_to_ns'])}"
    )
