"""Parts that tests share: devices with compiled programs, and the silent machine, on one order of events."""

from collections.abc import Mapping, Sequence
from typing import Final

from albireo.codec.hexabus.program import decode_program
from albireo.codec.hexabus.values import HexType, HexValue
from albireo.machine.hexabus.compiler import House, compiled
from albireo.machine.hexabus.description import HouseDevice, HouseEndpoint, HouseMachine
from albireo.machine.hexabus.silent import SilentMachine
from albireo.machine.hexabus.vm import SmEvent, SmMachine
from albireo.model.instant import SECOND, Instant

MASTER: Final = bytes(15) + b"\1"
ENDPOINTS: Final = {
    "relay": HouseEndpoint(1, HexType.BOOL),
    "power": HouseEndpoint(2, HexType.UINT32),
    "temperature": HouseEndpoint(3, HexType.FLOAT),
    "button": HouseEndpoint(4, HexType.UINT8),
    "humidity": HouseEndpoint(5, HexType.FLOAT),
    "code": HouseEndpoint(30, HexType.UINT8),
    "dimmer": HouseEndpoint(80, HexType.UINT8),
}
Writes = list[tuple[str, str, object]]


def devices_of(kinds: Mapping[str, str]) -> dict[str, HouseDevice]:
    """Devices by name, with the endpoints that are named, apart by spaces."""
    return {
        name: HouseDevice(bytes(14) + number.to_bytes(2, "big"), {one: ENDPOINTS[one] for one in endpoints.split()})
        for number, (name, endpoints) in enumerate(kinds.items(), 16)
    }


class CompiledHouse:
    """All machines of a house, run by all its devices."""

    def __init__(self, kinds: Mapping[str, str], machines: Sequence[HouseMachine]) -> None:
        self.house = House(devices_of(kinds), machines, MASTER)
        self.now = Instant(0)
        self.written: Writes = []
        self.machines = {name: self._machine(name) for name in kinds}
        self.silent = SilentMachine(self.house, self.now)

    def _machine(self, name: str) -> SmMachine:
        names = {one.eid: endpoint for endpoint, one in self.house.devices[name].endpoints.items()}

        def write(eid: int, value: HexValue) -> None:
            self.written.append((name, names[eid], value.value))

        program = decode_program(compiled(self.house, name))
        assert program is not None
        return SmMachine(program, write)

    def act(self, event: SmEvent) -> Writes:
        """The next event of the order; what it makes devices write."""
        self.written.clear()
        for machine in self.machines.values():
            assert machine.run(event, 0) is None
        self.silent.took(event, self.now)
        memories = {bytes(one.memory) for one in self.machines.values()}
        assert memories == {bytes(self.silent._machine.memory)}, "all are in the same states"
        return list(self.written)

    def tell(self, device: str, endpoint: str, value: float) -> Writes:
        known = self.house.devices[device]
        one = known.endpoints[endpoint]
        return self.act(SmEvent(known.origin, one.eid, HexValue(one.datatype, value)))

    def wait(self, seconds: int) -> Writes:
        """Let time pass; what is written because of it."""
        self.now = Instant(self.now + seconds * SECOND)
        return [one for event in self.silent.due(self.now) for one in self.act(event)]

    def states(self) -> list[str]:
        return [self.silent.state(index) for index in range(len(self.house.machines))]
