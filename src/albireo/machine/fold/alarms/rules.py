"""Rules: the limits to be judged, as columns, and the verdicts of values by them; `conditions` makes them judgements.

The idea: one row per item x condition, and beside it, per item, flags that say which rules a sample of it concerns.
"""

import math
from collections.abc import Sequence
from typing import ClassVar, Final, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.machine.fold.columns import NEVER, Field, GrowingColumns, time_between
from albireo.machine.fold.items.live import Live
from albireo.model import quality as q
from albireo.model.decimals import surely
from albireo.model.instant import MS, SECOND
from albireo.model.item import AlarmSettings, Condition, DataItem
from albireo.model.samples import narrowed
from albireo.model.value import EXACT, ValueType, difference

SLOTS: Final = tuple(Condition)
"""An item has at most one rule of each condition; the place of a condition here is its slot."""
SLOT_OF: Final = {condition: slot for slot, condition in enumerate(SLOTS)}
RATE: Final = SLOT_OF[Condition.RATE]
STALE: Final = SLOT_OF[Condition.STALE]
FROZEN: Final = SLOT_OF[Condition.FROZEN]
THRESHOLDS: Final = np.array([slot for slot in range(len(SLOTS)) if slot not in (RATE, STALE, FROZEN)], np.intp)
VALUED: Final = np.array([slot for slot in range(len(SLOTS)) if slot != STALE], np.intp)

# Flags of an item: rules beyond its own limits that its samples concern.
HAS_RATE: Final = 1
IS_SUPPRESSOR: Final = 2
IS_STALE: Final = 4
HAS_FROZEN: Final = 8
IS_FORCED: Final = 16
IS_ANEW: Final = 32
"""Its stale time began anew, and no usable value came since."""
IS_LOST: Final = 64
"""A `device_lost` case tells of its adapter (items with a stale rule)."""


Column1 = TypeVar("Column1", NDArray[np.float64], NDArray[np.int64], NDArray[np.bool_])


class Rules(GrowingColumns):
    """One row per item x condition."""

    fields: ClassVar = {
        "item": Field("<i4"),
        "slot": Field("u1"),
        "is_enabled": Field("?"),
        "sign": Field("<f8", 1.0),
        "on": Field("<f8"),
        "off": Field("<f8"),
        "on_delay": Field("<i8"),
        "off_delay": Field("<i8"),
        "raw": Field("?"),
        "judged": Field("?"),
        "due": Field("<i8", NEVER),
        "at_ns": Field("<i8"),
        "value": Field("<f8"),
        "before": Field("<f8", np.nan),
        "before_ns": Field("<i8"),
        "fall_at": Field("<i8", NEVER),
    }
    item: NDArray[np.int32]
    slot: NDArray[np.uint8]
    is_enabled: NDArray[np.bool_]
    """False: the item's settings no longer ask for this rule."""
    sign: NDArray[np.float64]
    """-1 for conditions below a limit: the verdict is sign * value > on (off, once it is judged to hold)."""
    on: NDArray[np.float64]
    """Limit times sign; in units per second for RATE, in ns for STALE and FROZEN."""
    off: NDArray[np.float64]
    """`on` less the hysteresis; for RATE the range of the counter, NaN: it is none."""
    on_delay: NDArray[np.int64]
    off_delay: NDArray[np.int64]
    raw: NDArray[np.bool_]
    """Present verdict, before any delay."""
    judged: NDArray[np.bool_]
    """Verdict after its delay."""
    due: NDArray[np.int64]
    """Log time at which `raw` becomes the judgement."""
    at_ns: NDArray[np.int64]
    """Node wall time of the last change of judgement or limit."""
    value: NDArray[np.float64]
    """Item's value at the last activation."""
    before: NDArray[np.float64]
    """RATE, FROZEN: the last judged sample, NaN before the first."""
    before_ns: NDArray[np.int64]
    """RATE: its source time. FROZEN: log time since which samples tell this number."""
    fall_at: NDArray[np.int64]
    """RATE: log time at which the verdict falls if no sample comes."""

    def __init__(self) -> None:
        super().__init__()
        self.by_forced: set[int] = set()
        """Rows whose last change of judgement was made by a value to which the item was forced."""

    def clear(self, row: int | NDArray[np.intp]) -> None:
        super().clear(row)
        self.by_forced.difference_update(np.atleast_1d(row).tolist())

    def note_forced(self, rows: NDArray[np.intp], flags: NDArray[np.uint8], quality: NDArray[np.uint32]) -> None:
        """Take note which of these changes of judgement were made by forced values.

        Args:
            flags: of the items, row by row; one that is forced may still have a measured value.
            quality: of their values.
        """
        is_forced = (flags & IS_FORCED != 0) & (quality == q.GOOD_LOCAL_OVERRIDE)
        if self.by_forced:
            self.by_forced.difference_update(rows.tolist())
        self.by_forced.update(rows[is_forced].tolist())


