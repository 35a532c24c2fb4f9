"""Silent machine: the whole distributed machine at the master, which knows every state and tells of time.

It runs the program that writes nothing, on the events in their order, as each device runs its own.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv6Address
from typing import Final

from albireo.codec.hexabus.house import House, decode_house, encode_house
from albireo.codec.hexabus.journal import EventTaken, HouseSnapshot, JournalEntry, ResetOrdered
from albireo.codec.hexabus.program import decode_program
from albireo.codec.hexabus.values import HexType, HexValue, decode_value, encode_value
from albireo.machine.hexabus.clocks import HouseClocks, LocalTime
from albireo.machine.hexabus.compiler import (
    ALL_BYTES_MAX,
    MACHINE_BYTES,
    SOURCE_AT,
    TIMER,
    HouseTimer,
    compiled,
    outputs_of,
    timers_of,
)
from albireo.machine.hexabus.meaning import meaning_of
from albireo.machine.hexabus.names import EventNames
from albireo.machine.hexabus.vm import SmEvent, SmMachine
from albireo.model.instant import SECOND, Instant, soonest

HOUSES_KEPT: Final = 4
"""Houses that need not be compiled again."""
_STATE = struct.Struct("<BH")


@lru_cache(maxsize=HOUSES_KEPT)
def _compiled(house: bytes) -> bytes:
    return compiled(decode_house(house), None)


class SilentMachine:
    """States of all machines of a house, and what is due."""

    def __init__(self, house: House, now: Instant, local: LocalTime | None = None) -> None:
        """
        Args:
            local: the local time; None: no machine waits for a time of day.
        Raises:
            CompileError: the house can't be run.
            ValueError: a machine waits for a time of day, and nobody tells it.
        """
        program = decode_program(_compiled(encode_house(house)), ALL_BYTES_MAX)
        assert program is not None
        self.house = house
        self.names = EventNames(house.devices, meaning_of(house))
        self._outputs = outputs_of(house)
        self._written: dict[int, HexValue] = {}
        """Values that machines wrote last, by the number of the output."""
        self._machine = SmMachine(program, self._wrote)
        self._timers = timers_of(house)
        self._clocks = HouseClocks(house, local, now)
        self._entered = [now] * len(house.machines)
        self._told: set[tuple[HouseTimer, int]] = set()
        """Timers of which was told, with the number of changes at that time."""
        self._begin(now)

    def _begin(self, now: Instant) -> None:
        self._machine.is_first = True
        self._machine.run(SmEvent(self.house.master, 0, HexValue(HexType.BOOL, False)), 0)
        self._entered = [now] * len(self.house.machines)
        self._told.clear()
        self._written.clear()

    def _wrote(self, output: int, value: HexValue) -> None:
        self._written[output] = value

    @property
    def memory(self) -> bytes:
        """Memory of the machines, as each device has it at this place of the order; the source is left out."""
        return bytes(self._machine.memory[:SOURCE_AT])

    def values_of(self, origin: bytes) -> tuple[tuple[int, HexValue], ...]:
        """Values that machines wrote last to endpoints of a device."""
        found = []
        for number, value in self._written.items():
            name, endpoint = self._outputs[number]
            device = self.house.devices[name]
            if device.origin == origin:
                found.append((device.endpoints[endpoint].eid, value))
        return tuple(found)

    def ages(self, now: Instant) -> tuple[int, ...]:
        """Time since each machine entered its state, ns."""
        return tuple(max(0, now - one) for one in self._entered)

    def kept_clocks(self) -> tuple[tuple[int, ...], ...]:
        """Days on which was told of each time of day."""
        return self._clocks.kept()

    def kept_values(self) -> tuple[tuple[int, HexType, bytes], ...]:
        return tuple((one, value.datatype, encode_value(value)) for one, value in self._written.items())

    def restore(self, kept: HouseSnapshot, now: Instant) -> None:
        """Be as a silent machine was at the place of the snapshot."""
        self._machine.resume(kept.memory)
        self._entered = [Instant(now - age) for age in kept.ages_ns]
        self._clocks.restore(kept.clocks)
        self._written = {one: decode_value(datatype, value, 0) for one, datatype, value in kept.values}

    def folded(self, entry: JournalEntry, now: Instant) -> None:
        """The next entry of the journal."""
        if isinstance(entry, ResetOrdered):
            self._begin(now)
        elif isinstance(entry, EventTaken):
            self.took(SmEvent(IPv6Address(entry.host).packed, entry.eid, entry.told), now)

    def state(self, index: int) -> str:
        """State of a machine."""
        return self.house.machines[index].states[self._at(index)[0]]

    def took(self, event: SmEvent, now: Instant) -> None:
        """The next event of the order, of a device or of time."""
        self.heard(self.names.of(event), now)

    def heard(self, events: Sequence[SmEvent], now: Instant) -> None:
        """The next event of the order, by all its names."""
        event = events[-1]
        told = event.value.value
        if event.origin == self.house.master and event.eid == TIMER and isinstance(told, int):
            self._clocks.took(told)
            self._told.update(one for one in self._waiting() if one[0].value(one[1]) == told)
        before = [self._at(index) for index in range(len(self._entered))]
        for one in events:
            self._machine.run(one, 0)
        for index, was in enumerate(before):
            if self._at(index) != was:
                self._entered[index] = now
                self._told = {one for one in self._told if one[0].machine != index}

    def due(self, now: Instant) -> list[SmEvent]:
        """Events of time that the master has to bring into the order now, until they stand there."""
        found = [one for one in self._waiting() if now >= self._at_time(one[0])]
        values = [*(timer.value(changes) for timer, changes in found), *self._clocks.due(now)]
        return [SmEvent(self.house.master, TIMER, HexValue(HexType.UINT32, value)) for value in values]

    def deadline(self) -> Instant | None:
        waiting = min((self._at_time(one) for one, _ in self._waiting()), default=None)
        return soonest(waiting, self._clocks.deadline())

    def _at(self, index: int) -> tuple[int, int]:
        """State of a machine, and how often it changed."""
        state, changes = _STATE.unpack_from(self._machine.memory, MACHINE_BYTES * index)
        return state, changes

    def _at_time(self, timer: HouseTimer) -> Instant:
        return Instant(self._entered[timer.machine] + timer.seconds * SECOND)

    def _waiting(self) -> list[tuple[HouseTimer, int]]:
        found = []
        for timer in self._timers:
            state, changes = self._at(timer.machine)
            if state == timer.state and (timer, changes) not in self._told:
                found.append((timer, changes))
        return found
