"""Parts that tests share: snapshots in pieces."""

from albireo.model import quality as q
from albireo.model.item import DataItem, KnownItem, Reading
from albireo.model.value import ItemId, ValueType


def known(number: int, name: str, node: str = "site", *, is_retired: bool = False) -> KnownItem:
    item = DataItem(name=name, value_type=ValueType.FLOAT64)
    return KnownItem(item_id=ItemId(number), node=node, item=item, is_retired=is_retired)


def reading(number: int, value: float = 1.0) -> Reading:
    return Reading(item_id=number, name="", value=value, quality=q.GOOD, source_ns=0, node_ns=0)
