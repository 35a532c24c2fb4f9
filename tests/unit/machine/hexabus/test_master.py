"""The master, with devices, a lossy group and a journal: the conversations of the seed, and what the original lost."""

import random
from collections import deque
from collections.abc import Callable, Iterable
from ipaddress import IPv6Address
from typing import Final

import pytest

from albireo.codec.hexabus.journal import (
    BY_HAND,
    AllHave,
    DeviceJoined,
    DeviceLeft,
    EventTaken,
    HouseSnapshot,
    JournalEntry,
    JournalRecord,
    LeadTaken,
    ResetOrdered,
    Term,
    decode_record,
    encode_record,
)
from albireo.codec.hexabus.packets import (
    RELIABLE,
    WANT_UL_ACK,
    AckPacket,
    HexDatagram,
    InfoPacket,
    PInfoPacket,
    decode,
    encode,
)
from albireo.codec.hexabus.values import HexScalar, HexType, HexValue
from albireo.machine.hexabus.device import (
    START_UP,
    TO_GROUP,
    BeganAnew,
    DeviceEffect,
    EventCame,
    HexAddress,
    HexDevice,
    SendDatagram,
)
from albireo.machine.hexabus.endpoints import BUTTON, RELAY, Endpoint, Endpoints
from albireo.machine.hexabus.fold import HouseFold
from albireo.machine.hexabus.master import PENDING_OF_ONE_MAX, HexMaster, MasterEffect, PutRecord
from albireo.machine.hexabus.order import EventOrder
from albireo.machine.hexabus.rows import REPEATS
from albireo.model.instant import SECOND, Instant

MASTER: Final = HexAddress("fd00::1")
HOSTS: Final = {"S": HexAddress("fd00::5"), "A": HexAddress("fd00::a"), "B": HexAddress("fd00::b")}
NAMES: Final = {one.host: name for name, one in HOSTS.items()} | {MASTER.host: "M"}


def number(value: int) -> HexValue:
    return HexValue(HexType.UINT8, value)


def all_acted(values: list[int]) -> dict[str, list[int]]:
    return dict.fromkeys(HOSTS, values)


