"""Plain holding registers of a simulated PLC: anybody may write them, and they may be as awkward as real ones.

Idea: `words` is what the PLC's program sees. A write becomes a `PendingWrite`, which its own connection sees from one
instant on and everybody else from another; without faults both are now. So read-your-write, the delay between two
connections, a write in two halves and a write that lands after its connection broke are all the same thing, late.

What it does not do: know what the words mean, or look at a clock. `now` is in seconds and never goes back.
"""

import mmap
from array import array
from collections import deque
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

REGISTERS: Final = 65_536
PENDING_MAX: Final = 256
"""Writes not yet seen by all; with more, the oldest is seen at once."""
HISTORY_MAX: Final = 4_096
"""Writes that a start with an old image can take back."""
_RETAINED_BYTES: Final = 2 * (REGISTERS + 1)


class Retained(StrEnum):
    """Contents of the registers after a power cycle."""

    ALL = "all"
    """Retained memory: every write that was seen."""
    NONE = "none"
    """Volatile memory: zeros."""
    OLD = "old"
    """Memory that is saved now and then: an older image comes back, valid and wrong."""


class Delays(msgspec.Struct, frozen=True):
    """Times at which a write is seen, in seconds after it arrived."""

    own: float = 0.0
    """Delay for its own connection."""
    others: float = 0.0
    """Delay for other connections and the PLC's program; never less than `own`."""
    between_halves: float = 0.0
    """Delay of the second half of the registers after the first."""
    splits_register: bool = False
    """The halves meet within a register: its high byte comes with the first."""


class Area(msgspec.Struct, frozen=True):
    """Registers first .. first + count - 1."""

    first: int
    count: int

    def holds(self, address: int, count: int) -> bool:
        return self.first <= address and address + count <= self.first + self.count

    def touches(self, address: int, count: int) -> bool:
        return address < self.first + self.count and self.first < address + count


class PendingWrite(msgspec.Struct, frozen=True):
    """A write that not everybody sees yet."""

    connection: int
    address: int
    words: tuple[int, ...]
    own_at: float
    all_at: float


class WordStore:
    """All words of a PLC and its boot number; in a file they survive the process, as retained memory a power cut."""

    def __init__(self, path: Path | None = None) -> None:
        """Without `path` they end with the process.

        Raises:
            OSError: the file cannot be opened.
        """
        if path is None:
            mapped = mmap.mmap(-1, _RETAINED_BYTES)
        else:
            with path.open("a+b") as file:
                file.truncate(_RETAINED_BYTES)
                mapped = mmap.mmap(file.fileno(), _RETAINED_BYTES)
        self._words = memoryview(mapped).cast("H")

    @property
    def boot(self) -> int:
        """Number of the last start; 0: there was none."""
        return self._words[REGISTERS]

    @boot.setter
    def boot(self, number: int) -> None:
        self._words[REGISTERS] = number

    def get(self, address: int, count: int) -> list[int]:
        return self._words[address : address + count].tolist()

    def put(self, address: int, words: Sequence[int]) -> None:
        self._words[address : address + len(words)] = memoryview(array("H", words))


class PlainMemory:
    """The registers of some areas."""

    def __init__(self, areas: Sequence[Area], store: WordStore) -> None:
        self.areas = tuple(areas)
        self._store = store
        self._pending: list[PendingWrite] = []
        self._history: deque[tuple[float, int, tuple[int, ...]]] = deque(maxlen=HISTORY_MAX)
        """Instant, address and the words before, oldest first."""

    def holds(self, address: int, count: int) -> bool:
        """Whether a request for these registers is for this memory and fits into one area."""
        return any(area.holds(address, count) for area in self.areas)

    def words(self, address: int, count: int) -> list[int]:
        """Words as the PLC's program sees them."""
        return self._store.get(address, count)

    def seen(self, connection: int, address: int, count: int, now: float) -> list[int]:
        """Words as a reader on `connection` sees them."""
        self.advance(now)
        seen = self.words(address, count)
        for one in self._pending:
            if one.connection == connection and one.own_at <= now:
                for place, word in enumerate(one.words, one.address):
                    if address <= place < address + count:
                        seen[place - address] = word
        return seen

    def write(self, connection: int, address: int, words: Sequence[int], delays: Delays, now: float) -> None:
        """A client's write of registers that `holds` them."""
        self.advance(now)
        half = len(words) // 2 if delays.between_halves else 0
        first = list(words[:half])
        if half and delays.splits_register:
            (below,) = self.words(address + half, 1)
            first.append(words[half] & 0xFF00 | below & 0xFF)
        parts = [(address, tuple(first), 0.0)] if half else []
        parts.append((address + half, tuple(words[half:]), delays.between_halves))
        for place, part, later in parts:
            own_at = now + later + delays.own
            # Requests of one connection are never carried out in another order; those of two may be.
            before = max((one.all_at for one in self._pending if one.connection == connection), default=now)
            all_at = max(now + later + max(delays.own, delays.others), before)
            self._pending.append(PendingWrite(connection, place, part, min(own_at, all_at), all_at))
        while len(self._pending) > PENDING_MAX:
            self._land(self._pending.pop(0), now)
        self.advance(now)

    def put(self, address: int, words: Sequence[int]) -> None:
        """The PLC's program writes: seen by all at once."""
        self._store.put(address, words)

    def due(self) -> float | None:
        """Instant at which the next write is seen by all."""
        return min((one.all_at for one in self._pending), default=None)

    def advance(self, now: float) -> None:
        """Everything that is due by `now` is seen by all."""
        landing = sorted((one for one in self._pending if one.all_at <= now), key=lambda one: one.all_at)
        if landing:
            self._pending = [one for one in self._pending if one.all_at > now]
            for one in landing:
                self._land(one, now)

    def zero(self, area: Area) -> None:
        """Somebody's engineering tool loads the program anew."""
        self._pending = [one for one in self._pending if not area.touches(one.address, len(one.words))]
        self.put(area.first, (0,) * area.count)

    def restart(self, keep: Retained, age: float, now: float) -> None:
        """A power cycle: what nobody else has seen yet is gone, and of the rest what `keep` says.

        Args:
            age: for `Retained.OLD`, how old the image is that comes back, in seconds.
        """
        self.advance(now)
        self._pending.clear()
        if keep is Retained.NONE:
            for area in self.areas:
                self.zero(area)
        while keep is Retained.OLD and self._history and self._history[-1][0] > now - age:
            _, address, before = self._history.pop()
            self.put(address, before)
        self._history.clear()

    def _land(self, one: PendingWrite, now: float) -> None:
        self._history.append((now, one.address, tuple(self.words(one.address, len(one.words)))))
        self.put(one.address, one.words)
