"""Devices of the original firmware: they join, fail, and are reset as they come back, alone or with all."""

from collections.abc import Iterable
from ipaddress import IPv6Address
from typing import Final

import pytest

from albireo.codec.hexabus.journal import DeviceJoined, DeviceLeft, ResetOrdered, Term, decode_record
from albireo.codec.hexabus.packets import (
    RELIABLE,
    WANT_ACK,
    AckPacket,
    HexDatagram,
    InfoPacket,
    QueryPacket,
    WritePacket,
    decode,
    encode,
)
from albireo.codec.hexabus.values import HexType, HexValue
from albireo.machine.hexabus.acting import ActingDevice
from albireo.machine.hexabus.asking import QuestionToMany
from albireo.machine.hexabus.compiler import SOURCE_AT, compiled
from albireo.machine.hexabus.device import START_UP, TO_GROUP, HexAddress
from albireo.machine.hexabus.endpoints import BUTTON, RECOVERY, RELAY, Endpoint
from albireo.machine.hexabus.fold import HouseFold
from albireo.machine.hexabus.master import HexMaster, MasterEffect, ProgramAsked
from albireo.machine.hexabus.rows import REPEATS
from tests.parts.hexabus_original import OriginalDevice
from tests.parts.whole_house import HOSTS, KINDS, KNOWN, MASTER, WholeHouse, stairs

ASIDE: Final = HexAddress(MASTER.host, 5_000)
"""Port from which the node asks devices, beside the order."""
ASKED: Final = 50_000
"""Numbers of its questions; those of the order are far below."""
OURS: Final = {"button_1", "button_2", "lamp_1", "lamp_2", "lamp_3"}


class OldHouse(WholeHouse):
    """A house in which some devices have the original firmware, and a network that can be cut."""

    def __init__(self, seed: int, *originals: str, resets_all: bool = False, loss: float = 0.0) -> None:
        self.originals, self.resets_all = originals, resets_all
        self.away: set[str] = set()
        self.questions: dict[str, QuestionToMany] = {}
        self.asked: dict[str, ProgramAsked] = {}
        self.number = ASKED
        super().__init__(seed, loss)

    def _device(self, name: str, kind: str) -> ActingDevice:
        if name not in self.originals:
            return super()._device(name, kind)
        datatype = KNOWN[kind].datatype
        value = False if datatype is HexType.BOOL else 0
        one = Endpoint(KNOWN[kind].eid, kind, datatype, value, is_writable=kind == "relay")
        origin, program = IPv6Address(HOSTS[name].host).packed, compiled(self.house, name)
        made = OriginalDevice(one, origin, MASTER, program, lambda: self.chance.randint(1, 0xFFFF))
        return made  # type: ignore[return-value]  # It is driven alike.

    def _master(self, fold: HouseFold) -> HexMaster:
        self.questions, self.asked = {}, {}
        hosts = {HOSTS[name].host for name in self.originals}
        known = {one.host for one in HOSTS.values()}
        return HexMaster(fold, Term(self.epoch, 0), known, originals=hosts, resets_all=self.resets_all)

    def original(self, name: str) -> OriginalDevice:
        found = self.devices[name]
        assert isinstance(found, OriginalDevice)
        return found

    def lead(self, effects: Iterable[MasterEffect]) -> None:
        """Those of the shell, which resets a device before it says that it runs."""
        for one in effects:
            if isinstance(one, ProgramAsked) and one.resets:
                if one.host not in self.asked:
                    self.asked[one.host] = one
                    self._ask(one.host, START_UP)
            else:
                super().lead([one])

    def _ask(self, host: str, packet: QueryPacket | WritePacket) -> None:
        self.number += 1

        def send(to: HexAddress, data: bytes) -> None:
            self.wire.append((ASIDE, to, data))

        self.questions[host] = QuestionToMany(packet, self.number, [host], send, REPEATS[:6])
        self.questions[host].begin(self.now)

    def step(self) -> None:
        super().step()
        for host, one in list(self.questions.items()):
            one.time_passed(self.now)
            if one.deadline() is not None:
                continue
            del self.questions[host]
            asked = self.asked.pop(host, None)
            if asked is None and one.answers:
                self.lead(self.master.join(host))
            elif asked is not None and one.answers:
                self.lead(self.master.runs(host, asked.program))
        for name in self.originals:  # As the adapter does that hears nothing of an item.
            host = HOSTS[name].host
            if host not in self.master.order.members and host not in self.questions and self.chance.random() < 0.05:
                self._ask(host, QueryPacket(KNOWN[KINDS[name]].eid))

    def arrive(self, source: HexAddress, host: str, data: bytes, *, is_group: bool) -> None:
        if {source.host, host} & {HOSTS[name].host for name in self.away}:
            return
        if host == MASTER.host and getattr(decode(data).packet, "cause", 0) > ASKED:
            for one in self.questions.values():
                one.heard(source, data, self.now)
        else:
            super().arrive(source, host, data, is_group=is_group)

    def rest(self) -> None:
        """Until nobody lacks anything."""
        self.play_until(lambda: len(self.master.order.members) == len(KINDS) and self.is_quiet(), 60)

    def states(self) -> dict[str, str]:
        names = stairs().states
        return {name: names[one.memory[0]] for name, one in self.devices.items()}

    def entries(self) -> list[object]:
        return [decode_record(data, self.epoch).entry for data in self.record]


