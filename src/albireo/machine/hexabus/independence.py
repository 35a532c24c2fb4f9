"""Independence: which events may be under way together, because no machine that one touches depends on the other.

Machines are in one class if they write to one device. An event touches the classes of all machines that look at its
endpoint, by the address of the device or by a group. Events that touch no common class lead to the same states and
writes in either order.
"""

from albireo.codec.hexabus.house import House
from albireo.machine.hexabus.clocks import CLOCK
from albireo.machine.hexabus.compiler import TIMER
from albireo.machine.hexabus.meaning import MeantWay, meaning_of, tests_of
from albireo.machine.hexabus.names import EventNames
from albireo.machine.hexabus.vm import SmEvent


class Independence:
    """Classes of the machines of a house."""

    def __init__(self, house: House | None) -> None:
        """
        Args:
            house: None: no machines are known, and every event depends on every other one.
        Raises:
            CompileError: a name means nothing.
        """
        self._master = None if house is None else house.master
        self._touched: dict[tuple[bytes, int], set[int]] = {}
        """Classes of machines that look at an endpoint, by address and number."""
        ways = [] if house is None else meaning_of(house)
        self.names = EventNames({} if house is None else house.devices, ways)
        self._class_of = _classes(ways)
        for index, own in enumerate(ways):
            for source in {test.source for way in own for test in tests_of(way.condition)}:
                self._touched.setdefault((source.origin, source.eid), set()).add(self._class_of[index])

    def touched(self, event: SmEvent) -> tuple[int, ...] | None:
        """Classes that an event touches; None: all."""
        if self._master is None:
            return None
        value = event.value.value
        if event.eid == TIMER and event.origin == self._master and isinstance(value, int):
            index = value >> 24
            return None if index == CLOCK else tuple(self._class_of[index : index + 1])
        found = (self._touched.get((one, event.eid), ()) for one in self.names.ids(event))
        return tuple(sorted(set().union(*found)))


def _classes(machines: list[list[MeantWay]]) -> list[int]:
    """Class of each machine: the first machine with which it shares a device to which both write."""
    found = list(range(len(machines)))
    writers: dict[str, int] = {}
    for index, ways in enumerate(machines):
        for device in {write.device for way in ways for write in way.writes}:
            other, own = found[writers.setdefault(device, index)], found[index]
            found = [other if one == own else one for one in found]
    return found
