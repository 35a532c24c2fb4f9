"""Hexabus: devices, the master that orders their events, and the state machines that are distributed over them."""

from albireo.codec.hexabus.house import HouseMachine as Machine
from albireo.machine.hexabus.description import after, at, clock, group, when

__all__ = ["Machine", "after", "at", "clock", "group", "when"]
