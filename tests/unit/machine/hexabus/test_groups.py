"""Groups of devices on the wire: a PINFO for each name of an event, and machines that act on all of them once."""

from collections.abc import Iterator, Mapping
from ipaddress import IPv6Address
from itertools import permutations
from typing import Final

import pytest

from albireo.codec.hexabus.house import DeviceGroup, House, HouseDevice, HouseEndpoint, encode_house
from albireo.codec.hexabus.journal import (
    BY_HAND,
    AllHave,
    DeviceJoined,
    HouseTaken,
    JournalEntry,
    JournalRecord,
    LeadTaken,
    ResetOrdered,
    Term,
    decode_record,
    encode_record,
    event_of,
)
from albireo.codec.hexabus.packets import (
    NUMBER_MAX,
    PARTS_MAX,
    RELIABLE,
    WANT_UL_ACK,
    AckPacket,
    HexDatagram,
    InfoPacket,
    PInfoPacket,
    decode,
    encode,
)
from albireo.codec.hexabus.program import SmOp, decode_program
from albireo.codec.hexabus.values import HexType, HexValue
from albireo.machine.hexabus import Machine, at, group, when
from albireo.machine.hexabus.acting import ActingDevice
from albireo.machine.hexabus.compiler import compiled
from albireo.machine.hexabus.device import EventCame, HexAddress, HexDevice, SendDatagram
from albireo.machine.hexabus.endpoints import Endpoint, Endpoints
from albireo.machine.hexabus.fold import HouseFold
from albireo.machine.hexabus.master import HexMaster, MasterEffect, PutRecord
from albireo.machine.hexabus.meaning import CompileError
from albireo.machine.hexabus.names import MORE
from albireo.machine.hexabus.rows import WINDOW
from albireo.machine.hexabus.tracing import HouseTrace
from albireo.model.instant import SECOND, Instant
from tests.parts.compiled_house import ENDPOINTS, MASTER, CompiledHouse, devices_of

KINDS: Final = {"a": "button", "b": "button", "c": "button", "lamp": "relay", "fan": "relay"}
GROUPS: Final = {"a": "up all", "b": "all"}
NOW: Final = Instant(0)
MASTER_AT: Final = HexAddress(str(IPv6Address(MASTER)))
BUTTON: Final = ENDPOINTS["button"].eid
UP, ALL = DeviceGroup("up").id, DeviceGroup("all").id


def machines() -> list[Machine]:
    """One that goes back and forth with any name of a button, and one that knows nothing of groups."""
    turns = Machine("turns", state="off")
    turns.on("off", when(group("all"), "button") == 1, at("lamp").write("relay", True), go="on")
    turns.on("on", when(group("up"), "button") == 1, at("lamp").write("relay", False), go="off")
    turns.on("on", when("a", "button") == 2, at("lamp").write("relay", False), go="off")
    other = Machine("other", state="off")
    other.on("off", when("c", "button") == 1, at("fan").write("relay", True), go="on")
    other.on("on", when("c", "button") == 1, at("fan").write("relay", False), go="off")
    return [turns, other]


def house_of(groups: Mapping[str, str] = GROUPS, kinds: Mapping[str, str] = KINDS) -> House:
    return House(devices_of(kinds, groups), machines(), MASTER)


def host(name: str) -> str:
    return str(IPv6Address(house_of().devices[name].origin))


class Record:
    """A journal and its fold."""

    def __init__(self, house: House) -> None:
        self.term = Term(1, 0)
        self.fold = HouseFold()
        self.records: list[bytes] = []
        self.numbers = 0
        self.add(LeadTaken(), HouseTaken(encode_house(house)), DeviceJoined("fd00::99"))

    def add(self, *entries: JournalEntry) -> None:
        for one in entries:
            self.records.append(encode_record(JournalRecord(self.term, one)))
            assert self.fold.fold(decode_record(self.records[-1], 1), NOW)

    def tell(self, name: str, value: int = 1, datatype: HexType = HexType.UINT8) -> list[HexDatagram]:
        """The items of an event."""
        before, self.numbers = self.fold.order.last, self.numbers + 1
        self.add(event_of(host(name), 1, self.numbers, b"", BUTTON, HexValue(datatype, value)))
        return self.items(before)

    def items(self, behind: int) -> list[HexDatagram]:
        order = self.fold.order
        return [decode(order.bytes_of(item)) for item in range(behind + 1, order.last + 1)]


