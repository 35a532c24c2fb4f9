"""Simulation of a house: all programs and the silent machine on one order of events, in time that the caller moves.

The local time begins on a Monday at midnight. There is no network: each event reaches all devices at once.
"""

import re
from typing import Final

import msgspec

from albireo.codec.hexabus.house import House
from albireo.codec.hexabus.journal import ResetOrdered
from albireo.codec.hexabus.packets import HexError
from albireo.codec.hexabus.program import decode_program
from albireo.codec.hexabus.values import HexScalar, HexType, HexValue, encode_value
from albireo.machine.hexabus.compiler import compiled
from albireo.machine.hexabus.description import WEEKDAYS
from albireo.machine.hexabus.endpoints import FAILED
from albireo.machine.hexabus.tracing import StateEntered, TracedStates, value_of
from albireo.machine.hexabus.vm import SmEvent, SmMachine
from albireo.model.instant import SECOND, Instant
from albireo.model.typed_number import number_of, whole_of

DAY_S: Final = 86_400
MONDAY_S: Final = 4 * DAY_S
"""A Monday of 1970, midnight."""
WAIT_S_MAX: Final = 366 * DAY_S
MEANT: Final = "DEVICE.ENDPOINT = VALUE, wait SECONDS, clock HH:MM, refuse DEVICE.ENDPOINT, or reset"
_LINES: Final = {
    "tell": re.compile(r"(?P<device>[^\s=]+)\.(?P<endpoint>[^\s.=]+)\s*=\s*(?P<value>\S+)"),
    "wait": re.compile(r"wait\s+(?P<seconds>[0-9]{1,9})"),
    "clock": re.compile(
        rf"clock\s+(?:(?P<day>{'|'.join(WEEKDAYS)})\s+)?(?P<hour>[01]\d|2[0-3]):(?P<minute>[0-5]\d)", re.ASCII
    ),
    "refuse": re.compile(r"refuse\s+(?P<device>\S+)\.(?P<endpoint>[^\s.]+)"),
    "reset": re.compile(r"reset"),
}


class SimulatedWrite(msgspec.Struct, frozen=True):
    """A device writes an endpoint of its own."""

    endpoint: str
    """With the device: `lamp_1.relay`."""
    value: HexScalar
    is_refused: bool = False

    def __str__(self) -> str:
        return f"{self.endpoint} = {value_of(self.value)}{'  REFUSED' if self.is_refused else ''}"


class SimulatedEvent(msgspec.Struct, frozen=True):
    """An event, with what it did."""

    at_s: float
    """Since the begin."""
    event: str
    states: tuple[StateEntered, ...]
    writes: tuple[SimulatedWrite, ...]


