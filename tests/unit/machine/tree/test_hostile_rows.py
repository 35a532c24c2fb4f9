"""Rows of a node below that no honest node has: none is taken, and the node above goes on."""

from typing import Any

import pytest

from albireo.codec.message import Answer, Ask, FeedAnswer, FeedState, RoleTold, decode, encode
from albireo.codec.tree.hello import ChildHello
from albireo.machine.fold.declared import shapes
from albireo.machine.fold.items.forces import FORCES, ForceState
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.events import LettersDrained
from albireo.machine.tree.mirror import NodeMirror
from albireo.model.feature import FEATURE_LEVEL
from albireo.model.force import FORCES_MAX
from albireo.model.instant import TimePassed
from albireo.model.item import DataItem, KnownItem
from albireo.model.position import BEGINNING, Position
from albireo.model.tree.nodes import ChildConfig
from albireo.model.value import ItemId, ValueType
from tests.parts.bounds import changed, least, structs
from tests.parts.root_roles import LOG, Side
from tests.parts.tables import told_rows

SITE = "root/site"
FAN = KnownItem(item_id=ItemId(1), node=SITE, item=DataItem(name="fan", value_type=ValueType.FLOAT64))
FORCE = ForceState(
    item_id=1, measured_id=2, value=1.0, user="ann", reason="test", since_ns=1, for_ms=60_000, forced_at=0
)


class Above(Side):
    """A node that serves, above one whose state it follows."""

    def __init__(self) -> None:
        super().__init__(RootConfig(node="root", log_id=LOG, children=(ChildConfig(node=SITE, places=(SITE,)),)))
        self.lead()
        self.step(TimePassed())
        for link, is_bulk in ((b"state", False), (b"bulk", True)):
            hello = ChildHello(node=SITE, log_id=b"below", feature_level=FEATURE_LEVEL, is_bulk=is_bulk)
            self.letter(hello, sender=link)
        self.letter(RoleTold(is_acting=True, epoch=1), sender=b"state")
        self.letter(FeedAnswer(verdict="snapshot"), sender=b"state")
        self.told_to = BEGINNING

    @property
    def mirror(self) -> NodeMirror:
        return self.root.tree.mirrors[SITE]

    def told(self, rows: list[Any], table: str = "forces") -> None:
        """The node below tells its state, with these rows."""
        before, self.told_to = self.told_to, Position(1, self.told_to.sequence + 1)
        state = FeedState(
            epoch=1,
            position=self.told_to,
            previous=before,
            is_snapshot=not before.sequence,
            items=(FAN,),
            tables={table: told_rows(*rows)},
        )
        message, _ = decode(encode(state))
        self.letter(message, sender=b"state")

    def forces(self) -> Any:
        """Forces of the node below, as a client is told them over the wire."""
        self.sent.clear()
        self.step(
            LettersDrained([(b"local:0", Ask(request_id=9, what="forces", arguments={"node": SITE}), (), "local:0")])
        )
        (answer,) = [one for one in self.sent if isinstance(one, Answer)]
        encode(answer)
        return answer.result

    def refused(self) -> int:
        """Number of words of the node below that were not taken."""
        (below,) = self.root.tree.seen()
        return below.refused


@pytest.mark.parametrize("since_ns", [2**64 - 1, 2**63])
@pytest.mark.parametrize("for_ms", [2**64 - 1, -1])
def test_a_force_out_of_bounds_does_not_end_the_node_above(since_ns: int, for_ms: int) -> None:
    above = Above()
    above.told([{**_plain(FORCE), "since_ns": since_ns, "for_ms": for_ms}])
    assert (above.forces(), above.refused()) == ([], 1)
    above.told([FORCE])
    assert [row["item"] for row in above.forces()] == [f"{SITE}:fan"]


@pytest.mark.parametrize("name", [name for name, shape in shapes().items() if shape.is_shown_above])
def test_no_row_with_a_field_out_of_bounds_is_taken(name: str) -> None:
    (kind,) = structs(shapes()[name].row)
    beyond = [one for one, is_within in changed(kind) if not is_within]
    assert len(beyond) > len(kind.fields) / 2
    for one in beyond:
        above = Above()
        above.told([least(kind), one], name)
        assert (len(above.mirror.table(shapes()[name])), above.refused()) == (0, 1), one


def test_rows_above_the_bound_of_their_table_are_left_out_and_counted_by_name() -> None:
    above = Above()
    many = [{**_plain(FORCE), "item_id": number} for number in range(1, FORCES_MAX + 4)]
    above.told(many)
    (below,) = above.root.tree.seen()
    assert (len(above.mirror.table(FORCES)), below.refused) == (FORCES_MAX, 3)
    assert below.trouble == f"state: more than {FORCES_MAX} forces: the others are not shown"


def test_a_table_that_nobody_knows_is_passed_over_and_counted() -> None:
    above = Above()
    above.told([{"anything": [2**64 - 1]}], "later")
    above.told([FORCE])
    (below,) = above.root.tree.seen()
    assert (below.refused, below.trouble, above.mirror.passed_over) == (0, "", 1)
    assert len(above.forces()) == 1


def _plain(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__struct_fields__}
