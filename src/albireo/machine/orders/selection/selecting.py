"""Selecting: people and programs have an item to themselves for a moment before they order (select before operate).

    not selected --select--> selected --write that names the selection-----> not selected, and the order is taken
                                |
                                +--deselect, by whoever has it or by an admin; time over; another tenure that can't
                                   tell how old it is--> not selected

An item asks for it (`control` of its declaration). Then an order is taken from the principal of the live selection
only, and only if it names the selection; who has it excludes everybody else, also the same principal at another desk.
A refused order leaves the selection as it is. Forces write nothing to a device and ask for no selection.

Invariants
    one at a time:  an item has one selection in the appended view, which counts: the second selector is refused, also
                    while the record of the first is on its way.
    operated:       `SelectionEnded` and the order stand in one frame, so no log has one without the other.
    time:           elapsed time alone, by the boot clock; a takeover takes over what was left, as far as it knows that.

Spec: ADR-0209; after the control models of IEC 61850-7-2.
"""

from collections.abc import Iterator
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from albireo.codec.record import Audited, ItemSelected, SelectionEnded, Stream
from albireo.machine.desk.owners import OWN_ADAPTER
from albireo.machine.desk.registry import Registry
from albireo.machine.fold.commands.selections import Selections, SelectionWatch
from albireo.machine.fold.folds import Folds
from albireo.machine.kernel.turn import Moment, Turn
from albireo.machine.orders.kind import OrderAtOwner
from albireo.model.bounded import Signed
from albireo.model.command import SELECT_MS_MAX, SELECTIONS_MAX, ItemSelection, Selection
from albireo.model.instant import MS, Instant, LogTime
from albireo.model.item import Control, DataItem, KnownItem
from albireo.model.order_text import OrderText
from albireo.model.principal import may_be_one
from albireo.model.refusal import Refusal, RefusalCode, id_reused, no_item

Id = Annotated[OrderText, Meta(min_length=1)]
SELECT_REMEDY: Final = (
    "`albireo write` selects, asks and writes; a program selects first (`client.select`), and names the "
    "selection in its order"
)


class SelectBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a message that selects an item."""

    item: Id
    """Full or local name at the owner."""
    selection_id: Id
    for_ms: Signed


class DeselectBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a message that gives a selection back."""

    item: Id
    selection_id: Id
    of_others: bool = False
    """True: an admin ends it, whoever has it. The role was judged where it was asked."""


class LiveSelection(msgspec.Struct, frozen=True):
    """A selection of the appended view."""

    selection: Selection
    ends: Instant


