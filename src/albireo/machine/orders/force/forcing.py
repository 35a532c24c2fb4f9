"""Forcing: people put a value to an item, for a time; its measured value goes on beside it.

The item's own series is the effective one, which everybody reads under its name. As long as a force lasts

    item             what it is forced to, as samples of CORE with the quality GoodLocalOverride
    item/measured    the samples of its device, as they come: an item of CORE, declared when it is first forced

             ItemForced appended               folded
    asked -----------------------> forced -----------------> measured series begins with the last value before
                                     |
      order, time over, item retired | ForceEnded appended    folded
                                     +-------------------> measured -----> own series goes on with the last measured
                                                                           value; the measured series is retired

Both turning points are places in the log: samples before `ItemForced` are the item's, samples behind it are measured
ones. The folds go on from the other series by the record alone. For the history a sample tells it too: a copy, made
when the record is folded and all before it is known; a sample that has come meanwhile stands instead (`detours`).

Invariants
    one at a time:  the next order about an item is taken when the one before is folded.
    unfinished:     a measured series that is not retired, of an item that is not forced, shows that this node stopped
                    between the end of a force and the copy. The next tenure makes it.

Forcing writes nothing to a device, and a write goes to the device of a forced item as ever.
Spec: ADR-0181.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Final

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from albireo.codec.record import Audited, ForceEnded, ItemDeclared, ItemForced, Record, Stream
from albireo.machine.desk.owners import NAME_CHARS_MAX, OWN_ADAPTER
from albireo.machine.desk.registry import Registry
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.items.dim import Dim
from albireo.machine.fold.items.forces import Forces
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.part import Footing, RootPart
from albireo.machine.kernel.turn import Moment, Turn
from albireo.machine.orders.kind import OrderAtOwner
from albireo.machine.orders.write.orders import coerced, refusal_of_value
from albireo.model import quality
from albireo.model.bounded import Signed
from albireo.model.force import FORCE_MS_MAX, FORCES_MAX, MEASURED, Force, ForcedItem, MeasuredNow
from albireo.model.instant import MS, LogTime, WallTime
from albireo.model.item import DataItem, KnownItem
from albireo.model.order_text import OrderText
from albireo.model.refusal import Refusal, RefusalCode, no_item
from albireo.model.samples import SampleBatch, column_of
from albireo.model.value import ItemId, ValueType

ENDED_MAX: Final = 250
"""Most forces that one turn ends because their time is over."""


class ForceBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a message that forces an item."""

    item: Annotated[OrderText, Meta(min_length=1)]
    """Full or local name at the owner."""
    value: float | Signed | bool | OrderText
    for_ms: Signed


class ReleaseBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a message that ends the force of an item."""

    item: Annotated[OrderText, Meta(min_length=1)]


class ForcedBy(msgspec.Struct, frozen=True):
    """Who begins or ends a force, and why."""

    cause: str = ""
    """Word for the end of a force, as in its record."""
    user: str = OWN_ADAPTER
    principal: str = ""
    reason: str = ""


class Forcing(RootPart):
    """The machine of one tenure."""

    def __init__(self, config: RootConfig, folds: Folds, registry: Registry) -> None:
        self._config = config
        self._forces = folds.of(Forces)
        self._folds = folds
        self._dim: Dim = folds.dim
        self._registry = registry
        self._detours = registry.detours
        self._under_way: dict[int, Force] = {}
        """Forces whose record, of the beginning or of the end, is appended and not yet folded; by item."""
        self._copies: list[tuple[SampleBatch, NDArray[np.bool_]]] = []
        """Samples with which a series goes on, as far as they are still owed, and whether each has a usable value."""
        self._finished: list[int] = []
        """Measured series that are to be retired."""
        self._declared: set[int] = set()
        """Forced items that were declared anew, and may not be what they were."""

    def begin(self, moment: Moment, turn: Turn) -> tuple[int, ...]:
        """Go on with the forces that there are, as this node begins to lead; returns the ids of the measured series."""
        is_private = Stream.SAMPLES in self._config.private_streams
        lost = {one.item_id: one for one in self._forces if is_private or not self._fits(one)}
        for batch in self._forced_samples([one for one in self._forces if one.item_id not in lost], moment.wall):
            turn.samples(batch)
        self._end(list(lost.values()), ForcedBy("not_replicated" if is_private else "retired"), moment, turn)
        in_use = {one.measured_id for one in self._forces}
        unfinished: dict[int, int] = {}
        for known in self._dim:
            own = self._dim.by_name(known.full_name.removesuffix(MEASURED)) if _is_measured_series(known) else None
            if own is not None and known.item_id not in in_use and self._is_alike(own.item_id, known.item_id):
                unfinished[own.item_id] = known.item_id
                self._detours.owe(own.item_id)
        self._copy(unfinished)
        self._go_on_with_copies(moment, turn)
        return tuple(in_use)

    def ask(self, order: OrderAtOwner[ForceBody], turn: Turn) -> ForcedItem | Refusal:
        """Force an item, or say why not."""
        asked, moment = order.body, order.question.moment
        known = self._registry.item(asked.item)
        refusal = self._refusal(order, known)
        if refusal is not None or known is None:
            return refusal or no_item(asked.item)
        before = self._forces.find(known.item_id)
        force = Force(
            item_id=known.item_id,
            measured_id=self._measured_series(known, turn) if before is None else before.measured_id,
            value=coerced(asked.value, known.item.value_type),
            user=order.user,
            reason=order.reason.strip(),
            since_ns=moment.wall,
            for_ms=asked.for_ms,
            principal=order.question.principal,
            command_id=order.command_id,
        )
        turn.record(Stream.STATE, [ItemForced(**msgspec.structs.asdict(force))])
        self._detours.begin(force)
        if before is None:
            self._detours.owe(force.measured_id)
        self._under_way[force.item_id] = force
        for batch in self._forced_samples([force], moment.wall):
            turn.samples(batch)
        by = ForcedBy("", force.user, force.principal, f"{force.value!r} for {asked.for_ms / 1000:g} s: {force.reason}")
        turn.record(Stream.AUDIT, [self._audited("forced", force, by, moment)])
        return self._row(force, known, known.item_id if before is None else force.measured_id, force.for_ms)

    def release(self, order: OrderAtOwner[ReleaseBody], turn: Turn) -> str | Refusal:
        """End the force of an item, whose full name it returns, or say why not."""
        known = self._registry.item(order.body.item)
        if known is None:
            return no_item(order.body.item)
        if known.item_id in self._under_way:
            return _not_yet(known)
        force = self._forces.find(known.item_id)
        if force is None:
            cause = f"{known.item.name} is not forced"
            return Refusal(RefusalCode.NOT_POSSIBLE, cause, "`albireo forces` lists what is")
        by = ForcedBy("released", order.user, order.question.principal, order.reason)
        self._end([force], by, order.question.moment, turn)
        return known.full_name

    def rows(self, after: int) -> Iterator[tuple[int, ForcedItem]]:
        """Forced items with an id above `after`, by rising id."""
        for force in sorted((one for one in self._forces if one.item_id > after), key=lambda one: one.item_id):
            known = self._dim.by_id(force.item_id)
            if known is not None:
                left_ms = self._forces.left_ms(force.item_id, self._folds.log_time_ms)
                yield force.item_id, self._row(force, known, force.measured_id, left_ms)

    def folded(self, records: Sequence[Record], moment: Moment, turn: Turn) -> None:
        """Take note of records that were just folded, before anything behind them is."""
        copies: dict[int, int] = {}
        for record in records:
            match record:
                case ItemForced(item_id=item_id):
                    self._declared.add(item_id)
                    if self._under_way.pop(item_id, None) is not None:
                        copies[record.measured_id] = item_id
                case ForceEnded(item_id=item_id):
                    force = self._under_way.pop(item_id, None)
                    if force is not None:
                        copies[item_id] = force.measured_id
                        self._finished.append(force.measured_id)
                case ItemDeclared(item_id=item_id) if item_id in self._forces:
                    self._declared.add(item_id)
                case _:
                    pass
        if copies:
            self._copy(copies)

    def consequences(self, now: Footing, turn: Turn) -> None:
        """Draft what follows from what was folded, and from the time that has passed."""
        moment = now.moment
        if not now.is_open or not (self._copies or self._finished or len(self._forces)):
            return
        self._go_on_with_copies(moment, turn)
        finished = [known for one in self._finished if (known := self._dim.by_id(one)) is not None]
        self._registry.retire(finished, moment, turn)
        self._finished.clear()
        doubtful = [one for item_id in self._declared if (one := self._forces.find(item_id)) is not None]
        self._end([one for one in doubtful if not self._fits(one)], ForcedBy("retired"), moment, turn)
        self._declared.clear()
        overdue = self._forces.overdue(LogTime(self._folds.log_time_ms * MS), self._under_way, ENDED_MAX)
        self._end(overdue, ForcedBy("expired"), moment, turn)

    def _refusal(self, order: OrderAtOwner[ForceBody], known: KnownItem | None) -> Refusal | None:
        """Reason why an item is not forced; None: it is."""
        asked = order.body
        if known is None or self._dim.by_id(known.item_id) is None:
            return no_item(asked.item)
        item = known.item
        if known.item_id in self._under_way:
            return _not_yet(known)
        if not order.reason.strip():
            return needs_reason()
        if not 0 < asked.for_ms <= FORCE_MS_MAX:
            most = f"{FORCE_MS_MAX // 86_400_000} days"
            cause = f"a force lasts 1 ms to {most}, not {asked.for_ms} ms"
            return Refusal(RefusalCode.BAD_VALUE, cause, "force it again when that is over")
        if item.adapter in ("", OWN_ADAPTER) or item.name.startswith(f"{item.adapter}/"):
            cause = f"{item.name} is what the node or an adapter says of itself, which nobody forces"
            return Refusal(RefusalCode.NOT_WRITABLE, cause)
        if known.is_retired:
            cause = f"{item.name} is retired: nobody declares it any more"
            return Refusal(RefusalCode.NOT_WRITABLE, cause, "declare it first")
        return refusal_of_value(item, asked.value) or self._no_room(known)

    def _no_room(self, known: KnownItem) -> Refusal | None:
        """Reason why there is no place for a measured series; None: there is."""
        if Stream.SAMPLES in self._config.private_streams:
            cause = "samples of this pair are not replicated, so nothing is forced"
            return Refusal(RefusalCode.NOT_POSSIBLE, cause, "replicate them")
        if known.item_id in self._forces:
            return None
        name = known.item.name + MEASURED
        if len(self._forces) + len(self._under_way) >= FORCES_MAX:
            return Refusal(
                RefusalCode.FULL, f"{FORCES_MAX} items are forced already", "release some (`albireo forces`)"
            )
        if len(name) > NAME_CHARS_MAX:
            cause = f"{name} would be longer than {NAME_CHARS_MAX} characters"
            return Refusal(RefusalCode.NOT_WRITABLE, cause, "give the item a shorter name")
        there = self._registry.item(name)
        if there is not None and there.item.adapter != OWN_ADAPTER:
            cause = f"the name {name} belongs to {there.item.adapter!r}"
            return Refusal(RefusalCode.NOT_OWNER, cause, "give that item another name")
        if there is None and not self._registry.has_room(self._config.limits):
            cause = "the table of items is full, and a force takes one"
            return Refusal(RefusalCode.FULL, cause, "`albireo forget item`, or [limits]")
        return None

    def _measured_series(self, known: KnownItem, turn: Turn) -> int:
        """Declare the item under which the measured value is recorded; returns its id."""
        measured = DataItem(
            name=known.item.name + MEASURED,
            value_type=known.item.value_type,
            unit=known.item.unit,
            states=known.item.states,
            description=f"Measured value of {known.item.name}, recorded while that is forced",
        )
        return self._registry.declare(OWN_ADAPTER, (measured,), turn)[0]

    def _end(self, forces: Sequence[Force], by: ForcedBy, moment: Moment, turn: Turn) -> None:
        """Append the end of these forces, of which none is under way."""
        forces = [one for one in forces if one.item_id not in self._under_way]
        if not forces:
            return
        turn.record(Stream.STATE, [ForceEnded(item_id=one.item_id, cause=by.cause) for one in forces])
        for one in forces:
            self._detours.end(one.item_id)
            self._detours.owe(one.item_id)
            self._under_way[one.item_id] = one
        entries = [self._audited(f"force_{by.cause}", one, by, moment) for one in forces]
        turn.record(Stream.AUDIT, entries)

    def _fits(self, force: Force) -> bool:
        """True: the item is there, and of the type of what it is forced to."""
        known, measured = self._dim.by_id(force.item_id), self._dim.by_id(force.measured_id)
        if known is None or measured is None or known.is_retired:
            return False
        return known.item.value_type is measured.item.value_type

    def _is_alike(self, item_id: int, measured_id: int) -> bool:
        """True: nothing of the item has come since it went on from its measured series."""
        own, measured = (self._dim.index_of(one) for one in (item_id, measured_id))
        if own is None or measured is None:
            return False
        first, second = self._dim.reading_at(own), self._dim.reading_at(measured)
        told = ("source_ns", "node_ns", "quality", "value")  # One instant may have two values.
        return all(getattr(first, one) == getattr(second, one) for one in told)

    def _copy(self, source_of: Mapping[int, int]) -> None:
        """Take the live samples of sources, as they are now, for the items that go on from them."""
        found = [(self._dim.index_of(source), self._dim.index_of(target)) for target, source in source_of.items()]
        pairs = [(source, target) for source, target in found if source is not None and target is not None]
        types = self._dim.live.value_type
        target_of = {
            self._dim.item_at(source).item_id: self._dim.item_at(target).item_id
            for source, target in pairs
            if types[source] == types[target]
        }
        rows = np.array([self._dim.index_of(one) for one in target_of], np.intp)
        for batch in self._dim.batches(rows):
            has_value = self._dim.live.has_value[self._dim.row_of[batch.item_id]]
            ids = np.array([target_of[ItemId(one)] for one in batch.item_id.tolist()], np.uint32)
            self._copies.append((msgspec.structs.replace(batch, item_id=ids), has_value))

    def _go_on_with_copies(self, moment: Moment, turn: Turn) -> None:
        """Append the copies that are still owed, as of now. A bad one tells no value, so the last usable one is before
        it: else a limit would go on being judged by what the item was forced to."""
        for batch, has_value in self._copies:
            owed = np.array([self._detours.takes_copy(one) for one in batch.item_id.tolist()], np.bool_)
            last = batch.take(np.flatnonzero(owed & has_value & (batch.quality >= quality.BAD)))
            last.quality[:] = quality.UNCERTAIN_LAST_USABLE_VALUE
            for one in (last, batch.take(np.flatnonzero(owed))):
                if len(one):
                    times = np.full(len(one), moment.wall, np.int64)
                    turn.samples(msgspec.structs.replace(one, source_ns=times, node_ns=times))
        self._copies.clear()

    def _forced_samples(self, forces: Iterable[Force], wall: WallTime) -> Iterator[SampleBatch]:
        """The values of forces as samples, one batch per type."""
        by_type: dict[ValueType, list[Force]] = {}
        for one in forces:
            known = self._dim.by_id(one.item_id)
            if known is not None:
                by_type.setdefault(known.item.value_type, []).append(one)
        for value_type, some in by_type.items():
            times = np.full(len(some), wall, np.int64)
            yield SampleBatch(
                value_type=value_type,
                item_id=np.array([one.item_id for one in some], np.uint32),
                source_ns=times,
                node_ns=times,
                value=column_of([one.value for one in some], value_type),
                quality=np.full(len(some), quality.GOOD_LOCAL_OVERRIDE, np.uint32),
            )

    def _row(self, force: Force, known: KnownItem, measured_by: int, left_ms: int) -> ForcedItem:
        """
        Args:
            measured_by: item that has the latest measured value.
        """
        index = self._dim.index_of(measured_by)
        reading = None if index is None else self._dim.reading_at(index)
        return ForcedItem(
            item=known.full_name,
            value=force.value,
            measured=MeasuredNow(
                value=None if reading is None else reading.value,
                quality=quality.BAD_WAITING_FOR_INITIAL_DATA if reading is None else reading.quality,
                source_ns=0 if reading is None else reading.source_ns,
            ),
            user=force.user,
            principal=force.principal,
            reason=force.reason,
            since_ns=force.since_ns,
            left_ms=left_ms,
            unit=known.item.unit,
            states=known.item.states,
        )

    def _audited(self, action: str, force: Force, by: ForcedBy, moment: Moment) -> Audited:
        known = self._dim.by_id(force.item_id)
        return Audited(
            at_ns=moment.wall,
            user=by.user,
            action=action,
            subject="" if known is None else known.full_name,
            detail=by.reason,
            principal=by.principal,
        )


def needs_reason() -> Refusal:
    """Refusal of a force without a reason."""
    cause = "a force needs a reason: who finds the value later has to know why"
    return Refusal(RefusalCode.BAD_VALUE, cause, "--reason TEXT")


def _not_yet(known: KnownItem) -> Refusal:
    cause = f"the last order about {known.item.name} is not committed yet"
    return Refusal(RefusalCode.NOT_YET, cause, "order again in a moment")


def _is_measured_series(known: KnownItem) -> bool:
    """True: the item is a measured series, and was not retired as its force ended."""
    return known.item.adapter == OWN_ADAPTER and known.item.name.endswith(MEASURED) and not known.is_retired
