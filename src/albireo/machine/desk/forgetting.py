"""Forgetting: which names of producers and items leave their tables, and why others may not.

A producer is forgotten by age, or by order; an item by order only. Either is a record of the node that serves, and an
entry in the audit trail.

    by age     a producer without items whose last record is older than the setting, by the wall clock and by log time,
               which runs only while the node does: a clock that jumps forgets nobody
    by order   a producer without items that is not heard, or an item that nobody declares any more

Not forgotten: what this node's topology configures, what is there, an item with a case, a verdict or a command.

Spec: ADR-0150.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from albireo.codec.questions.node import ForgetAsked
from albireo.codec.record import Audited, ItemForgotten, Record, Stream
from albireo.machine.desk.owners import OWN_ADAPTER
from albireo.machine.desk.registry import Registry
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.items.forces import Forces
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.part import Footing, RootPart
from albireo.machine.kernel.turn import Moment, Turn
from albireo.model.instant import MS, SECOND, Instant
from albireo.model.item import KnownItem
from albireo.model.refusal import Refusal, RefusalCode, no_item

LOOK_NS: Final = 60 * SECOND
"""Time between two looks for producers that are too old."""
AGED_MAX: Final = 64
"""Most producers forgotten at one look, oldest first."""
ORDERED_MAX: Final = 250
"""Most names in one order: each is an entry in the audit trail."""
HEARD_MS: Final = 60_000
"""Log time since its last record within which a producer counts as alive."""
DAY_MS: Final = 86_400_000


class ForgottenBy(msgspec.Struct, frozen=True):
    """Who had something forgotten, and why."""

    user: str
    why: str
    principal: str = ""


class Forgetting(RootPart):
    """The machine of one tenure."""

    def __init__(
        self, config: RootConfig, folds: Folds, registry: Registry, items_ordered: Callable[[], set[int]], now: Instant
    ) -> None:
        """
        Args:
            items_ordered: ids of the items of unfinished commands.
        """
        self.limits = config.limits
        self._adapters = config.adapters
        self._folds = folds
        self._registry = registry
        self._items_ordered = items_ordered
        self._look_at = Instant(now + LOOK_NS)

    def fill_percent(self) -> tuple[float, float]:
        """Used part of the table of producers, and of that of items."""
        producers, items = len(self._folds.producers), len(self._folds.dim)
        return 100 * producers / self.limits.producers_max, 100 * items / self.limits.items_max

    def tick(self, now: Footing, turn: Turn) -> None:
        """Forget the oldest of the producers that are past their age."""
        moment = now.moment
        if not (now.is_serving and now.is_open) or moment.now < self._look_at:
            return
        self._look_at = Instant(moment.now + LOOK_NS)
        old = self._aged(moment)
        if old:
            self._forget_producers(old[:AGED_MAX], ForgottenBy(OWN_ADAPTER, "by age"), moment, turn)

    def _aged(self, moment: Moment) -> list[str]:
        """Names past their age, oldest first."""
        age_ms = self.limits.forget_producers_days * DAY_MS
        if not age_ms:
            return []
        heard_ms, heard_ns = self._folds.log_time_ms - age_ms, moment.wall - age_ms * MS
        old = [one for one in self._folds.producers if one.heard_ms <= heard_ms and one.heard_ns <= heard_ns]
        if not old:
            return []
        owning = self._registry.owners.numbers_of_items()
        old = [one for one in old if one.name not in owning and not self._is_kept(one.name)]
        return [one.name for one in sorted(old, key=lambda one: (one.heard_ms, one.name))]

    def _is_kept(self, name: str) -> bool:
        return name in self._adapters or self._registry.is_present(name)

    def asked(self, asked: ForgetAsked, principal: str, moment: Moment, turn: Turn) -> Refusal | None:
        """Forget by order; returns the reason why nothing of it is done."""
        producers, items = dict.fromkeys(asked.producers), dict.fromkeys(asked.items)
        if not 0 < len(producers) + len(items) <= ORDERED_MAX:
            cause = f"{len(producers) + len(items)} names, not 1..{ORDERED_MAX}"
            return Refusal(RefusalCode.BAD_VALUE, cause, "order in several parts")
        known = {one.item_id: one for name in items if (one := self._registry.item(name)) is not None}
        refusal = self._items_refused(list(items)) or self._producers_refused(list(producers))
        if refusal is not None:
            return refusal
        by = ForgottenBy(asked.user, asked.reason, principal)
        if known:
            self._forget_items(list(known.values()), by, moment, turn)
        if producers:
            self._forget_producers(list(producers), by, moment, turn)
        return None

    def _producers_refused(self, names: Sequence[str]) -> Refusal | None:
        owning = self._registry.owners.numbers_of_items() if names else {}
        return next((found for name in names if (found := self._producer_refused(name, owning))), None)

    def _producer_refused(self, name: str, owning: dict[str, int]) -> Refusal | None:
        known = self._folds.producers.find(name)
        if known is None or self._folds.producers.is_being_forgotten(name):
            return Refusal(RefusalCode.UNKNOWN_NAME, f"no producer {name!r}", "`albireo status` lists the latest")
        if name in self._adapters:
            return _in_use(f"{name!r} is an adapter of this node's topology", "take it out of the file first")
        heard_ms = self._folds.log_time_ms - known.heard_ms
        if self._registry.is_present(name) or heard_ms < HEARD_MS or self._folds.producers.present(name) is not known:
            return _in_use(f"{name!r} is alive", "end its program, and order again a minute later")
        if name in owning:
            return _in_use(f"{name!r} owns {owning[name]} items", "forget these first (`albireo forget item NAME`)")
        return None

    def _items_refused(self, names: Sequence[str]) -> Refusal | None:
        ordered = self._items_ordered() if names else set()
        return next((found for name in names if (found := self._item_refused(name, ordered))), None)

    def _item_refused(self, name: str, ordered: set[int]) -> Refusal | None:
        known = self._registry.item(name)
        if known is None or self._folds.dim.by_id(known.item_id) is None:
            return no_item(name)
        owner = self._registry.owners.owner_of(known.item.name)
        if owner == OWN_ADAPTER:
            return _in_use(f"{name!r} is the node's own, and is never forgotten")
        if owner and self._is_kept(owner):
            return _in_use(f"{name!r} belongs to {owner!r}, which declares it", "start that without the item first")
        if self._folds.cases.concerns(known.item_id):
            return _in_use(f"{name!r} has an open case", "see to it first (`albireo cases`)")
        if known.item_id in self._folds.of(Forces):
            return _in_use(f"{name!r} is forced", f"release it first (`albireo force {known.item.name} --release`)")
        if known.item_id in ordered:
            return _in_use(f"a command for {name!r} has no outcome yet", "order again when it has")
        return None

    def _forget_producers(self, names: Sequence[str], by: ForgottenBy, moment: Moment, turn: Turn) -> None:
        records = [one for name in names if (one := self._folds.producers.forget(name)) is not None]
        if not records:
            return
        for one in records:
            self._registry.producer_forgotten(one.name)
        turn.record(Stream.CONTROL, records)
        lives = [(one.name, f"last life {one.producer_id}") for one in records]
        turn.record(Stream.AUDIT, _entries("producer_forgotten", lives, by, moment))

    def _forget_items(self, known: Sequence[KnownItem], by: ForgottenBy, moment: Moment, turn: Turn) -> None:
        for one in known:
            self._registry.item_forgotten(one)
        turn.record(Stream.STATE, [ItemForgotten(item_ids=tuple(int(one.item_id) for one in known))])
        ids = [(one.full_name, f"id {one.item_id}, of {one.item.adapter!r}") for one in known]
        turn.record(Stream.AUDIT, _entries("item_forgotten", ids, by, moment))


def _entries(action: str, found: Sequence[tuple[str, str]], by: ForgottenBy, moment: Moment) -> list[Record]:
    return [
        Audited(
            at_ns=moment.wall,
            user=by.user,
            action=action,
            subject=subject,
            detail=f"{what}: {by.why}" if by.why else what,
            principal=by.principal,
        )
        for subject, what in found
    ]


def _in_use(cause: str, remedy: str = "") -> Refusal:
    return Refusal(RefusalCode.IN_USE, cause, remedy)
