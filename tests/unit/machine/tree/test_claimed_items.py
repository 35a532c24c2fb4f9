"""The mirror of a node below: what it takes of a state, and what it does not."""

from albireo.codec import samples
from albireo.codec.message import FeedState
from albireo.machine.tree.mirror import NodeMirror
from albireo.model.item import DataItem, KnownItem
from albireo.model.position import BEGINNING, Position
from albireo.model.value import ItemId, ValueType
from tests.parts.history import batch_of

SITE = "root/site"


def known(item_id: int, node: str, name: str) -> KnownItem:
    return KnownItem(item_id=ItemId(item_id), node=node, item=DataItem(name=name, value_type=ValueType.FLOAT64))


def test_a_child_that_claims_anothers_items_shows_none_of_them_and_is_counted() -> None:
    mirror = NodeMirror(SITE)
    batch = batch_of([(1, 5, 1.0, 0), (2, 5, 2.0, 0)], ValueType.FLOAT64, 5)
    state = FeedState(
        epoch=1,
        position=Position(1, 9),
        previous=BEGINNING,
        is_snapshot=True,
        items=(known(1, SITE, "own"), known(2, "root/other", "claimed")),
        value_parts=((int(ValueType.FLOAT64), 2),),
    )
    mirror.take(state, [samples.encode(batch)])
    assert [(one.full_name, mirror.refused) for one in mirror.dim] == [("root/site:own", 1)]
    index = mirror.dim.index_of(ItemId(1))
    assert index is not None and mirror.dim.reading_at(index).value == 1.0
    assert mirror.dim.index_of(ItemId(2)) is None