class Selecting:
    """The machine of one tenure."""

    def __init__(self, folds: Folds, registry: Registry, watch: SelectionWatch) -> None:
        self._fold = folds.of(Selections)
        self._dim = folds.dim
        self._registry = registry
        self._watch = watch
        watch.watch(self._fold)
        self._live: dict[int, LiveSelection] = {}
        """The appended view, by item."""
        self._has_begun = False
        """True: this node leads, and `_live` counts."""
        self._owed: list[tuple[Selection, str]] = []
        """Selections that are over, each with its cause, until their end is recorded."""

    def begin(self, moment: Moment, log_time: LogTime) -> None:
        """Go on with the selections that there are, as this node begins to lead."""
        self._has_begun = True
        for one in self._fold:
            since = self._watch.since(one)
            if since is None:
                self._owed.append((one, "restarted"))
                continue
            # The later one of two bounds: a record may have been folded late, and log time stood still between leads.
            passed = max(moment.now - since, log_time - one.selected_at)
            self._live[one.item_id] = LiveSelection(one, Instant(moment.now + one.for_ms * MS - passed))

    def ask(self, order: OrderAtOwner[SelectBody], turn: Turn) -> ItemSelection | Refusal:
        """Select an item, or say why not. The same selection asked for again is the same."""
        wanted, question = order.body, order.question
        known, now = self._registry.item(wanted.item), question.moment.now
        refusal = self._refusal(wanted, known)
        if refusal is not None or known is None:
            return refusal or no_item(wanted.item)
        self._let_go(now)
        live = self._live.get(known.item_id)
        if live is not None:
            one = live.selection
            if one.selection_id == wanted.selection_id and may_be_one(one.principal, question.principal):
                return self._row(live, known, now)
            return _who_has(RefusalCode.ALREADY_SELECTED, live, known, now)
        if any(one.selection.selection_id == wanted.selection_id for one in self._live.values()):
            return id_reused(wanted.selection_id, "item")
        if len(self._live) >= SELECTIONS_MAX:
            cause = f"{SELECTIONS_MAX} items are selected already"
            return Refusal(RefusalCode.SELECT_FAILED, cause, "wait until some of that ends")
        return self._selected(order, known, turn)

    def _selected(self, order: OrderAtOwner[SelectBody], known: KnownItem, turn: Turn) -> ItemSelection:
        wanted, moment = order.body, order.question.moment
        selection = Selection(
            item_id=known.item_id,
            selection_id=wanted.selection_id,
            user=order.user,
            principal=order.question.principal,
            since_ns=moment.wall,
            for_ms=wanted.for_ms,
            reason=order.reason,
        )
        turn.record(Stream.COMMAND, [ItemSelected(**msgspec.structs.asdict(selection))])
        live = LiveSelection(selection, Instant(moment.now + wanted.for_ms * MS))
        self._live[known.item_id] = live
        detail = f"for {wanted.for_ms / 1000:g} s" + (f": {order.reason}" if order.reason else "")
        turn.record(
            Stream.AUDIT, [self._audited("selected", selection, detail, order.user, selection.principal, moment)]
        )
        return self._row(live, known, moment.now)

    def _refusal(self, wanted: SelectBody, known: KnownItem | None) -> Refusal | None:
        """Reason why this selection can't be meant, or can't be recorded; None: there is none."""
        if known is None or self._dim.by_id(known.item_id) is None:
            return no_item(wanted.item)
        if known.item.control is Control.DIRECT:
            cause = f"{known.item.name} takes orders directly"
            return Refusal(RefusalCode.NOT_WRITABLE, cause, "write it, without selecting it")
        if not known.item.is_writable:
            return not_writable(known.item)
        if not 0 < wanted.for_ms <= SELECT_MS_MAX:
            cause = f"a selection lasts 1 to {SELECT_MS_MAX} ms, not {wanted.for_ms}"
            return Refusal(RefusalCode.BAD_VALUE, cause, "select it again later")
        return None

    def rows(self, after: int, now: Instant) -> Iterator[tuple[int, ItemSelection]]:
        """Selected items with an id above `after`, by rising id."""
        for state in sorted(self._fold, key=lambda one: one.item_id):
            live, known = self._shown(state), self._dim.by_id(state.item_id)
            if state.item_id > after and live is not None and known is not None and now < live.ends:
                yield known.item_id, self._row(live, known, now)

    def _shown(self, selection: Selection) -> LiveSelection | None:
        """A selection with its end, as far as this member knows; None: its end is on its way into the log."""
        if self._has_begun:
            live = self._live.get(selection.item_id)
            return live if live is not None and live.selection.selection_id == selection.selection_id else None
        since = self._watch.since(selection)
        return None if since is None else LiveSelection(selection, Instant(since + selection.for_ms * MS))

    def release(self, order: OrderAtOwner[DeselectBody], turn: Turn) -> str | Refusal:
        """Give a selection back, or end that of somebody else; returns the full name of the item, or why not."""
        body, principal, moment = order.body, order.question.principal, order.question.moment
        known = self._registry.item(body.item)
        if known is None:
            return no_item(body.item)
        live = self._live.get(known.item_id)
        theirs = principal if live is None or not body.of_others else live.selection.principal
        refusal = self._refusal_of_order(known, body.selection_id, theirs, moment.now)
        if refusal is not None:
            return refusal
        selection = self._live.pop(known.item_id).selection
        if body.of_others:
            self._end(selection, "ended", order.user, principal, moment, turn, order.reason)
        else:
            self._end(selection, "cancelled", selection.user, principal, moment, turn)
        return known.full_name

    def refusal_of_order(self, known: KnownItem, selection_id: str, principal: str, now: Instant) -> Refusal | None:
        """Reason why an order to an item is not taken for want of a selection; None: there is none."""
        if known.item.control is Control.DIRECT:
            return None
        return self._refusal_of_order(known, selection_id, principal, now)

    def _refusal_of_order(self, known: KnownItem, selection_id: str, principal: str, now: Instant) -> Refusal | None:
        self._let_go(now)
        live = self._live.get(known.item_id)
        if live is None:
            return not_selected(known.item.name, was_named=bool(selection_id))
        selection = live.selection
        if selection.selection_id != selection_id or not may_be_one(selection.principal, principal):
            return _who_has(RefusalCode.NOT_SELECTED, live, known, now)
        return None

    def operate(self, known: KnownItem) -> tuple[SelectionEnded, int] | None:
        """Use up the selection of an item: its end, to be recorded with the order, and the wall time of its beginning.

        None: it has none. The order was judged by `refusal_of_order`.
        """
        live = self._live.pop(known.item_id, None)
        if live is None:
            return None
        one = live.selection
        return SelectionEnded(item_id=one.item_id, selection_id=one.selection_id, cause="operated"), one.since_ns

    def find(self, selection_id: str) -> Selection | None:
        """The live selection of this id."""
        for one in self._live.values():
            if one.selection.selection_id == selection_id:
                return one.selection
        return None

    def followed(self, now: Instant) -> None:
        """Take note of what was just folded."""
        self._watch.followed(self._fold, now)

    def go_on(self, moment: Moment, turn: Turn, *, is_open: bool) -> None:
        """Record what time has ended, as soon as anything is recorded; orders are judged by the time itself."""
        self._let_go(moment.now)
        if not is_open:
            return
        for selection, cause in self._owed:
            self._end(selection, cause, OWN_ADAPTER, "", moment, turn)
        self._owed.clear()

    def _let_go(self, now: Instant) -> None:
        over = [one.selection for one in self._live.values() if now >= one.ends]
        for one in over:
            del self._live[one.item_id]
            self._owed.append((one, "expired"))

    def _end(
        self, one: Selection, cause: str, user: str, principal: str, moment: Moment, turn: Turn, reason: str = ""
    ) -> None:
        turn.record(Stream.COMMAND, [SelectionEnded(item_id=one.item_id, selection_id=one.selection_id, cause=cause)])
        detail = "" if user == one.user and cause != "ended" else f"selected by {one.user}"
        detail += f": {reason}" if reason else ""
        turn.record(Stream.AUDIT, [self._audited(f"selection_{cause}", one, detail, user, principal, moment)])

    def _audited(self, action: str, one: Selection, detail: str, user: str, principal: str, moment: Moment) -> Audited:
        known = self._dim.by_id(one.item_id)
        return Audited(
            at_ns=moment.wall,
            user=user,
            action=action,
            subject="" if known is None else known.full_name,
            detail=detail,
            principal=principal,
        )

    def _row(self, live: LiveSelection, known: KnownItem, now: Instant) -> ItemSelection:
        one = live.selection
        return ItemSelection(
            selection_id=one.selection_id,
            item=known.full_name,
            user=one.user,
            principal=one.principal,
            reason=one.reason,
            since_ns=one.since_ns,
            for_ms=one.for_ms,
            left_ms=max(0, live.ends - now) // MS,
        )


def not_writable(item: DataItem) -> Refusal:
    """Refusal of an order to an item that takes none."""
    return Refusal(
        RefusalCode.NOT_WRITABLE, f"{item.name} is not writable", "set `writable` in its item table if it should be"
    )


def not_selected(name: str, *, was_named: bool) -> Refusal:
    """Refusal of an order to an item that is not selected.

    Args:
        was_named: the order names a selection.
    """
    over = "the selection that the order names is over"
    cause = over if was_named else f"{name} has to be selected before it is written"
    return Refusal(RefusalCode.NOT_SELECTED, cause, SELECT_REMEDY)


def _who_has(code: RefusalCode, live: LiveSelection, known: KnownItem, now: Instant) -> Refusal:
    one = live.selection
    who = f"{one.user} ({one.principal})" if one.principal else one.user
    left_s = max(0, live.ends - now) / 1_000_000_000
    why = f" ({one.reason})" if one.reason else ""
    cause = f"{who} has selected {known.item.name}, for {left_s:.0f} s still{why}"
    return Refusal(code, cause, "wait until that is over, or speak with them")
