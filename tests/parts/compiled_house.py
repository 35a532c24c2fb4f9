"""Parts that tests share: devices with compiled programs, and the silent machine, on one order of events."""

from collections.abc import Mapping, Sequence
from typing import Final

from albireo.codec.hexabus.house import House, HouseDevice, HouseEndpoint, HouseMachine
from albireo.codec.hexabus.packets import HexError
from albireo.codec.hexabus.program import decode_program
from albireo.codec.hexabus.values import HexType, HexValue
from albireo.machine.hexabus.arithmetic import SmError
from albireo.machine.hexabus.compiler import compiled
from albireo.machine.hexabus.endpoints import FAILED
from albireo.machine.hexabus.silent import SilentMachine
from albireo.machine.hexabus.vm import SmEvent, SmMachine
from albireo.model.instant import SECOND, Instant

MASTER: Final = bytes(15) + b"\1"
DAY: Final = 86_400
MONDAY: Final = 4 * DAY
"""The first Monday of 1970, at midnight."""
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


def devices_of(kinds: Mapping[str, str], groups: Mapping[str, str] | None = None) -> dict[str, HouseDevice]:
    """Devices by name, with the endpoints and the groups that are named, apart by spaces."""
    groups = groups or {}
    return {
        name: HouseDevice(
            bytes(14) + number.to_bytes(2, "big"),
            {one: ENDPOINTS[one] for one in endpoints.split()},
            frozenset(groups.get(name, "").split()),
        )
        for number, (name, endpoints) in enumerate(kinds.items(), 16)
    }


class CompiledHouse:
    """All machines of a house, run by all its devices."""

    def __init__(
        self,
        kinds: Mapping[str, str] | Mapping[str, HouseDevice],
        machines: Sequence[HouseMachine],
        groups: Mapping[str, str] | None = None,
        local_s: int = MONDAY,
    ) -> None:
        """
        Args:
            kinds: devices, or what `devices_of` makes devices of.
            local_s: the local time, seconds since 1970; it goes on with `wait`.
        """
        known = {name: one for name, one in kinds.items() if isinstance(one, HouseDevice)}
        told = {name: one for name, one in kinds.items() if isinstance(one, str)}
        self.house = House(known or devices_of(told, groups), machines, MASTER)
        self.now = Instant(0)
        self.local_s = local_s
        self.written: Writes = []
        self.refused: set[tuple[str, str]] = set()
        """Devices with endpoints that can't be written."""
        self.failures: list[SmEvent] = []
        """What devices told of failed writes, in the last event."""
        self.machines = {name: self._machine(name) for name in kinds}
        self.silent = SilentMachine(self.house, self.now, lambda now: self.local_s)

    def _machine(self, name: str) -> SmMachine:
        known = self.house.devices[name]
        names = {one.eid: endpoint for endpoint, one in known.endpoints.items()}

        def write(eid: int, value: HexValue) -> HexError | None:
            if (name, names[eid]) in self.refused:
                self.failures.append(SmEvent(known.origin, FAILED, HexValue(HexType.UINT32, eid)))
                return HexError.INVALID_VALUE
            self.written.append((name, names[eid], value.value))
            return None

        program = decode_program(compiled(self.house, name))
        assert program is not None
        return SmMachine(program, write)

    def act(self, event: SmEvent) -> Writes:
        """The next event of the order; what it makes devices write."""
        self.written.clear()
        self.failures.clear()
        *before, last = self.silent.names.of(event)
        assert not any(machine.run(one, 0) for one in before for machine in self.machines.values())
        errors = [machine.run(last, 0) for machine in self.machines.values()]
        assert errors.count(SmError.WRITE_FAILED) == len(self.failures) == len(errors) - errors.count(None)
        self.silent.took(event, self.now)
        memories = {bytes(one.memory) for one in self.machines.values()}
        assert memories == {bytes(self.silent._machine.memory)}, "all are in the same states"
        return list(self.written)

    def event(self, device: str, endpoint: str, value: float) -> SmEvent:
        known = self.house.devices[device]
        one = known.endpoints[endpoint]
        return SmEvent(known.origin, one.eid, HexValue(one.datatype, value))

    def tell(self, device: str, endpoint: str, value: float) -> Writes:
        return self.act(self.event(device, endpoint, value))

    def wait(self, seconds: int) -> Writes:
        """Let time pass; what is written because of it."""
        self.now = Instant(self.now + seconds * SECOND)
        return self.set_clock(self.local_s + seconds)

    def set_clock(self, local_s: int) -> Writes:
        """Have the local time be another one; what is written because of it."""
        self.local_s = local_s
        return [one for event in self.silent.due(self.now) for one in self.act(event)]

    def states(self) -> list[str]:
        return [self.silent.state(index) for index in range(len(self.house.machines))]