class WatchedItems(GrowingColumns):
    """State of each item that the rules need, by dense item index."""

    fields: ClassVar = {
        "rule_of": Field("<i4", -1, len(SLOTS)),
        "low": Field("<f8", -np.inf),
        "high": Field("<f8", np.inf),
        "seen": Field("<i8"),
        "flags": Field("u1"),
        "suppressor": Field("<i4", -1),
        "is_suppressed": Field("?"),
    }
    rule_of: NDArray[np.int32]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    seen: NDArray[np.int64]
    """Log time of the last usable value, or of the declaration, or at which the item's time began anew."""
    flags: NDArray[np.uint8]
    suppressor: NDArray[np.int32]
    """Dense index of the bool item that suppresses this one's alarms."""
    is_suppressed: NDArray[np.bool_]


class NotedRules(GrowingColumns):
    """Noted state of each rule, in the appended view; the rows are those of `Rules`."""

    fields: ClassVar = {
        "is_open": Field("?"),
        "is_active": Field("?"),
        "is_suppressed": Field("?"),
        "is_chattering": Field("?"),
        "unshelve_at": Field("<i8", NEVER),
        "on_way": Field("<i4"),
    }
    is_open: NDArray[np.bool_]
    is_active: NDArray[np.bool_]
    is_suppressed: NDArray[np.bool_]
    is_chattering: NDArray[np.bool_]
    unshelve_at: NDArray[np.int64]
    on_way: NDArray[np.int32]
    """Records handed out and not yet folded."""


LIMITS: Final = (Condition.HI_HI, Condition.HI, Condition.LO, Condition.LO_LO)
NO_ALARMS: Final = AlarmSettings()
LONGEST_NS: Final = 10 * 365 * 86_400 * SECOND
"""No delay, no stale time and no rate verdict is longer: times stay within int64 whatever a table says."""


def limits_of(settings: AlarmSettings, value_type: ValueType) -> dict[Condition, tuple[float, float]]:
    """Limits of an item: condition -> (sign, limit times sign). Limits judge numbers, off-normal a bool."""
    found: dict[Condition, tuple[float, float]] = {}
    if settings.stale_s is not None:
        found[Condition.STALE] = (1.0, _time(settings.stale_s))
    if value_type in (ValueType.FLOAT64, ValueType.INT64):
        if settings.frozen_s is not None:
            found[Condition.FROZEN] = (1.0, _time(settings.frozen_s))
        for condition, sign, limit in (
            (Condition.HI_HI, 1.0, settings.hi_hi),
            (Condition.HI, 1.0, settings.hi),
            (Condition.LO, -1.0, settings.lo),
            (Condition.LO_LO, -1.0, settings.lo_lo),
            (Condition.RATE, 1.0, settings.rate_per_s),
        ):
            if limit is not None:
                found[condition] = (sign, sign * limit)
    elif value_type is ValueType.BOOL and settings.off_normal is not None:
        condition = Condition.DEVICE_LOST if settings.is_device_state else Condition.OFF_NORMAL
        # Alarm if true: value > 0.5. Alarm if false: -value > -0.5.
        found[condition] = (1.0, 0.5) if settings.off_normal else (-1.0, -0.5)
    return found


def _time(seconds: float) -> float:
    """Log time in ns, whole milliseconds."""
    return math.ceil(min(seconds * SECOND, LONGEST_NS) / MS) * MS


def off_of(slot: int, limit: float, item: DataItem) -> float:
    """`Rules.off` of a rule of `item` with this limit (times sign)."""
    if slot == RATE:
        return math.nan if item.counter_range is None else item.counter_range
    hysteresis = item.alarm.hysteresis if item.alarm is not None and SLOTS[slot] in LIMITS else 0.0
    return difference(limit, hysteresis)


