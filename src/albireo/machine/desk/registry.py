"""Registry: which adapters are there, which items they own, and what their absence means.

Item ids are allotted here, at first sight of (node, name), in a record; so an edited file can't remap history. A
producer that comes back with another run than before is a new life: it has lost something, and CORE, who can tell,
writes the gap. The life before it is told that it is superseded, once that is committed.

Spec: docs/ARCHITECTURE.md, Names and files; design/log-and-feed.md, Producers.
"""

from collections.abc import Collection, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.codec.message import ProducerHello
from albireo.codec.record import Audited, GapFound, ItemDeclared, Record, Stream
from albireo.machine.desk.detours import Detours
from albireo.machine.desk.owners import OWN_ADAPTER, Owners, bad_name
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.items.dim import ITEM_ID_MAX
from albireo.machine.fold.items.forces import Forces
from albireo.machine.kernel.part import RootPart
from albireo.machine.kernel.turn import Moment, Turn
from albireo.machine.producer.starts import LatestStarts
from albireo.model import quality
from albireo.model.instant import Instant
from albireo.model.item import DataItem, KnownItem
from albireo.model.item_states import objection_to
from albireo.model.principal import ANYBODY
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.samples import SampleBatch, Strings
from albireo.model.settings import LimitSettings
from albireo.model.value import ItemId, ValueType

DECLARED_MAX: Final = 250
"""Most declarations in one turn and frame: a node with 100,000 items starts in many short turns."""
TEXT_CHARS_MAX: Final = 10_000
"""Most characters in all texts of one item or producer; a record has to fit into a frame."""


class Declaring(msgspec.Struct, kw_only=True):
    """A hello whose items are being declared, a slice per turn."""

    sender: bytes
    producer_id: int
    hello: ProducerHello
    principal: str
    """Principal that said it (model.principal)."""
    item_ids: list[int] = []
    leaving: list[KnownItem] | None = None
    """Items that the producer no longer has, and that are still to be retired; None: they are not looked for yet."""

    @property
    def is_done(self) -> bool:
        return self.leaving == []


class RegisteredAdapter(msgspec.Struct, kw_only=True):
    """One producer that owns items or takes orders."""

    name: str
    sender: bytes | None = None
    """Peer on CORE's link; None before the first hello in this tenure."""
    takes_orders: bool = False
    heard_at: Instant
    is_silent: bool = False
    """True: the items were marked as without communication."""
    is_lost: bool = False
    """True: the last send found the adapter gone or its queue full, and it was not heard since."""

    @property
    def is_present(self) -> bool:
        return self.sender is not None and not self.is_silent and not self.is_lost


