"""Sealing: when to seal the hot tail, when to stop taking rows, which files to merge.

The shell measures, asks here, and acts. `SealPace` is the machine of one hot tail:

           has news and 60 s, or enough rows, or asked             sealed
    Idle ------------------------------------------------> Sealing --------> Idle
      ^                                                      |  failed
      +----------------------- back-off over ----------------+

Invariants
    At most one seal is under way. A failed one is tried again, later each time, with everything that has come since.
    `has_room` is False long before memory is short; rows that find no room stay in the log and come later.

Merging keeps the number of files of a day small: `TIER` files of one level become one of the next, and once the day is
closed and quiet all its files become one. So a row is rewritten at most `LEVEL_MAX` + 1 times.
Spec: ADR-0062, ADR-0064.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from albireo.codec.history import DAY_NS, FileEntry, FileKind, day_start_ns
from albireo.model.instant import SECOND, Instant

TIER: Final = 12
"""Files of one level that are merged into one of the next."""
LEVEL_MAX: Final = 2
"""Highest level within an open day: 12 x 12 minutes in one file."""
CLOSED_LEVEL: Final = 9
INPUTS_MAX: Final = 64
"""Most files that one merge reads; a day with more is merged in several steps."""
QUIET_NS: Final = 600 * SECOND
"""Node time that must pass after a day's last seal before it counts as closed."""


class SealPaceConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When to seal, and how much memory the hot tail may take."""

    seal_every_ns: int = 60 * SECOND
    """Longest time a row stays in memory only (it is durable in the log all the while)."""
    seal_rows: int = 1_000_000
    """This many rows are sealed at once, however young they are."""
    hot_rows_max: int = 4_000_000
    """Rows in memory beyond which there is no credit; some 50 bytes each."""
    hot_bytes_max: int = 256 * 1024 * 1024
    """Bytes of frames in memory beyond which there is no credit."""
    retry_min_ns: int = 2 * SECOND
    retry_max_ns: int = 60 * SECOND

    def __post_init__(self) -> None:
        if not 0 < self.seal_rows <= self.hot_rows_max:
            raise ValueError("seal_rows must be within 1..hot_rows_max, or the tail fills before it is sealed")
        if not 0 < self.retry_min_ns <= self.retry_max_ns or self.seal_every_ns <= 0:
            raise ValueError("times must be above 0 and retry_min_ns at most retry_max_ns")


class SealPace:
    """Pace of the seals of one hot tail."""

    def __init__(self, config: SealPaceConfig) -> None:
        self.config = config
        self.is_sealing = False
        self.failures = 0
        """Seals that failed since the last success."""
        self._since: Instant | None = None
        """When the oldest unsealed news came."""
        self._retry_at: Instant | None = None
        self._is_asked = False
        self._rows = 0
        self._bytes = 0

    def took(self, hot_rows: int, hot_bytes: int, now: Instant) -> None:
        """Frames were taken; the hot tail, rows being sealed included, is now this large."""
        self._rows, self._bytes = hot_rows, hot_bytes
        if self._since is None:
            self._since = now

    def asked(self, now: Instant) -> None:
        """Everything is to be sealed now, however little it is."""
        self._is_asked = True
        self._retry_at = None
        if self._since is None:
            self._since = now

    def is_due(self, now: Instant) -> bool:
        deadline = self.deadline()
        return deadline is not None and now >= deadline

    def deadline(self) -> Instant | None:
        """When the next seal starts; None while there is nothing to seal or one is under way."""
        if self.is_sealing or self._since is None:
            return None
        if self._retry_at is not None:
            return self._retry_at
        if self._is_asked or self._rows >= self.config.seal_rows:
            return self._since
        return Instant(self._since + self.config.seal_every_ns)

    def started(self) -> None:
        """A seal of everything taken so far has begun."""
        assert not self.is_sealing
        self.is_sealing = True
        self._is_asked = False
        self._since = None

    def sealed(self, hot_rows: int, hot_bytes: int) -> None:
        self.is_sealing = False
        self.failures = 0
        self._retry_at = None
        self._rows, self._bytes = hot_rows, hot_bytes

    def failed(self, now: Instant) -> None:
        self.is_sealing = False
        self.failures += 1
        pause = min(self.config.retry_min_ns * 2 ** min(self.failures - 1, 16), self.config.retry_max_ns)
        self._retry_at = Instant(now + pause)
        self._since = now if self._since is None else self._since

    def has_room(self) -> bool:
        """More rows may be asked for."""
        return self._rows < self.config.hot_rows_max and self._bytes < self.config.hot_bytes_max


class MergePlan(msgspec.Struct, frozen=True):
    """Plan to make one file of `inputs`: all of one kind, node and day, sorted by sequence."""

    inputs: tuple[FileEntry, ...]
    level: int

    @property
    def kind(self) -> FileKind:
        return self.inputs[0].kind


def merge_plan(
    files: Iterable[FileEntry], complete_to_ns: int, damaged: frozenset[str] = frozenset()
) -> MergePlan | None:
    """The most useful merge now, or None.

    Args:
        files: of a manifest. Partials are merged with the samples they belong to and are not looked at.
        complete_to_ns: node time to which the same manifest is complete.
        damaged: paths that can't be read; their day is left alone.
    """
    groups: dict[tuple[FileKind, str, str, str], list[FileEntry]] = {}
    for entry in files:
        if entry.kind not in (FileKind.PARTIALS, FileKind.ITEMS):
            groups.setdefault((entry.kind, entry.node, entry.day, entry.log_id), []).append(entry)
    for group in groups.values():
        if len(group) < 2 or any(entry.path in damaged for entry in group):
            continue
        group.sort(key=lambda entry: entry.first_sequence)
        plan = _closed_day(group, complete_to_ns) or _tier(group)
        if plan is not None:
            return plan
    return None


def _closed_day(group: Sequence[FileEntry], complete_to_ns: int) -> MergePlan | None:
    closed_at = max(day_start_ns(group[0].day) + DAY_NS, max(entry.sealed_ns for entry in group)) + QUIET_NS
    if complete_to_ns < closed_at:
        return None
    inputs = tuple(group[:INPUTS_MAX])
    return MergePlan(inputs, CLOSED_LEVEL if len(inputs) == len(group) else LEVEL_MAX)


def _tier(group: Sequence[FileEntry]) -> MergePlan | None:
    for level in range(LEVEL_MAX):
        same = [entry for entry in group if entry.level == level]
        if len(same) >= TIER:
            return MergePlan(tuple(same[:INPUTS_MAX]), level + 1)
    return None