def names_of(items: list[HexDatagram]) -> list[bytes]:
    return [one.packet.origin for one in items if isinstance(one.packet, PInfoPacket)]


def marked(name: bytes) -> bytes:
    return name[:-1] + bytes([MORE])


# Ids, and programs.


def test_the_id_of_a_group_follows_from_its_name_and_is_the_address_of_no_device() -> None:
    assert IPv6Address(UP).is_multicast and UP[-1] == 0 and len(UP) == 16 and UP[:-1] != ALL[:-1]
    assert str(IPv6Address(UP)) == "ff15:75a2:88c0:d689:8c5f:7b05:4590:8400", "written down: programs hold it"
    devices = {**house_of().devices, "forged": HouseDevice(UP, {"button": ENDPOINTS["button"]})}
    with pytest.raises(CompileError, match="is no address of a device, and forged has it"):
        compiled(House(devices, machines(), MASTER), "lamp")


@pytest.mark.parametrize("groups", [
    {"a": "up all", "b": "all", "c": "all"},
    {"a": "up all"},
    {"a": "up", "b": "up all", "c": "others all up"},
    {"a": "up all", "b": "all", "new": "all"},
], ids=["joins", "leaves", "changes", "is bought"])  # fmt: skip
def test_a_device_joins_or_leaves_a_group_and_no_program_changes(groups: dict[str, str]) -> None:
    kinds = {**KINDS, **({"new": "button"} if "new" in groups else {})}
    before, after = house_of(), house_of(groups, kinds)
    assert encode_house(before) != encode_house(after)
    assert [compiled(before, name) for name in (*KINDS, None)] == [compiled(after, name) for name in (*KINDS, None)]


def test_a_condition_on_a_group_is_one_comparison_however_many_are_in_it() -> None:
    kinds = {**{f"b_{number}": "button" for number in range(200)}, "lamp": "relay"}
    machine = Machine("one", state="a")
    machine.on("a", when(group("all"), "button") == 1, at("lamp").write("relay", True))
    groups = {name: "all" for name in kinds if name != "lamp"}
    program = decode_program(compiled(House(devices_of(kinds, groups), [machine], MASTER), "lamp"))
    assert program is not None
    compared = [one.block for one in program.instructions.values() if one.op is SmOp.CMP_SRC_IP]
    assert compared == [ALL[:-1], bytes([MORE])], "the group, and whether more of the event follows"


def test_conditions_on_last_values_of_a_group_still_name_its_devices() -> None:
    machine = Machine("one", state="a")
    machine.on("a", ~(when(group("all"), "button") == 1), at("lamp").write("relay", True))
    house = CompiledHouse(KINDS, [machine], GROUPS)
    assert house.tell("a", "button", 0) == [] and house.tell("b", "button", 0) == [("lamp", "relay", True)]


def test_mistakes_in_words() -> None:
    machine, devices = Machine("one", state="a"), devices_of(KINDS, GROUPS)
    machine.on("a", when(group("all"), "button") == 1)
    devices["b"] = HouseDevice(devices["b"].origin, {"button": ENDPOINTS["code"]}, frozenset({"all"}))
    with pytest.raises(CompileError, match="state 'a': devices of the group 'all' have this endpoint by several numb"):
        compiled(House(devices, [machine], MASTER), None)
    names = [f"g{number}" for number in range(PARTS_MAX)]
    for name in names:
        machine.on("a", when(group(name), "button") == 1)
    del machine.transitions[0]
    record = Record(House(devices_of(KINDS, {"a": " ".join(names)}), [machine], MASTER))
    assert [one.packet.place for one in record.tell("a")] == list(range(PARTS_MAX))  # type: ignore[union-attr]
    machine.on("a", when("a", "button") == 1)
    with pytest.raises(CompileError, match=r"name a\.button 17 ways, of 16 at most"):
        CompiledHouse(KINDS, [machine], {"a": " ".join(names)})