class House:
    """A master with a sensor and two actors; what a test says is lost, once."""

    def __init__(self, *members: str) -> None:
        self.now = Instant(0)
        self.journal: deque[JournalRecord] = deque()
        self.record: list[bytes] = []
        self.epoch = 0
        self.wire: deque[tuple[HexAddress, HexAddress, bytes]] = deque()
        self.devices = {name: self._device() for name in HOSTS}
        self.acted: dict[str, list[HexScalar]] = {name: [] for name in HOSTS}
        self.said: list[str] = []
        self.lost: list[str] = []
        self.is_recording = True
        self.away: set[str] = set()
        """Devices that nothing reaches, and of which nothing comes."""
        self.began_anew: set[str] = set()
        self.loses: Callable[[], bool] = lambda: False
        """Tells whether the next datagram is lost, if no line says so."""
        self.takes_over()
        for name in members or HOSTS:
            self.do(self.master.join(HOSTS[name].host))
        self.run()
        self.said.clear()

    def _device(self) -> HexDevice:
        button, relay = Endpoint(BUTTON, "button", HexType.UINT8, 0), Endpoint(RELAY, "relay", HexType.BOOL, False)
        return HexDevice(Endpoints("d", (button, relay)), MASTER, lambda _: 1)

    def do(self, effects: Iterable[MasterEffect]) -> None:
        for one in effects:
            match one:
                case PutRecord(record):
                    self.journal.append(record)
                case SendDatagram(to, data):
                    self.wire.append((MASTER, to, data))

    def act(self, name: str, effects: Iterable[DeviceEffect]) -> None:
        for one in effects:
            match one:
                case SendDatagram(to, data):
                    self.wire.append((HOSTS[name], to, data))
                case EventCame(value=value):
                    self.acted[name].append(value.value)
                case BeganAnew():
                    self.began_anew.add(name)

    def press(self, name: str, value: int) -> None:
        self.act(name, self.devices[name].changed(BUTTON, number(value), self.now))

    def run(self) -> None:
        """Carry all that is under way; what is put is on record at once, while the journal takes anything."""
        while self.wire or (self.journal and self.is_recording):
            if self.journal and self.is_recording:
                record = self.journal.popleft()
                self.record.append(encode_record(record))
                self.do(self.master.read(record, self.now))
            elif self.wire:
                self.carry(*self.wire.popleft())

    def carry(self, source: HexAddress, to: HexAddress, data: bytes) -> None:
        packet = decode(data)
        kind = type(packet.packet).__name__.removesuffix("Packet").upper()
        there = ["M", *HOSTS] if to == TO_GROUP else [NAMES[to.host]]
        for name in [one for one in there if one != NAMES[source.host]]:
            if kind == "INFO" and name != "M":
                self.act(name, self.devices[name].heard(source, data, self.now, is_group=True))
                continue
            line = f"{NAMES[source.host]}>{name} {kind}({getattr(packet.packet, 'cause', packet.number)})"
            if self.loses() or {name, NAMES[source.host]} & self.away:
                continue
            if line in self.lost:
                self.lost.remove(line)
                self.said.append(f"{line} lost")
            elif name == "M":
                self.said.append(line)
                self.do(self.master.heard(source, data, self.now))
            else:
                self.said.append(line)
                effects = self.devices[name].heard(source, data, self.now, is_group=to == TO_GROUP)
                self.act(name, effects)

    def pass_time(self) -> bool:
        """Go on to the next instant at which somebody does something; False: there is none."""
        machines: list[HexMaster | HexDevice] = [self.master, *self.devices.values()]
        due = [one for machine in machines if (one := machine.deadline()) is not None]
        if not due:
            return False
        self.now = min(due)
        self.do(self.master.time_passed(self.now))
        for name, device in self.devices.items():
            self.act(name, device.time_passed(self.now))
        self.run()
        return True

    def takes_over(self) -> None:
        """The other member leads: it has what is on record, and nothing else."""
        self.journal.clear()
        self.epoch += 1
        fold = HouseFold()
        for data in self.record:
            fold.fold(decode_record(data, self.epoch), self.now)
        self.master = HexMaster(fold, Term(self.epoch, 0), {one.host for one in HOSTS.values()})
        self.order = fold.order
        self.do(self.master.begin())
        self.run()

    @property
    def entries(self) -> list[JournalEntry]:
        return [decode_record(data, self.epoch).entry for data in self.record]


def test_the_simplest_conversation() -> None:
    house = House()
    house.press("S", 7)
    house.run()
    assert house.said == [
        "S>M INFO(1)", "M>S ACK(1)",
        "M>S PINFO(1)", "M>A PINFO(1)", "M>B PINFO(1)", "S>M ACK(1)", "A>M ACK(1)", "B>M ACK(1)",
    ]  # fmt: skip
    assert house.acted == {"S": [7], "A": [7], "B": [7]} and house.master.upto == 1


def test_an_info_is_lost() -> None:
    house = House()
    house.lost = ["S>M INFO(1)"]
    house.press("S", 7)
    house.run()
    assert house.said == ["S>M INFO(1) lost"] and house.pass_time()
    assert house.said[1:3] == ["S>M INFO(1)", "M>S ACK(1)"] and house.acted["B"] == [7]


def test_an_acknowledgement_to_the_sensor_is_lost() -> None:
    """D1: the original gives the event to everybody a second time."""
    house = House()
    house.lost = ["M>S ACK(1)"]
    house.press("S", 7)
    house.run()
    house.said.clear()
    assert house.pass_time()
    assert house.said == ["S>M INFO(1)", "M>S ACK(1)"] and house.acted == {"S": [7], "A": [7], "B": [7]}
    assert house.master.counts["again"] == 1 and not house.pass_time()


def test_a_pinfo_is_lost_and_another_event_waits() -> None:
    house = House()
    house.lost = ["M>B PINFO(1)"]
    house.press("S", 7)
    house.run()
    house.press("S", 8)
    house.run()
    assert house.acted == {"S": [7], "A": [7], "B": []}
    house.said.clear()
    assert house.pass_time()
    assert house.said[:6] == [
        "M>S PINFO(1)", "M>A PINFO(1)", "M>B PINFO(1)", "S>M ACK(1)", "A>M ACK(1)", "B>M ACK(1)",
    ]  # fmt: skip
    assert house.acted == all_acted([7, 8])
    assert house.pass_time() and not house.pass_time() and house.order.all_have == 2, "it is put on record later"


