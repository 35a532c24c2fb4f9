"""Houses of the world: eight devices, six machines with a timer, a time of day, groups, a condition on two devices."""

from functools import lru_cache
from ipaddress import IPv6Address
from typing import Final

from albireo.codec.hexabus.house import DeviceGroup, House, HouseDevice, HouseEndpoint, encode_house
from albireo.codec.hexabus.values import HexType
from albireo.machine.hexabus import Machine, after, at, clock, group, when
from albireo.machine.hexabus.clocks import CLOCK
from albireo.machine.hexabus.compiler import TIMER, compiled
from albireo.machine.hexabus.device import HexAddress
from albireo.machine.hexabus.endpoints import RELAY, Endpoint
from albireo.model.instant import SECOND, Instant

MASTER: Final = HexAddress("fd00::1")
CODE: Final = 30
DIM: Final = 80
HIGH: Final = 1_000_000
"""Codes from here on mean: on. Below it each code is another one, too, so no two events are alike."""
KINDS: Final = {
    "door": ("code",),
    "hall": ("code",),
    "room": ("code",),
    "lamp_1": ("relay", "code"),
    "lamp_2": ("relay",),
    "night": ("relay",),
    "guard": ("relay",),
    "fan": ("relay", "dim"),
}
SENSORS: Final = tuple(name for name, kinds in KINDS.items() if "code" in kinds)
HOSTS: Final = {name: f"fd00::{number:x}" for number, name in enumerate(KINDS, 16)}
ADDRESSES: Final = {host: HexAddress(host) for host in (MASTER.host, *HOSTS.values())}
NAMES: Final = {host: name for name, host in HOSTS.items()}
_KNOWN: Final = {
    "code": HouseEndpoint(CODE, HexType.UINT32),
    "relay": HouseEndpoint(RELAY, HexType.BOOL),
    "dim": HouseEndpoint(DIM, HexType.UINT8),
}
TOUCHED: Final = {
    HOSTS["door"]: {"stairs", "guard", "turn"},
    HOSTS["hall"]: {"night", "guard", "turn"},
    HOSTS["room"]: {"fan"},
    HOSTS["lamp_1"]: {"fan"},
}
"""Machines that look at a device, by what they have in common: two of them write to the fan."""
_TIMED: Final = ("stairs", "fan")


def endpoints(name: str) -> tuple[Endpoint, ...]:
    """Endpoints of a device that has just got power."""
    found = []
    for kind in KINDS[name]:
        known = _KNOWN[kind]
        value = False if known.datatype is HexType.BOOL else 0
        found.append(Endpoint(known.eid, kind, known.datatype, value, is_writable=kind != "code"))
    return tuple(found)


def groups_of(name: str, variant: int) -> frozenset[str]:
    """Groups of a device, all named by conditions. The door is in another one in some houses."""
    ways = {"way", "inside"} if name == "hall" or variant >= 2 else {"way"}
    return frozenset({"door": ways, "hall": ways, "room": {"warm"}}.get(name, ()))


def names_of(host: str, variant: int) -> frozenset[bytes]:
    """By what is told of an event of a device, or of time, read from the words of the house."""
    ids = [DeviceGroup(one).id for one in groups_of(NAMES.get(host, ""), variant)]
    return frozenset(ids if host == HOSTS["room"] else [*ids, IPv6Address(host).packed])


@lru_cache(maxsize=8)
def house(variant: int) -> House:
    """Devices and machines. `variant`: houses differ in what they write, and in places of states; by 2 in groups."""
    lamps, level = ("lamp_1", "lamp_2")[:: 1 if variant % 2 else -1], 10 + variant % 2
    stairs = Machine("stairs", state="dark")
    stairs.on("dark", when("door", "code") >= HIGH, at("lamp_*").write("relay", True), go="lit")
    stairs.on("lit", after(2), *[at(one).write("relay", False) for one in lamps], go="dark")
    guard = Machine("guard", state="off")
    both = (when("door", "code") >= HIGH) & (when("hall", "code") >= HIGH)
    guard.on("off", both, at("guard").write("relay", True), go="on")
    guard.on("on", when("hall", "code") < HIGH, at("guard").write("relay", False), go="off")
    night = Machine("night", state="day")
    night.on("day", clock("00:00"), at("night").write("relay", True), go="night")
    night.on("night", when("hall", "code") >= HIGH, at("night").write("relay", False), go="day")
    fan = Machine("fan", state="off")
    fan.on("off", when(group("warm"), "code") >= HIGH, at("fan").write("relay", True), go="on")
    fan.on("on", when(group("warm"), "code") < HIGH, go="slow")
    fan.on("slow", after(1), at("fan").write("relay", False), go="off")
    dim = Machine("dim", state="low")
    dim.on("low", when("lamp_1", "code") >= HIGH, at("fan").write("dim", level), go="high")
    dim.on("high", when("lamp_1", "code") < HIGH, at("fan").write("dim", 1), go="low")
    turn = Machine("turn", state="left")
    turn.on("left", when(group("way"), "code") >= HIGH, go="right")
    turn.on("right", when(group("inside"), "code") >= HIGH, go="left")
    machines = [stairs, fan, turn, guard, night, dim] if variant % 2 else [dim, stairs, guard, turn, night, fan]
    devices = {
        name: HouseDevice(
            IPv6Address(HOSTS[name]).packed, {kind: _KNOWN[kind] for kind in kinds}, groups_of(name, variant)
        )
        for name, kinds in KINDS.items()
    }
    return House(devices, machines, IPv6Address(MASTER.host).packed)


@lru_cache(maxsize=8)
def encoded(variant: int) -> tuple[bytes, dict[str, bytes]]:
    """A house, and the programs of its devices."""
    one = house(variant)
    return encode_house(one), {name: compiled(one, name) for name in KINDS}


def touched(host: str, eid: int, value: object, variant: int) -> frozenset[str]:
    """Machines that an event touches, read from the words of the house; those of all for a time of day."""
    if host != MASTER.host:
        return frozenset(TOUCHED[host])
    assert eid == TIMER and isinstance(value, int)
    if value >> 24 == CLOCK:
        return frozenset().union(*TOUCHED.values())
    return frozenset({house(variant).machines[value >> 24].name} & set(_TIMED))


def local_s(now: Instant) -> int:
    """Local time; ten seconds after the world begins it is midnight."""
    return 86_400 * 20_000 - 10 + now // SECOND
