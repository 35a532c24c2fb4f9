"""`albireo status`: the node in one look; with -v, all that it says of itself."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import UNSET

from albireo.cli.display import counted, time_text
from albireo.cli.node.page import StatusAnswer, page_of
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
from albireo.codec.questions.kind import Nothing
from albireo.codec.questions.node import STATUS
from albireo.model.status import AdapterStatus, DoorStatus, FaceStatus, PairStatus, ProducerStatus


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


def gather(client: Client, place: Place) -> StatusAnswer:
    """Answers of CORE, boot, history, voter and the other member; a part that does not answer is null, not a failure.

    Boot and voter speak with programs of their own machine only: nobody else has `actors` and `votes`.
    """
    status, here = client.status(), not isinstance(place, FarNode)
    views, other_faces = _views(client, status.pair, place) if status.pair else ([], ())
    answer = StatusAnswer(
        **{name: getattr(status, name) for name in status.__struct_fields__},
        data=str(place),
        stats=answer_of(client, "stats", "history"),
        actors=answer_of(client, "actors", "boot") if here else UNSET,
        votes=answer_of(client, "status", "voter") if here else None,
        untrusted=tuple(untrusted(status.pair, place)) if status.pair and isinstance(place, Path) else (),
        members=tuple(rows_of(views)),
        other_faces=other_faces,
    )
    return msgspec.structs.replace(answer, summary=page_of(answer))


def answer_of(client: Client, what: str, part: str) -> Any:
    """The answer of a part of the node that may not be there; None: it does not answer."""
    try:
        return client.ask(what, of=part, timeout_s=2.0)
    except ClientError:
        return None


def _views(client: Client, pair: PairStatus, place: Place) -> tuple[list[PairStatus], tuple[FaceStatus, ...]]:
    """The pair as this member sees it and, if the other one answers, as that does; and the faces of that one."""
    try:
        if not isinstance(place, FarNode):
            with other_member(ReachedMember(place=pair.place, ask=client.ask, pair=pair), place) as other:
                return [pair, other.pair], other.faces
        status = client.ask_kind(STATUS, Nothing(), REMOTE_S, 0 if client.acting else 1)
    except ClientError:
        return [pair], ()
    return [pair, pair_of(status, pair.other.place)], status.faces


def _text(status: StatusAnswer, *, verbose: bool) -> Iterator[Shown]:
    yield from page_of(status).lines()
    if not verbose:
        return
    log, cases, commit = status.log, status.cases, status.acquire_to_commit_ms
    yield f"node {status.node}  {status.role}  epoch {log.epoch}  sequence {log.sequence}"
    if status.members:
        yield from _pair_text(status.members)
        yield from filter(None, (local_text(status.durability), private_text(status.replication)))
    yield f"items {status.items} ({status.bad_items} bad)  cases {cases.open} open, {cases.unacked} unacked"
    if commit.p50 is not None:
        yield f"acquired to committed {commit.p50:.1f} ms p50, {commit.p99:.1f} ms p99"
    if text := door_text(status.door):
        yield text
    if status.door is not None:
        yield from (f"name {one.text(host)}" for host, one in status.door.names.items())
    yield actors_table(status.actors or ())
    adapters = ((one.name, device_text(one), f"{one.silent_ms} ms ago") for one in status.adapters)
    yield TextTable(("adapter", "device", "heard"), adapters)
    yield producers_table(status.producers)
    audit = status.audit
    yield f"audit {audit.count} entries since sequence {audit.first_sequence}, head {audit.head or '-'}"
    yield TextTable(("follower", "lag", "durable"), ((one.name, one.lag, one.durable) for one in status.followers))
    if status.votes:
        yield from votes_text(status.votes)
    if status.stats:
        yield history_text(status.stats)


def door_text(door: DoorStatus | None) -> str:
    """The door for programs, in one line; empty: the node has none."""
    if door is None or not door.endpoint:
        return ""
    if door.closed_because:
        return f"door {door.endpoint} CLOSED"
    history = door.history
    return (
        f"door {door.endpoint} {'open to trusted keys' if door.with_keys else 'OPEN TO EVERY PROGRAM HERE'}, "
        f"{history.handed_on} questions handed to the history, {history.refused} refused, {history.late} late"
    )


def device_text(adapter: AdapterStatus) -> str:
    """Whether the adapter's device answers, as far as anybody knows."""
    if not adapter.heard and adapter.device is None:
        return "adapter NOT HEARD"
    match adapter.device:
        case True:
            return "answers"
        case False:
            return "LOST"
        case _:
            return "not tried yet"


def producers_table(producers: Iterable[ProducerStatus]) -> TextTable:
    """Programs by name: a run that comes and goes is that of a second program."""
    rows = (
        (
            one.name,
            one.life,
            one.run,
            time_text(one.since_ns),
            one.last,
            " ".join(str(life.run) for life in reversed(one.earlier)) or "-",
        )
        for one in producers
    )
    return TextTable(("producer", "life", "run", "since", "batches", "runs before"), rows)


def _pair_text(rows: Sequence[MemberRow]) -> Iterator[Shown]:
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
        f"history {counted(history['rows'], 'row')} in {counted(history['files'], 'file')}, "
        f"{history['hot_rows']} not sealed yet{' (sealing fails)' * bool(history['seal_failures'])}, "
        f"{counted(history['gaps'], 'gap')}, complete to {time_text(history['complete_to_ns'])}"
    )
