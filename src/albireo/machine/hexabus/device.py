"""Device: answers questions, tells what happens at its endpoints, and acts on what the master says happened.

    endpoint changes --> INFO to the group, reliably: the master acknowledges it by unicast once it is on record
    PINFO of the master, new --> acted on, acknowledged by unicast; said again --> acknowledged again
    PINFO of several for one event --> acknowledged; acted on with the others, once all are there
    WRITE, new --> done, acknowledged, told as INFO; refused --> ERROR
    no acknowledgement after the last repetition --> failed: nothing is sent, the state machine stands still
    a PINFO whose number is too far ahead --> one was missed: as if failed, and the master had said something
    INFO of the master whose number is ahead --> the same: all who are there have what this device has not
    WRITE of the control, to all --> the state machine begins anew; to this device alone --> as before
    failed, and the master says anything --> start-up WRITE to the master, empty queues, the state machine begins anew
    the answer to that, and all that it is to go on with --> events behind its number count, and none before

State changes come from the master's PINFO alone; an INFO of another device changes nothing here (D7).

Invariants
    once:  no PINFO is acted on twice, whatever copies of it come.
    one:   nobody but the master is believed about the order of events.

Not done here: sockets, what an endpoint is in the world, the state machine (vm.py).
Spec: third seed, Retransmission and ordering protocol; ADR-0251.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from albireo.codec.errors import DecodeError
from albireo.codec.hexabus.packets import (
    ALL_NEEDED,
    GROUP,
    NUMBER_MAX,
    PORT,
    RELIABLE,
    WANT_ACK,
    WANT_UL_ACK,
    AckPacket,
    EndpointInfoPacket,
    EndpointQueryPacket,
    EndpointReportPacket,
    ErrorPacket,
    HexDatagram,
    HexError,
    HexPacket,
    InfoPacket,
    PInfoPacket,
    PropertyQueryPacket,
    PropertyReportPacket,
    PropertyWritePacket,
    QueryPacket,
    ReportPacket,
    WritePacket,
    decode,
    encode,
)
from albireo.codec.hexabus.values import HexType, HexValue
from albireo.machine.hexabus.endpoints import CONTROL, NEXT_ENDPOINT, RECOVERY, Endpoints
from albireo.machine.hexabus.rows import REPEATS, WINDOW, Hearing, OrderRow, ReceiveRow, SendRow
from albireo.model.instant import Instant, soonest

PEERS_MAX: Final = 64
"""Remote ends whose last number is remembered; of more the oldest is forgotten."""
START_UP: Final = WritePacket(CONTROL, HexValue(HexType.UINT8, 1))
"""Word of a device to the master that it began anew; word of the master that it is to begin anew."""


class HexAddress(msgspec.Struct, frozen=True):
    """An end of a conversation."""

    host: str
    """IPv6 address as text."""
    port: int = PORT


TO_GROUP: Final = HexAddress(GROUP)


class SendDatagram(msgspec.Struct, frozen=True):
    """Effect: send these bytes."""

    to: HexAddress
    data: bytes


class EndpointWritten(msgspec.Struct, frozen=True):
    """Effect: an endpoint was written."""

    eid: int
    value: HexValue


class EventCame(msgspec.Struct, frozen=True):
    """Effect: an event, in the order of all; the state machine takes it. One of several names comes by each of them."""

    origin: bytes
    eid: int
    value: HexValue


class BeganAnew(msgspec.Struct, frozen=True):
    """Effect: the device starts, or recovers; its state machine begins with its first state."""


class RecoveryCame(msgspec.Struct, frozen=True):
    """Effect: a piece of what the device is to go on with."""

    number: int
    """Number of the last event that it includes."""
    piece: bytes


DeviceEffect = SendDatagram | EndpointWritten | EventCame | BeganAnew | RecoveryCame


class HexDevice:
    """The machine. Its methods are its events."""

    def __init__(
        self,
        endpoints: Endpoints,
        master: HexAddress,
        draw: Callable[[int], int],
        repeats: tuple[int, ...] = REPEATS,
    ) -> None:
        """
        Args:
            master: the only one that is believed.
            draw: a number from 1 to this one.
            repeats: waits for acknowledgements.
        """
        self.endpoints = endpoints
        self.master = master
        self.counts = {
            "malformed": 0,
            "forged": 0,
            "again": 0,
            "old": 0,
            "lost": 0,
            "missed": 0,
            "failed": 0,
            "called": 0,
        }
        self.confirmed = 0
        """Events that the master acknowledged."""
        self.is_recovering = False
        """It has said that it begins anew, and has no answer."""
        self.resumes: Callable[[int], bool] = lambda _: True
        """Takes up what came to go on with behind a number; False: it is not complete."""
        self._effects: list[DeviceEffect] = []
        self._order = OrderRow()
        self._parts: dict[int, dict[int, PInfoPacket]] = {}
        """Packets of events of which not all came, by the number of the first one and their place."""
        self._rows: dict[HexAddress, ReceiveRow] = {}
        self._events = SendRow(partial(self._send, TO_GROUP), draw(0xFFFF), repeats)
        """INFO of this device to the group, which the master acknowledges."""
        self._to_master = SendRow(partial(self._send, master), draw(0xFFFF), repeats)

    @property
    def is_failed(self) -> bool:
        return self._events.is_failed or self._to_master.is_failed

    def deadline(self) -> Instant | None:
        return soonest(self._events.deadline(), self._to_master.deadline())

    # Events.

    def start(self, now: Instant) -> list[DeviceEffect]:
        """The device has power, or a network again."""
        self._begin(now)
        return self._done()

    def changed(self, eid: int, value: HexValue, now: Instant) -> list[DeviceEffect]:
        """Something happened at an endpoint that tells of itself, such as a button."""
        one = self.endpoints.find(eid)
        assert one is not None and one.datatype is value.datatype, eid
        one.value = value.value
        self._tell(eid, value, now)
        return self._done()

    def acted(self, eid: int, value: HexValue, now: Instant) -> tuple[HexError | None, list[DeviceEffect]]:
        """The state machine of this device writes an endpoint."""
        error = self.endpoints.write(eid, value)
        if error is None:
            self._effects.append(EndpointWritten(eid, value))
            self._tell(eid, value, now)
        return error, self._done()

    def time_passed(self, now: Instant) -> list[DeviceEffect]:
        self._events.time_passed(now)
        self._to_master.time_passed(now)
        return self._done()

    def heard(self, source: HexAddress, data: bytes, now: Instant, *, is_group: bool = False) -> list[DeviceEffect]:
        """A datagram came.

        Args:
            is_group: it was sent to the group.
        """
        try:
            datagram = decode(data)
        except DecodeError:
            self.counts["malformed"] += 1
            return []
        if self.is_failed and source.host == self.master.host:
            self.counts["failed"] += 1
            self._begin(now)
        packet = datagram.packet
        if isinstance(packet, PInfoPacket) and not (source == self.master and datagram.flags & RELIABLE):
            self.counts["forged"] += 1
            return []
        cause = getattr(packet, "cause", None)
        if cause is not None:
            self._answered(source, datagram.number, cause, now)
        else:
            self._take(source, datagram, data, now, is_group=is_group)
        return self._done()

    # Inside.

    def _done(self) -> list[DeviceEffect]:
        effects, self._effects = self._effects, []
        return effects

    def _send(self, to: HexAddress, data: bytes) -> None:
        self._effects.append(SendDatagram(to, data))

    def _say(self, to: HexAddress, packet: HexPacket) -> None:
        """Send what is not of a row."""
        self._send(to, encode(HexDatagram(packet, self._to_master.number)))

    def _begin(self, now: Instant) -> None:
        self._parts.clear()
        self._events.begin(is_held=True)  # The answer closes the rows that this device had at the master.
        self._to_master.begin()
        self.is_recovering = True
        self._effects.append(BeganAnew())
        self._to_master.put(START_UP, WANT_ACK, now)

    def _tell(self, eid: int, value: HexValue, now: Instant) -> None:
        """Tell all of a value; reliably, if it may change the state of a machine."""
        one = self.endpoints.find(eid)
        if one is not None and not one.is_event:
            self._say(TO_GROUP, InfoPacket(eid, value))
        elif not self._events.put(InfoPacket(eid, value), WANT_UL_ACK, now):
            self.counts["lost"] += 1

    def _answered(self, source: HexAddress, number: int, cause: int, now: Instant) -> None:
        """An answer: of the master to an event, or to the word that this device begins anew."""
        if source != self.master:
            return
        if self.is_recovering and self._to_master.waits_for(cause):
            if not self.resumes(number):
                return
            self.is_recovering = False
            self._events.release(now)
            self._order.go_on_behind(number)
        if not self._to_master.heard(cause, now):
            self.confirmed += self._events.heard(cause, now)

    def _take(self, source: HexAddress, datagram: HexDatagram, data: bytes, now: Instant, *, is_group: bool) -> None:
        if source == self.master and datagram.flags & RELIABLE:
            self._take_item(source, datagram, now)
            return
        row = self._row(source)
        hearing = row.hear(datagram, data)
        if hearing in (Hearing.AGAIN, Hearing.OLD):
            self.counts[hearing.name.lower()] += 1
        match datagram.packet:
            case WritePacket() as packet if packet == START_UP and source == self.master and not is_group:
                if not self.is_recovering:
                    self.counts["called"] += 1
                    self._begin(now)
            case WritePacket(eid=eid, value=HexValue(value=bytes() as piece)) if source == self.master and (
                eid == RECOVERY
            ):
                self._effects.append(RecoveryCame(datagram.number, piece))
            case WritePacket() | PropertyWritePacket() as packet:
                if hearing in (Hearing.NEW, Hearing.PLAIN):
                    row.answer = self._written(packet, datagram, now)
                is_error = isinstance(row.answer, ErrorPacket)
                if row.answer is not None and hearing is not Hearing.OLD and not (is_error and is_group):
                    self._say(source, row.answer)
            case InfoPacket() if (
                source == self.master and not self.is_recovering and self._order.lacks(datagram.number)
            ):
                self._missed(now)
            case InfoPacket() | EndpointInfoPacket():
                if datagram.flags & WANT_ACK:
                    self._say(source, AckPacket(datagram.number))
            case packet:
                self._answer(source, datagram.number, packet, is_group=is_group)

    def _take_item(self, source: HexAddress, datagram: HexDatagram, now: Instant) -> None:
        """An item of the order: an event, or a reset."""
        packet = datagram.packet
        if self.is_recovering or not (isinstance(packet, PInfoPacket) or packet == START_UP):
            return  # What counts for this device begins behind the number that answers its start.
        needs = packet.needs if isinstance(packet, PInfoPacket) else ALL_NEEDED
        hearing = self._order.hear(datagram, needs, is_reset=packet == START_UP)
        if hearing is Hearing.MISSED:
            self._missed(now)
            return
        if hearing is not Hearing.NEW:
            self.counts[hearing.name.lower()] += 1
        elif isinstance(packet, PInfoPacket):
            self._effects += self._whole(packet, datagram.number)
        else:
            self._parts.clear()
            self._effects.append(BeganAnew())
        if datagram.flags & (WANT_ACK | WANT_UL_ACK):
            self._say(source, AckPacket(datagram.number))

    def _whole(self, packet: PInfoPacket, number: int) -> list[EventCame]:
        """The event of which this is a part, by all its names, once all parts are there: nothing comes between them."""
        first = (number - packet.place) % NUMBER_MAX
        parts = self._parts.setdefault(first, {})
        parts[packet.place] = packet
        if len(parts) < packet.parts:
            if len(self._parts) > WINDOW:  # So many lack nothing that is under way: somebody lied about the oldest one.
                del self._parts[next(iter(self._parts))]
            return []
        del self._parts[first]
        return [EventCame(one.origin, one.eid, one.value) for _, one in sorted(parts.items())]

    def _missed(self, now: Instant) -> None:
        """Others have what this device has not, and nobody sends it any more."""
        self.counts["missed"] += 1
        self._begin(now)

    def _written(
        self, packet: WritePacket | PropertyWritePacket, datagram: HexDatagram, now: Instant
    ) -> HexPacket | None:
        """Write, and give what is to be answered, also to the same packet once more."""
        error: HexError | None = HexError.WRITE_READ_ONLY
        if isinstance(packet, WritePacket):
            error = self.endpoints.write(packet.eid, packet.value)
            if error is None and packet == START_UP:
                self._begin(now)  # With another word: an answer to the one before is about the program before.
            elif error is None:
                self._effects.append(EndpointWritten(packet.eid, packet.value))
                self._tell(packet.eid, packet.value, now)
        if error is not None:
            return ErrorPacket(error, datagram.number)
        return AckPacket(datagram.number) if datagram.flags & WANT_ACK else None

    def _row(self, source: HexAddress) -> ReceiveRow:
        row = self._rows.pop(source, None) or ReceiveRow()
        self._rows[source] = row
        while len(self._rows) > PEERS_MAX:
            del self._rows[next(iter(self._rows))]
        return row

    def _answer(self, source: HexAddress, number: int, packet: HexPacket, *, is_group: bool) -> None:
        """Answer a question."""
        answer: HexPacket | None = None
        match packet:
            case QueryPacket(eid=eid) if (one := self.endpoints.find(eid)) is not None:
                answer = ReportPacket(eid, one.told, number)
            case EndpointQueryPacket(eid=eid) if (one := self.endpoints.find(eid)) is not None:
                answer = EndpointReportPacket(eid, one.datatype, one.name, number)
            case PropertyQueryPacket(eid=eid, property_id=property_id):
                answer = self._property(eid, property_id, number)
        if answer is not None:
            self._say(source, answer)
        elif not is_group:
            self._say(source, ErrorPacket(HexError.UNKNOWN_EID, number))

    def _property(self, eid: int, property_id: int, number: int) -> PropertyReportPacket | None:
        one = self.endpoints.find(eid)
        if one is None:
            return None
        if property_id == NEXT_ENDPOINT:
            found = HexValue(HexType.UINT32, self.endpoints.following(eid))
            return PropertyReportPacket(eid, one.next_property(0), found, number)
        value = one.property(property_id)
        return None if value is None else PropertyReportPacket(eid, one.next_property(property_id), value, number)
