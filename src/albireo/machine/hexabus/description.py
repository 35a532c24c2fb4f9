"""Description of state machines that are distributed over devices: states, and what leads from one to another.

    stairs = Machine("stairs", state="dark")
    stairs.on("dark", when("button_*", "button") == 1, at(group("lamps")).write("relay", True), go="lit", bad="broken")
    stairs.on("lit", after(90), at(group("lamps")).write("relay", False), go="dark")

Of the transitions of a state the first one whose condition is met is taken. Conditions on several endpoints are made
of others with `&`, `|` and `~`: `(when("room", "temperature") < 18) & (when("door", "open") == 0)`. They look at the
last values, each time that one of these endpoints tells of itself.
"""

import math
import re
from typing import Final

from albireo.codec.hexabus.house import (
    EVERY_DAY,
    ClockCondition,
    DeviceGroup,
    Devices,
    EventCondition,
    Number,
    Relation,
    TimeCondition,
    WriteAction,
)

SECONDS_MAX = 1 << 31
WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_TIME: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)", re.ASCII)


class Watched:
    """An endpoint that is compared with a value; what comes of it is a condition."""

    def __init__(self, devices: Devices, endpoint: str) -> None:
        self._devices = devices
        self._endpoint = endpoint

    def _compares(self, relation: Relation, value: object) -> EventCondition:
        return EventCondition(self._devices, self._endpoint, relation, _number(value, self._endpoint))

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
    """Devices that are to do something."""

    def __init__(self, devices: Devices) -> None:
        self._devices = devices

    def write(self, endpoint: str, value: Number) -> WriteAction:
        """Give an endpoint of each of them a value. Raises TypeError: it is no number."""
        return WriteAction(self._devices, endpoint, _number(value, endpoint))


def _number(value: object, endpoint: str) -> Number:
    if not isinstance(value, bool | int | float) or (isinstance(value, float) and not math.isfinite(value)):
        raise TypeError(f"{endpoint} is compared with or becomes {value!r}, which is no number")
    return value


def group(name: str) -> DeviceGroup:
    """All devices of a group."""
    return DeviceGroup(name)


def when(devices: Devices, endpoint: str) -> Watched:
    """An endpoint of a device, of any that a pattern means, or of a group: `when("button_1", "button") == 1`."""
    return Watched(devices, endpoint)


def at(devices: Devices) -> Meant:
    """Devices by name, by a pattern such as `lamp_*`, or by group."""
    return Meant(devices)


def after(seconds: int) -> TimeCondition:
    """So many seconds in a state. Raises ValueError: they are none."""
    if not 0 < seconds < SECONDS_MAX:
        raise ValueError(f"{seconds} seconds are no time to wait")
    return TimeCondition(seconds)


def clock(time: str, days: str = "") -> ClockCondition:
    """A local time of day is reached.

    Args:
        time: such as `06:30`.
        days: such as `mon-fri`, or `sat,sun`; empty: every day.
    Raises:
        ValueError: there is no such time, or day.
    """
    found = _TIME.fullmatch(time)
    if found is None:
        raise ValueError(f"{time!r} is no time of day such as '06:30'")
    mask = 0
    for span in days.split(",") if days else ():
        ends = [WEEKDAYS.index(one) for one in span.strip().split("-") if one in WEEKDAYS]
        if len(ends) != span.count("-") + 1 or len(ends) > 2:
            raise ValueError(f"{days!r} are no days such as 'mon-fri' or 'sat,sun'")
        for day in range(ends[0], ends[0] + (ends[-1] - ends[0]) % 7 + 1):
            mask |= 1 << day % 7
    return ClockCondition(int(found[1]) * 60 + int(found[2]), mask or EVERY_DAY)
