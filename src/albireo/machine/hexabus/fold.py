"""Fold of the whole journal: the order of events, and the machines of the house, which take the same events silently.

Both members of a pair have the same one, but for the instants at which states were entered: each has them on its clock.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv6Address

import msgspec

from albireo.codec.errors import DecodeError
from albireo.codec.hexabus.house import House, decode_house
from albireo.codec.hexabus.journal import (
    BY_HAND,
    DeviceJoined,
    EventTaken,
    HouseSnapshot,
    HouseTaken,
    JournalEntry,
    JournalRecord,
    LeadTaken,
    ResetOrdered,
    Term,
)
from albireo.codec.hexabus.recovery import RecoveryTold, encode_recovery
from albireo.codec.hexabus.values import ZEROS, HexValue
from albireo.machine.hexabus.clocks import LocalTime
from albireo.machine.hexabus.compiler import compiled, outputs_of
from albireo.machine.hexabus.independence import Independence
from albireo.machine.hexabus.meaning import CompileError, meaning_of
from albireo.machine.hexabus.order import EventOrder
from albireo.machine.hexabus.silent import HOUSES_KEPT, SilentMachine
from albireo.machine.hexabus.vm import MEMORY_BYTES
from albireo.model.instant import Instant


@lru_cache(maxsize=HOUSES_KEPT)
def _made(data: bytes) -> tuple[House | None, Mapping[str, bytes], Independence]:
    """House of machines on record, with all that follows: programs by host, and what can be under way together."""
    house = decode_house(data) if data else None
    programs = {}
    if house is not None:
        meant = meaning_of(house)
        programs = {str(IPv6Address(one.origin)): compiled(house, name, meant) for name, one in house.devices.items()}
        _check_recoveries(house, outputs_of(house, meant))
    return house, programs, Independence(house)


def _words(house: House) -> tuple[object, ...]:
    """Words on which the state of a silent machine depends, beside the programs."""
    return house.machines, house.devices.keys()


def _check_recoveries(house: House, outputs: Sequence[tuple[str, str]]) -> None:
    """Raises ValueError: a device has too many outputs to be told of all when it comes back."""
    for name, one in house.devices.items():
        written = [one.endpoints[endpoint] for device, endpoint in outputs if device == name]
        values = tuple((told.eid, HexValue(told.datatype, ZEROS.get(told.datatype, 0))) for told in written)
        encode_recovery(RecoveryTold(bytes(MEMORY_BYTES), values))


class HouseFold:
    """The fold."""

    def __init__(self, local: LocalTime | None = None) -> None:
        """`local`: the local time; None: machines that wait for a time of day are refused."""
        self._local = local
        self.term = Term(0, 0)
        self.order = EventOrder()
        self.house = b""
        """The machines on record, encoded."""
        self.silent: SilentMachine | None = None
        self.refused = ""
        """Why the last machines that were given mean nothing; empty: they do."""
        self.programs: Mapping[str, bytes] = {}
        """Program of each device, by host."""
        self.is_begun = False
        """The records so far begin with the first one of the journal, or with a snapshot."""

    def fold(self, record: JournalRecord, now: Instant) -> bool:
        """Take the next record. False: it is void, and says nothing.

        Args:
            now: instant at which it was put, on the own clock.
        """
        entry = record.entry
        if not self._counts(record) or not self._is_about(entry):
            return False
        if isinstance(entry, HouseSnapshot) and not self.is_begun:
            try:
                self._restore(entry, now)
            except (CompileError, DecodeError, ValueError):
                return False
        if record.term != BY_HAND:
            self.term = record.term
        if isinstance(entry, HouseSnapshot):
            return True
        self.is_begun = True
        if isinstance(entry, HouseTaken):
            try:
                begins = self._take(entry.house, now)
            except (CompileError, DecodeError, ValueError) as error:
                self.refused = str(error)
                return False
            self.refused = ""
            if not begins:
                return True
        self.order.fold(entry)
        if self.silent is not None:
            self.silent.folded(entry, now)
        if isinstance(entry, DeviceJoined):
            self.order.members[entry.host].pieces = self._recovery(entry.host)
        return True

    def _counts(self, record: JournalRecord) -> bool:
        """Whether a record is of whoever leads, or of an operator."""
        entry = record.entry
        if record.term == BY_HAND:
            return isinstance(entry, HouseTaken | ResetOrdered)
        begins = isinstance(entry, LeadTaken) or (isinstance(entry, HouseSnapshot) and not self.is_begun)
        return record.term == self.term or (begins and record.term.epoch >= self.term.epoch)

    def _is_about(self, entry: JournalEntry) -> bool:
        """Whether an entry is about the machines on record here: others, or a reset, may have come first."""
        match entry:
            case DeviceJoined(since=since):
                return since in (0, self.order.since)
            case EventTaken(port=0, number=number):
                return number == self.order.number_of(self.order.since)
        return True

    def snapshot(self, now: Instant) -> HouseSnapshot:
        """All that follows from the records so far."""
        kept = self.order.snapshot()
        silent = self.silent
        if silent is None:
            return kept
        return msgspec.structs.replace(
            kept,
            house=self.house,
            memory=silent.memory,
            ages_ns=silent.ages(now),
            values=silent.kept_values(),
            clocks=silent.kept_clocks(),
        )

    def is_at(self, record: JournalRecord, now: Instant) -> bool:
        """Whether a record says what follows from all up to it, so that none before it is wanted any more.

        Ages of states are left out: each member has them on its own clock.
        """
        kept = record.entry
        if not isinstance(kept, HouseSnapshot) or record.term != self.term:
            return False
        own = self.snapshot(now)
        return len(own.ages_ns) == len(kept.ages_ns) and msgspec.structs.replace(own, ages_ns=kept.ages_ns) == kept

    def _restore(self, kept: HouseSnapshot, now: Instant) -> None:
        self._take(kept.house, now)
        self.order.restore(kept)
        if self.silent is not None:
            self.silent.restore(kept, now)
        self.is_begun = True

    def _take(self, data: bytes, now: Instant) -> bool:
        """Other machines, which begin with their first states; False: the same, which go on with other groups."""
        house, programs, independence = _made(data)
        before, is_alike = self.silent, programs == self.programs
        if house is not None and before is not None and is_alike and _words(house) == _words(before.house):
            before.house, before.names = house, independence.names
        else:
            self.silent = None if house is None else SilentMachine(house, now, self._local)
        self.order.independence = independence
        self.house, self.programs = data, programs
        return before is None or self.silent is not before

    def _recovery(self, host: str) -> tuple[bytes, ...]:
        """With what a device goes on that joins here."""
        if self.silent is None:
            return encode_recovery(RecoveryTold(b""))
        memory = self.silent.memory.rstrip(b"\0") or b"\0"  # The rest is zeros, and the fewer pieces the better.
        return encode_recovery(RecoveryTold(memory, self.silent.values_of(IPv6Address(host).packed)))
