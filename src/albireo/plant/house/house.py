"""The house: thirty devices - stairs, rooms with thermostats, two plugs as one, a standby killer.

button_1..4  lamp_1..8     each button lights two lamps for LIT_S
room_1..6    heater_1..6   a thermostat for each room
box          plug_1, 2     two codes switch both plugs: on, by any device of the group "remotes"; off, by the box
meter        killer, tv    little power for STANDBY_S switches off; the button at the set switches on
"""

from collections.abc import Mapping
from ipaddress import IPv6Address
from typing import Final

from albireo.codec.hexabus.house import House, HouseDevice, HouseEndpoint
from albireo.codec.hexabus.values import HexType
from albireo.machine.hexabus import Machine, after, at, group, when
from albireo.plant.house.device import DeviceTold, EndpointTold

LIT_S: Final = 3
STANDBY_S: Final = 2
STAIRS: Final = 4
ROOMS: Final = 6
ON, OFF = 12, 13
GROUPS: Final = {"box": "remotes"}
_BUTTON: Final = EndpointTold("button", 4, HexType.UINT8)
_RELAY: Final = EndpointTold("relay", 1, HexType.BOOL, is_writable=True)
_TEMPERATURE: Final = EndpointTold("temperature", 3, HexType.FLOAT)
_POWER: Final = EndpointTold("power", 2, HexType.UINT32)
_CODE: Final = EndpointTold("code", 30, HexType.UINT8)


def _kinds() -> Mapping[str, EndpointTold]:
    stairs = range(1, STAIRS + 1)
    rooms = range(1, ROOMS + 1)
    return {
        **{f"button_{one}": _BUTTON for one in stairs},
        **{f"lamp_{one}": _RELAY for one in range(1, 2 * STAIRS + 1)},
        **{f"room_{one}": _TEMPERATURE for one in rooms},
        **{f"heater_{one}": _RELAY for one in rooms},
        "box": _CODE,
        "plug_1": _RELAY,
        "plug_2": _RELAY,
        "meter": _POWER,
        "killer": _RELAY,
        "tv": _BUTTON,
    }


DEVICES: Final = tuple(
    DeviceTold(name, f"fd00::{number:x}", (one,)) for number, (name, one) in enumerate(_kinds().items(), 0x10)
)


def machines() -> list[Machine]:
    """The state machines of the house."""
    made = []
    for one in range(1, STAIRS + 1):
        lamps = [at(f"lamp_{2 * one - 1}"), at(f"lamp_{2 * one}")]
        stairs = Machine(f"stairs_{one}", state="dark")
        on, off = ([lamp.write("relay", is_lit) for lamp in lamps] for is_lit in (True, False))
        stairs.on("dark", when(f"button_{one}", "button") == 1, *on, go="lit")
        stairs.on("lit", after(LIT_S), *off, go="dark")
        made.append(stairs)
    for one in range(1, ROOMS + 1):
        heating, room = Machine(f"heating_{one}", state="off"), f"room_{one}"
        heater = at(f"heater_{one}")
        heating.on("off", when(room, "temperature") < 20.0, heater.write("relay", True), go="on")
        heating.on("on", when(room, "temperature") > 22.0, heater.write("relay", False), go="off")
        made.append(heating)
    plugs = Machine("plugs", state="off")
    plugs.on("off", when(group("remotes"), "code") == ON, at("plug_*").write("relay", True), go="on")
    plugs.on("on", when("box", "code") == OFF, at("plug_*").write("relay", False), go="off")
    standby = Machine("standby", state="off")
    standby.on("off", when("tv", "button") == 1, at("killer").write("relay", True), go="on")
    standby.on("on", when("meter", "power") < 10, go="low")
    standby.on("low", when("meter", "power") >= 10, go="on")
    standby.on("low", after(STANDBY_S), at("killer").write("relay", False), go="off")
    return [*made, plugs, standby]


def house(master: str = "fd00::1") -> House:
    """Devices and machines together."""
    devices = {
        one.name: HouseDevice(
            IPv6Address(one.host).packed,
            {told.name: HouseEndpoint(told.eid, told.datatype) for told in one.endpoints},
            frozenset(GROUPS.get(one.name, "").split()),
        )
        for one in DEVICES
    }
    return House(devices, machines(), IPv6Address(master).packed)


def item_table() -> str:
    """CSV table of all items."""
    lines = ["name,device,address,endpoint,eid,type,groups,writable"]
    for one in DEVICES:
        for told in one.endpoints:
            writable = "true" if told.is_writable else ""
            kind = told.datatype.name.lower()
            where = f"{one.name}_{told.name},{one.name},{one.host},{told.name},{told.eid}"
            lines.append(f"{where},{kind},{GROUPS.get(one.name, '')},{writable}")
    return "\n".join(lines) + "\n"
