"""Ledger of the world: what is on record, and whether devices act on it as they must. It counts by itself."""

from typing import Final

from albireo.codec.hexabus.journal import (
    BY_HAND,
    EventTaken,
    HouseSnapshot,
    HouseTaken,
    JournalRecord,
    LeadTaken,
    ResetOrdered,
    Term,
)
from albireo.codec.hexabus.packets import NUMBER_MAX
from albireo.codec.hexabus.values import HexScalar
from albireo.machine.hexabus.clocks import CLOCK
from albireo.machine.hexabus.compiler import TIMER
from albireo.machine.hexabus.rows import HOUSE_NUMBERS
from albireo.model.instant import Instant
from albireo.sim.engine.stage import Violation
from albireo.sim.hexabus.house import encoded, names_of, touched

EventKey = tuple[str, int, HexScalar]
VARIANTS: Final = 4


class HexLedger:
    """The ledger."""

    def __init__(self) -> None:
        self.valid: list[tuple[JournalRecord, Instant]] = []
        """Records that count, and when they were put."""
        self.void = 0
        self.last = 0
        """Number of the last item."""
        self.items: dict[int, frozenset[str] | None] = {}
        """Machines that each event touches; None: it is a reset, or another house."""
        self.variants: dict[int, int] = {}
        """House that counts for each item."""
        self.variant = 0
        self.hosts: dict[tuple[int, HexScalar], str] = {}
        """Who told of an event: no two have one value."""
        self.of: dict[EventKey, list[int]] = {}
        """Items of each event; of time is told again after a reset."""
        self._once: set[EventKey] = set()
        self._began = 1
        """First item since machines began."""
        self._term = Term(0, 0)

    def took(self, record: JournalRecord, at: Instant) -> bool:
        """A record stands in the journal. False: it is void. Raises Violation: an event stands there twice."""
        entry = record.entry
        if record.term == BY_HAND:
            is_void = not isinstance(entry, HouseTaken | ResetOrdered)
        elif record.term != self._term:
            is_void = record.term.epoch < self._term.epoch or not (isinstance(entry, LeadTaken) or not self.valid)
        else:
            is_void = False
        if isinstance(entry, EventTaken) and entry.port == 0:
            is_void |= entry.number != (self._began - 1) % NUMBER_MAX + 1
        if is_void:
            self.void += 1
            return False
        self._term = self._term if record.term == BY_HAND else record.term
        self.valid.append((record, at))
        match entry:
            case EventTaken(host=host, eid=eid):
                value = entry.told.value
                key = host, eid, value
                self.hosts[eid, value] = host
                self._add(touched(host, eid, value, self.variant), len(names_of(host, self.variant)))
                self.of.setdefault(key, []).append(self.last)
                if key in self._once:
                    raise Violation(f"{key} is on record more than once: {self.of[key]}")
                self._once.add(key)
            case ResetOrdered():
                self._forget(is_clock=False)
                self._add(None)
                self._began = self.last
            case HouseTaken(house=house):
                before, self.variant = self.variant, next(one for one in range(VARIANTS) if encoded(one)[0] == house)
                if self.last == 0 or before % 2 != self.variant % 2:  # Else they go on, by other groups.
                    self._forget(is_clock=True)
                    self._add(None, HOUSE_NUMBERS)
                    self._began = self.last + 1
            case HouseSnapshot(last=last, since=since) if len(self.valid) == 1:
                self.last, self._began = last, since
        return True

    def _add(self, classes: frozenset[str] | None, numbers: int = 1) -> None:
        self.last += numbers
        self.items[self.last], self.variants[self.last] = classes, self.variant

    def _forget(self, *, is_clock: bool) -> None:
        """Machines begin anew: events of time may be told again. `is_clock`: times of day, too."""
        self._once -= {key for key in self._once if key[1] == TIMER and (is_clock or int(key[2]) >> 24 != CLOCK)}

    def item_of(self, number: int) -> int:
        """The last item with this number on the wire."""
        return self.last - (self.last - number) % NUMBER_MAX


class DeviceLedger:
    """Events on which one device acts in one life of it in the order."""

    def __init__(self, name: str, ledger: HexLedger) -> None:
        self.name = name
        self._ledger = ledger
        self.behind = -1
        """Item that it begins behind; -1: it is not there."""
        self._acted: set[int] = set()
        self.count = 0

    def begins(self, behind: int) -> None:
        self.behind = behind
        self._acted.clear()

    def resets(self, item: int) -> None:
        """It takes an item for a reset."""
        if self._ledger.items.get(item, frozenset()) is not None or item <= max(self.behind, 0):
            raise Violation(f"{self.name} takes {item} for a reset, behind {self.behind}")
        self.begins(item)

    def has_all(self, item: int, joined_behind: int) -> None:
        """It is on record that everybody who is there has the items up to this one."""
        if self.behind >= joined_behind:
            for one, classes in reversed(self._ledger.items.items()):
                if one <= self.behind or classes is None:
                    return  # What stands before a reset is not sent any more.
                if one <= item and one not in self._acted:
                    raise Violation(f"{self.name} has not {one}, and it is on record that all have {item}")

    def acts(self, names: list[bytes], key: EventKey, variant: int) -> None:
        """It acts on an event. Raises Violation: again, out of its turn, with another program, or by other names."""
        ledger, items = self._ledger, self._ledger.of.get(key, [0])
        item = next((one for one in items if one > self.behind and one not in self._acted), items[-1])
        what = f"{self.name} acts on {item} {key}"
        if not item:
            raise Violation(f"{what}, which is not on record")
        if self.behind < 0 or item <= self.behind or item in self._acted:
            raise Violation(f"{what} again: it went on behind {self.behind}")
        on_record = ledger.variants[item]
        if encoded(on_record)[1][self.name] != encoded(variant)[1][self.name]:
            raise Violation(f"{what} with the program {variant}, and {on_record} is on record")
        if sorted(names) != sorted(names_of(key[0], on_record)):
            raise Violation(f"{what} by the names {[one.hex() for one in names]}")
        own = ledger.items[item] or frozenset()
        for one, classes in reversed(ledger.items.items()):
            if one <= self.behind:
                break
            is_common = classes is None or bool(classes & own)
            if is_common and one != item and (one < item) != (one in self._acted):
                raise Violation(f"{what} out of its turn: {one} {'is not' if one < item else 'was'} acted on before")
        self._acted.add(item)
        self.count += 1