def fold_bands(rules: Rules, watched: WatchedItems, index: NDArray[np.intp]) -> None:
    """Set the interval of each item within which no threshold verdict changes."""
    of_items = watched.rule_of[index[:, None], THRESHOLDS]
    rows = np.maximum(of_items, 0)
    counts = (of_items >= 0) & rules.is_enabled[rows]
    raw, sign = rules.raw[rows], rules.sign[rows]
    limit = np.where(rules.judged[rows], rules.off[rows], rules.on[rows])
    # A verdict that does not hold keeps the value at or inside its limit, one that holds keeps it beyond.
    edge = np.where(raw, np.nextafter(limit, np.inf), limit) * sign
    is_upper = counts & (raw != (sign > 0))
    watched.low[index] = narrowed(np.where(counts & ~is_upper, edge, -np.inf).max(axis=1), np.inf)
    watched.high[index] = narrowed(np.where(is_upper, edge, np.inf).min(axis=1), -np.inf)


def is_beyond(
    sign: NDArray[np.float64],
    number: NDArray[np.float64],
    limit: NDArray[np.float64],
    integer: NDArray[np.int64] | None,
) -> NDArray[np.bool_]:
    """Verdicts of values by limits; `integer` has the exact values of integer items, None: all numbers are exact."""
    verdict: NDArray[np.bool_] = sign * number > limit
    if integer is not None:
        for place in np.flatnonzero(np.abs(number) >= EXACT).tolist():
            verdict[place] = int(sign[place]) * int(integer[place]) > float(limit[place])
    return verdict


INTERVALS_HELD: Final = 2
"""Times between two samples for which a rate holds at least: a steady ramp just beyond the limit is one alarm."""


class Chain(msgspec.Struct, frozen=True, eq=False):
    """Samples in the sequence in which they are judged, those of one item side by side."""

    row: NDArray[np.intp]
    """Row of the rule."""
    number: NDArray[np.float64]
    source_ns: NDArray[np.int64]
    starts: NDArray[np.intp] | None = None
    """Places of the first sample of each item; None: there is one of each."""

    @property
    def ends(self) -> NDArray[np.intp] | slice:
        """Places of the last sample of each item."""
        return slice(None) if self.starts is None else np.append(self.starts[1:], len(self.row)) - 1

    def shifted(self, first: Column1, own: Column1) -> Column1:
        """Predecessor of each sample: `first` of an item's first one, else `own` of the one before."""
        if self.starts is None:
            return first
        found = np.empty_like(first)
        found[1:] = own[:-1]
        found[self.starts] = first[self.starts]
        return found

    def most(self, column: Column1) -> Column1:
        """The largest of each item; of marks: whether any is set."""
        return column if self.starts is None else np.maximum.reduceat(column, self.starts)


class RateVerdicts(msgspec.Struct, frozen=True, eq=False):
    """Verdict of each rule of a chain: that of its steepest pair of samples."""

    row: NDArray[np.intp]
    can_judge: NDArray[np.bool_]
    """False: no two samples have a time between them."""
    is_steep: NDArray[np.bool_]
    left_ns: NDArray[np.float64]
    """Time after which a steep verdict falls if the value is held."""


def rate_verdicts(rules: Rules, chain: Chain) -> RateVerdicts:
    """Judge each sample of the chain against the one before, and keep the last."""
    row, number, source_ns, ends = chain.row, chain.number, chain.source_ns, chain.ends
    before, before_ns = chain.shifted(rules.before[row], number), chain.shifted(rules.before_ns[row], source_ns)
    # An infinite or a first value gives NaN or infinity, which is what the lines below expect.
    with np.errstate(invalid="ignore", over="ignore"):
        change = number - before
        size = surely(np.fmin(np.abs(change), np.abs(change + rules.off[row])), number, before)
        # The mean rate falls to the limit this long after the sample before.
        steep_ns = size / rules.on[row] * SECOND
    elapsed = time_between(source_ns, before_ns)
    can_judge = (source_ns > before_ns) & ~np.isnan(size)
    is_steep = can_judge & (steep_ns > elapsed)
    left = np.zeros(len(row))
    if is_steep.any():
        last_ns = (
            source_ns if chain.starts is None else np.repeat(source_ns[ends], np.diff(chain.starts, append=len(row)))
        )
        held = time_between(np.maximum(last_ns, before_ns), before_ns)
        # Until then a sample after the same time would show that the value goes on, even if it came late.
        holds_ns = np.maximum(steep_ns, (1.0 + INTERVALS_HELD) * elapsed)
        left = np.where(is_steep, np.clip(holds_ns - held, 0, LONGEST_NS), 0)
    rows = row[ends]
    rules.before[rows], rules.before_ns[rows] = number[ends], source_ns[ends]
    return RateVerdicts(rows, chain.most(can_judge), chain.most(is_steep), chain.most(left))


