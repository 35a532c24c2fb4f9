"""Answers: what a client may ask CORE, and what it is told.

Every question is a name with arguments, described in docs/node-protocol.md. An unknown question, a wrong argument or a
refusal is an answer with a reason, never a silence.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

import msgspec
import numpy as np

from albireo.codec.message import AnyMessage, Ask
from albireo.codec.questions.kind import Handled, Nothing, by_name, taken
from albireo.codec.questions.node import FORGET, ITEMS, ORIGINS, READ, STATUS, TREE, ForgetAsked, ItemsAsked
from albireo.codec.questions.people import ACCESS_GRANT, ACCESS_LIST, ACCESS_REVOKE, GrantAsked, RevokeAsked
from albireo.codec.questions.pieces import NoCursor
from albireo.codec.record import AccessGranted, Audited, Stream
from albireo.machine.access.changes import AccessChanges
from albireo.machine.access.judge import AccessJudge
from albireo.machine.access.refusals import refusal_of
from albireo.machine.answers.cases import CaseAnswers
from albireo.machine.answers.forces import ForceAnswers
from albireo.machine.answers.orders import OrderAnswers
from albireo.machine.answers.posts import PostAnswers
from albireo.machine.answers.selections import SelectAnswers
from albireo.machine.answers.sessions import SessionAnswers
from albireo.machine.answers.tickets import TicketAnswers
from albireo.machine.carry.node_tree import NodeTree
from albireo.machine.desk.admission import Admission
from albireo.machine.desk.cases import CaseDesk
from albireo.machine.desk.feeds import Feeds
from albireo.machine.desk.forgetting import Forgetting
from albireo.machine.desk.registry import Registry
from albireo.machine.desk.role import Role
from albireo.machine.desk.roles import put_on_record
from albireo.machine.diagnostics.actors import ActorWatch
from albireo.machine.diagnostics.own import CommitTimes
from albireo.machine.fold.declared import streams
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.items.dim import Dim
from albireo.machine.fold.items.forces import Forces
from albireo.machine.fold.people.sessions import SessionFold
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.events import LettersDrained, OneLetter
from albireo.machine.kernel.handling import Handler, handled
from albireo.machine.kernel.part import Footing
from albireo.machine.kernel.turn import Moment, NotAnswered, Question, Turn, answer_to, granted
from albireo.machine.orders.force.forcing import Forcing
from albireo.machine.orders.places import Places
from albireo.machine.orders.session.sessions import Sessions
from albireo.machine.orders.write.orders import Orders
from albireo.model import quality
from albireo.model.instant import MS
from albireo.model.item import KnownItem
from albireo.model.log_view import LogView
from albireo.model.position import Position
from albireo.model.refusal import Refusal, RefusalCode
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

_STRETCH: Final = 65_536
"""Item ids that are looked through at once for those that there are."""
PRODUCERS_TOLD: Final = 64
"""Most names of producers in one status."""
SILENT_TOLD: Final = 20
"""Most nodes below whose names `status` tells because they are not heard."""
MISSING_TOLD: Final = 20
"""Most names that a refusal repeats."""


class AnsweringRoot(Protocol):
    """The root machine, as far as an answer may look at it."""

    config: RootConfig
    folded_to: Position
    folds: Folds
    admission: Admission
    orders: Orders
    forcing: Forcing
    access: AccessJudge
    access_changes: AccessChanges
    sessions: Sessions
    registry: Registry
    forgetting: Forgetting
    role: Role
    feeds: Feeds
    actors: ActorWatch
    tree: NodeTree
    commit_times: CommitTimes
    samples_committed: int
    cases: CaseDesk

    @property
    def is_crowded(self) -> bool:
        """True: too many answers wait for a commit."""

    def after(self, sequence: int, to: bytes, message: AnyMessage, turn: Turn) -> None:
        """Say `message` once everything up to `sequence` is committed."""


class AnswerPart(Protocol):
    """The part of the answers that is about one subject."""

    @property
    def handlers(self) -> Sequence[Handled[Handler]]:
        """Questions that it answers."""


PARTS: tuple[Callable[[AnsweringRoot, Places], AnswerPart], ...] = (
    OrderAnswers,
    ForceAnswers,
    SelectAnswers,
    PostAnswers,
    SessionAnswers,
    CaseAnswers,
    TicketAnswers,
)


class Answers:
    """Dispatch by name; every handler either answers now or leaves the answer to a later commit."""

    def __init__(self, root: AnsweringRoot) -> None:
        self._root = root
        self._places = Places(root)
        self.handlers = by_name(
            [
                handled(STATUS, self._status),
                handled(TREE, self._tree),
                handled(ITEMS, self._items),
                handled(READ, self._read),
                handled(ORIGINS, self._origins),
                handled(FORGET, self._forget),
                handled(ACCESS_LIST, self._access_list),
                handled(ACCESS_GRANT, self._change_access),
                handled(ACCESS_REVOKE, self._change_access),
                *(one for part in PARTS for one in part(root, self._places).handlers),
            ]
        )

    def judges(self, letter: OneLetter, among: LettersDrained, now: Footing, turn: Turn) -> bool:
        """Refuse a message whose sender lacks the role."""
        sender, message, _, principal = letter
        if not self._root.access.lacks(principal, message):
            return False
        self.refuse(sender, message, principal, now.moment, turn)
        return True

    def hears(self, letter: OneLetter, among: LettersDrained, now: Footing, turn: Turn) -> bool:
        sender, message, _, principal = letter
        if isinstance(message, Ask):
            asker = Question(sender, message.request_id, now.moment, principal, among.pair, among.door)
            self.ask(asker, message, turn)
        else:
            turn.note("warning", "unexpected_message", kind=type(message).__name__)
        return True

    def ask(self, question: Question, ask: Ask, turn: Turn) -> None:
        try:
            handler, asked = granted(taken(self.handlers, ask.what, ask.arguments))
            handler(question, asked, turn)
        except NotAnswered as refused:
            turn.answer(question, refused.refusal)
        except NoCursor as error:
            turn.answer(question, Refusal(RefusalCode.MALFORMED, str(error)))

    def refuse(self, sender: bytes, message: AnyMessage, principal: str, moment: Moment, turn: Turn) -> None:
        """Refuse a message whose sender lacks the role, in the words of its kind, and put an order on record."""
        refused = self._root.access.refused(principal, message, moment.now, moment.wall)
        answer = refusal_of(message, refused.refusal)
        if answer is not None:
            turn.send(sender, answer)
        put_on_record(refused.entry, turn, is_open=not self._root.admission.closed_because)

    def _status(self, question: Question, _: Nothing, turn: Turn) -> None:
        turn.answer(question, status_of(self._root, turn.log, question.moment, question.pair, question.door))

    def _tree(self, question: Question, _: Nothing, turn: Turn) -> None:
        turn.answer(question, self._root.tree.seen())

    def _known_items(self, asked: ItemsAsked) -> list[KnownItem]:
        registry, names, mirror = self._root.registry, asked.names, self._places.mirror(asked.node)
        if not names:
            return sorted(self._places.dim(asked.node), key=lambda one: one.item.name)
        if mirror is None:
            found = [(name, registry.find(name)) for name in names]
        else:
            prefix = f"{mirror.node}:"
            found = [(name, mirror.dim.by_name(prefix + name.removeprefix(prefix))) for name in names]
        missing = [name for name, item in found if item is None]
        if missing:
            more = f" and {len(missing) - MISSING_TOLD} more" if len(missing) > MISSING_TOLD else ""
            cause = f"no item {', '.join(missing[:MISSING_TOLD])}{more}"
            raise NotAnswered(Refusal(RefusalCode.UNKNOWN_ITEM, cause, "`albireo items` lists them"))
        return [item for _, item in found if item is not None]

    def _items_asked(self, asked: ItemsAsked) -> tuple[list[KnownItem], str | None]:
        """The items of this answer, and the next cursor; None: it is not asked for in pieces."""
        if not asked.is_piece:
            return self._known_items(asked), None
        if not asked.names:
            return asked.piece(items_behind(self._places.dim(asked.node), asked.after))
        return asked.piece(named_behind(self._known_items(asked), asked.after))

    def _say_rows(self, question: Question, rows: object, following: str | None, turn: Turn) -> None:
        turn.answer(question, rows if following is None else {"next": following, "rows": rows})

    def _items(self, question: Question, asked: ItemsAsked, turn: Turn) -> None:
        items, following = self._items_asked(asked)
        self._say_rows(question, items, following, turn)

    def _read(self, question: Question, asked: ItemsAsked, turn: Turn) -> None:
        items, following = self._items_asked(asked)
        dim = self._places.dim(asked.node)
        index = [dim.index_of(one.item_id) for one in items]  # None: its declaration is not committed yet.
        self._say_rows(question, [dim.reading_at(one) for one in index if one is not None], following, turn)

    def _origins(self, question: Question, _: Nothing, turn: Turn) -> None:
        turn.answer(question, self._root.folds.origins.declared)

    def _forget(self, question: Question, asked: ForgetAsked, turn: Turn) -> None:
        root = self._root
        root.admission.check_open()
        granted(root.forgetting.asked(asked, question.principal, question.moment, turn))
        result = {"producers": asked.producers, "items": asked.items}
        root.after(turn.end, question.sender, answer_to(question.request_id, result), turn)

    def _access_list(self, question: Question, _: Nothing, turn: Turn) -> None:
        turn.answer(question, self._root.access_changes.rows())

    def _change_access(self, question: Question, asked: GrantAsked | RevokeAsked, turn: Turn) -> None:
        root = self._root
        root.admission.check_open()
        change = root.access_changes.record_of(asked, root.folded_to.sequence)
        if isinstance(change, Refusal):
            raise NotAnswered(change)
        is_given = isinstance(change, AccessGranted)
        audited = Audited(
            at_ns=question.moment.wall,
            user=asked.user,
            action="access_granted" if is_given else "access_revoked",
            subject=change.principal,
            detail=f"{change.role if isinstance(change, AccessGranted) else 'role'} at {change.node or 'every node'}",
            principal=question.principal,
        )
        turn.record(Stream.CONTROL, [change])
        end = turn.record(Stream.AUDIT, [audited])
        root.access_changes.appended(end)
        result = {"principal": change.principal, "node": change.node}
        root.after(end, question.sender, answer_to(question.request_id, result), turn)


def status_of(
    root: AnsweringRoot, log: LogView, moment: Moment, pair: PairStatus | None = None, door: DoorStatus | None = None
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
        items=len(folds.dim),
        bad_items=folds.dim.bad_count,
        nodes=NodesStatus(below=len(tree.mirrors), silent=tuple(tree.silent()[:SILENT_TOLD])),
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
        followers=tuple(
            FollowerStatus(name=one.hello.follower, lag=root.folded_to.sequence - one.scanned, durable=str(one.durable))
            for one in root.feeds.leader.followers.values()
        ),
    )


def _log(root: AnsweringRoot, log: LogView) -> LogStatus:
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


def _adapters(root: AnsweringRoot, moment: Moment) -> Iterator[AdapterStatus]:
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


def _tells_device(root: AnsweringRoot, adapter: str) -> bool:
    """True: it has an item for whether its device answers; a program that only sends samples has none."""
    return root.registry.find(f"{adapter}/connected") is not None


def _device(root: AnsweringRoot, adapter: str) -> bool | None:
    """Word of the adapter on whether its device answers; None: it has not said so yet."""
    if not root.role.is_serving:  # The item is the other member's adapter's.
        return root.role.reaches.get(adapter)
    known = root.registry.find(f"{adapter}/connected")
    for reading in root.folds.readings([known] if known is not None else []):
        if quality.is_good(reading.quality):
            return bool(reading.value)
    return None


def _producers(root: AnsweringRoot) -> tuple[ProducerStatus, ...]:
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


def _followers(root: AnsweringRoot) -> tuple[FollowerStatus, ...]:
    end = root.folded_to.sequence
    return tuple(
        FollowerStatus(name=one.hello.follower, lag=end - one.scanned, durable=str(one.durable))
        for one in root.feeds.leader.followers.values()
    )


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def items_behind(dim: Dim, after: int) -> Iterator[tuple[int, KnownItem]]:
    """Items with an id above `after`, by rising id."""
    for begin in range(after + 1, len(dim.row_of), _STRETCH):
        stretch = dim.row_of[begin : begin + _STRETCH]
        for at in np.flatnonzero(stretch >= 0).tolist():
            yield begin + at, dim.item_at(int(stretch[at]))


def named_behind(items: Sequence[KnownItem], after: int) -> Iterator[tuple[int, KnownItem]]:
    """Those of the items with an id above `after`, by rising id, each once."""
    by_id = {int(one.item_id): one for one in items if one.item_id > after}
    return iter(sorted(by_id.items(), key=lambda one: one[0]))
