"""A walk over the life of one item, from event to event: what was known of it, and for how long.

Written from OPC UA Part 13 (3.1.6 stepped interpolation, 5.4.3.2 durations, TimeAverage2, Minimum2, Maximum2) and the
rules of ADR-0065 and ADR-0168 alone. Nothing here knows columns, kernels, files, partials or SQL: whole numbers in
plain loops, one event after the other.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

MINUTE = 60_000_000_000
DAY = 86_400_000_000_000
LATEST = 2**62
"""Times beyond it on either side are set to it."""
Number = int | float


@dataclass(frozen=True)
class Told:
    """A sample as it was recorded. `value` None: a text."""

    source_ns: int
    sequence: int
    value: Number | None
    quality: int


@dataclass(frozen=True)
class Life:
    """Everything that is on record of one item."""

    rows: Sequence[Told]
    gaps: Sequence[int]
    """When gaps began that are about the item."""
    stale: Sequence[tuple[int, int | None]]
    """From when on which stale time was declared. The last one at a time is in force, and what is so first counts
    before, too."""


@dataclass(frozen=True)
class Stretch:
    """From `begin` to `end` the item was `kind`: good, uncertain, bad or lost."""

    begin: int
    end: int
    kind: str
    value: Number | None


@dataclass
class Bucket:
    """What happened in one interval."""

    rows: int = 0
    good_rows: int = 0
    first_ns: int | None = None
    time: dict[str, int] = field(default_factory=lambda: {"good": 0, "uncertain": 0, "bad": 0, "lost": 0})
    integral: float = 0.0
    """Value x seconds of the usable kinds."""
    size: float = 1.0
    """Sum of the same without signs: how much rounding may have cost."""
    seen: list[Number] = field(default_factory=list)
    """Usable values that were read or held."""

    @property
    def known(self) -> int:
        return sum(self.time.values())


def kind_of(row: Told) -> str:
    if isinstance(row.value, float) and not math.isfinite(row.value):
        return "bad"
    return ("good", "uncertain", "bad", "bad")[row.quality >> 30 & 3]


def limit_of(life: Life, at: int, kind: str) -> int:
    """How long what happened at a time may hold."""
    if kind not in ("good", "uncertain"):
        return 31 * DAY
    declared = None
    for begin, stale in life.stale:
        if begin <= max(at, life.stale[0][0]):
            declared = stale
    return 31 * DAY if declared is None else min(max(declared, MINUTE), 366 * DAY)


def moment(ns: int) -> int:
    return max(-LATEST, min(LATEST, ns))


def stretches(life: Life, known_to: int) -> Iterator[Stretch]:
    """What held, in order. Nothing before the first row, nothing behind the end of what is known."""
    rows = sorted(life.rows, key=lambda row: (moment(row.source_ns), row.sequence))
    if not rows:
        return
    events = [(moment(row.source_ns), 0, place, row) for place, row in enumerate(rows)]
    lost = [(moment(gap), 1, place, None) for place, gap in enumerate(life.gaps) if moment(gap) >= events[0][0]]
    following = sorted([*events, *lost], key=lambda one: one[:3])
    for event, after in zip(following, [*following[1:], None], strict=True):
        begin, _, _, row = event
        kind = "lost" if row is None else kind_of(row)
        end = min(known_to, begin + limit_of(life, begin, kind), known_to if after is None else after[0])
        if end > begin:
            yield Stretch(begin, end, kind, None if row is None else row.value)


def buckets(life: Life, known_to: int, edges: Sequence[int], *, usable: Sequence[str] = ("good",)) -> dict[int, Bucket]:
    """What happened in the intervals between `edges`, by their begin; those without anything are left out."""
    width = edges[1] - edges[0]
    low, high = edges[0], edges[-1]
    found: dict[int, Bucket] = {}

    def at(ns: int) -> tuple[int, int]:
        begin = low + (ns - low) // width * width
        return begin, min(begin + width, high)

    for row in sorted(life.rows, key=lambda one: (moment(one.source_ns), one.sequence)):
        if not low <= moment(row.source_ns) < high:
            continue
        bucket = found.setdefault(at(moment(row.source_ns))[0], Bucket())
        bucket.rows += 1
        bucket.good_rows += kind_of(row) == "good"
        if bucket.first_ns is None:
            bucket.first_ns = moment(row.source_ns)
        if kind_of(row) in usable and row.value is not None:
            bucket.seen.append(row.value)
    for stretch in stretches(life, known_to):
        now = max(stretch.begin, low)
        while now < min(stretch.end, high):
            begin, end = at(now)
            until = min(stretch.end, end)
            bucket = found.setdefault(begin, Bucket())
            bucket.time[stretch.kind] += until - now
            if stretch.kind in usable and stretch.value is not None:
                part = stretch.value * ((until - now) / 1e9)
                bucket.integral += part
                bucket.size += abs(part)
                bucket.seen.append(stretch.value)
            now = until
    return found
