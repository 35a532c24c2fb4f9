"""Long answers of CORE through the client: piece by piece, from a version that knows no pieces, and 20,000 items."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from albireo.client import NodeRefused, connect
from albireo.client.asking import AskingClient
from albireo.client.conversation import Conversation
from albireo.client.nodes import readings
from albireo.client.questions import NodeReply, Request
from albireo.codec.questions.pieces import PIECE_ENTRIES_MAX
from albireo.model.case import Action
from albireo.model.item import DataItem, KnownItem, Reading
from albireo.model.value import ItemId, ValueType
from tests.parts.client import lone
from tests.parts.core_pair import aside
from tests.parts.early_receipts import batch
from tests.parts.refusals import no
from tests.parts.status import node_status
from tests.parts.waiting import PATIENCE_S

_Wanted = TypeVar("_Wanted")

MANY = 20_000


class Told(AskingClient):
    """A client that gives its conversations out, for a test to hold them."""

    user = "u"

    def __init__(self) -> None:
        """It has no core: nobody is there."""

    def converse(self, conversation: Conversation[_Wanted]) -> Conversation[_Wanted]:
        return conversation


CLIENT: Any = Told()


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), 1e300, -1e300])
def test_a_time_that_nobody_could_wait_for_is_refused_before_anything_is_asked(seconds: float) -> None:
    """A client that waited for it would end with all that others asked through it."""
    orders: list[Callable[[], Conversation[object]]] = [
        lambda: CLIENT.write("a", 1.0, expires_s=seconds),
        lambda: CLIENT.force("a", 1.0, "r", for_s=seconds),
        lambda: CLIENT.select("a", for_s=seconds),
        lambda: CLIENT.act(Action.SHELVE, 1, "c", seconds),
        lambda: CLIENT.send("n", b"", expires_s=seconds),
    ]
    for asked in orders:
        with pytest.raises(ValueError, match="is no time in seconds"):
            played(asked())


def known(number: int, name: str = "") -> KnownItem:
    item = DataItem(name=name or f"item_{number}", value_type=ValueType.INT64)
    return KnownItem(item_id=ItemId(number), node="root", item=item)


def reading(number: int, name: str = "") -> dict[str, Any]:
    name = f"root:{name or f'item_{number}'}"
    return msgspec.to_builtins(Reading(item_id=number, name=name, value=number, quality=0, source_ns=0, node_ns=0))  # type: ignore[no-any-return]


def piece(rows: Sequence[object], following: str = "") -> NodeReply:
    return NodeReply({"next": following, "rows": msgspec.to_builtins(rows)})


def played(conversation: Conversation[_Wanted], *answers: NodeReply | Exception) -> tuple[list[Request], _Wanted]:
    """The requests of a conversation that is given these answers, and its result."""
    asked = [next(conversation)]
    try:
        for answer in answers:
            if isinstance(answer, Exception):
                asked.append(conversation.throw(answer))
            else:
                asked.append(conversation.send(answer))
    except StopIteration as ended:
        return asked, ended.value
    raise AssertionError(f"it asks on: {asked[-1]}")


def test_all_items_come_in_pieces_and_are_sorted_by_name() -> None:
    asked, found = played(
        CLIENT.items(),
        piece([known(3, "c"), known(4, "a")], "4"),
        piece([known(9, "b")]),
        piece([reading(3, "c"), reading(4, "a")], "4"),
        piece([reading(9, "b")]),
    )
    assert [one.name for one in found] == ["root:a", "root:b", "root:c"]
    assert [one.reading.value for one in found] == [4, 9, 3]
    assert [(one.what, one.arguments.get("cursor", "")) for one in asked] == [
        ("items", ""),
        ("items", "4"),
        ("read", ""),
        ("read", "4"),
    ]
    assert {one.arguments["rows_max"] for one in asked} == {PIECE_ENTRIES_MAX}


def test_a_name_is_asked_for_by_itself_and_a_missing_one_leaves_those_that_there_are() -> None:
    asked, found = played(
        CLIENT.items(["b"]), NodeReply([msgspec.to_builtins(known(9, "b"))]), NodeReply([reading(9, "b")])
    )
    assert [one.arguments for one in asked] == [{"names": ("b",)}, {"names": ("root:b",)}]
    assert [one.name for one in found] == ["root:b"]
    asked, found = played(
        CLIENT.items(["b", "nothing"]),
        NodeRefused("items", no("unknown_item")),
        piece([known(3, "a"), known(9, "b")]),
        NodeReply([reading(9, "b")]),
    )
    assert [one.name for one in found] == ["root:b"]
    with pytest.raises(StopIteration) as ended:
        next(CLIENT.items([]))
    assert ended.value.value == []


TREE = NodeReply(
    [
        {"node": node, "by": "", "stale_since_ns": None, "items": 0, "position": "", "complete_to_ns": 0, "behind": 0}
        for node in ("root/north", "root/north/hall", "root/south/hall", "root/south/root")
    ]
)
"""Nodes that the root knows."""


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("root/north", ["root/north"]),
        ("north", ["root/north"]),
        ("hall", ["root/north/hall", "root/south/hall"]),
        ("*/hall", ["root/north/hall", "root/south/hall"]),
        ("nor*", ["root/north", "root/north/hall"]),
        ("root", [""]),
        ("roo?", ["", "root/south/root"]),
        ("*", ["", "root/north", "root/north/hall", "root/south/hall", "root/south/root"]),
    ],
)
def test_a_list_is_of_all_nodes_that_a_name_or_pattern_means(pattern: str, meant: list[str]) -> None:
    status, none = NodeReply(msgspec.to_builtins(node_status())), piece([])
    asked, rows = played(CLIENT.sessions(pattern), status, TREE, *[none] * len(meant))
    assert rows == []
    assert [one.arguments.get("node", "") for one in asked if one.what == "sessions"] == meant


def test_what_is_about_one_node_is_left_to_it_where_a_name_may_mean_several() -> None:
    """It refuses that, with the candidates."""
    asked, _ = played(CLIENT.end_session(5, node="hall"), TREE, NodeReply({}))
    assert asked[-1].arguments["node"] == "hall"
    refusal = NodeRefused("read", no("ambiguous", "'hall' may be one of root/north/hall or root/south/hall"))
    with pytest.raises(NodeRefused, match="may be one of"):
        played(readings(["hall:co"]), NodeRefused("read", no("unknown_item")), TREE, refusal)


@pytest.mark.slow
def test_twenty_thousand_items_are_listed_and_read(tmp_path: Path) -> None:
    names = [f"item_{number}" for number in range(MANY)]

    def story() -> None:
        with connect(tmp_path, timeout_s=PATIENCE_S) as client:
            for first in range(0, MANY, 5_000):
                some = [DataItem(name=one, value_type=ValueType.INT64) for one in names[first : first + 5_000]]
                with client.producer(f"meter_{first}", some) as producer:
                    producer.offer([batch(1)])
                    assert producer.flush(PATIENCE_S)
            assert client.items("item_7")[0].item.name == "item_7"
            assert len(client.items("item_*")) == MANY
            assert [one.name for one in client.items() if "item_" in one.name] == sorted(f"root:{one}" for one in names)
            assert [one.name for one in client.read(names)] == [f"root:{one}" for one in names]

    async def world() -> None:
        async with lone(tmp_path):
            await aside(story)

    asyncio.run(world())