def test_nothing_is_acknowledged_that_is_not_on_record() -> None:
    """D2: the original acknowledges on reception."""
    house = House()
    house.is_recording = False
    house.press("S", 7)
    house.run()
    assert house.said == ["S>M INFO(1)"]
    assert house.pass_time() and "M>S ACK(1)" not in house.said and len(house.journal) == 1
    house.is_recording = True
    house.run()
    assert "M>S ACK(1)" in house.said and house.acted["A"] == [7]


def test_everybody_is_waited_for_from_the_first_event_on_pure_actors_too() -> None:
    """D3, D4: the original waits for anybody at first, and never for a device that tells of nothing."""
    house = House()
    house.lost = ["M>A PINFO(1)", "M>B PINFO(1)"]
    house.press("S", 7)
    house.run()
    assert house.master.upto == 0 and house.pass_time() and house.master.upto == 1
    assert house.acted["A"] == house.acted["B"] == [7]


def test_one_dead_device_stops_the_others_for_as_long_as_it_is_waited_for_and_then_leaves() -> None:
    house = House()
    house.away = {"B"}
    house.press("S", 7)
    house.press("S", 8)
    house.run()
    while house.now < 5.5 * SECOND:
        house.pass_time()
    assert 5.5 * SECOND <= house.now < 5.6 * SECOND and house.acted == {"S": [7, 8], "A": [7, 8], "B": []}
    assert house.order.members.keys() == {HOSTS["S"].host, HOSTS["A"].host}
    assert [one for one in house.entries if isinstance(one, DeviceLeft)] == [DeviceLeft(HOSTS["B"].host, "silent")]


def test_two_sensors_with_one_number_have_an_acknowledgement_each() -> None:
    """D5: on the group each takes the other's."""
    house = House()
    house.lost = ["A>M INFO(1)"]
    house.press("S", 7)
    house.press("A", 8)
    house.run()
    assert [one for one in house.said if one.endswith(" ACK(1)") and one.startswith("M>")] == ["M>S ACK(1)"]
    house.pass_time()
    assert house.acted == all_acted([7, 8])


@pytest.mark.parametrize("datatype", [one for one in HexType if one not in (HexType.STRING, HexType.BYTES16)])
def test_events_of_all_datatypes_are_given_on_as_they_are(datatype: HexType) -> None:
    """D6: the original acknowledges two of them, and gives them to nobody."""
    told: dict[HexType, HexValue] = {
        HexType.BOOL: HexValue(datatype, True),
        HexType.FLOAT: HexValue(datatype, 0.5),
        HexType.BYTES65: HexValue(datatype, bytes(65)),
    }
    value = told.get(datatype, HexValue(datatype, 7))
    house = House("S")
    data = encode(HexDatagram(InfoPacket(77, value), 5, WANT_UL_ACK | RELIABLE))
    house.do(house.master.heard(HOSTS["S"], data, house.now))
    house.run()
    sent = decode(house.order.bytes_of(house.order.last)) if house.master.upto < house.order.last else None
    pinfo = PInfoPacket(77, value, IPv6Address(HOSTS["S"].host).packed)
    entry = next(one for one in house.entries if isinstance(one, EventTaken))
    assert (sent is None or sent.packet == pinfo) and entry.told == value


def test_the_other_member_goes_on_with_the_same_bytes() -> None:
    house = House()
    house.lost = ["M>B PINFO(1)", "M>S ACK(1)"]
    house.press("S", 7)
    house.run()
    before = house.order.bytes_of(1)
    house.takes_over()
    assert house.master.upto == 1 and house.acted["B"] == [7]
    assert decode(before).number == 1
    while house.pass_time():
        pass
    assert house.acted == all_acted([7]), "the sensor said it again, to another master"
    house.press("S", 8)
    house.run()
    assert house.acted == all_acted([7, 8])


