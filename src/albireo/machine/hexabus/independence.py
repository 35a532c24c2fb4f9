"""Independence: which events may be under way together, because no machine that one touches depends on the other.

Machines are in one class if they write to one device. An event touches the classes of all machines that look at its
endpoint. Events that touch no common class lead to the same states and writes in either order.
"""

from fnmatch import fnmatchcase

from albireo.codec.hexabus.values import HexScalar
from albireo.machine.hexabus.compiler import TIMER, House
from albireo.machine.hexabus.description import EventCondition, HouseMachine


class Independence:
    """Classes of the machines of a house."""

    def __init__(self, house: House | None) -> None:
        """`house`: None: there are no machines that are known, and every event depends on every other one."""
        self._is_known = house is not None
        self._touched: dict[tuple[bytes, int], set[int]] = {}
        """Classes of machines that look at an endpoint, by address and number."""
        self._class_of: list[int] = []
        self._master = b""
        if house is not None:
            self._class_of = _classes(house)
            self._master = house.master
            for index, machine in enumerate(house.machines):
                for device, endpoint in _watched(machine):
                    one = house.devices[device]
                    self._touched.setdefault((one.origin, one.endpoints[endpoint].eid), set()).add(
                        self._class_of[index]
                    )

    def touched(self, origin: bytes, eid: int, value: HexScalar) -> tuple[int, ...] | None:
        """Classes that an event touches; None: all."""
        if not self._is_known:
            return None
        if eid == TIMER and origin == self._master and isinstance(value, int):
            index = value >> 24
            return tuple(self._class_of[index : index + 1])
        return tuple(sorted(self._touched.get((origin, eid), ())))


def _watched(machine: HouseMachine) -> set[tuple[str, str]]:
    """Devices and endpoints at which a machine looks."""
    return {
        (one.condition.device, one.condition.endpoint)
        for one in machine.transitions
        if isinstance(one.condition, EventCondition)
    }


def _classes(house: House) -> list[int]:
    """Class of each machine: the first machine with which it shares a device to which both write."""
    found: list[int] = list(range(len(house.machines)))
    writers: dict[str, int] = {}
    for index, machine in enumerate(house.machines):
        patterns = {action.devices for one in machine.transitions for action in one.actions}
        for device in house.devices:
            if any(fnmatchcase(device, pattern) for pattern in patterns):
                other = found[writers.setdefault(device, index)]
                own = found[index]
                found = [other if one == own else one for one in found]
    return found
