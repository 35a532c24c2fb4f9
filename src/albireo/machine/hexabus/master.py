"""Master: brings the events of all devices into one order, and has every device hear of each.

    INFO of a device, new --> the journal --on record--> acknowledged by unicast, and the next item of the order
    item --multicast--> all that are there acknowledge --> over
                            \\--time--> the same bytes again, to all
                            \\--the last repetition was in vain--> whoever is missing leaves, on record
    a device that is not there --> told to begin anew, now and then: it may be, and wait for a word
    start-up WRITE of a device --> its program is the one on record --> it joins, on record --> acknowledged, with what
                            it is to go on with; it hears the items behind that

Items are under way together if no state machine depends on two of them, and all devices keep a window of numbers; else
one after the other. What is acknowledged to a sensor is on record: neither a takeover nor a crash loses it. A reset
that an operator orders goes before items that not all have: who lacks them does not get them any more.

Invariants
    safe:   no event is acknowledged that is not on record (D2).
    once:   an event that is said again is one item, whoever leads (D1).
    all:    an item is over once each device that is there has said so, or left on record (D3, D4).

Not done here: the journal, sockets, who leads, what leaves when a lease is over, programs.
Spec: third seed, Protocol state machine on the master; ADR-0251, ADR-0253.
"""

from collections.abc import Set as AbstractSet
from ipaddress import IPv6Address
from typing import Final

import msgspec

