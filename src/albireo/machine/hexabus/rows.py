"""Rows of numbers: reliable datagrams to one remote end, and from one, in order and once.

    sending     ready --put--> waiting --acknowledged--> ready, or the next of the queue
                                  \\--the last repetition was in vain--> failed --begin--> ready, with nothing queued
    receiving   a number is new, said again, or old; CONN_RESET begins another row

One packet of a row is under way at a time, so there are no holes to be found: a number that was left out was never a
packet. Numbers go from 1 to 65,535 and around; half the circle lies ahead of a number, and half behind it.

Invariants
    once:  what is received as new was not received so before, in this row.
    last:  no number below the last one is acknowledged: it would tell a sensor without memory that a new event is safe.

Spec: third seed, Protocol state machine on the device; ADR-0251.
"""

from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from typing import Final

import msgspec

from albireo.codec.hexabus.packets import CONN_RESET, NUMBER_MAX, RELIABLE, HexDatagram, HexPacket, encode
from albireo.model.instant import MS, Instant

NO_NUMBER: Final = 0
"""Number of no reliable packet."""
HALF: Final = 1 << 15
WINDOW: Final = 16
"""Items of the order that may be under way together."""
RESET_AHEAD: Final = 1_024
"""Items that did not come before a reset: more than wait for devices that are there."""
HOUSE_NUMBERS: Final = 2 * RESET_AHEAD
"""Numbers that other machines take: a device that goes on without them misses too much, even for a reset."""
FIRSTS_MAX: Final = 4
"""Rows of one sender of which the first packet is remembered."""
QUEUE_MAX: Final = 64
"""Packets that wait behind the one under way; one more is refused."""
REPEATS: Final = tuple(ms * MS for ms in (50, 50, 100, 200, 400, 800, 1_600, 2_300))
"""The same of our own devices: the same 5.5 s, with more copies and the first ones soon."""


def following(number: int) -> int:
    """The number after this one."""
    return number % NUMBER_MAX + 1


def is_newer(number: int, than: int) -> bool:
    """Whether a number lies ahead of another one on the circle."""
    return 0 < (number - than) % (NUMBER_MAX + 1) < HALF


class _UnderWay(msgspec.Struct):
    """The packet that waits for its acknowledgement."""

    number: int
    data: bytes
    copies: int
    due: Instant


class SendRow:
    """Reliable packets to one remote end."""

    def __init__(self, send: Callable[[bytes], object], first: int, repeats: tuple[int, ...] = REPEATS) -> None:
        """
        Args:
            send: takes each copy of a datagram.
            first: first number, 1 to 65,535, drawn by the caller.
        """
        self._send = send
        self._repeats = repeats
        self._next = first
        self._is_new = True
        """No packet of this row is acknowledged: each copy says CONN_RESET."""
        self._queue: deque[tuple[HexPacket, int]] = deque()
        self._under_way: _UnderWay | None = None
        self._is_held = False
        self.is_failed = False

    @property
    def number(self) -> int:
        """Number of the last packet of the row, which packets beside it carry; 0: there was none."""
        return NO_NUMBER if self._is_new and self._under_way is None else (self._next - 2) % NUMBER_MAX + 1

    def put(self, packet: HexPacket, flags: int, now: Instant) -> bool:
        """Send this, once those before it are acknowledged. False: there is no room, or the row has failed."""
        if self.is_failed or len(self._queue) >= QUEUE_MAX:
            return False
        self._queue.append((packet, flags))
        self._go_on(now)
        return True

    def waits_for(self, cause: int) -> bool:
        """Whether the packet with this number is under way."""
        return self._under_way is not None and cause == self._under_way.number

    def heard(self, cause: int, now: Instant) -> bool:
        """The other end has answered a number; True: it is the one that waits."""
        if not self.waits_for(cause):
            return False
        self._under_way, self._is_new = None, False
        self._go_on(now)
        return True

    def time_passed(self, now: Instant) -> None:
        """Send again what is not acknowledged, or fail."""
        one = self._under_way
        if one is None or now < one.due:
            return
        if one.copies == len(self._repeats):
            self._under_way, self.is_failed = None, True
            self._queue.clear()
            return
        one.copies += 1
        one.due = Instant(now + self._repeats[one.copies - 1])
        self._send(one.data)

    def deadline(self) -> Instant | None:
        return None if self._under_way is None else self._under_way.due

    def begin(self, *, is_held: bool = False) -> None:
        """Begin another row behind this one: nothing of before is sent any more. Held: nor else, until `release`."""
        self._queue.clear()
        self._is_held = is_held
        self._under_way, self._is_new, self.is_failed = None, True, False

    def release(self, now: Instant) -> None:
        """Send what was held."""
        self._is_held = False
        self._go_on(now)

    def _go_on(self, now: Instant) -> None:
        if self._is_held or self._under_way is not None or not self._queue:
            return
        packet, flags = self._queue.popleft()
        number, self._next = self._next, following(self._next)
        data = encode(HexDatagram(packet, number, flags | RELIABLE | (CONN_RESET if self._is_new else 0)))
        self._under_way = _UnderWay(number, data, 1, Instant(now + self._repeats[0]))
        self._send(data)


