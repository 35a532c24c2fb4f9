"""Description of state machines that are distributed over devices: states, and what leads from one to another.

    stairs = Machine("stairs", state="dark")
    stairs.on("dark", when("button_1", "button") == 1, at("lamp_*").write("relay", True), go="lit")
    stairs.on("lit", after(90), at("lamp_*").write("relay", False), go="dark")

Of the transitions of a state the first one whose condition is met is taken.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from albireo.codec.hexabus.values import HexType

SECONDS_MAX = 1 << 31


class Relation(StrEnum):
    EQUAL = "=="
    UNEQUAL = "!="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="


class EventCondition(msgspec.Struct, frozen=True):
    """A device tells of an endpoint, and its value compares so."""

    device: str
    endpoint: str
    comparison: Relation
    value: bool | int | float


class TimeCondition(msgspec.Struct, frozen=True):
    """The state was entered so many seconds ago."""

    seconds: int


Condition = EventCondition | TimeCondition


class WriteAction(msgspec.Struct, frozen=True):
    """Devices whose names are meant give an endpoint a value."""

    devices: str
    endpoint: str
    value: bool | int | float


class Transition(msgspec.Struct, frozen=True):
    """A way from one state to another."""

    state: str
    condition: Condition
    actions: tuple[WriteAction, ...]
    go: str


class Watched:
    """An endpoint that is compared with a value; what comes of it is a condition."""

    def __init__(self, device: str, endpoint: str) -> None:
        self._device = device
        self._endpoint = endpoint

    def _compares(self, comparison: Relation, value: object) -> EventCondition:
        if not isinstance(value, bool | int | float):
            raise TypeError(f"{self._device}.{self._endpoint} is compared with {value!r}, which is no number")
        return EventCondition(self._device, self._endpoint, comparison, value)

    def __eq__(self, value: object) -> EventCondition:  # type: ignore[override]  # It describes, and does not compare.
        return self._compares(Relation.EQUAL, value)

    def __ne__(self, value: object) -> EventCondition:  # type: ignore[override]
        return self._compares(Relation.UNEQUAL, value)

    def __lt__(self, value: object) -> EventCondition:
        return self._compares(Relation.LESS, value)

    def __le__(self, value: object) -> EventCondition:
        return self._compares(Relation.LESS_OR_EQUAL, value)

    def __gt__(self, value: object) -> EventCondition:
        return self._compares(Relation.GREATER, value)

    def __ge__(self, value: object) -> EventCondition:
        return self._compares(Relation.GREATER_OR_EQUAL, value)

    __hash__ = None  # type: ignore[assignment]  # It is no value.


class Meant:
    """Devices that are meant by a name, or a pattern with `*`."""

    def __init__(self, devices: str) -> None:
        self._devices = devices

    def write(self, endpoint: str, value: bool | int | float) -> WriteAction:
        return WriteAction(self._devices, endpoint, value)


def when(device: str, endpoint: str) -> Watched:
    """An endpoint of a device, to be compared: `when("button_1", "button") == 1`."""
    return Watched(device, endpoint)


def after(seconds: int) -> TimeCondition:
    """So many seconds in a state. Raises ValueError: they are none."""
    if not 0 < seconds < SECONDS_MAX:
        raise ValueError(f"{seconds} seconds are no time to wait")
    return TimeCondition(seconds)


def at(devices: str) -> Meant:
    """Devices by name, or by a pattern such as `lamp_*`."""
    return Meant(devices)


class HouseMachine:
    """A state machine."""

    def __init__(self, name: str, state: str) -> None:
        """`state`: the one in which it begins."""
        self.name = name
        self.first = state
        self.transitions: list[Transition] = []

    def on(self, state: str, condition: Condition, *actions: WriteAction, go: str = "") -> None:
        """Have a condition lead from a state to another one, or back to itself.

        Args:
            actions: what is written on the way.
            go: the state that is entered; empty: the same.
        """
        self.transitions.append(Transition(state, condition, actions, go or state))

    @property
    def states(self) -> list[str]:
        """All states, the first one first."""
        named = [self.first, *(name for one in self.transitions for name in (one.state, one.go))]
        return list(dict.fromkeys(named))


class HouseEndpoint(msgspec.Struct, frozen=True):
    """An endpoint of a device as programs know it."""

    eid: int
    datatype: HexType


class HouseDevice(msgspec.Struct, frozen=True):
    """A device as programs know it."""

    origin: bytes
    """Its IPv6 address, 16 bytes."""
    endpoints: Mapping[str, HouseEndpoint]