# What leaves.


def test_there_is_a_pinfo_for_each_name_that_conditions_know_and_they_follow_each_other() -> None:
    record = Record(house_of({"a": "up all none", "b": "all", "c": "none"}))
    items = record.tell("a")
    before, more = sorted((UP, ALL))
    assert names_of(items) == [marked(before), marked(more), house_of().devices["a"].origin]
    numbers = [one.number for one in items]
    assert numbers == list(range(numbers[0], numbers[0] + 3)) and {one.flags for one in items[1:]} == {6}
    told = [one.packet for one in items if isinstance(one.packet, PInfoPacket)]
    assert [(one.place, one.parts) for one in told] == [(0, 3), (1, 3), (2, 3)]
    assert {(one.eid, one.value) for one in told} == {(BUTTON, HexValue(HexType.UINT8, 1))}
    assert names_of(record.tell("b")) == [ALL], "nobody names it by its address"
    assert [one.needs & 7 for one in told] == [7, 6, 4], "none of them needs another one; all, what was before them"


def test_a_sensor_without_conditions_on_its_groups_is_told_of_as_ever() -> None:
    (told,) = Record(house_of({**GROUPS, "c": "none"})).tell("c")
    (plain,) = Record(house_of()).tell("c")
    assert told == plain and len(encode(told)) == 8 + 5 + 1 + 16
    assert names_of(Record(house_of({**GROUPS, "lamp": "all"}, {**KINDS, "lamp": "relay button"})).tell("lamp")) == [
        ALL
    ]


def test_a_value_of_another_type_is_of_no_group() -> None:
    """Programs compare a group with values of one type: another one would end a run with notes of groups left."""
    record = Record(house_of())
    assert names_of(record.tell("a", datatype=HexType.UINT32)) == [house_of().devices["a"].origin]


def test_an_endpoint_with_the_number_of_another_one_and_another_type_is_of_no_group() -> None:
    """A house that is written by hand may have it: the run would end with a note of the group left."""
    text = HouseEndpoint(BUTTON, HexType.STRING)
    devices = dict(house_of().devices)
    for name in "ab":
        devices[name] = HouseDevice(devices[name].origin, {**devices[name].endpoints, "text": text}, frozenset({"all"}))
    turns = Machine("turns", state="off")
    turns.on("off", when(group("all"), "button") == 1, go="on")
    record = Record(House(devices, [turns], MASTER))
    assert record.fold.silent is not None
    record.add(event_of(host("a"), 1, 1, b"", BUTTON, HexValue(HexType.STRING, "1")))
    assert not any(record.fold.silent.memory)
    assert names_of(record.tell("b")) == [ALL] and record.fold.silent.state(0) == "on"


def test_whoever_leads_sends_the_same_bytes_with_the_groups_of_that_time() -> None:
    record = Record(house_of())
    before = record.fold.order.last
    record.tell("a"), record.tell("c")
    wanted = record.items(before)
    again = HouseFold()
    for data in record.records:
        again.fold(decode_record(data, 1), NOW)
    assert [decode(again.order.bytes_of(item)) for item in range(before + 1, again.order.last + 1)] == wanted
    record.add(AllHave(before + 1))  # A part of an event.
    restored = HouseFold()
    assert restored.fold(JournalRecord(record.term, record.fold.snapshot(NOW)), NOW)
    items = range(before + 2, before + len(wanted) + 1)
    assert [decode(restored.order.bytes_of(item)) for item in items] == wanted[1:]
    for other in ({"a": "up", "b": "all"}, {"c": "up all"}):
        record.add(HouseTaken(encode_house(house_of(other))))
    assert len(record.tell("a")) == 1 and len(record.tell("c")) == 3 and len(wanted) == 4