class Registry(RootPart):
    """Senders, owners and ids; built anew from the folds for each tenure, when nobody is connected yet."""

    def __init__(self, node: str, folds: Folds, now: Instant, adapters: frozenset[str] = frozenset()) -> None:
        """
        Args:
            adapters: names of the adapters that this node's topology configures.
        """
        self._node = node
        self._folds = folds
        self._declared: dict[str, KnownItem] = {one.item.name: one for one in folds.dim}
        """Items of the appended view, by local name."""
        self.owners = Owners(self._declared.values(), adapters)
        self.starts = LatestStarts(adapters)
        self.detours = Detours(folds.of(Forces), self.owners.items_of)
        self._next_id = 1 + folds.dim.highest_item_id
        self._senders: dict[int, bytes] = {}
        self._adapters: dict[str, RegisteredAdapter] = {
            name: RegisteredAdapter(name=name, heard_at=now)
            for name in sorted({one.item.adapter for one in folds.dim if not one.is_retired} - {OWN_ADAPTER, ""})
        }

    def not_owner(self, hello: ProducerHello, principal: str) -> Refusal | None:
        """Refusal of a hello whose name, or an item of which, is somebody else's."""
        known = self._folds.producers.present(hello.producer)
        owner = ANYBODY if known is None else known.principal
        return self.owners.name_taken(hello.producer, principal, owner) or self.owners.item_taken(hello)

    def objection(self, hello: ProducerHello) -> str:
        """Reason why a hello is not even recorded; empty: it may be."""
        former = (one.was for one in hello.items if one.was)
        for name in (hello.producer, *(one.name for one in hello.items), *former):
            if found := bad_name(name):
                return found
        for one in hello.items:
            if found := objection_to(one.states, one.value_type):
                return f"{one.name}: {found}"
        if any(_text_chars(one) > TEXT_CHARS_MAX for one in hello.items):
            return f"an item with more than {TEXT_CHARS_MAX} characters of text"
        return ""

    def too_much(self, hello: ProducerHello, limits: LimitSettings) -> Refusal | None:
        """Refusal of a hello for whose news a table has no room."""
        producers = self._folds.producers
        if producers.present(hello.producer) is None and len(producers) >= limits.producers_max:
            return Refusal(
                RefusalCode.FULL,
                f"the table of producers is full: {len(producers)} names, at most {limits.producers_max}",
                "forget those that are no more (`albireo forget producer NAME`), or raise producers_max in [limits]",
            )
        if (
            len(self._declared) + len(hello.items) <= limits.items_max
            and self._next_id + len(hello.items) <= ITEM_ID_MAX
        ):
            return None
        new = len({one.name for one in hello.items} - self._declared.keys())
        if new and len(self._declared) + new > limits.items_max:
            have = f"{len(self._declared)} items and {new} new ones, at most {limits.items_max}"
            return Refusal(
                RefusalCode.FULL,
                f"the table of items is full: {have}",
                "forget those that are no more (`albireo forget item NAME`), or raise items_max in [limits]",
            )
        if new and self._next_id + new > ITEM_ID_MAX:
            cause = f"ids of items are used up: at most {ITEM_ID_MAX} are ever given"
            return Refusal(RefusalCode.FULL, cause, "begin a new log")
        return None

    def has_room(self, limits: LimitSettings) -> bool:
        """True: the table of items takes one more."""
        return len(self._declared) < limits.items_max and self._next_id < ITEM_ID_MAX

    def hello(self, sender: bytes, hello: ProducerHello, principal: str, moment: Moment, turn: Turn) -> Declaring:
        """Open a producer: record a new life, and the gap since the last one. Its items follow with `declare_more`."""
        producers = self._folds.producers
        before = known = producers.present(hello.producer)
        if known is None or known.run != hello.run:
            self._gap_since_last_life(hello.producer, moment, turn)  # First: what is cut between them says hello again.
            opened = producers.open(hello.producer, hello.run, moment.wall, turn.epoch, principal)
            turn.record(Stream.CONTROL, [opened])
            known = producers.present(hello.producer)
            assert known is not None, "it was opened"
            for life in () if before is None else before.earlier[:1]:
                if life not in known.earlier:
                    self._senders.pop(life.producer_id, None)
        self._senders[known.producer_id] = sender
        self.owners.claim(hello)
        if hello.items or hello.takes_orders:
            self._adapters[hello.producer] = RegisteredAdapter(
                name=hello.producer, sender=sender, takes_orders=hello.takes_orders, heard_at=moment.now
            )
        else:
            self._adapters.pop(hello.producer, None)  # Else orders for its items went on to the program before.
        return Declaring(sender=sender, producer_id=known.producer_id, hello=hello, principal=principal)

    def declare_more(self, declaring: Declaring, moment: Moment, turn: Turn) -> None:
        """Declare the next slice of a hello's items; after the last, retire items that the producer no longer has."""
        done, hello = len(declaring.item_ids), declaring.hello
        items = hello.items[done : done + DECLARED_MAX]
        self._rename(declaring, items, moment, turn)
        self._audit_handovers(declaring, items, moment, turn)
        declaring.item_ids += self.declare(hello.producer, items, turn)
        if len(declaring.item_ids) < len(hello.items):
            return
        if declaring.leaving is None:
            names = {one.name for one in hello.items}
            mine = [one for one in self._declared.values() if one.item.adapter == hello.producer]
            declaring.leaving = [one for one in mine if one.item.name not in names]
        first, declaring.leaving = declaring.leaving[:DECLARED_MAX], declaring.leaving[DECLARED_MAX:]
        self.retire(first, moment, turn)

    def _rename(self, by: Declaring, items: tuple[DataItem, ...], moment: Moment, turn: Turn) -> None:
        """Give items that say what they were called until now the ids, and with them the history, of those names."""
        renamed: list[Record] = []
        for item in items:
            known = self._declared.get(item.was)
            if known is None or item.name in self._declared or self.owners.owner_of(item.was):
                continue
            # What is declared under the new name still says the old one, so that it is declared anew.
            self._declared[item.name] = self._declared.pop(item.was)
            renamed.append(
                Audited(
                    at_ns=moment.wall,
                    user=OWN_ADAPTER,
                    action="item_renamed",
                    subject=f"{self._node}:{item.name}",
                    detail=f"was {item.was!r}, id {known.item_id}",
                    principal=by.principal,
                )
            )
        if renamed:
            turn.record(Stream.AUDIT, renamed)

    def _audit_handovers(self, by: Declaring, items: tuple[DataItem, ...], moment: Moment, turn: Turn) -> None:
        """Put on record which items another name had until now."""
        adapter = by.hello.producer
        known = [one for item in items if (one := self._declared.get(item.name)) is not None]
        handed_over: list[Record] = [
            Audited(
                at_ns=moment.wall,
                user=OWN_ADAPTER,
                action="item_handed_over",
                subject=one.full_name,
                detail=f"from {one.item.adapter!r} to {adapter!r}",
                principal=by.principal,
            )
            for one in known
            if one.item.adapter not in ("", adapter)
        ]
        if handed_over:
            turn.record(Stream.AUDIT, handed_over)

    def _gap_since_last_life(self, name: str, moment: Moment, turn: Turn) -> None:
        known = self._folds.producers.find(name)
        if known is None or known.last_node_ns == 0:
            return
        reason = "node_down" if known.last_epoch < turn.epoch else "adapter_down"
        from_ns = min(known.last_node_ns, moment.wall)  # The wall clock may have been set back meanwhile.
        gaps = [GapFound(source=name, reason=reason, from_ns=from_ns, to_ns=moment.wall)]
        # While the node is down nobody is told the forced value either.
        turn.record(Stream.SAMPLES, gaps if reason == "node_down" else self.detours.divert_gaps(gaps))

    def gap_of_own_items(self, item_ids: tuple[int, ...], moment: Moment, turn: Turn) -> None:
        """Record the gap since the last sample of CORE's own items, which have no producer whose run could tell."""
        index = [found for one in item_ids if (found := self._folds.dim.index_of(one)) is not None]
        last_ns = max([self._folds.elsewhere.last_ns, *self._folds.dim.live.node_ns[index].tolist()])
        if last_ns:
            from_ns = min(last_ns, moment.wall)
            gap = GapFound(
                source=OWN_ADAPTER, reason="node_down", from_ns=from_ns, to_ns=moment.wall, item_ids=item_ids
            )
            turn.record(Stream.SAMPLES, [gap])

    def declare(self, adapter: str, items: tuple[DataItem, ...], turn: Turn) -> tuple[int, ...]:
        """Ids of `items`; new and changed ones are drafted as records."""
        records: list[Record] = []
        ids = []
        for item in items:
            # NB: a record has no `was`: the name is changed under the same id.
            is_as_said = item.adapter == adapter and not item.was
            owned = item if is_as_said else msgspec.structs.replace(item, adapter=adapter, was="")
            known = self._declared.get(owned.name)
            if known is None or known.item != owned or known.is_retired:
                item_id = self._next_id if known is None else known.item_id
                self._next_id = max(self._next_id, item_id + 1)
                known = KnownItem(item_id=ItemId(item_id), node=self._node, item=owned)
                self._declared[owned.name] = known
                self.owners.declared(known)
                records.append(ItemDeclared(item_id=known.item_id, node=self._node, item=owned))
            ids.append(int(known.item_id))
        if records:
            turn.record(Stream.STATE, records)
        return tuple(ids)

    def item(self, name: str) -> KnownItem | None:
        """A declared item of the appended view, by its full or local name."""
        return self._declared.get(name.removeprefix(f"{self._node}:"))

    def item_forgotten(self, known: KnownItem) -> None:
        """Take an item out of the appended view. The program that has declared it, if it lives, says hello again."""
        del self._declared[known.item.name]
        self.owners.forgotten(known)
        producer = self._folds.producers.present(known.item.adapter)
        if producer is not None:
            self._senders.pop(producer.producer_id, None)

    def producer_forgotten(self, name: str) -> None:
        """Take a producer out of the appended view."""
        producer = self._folds.producers.present(name)
        if producer is not None:
            for life in (producer.producer_id, *(one.producer_id for one in producer.earlier)):
                self._senders.pop(life, None)
        self._adapters.pop(name, None)

    def heard_at(self, name: str) -> Instant | None:
        """Instant at which a producer that owns items was last heard; None: not in this tenure."""
        adapter = self._adapters.get(name)
        return None if adapter is None or adapter.sender is None else adapter.heard_at

    def is_present(self, name: str) -> bool:
        """True: a producer that owns items, or takes orders, is there."""
        adapter = self._adapters.get(name)
        return adapter is not None and adapter.is_present

    def retire(self, gone: Sequence[KnownItem], moment: Moment, turn: Turn) -> None:
        """Take the rules of items that nobody declares any more, and mark them as out of service: they are not for ever
        at their last good value, and not for ever in alarm."""
        self._mark(gone, quality.BAD_OUT_OF_SERVICE, moment, turn)
        records: list[Record] = []
        for one in gone:
            bare = msgspec.structs.replace(one.item, alarm=None)
            if one.item != bare or not one.is_retired:
                self._declared[bare.name] = msgspec.structs.replace(one, item=bare, is_retired=True)
                records.append(ItemDeclared(item_id=one.item_id, node=one.node, item=bare, is_retired=True))
        if records:
            turn.record(Stream.STATE, records)

    def own_left_behind(self, ids: Collection[int]) -> list[KnownItem]:
        """CORE's own items beside these: of a part of the node, or of an adapter, that there is no more."""
        return [k for k in self._declared.values() if k.item.adapter == OWN_ADAPTER and k.item_id not in ids]

    def leave_behind(self, adapters: Collection[str]) -> list[str]:
        """Former adapters, which are none of these: their names had an item that said whether their device answers."""
        names = sorted({one.item.adapter for one in self._declared.values()}.difference(adapters, ("", OWN_ADAPTER)))
        former = [name for name in names if _is_of_device(self._declared.get(f"{name}/connected"))]
        for name in former:
            self._adapters.pop(name, None)
        return former

    def heard(self, sender: bytes, now: Instant) -> None:
        for adapter in self._adapters.values():
            if adapter.sender == sender:
                adapter.heard_at = now
                adapter.is_silent = adapter.is_lost = False

    def lost(self, sender: bytes, moment: Moment, turn: Turn) -> None:
        for adapter in self._adapters.values():
            if adapter.sender == sender:
                adapter.is_lost = True

    def find_silent(self, moment: Moment, silent_ns: int, turn: Turn) -> None:
        """Mark the items of every adapter that said nothing for `silent_ns`: its last values are not live."""
        for adapter in self._adapters.values():
            if adapter.is_silent or moment.now - adapter.heard_at < silent_ns:
                continue
            adapter.is_silent = True
            mine = [one for one in self._declared.values() if one.item.adapter == adapter.name]
            self._mark(mine, quality.BAD_NO_COMMUNICATION, moment, turn)
            turn.note("warning", "adapter_silent", adapter=adapter.name)

    def _mark(self, items: Sequence[KnownItem], code: int, moment: Moment, turn: Turn) -> None:
        """Draft one batch per value type: the bad quality `code` for every item that has another one and is in service.

        Cost: one pass over the items; a program may have all that a node has.
        """
        by_type: dict[ValueType, list[ItemId]] = {one: [] for one in ValueType}
        for known in items:
            by_type[known.item.value_type].append(known.item_id)
        for value_type, item_ids in by_type.items():
            ids = np.array(item_ids, np.uint32)
            now = self._qualities_of(ids)
            marked = ids[(now != code) & (now != int(quality.BAD_OUT_OF_SERVICE))]
            if len(marked):
                turn.samples(self.detours.divert(bad_samples(marked, value_type, code, moment.wall)))

    def _qualities_of(self, ids: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Quality that each item shows; -1: its declaration is not folded yet."""
        dim = self._folds.dim
        rows = dim.row_of.take(ids, mode="clip")
        rows[ids >= len(dim.row_of)] = -1
        found = np.full(len(ids), -1, np.int64)
        found[rows >= 0] = dim.live.quality[rows[rows >= 0]]
        return found

    def takes_orders(self, item_id: int) -> bool:
        """True: the adapter of this item is there and takes orders now."""
        return self.owner_of(item_id) is not None

    def owner_of(self, item_id: int) -> bytes | None:
        """Sender of the adapter that takes orders for this item now; None: none does."""
        known = self._folds.dim.by_id(item_id)
        adapter = None if known is None else self._adapters.get(known.item.adapter)
        return adapter.sender if adapter is not None and adapter.takes_orders and adapter.is_present else None

    def sender_of(self, producer_id: int) -> bytes | None:
        return self._senders.get(producer_id)

    def find(self, name: str) -> KnownItem | None:
        """An item by its full or local name."""
        prefix = f"{self._node}:"
        local = name.removeprefix(prefix)
        return self._declared.get(local) or self._folds.dim.by_name(prefix + local)  # Passive: the holder declares.

    def adapters(self) -> list[RegisteredAdapter]:
        return list(self._adapters.values())


def _is_of_device(known: KnownItem | None) -> bool:
    return known is not None and known.item.alarm is not None and known.item.alarm.is_device_state


def _text_chars(item: DataItem) -> int:
    suppressed_by = item.alarm.suppressed_by if item.alarm is not None else ""
    return (
        len(item.was) + len(item.name) + len(item.adapter) + len(item.unit) + len(item.description) + len(suppressed_by)
    )


def bad_samples(item_ids: NDArray[np.uint32], value_type: ValueType, code: int, wall: int) -> SampleBatch:
    """One row per item that says only its quality; the value is a filler that nobody may read."""
    count = len(item_ids)
    value = Strings.of([""] * count) if value_type is ValueType.STRING else np.zeros(count, _DTYPE[value_type])
    times = np.full(count, wall, np.int64)
    return SampleBatch(
        value_type=value_type,
        item_id=item_ids,
        source_ns=times,
        node_ns=times,
        value=value,
        quality=np.full(count, code, np.uint32),
    )


_DTYPE: Final = {ValueType.FLOAT64: np.float64, ValueType.INT64: np.int64, ValueType.BOOL: np.uint8}
