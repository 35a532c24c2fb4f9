"""Question to many devices: sent again to whoever lacks an answer.

to hosts      each that has not answered is asked again, until the last wait is over
to the group  nobody knows who is there: asked as often as there are waits, and the first answer of each host counts
"""

from collections.abc import Callable, Sequence
from typing import Final

from albireo.codec.errors import DecodeError
from albireo.codec.hexabus.packets import (
    WANT_ACK,
    AckPacket,
    EndpointReportPacket,
    ErrorPacket,
    HexDatagram,
    HexPacket,
    PropertyReportPacket,
    ReportPacket,
    WritePacket,
    decode,
    encode,
)
from albireo.machine.hexabus.device import TO_GROUP, HexAddress
from albireo.model.instant import MS, Instant

ASK_WAITS: Final = tuple(ms * MS for ms in (100, 100, 100, 200, 200, 400, 400, 800, 800, 800))
"""Waits for the answer of a host, one after each copy: with a fifth of all lost each way, 1 of 27,000 does not come."""
GROUP_WAITS: Final = tuple(ms * MS for ms in (300, 300, 600))
"""The same for the group."""
HexAnswer = AckPacket | ErrorPacket | ReportPacket | EndpointReportPacket | PropertyReportPacket


class QuestionToMany:
    """A question under way. Its methods are its events."""

    def __init__(
        self,
        packet: HexPacket,
        number: int,
        hosts: Sequence[str],
        send: Callable[[HexAddress, bytes], object],
        waits: Sequence[int],
    ) -> None:
        """
        Args:
            number: that of every copy, which answers name; of no other question that is under way.
            hosts: who is asked; none: the group.
        """
        self.answers: dict[str, HexAnswer] = {}
        """First answer of each host."""
        self._is_write = isinstance(packet, WritePacket)
        self._data = encode(HexDatagram(packet, number, WANT_ACK if self._is_write else 0))
        self._number = number
        self._hosts = hosts
        self._send = send
        self._waits = waits
        self._copies = 0
        self._due: Instant | None = None

    @property
    def missing(self) -> list[str]:
        """Hosts that were asked and have not answered."""
        return [host for host in self._hosts if host not in self.answers]

    def deadline(self) -> Instant | None:
        """None: it is over."""
        return self._due

    def begin(self, now: Instant) -> None:
        for to in [HexAddress(host) for host in self.missing] if self._hosts else [TO_GROUP]:
            self._send(to, self._data)
        self._due = Instant(now + self._waits[self._copies])
        self._copies += 1

    def heard(self, source: HexAddress, data: bytes, now: Instant) -> None:
        """A datagram came."""
        try:
            packet = decode(data).packet
        except DecodeError:
            return
        if isinstance(packet, AckPacket) and not self._is_write:
            return  # It says that a write was done, and answers no question.
        is_asked = not self._hosts or source.host in self._hosts
        if isinstance(packet, HexAnswer) and packet.cause == self._number and is_asked:
            self.answers.setdefault(source.host, packet)
            if self._hosts and not self.missing:
                self._due = None

    def time_passed(self, now: Instant) -> None:
        if self._due is None or now < self._due:
            return
        self._due = None
        if self._copies < len(self._waits):
            self.begin(now)
