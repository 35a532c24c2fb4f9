"""Parts that tests share: what a node follows of its parent, and what its parent gives it."""

from albireo.codec import samples
from albireo.codec.message import FeedState
from albireo.model import quality as q
from albireo.model.item import DataItem, KnownItem
from albireo.model.position import BEGINNING, Position
from albireo.model.value import ItemId, ValueType
from tests.parts.history import batch_of

RUN = b"R" * 16


CO = DataItem(name="co", value_type=ValueType.FLOAT64)


def state_of(
    node: str, at: int, value: float, before: Position = BEGINNING, stale_since_ns: int | None = None
) -> tuple[FeedState, list[bytes]]:
    """A state with one item, whole if nothing lies before it."""
    raw = samples.encode(batch_of([(1, 5, value, q.GOOD)], ValueType.FLOAT64, 5))
    return FeedState(
        epoch=1,
        position=Position(1, at),
        previous=before,
        is_snapshot=before == BEGINNING,
        items=(KnownItem(item_id=ItemId(1), node=node, item=CO),) if before == BEGINNING else (),
        value_parts=((int(ValueType.FLOAT64), 1),),
        channel=1,
        stale_since_ns=stale_since_ns,
    ), [raw]
