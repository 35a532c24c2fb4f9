"""Answers about forced values: of items of this node, and of those of the nodes below."""

from collections.abc import Iterator
from typing import Final, Protocol

from albireo.codec.message import AnyMessage
from albireo.codec.questions.orders import FORCE, FORCE_RELEASE, FORCES, ForcesAsked, ItemForceAsked, ReleaseAsked
from albireo.machine.access.judge import AccessJudge
from albireo.machine.answers.below import AnswersBelow, RoleNeeded, check_role, not_done
from albireo.machine.carry.node_tree import NodeTree
from albireo.machine.desk.admission import Admission
from albireo.machine.desk.registry import Registry
from albireo.machine.fold.items.forces import FORCES as FORCE_TABLE
from albireo.machine.fold.letters.outbox import MessageReceipt
from albireo.machine.kernel.handling import handled
from albireo.machine.kernel.turn import Moment, NotAnswered, Question, Turn, answer_to, granted
from albireo.machine.message.events import SendAsked
from albireo.machine.orders.force.bodies import encode_force
from albireo.machine.orders.force.forcing import Forcing, needs_reason
from albireo.machine.tree.mirror import NodeMirror
from albireo.model import quality
from albireo.model.force import MEASURED, Force, ForcedItem, MeasuredNow
from albireo.model.instant import MS, WallTime
from albireo.model.order_text import TEXT_CHARS_MAX
from albireo.model.refusal import Refusal, RefusalCode

CROWDED: Final = Refusal(
    RefusalCode.BUSY, "too many answers wait for a commit", "ask again when the disk, or the other member, is back"
)
FORCE_EXPIRES_MS: Final = 10_000
"""Time within which a force of an item of a node below may be begun there; people wait for it."""


class ForcingRoot(Protocol):
    """The root machine, as far as these answers need it."""

    admission: Admission
    forcing: Forcing
    access: AccessJudge
    registry: Registry
    tree: NodeTree

    @property
    def is_crowded(self) -> bool:
        """True: too many answers wait for a commit."""

    def after(self, sequence: int, to: bytes, message: AnyMessage, turn: Turn) -> None:
        """Say `message` once everything up to `sequence` is committed."""


def check_open(root: ForcingRoot) -> None:
    """Raises NotAnswered: what would be recorded is not, or nobody could be told of it."""
    root.admission.check_open()
    if root.is_crowded:
        raise NotAnswered(CROWDED)


class ForceAnswers:
    """The part of the answers that is about forced values."""

    def __init__(self, root: ForcingRoot, below: AnswersBelow) -> None:
        self._root = root
        self._below = below
        self.handlers = (
            handled(FORCE, self._force),
            handled(FORCE_RELEASE, self._force),
            handled(FORCES, self._forces),
        )

    def _force(self, question: Question, asked: ItemForceAsked | ReleaseAsked, turn: Turn) -> None:
        root = self._root
        check_open(root)
        owner = self._below.owner_of(asked.item)
        if owner:
            self._force_below(question, asked, owner, turn)
            return
        result: object
        if isinstance(asked, ItemForceAsked):
            result = granted(root.forcing.ask(question, asked, turn))
        else:
            result = {"item": granted(root.forcing.release(question, asked, turn))}
        root.after(turn.end, question.sender, answer_to(question.request_id, result), turn)

    def _force_below(self, question: Question, asked: ItemForceAsked | ReleaseAsked, owner: str, turn: Turn) -> None:
        """Send the order to the node below that owns the item; the role is judged here, for that node."""
        what = "force" if isinstance(asked, ItemForceAsked) else "force_release"
        tree, local = self._root.tree, asked.item.rpartition(":")[2]
        kind, body = encode_force(asked, local)
        subject = f"{owner}:{local}"
        check_role(self._root.access, question, RoleNeeded(owner, f"{what} {subject}", asked.user), turn)
        if isinstance(asked, ItemForceAsked):
            if not asked.reason.strip():
                raise NotAnswered(needs_reason())
            subject += f" = {asked.value} for {asked.for_ms / 1000:g} s"
        sent = SendAsked(
            command_id=tree.draw_id(kind),
            owner=owner,
            kind=kind,
            body=body,
            expires_ms=FORCE_EXPIRES_MS,
            user=asked.user,
            principal=question.principal,
            reason=asked.reason,
            subject=subject[:TEXT_CHARS_MAX],
        )

        def told(receipt: MessageReceipt) -> object:
            if (refusal := not_done(receipt, "`albireo forces`")) is not None:
                return refusal
            if isinstance(asked, ItemForceAsked):
                return _forced_below(tree.all_mirrors[owner], local, asked, question, receipt)
            return {"item": f"{owner}:{local}"}

        granted(tree.send(question, sent, turn, told))

    def _forces(self, question: Question, asked: ForcesAsked, turn: Turn) -> None:
        mirror = self._below.mirror(asked.node)
        if mirror is None:
            rows = self._root.forcing.rows(asked.after)
        else:
            rows = rows_below(mirror, asked.after, question.moment)
        turn.answer(question, asked.told(rows))


def rows_below(mirror: NodeMirror, after: int, moment: Moment) -> Iterator[tuple[int, ForcedItem]]:
    """Forced items of a node below with an id above `after`, by rising id.

    What is left is reckoned by the wall clocks of both nodes: log time there is not known here.
    """
    for force in sorted(mirror.table(FORCE_TABLE), key=lambda one: one.item_id):
        known = mirror.dim.by_id(force.item_id)
        if force.item_id > after and known is not None:
            left_ms = max(0, force.for_ms - (moment.wall - force.since_ns) // MS)
            yield force.item_id, _row_of(mirror, known.full_name, force, left_ms)


def _row_of(mirror: NodeMirror, full_name: str, force: Force, left_ms: int) -> ForcedItem:
    known = mirror.dim.by_id(force.item_id)
    return ForcedItem(
        item=full_name,
        value=force.value,
        measured=_measured(mirror, force.measured_id),
        user=force.user,
        principal=force.principal,
        reason=force.reason,
        since_ns=force.since_ns,
        left_ms=left_ms,
        unit="" if known is None else known.item.unit,
    )


def _measured(mirror: NodeMirror, item_id: int) -> MeasuredNow:
    """Latest measured value, as it is known here."""
    index = mirror.dim.index_of(item_id)
    if index is None:
        return MeasuredNow(value=None, quality=quality.BAD_WAITING_FOR_INITIAL_DATA, source_ns=0)
    reading = mirror.dim.reading_at(index)
    return MeasuredNow(value=reading.value, quality=reading.quality, source_ns=reading.source_ns)


def _forced_below(
    mirror: NodeMirror, local: str, asked: ItemForceAsked, question: Question, receipt: MessageReceipt
) -> ForcedItem:
    """A force that was just ordered, as its receipt tells it: the state of its node may not have come yet."""
    name = f"{mirror.node}:{local}"
    own, series = mirror.dim.by_name(name), mirror.dim.by_name(name + MEASURED)
    own_id = 0 if own is None else own.item_id
    force = Force(
        item_id=own_id,
        measured_id=own_id if series is None or series.is_retired else series.item_id,
        value=asked.value if receipt.end.read_back is None else receipt.end.read_back,
        user=asked.user,
        reason=asked.reason.strip(),
        since_ns=WallTime(receipt.end.ended_ns),
        for_ms=asked.for_ms,
        principal=question.principal,
    )
    return _row_of(mirror, name, force, force.for_ms)
