"""Fold of the whole journal: the order of events, and the machines of the house, which take the same events silently.

Both members of a pair have the same one, but for the instants at which states were entered: each has them on its clock.
"""

from ipaddress import IPv6Address

import msgspec

from albireo.codec.errors import DecodeError
from albireo.codec.hexabus.house import decode_house
from albireo.codec.hexabus.journal import (
    BY_HAND,
    DeviceJoined,
    HouseSnapshot,
    HouseTaken,
    JournalRecord,
    LeadTaken,
    ResetOrdered,
    Term,
)
from albireo.codec.hexabus.recovery import RecoveryTold, encode_recovery
from albireo.machine.hexabus.clocks import LocalTime
from albireo.machine.hexabus.compiler import compiled
from albireo.machine.hexabus.independence import Independence
from albireo.machine.hexabus.meaning import CompileError
from albireo.machine.hexabus.order import EventOrder
from albireo.machine.hexabus.silent import SilentMachine
from albireo.machine.hexabus.upload import program_id, stored
from albireo.model.instant import Instant


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
        self.programs: dict[str, bytes] = {}
        """Program of each device, by host."""
        self._is_begun = False

    def fold(self, record: JournalRecord, now: Instant) -> bool:
        """Take the next record. False: it is void, and says nothing.

        Args:
            now: instant at which it was put, on the own clock.
        """
        entry = record.entry
        if not self._counts(record):
            return False
        self.term = max(self.term, record.term)
        if isinstance(entry, HouseSnapshot):
            if not self._is_begun:
                self._restore(entry, now)
            return True
        self._is_begun = True
        if isinstance(entry, DeviceJoined) and not self._is_ready(entry):
            return True
        if isinstance(entry, HouseTaken):
            try:
                self._take(entry.house, now)
            except (CompileError, DecodeError, ValueError) as error:
                self.refused = str(error)
                return False
            self.refused = ""
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
        is_later = record.term > self.term and isinstance(entry, LeadTaken | HouseSnapshot)
        return is_later or record.term == self.term

    def _is_ready(self, entry: DeviceJoined) -> bool:
        """Whether a device that joins has the program that is on record here."""
        program = self.programs.get(entry.host)
        return not entry.number or program is None or entry.program == program_id(stored(program))

    def snapshot(self, now: Instant, through: int) -> HouseSnapshot:
        """All that follows from the records so far; `through`: number of the last one."""
        kept = self.order.snapshot(through)
        silent = self.silent
        if silent is None:
            return kept
        return msgspec.structs.replace(
            kept, house=self.house, memory=silent.memory, ages_ns=silent.ages(now), values=silent.kept_values()
        )

    def _restore(self, kept: HouseSnapshot, now: Instant) -> None:
        self._is_begun = True
        self._take(kept.house, now)
        self.order.restore(kept)
        if self.silent is not None:
            self.silent.restore(kept, now)

    def _take(self, data: bytes, now: Instant) -> None:
        """Other machines, which begin with their first states."""
        house = decode_house(data) if data else None
        programs = {}
        if house is not None:
            programs = {str(IPv6Address(one.origin)): compiled(house, name) for name, one in house.devices.items()}
        self.silent = None if house is None else SilentMachine(house, now, self._local)
        self.order.independence = Independence(house)
        self.house, self.programs = data, programs

    def _recovery(self, host: str) -> tuple[bytes, ...]:
        """With what a device goes on that joins here."""
        if self.silent is None:
            return encode_recovery(RecoveryTold(b""))
        memory = self.silent.memory.rstrip(b"\0") or b"\0"  # The rest is zeros, and the fewer pieces the better.
        return encode_recovery(RecoveryTold(memory, self.silent.values_of(IPv6Address(host).packed)))