def test_machines_go_on_if_only_groups_of_senders_change() -> None:
    record, lamp = begun(house_of())
    lamp.hear(*record.tell("a"))
    order, silent = record.fold.order, record.fold.silent
    last, members = order.last, dict(order.members)
    record.add(HouseTaken(encode_house(house_of({"a": "all", "b": "all up"}))))
    assert (order.last, order.members, order.since) == (last, members, 2_049) and record.fold.silent is silent
    lamp.hear(*record.tell("a"))
    assert lamp.switched == [True], "a is not in the group any more"
    lamp.hear(*record.tell("b"))
    assert lamp.switched == [True, False], "and b is"
    assert silent is not None and silent.state(0) == "off" and silent.house.devices["b"].groups == {"all", "up"}
    restored = HouseFold()
    assert restored.fold(JournalRecord(record.term, record.fold.snapshot(NOW)), NOW)
    assert restored.snapshot(NOW) == record.fold.snapshot(NOW)
    renamed = {**house_of().devices}
    renamed["button"] = renamed.pop("b")
    for devices, made in (
        (house_of().devices, machines()[:1]),
        (house_of().devices, machines()),
        (renamed, machines()),
    ):
        before = order.last
        record.add(HouseTaken(encode_house(House(devices, made, MASTER))))
        assert order.last == before + 2_048 and not order.members, "others begin"


def test_other_groups_while_items_are_under_way_disturb_no_master() -> None:
    record = Record(house_of())
    record.add(DeviceJoined(host("a")))
    master = HexMaster(record.fold, Term(2, 0), {"fd00::99", host("a")})
    read_all(master, master.begin())
    for number in (7, 8):
        read_all(master, master.heard(HexAddress(host("a")), info(number), NOW))
    first = master.upto + 1
    for item in range(first, first + 3):
        for there in ("fd00::99", host("a")):
            master.heard(HexAddress(there), encode(HexDatagram(AckPacket(record.fold.order.number_of(item)), 1)), NOW)
    assert master.upto == first + 2
    read_all(master, master.read(JournalRecord(BY_HAND, HouseTaken(encode_house(house_of({"b": "all up"})))), NOW))
    assert master.upto == first + 2 and not master.is_quiet
    for wait in range(1, 8):
        read_all(master, master.time_passed(Instant(wait * SECOND)))
    assert record.fold.order.all_have == first + 2


def test_an_event_is_under_way_by_all_its_names_at_once() -> None:
    record = Record(house_of())
    record.add(DeviceJoined(host("a")))
    master = HexMaster(record.fold, Term(2, 0), {"fd00::99", host("a")})
    read_all(master, master.begin())
    sent = read_all(master, master.heard(HexAddress(host("a")), info(7), NOW))
    items = [decode(one) for one in sent]
    assert [one.packet.place for one in items if isinstance(one.packet, PInfoPacket)] == [0, 1, 2]
    assert sum(isinstance(one.packet, AckPacket) for one in items) == 1
    for number in [one.number for one in items if isinstance(one.packet, PInfoPacket)]:
        for there in ("fd00::99", host("a")):
            assert not master.is_quiet
            master.heard(HexAddress(there), encode(HexDatagram(AckPacket(number), 1)), NOW)
    assert master.upto == record.fold.order.last


def info(number: int) -> bytes:
    return encode(HexDatagram(InfoPacket(BUTTON, HexValue(HexType.UINT8, 1)), number, RELIABLE | WANT_UL_ACK))


def read_all(master: HexMaster, effects: list[MasterEffect]) -> list[bytes]:
    """What is put is on record at once; what is sent."""
    sent: list[bytes] = []
    while effects:
        one = effects.pop(0)
        if isinstance(one, PutRecord):
            effects += master.read(one.record, NOW)
        elif isinstance(one, SendDatagram):
            sent.append(one.data)
    return sent


# What devices do.