def test_an_event_that_was_not_on_record_is_taken_by_whoever_leads_next() -> None:
    house = House()
    house.is_recording = False
    house.press("S", 7)
    house.run()
    house.is_recording = True
    house.takes_over()
    assert house.acted["A"] == []
    while house.pass_time():
        pass
    assert house.acted == all_acted([7])


def test_a_reset_goes_first_and_each_one_counts() -> None:
    house = House()
    house.lost = ["M>B PINFO(1)"]
    house.press("S", 7)
    house.run()
    house.journal.append(JournalRecord(BY_HAND, ResetOrdered("by hand")))
    house.run()
    house.press("S", 8)
    house.run()
    assert house.acted == {"S": [7, 8], "A": [7, 8], "B": [8]} and house.began_anew == set(HOSTS)
    assert "M>B WRITE(2)" in house.said and "M>B PINFO(3)" in house.said
    house.began_anew.clear()
    house.journal.append(JournalRecord(BY_HAND, ResetOrdered("once more")))
    house.run()
    house.press("S", 9)
    house.run()
    assert house.began_anew == set(HOSTS), "no copy of the first one"
    assert house.acted == {"S": [7, 8, 9], "A": [7, 8, 9], "B": [8, 9]}


def test_numbers_go_around() -> None:
    order = EventOrder()
    order.fold(DeviceJoined("fd00::5"))
    order.last = order.all_have = 65_533
    for value in range(4):
        order.fold(
            EventTaken(host="fd00::5", port=1, number=value + 1, eid=4, datatype=HexType.UINT8, value=bytes([value]))
        )
    numbers = [decode(order.bytes_of(item)).number for item in range(65_534, 65_538)]
    assert numbers == [65_534, 65_535, 1, 2]
    assert [order.item_of(one) for one in numbers] == [65_534, 65_535, 65_536, 65_537]
    order.fold(ResetOrdered())
    assert decode(order.bytes_of(65_538)).packet == START_UP and order.item_of(65_535) == 0
    order.fold(AllHave(65_538))
    assert order.all_have == 65_538


def test_a_broken_button_and_strangers_fill_no_journal() -> None:
    house = House()
    house.is_recording = False
    for value in range(1, 200):
        for source in (HOSTS["S"], HexAddress("fd00::77")):
            data = encode(HexDatagram(InfoPacket(BUTTON, number(1)), value, WANT_UL_ACK | RELIABLE))
            house.do(house.master.heard(source, data, house.now))
    assert len(house.journal) == PENDING_OF_ONE_MAX
    assert house.master.counts["strange"] == 199 and house.master.counts["refused"] == 199 - PENDING_OF_ONE_MAX
    assert house.said == []


def test_a_device_that_begins_anew_joins_and_hears_what_comes_from_then_on() -> None:
    house = House()
    house.press("S", 7)
    house.run()
    house.acted = {name: [] for name in HOSTS}
    house.act("B", house.devices["B"].start(house.now))
    house.run()
    assert HOSTS["B"].host in house.order.members and "M>B ACK(1)" in house.said
    house.lost = ["M>B PINFO(2)"]
    house.press("S", 8)
    house.run()
    assert house.master.upto == 1 and house.pass_time() and house.acted["B"] == [8] and house.master.upto == 2


def test_a_device_that_waits_for_a_word_is_called() -> None:
    house = House("S", "A")
    house.away = {"B"}
    house.act("B", house.devices["B"].start(house.now))
    house.press("S", 7)
    house.run()
    while not house.devices["B"].is_failed:
        house.pass_time()
    house.away.clear()
    while house.pass_time():
        pass
    assert HOSTS["B"].host in house.order.members and house.began_anew == {"B"}
    house.press("S", 8)
    house.run()
    assert house.acted == {"S": [7, 8], "A": [7, 8], "B": [8]}


