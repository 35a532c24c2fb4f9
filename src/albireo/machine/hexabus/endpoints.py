"""Endpoints of a device: what can be read and written there, with their properties.

Endpoint 0 is the device itself. A property question with the property 0 is answered with the next endpoint, so a client
that begins at 0 finds all of them.

Facts: numbers and rules as the firmware of the last original has them.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from albireo.codec.hexabus.packets import HexError
from albireo.codec.hexabus.values import HexScalar, HexType, HexValue

DEVICE: Final = 0
RELAY: Final = 1
BUTTON: Final = 4
CONTROL: Final = 9
"""Starts and stops the state machine of a device; at the master it asks for a reset."""
PROGRAM: Final = 10
"""Takes programs, in pieces of 65 bytes."""
PROGRAM_ID: Final = 12
"""Tells which program a device has, in 16 bytes."""
LOCAL_TIME: Final = 129
FAILED: Final = 252
"""Tells of an endpoint that the state machine of this device could not write."""
RECOVERY: Final = 253
"""Takes with what a device goes on, from the master alone."""

NEXT_ENDPOINT: Final = 0
NAME: Final = 1
MINIMUM: Final = 2
MAXIMUM: Final = 3
DEFAULT: Final = 4
PROPERTIES: Final = (NAME, MINIMUM, MAXIMUM, DEFAULT)


class Endpoint(msgspec.Struct):
    """An endpoint."""

    eid: int
    name: str
    datatype: HexType
    value: HexScalar
    is_writable: bool = False
    minimum: HexScalar | None = None
    maximum: HexScalar | None = None
    default: HexScalar | None = None
    is_event: bool | None = None
    """Its changes may change the state of a machine, and are told reliably; None: if nobody can write it."""

    def __post_init__(self) -> None:
        if self.is_event is None:
            self.is_event = not self.is_writable

    @property
    def told(self) -> HexValue:
        return HexValue(self.datatype, self.value)

    refuses: Callable[[HexScalar], bool] | None = None
    """Says of a value that it is none that this endpoint can have."""

    def objection(self, asked: HexValue) -> HexError | None:
        """Why it can't be written with this; None: it can."""
        if not self.is_writable:
            return HexError.WRITE_READ_ONLY
        if asked.datatype is not self.datatype:
            return HexError.DATATYPE
        value = asked.value
        if self.refuses is not None and self.refuses(value):
            return HexError.INVALID_VALUE
        low, high = (bound if isinstance(bound, int | float) else None for bound in (self.minimum, self.maximum))
        if isinstance(value, int | float) and not ((low is None or value >= low) and (high is None or value <= high)):
            return HexError.INVALID_VALUE  # A FLOAT that is not a number is in no range.
        return None

    def property(self, property_id: int) -> HexValue | None:
        """A property that it has."""
        match property_id:
            case 1:
                return HexValue(HexType.STRING, self.name)
            case 2 | 3 | 4:
                found = (self.minimum, self.maximum, self.default)[property_id - MINIMUM]
                return None if found is None else HexValue(self.datatype, found)
        return None

    def next_property(self, property_id: int) -> int:
        """The next one that it has behind this; 0: there is none."""
        return next((one for one in PROPERTIES if one > property_id and self.property(one) is not None), 0)


class Endpoints:
    """Endpoints of one device, by number."""

    def __init__(self, name: str, endpoints: tuple[Endpoint, ...]) -> None:
        """`name`: that of the device."""
        own = (
            Endpoint(DEVICE, name, HexType.STRING, name),
            Endpoint(CONTROL, "control", HexType.UINT8, 0, is_writable=True),
        )
        self._of = {one.eid: one for one in (*own, *endpoints)}

    def add(self, one: Endpoint) -> None:
        self._of[one.eid] = one

    def find(self, eid: int) -> Endpoint | None:
        return self._of.get(eid)

    def following(self, eid: int) -> int:
        """The next endpoint behind this one; 0: there is none."""
        return min((one for one in self._of if one > eid), default=0)

    def write(self, eid: int, asked: HexValue) -> HexError | None:
        """Give an endpoint a value. The error that is the answer; None: it has it."""
        one = self._of.get(eid)
        if one is None:
            return HexError.UNKNOWN_EID
        objection = one.objection(asked)
        if objection is None:
            one.value = asked.value
        return objection