def test_a_machine_acts_once_for_an_event_with_the_first_transition_that_is_met() -> None:
    house = CompiledHouse(KINDS, machines(), GROUPS)
    assert house.tell("a", "button", 1) == [("lamp", "relay", True)] and house.states()[0] == "on"
    assert house.tell("b", "button", 1) == [] and house.tell("a", "button", 1) == [("lamp", "relay", False)]
    first = Machine("first", state="a")
    first.on("a", when("a", "button") == 1, at("lamp").write("relay", True), go="own")
    first.on("a", when(group("up"), "button") == 1, at("fan").write("relay", True), go="up")
    for made in (first, Machine("second", state="a", transitions=first.transitions[::-1])):
        assert CompiledHouse(KINDS, [made], GROUPS).tell("a", "button", 1) == [
            (one.devices, "relay", True) for one in made.transitions[0].actions
        ]
    row = Machine("row", state="a")
    row.on("a", (when(group("all"), "button") == 1).in_a_row(3), at("lamp").write("relay", True))
    row.on("a", when("a", "button") == 3)
    house = CompiledHouse(KINDS, [row], GROUPS)
    assert [house.tell(one, "button", 1) for one in "aba"] == [[], [], [("lamp", "relay", True)]]


class Acting:
    """The lamp, and what it takes of the order."""

    def __init__(self, house: House) -> None:
        relay = Endpoint(1, "relay", HexType.BOOL, False, is_writable=True)
        core = HexDevice(Endpoints("lamp", (relay,)), MASTER_AT, lambda most: 1)
        self.device = ActingDevice(core, compiled(house, "lamp"))
        self.switched: list[object] = []

    def hear(self, *items: HexDatagram) -> list[list[bytes]]:
        """Origins of the events on which it acts, by each item."""
        found = []
        for one in items:
            effects = self.device.heard(MASTER_AT, encode(one), NOW, is_group=True)
            sent = [decode(each.data).packet for each in effects if isinstance(each, SendDatagram)]
            acks = [each.cause for each in sent if isinstance(each, AckPacket)]
            assert acks == [one.number] or self.device.device.is_recovering
            found.append([each.origin for each in effects if isinstance(each, EventCame)])
            self.switched += [each.value.value for each in sent if isinstance(each, InfoPacket)]
        return found


def begun(house: House) -> tuple[Record, Acting]:
    """A journal and the lamp, behind a first event that nobody acts on."""
    record, lamp = Record(house), Acting(house)
    assert lamp.hear(*record.tell("c", 9))
    return record, lamp


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_a_device_acts_once_all_names_of_an_event_came_in_any_order(order: tuple[int, ...]) -> None:
    record, lamp = begun(house_of())
    items = record.tell("a")
    heard = lamp.hear(*(items[place] for place in order))
    assert heard == [[], [], names_of(items)] and lamp.switched == [True]
    assert lamp.hear(*items) == [[], [], []], "said again, each is acknowledged again"
    (other,) = record.tell("c")
    assert lamp.hear(other) == [names_of([other])]


def test_numbers_of_an_event_go_around() -> None:
    record, lamp = begun(house_of())
    order = record.fold.order
    for field in ("last", "all_have", "since"):
        setattr(order, field, NUMBER_MAX - 2)
    order._items.clear()
    items = [record.tell("c", 9), record.tell("a")]
    assert [one.number for one in items[1]] == [NUMBER_MAX, 1, 2]
    lamp = Acting(house_of())
    assert lamp.hear(*items[0], *items[1][::-1])[1:] == [[], [], names_of(items[1])]


def test_what_is_independent_comes_between_the_names_of_an_event_and_disturbs_nothing() -> None:
    """All orders in which devices may hear of three events, of which two have several names."""
    record, _ = begun(house_of())
    items = [*record.tell("a"), *record.tell("c"), *record.tell("a")]
    needs = [
        {place - before for before in range(1, place + 1) if one.packet.needs >> before - 1 & 1}  # type: ignore[union-attr]
        for place, one in enumerate(items)
    ]
    assert needs[3] == set() and needs[5] == {0, 1, 2}
    found, between = set(), 0
    for order in orders_of(needs):
        other, lamp = begun(house_of())
        lamp.hear(*(items[place] for place in order))
        found.add((lamp.device.memory[:100], tuple(lamp.switched)))
        between += order.index(3) in (1, 2)
    assert len(found) == 1 and found.pop()[1] == (True, False) and between > 0 and other.records


