"""The status of a node, and its alarm load."""

import math
from collections.abc import Iterator
from typing import Final, Protocol

import msgspec

from albireo.codec.questions.cases import FLOOD
from albireo.codec.questions.kind import Nothing
from albireo.codec.questions.node import STATUS
from albireo.machine.answers.bad_items import bad_items
from albireo.machine.carry.node_tree import NodeTree
from albireo.machine.desk.admission import Admission
from albireo.machine.desk.cases import CaseDesk
from albireo.machine.desk.feeds import Feeds
from albireo.machine.desk.registry import Registry
from albireo.machine.desk.role import Role
from albireo.machine.diagnostics.actors import ActorWatch
from albireo.machine.diagnostics.own import CommitTimes
from albireo.machine.fold.declared import streams
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.items.forces import Forces
from albireo.machine.fold.people.sessions import SessionFold
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.handling import handled
from albireo.machine.kernel.turn import Moment, Question, Turn
from albireo.machine.orders.places import Places
from albireo.machine.orders.session.sessions import Sessions
from albireo.model import quality
from albireo.model.instant import MS, LogTime
from albireo.model.log_view import LogView
from albireo.model.position import Position
from albireo.model.status import (
    AdapterStatus,
    CaseCounts,
    CommitDelay,
    DoorStatus,
    FollowerStatus,
    LogStatus,
    NodesStatus,
    NodeStatus,
    PairStatus,
    ProducerLife,
    ProducerStatus,
)

PRODUCERS_TOLD: Final = 64
"""Most names of producers in one status."""
SILENT_TOLD: Final = 20
"""Most nodes below whose names `status` tells because they are not heard."""


class StatusRoot(Protocol):
    """The root machine, as far as its status tells of it."""

    config: RootConfig
    folded_to: Position
    folds: Folds
    admission: Admission
    sessions: Sessions
    registry: Registry
    role: Role
    feeds: Feeds
    actors: ActorWatch
    tree: NodeTree
    commit_times: CommitTimes
    samples_committed: int
    cases: CaseDesk


class StatusAnswers:
    """The part of the answers that is about the node as a whole."""

    def __init__(self, root: StatusRoot, _: Places) -> None:
        self._root = root
        self.handlers = (handled(STATUS, self._status), handled(FLOOD, self._flood))

    def _status(self, question: Question, _: Nothing, turn: Turn) -> None:
        turn.answer(question, status_of(self._root, turn.log, question.moment, question.pair, question.door))

    def _flood(self, question: Question, _: Nothing, turn: Turn) -> None:
        folds = self._root.folds
        turn.answer(question, folds.cases.metrics(LogTime(folds.log_time_ms * MS)))


def status_of(
    root: StatusRoot, log: LogView, moment: Moment, pair: PairStatus | None = None, door: DoorStatus | None = None
) -> NodeStatus:
    """State of the node in one look, as `albireo status` prints it."""
    folds, cases, times, tree = root.folds, root.folds.cases, root.commit_times, root.tree
    return NodeStatus(
        node=root.config.node,
        role=root.role.word,
        pair=pair,
        door=door,
        durability=_by_stream(root.config, root.config.local_streams, "local", "both"),
        replication=_by_stream(root.config, root.config.private_streams, "configuration", "all"),
        log=_log(root, log),
        wall_ns=moment.wall,
        topology_hash=root.config.topology_hash,
        zone=root.config.zone,
        items=len(folds.dim),
        bad_items=folds.dim.bad_count,
        bad=bad_items(folds, (one.dim for one in tree.mirrors.values())),
        nodes=_nodes(root, moment),
        forced_items=len(folds.of(Forces)),
        sessions=len(folds.of(SessionFold)),
        sessions_left_out=root.sessions.left_out,
        cases=CaseCounts(open=len(cases), unacked=cases.unacked_count, raised=root.cases.raised),
        commands_open=folds.commands.open_count,
        samples_committed=root.samples_committed,
        **msgspec.structs.asdict(root.admission.counters),
        credit_cut=root.feeds.credit_cut,
        acquire_to_commit_ms=CommitDelay(p50=_known(times.quantile(0.5)), p99=_known(times.quantile(0.99))),
        adapters=tuple(_adapters(root, moment)),
        faces=root.actors.faces.rows(),
        producers=_producers(root),
        audit=folds.audit.told(),
        followers=_followers(root),
    )


def _nodes(root: StatusRoot, moment: Moment) -> NodesStatus:
    tree = root.tree
    return NodesStatus(
        below=len(tree.mirrors),
        silent=tuple(tree.silent()[:SILENT_TOLD]),
        above=root.config.parent,
        unreached_since_ns=tree.unreached_since_ns(moment),
        set_back=tree.set_back(moment)[:SILENT_TOLD],
    )


def _log(root: StatusRoot, log: LogView) -> LogStatus:
    return LogStatus(
        log_id=root.config.log_id.hex(),
        epoch=root.folded_to.epoch,
        sequence=root.folded_to.sequence,
        end=log.end.sequence,
        log_time_ms=root.folds.log_time_ms,
        feature_level=root.folds.feature_level,
        admission=root.admission.closed_because,
        lacks_to=root.config.lacks_to,
    )


def _by_stream(config: RootConfig, chosen: frozenset[int], word: str, usual: str) -> dict[str, str]:
    """A word for each stream; empty for a node that stands alone, which has nothing to choose."""
    return {name: word if one in chosen else usual for name, one in streams().items()} if config.is_paired else {}


def _adapters(root: StatusRoot, moment: Moment) -> Iterator[AdapterStatus]:
    for one in root.registry.adapters():
        is_heard = one.sender is not None and not one.is_silent
        device = _device(root, one.name)
        yield AdapterStatus(
            name=one.name,
            connected=is_heard and (device is True or not _tells_device(root, one.name)),
            heard=is_heard,
            device=device,
            silent_ms=max(0, moment.now - one.heard_at) // MS,
            trouble=root.actors.adapters.trouble_of(one.name),
        )


def _tells_device(root: StatusRoot, adapter: str) -> bool:
    """True: it has an item for whether its device answers; a program that only sends samples has none."""
    return root.registry.find(f"{adapter}/connected") is not None


def _device(root: StatusRoot, adapter: str) -> bool | None:
    """Word of the adapter on whether its device answers; None: it has not said so yet."""
    if not root.role.is_serving:  # The item is the other member's adapter's.
        return root.role.reaches.get(adapter)
    known = root.registry.find(f"{adapter}/connected")
    for reading in root.folds.readings([known] if known is not None else []):
        if quality.is_good(reading.quality):
            return bool(reading.value)
    return None


def _producers(root: StatusRoot) -> tuple[ProducerStatus, ...]:
    """The names that were taken last, above all: two programs that share a name are told apart by their runs."""
    latest = sorted(root.folds.producers, key=lambda one: one.since_ns, reverse=True)
    return tuple(
        ProducerStatus(
            name=one.name,
            life=one.producer_id,
            run=one.run,
            since_ns=one.since_ns,
            last=one.last_sequence,
            earlier=tuple(ProducerLife(life.producer_id, life.run) for life in one.earlier),
        )
        for one in latest[:PRODUCERS_TOLD]
    )


def _followers(root: StatusRoot) -> tuple[FollowerStatus, ...]:
    end = root.folded_to.sequence
    return tuple(
        FollowerStatus(name=one.hello.follower, lag=end - one.scanned, durable=str(one.durable))
        for one in root.feeds.leader.followers.values()
    )


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
