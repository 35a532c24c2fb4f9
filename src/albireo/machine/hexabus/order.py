"""Order: what the journal of the master says, folded. Both members of a pair have the same one.

    items   events and resets, numbered from 1; other machines take numbers of their own; on the wire they go around.
            An event that conditions name by several groups is as many items, behind each other (names.py)
    members devices that are sent the items behind a place, until they have them

Invariants
    same:  an item has the same bytes, whoever sends it, and whenever.
    gone:  an item is forgotten once all have it, or a reset stands behind it.
    apart: no number begins anew at a reset, or with other machines: no late word of before is about what comes after.
"""

from collections import deque
from ipaddress import IPv6Address
from typing import Final

import msgspec

from albireo.codec.hexabus.journal import (
    AllHave,
    DeviceJoined,
    DeviceKept,
    DeviceLeft,
    EventTaken,
    HouseSnapshot,
    HouseTaken,
    JournalEntry,
    ResetOrdered,
    RowKept,
)
from albireo.codec.hexabus.packets import (
    ALL_NEEDED,
    CONN_RESET,
    NUMBER_MAX,
    RELIABLE,
    WANT_ACK,
    WANT_UL_ACK,
    HexDatagram,
    PInfoPacket,
    WritePacket,
    decode,
    encode,
)
from albireo.machine.hexabus.device import START_UP
from albireo.machine.hexabus.independence import Independence
from albireo.machine.hexabus.rows import HALF, HOUSE_NUMBERS, WINDOW, ReceiveRow
from albireo.machine.hexabus.vm import SmEvent

ROWS_MAX: Final = 4
"""Rows of one sender, by its ports, that are remembered."""


class OrderMember(msgspec.Struct):
    """A device that is there."""

    behind: int
    """Item behind which it is sent everything."""
    joined: int
    """Number of the word with which it began anew; 0: it did not say so itself."""
    pieces: tuple[bytes, ...] = ()
    """With what it goes on, at that item."""


class EventOrder:
    """The fold."""

    def __init__(self) -> None:
        self.last = 0
        """Number of the last item."""
        self.all_have = 0
        """Item up to which every member has everything."""
        self.since = 1
        """First item since machines began: the last reset, or what comes behind other machines. It says CONN_RESET."""
        self.members: dict[str, OrderMember] = {}
        self.rows: dict[str, dict[int, ReceiveRow]] = {}
        """Last numbers of each sender, by host and port."""
        self.independence = Independence(None)
        self._items: dict[int, bytes] = {}
        self._recent: deque[tuple[int, ...] | None] = deque(maxlen=WINDOW)
        """Classes of machines that the newest items touch, the newest one last; None: all."""

    def fold(self, entry: JournalEntry) -> None:
        match entry:
            case EventTaken(host=host, port=port):
                rows = self.rows.setdefault(host, {})
                row = rows.pop(port) if port in rows else ReceiveRow()
                rows[port] = row
                row.took(entry.number, entry.first)
                while len(rows) > ROWS_MAX:
                    del rows[next(iter(rows))]
                self._add_event(entry)
            case ResetOrdered():
                self.since = self.last + 1
                self.all_have = self.last
                self._items.clear()
                self._recent.clear()
                self._add(START_UP, WANT_ACK, None)
            case DeviceJoined(host=host, number=number):
                self.members[host] = OrderMember(self.last, number)
                for row in self.rows.get(host, {}).values():
                    row.is_closed = True
            case DeviceLeft(host=host):
                self.members.pop(host, None)
            case HouseTaken():
                self.members.clear()
                self.last += HOUSE_NUMBERS
                self.all_have, self.since = self.last, self.last + 1
                self._items.clear()
                self._recent.clear()
            case AllHave(item=said):
                item = min(said, self.last)
                for one in range(self.all_have + 1, item + 1):
                    self._items.pop(one, None)
                self.all_have = max(self.all_have, item)

    def number_of(self, item: int) -> int:
        """Number of an item on the wire."""
        return (item - 1) % NUMBER_MAX + 1

    def item_of(self, number: int) -> int:
        """The item near the ones that are under way that has this number; 0: none of this row has."""
        behind = (self.number_of(self.last) - number) % NUMBER_MAX
        return self.last - behind if behind < HALF and self.last - behind >= self.since else 0

    def bytes_of(self, item: int) -> bytes:
        """The datagram of an item that not all have."""
        return self._items[item]

    def needs(self, item: int) -> list[int]:
        """Items that must be over before this one, which not all have, is sent."""
        packet = decode(self._items[item]).packet
        if not isinstance(packet, PInfoPacket):
            return list(range(self.all_have + 1, item))
        return [item - before for before in range(1, WINDOW + 1) if packet.needs >> before - 1 & 1]

    def waits_for(self, item: int) -> set[str]:
        """Devices that are to have an item."""
        return {host for host, one in self.members.items() if one.behind < item}

    def snapshot(self) -> HouseSnapshot:
        """All of this."""
        return HouseSnapshot(
            last=self.last,
            all_have=self.all_have,
            since=self.since,
            items=tuple(self._items.values()),
            recent=tuple(self._recent),
            members=tuple(DeviceKept(host, one.behind, one.joined, one.pieces) for host, one in self.members.items()),
            rows=tuple(
                RowKept(host, port, row.last, row.firsts, row.is_closed, row.recent)
                for host, rows in self.rows.items()
                for port, row in rows.items()
            ),
        )

    def restore(self, kept: HouseSnapshot) -> None:
        """Be what the snapshot says."""
        self.last, self.all_have, self.since = kept.last, kept.all_have, kept.since
        self._items = dict(enumerate(kept.items, kept.all_have + 1))
        self._recent = deque(kept.recent, WINDOW)
        self.members = {one.host: OrderMember(one.behind, one.joined, one.pieces) for one in kept.members}
        self.rows = {}
        for one in kept.rows:
            row = self.rows.setdefault(one.host, {})[one.port] = ReceiveRow()
            row.last, row.firsts, row.is_closed, row.recent = one.last, one.firsts, one.is_closed, one.recent

    def _add_event(self, entry: EventTaken) -> None:
        event = SmEvent(IPv6Address(entry.host).packed, entry.eid, entry.told)
        touched = self.independence.touched(event)
        needs = ALL_NEEDED
        for before, other in enumerate(reversed(self._recent)):
            if touched is not None and other is not None and not set(touched) & set(other):
                needs &= ~(1 << before)
        told = self.independence.names.of(event)
        for place, one in enumerate(told):  # None of them needs another one: devices act once they have all.
            packet = PInfoPacket(one.eid, one.value, one.origin, needs << place & ALL_NEEDED, place, len(told))
            self._add(packet, WANT_UL_ACK, touched)

    def _add(self, packet: PInfoPacket | WritePacket, flags: int, touched: tuple[int, ...] | None) -> None:
        self.last += 1
        self._recent.append(touched)
        first = CONN_RESET if self.last == self.since else 0
        self._items[self.last] = encode(HexDatagram(packet, self.number_of(self.last), flags | RELIABLE | first))