def orders_of(needs: list[set[int]], done: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    if len(done) == len(needs):
        yield done
    for item, wanted in enumerate(needs):
        if item not in done and wanted <= set(done):
            yield from orders_of(needs, (*done, item))


def test_of_an_event_that_a_reset_overtakes_nothing_is_left() -> None:
    record, lamp = begun(house_of())
    items = record.tell("a")
    lamp.hear(items[0], items[2])
    before = record.fold.order.last
    record.add(ResetOrdered("x"))
    lamp.hear(*record.items(before))
    assert lamp.hear(items[1]) == [[]] and lamp.switched == []
    (other,) = record.tell("b")
    assert lamp.hear(other) == [[ALL]] and lamp.switched == [True] and not lamp.device.device._parts


def test_of_an_event_within_which_a_device_failed_nothing_is_left() -> None:
    record, lamp = begun(house_of())
    lamp.hear(record.tell("a")[0])
    lamp.device.start(NOW)
    assert not lamp.device.device._parts and not any(lamp.device.memory)
    record.add(DeviceJoined(host("lamp"), 1, record.fold.order.since))
    assert record.fold.order.members[host("lamp")].behind == record.fold.order.last, "behind all names of the event"


def test_a_trace_tells_an_event_once_by_the_names_of_groups() -> None:
    record = Record(house_of())
    trace = HouseTrace(house_of(), NOW)
    before = record.fold.order.last
    for name in "abca":
        record.tell(name)
    heard = [one for item in record.items(before) for one in trace.heard(MASTER_AT, encode(item), NOW)]
    assert [(one.event, *map(str, one.states)) for one in heard] == [
        ("a.button = 1", "turns: off -> on"),
        ("group(all).button = 1",),
        ("c.button = 1", "other: off -> on"),
        ("a.button = 1", "turns: on -> off"),
    ]
    assert all(one.is_sure and not one.missed for one in heard)


def test_a_trace_that_missed_a_name_of_an_event_says_so() -> None:
    record = Record(house_of())
    trace = HouseTrace(house_of(), NOW)
    before = record.fold.order.last
    record.tell("c"), record.tell("a"), record.tell("c")
    items = [encode(one) for one in record.items(before)]
    heard = [one for data in (*items[:2], *items[3:]) for one in trace.heard(MASTER_AT, data, NOW)]
    heard += trace.time_passed(Instant(10**10))
    assert [(one.event, one.missed, one.is_sure) for one in heard] == [
        ("c.button = 1", 0, True), ("a.button = 1", 1, False), ("c.button = 1", 0, False),
    ]  # fmt: skip


def test_a_device_keeps_no_more_events_that_never_end_than_can_be_under_way() -> None:
    device = HexDevice(Endpoints("d", ()), MASTER_AT, lambda _: 1)
    for number in range(1, 100):
        never = PInfoPacket(BUTTON, HexValue(HexType.UINT8, 1), marked(UP), 0, 0, PARTS_MAX)
        device.heard(MASTER_AT, encode(HexDatagram(never, number, RELIABLE)), NOW)
    assert len(device._parts) == WINDOW and not device.counts["missed"]


def test_a_trace_keeps_no_names_of_an_event_that_never_ends() -> None:
    record = Record(house_of())
    trace = HouseTrace(house_of(), NOW)
    (whole,) = record.tell("b")
    never = PInfoPacket(BUTTON, HexValue(HexType.UINT8, 1), marked(UP), 0xFFFF, 0, PARTS_MAX)
    for number in range(1, 100):
        assert not trace.heard(MASTER_AT, encode(HexDatagram(never, number, RELIABLE)), NOW)
        assert len(trace._parts) == 1
    (told,) = trace.heard(MASTER_AT, encode(HexDatagram(whole.packet, 100, RELIABLE)), NOW)
    assert [str(one) for one in told.states] == ["turns: off -> on"] and not any(trace.states.silent.memory[6:])
