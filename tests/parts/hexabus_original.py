"""Parts that tests share: a device that behaves as the firmware of the original, from the facts that are known of it.

It draws numbers by destination and remembers them by source, has one packet under way with five repetitions from a
second on, no window, and no endpoint for what it is to go on with. It acts on INFO of others too, and its state machine
begins anew when endpoint 9 is written. It shares nothing with our own device but the codec and the byte-code machine.
"""

from collections import deque
from collections.abc import Callable
from ipaddress import IPv6Address
from typing import Final

from albireo.codec.hexabus.packets import (
    CONN_RESET,
    RELIABLE,
    WANT_ACK,
    WANT_UL_ACK,
    AckPacket,
    ErrorPacket,
    HexDatagram,
    HexError,
    HexPacket,
    InfoPacket,
    PInfoPacket,
    QueryPacket,
    ReportPacket,
    WritePacket,
    decode,
    encode,
)
from albireo.codec.hexabus.program import decode_program
from albireo.codec.hexabus.values import HexType, HexValue
from albireo.machine.hexabus.device import TO_GROUP, DeviceEffect, HexAddress, SendDatagram
from albireo.machine.hexabus.endpoints import CONTROL, Endpoint, Endpoints
from albireo.machine.hexabus.vm import SmEvent, SmMachine
from albireo.model.instant import MS, Instant

WAITS: Final = tuple(ms * MS for ms in (1_000, 500, 1_000, 1_500, 2_000, 2_500))
"""Before each of five repetitions, and before it gives up."""
START_UP: Final = WritePacket(CONTROL, HexValue(HexType.UINT8, 1))


class OriginalDevice:
    """The device. Its methods are those of our own."""

    def __init__(self, endpoint: Endpoint, origin: bytes, master: HexAddress, program: bytes, draw: Callable[[], int]):
        self.endpoints = Endpoints("original", (endpoint,))
        self.origin, self.master, self.draw = origin, master, draw
        self._program = decode_program(program)
        self.resets = 0
        """Times that it began anew because it was told so."""
        self.is_failed = False
        self._begin()
        self._restart()

    def _begin(self) -> None:
        """Its memory of all others is gone."""
        self._numbers: dict[HexAddress, int] = {}
        self._heard: dict[HexAddress, int] = {}
        self._known: set[HexAddress] = set()
        """Ends that have acknowledged something."""
        self._queue: deque[tuple[HexAddress, HexPacket, int]] = deque()
        self._under_way: tuple[HexAddress, int, bytes] | None = None
        self._copies, self._due = 0, Instant(0)
        self._effects: list[DeviceEffect] = []

    def _restart(self) -> None:
        assert self._program is not None
        self.machine = SmMachine(self._program, self._wrote)

    @property
    def device(self) -> "OriginalDevice":
        """Here the device and what acts are one."""
        return self

    @property
    def memory(self) -> bytes:
        return bytes(self.machine.memory)

    @property
    def failed(self) -> bool:
        return self.is_failed

    def deadline(self) -> Instant | None:
        return None if self._under_way is None else self._due

    def start(self, now: Instant) -> list[DeviceEffect]:
        """Power comes."""
        self.is_failed = False
        self._begin()
        self._restart()
        self._put(self.master, START_UP, WANT_ACK, now)
        return self._done(now)

    def changed(self, eid: int, value: HexValue, now: Instant) -> list[DeviceEffect]:
        self._now = now
        self._put(TO_GROUP, InfoPacket(eid, value), WANT_UL_ACK, now)
        return self._done(now)

    def time_passed(self, now: Instant) -> list[DeviceEffect]:
        self._now = now
        if self._under_way is not None and now >= self._due:
            if self._copies == len(WAITS):
                self._under_way, self.is_failed = None, True
                self._queue.clear()
            else:
                to, _, data = self._under_way
                self._effects.append(SendDatagram(to, data))
                self._due = Instant(now + WAITS[self._copies])
                self._copies += 1
        return self._done(now)

    def heard(self, source: HexAddress, data: bytes, now: Instant, *, is_group: bool = False) -> list[DeviceEffect]:
        self._now = now
        datagram = decode(data)
        if self.is_failed:
            self.is_failed = False
            effects = self._effects
            self._begin()
            self._effects = effects
            self._put(self.master, START_UP, WANT_ACK, now)
        packet, number = datagram.packet, datagram.number
        cause = getattr(packet, "cause", None)
        if cause is not None:
            self._acknowledged(source, cause, now)
            return self._done(now)
        if datagram.flags & CONN_RESET:
            self._heard.pop(source, None)
        last = self._heard.get(source)
        is_old = bool(datagram.flags & RELIABLE) and last is not None and (number - last) % 0x10000 in (0, *OLD)
        if datagram.flags & RELIABLE and not is_old:
            self._heard[source] = number
        match packet:
            case PInfoPacket(origin=origin, eid=eid, value=value):
                if source == self.master and (not is_old or number == last):
                    self._say(source, AckPacket(number))
                    if not is_old:
                        self._act(origin, eid, value)
            case InfoPacket(eid=eid, value=value) if not is_old:
                self._act(IPv6Address(source.host).packed, eid, value)
            case WritePacket(eid=eid, value=value):
                error = self.endpoints.write(eid, value)
                if packet == START_UP and not is_old:
                    self.resets += 1
                    self._restart()
                if error is not None and not is_group:
                    self._say(source, ErrorPacket(error, number))
                elif datagram.flags & WANT_ACK:
                    self._say(source, AckPacket(number))
            case QueryPacket(eid=eid) if not is_group:
                one = self.endpoints.find(eid)
                unknown = ErrorPacket(HexError.UNKNOWN_EID, number)
                self._say(source, unknown if one is None else ReportPacket(eid, one.told, number))
        return self._done(now)

    def _done(self, now: Instant) -> list[DeviceEffect]:
        if self._under_way is None and self._queue and not self.is_failed:
            to, packet, flags = self._queue.popleft()
            number = self._numbers[to] = self._numbers.get(to, self.draw()) % 0xFFFF + 1
            flags |= RELIABLE | (0 if to in self._known else CONN_RESET)
            self._under_way = to, number, encode(HexDatagram(packet, number, flags))
            self._effects.append(SendDatagram(to, self._under_way[2]))
            self._copies, self._due = 1, Instant(now + WAITS[0])
        effects, self._effects = self._effects, []
        return effects

    def _put(self, to: HexAddress, packet: HexPacket, flags: int, now: Instant) -> None:
        self._now = now
        self._queue.append((to, packet, flags))

    def _say(self, to: HexAddress, packet: HexPacket) -> None:
        self._effects.append(SendDatagram(to, encode(HexDatagram(packet, self._numbers.get(to, 0)))))

    def _acknowledged(self, source: HexAddress, cause: int, now: Instant) -> None:
        if self._under_way is not None and source == self.master and cause == self._under_way[1]:
            self._known.add(self._under_way[0])
            self._under_way = None

    def _act(self, origin: bytes, eid: int, value: HexValue) -> None:
        self.machine.run(SmEvent(origin, eid, value), 0)

    def _wrote(self, eid: int, value: HexValue) -> HexError | None:
        error = self.endpoints.write(eid, value)
        if error is None:
            self._effects.append(SendDatagram(TO_GROUP, encode(HexDatagram(InfoPacket(eid, value), 0))))
        return error


OLD: Final = range(0x8000, 0x10000)
"""Distances of a number from the last one that lie behind it."""
