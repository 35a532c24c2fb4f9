"""Names of items may hold colons, slashes and spaces: a full name is its node and all the rest."""

from collections.abc import Generator
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from albireo.cli.display import is_diagnostic
from albireo.cli.node.items import place_in_list
from albireo.client.nodes import by_node
from albireo.client.questions import NodeReply
from albireo.codec.message import ProducerHello
from albireo.model.case import ItemCase
from albireo.model.item import Condition, DataItem, KnownItem, name_parts
from albireo.model.tree.node_row import NodeRow
from albireo.model.value import ItemId, ValueType
from albireo.node.history.below.folders import node_asked
from tests.parts.root import World

NODES = st.sampled_from(["root", "root/north", "root/north/fan_1"])
LOCALS = st.text("ab1:/ .", min_size=1, max_size=12).filter(lambda name: name == name.strip())
BELOW = [
    NodeRow(node=one, by=one, stale_since_ns=None, items=0, position="", complete_to_ns=0, behind=0)
    for one in ("root/north", "root/north/fan_1")
]


def declared(local: str) -> DataItem:
    return DataItem(name=local, value_type=ValueType.FLOAT64)


def answered(asking: Generator[Any, NodeReply, Any]) -> Any:
    """The result of a conversation with a node that is asked for those below it only."""
    try:
        next(asking)
        while True:
            asking.send(NodeReply(msgspec.to_builtins(BELOW)))
    except StopIteration as ended:
        return ended.value


@given(NODES, LOCALS)
def test_a_full_name_is_its_node_and_its_local_name(node: str, local: str) -> None:
    name = KnownItem(item_id=ItemId(1), node=node, item=declared(local)).full_name
    assert name_parts(name) == (node, local)
    assert ItemCase(case_id=1, item_id=1, condition=Condition.HI, severity=1, item=name).node == node
    assert is_diagnostic(name) == ("/" in local)
    assert place_in_list(name) == place_in_list(f"root:{local}")
    assert node_asked("", (name,)) == node


@given(NODES, LOCALS)
def test_a_client_asks_the_node_of_a_name_for_the_rest_of_it(node: str, local: str) -> None:
    is_below = any(one.node == node for one in BELOW)
    assert answered(by_node([f"{node}:{local}"])) == ({node: [local]} if is_below else {"": [f"{node}:{local}"]})


@given(LOCALS)
def test_a_node_finds_its_own_item_by_full_and_by_local_name(local: str) -> None:
    world = World()
    world.letter(b"plc", ProducerHello(producer="p1", items=(declared(local),), run=1))
    world.sync()
    for name in (local, f"{world.root.config.node}:{local}"):
        found: Any = world.ask("items", names=[name]).result
        assert [one["item"]["name"] for one in found] == [local]
