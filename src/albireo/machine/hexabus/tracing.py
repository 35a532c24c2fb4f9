"""Trace: the order of events as somebody hears it who only listens, with the names and states of a house.

    item of the order, new --> its place comes --> told, with the states that it changes
    said again --> nothing (D10); one before it lacks --> waits for that; too long --> the gap is told

States are sure behind a reset, or behind the first item of all, until something was missed: else the machines are taken
to be in their first states when the trace begins.
"""

from collections.abc import Sequence
from ipaddress import IPv6Address
from typing import Final

import msgspec

from albireo.codec.errors import DecodeError
from albireo.codec.hexabus.house import DeviceGroup, House, TimeCondition
from albireo.codec.hexabus.journal import ResetOrdered
from albireo.codec.hexabus.packets import (
    CONN_RESET,
    NUMBER_MAX,
    RELIABLE,
    HexDatagram,
    PInfoPacket,
    WritePacket,
    decode,
)
from albireo.codec.hexabus.values import HexScalar
from albireo.machine.hexabus.clocks import CLOCK, LocalTime, clocks_of
from albireo.machine.hexabus.compiler import MACHINE_BYTES, TIMER
from albireo.machine.hexabus.device import START_UP, HexAddress
from albireo.machine.hexabus.endpoints import FAILED
from albireo.machine.hexabus.rows import HALF, WINDOW, following
from albireo.machine.hexabus.silent import SilentMachine
from albireo.machine.hexabus.vm import SmEvent
from albireo.model.decimals import single
from albireo.model.instant import SECOND, Instant

GAP_NS: Final = 2 * SECOND
"""Longest wait for an item that lacks: the master says it again until all devices have it."""


class StateEntered(msgspec.Struct, frozen=True):
    """A machine took a transition."""

    machine: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.machine}: {self.before} -> {self.after}"


class TracedEvent(msgspec.Struct, frozen=True):
    """An item of the order, with what it did."""

    number: int
    event: str
    states: tuple[StateEntered, ...] = ()
    is_sure: bool = True
    """False: the states before it are assumed."""
    missed: int = 0
    """Items right before it that were not heard."""


def value_of(value: HexScalar) -> str:
    """A value as people write it."""
    value = single(value) if isinstance(value, float) else value
    return str(value).lower() if isinstance(value, bool) else value.hex() if isinstance(value, bytes) else str(value)


class TracedStates:
    """Names and states of a house."""

    def __init__(self, house: House, now: Instant, local: LocalTime | None = None) -> None:
        """Raises CompileError: the house can't be run."""
        self.house = house
        self.silent = SilentMachine(house, now, local or (lambda _: 0))
        self._devices = {one.origin: name for name, one in house.devices.items()}
        self._endpoints = {
            (one.origin, told.eid): endpoint
            for one in house.devices.values()
            for endpoint, told in one.endpoints.items()
        }
        for one in house.devices.values():
            for name in one.groups:
                own = DeviceGroup(name).id
                self._devices[own] = f"group({name})"
                self._endpoints |= {(own, told.eid): endpoint for endpoint, told in one.endpoints.items()}

    def took(self, events: Sequence[SmEvent], now: Instant) -> tuple[StateEntered, ...]:
        """The next event of the order, by all its names: the transitions that machines take."""
        machines = self.house.machines
        before = [self.silent.state(index) for index in range(len(machines))]
        memory = self.silent.memory
        self.silent.heard(events, now)
        return tuple(
            StateEntered(one.name, before[index], self.silent.state(index))
            for index, one in enumerate(machines)
            if memory[(at := MACHINE_BYTES * index) : at + MACHINE_BYTES] != self.silent.memory[at : at + MACHINE_BYTES]
        )

    def text_of(self, event: SmEvent) -> str:
        """An event by the names of the house."""
        value = event.value.value
        device = self._devices.get(event.origin, str(IPv6Address(event.origin)))
        if event.origin == self.house.master and event.eid == TIMER and isinstance(value, int):
            return self._time(value)
        if event.eid == FAILED and isinstance(value, int):
            return f"{device} could not write {self._endpoints.get((event.origin, value), value)}"
        return f"{device}.{self._endpoints.get((event.origin, event.eid), event.eid)} = {value_of(value)}"

    def _time(self, value: int) -> str:
        index, number = value >> 24, value >> 16 & 0xFF
        machines, clocks = self.house.machines, clocks_of(self.house)
        if index == CLOCK and number < len(clocks):
            return f"clock {clocks[number].minute // 60:02}:{clocks[number].minute % 60:02}"
        if index < len(machines) and number < len(machines[index].transitions):
            one = machines[index].transitions[number]
            if isinstance(one.condition, TimeCondition):
                return f"{machines[index].name}: {one.condition.seconds} s in {one.state}"
        return f"time {value:#x}, which is none of this house"


