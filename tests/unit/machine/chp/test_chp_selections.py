"""A KVSET of an item that asks to be selected first is refused at the face, and told (ADR-0219)."""

import msgspec
import pytest

from albireo.codec.chp import KeyValue, encode
from albireo.machine.chp.server import ChpNoted, ChpServer, MirrorChanged, PlaceOrder, SetReceived
from albireo.model.instant import Instant
from albireo.model.item import Control, KnownItem
from albireo.model.position import Position
from tests.parts.answering import known, reading


def asking(number: int, name: str, control: Control = Control.SELECT) -> KnownItem:
    one = known(number, name)
    return msgspec.structs.replace(one, item=msgspec.structs.replace(one.item, control=control))


def serving(*items: KnownItem) -> ChpServer:
    server = ChpServer(is_set_allowed=True)
    readings = [reading(one.item_id) for one in items]
    server.step(MirrorChanged(items=items, readings=readings, position=Position(1, 1), is_whole=True), Instant(0))
    return server


def set_to(server: ChpServer, key: str, body: bytes = b"1") -> tuple[list[PlaceOrder], list[str]]:
    """Orders, and what is said to whoever runs the face."""
    effects = server.step(SetReceived(encode(KeyValue(key=key.encode(), value=body))), Instant(0))
    orders = [one for one in effects if isinstance(one, PlaceOrder)]
    return orders, [f"{one.what}: {one.detail}" for one in effects if isinstance(one, ChpNoted)]


@pytest.mark.parametrize("body", [b"1", b"", b"junk"])
def test_nothing_is_ordered_and_it_is_said_why(body: bytes) -> None:
    server = serving(asking(1, "barrier"), known(2, "fan"))
    orders, noted = set_to(server, "/site/barrier", body)
    assert (orders, server.counts["set_needs_selection"]) == ([], 1)
    assert (
        noted[0].startswith("set_needs_selection: site:barrier: it has to be selected") and "albireo write" in noted[0]
    )
    orders, _ = set_to(server, "/site/fan")
    assert [one.item for one in orders] == ["site:fan"]


def test_the_latest_declaration_counts() -> None:
    server = serving(known(1, "barrier"))
    for control, count in ((Control.SELECT, 0), (Control.DIRECT, 1)):
        declared = MirrorChanged(
            items=[asking(1, "barrier", control)], readings=[], position=Position(1, 2), is_whole=False
        )
        server.step(declared, Instant(0))
        assert len(set_to(server, "/site/barrier")[0]) == count