from albireo.codec.errors import DecodeError
from albireo.codec.hexabus.journal import (
    DATAGRAM_BYTES_MAX,
    AllHave,
    DeviceJoined,
    DeviceLeft,
    EventTaken,
    HouseTaken,
    JournalEntry,
    JournalRecord,
    LeadTaken,
    ResetOrdered,
    Term,
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
from albireo.codec.hexabus.values import HexType, HexValue
from albireo.machine.hexabus.device import START_UP, TO_GROUP, HexAddress, SendDatagram
from albireo.machine.hexabus.endpoints import RECOVERY
from albireo.machine.hexabus.fold import HouseFold
from albireo.machine.hexabus.rows import NO_NUMBER, REPEATS, WINDOW, Hearing
from albireo.machine.hexabus.twins import Twins
from albireo.model.instant import MS, SECOND, Instant, soonest

ACK_BEGIN: Final = encode(HexDatagram(AckPacket(1), 1))[:5]
ACK_BYTES: Final = 10
PENDING_MAX: Final = 1_000
"""Entries on their way to the journal, and items that not all have; an event that comes beyond is not acknowledged, and
comes again."""
PENDING_OF_ONE_MAX: Final = 8
"""Entries of one device on their way: it has one event under way, unless it is broken."""
PROBE_NS: Final = 2 * SECOND
"""Interval at which devices are called that are not there."""
UNHEARD_OF_ONE_MAX: Final = 64
"""Events of one device that not all have; others have room beside one that babbles."""
ALL_HAVE_NS: Final = 50 * MS
"""Time after which is put on record what all have, if nothing else is put meanwhile."""


class PutRecord(msgspec.Struct, frozen=True):
    """Effect: put this into the journal; `read` tells when it is on record."""

    record: JournalRecord


class ValueTold(msgspec.Struct, frozen=True):
    """Effect: a device tells a value of an endpoint."""

    host: str
    eid: int
    value: HexValue


class ProgramAsked(msgspec.Struct, frozen=True):
    """Effect: see that a device has this program; then `runs`."""

    host: str
    program: bytes
    """Empty: whichever it has."""
    resets: bool = False
    """It is to be told to begin anew then."""


MasterEffect = PutRecord | SendDatagram | ValueTold | ProgramAsked


class _SentItem(msgspec.Struct):
    """An item that was sent."""

    missing: set[str]
    due: Instant
    copies: int = 1


class HexMaster:
    """The machine of the member that leads. Its methods are its events."""

    def __init__(
        self,
        fold: HouseFold,
        term: Term,
        known: AbstractSet[str],
        repeats: tuple[int, ...] = REPEATS,
        originals: AbstractSet[str] = frozenset(),
        *,
        resets_all: bool = False,
    ) -> None:
        """
        Args:
            fold: the journal so far; from here on this folds what `read` is told.
            term: its own, of no earlier epoch than those on record.
            known: hosts that are devices of this network; nobody else joins, or is waited for.
            originals: those of `known` that keep no window of numbers, and can't be told with what to go on.
            resets_all: all devices begin anew with such a one that joins; False: it alone does.
        """
        self.fold = fold
        self.order = fold.order
        self.term = term
        self.is_leading = self.is_deposed = False
        """Its lead is on record; another one's that came later is."""
        self._known = known
        self.counts = {"malformed": 0, "strange": 0, "again": 0, "old": 0, "refused": 0, "events": 0}
        self._repeats = repeats
        self._originals, self._resets_all = originals, resets_all
        self._effects: list[MasterEffect] = []
        self._pending: dict[JournalEntry, tuple[HexAddress | None, int]] = {}
        """Entries on their way to the journal, in order, each with what is acknowledged once it is there."""
        self.upto = 0
        """Item up to which all are over: every member has everything."""
        self._over: set[int] = set()
        self._hosts: dict[int, str] = {}
        """Who told of the events that not all have."""
        self._under_way: dict[int, _SentItem] = {}
        self._all_have_due: Instant | None = None
        self._probe_due = Instant(0)
        self.twins = Twins()
        self._starts: dict[str, tuple[HexAddress, int]] = {}
        """Words of devices that begin anew, whose program was asked for."""

    @property
    def is_quiet(self) -> bool:
        """True: nothing is on its way to the journal or to devices."""
        return not self._pending and not self._under_way

    @property
    def has_put(self) -> bool:
        """True: something is on its way to the journal."""
        return bool(self._pending)

    @property
    def number(self) -> int:
        """Number up to which all who are there have everything, told beside the order; 0: unknown."""
        return self.order.number_of(self.upto) if self.is_leading else NO_NUMBER

    def deadline(self) -> Instant | None:
        if not self.is_leading:
            return None
        silent = self.fold.silent
        due = min((one.due for one in self._under_way.values()), default=None)
        probe_due = None if self._known <= self.order.members.keys() else self._probe_due
        tells = None if silent is None or self._pending else silent.deadline()
        return soonest(due, self._all_have_due, probe_due, tells)

    # Events.

    def begin(self) -> list[MasterEffect]:
        """This member is to lead: it does once that is on record."""
        self._put(LeadTaken())
        return self._done()

    def join(self, host: str) -> list[MasterEffect]:
        """Somebody says that a device is there, which does not say so itself."""
        if host in self._known and host not in self.order.members:
            self._starts.setdefault(host, (HexAddress(host), NO_NUMBER))
            self._see(host)
        return self._done()

    def leave(self, host: str) -> list[MasterEffect]:
        """Somebody says that a device answers nothing any more."""
        if host in self.order.members:
            self._put(DeviceLeft(host, "silent"))
        return self._done()

    def read(self, record: JournalRecord, now: Instant, put_at: Instant | None = None) -> list[MasterEffect]:
        """The next record of the journal, whoever put it.

        Args:
            put_at: instant at which it was put; None: now.
        """
        is_own = record.term == self.term
        is_next = is_own and record.entry == next(iter(self._pending), None)
        waits = self._pending.pop(record.entry) if is_next else (None, 0)
        if not self.fold.fold(record, now if put_at is None else put_at):
            return self._done()
        led = self.fold.term
        if led != self.term and (self.is_leading or led.epoch > self.term.epoch):
            self.is_leading, self.is_deposed = False, True
        elif is_next or self.is_leading:
            self._recorded(record.entry, *waits, now)
        return self._done()

    def heard(self, source: HexAddress, data: bytes, now: Instant) -> list[MasterEffect]:
        """A datagram came, to this member or to the group."""
        if not self.is_leading:
            return []
        if len(data) == ACK_BYTES and data.startswith(ACK_BEGIN):  # Thirty for each event: told by their bytes.
            self._has(source.host, int.from_bytes(data[-2:], "big"), now, data[6:8])
            return self._done()
        try:
            datagram = decode(data)
        except DecodeError:
            datagram = None
        if datagram is None or len(data) > DATAGRAM_BYTES_MAX:
            self.counts["malformed"] += 1
            return []
        match datagram.packet:
            case AckPacket(cause=cause) | ErrorPacket(cause=cause):
                self._has(source.host, cause, now, data[6:8])
            case InfoPacket(eid=eid, value=value):
                if datagram.flags & RELIABLE:
                    self._event(source, datagram, data, eid, value)
                elif source.host in self._known:
                    self._effects.append(ValueTold(source.host, eid, value))
            case WritePacket() as packet if packet == START_UP:
                self._recover(source, datagram)
            case _:
                self.counts["strange"] += 1
        return self._done()

    def runs(self, host: str, program: bytes) -> list[MasterEffect]:
        """A device has this program now, or room for none."""
        start = self._starts.pop(host, None)
        member = self.order.members.get(host)
        if start is not None and member is not None and member.joined == start[1]:
            self._answer_start(*start)
        elif start is not None and self.fold.programs.get(host, b"") == program:
            self._join(*start)
        return self._done()

    def time_passed(self, now: Instant) -> list[MasterEffect]:
        """Send again what somebody lacks, have those leave who are silent, and tell of time."""
        if not self.is_leading:
            return []
        silent = self.fold.silent
        for event in silent.due(now) if silent is not None else ():
            since = self.order.number_of(self.order.since)
            self._put(event_of(str(IPv6Address(event.origin)), 0, since, b"", event.eid, event.value))
        for item, one in self._under_way.items():
            if now < one.due:
                continue
            if one.copies < len(self._repeats):
                self._effects.append(SendDatagram(TO_GROUP, self.order.bytes_of(item)))
                one.due = Instant(now + self._repeats[one.copies])
                one.copies += 1
            else:
                one.due = Instant(now + self._repeats[-1])
                for host in sorted(one.missing):
                    self._put(DeviceLeft(host, "silent"))
        if self._all_have_due is not None and now >= self._all_have_due:
            self._tell_all_have()
        if now >= self._probe_due:
            self._probe(now)
        return self._done()

    # Inside.

    def _done(self) -> list[MasterEffect]:
        effects, self._effects = self._effects, []
        return effects

    def _put(self, entry: JournalEntry, to: HexAddress | None = None, number: int = 0) -> None:
        if entry in self._pending or self.is_deposed:
            return
        self._tell_all_have()
        self._pending[entry] = to, number
        self._effects.append(PutRecord(JournalRecord(self.term, entry)))

    def _tell_all_have(self) -> None:
        """Put on record up to where all have everything."""
        if self._all_have_due is not None:
            self._all_have_due = None
            self._put(AllHave(self.upto))

    def _recorded(self, entry: JournalEntry, to: HexAddress | None, number: int, now: Instant) -> None:
        """An own entry is on record, or an operator's."""
        match entry:
            case LeadTaken():
                self.is_leading = True
                self.upto = self.order.all_have
            case ResetOrdered() | HouseTaken() if self.order.since > self.upto:  # Else the same machines go on.
                self.upto = self.order.all_have
                self._over.clear()
                self._hosts.clear()
                self._under_way.clear()
            case EventTaken(host=host):
                self.counts["events"] += 1
                self._hosts[self.order.last] = host
            case DeviceLeft(host=host):
                self._starts.pop(host, None)
        if isinstance(entry, HouseTaken):
            self._probe(now)
        if to is not None and isinstance(entry, DeviceJoined):
            self._answer_start(to, number)
        elif to is not None:
            self._acknowledge(to, number)
        if isinstance(entry, DeviceLeft | DeviceJoined):
            for item, under_way in self._under_way.items():
                under_way.missing &= self.order.waits_for(item)
        self._go_on(now)

    def _acknowledge(self, to: HexAddress, number: int) -> None:
        """By unicast: on the group two sensors with the same number would take each other's (D5)."""
        data = encode(HexDatagram(AckPacket(number), self.order.number_of(self.order.last)))
        self._effects.append(SendDatagram(to, data))

    def _answer_start(self, to: HexAddress, number: int) -> None:
        """Tell a device that begins anew with what it goes on, and behind which number, if it has joined."""
        member = self.order.members.get(to.host)
        if member is None or member.joined != number or number == NO_NUMBER:
            return
        behind = self.order.number_of(member.behind)
        for piece in () if to.host in self._originals else member.pieces:
            packet = WritePacket(RECOVERY, HexValue(HexType.BYTES65, piece))
            self._effects.append(SendDatagram(to, encode(HexDatagram(packet, behind))))
        self._effects.append(SendDatagram(to, encode(HexDatagram(AckPacket(number), behind))))

    def _event(self, source: HexAddress, datagram: HexDatagram, data: bytes, eid: int, value: HexValue) -> None:
        if source.host not in self.order.members:
            self.counts["strange"] += 1
            return
        rows = self.order.rows.get(source.host, {})
        row = rows.get(source.port)
        if row is None and any(data in one.firsts for one in rows.values()):
            self.counts["old"] += 1  # It is a copy that comes from another port.
            return
        hearing = Hearing.NEW if row is None else row.tell(datagram, data)
        if row is not None and hearing is not Hearing.NEW:
            self.counts[hearing.name.lower()] += 1
            if not row.is_closed:
                self._acknowledge(source, row.last)
            return
        first = data if datagram.flags & CONN_RESET else b""
        try:
            entry = event_of(source.host, source.port, datagram.number, first, eid, value)
        except ValueError:  # A text that can't be said again as it is.
            self.counts["malformed"] += 1
            return
        own = sum(isinstance(one, EventTaken) and one.host == source.host for one in self._pending)
        unheard = sum(host == source.host for host in self._hosts.values())
        waiting = max(len(self._pending), self.order.last - self.upto)
        if waiting >= PENDING_MAX or own >= PENDING_OF_ONE_MAX or unheard >= UNHEARD_OF_ONE_MAX:
            self.counts["refused"] += 1
        elif entry not in self._pending:
            self._effects.append(ValueTold(source.host, eid, value))
            self._put(entry, source, datagram.number)

    def _recover(self, source: HexAddress, datagram: HexDatagram) -> None:
        """A device begins anew: it hears what comes from now on, or from where it was told so already."""
        host, member = source.host, self.order.members.get(source.host)
        if host not in self._known:
            self.counts["strange"] += 1
        elif member is not None and member.joined == datagram.number:
            self._answer_start(source, datagram.number)
        else:
            self._starts[host] = source, datagram.number
            self._see(host)

    def _see(self, host: str) -> None:
        """Have a device join that begins anew, once it is as it must be."""
        program, resets = self.fold.programs.get(host, b""), host in self._originals and not self._resets_all
        if program or resets:
            self._effects.append(ProgramAsked(host, program, resets))
        else:
            self._join(*self._starts.pop(host))

    def _join(self, to: HexAddress, number: int) -> None:
        self._put(DeviceJoined(to.host, number, self.order.since), to, number)
        if to.host in self._originals and self._resets_all:
            self._put(ResetOrdered(f"{to.host} is back"))

    def _has(self, host: str, cause: int, now: Instant, number: bytes) -> None:
        """A device says that it has an item; `number`: that which it drew itself."""
        one = self._under_way.get(self.order.item_of(cause))
        if one is not None and host in one.missing:
            one.missing.discard(host)
            self.twins.first(host, number)
            if not one.missing:
                self._go_on(now)
        else:
            self.twins.again(host, number)

    def _go_on(self, now: Instant) -> None:
        """End what all have, and send what depends on nothing that is under way."""
        self._end(now)
        while self._begin_items(now):
            self._end(now)

    def _begin_items(self, now: Instant) -> bool:
        """Send what may be sent. True: some of it concerns nobody."""
        is_over = False
        # An original answers to the last number alone: the next leader must not ask it about the one before that.
        upto = self.order.all_have + 1 if self._originals else self.upto + WINDOW
        for item in range(self.upto + 1, min(self.order.last, upto) + 1):
            if item in self._over or item in self._under_way:
                continue
            if any(one > self.upto and one not in self._over for one in self.order.needs(item)):
                continue
            missing = self.order.waits_for(item)
            if missing:
                self._effects.append(SendDatagram(TO_GROUP, self.order.bytes_of(item)))
            self._under_way[item] = _SentItem(missing, Instant(now + self._repeats[0]))
            is_over |= not missing
        return is_over

    def _probe(self, now: Instant) -> None:
        """Tell devices that are not there to begin anew: they may be, and wait for a word."""
        self._probe_due = Instant(now + PROBE_NS)
        again = encode(HexDatagram(START_UP, self.order.number_of(self.order.last)))
        for host in sorted(self._known):
            if host not in self.order.members and host not in self._originals:
                self._effects.append(SendDatagram(HexAddress(host), again))

    def _end(self, now: Instant) -> None:
        for item in [item for item, one in self._under_way.items() if item <= self.order.all_have or not one.missing]:
            del self._under_way[item]
            self._over.add(item)
        before = self.upto
        while self.upto < self.order.all_have or self.upto + 1 in self._over:  # Others may say that more is over.
            self.upto += 1
            self._over.discard(self.upto)
            self._hosts.pop(self.upto, None)
        if self.upto > before and self._all_have_due is None:
            self._all_have_due = Instant(now + ALL_HAVE_NS)
            if self._originals:
                self._tell_all_have()