@pytest.mark.parametrize("resets_all", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_an_original_among_others_acts_on_the_same_order(seed: int, resets_all: bool) -> None:
    house = OldHouse(seed, "lamp_3", "button_1", resets_all=resets_all, loss=0.1)
    house.rest()
    for number in range(3):
        house.press("button_1")
        house.play_until(lambda: house.lights() == [True] * 3, 9)
        if number == 1:
            house.take_over()
        house.play_until(lambda: house.lights() == [False] * 3, 15)
    house.rest()
    assert len({one.memory[:SOURCE_AT] for one in house.devices.values()}) == 1
    pressed = [one for one in house.acted["lamp_1"] if one[1] == BUTTON]
    assert len(pressed) == 3, "one event for each, however often the sensor said it"


def away_while_lit(seed: int, resets_all: bool, *, loses_power: bool) -> OldHouse:
    """An original lamp misses that the light was put on, and comes back."""
    house = OldHouse(seed, "lamp_3", resets_all=resets_all)
    house.rest()
    house.away.add("lamp_3")
    host = HOSTS["lamp_3"].host
    house.press("button_1")
    house.play_until(lambda: host not in house.master.order.members, 12)
    if house.silent_state() == "dark":
        house.press("button_1")
    house.play_until(lambda: house.silent_state() == "lit" and house.master.is_quiet and not house.wire, 3)
    house.away.clear()
    if loses_power:
        house.do("lamp_3", house.devices["lamp_3"].start(house.now))
    house.play_until(lambda: host in house.master.order.members and house.is_quiet(), 3)
    return house


@pytest.mark.parametrize("loses_power", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_an_original_that_comes_back_begins_anew_alone(seed: int, loses_power: bool) -> None:
    house = away_while_lit(seed, False, loses_power=loses_power)
    order = house.master.order
    assert order.members[HOSTS["lamp_3"].host].behind >= order.since, "so says the case"
    assert house.original("lamp_3").resets > 0 and house.states()["lamp_3"] == "dark"
    assert {house.states()[name] for name in OURS - {"lamp_3"}} == {"lit"}, "no other one is reset"
    assert not any(isinstance(one, ResetOrdered) for one in house.entries())
    resets = house.original("lamp_3").resets
    house.take_over()
    house.rest()
    assert house.original("lamp_3").resets == resets, "a takeover resets nobody"
    house.by_hand(ResetOrdered("by hand"))
    house.rest()
    assert set(house.states().values()) == {"dark"}
    assert order.members[HOSTS["lamp_3"].host].behind < house.master.order.since, "the case is over"


@pytest.mark.parametrize("loses_power", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_all_begin_anew_with_an_original_that_comes_back(seed: int, loses_power: bool) -> None:
    house = away_while_lit(seed, True, loses_power=loses_power)
    host = HOSTS["lamp_3"].host
    house.rest()
    assert set(house.states().values()) == {"dark"}
    assert len({one.memory[:SOURCE_AT] for one in house.devices.values()}) == 1
    entries = house.entries()
    joined = max(place for place, one in enumerate(entries) if isinstance(one, DeviceJoined) and one.host == host)
    assert entries[joined + 1] == ResetOrdered(f"{host} is back")
    house.press("button_1")
    house.play_until(lambda: house.lights() == [True] * 3, 6)


def test_an_original_sensor_that_gave_up_goes_on_when_it_hears_of_the_master() -> None:
    house = OldHouse(1, "button_1")
    house.rest()
    house.away.add("button_1")
    house.press("button_1")
    house.play_until(lambda: house.original("button_1").is_failed, 12)
    house.away.clear()
    time = encode(HexDatagram(InfoPacket(0, HexValue(HexType.UINT64, 1)), 0))
    house.wire.append((MASTER, TO_GROUP, time))
    house.rest()
    house.press("button_1")
    house.play_until(lambda: house.lights() == [True] * 3, 6)
    assert not house.original("button_1").is_failed


@pytest.mark.parametrize("is_aside", [True, False])
def test_a_write_of_the_node_makes_no_later_event_look_old_to_an_original(is_aside: bool) -> None:
    """It draws numbers by destination and remembers them by source: the same write from the master's port would."""
    house = OldHouse(2, "lamp_3")
    house.rest()
    for is_first in (True, False):  # The first event since machines began has all forget the numbers before it.
        house.press("button_1")
        house.play_until(lambda: house.lights()[:2] == [True, True], 3)
        if is_first:
            packet = WritePacket(RELAY, HexValue(HexType.BOOL, False))
            flags, source = (WANT_ACK, ASIDE) if is_aside else (WANT_ACK | RELIABLE, MASTER)
            data = encode(HexDatagram(packet, house.master.order.last + 9_000, flags))
            house.do("lamp_3", house.devices["lamp_3"].heard(source, data, house.now))
        house.play_until(lambda: house.lights()[:2] == [False, False] and house.master.is_quiet, 20)
    left = [one for one in house.entries() if isinstance(one, DeviceLeft)]
    assert (left == []) == is_aside, "who takes no event leaves"


def test_an_original_is_not_told_with_what_to_go_on() -> None:
    """It has no endpoint for it; its word that it begins anew is acknowledged once it has joined."""
    house = OldHouse(3, "lamp_3")
    sent: list[bytes] = []
    real = house.arrive

    def arrive(source: HexAddress, host: str, data: bytes, *, is_group: bool) -> None:
        if (source, host) == (MASTER, HOSTS["lamp_3"].host):
            sent.append(data)
        real(source, host, data, is_group=is_group)

    house.arrive = arrive  # type: ignore[method-assign]
    house.do("lamp_3", house.devices["lamp_3"].start(house.now))
    house.rest()
    packets = [decode(data).packet for data in sent]
    assert [type(one) for one in packets] and not [one for one in packets if getattr(one, "eid", 0) == RECOVERY]
    assert any(isinstance(one, AckPacket) for one in packets)