def test_each_entry_is_read_as_it_was_written() -> None:
    entries: list[JournalEntry] = [
        EventTaken(host="fd00::5", port=1, number=2, eid=4, datatype=HexType.BOOL, value=b"\1"),
        DeviceJoined("fd00::5"),
        DeviceLeft("fd00::5", "silent"),
        ResetOrdered("by hand"),
        AllHave(7),
        LeadTaken(),
        HouseSnapshot(
            last=7,
            all_have=6,
            since=1,
            items=(b"x",),
            recent=((1,), None),
            members=(),
            rows=(),
        ),
    ]
    for entry in entries:
        record = JournalRecord(Term(3, 4), entry)
        assert decode_record(encode_record(record), 3) == record


def test_a_device_that_left_and_is_there_again_is_told_to_begin_anew() -> None:
    house = House()
    house.lost = ["B>M ACK(1)" for _ in range(len(REPEATS))]
    house.press("S", 7)
    house.run()
    while house.pass_time():
        pass
    assert DeviceLeft(HOSTS["B"].host, "silent") in house.entries and house.acted["B"] == [7]
    house.press("S", 8)
    house.run()
    assert HOSTS["B"].host in house.order.members and "B>M WRITE(1)" in house.said
    assert house.acted["A"] == [7, 8] and house.devices["B"].counts["missed"] == 0


def test_a_device_that_missed_an_event_does_not_act_on_the_next_one() -> None:
    house = House()
    house.press("S", 7)
    house.run()
    house.lost = ["M>B PINFO(2)" for _ in range(len(REPEATS))]
    house.press("S", 8)
    house.run()
    while DeviceLeft(HOSTS["B"].host, "silent") not in house.entries:
        assert house.pass_time()
    house.press("S", 9)
    house.run()
    assert house.devices["B"].counts["missed"] == 1 and house.acted == {"S": [7, 8, 9], "A": [7, 8, 9], "B": [7]}
    assert HOSTS["B"].host in house.order.members
    house.press("S", 10)
    house.run()
    assert house.acted["B"] == [7, 10]


@pytest.mark.parametrize("seed", range(150))
def test_through_loss_and_takeovers_all_act_on_one_order(seed: int) -> None:
    """No event is acted on twice, in another order, or by some alone; what was acknowledged is acted on."""
    chance = random.Random(seed)
    house = House()
    loss = chance.choice([0.05, 0.2, 0.4])
    house.loses = lambda: chance.random() < loss
    count = 0
    for _ in range(60):
        match chance.choice(["press", "press", "time", "time", "time", "over", "journal"]):
            case "press":
                count += 1
                house.press(chance.choice(["S", "A"]), count)
            case "over" if chance.random() < 0.3:
                house.takes_over()
            case "journal":
                house.is_recording = not house.is_recording
            case _:
                house.pass_time()
        house.run()
    house.loses, house.is_recording = (lambda: False), True
    house.run()
    while house.pass_time():
        pass
    order = [one.told.value for one in house.entries if isinstance(one, EventTaken)]
    assert len(set(order)) == len(order)
    for name, acted in house.acted.items():
        places = [order.index(value) for value in acted]
        assert places == sorted(set(places)), (name, acted, order)
        if name not in house.began_anew:
            assert acted == order, name


def test_a_stranger_does_not_join() -> None:
    house = House()
    stranger = HexAddress("fd00::77")
    house.do(house.master.heard(stranger, encode(HexDatagram(START_UP, 1, RELIABLE)), house.now))
    house.do(house.master.join(stranger.host))
    assert not house.journal and house.master.counts["strange"] == 1 and not house.wire


def test_two_devices_with_one_address_are_told_from_one_that_began_anew() -> None:
    """A copy of an acknowledgement has the same number; another device draws its own."""
    house = House()
    for _ in range(2):
        house.act("A", house.devices["A"].start(house.now))
        house.run()
    for number in range(1, 41):
        house.press("S", number)
        house.run()
        if number <= 20:
            told = house.order.number_of(house.order.last)
            for host, own in (("A", 500), ("B", house.devices["B"]._to_master.number)):
                copy = encode(HexDatagram(AckPacket(told), own))
                house.do(house.master.heard(HOSTS[host], copy, house.now))
        if number in (1, 20, 40):
            assert [house.master.twins.are_two(one.host) for one in HOSTS.values()] == [False, number == 20, False]
