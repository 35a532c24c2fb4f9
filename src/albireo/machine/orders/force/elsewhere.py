"""Forces of other nodes, as this one knows them."""

from collections.abc import Iterator

from albireo.machine.fold.items.forces import FORCES
from albireo.machine.kernel.turn import Moment
from albireo.machine.tree.mirror import NodeMirror
from albireo.model import quality
from albireo.model.force import Force, ForcedItem, MeasuredNow
from albireo.model.instant import MS


def rows_below(mirror: NodeMirror, after: int, moment: Moment) -> Iterator[tuple[int, ForcedItem]]:
    """Forced items of a node below with an id above `after`, by rising id.

    What is left is reckoned by the wall clocks of both nodes: log time there is not known here.
    """
    for force in sorted(mirror.table(FORCES), key=lambda one: one.item_id):
        known = mirror.dim.by_id(force.item_id)
        if force.item_id > after and known is not None:
            left_ms = max(0, force.for_ms - (moment.wall - force.since_ns) // MS)
            yield force.item_id, row_of(mirror, known.full_name, force, left_ms)


def row_of(mirror: NodeMirror, full_name: str, force: Force, left_ms: int) -> ForcedItem:
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
        states=() if known is None else known.item.states,
    )


def _measured(mirror: NodeMirror, item_id: int) -> MeasuredNow:
    """Latest measured value, as it is known here."""
    index = mirror.dim.index_of(item_id)
    if index is None:
        return MeasuredNow(value=None, quality=quality.BAD_WAITING_FOR_INITIAL_DATA, source_ns=0)
    reading = mirror.dim.reading_at(index)
    return MeasuredNow(value=reading.value, quality=reading.quality, source_ns=reading.source_ns)
