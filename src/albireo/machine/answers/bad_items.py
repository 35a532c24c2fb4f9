"""Bad items, as the status of a node names them: by node, adapter and reason."""

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from albireo.machine.desk.owners import OWN_ADAPTER
from albireo.machine.fold.alarms.rules import limits_of
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.items.dim import Dim
from albireo.model import quality as q
from albireo.model.instant import MS, SECOND
from albireo.model.item import KnownItem
from albireo.model.status import BadItems

LONG_NS: Final = 60 * SECOND
"""Log time without a usable value from which an item without limits is told, too."""
ITEMS_MAX: Final = 10_000
"""Most bad items of a node that are looked at: a lost device may have all that a node has."""
TOLD_MAX: Final = 20
"""Most rows that are told."""
NAMED_MAX: Final = 3
"""Most items that a row names."""


def bad_items(folds: Folds, below: Iterable[Dim]) -> tuple[BadItems, ...]:
    """Watched items without a usable value, here and at the nodes below, and items of this node that long have none.

    A member whose samples are taken elsewhere knows of none of its own. What CORE says of itself is left out: it is
    bad only until it is known.
    """
    own, since = folds.dim, folds.conditions.watched.seen
    is_long = folds.log_time_ms * MS - since[: own.live.count] >= LONG_NS
    found: dict[tuple[str, str, str], list[KnownItem]] = {}
    for dim in below if folds.elsewhere else (own, *below):
        for index in _bad(dim)[:ITEMS_MAX].tolist():
            known, code = dim.item_at(index), int(dim.live.quality[index])
            if known.item.adapter == OWN_ADAPTER:
                continue
            if _is_watched(known) or (dim is own and is_long[index] and not known.is_retired):
                reason = q.name(code) if q.is_bad(code) else "NaN"
                found.setdefault((known.node, known.item.adapter, reason), []).append(known)
    rows = (
        BadItems(
            node=node,
            adapter=adapter,
            reason=reason,
            items=len(items),
            watched=sum(map(_is_watched, items)),
            names=tuple(one.item.name for one in sorted(items, key=_is_watched, reverse=True)[:NAMED_MAX]),
        )
        for (node, adapter, reason), items in found.items()
    )
    return tuple(sorted(rows, key=lambda one: (one.watched, one.items), reverse=True)[:TOLD_MAX])


def _bad(dim: Dim) -> NDArray[np.intp]:
    live, count = dim.live, dim.live.count
    return np.flatnonzero((q.severity(live.quality[:count]) == q.BAD_CLASS) | np.isnan(live.number[:count]))


def _is_watched(known: KnownItem) -> bool:
    alarm = known.item.alarm
    return alarm is not None and bool(limits_of(alarm, known.item.value_type))
