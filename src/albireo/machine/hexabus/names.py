"""Names of an event: ids of the sender's groups and its address, as far as conditions name them. Each has its PINFO.

Those of one event follow each other, the address last. Programs take note of all but the last, and act at that, once.
The last byte of an id says which it is: 0, or MORE. A condition compares the others with its group, so a device joins
or leaves a group without another program (ADR-0258).
"""

from collections.abc import Mapping, Sequence
from typing import Final

from albireo.codec.hexabus.house import DeviceGroup, HouseDevice
from albireo.codec.hexabus.packets import PARTS_MAX
from albireo.codec.hexabus.values import HexType
from albireo.machine.hexabus.meaning import CompileError, EventSource, MeantWay, tests_of
from albireo.machine.hexabus.vm import SmEvent

MORE: Final = 1
"""Last byte of the id of a group behind which further names of the same event come."""


class EventNames:
    """Names of the events of a house."""

    def __init__(self, devices: Mapping[str, HouseDevice], meant: Sequence[Sequence[MeantWay]]) -> None:
        """Raises CompileError: an event has too many."""
        tests = (test for ways in meant for way in ways for test in tests_of(way.condition))
        named = {test.source for test in tests}
        self._ids: dict[tuple[bytes, int, HexType], tuple[bytes, ...]] = {}
        for name, device in devices.items():
            own = (*sorted(DeviceGroup(one).id for one in device.groups), device.origin)
            for endpoint, one in device.endpoints.items():
                found = tuple(each for each in own if EventSource(each, one.eid, one.datatype) in named)
                if len(found) > PARTS_MAX:
                    raise CompileError(f"conditions name {name}.{endpoint} {len(found)} ways, of {PARTS_MAX} at most")
                self._ids[device.origin, one.eid, one.datatype] = found or (device.origin,)

    def ids(self, event: SmEvent) -> tuple[bytes, ...]:
        """By what is told of an event of a device. One whose value is of another type is of no group."""
        return self._ids.get((event.origin, event.eid, event.value.datatype), (event.origin,))

    def of(self, event: SmEvent) -> tuple[SmEvent, ...]:
        """An event of a device as it is told, by each of its names."""
        *before, last = self.ids(event)
        marked = [*(one[:-1] + bytes([MORE]) for one in before), last]
        return tuple(SmEvent(one, event.eid, event.value) for one in marked)
