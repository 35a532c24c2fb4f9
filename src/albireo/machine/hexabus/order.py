"""Order: what the journal of the master says, folded. Both members of a pair have the same one.

    items   events and resets, numbered from 1; the number on the wire is that of the item since the last reset
    members devices that are sent the items behind a place, until they have them

Invariants
    same:  an item has the same bytes, whoever sends it, and whenever.
    gone:  an item is forgotten once all have it, or a reset stands behind it.
"""

from ipaddress import IPv6Address

from albireo.codec.hexabus.journal import (
    AllHave,
    DeviceJoined,
    DeviceLeft,
    EventTaken,
    JournalEntry,
    ResetOrdered,
)
from albireo.codec.hexabus.packets import (
    CONN_RESET,
    NUMBER_MAX,
    RELIABLE,
    WANT_ACK,
    WANT_UL_ACK,
    HexDatagram,
    PInfoPacket,
    WritePacket,
    encode,
)
from albireo.machine.hexabus.device import START_UP
from albireo.machine.hexabus.rows import HALF, ReceiveRow


class EventOrder:
    """The fold."""

    def __init__(self) -> None:
        self.last = 0
        """Number of the last item."""
        self.all_have = 0
        """Item up to which every member has everything."""
        self.since = 1
        """First item of the present row of numbers: the last reset, or the first one of all."""
        self.members: dict[str, int] = {}
        """Item behind which each device is sent everything."""
        self.joined: dict[str, int] = {}
        """Number of the word with which each device began anew."""
        self.left: set[str] = set()
        """Devices that were there, and left."""
        self.rows: dict[tuple[str, int], ReceiveRow] = {}
        """Last number of each sender, by host and port."""
        self._items: dict[int, bytes] = {}

    def fold(self, entry: JournalEntry) -> None:
        match entry:
            case EventTaken():
                row = self.rows.setdefault((entry.host, entry.port), ReceiveRow())
                row.took(entry.number, entry.first)
                packet = PInfoPacket(entry.eid, entry.told, IPv6Address(entry.host).packed)
                self._add(packet, WANT_UL_ACK)
            case ResetOrdered():
                self.since = self.last + 1
                self.all_have = self.last
                self._items.clear()
                self._add(START_UP, WANT_ACK)
            case DeviceJoined(host=host, number=number):
                self.members[host] = self.last
                self.joined[host] = number
                self.left.discard(host)
                for key in [one for one in self.rows if one[0] == host]:
                    del self.rows[key]
            case DeviceLeft(host=host):
                if self.members.pop(host, None) is not None:
                    self.left.add(host)
            case AllHave(item=item):
                for one in range(self.all_have + 1, item + 1):
                    self._items.pop(one, None)
                self.all_have = max(self.all_have, item)

    def number_of(self, item: int) -> int:
        """Number of an item on the wire."""
        return (item - self.since) % NUMBER_MAX + 1

    def item_of(self, number: int) -> int:
        """The item near the ones that are under way that has this number; 0: none of this row has."""
        behind = (self.number_of(self.last) - number) % NUMBER_MAX
        return self.last - behind if behind < HALF and self.last - behind >= self.since else 0

    def bytes_of(self, item: int) -> bytes:
        """The datagram of an item that not all have."""
        return self._items[item]

    def waits_for(self, item: int) -> set[str]:
        """Devices that are to have an item."""
        return {host for host, behind in self.members.items() if behind < item}

    def _add(self, packet: PInfoPacket | WritePacket, flags: int) -> None:
        self.last += 1
        first = CONN_RESET if self.last == self.since else 0
        self._items[self.last] = encode(HexDatagram(packet, self.number_of(self.last), flags | RELIABLE | first))
