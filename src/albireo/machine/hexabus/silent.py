"""Silent machine: the whole distributed machine at the master, which knows every state and tells of time.

It runs the program that writes nothing, on the events in their order, as each device runs its own.
"""

import struct
from ipaddress import IPv6Address

from albireo.codec.hexabus.house import House
from albireo.codec.hexabus.journal import EventTaken, JournalEntry, ResetOrdered
from albireo.codec.hexabus.program import decode_program
from albireo.codec.hexabus.values import HexType, HexValue
from albireo.machine.hexabus.clocks import HouseClocks, LocalTime
from albireo.machine.hexabus.compiler import MACHINE_BYTES, TIMER, HouseTimer, compiled, timers_of
from albireo.machine.hexabus.vm import SmEvent, SmMachine
from albireo.model.instant import SECOND, Instant, soonest

_STATE = struct.Struct("<BH")


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
        program = decode_program(compiled(house, None))
        assert program is not None
        self.house = house
        self._machine = SmMachine(program, lambda _, __: None)
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
        """The next event of the order."""
        if event.origin == self.house.master and event.eid == TIMER and isinstance(event.value.value, int):
            self._clocks.took(event.value.value)
        before = [self._at(index) for index in range(len(self._entered))]
        self._machine.run(event, 0)
        for index, was in enumerate(before):
            if self._at(index) != was:
                self._entered[index] = now
                self._told = {one for one in self._told if one[0].machine != index}

    def due(self, now: Instant) -> list[SmEvent]:
        """Events of time that the master has to bring into the order now; each is told once."""
        found = [one for one in self._waiting() if now >= self._at_time(one[0])]
        self._told.update(found)
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
