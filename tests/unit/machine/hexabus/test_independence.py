"""Events that are under way together: whatever order they come in, all is as it would be one after the other."""

from collections.abc import Iterator
from itertools import product

import pytest

from albireo.codec.hexabus.house import House, encode_house
from albireo.codec.hexabus.journal import (
    DeviceJoined,
    HouseTaken,
    JournalEntry,
    JournalRecord,
    LeadTaken,
    Term,
    event_of,
)
from albireo.codec.hexabus.packets import PInfoPacket, decode
from albireo.codec.hexabus.program import decode_program
from albireo.codec.hexabus.values import HexType, HexValue
from albireo.machine.hexabus import Machine, at, when
from albireo.machine.hexabus.compiler import SOURCE_AT, compiled
from albireo.machine.hexabus.fold import HouseFold
from albireo.machine.hexabus.independence import Independence
from albireo.machine.hexabus.rows import WINDOW
from albireo.machine.hexabus.vm import SmEvent, SmMachine
from albireo.model.instant import Instant
from tests.parts.compiled_house import ENDPOINTS, MASTER, devices_of

KINDS = {"a": "button", "b": "button", "c": "button", "x": "relay", "y": "relay", "z": "relay"}
EVENTS = tuple(product("abc", (0, 1)))
LENGTH = 4


def machines() -> list[Machine]:
    """Two that have nothing in common but the button c, and one that shares an output with the second."""
    first, second, third = (Machine(name, state="off") for name in ("first", "second", "third"))
    for machine, button, lamp in ((first, "a", "x"), (second, "b", "y"), (third, "c", "z")):
        machine.on("off", when(button, "button") == 1, at(lamp).write("relay", True), go="on")
        machine.on("on", when(button, "button") == 0, at(lamp).write("relay", False), go="off")
    first.on("on", when("c", "button") == 1, at("x").write("relay", False), go="off")
    third.on("on", when("c", "button") == 1, at("y").write("relay", False))
    return [first, second, third]


HOUSE = House(devices_of(KINDS), machines(), MASTER)


def items_of(events: tuple[tuple[str, int], ...]) -> list[PInfoPacket]:
    """The order as the master sends it."""
    fold, term, now = HouseFold(), Term(1, 0), Instant(0)
    entries: list[JournalEntry] = [LeadTaken(), HouseTaken(encode_house(HOUSE)), DeviceJoined("fd00::99")]
    for entry in entries:
        fold.fold(JournalRecord(term, entry), now)
    for number, (name, value) in enumerate(events, 1):
        host = f"::{16 + list(KINDS).index(name):x}"
        told = HexValue(HexType.UINT8, value)
        fold.fold(JournalRecord(term, event_of(host, 1, number, b"", ENDPOINTS["button"].eid, told)), now)
    found = [decode(fold.order.bytes_of(fold.order.last - behind)).packet for behind in reversed(range(len(events)))]
    return [one for one in found if isinstance(one, PInfoPacket)]


def orders_of(needs: list[set[int]], done: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """Every order in which items may come, if each comes behind those that it needs."""
    if len(done) == len(needs):
        yield done
    for item, wanted in enumerate(needs):
        if item not in done and wanted <= set(done):
            yield from orders_of(needs, (*done, item))


PROGRAMS = {name: decode_program(compiled(HOUSE, name)) for name in "xyz"}


def play(items: list[PInfoPacket], order: tuple[int, ...]) -> tuple[object, ...]:
    """States, and outputs as they were written last, of all devices."""
    found: list[object] = []
    for program in PROGRAMS.values():
        assert program is not None
        written: dict[int, object] = {}
        machine = SmMachine(program, lambda eid, value, own=written: own.update({eid: value.value}))  # type: ignore[misc]
        for item in order:
            one = items[item]
            machine.run(SmEvent(one.origin, one.eid, one.value), 0)
        found += [bytes(machine.memory[:SOURCE_AT]), written.get(ENDPOINTS["relay"].eid)]
    return tuple(found)


@pytest.mark.parametrize("first", EVENTS, ids=str)
def test_every_order_that_is_allowed_comes_to_the_same(first: tuple[str, int]) -> None:
    """All events of this house, four behind each other, in all orders in which a device may hear of them."""
    together = 0
    for rest in product(EVENTS, repeat=LENGTH - 1):
        items = items_of((first, *rest))
        needs = [{item - before for before in range(1, item + 1) if one.needs >> before - 1 & 1}
                 for item, one in enumerate(items)]  # fmt: skip
        wanted = play(items, tuple(range(LENGTH)))
        for order in orders_of(needs):
            assert play(items, order) == wanted, (first, rest, order)
            together += order != tuple(range(LENGTH))
    assert together > 0, "some may overtake others"


def test_what_shares_a_device_or_an_event_is_not_independent() -> None:
    found = Independence(HOUSE)
    eid = ENDPOINTS["button"].eid
    told = HexValue(HexType.UINT8, 1)
    touched = {name: set(found.touched(SmEvent(HOUSE.devices[name].origin, eid, told)) or ()) for name in "abc"}
    assert touched["a"] == {0} and touched["b"] == touched["c"] - touched["a"] != set(), "y is written by two"
    assert found.touched(SmEvent(HOUSE.devices["x"].origin, 77, told)) == (), "nobody looks"
    assert Independence(None).touched(SmEvent(bytes(16), eid, told)) is None, "nobody knows"
    assert WINDOW == 16, "as many as two bytes can name"
