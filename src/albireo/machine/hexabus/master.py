"""Master: brings the events of all devices into one order, and has every device hear of each.

    INFO of a device, new --> the journal --on record--> acknowledged by unicast, and the next item of the order
    next item --multicast--> all that are there acknowledge --> the one behind it
                                   \\--time--> the same bytes again, to all
                                   \\--the last repetition was in vain--> whoever is missing leaves, on record
    a device that left, and answers after all --> told to begin anew
    start-up WRITE of a device --> it joins, on record --> acknowledged; it hears the items behind that

One item is under way at a time. What is acknowledged to a sensor is on record: neither a takeover nor a crash loses it.
A reset that an operator orders goes before items that not all have: who lacks them does not get them any more.

Invariants
    safe:   no event is acknowledged that is not on record (D2).
    once:   an event that is said again is one item, whoever leads (D1).
    all:    an item is over once each device that is there has said so, or left on record (D3, D4).

Not done here: the journal, sockets, who leads, what leaves when a lease is over.
Spec: third seed, Protocol state machine on the master; ADR-0251.
"""

from collections.abc import Collection
from ipaddress import IPv6Address
from typing import Final

import msgspec

from albireo.codec.errors import DecodeError
from albireo.codec.hexabus.journal import (
    AllHave,
    DeviceJoined,
    DeviceLeft,
    EventTaken,
    JournalEntry,
    ResetOrdered,
    event_of,
)
from albireo.codec.hexabus.packets import (
    CONN_RESET,
    RELIABLE,
    AckPacket,
    ErrorPacket,
    HexDatagram,
    InfoPacket,
    WritePacket,
    decode,
    encode,
)
from albireo.codec.hexabus.values import HexValue
from albireo.machine.hexabus.device import START_UP, TO_GROUP, HexAddress, SendDatagram
from albireo.machine.hexabus.order import EventOrder
from albireo.machine.hexabus.rows import REPEATS, Hearing
from albireo.machine.hexabus.silent import SilentMachine
from albireo.model.instant import Instant, soonest

PENDING_MAX: Final = 1_000
"""Entries on their way to the journal; an event that comes beyond is not acknowledged, and comes again."""
PENDING_OF_ONE_MAX: Final = 8
"""The same of one device: it has one event under way, unless it is broken."""


class PutEntry(msgspec.Struct, frozen=True):
    """Effect: put this into the journal; `committed` tells that it is on record, in this order."""

    entry: JournalEntry


class ValueTold(msgspec.Struct, frozen=True):
    """Effect: a device tells a value of an endpoint."""

    host: str
    eid: int
    value: HexValue


MasterEffect = PutEntry | SendDatagram | ValueTold


class _Unsaid(msgspec.Struct):
    """Something that is acknowledged once it is on record."""

    to: HexAddress
    number: int