def frozen_verdicts(rules: Rules, chain: Chain, log_time: int) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Rows of a chain, and whether each number is the same for too long; keep the last of each."""
    row, number, ends = chain.row, chain.number, chain.ends
    has_moved = chain.most(number != chain.shifted(rules.before[row], number))
    rows = row[ends]
    rules.before[rows] = number[ends]
    rules.before_ns[rows[has_moved]] = log_time
    is_frozen: NDArray[np.bool_] = ~has_moved & (rules.raw[rows] | (log_time - rules.before_ns[rows] >= rules.on[rows]))
    return rows, is_frozen


def judge_suppression(live: Live, watched: WatchedItems) -> bool:
    """Find the items whose alarms are suppressed now; True: it is not as it was."""
    items = np.flatnonzero(watched.suppressor >= 0)
    verdict = np.zeros(len(watched.is_suppressed), np.bool_)
    by = watched.suppressor[items]
    verdict[items] = _is_off(live, watched, by)
    watched.flags &= ~np.uint8(IS_SUPPRESSOR)
    watched.flags[by] |= IS_SUPPRESSOR
    if not (verdict != watched.is_suppressed).any():
        return False
    watched.is_suppressed = verdict
    return True


def _is_off(live: Live, watched: WatchedItems, by: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Mark the items of `by` that say, by a value which can be believed now, that the equipment is off.

    A bad, a last usable or a stale value is no evidence. An item that waits for its first value, as all do after a
    restart of their adapter, is as it was: that ends with the first poll, or when the adapter is not heard in time.
    """
    code = live.quality[by] & _CODE
    is_bad = (q.severity(code) == q.BAD_CLASS) & (code != q.BAD_WAITING_FOR_INITIAL_DATA)
    is_old = (code == q.UNCERTAIN_LAST_USABLE_VALUE) | (watched.flags[by] & IS_STALE != 0)
    verdict: NDArray[np.bool_] = (live.number[by] != 0) & ~is_bad & ~is_old
    return verdict


def vacate(rules: Rules, watched: WatchedItems, indexes: Sequence[int]) -> NDArray[np.intp]:
    """Make the rules of these items new rows, and give them back; they wait for the items that take the indexes."""
    rule_of = watched.rule_of[list(indexes)]
    rows: NDArray[np.intp] = rule_of[rule_of >= 0].astype(np.intp)
    items, slots = rules.item[rows], rules.slot[rows]
    rules.clear(rows)
    rules.item[rows], rules.slot[rows] = items, slots
    watched.clear(np.array(indexes, np.intp))
    watched.rule_of[list(indexes)] = rule_of
    return rows


_CODE: Final = np.uint32(0xFFFF_0000)


def is_sound(rules: Rules, watched: WatchedItems) -> bool:
    """False: an index leads out of its columns, or a time is one that no table can have set."""
    items, rows = watched.count, rules.count
    stale = rules.on[:rows][np.isin(rules.slot[:rows], (STALE, FROZEN))]
    return (
        _within(rules.item[:rows], 0, items)
        and _within(rules.slot[:rows], 0, len(SLOTS))
        and bool(((stale >= 0) & (stale <= LONGEST_NS)).all())
        and _within(watched.rule_of[:items], -1, rows)
        and _within(watched.suppressor[:items], -1, items)
        and all(0 <= row < rows for row in rules.by_forced)
    )


def _within(column: NDArray[np.integer], low: int, above: int) -> bool:
    return bool(((column >= low) & (column < above)).all())