class Hearing(Enum):
    """Place of a datagram in the row of its sender."""

    PLAIN = auto()
    """It belongs to no row."""
    NEW = auto()
    AGAIN = auto()
    """It is the last one once more: it is acknowledged again, and nothing else."""
    OLD = auto()
    """It was overtaken: it counts for nothing."""
    MISSED = auto()
    """Packets before it were missed, which nobody sends any more."""


class ReceiveRow:
    """Reliable packets from one remote end."""

    def __init__(self) -> None:
        self.last = NO_NUMBER
        self.firsts: tuple[bytes, ...] = ()
        """Packets that began this row and some before it, the newest one last: a late copy of one begins no other."""
        self.recent: tuple[int, ...] = ()
        """Last numbers, of rows before this one too: a late copy is none of this row."""
        self.is_closed = False
        """The other end began anew: only a packet that begins another row counts."""
        self.answer: HexPacket | None = None
        """Answer to the last packet, for whom it did not reach; its owner keeps it here."""

    def hear(self, datagram: HexDatagram, data: bytes) -> Hearing:
        """Tell what a datagram is, and remember its number. `data`: the bytes that it was."""
        hearing = self.tell(datagram, data)
        if hearing is Hearing.NEW:
            self.took(datagram.number, data if datagram.flags & CONN_RESET else b"")
        return hearing

    def tell(self, datagram: HexDatagram, data: bytes) -> Hearing:
        """Tell what a datagram is."""
        if not datagram.flags & RELIABLE:
            return Hearing.PLAIN
        number = datagram.number
        is_near = self.last != NO_NUMBER and (self.last - number) % NUMBER_MAX < WINDOW
        if datagram.flags & CONN_RESET and data not in self.firsts and (self.is_closed or not is_near):
            return Hearing.NEW
        if self.is_closed:
            return Hearing.OLD
        if number == self.last:
            return Hearing.AGAIN
        if self.last == NO_NUMBER:
            return Hearing.NEW
        is_old = number in self.recent or not is_newer(number, self.last)
        is_late = data in self.firsts or (is_old and number != following(self.last))
        return Hearing.OLD if is_late else Hearing.NEW

    def took(self, number: int, first: bytes) -> None:
        """Remember the number of a new packet. `first`: its bytes, if it began a row; else empty."""
        self.last, self.is_closed = number, False
        self.recent = (*self.recent, number)[-WINDOW:]
        if first:
            self.firsts = (*self.firsts, first)[-FIRSTS_MAX:]


class OrderRow:
    """Items of the master's order: each is new once, and up to `WINDOW` of them come in any order."""

    def __init__(self) -> None:
        self._upto = NO_NUMBER
        """Number up to which all came."""
        self._ahead: set[int] = set()

    def hear(self, datagram: HexDatagram, needs: int, *, is_reset: bool = False) -> Hearing:
        """Tell what a datagram is, and remember its number.

        Args:
            needs: which of the 16 items before it must have come; bit 0 is the one right before.
            is_reset: it goes before those that did not come.
        """
        number = datagram.number
        if not datagram.flags & RELIABLE:
            return Hearing.PLAIN
        if self._upto == NO_NUMBER:
            self.go_on_behind(number)
            return Hearing.NEW
        ahead = (number - self._upto) % NUMBER_MAX
        if ahead == 0 or number in self._ahead:
            return Hearing.AGAIN
        if ahead >= HALF:
            return Hearing.OLD
        if is_reset and ahead <= RESET_AHEAD:
            self.go_on_behind(number)
            return Hearing.NEW
        if ahead > WINDOW or any(
            needs >> before - 1 & 1 and not self._has(number, before) for before in range(1, ahead)
        ):
            return Hearing.MISSED
        self._ahead.add(number)
        while (one := following(self._upto)) in self._ahead:
            self._ahead.discard(one)
            self._upto = one
        return Hearing.NEW

    def lacks(self, number: int) -> bool:
        """Whether items up to this one did not all come."""
        return self._upto != NO_NUMBER and 0 < (number - self._upto) % NUMBER_MAX < HALF

    def _has(self, number: int, before: int) -> bool:
        """Whether the item so many before one ahead came."""
        return (number - before - 1) % NUMBER_MAX + 1 in self._ahead

    def go_on_behind(self, number: int) -> None:
        """Whatever came before, the next number is the one behind this."""
        self._upto = number
        self._ahead.clear()
