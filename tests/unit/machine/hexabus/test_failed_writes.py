"""Writes that fail: they change no state, the device tells of them, and that leads to a bad state."""

from typing import Final

from albireo.codec.hexabus.packets import RELIABLE, WANT_UL_ACK, HexDatagram, InfoPacket, PInfoPacket, decode, encode
from albireo.codec.hexabus.values import HexType, HexValue
from albireo.machine.hexabus import Machine, at, when
from albireo.machine.hexabus.acting import ActingDevice
from albireo.machine.hexabus.arithmetic import SmError
from albireo.machine.hexabus.compiler import compiled
from albireo.machine.hexabus.device import TO_GROUP, EndpointWritten, HexAddress, HexDevice, SendDatagram
from albireo.machine.hexabus.endpoints import FAILED, RELAY, Endpoint, Endpoints
from albireo.model.instant import Instant
from tests.parts.compiled_house import ENDPOINTS, CompiledHouse, devices_of

KINDS: Final = {"button": "button", "lamp_1": "relay dimmer", "lamp_2": "relay dimmer"}


def light() -> Machine:
    machine = Machine("light", state="off")
    lamps = at("lamp_*")
    machine.on(
        "off", when("button", "button") == 1, lamps.write("relay", True), lamps.write("dimmer", 9), go="on", bad="dark"
    )
    machine.on("on", when("button", "button") == 0, lamps.write("relay", False), go="off")
    machine.on("dark", when("button", "button") == 2, go="off")
    return machine


def test_a_write_that_fails_ends_the_writes_of_its_device_and_leads_to_the_bad_state() -> None:
    house = CompiledHouse(KINDS, [light()])
    house.refused = {("lamp_1", "relay")}
    assert house.tell("button", "button", 1) == [("lamp_2", "relay", True), ("lamp_2", "dimmer", 9)]
    assert house.states() == ["on"]
    (told,) = house.failures
    assert told.eid == FAILED and told.origin == house.house.devices["lamp_1"].origin
    assert told.value == HexValue(HexType.UINT32, ENDPOINTS["relay"].eid)
    assert house.act(told) == [] and house.states() == ["dark"]
    house.tell("button", "button", 2)
    house.refused = {("lamp_2", "dimmer")}
    assert house.tell("button", "button", 1) == [
        ("lamp_1", "relay", True), ("lamp_1", "dimmer", 9), ("lamp_2", "relay", True),
    ]  # fmt: skip
    (told,) = house.failures
    house.act(told)
    assert house.states() == ["dark"]


def test_a_failure_that_is_told_too_late_or_of_something_else_leads_nowhere() -> None:
    house = CompiledHouse({**KINDS, "plug": "relay"}, [light()])
    house.refused = {("lamp_1", "relay")}
    house.tell("button", "button", 1)
    (told,) = house.failures
    for origin, eid, value in ((house.house.devices["plug"].origin, FAILED, 1), (told.origin, FAILED, 2)):
        house.act(type(told)(origin, eid, HexValue(HexType.UINT32, value)))
        assert house.states() == ["on"]
    house.refused = set()
    house.tell("button", "button", 0)
    house.act(told)
    assert house.states() == ["off"]


def test_a_failed_write_of_one_machine_keeps_no_other_one_from_its_state() -> None:
    machines = [light(), Machine("count", state="none")]
    machines[1].on("none", when("button", "button") == 1, at("lamp_1").write("dimmer", 3), go="one", bad="failed")
    house = CompiledHouse(KINDS, machines)
    house.refused = {("lamp_1", "relay")}
    assert ("lamp_1", "dimmer", 3) not in house.tell("button", "button", 1), "the device stopped before"
    assert house.states() == ["on", "one"]
    house.act(house.failures[0])
    assert house.states() == ["dark", "one"], "it is told of the endpoint that failed"


def test_a_device_tells_reliably_of_a_write_that_failed() -> None:
    devices = devices_of(KINDS)
    program = compiled(CompiledHouse(KINDS, [light()]).house, "lamp_1")
    relay = Endpoint(RELAY, "relay", HexType.BOOL, False, is_writable=True, refuses=lambda _: True)
    master = HexAddress("fd00::1")
    device = ActingDevice(HexDevice(Endpoints("lamp_1", (relay,)), master, lambda _: 7), program)
    pressed = PInfoPacket(ENDPOINTS["button"].eid, HexValue(HexType.UINT8, 1), devices["button"].origin)
    effects = device.heard(master, encode(HexDatagram(pressed, 1, RELIABLE | WANT_UL_ACK)), Instant(0), is_group=True)
    told = [decode(one.data) for one in effects if isinstance(one, SendDatagram) and one.to == TO_GROUP]
    assert [one.packet for one in told] == [InfoPacket(FAILED, HexValue(HexType.UINT32, RELAY))]
    assert told[0].flags & RELIABLE and device.deadline() is not None
    assert device.failed == {SmError.WRITE_FAILED: 1} and not any(isinstance(one, EndpointWritten) for one in effects)
    known = device.device.endpoints.find(FAILED)
    assert known is not None and known.value == RELAY and not known.is_writable