class HexMaster:
    """The machine of the member that leads. Its methods are its events."""

    def __init__(
        self,
        order: EventOrder,
        known: Collection[str],
        silent: SilentMachine | None = None,
        repeats: tuple[int, ...] = REPEATS,
    ) -> None:
        """
        Args:
            order: the journal up to its end, folded.
            known: hosts that are devices of this network; nobody else joins, or is waited for.
            silent: the machines of the house, which have taken the same; None: there are none.
        """
        self.order = order
        self._known = known
        self._silent = silent
        self.counts = {"malformed": 0, "strange": 0, "again": 0, "old": 0, "refused": 0}
        self._repeats = repeats
        self._effects: list[MasterEffect] = []
        self._pending: list[tuple[JournalEntry, _Unsaid | None]] = []
        """Entries that are not on record."""
        self._item = order.all_have
        """Item that is under way, or over."""
        self._missing: set[str] = set()
        self._copies = 0
        self._due: Instant | None = None

    def deadline(self) -> Instant | None:
        return soonest(self._due, None if self._silent is None else self._silent.deadline())

    # Events.

    def begin(self, now: Instant) -> list[MasterEffect]:
        """This member leads: what not all have goes out again, with the same bytes."""
        self._go_on(now)
        return self._done()

    def join(self, host: str) -> list[MasterEffect]:
        """Somebody says that a device is there, whether it tells of events or not."""
        if host in self._known and host not in self.order.members:
            self._put(DeviceJoined(host))
        return self._done()

    def reset(self, reason: str) -> list[MasterEffect]:
        """An operator has all state machines begin anew."""
        self._put(ResetOrdered(reason))
        return self._done()

    def committed(self, now: Instant) -> list[MasterEffect]:
        """The oldest entry that was put is on record."""
        entry, waiting = self._pending.pop(0)
        self.order.fold(entry)
        if self._silent is not None:
            self._silent.folded(entry, now)
        if waiting is not None:
            self._acknowledge(waiting.to, waiting.number)
        if isinstance(entry, ResetOrdered):
            self._item, self._missing, self._due = self.order.all_have, set(), None
        if isinstance(entry, DeviceLeft | DeviceJoined):
            self._missing.discard(entry.host)
        self._go_on(now)
        return self._done()

    def heard(self, source: HexAddress, data: bytes, now: Instant) -> list[MasterEffect]:
        """A datagram came, to this member or to the group."""
        try:
            datagram = decode(data)
        except DecodeError:
            self.counts["malformed"] += 1
            return []
        match datagram.packet:
            case AckPacket(cause=cause) | ErrorPacket(cause=cause):
                self._has(source.host, cause, now)
            case InfoPacket(eid=eid, value=value):
                self._effects.append(ValueTold(source.host, eid, value))
                if datagram.flags & RELIABLE:
                    self._event(source, datagram, data, eid, value)
            case WritePacket() as packet if packet == START_UP:
                self._recover(source, datagram)
            case _:
                self.counts["strange"] += 1
        return self._done()

    def time_passed(self, now: Instant) -> list[MasterEffect]:
        """Send again what somebody lacks, have those leave who are silent, and tell of time."""
        for event in self._silent.due(now) if self._silent is not None else ():
            self._put(event_of(str(IPv6Address(event.origin)), 0, 0, b"", event.eid, event.value))
        if self._due is not None and now >= self._due:
            if self._copies < len(self._repeats):
                self._send(now)
            else:
                self._due = None
                for host in sorted(self._missing):
                    self._put(DeviceLeft(host, "silent"))
        return self._done()

    # Inside.

    def _done(self) -> list[MasterEffect]:
        effects, self._effects = self._effects, []
        return effects

    def _put(self, entry: JournalEntry, waiting: _Unsaid | None = None) -> None:
        if any(one == entry for one, _ in self._pending):
            return
        self._pending.append((entry, waiting))
        self._effects.append(PutEntry(entry))

    def _acknowledge(self, to: HexAddress, number: int, item: int | None = None) -> None:
        """By unicast: on the group two sensors with the same number would take each other's (D5).

        Its own number is that of an item, the last one if none is named: a device that begins anew goes on behind it.
        """
        item = self.order.last if item is None else item
        data = encode(HexDatagram(AckPacket(number), self.order.number_of(item)))
        self._effects.append(SendDatagram(to, data))

    def _event(self, source: HexAddress, datagram: HexDatagram, data: bytes, eid: int, value: HexValue) -> None:
        if source.host not in self.order.members:
            self.counts["strange"] += 1
            return
        row = self.order.rows.get((source.host, source.port))
        hearing = Hearing.NEW if row is None else row.tell(datagram, data)
        if row is not None and hearing is not Hearing.NEW:
            self.counts[hearing.name.lower()] += 1
            self._acknowledge(source, row.last)
            return
        first = data if datagram.flags & CONN_RESET else b""
        entry = event_of(source.host, source.port, datagram.number, first, eid, value)
        own = sum(isinstance(one, EventTaken) and one.host == source.host for one, _ in self._pending)
        if len(self._pending) >= PENDING_MAX or own >= PENDING_OF_ONE_MAX:
            self.counts["refused"] += 1
        else:
            self._put(entry, _Unsaid(source, datagram.number))

    def _recover(self, source: HexAddress, datagram: HexDatagram) -> None:
        """A device begins anew: it hears what comes from now on, or from where it was told so already."""
        order, host = self.order, source.host
        if host not in self._known:
            self.counts["strange"] += 1
        elif host in order.members and order.joined[host] == datagram.number:
            self._acknowledge(source, datagram.number, order.members[host])
        else:
            self._put(DeviceJoined(host, datagram.number), _Unsaid(source, datagram.number))

    def _has(self, host: str, cause: int, now: Instant) -> None:
        """A device says up to which number it has everything; one that left is told to begin anew."""
        if host in self.order.left:
            again = encode(HexDatagram(START_UP, self.order.number_of(self.order.last)))
            self._effects.append(SendDatagram(HexAddress(host), again))
        if host in self._missing and self.order.item_of(cause) >= self._item:
            self._missing.discard(host)
            self._go_on(now)

    def _go_on(self, now: Instant) -> None:
        """Send the next item, once the one before is over."""
        is_told = any(isinstance(one, AllHave) for one, _ in self._pending)
        if self._item > self.order.all_have and not self._missing and not is_told:
            self._put(AllHave(self._item))
        while not self._missing and self._item < self.order.last:
            self._item += 1
            self._missing = self.order.waits_for(self._item)
            self._copies = 0
            if self._missing:
                self._send(now)
        if not self._missing:
            self._due = None

    def _send(self, now: Instant) -> None:
        self._effects.append(SendDatagram(TO_GROUP, self.order.bytes_of(self._item)))
        self._due = Instant(now + self._repeats[self._copies])
        self._copies += 1