class HouseTrace:
    """The trace. Its methods are its events."""

    def __init__(self, house: House, now: Instant) -> None:
        """Raises CompileError: the house can't be run."""
        self.states = TracedStates(house, now)
        self.repeated = 0
        """Copies of items that had been heard."""
        self._master = str(IPv6Address(house.master))
        self._is_sure = False
        self._next = 0
        """Number of the next item; 0: none was heard yet."""
        self._first = b""
        """Item that began the present row."""
        self._held: dict[int, HexDatagram] = {}
        """Items whose place has not come."""
        self._due: Instant | None = None
        self._missed = 0
        """Items that were not heard before what is told next."""
        self._parts: list[SmEvent] = []
        """Names of an event of which further ones follow."""

    def deadline(self) -> Instant | None:
        return self._due

    def heard(self, source: HexAddress, data: bytes, now: Instant) -> list[TracedEvent]:
        """A datagram came to the group; items that are told of now."""
        try:
            datagram = decode(data)
        except DecodeError:
            return []
        is_item = isinstance(datagram.packet, PInfoPacket) or datagram.packet == START_UP
        if source != HexAddress(self._master) or not datagram.flags & RELIABLE or not is_item:
            return []
        found: list[TracedEvent] = []
        number = datagram.number
        if datagram.flags & CONN_RESET and data != self._first:
            found = self._gone_on(now, is_over=True)
            self._first, self._next, self._is_sure = data, number, True
            self.states.silent.folded(ResetOrdered(), now)
        ahead = (number - self._next) % NUMBER_MAX if self._next else 0
        if ahead >= HALF or number in self._held:
            self.repeated += 1
            return found
        self._next = self._next or number
        self._held[number] = datagram
        return found + self._gone_on(now)

    def time_passed(self, now: Instant) -> list[TracedEvent]:
        is_due = self._due is not None and now >= self._due
        return self._gone_on(now, is_over=True) if is_due else []

    def _gone_on(self, now: Instant, *, is_over: bool = False) -> list[TracedEvent]:
        """Items whose place has come; `is_over`: those that lack before the held ones do not come any more."""
        found: list[TracedEvent] = []
        while self._held:
            missed, number = min(((one - self._next) % NUMBER_MAX, one) for one in self._held)
            farthest = max((one - self._next) % NUMBER_MAX for one in self._held)
            if missed and not is_over and farthest < WINDOW:
                self._due = self._due or Instant(now + GAP_NS)
                return found
            self._is_sure = self._is_sure and not missed
            found += self._told(self._held.pop(number), missed, now)
            self._next, self._due = following(number), None
        return found

    def _told(self, item: HexDatagram, missed: int, now: Instant) -> list[TracedEvent]:
        packet = item.packet
        if isinstance(packet, WritePacket):
            self._parts.clear()
            return [TracedEvent(item.number, "reset: all machines begin anew", missed=missed)]
        assert isinstance(packet, PInfoPacket)
        event = SmEvent(packet.origin, packet.eid, packet.value)
        parts, missed = [*([] if missed else self._parts[: packet.place]), event], self._missed + missed
        is_more = packet.place + 1 < packet.parts
        self._parts, self._missed = (parts, missed) if is_more else ([], 0)
        if is_more:
            return []
        states = self.states.took(parts, now)
        return [TracedEvent(item.number, self.states.text_of(event), states, self._is_sure, missed)]