class HouseSimulation:
    """The house."""

    def __init__(self, house: House) -> None:
        """Raises CompileError: it can't be run."""
        self.house = house
        self.now = Instant(0)
        self._states = TracedStates(house, self.now, self._local_s)
        self._refused: set[str] = set()
        self._written: list[SimulatedWrite] = []
        self._failures: list[SmEvent] = []
        for event in self._states.silent.due(self.now):
            self._states.silent.took(event, self.now)  # Times of day before the begin are over.
        self._begin()

    def _begin(self) -> None:
        self._states.silent.folded(ResetOrdered(), self.now)
        self._machines = [self._machine(name) for name in self.house.devices]

    def line(self, line: str) -> list[SimulatedEvent]:
        """Do what a line says; the events of it.

            button_1.button = 1     a device tells of a value
            wait 90                 so many seconds pass
            clock 06:30             time passes until then; `clock sat 06:30` until Saturday
            refuse lamp_1.relay     from here on the device can't write this endpoint
            reset                   all machines begin anew

        Raises:
            ValueError: it says nothing, or names what there is not.
        """
        text = line.partition("#")[0].strip()
        if not text:
            return []
        verb, found = next(((one, met) for one, shape in _LINES.items() if (met := shape.fullmatch(text))), ("", None))
        if found is None:
            raise ValueError(f"{text!r} is no line: write {MEANT}")
        match verb:
            case "tell":
                return self._act(self._event(*found.group("device", "endpoint", "value")))
            case "wait":
                return self._wait(int(found["seconds"]) * SECOND)
            case "clock":
                return self._wait(self._until(found["day"], int(found["hour"]) * 60 + int(found["minute"])))
            case "refuse":
                self._event(found["device"], found["endpoint"], "0")
                self._refused.add(f"{found['device']}.{found['endpoint']}")
                return []
        self._begin()
        return [SimulatedEvent(self.now / SECOND, "reset: all machines begin anew", (), ())]

    def _local_s(self, at: Instant) -> int:
        return MONDAY_S + at // SECOND

    def _machine(self, name: str) -> SmMachine:
        device = self.house.devices[name]
        names = {one.eid: f"{name}.{endpoint}" for endpoint, one in device.endpoints.items()}

        def write(eid: int, value: HexValue) -> HexError | None:
            is_refused = names[eid] in self._refused
            self._written.append(SimulatedWrite(names[eid], value.value, is_refused))
            if is_refused:
                self._failures.append(SmEvent(device.origin, FAILED, HexValue(HexType.UINT32, eid)))
            return HexError.INVALID_VALUE if is_refused else None

        program = decode_program(compiled(self.house, name))
        assert program is not None
        return SmMachine(program, write)

    def _event(self, device: str, endpoint: str, value: str) -> SmEvent:
        """Raises ValueError: there is no such endpoint, or value of it."""
        known = self.house.devices.get(device)
        one = None if known is None else known.endpoints.get(endpoint)
        if known is None or one is None:
            there = f"devices are {', '.join(sorted(self.house.devices))}"
            there = there if known is None else f"{device} has {', '.join(sorted(known.endpoints))}"
            raise ValueError(f"there is no {device}.{endpoint}; {there}")
        try:
            told = HexValue(one.datatype, _read(one.datatype, value))
            encode_value(told)
        except ValueError as error:
            raise ValueError(f"{value} is no {one.datatype.name}, which {device}.{endpoint} is") from error
        return SmEvent(known.origin, one.eid, told)

    def _act(self, event: SmEvent) -> list[SimulatedEvent]:
        """The next event of the order, and those of writes that failed because of it."""
        found, waiting = [], [event]
        while waiting:
            one = waiting.pop(0)
            told = self._states.silent.names.of(one)
            for machine in self._machines:
                for each in told:
                    machine.run(each, 0)
            states = self._states.took(told, self.now)
            own = self._states.silent.memory
            assert all(machine.memory[: len(own)] == own for machine in self._machines)
            found.append(SimulatedEvent(self.now / SECOND, self._states.text_of(one), states, tuple(self._written)))
            waiting += self._failures
            self._written.clear()
            self._failures.clear()
        return found

    def _wait(self, wait_ns: int) -> list[SimulatedEvent]:
        """Raises ValueError: it is too long."""
        if wait_ns > WAIT_S_MAX * SECOND:
            raise ValueError(f"more than {WAIT_S_MAX} seconds are not waited")
        found: list[SimulatedEvent] = []
        end = Instant(self.now + wait_ns)
        while True:
            due = self._states.silent.deadline()
            self.now = end if due is None else min(end, max(self.now, due))
            for event in self._states.silent.due(self.now):
                found += self._act(event)
            due = self._states.silent.deadline()
            if self.now == end and (due is None or due > end):
                return found

    def _until(self, day: str | None, minute: int) -> int:
        """Time until it is so late, on a day of the week."""
        local_s = self._local_s(self.now)
        wait_s = (minute * 60 - local_s) % DAY_S
        weekday = ((local_s + wait_s) // DAY_S + 3) % 7
        days = 0 if day is None else (WEEKDAYS.index(day) - weekday) % 7
        return (wait_s + days * DAY_S) * SECOND


def _read(datatype: HexType, text: str) -> HexScalar:
    """Raises ValueError: it is no such value."""
    if datatype is HexType.BOOL:
        return bool(("false", "true", "0", "1", "off", "on").index(text.lower()) % 2)
    if datatype is HexType.STRING:
        return text
    return number_of(text) if datatype is HexType.FLOAT else whole_of(text)
