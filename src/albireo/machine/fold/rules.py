"""Rules: the limits to be judged, as columns; `conditions` judges them.

The idea: one row per item x condition, and beside it, per item, flags that say which rules a sample of it concerns.
"""

import math
from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from albireo.machine.fold.columns import NEVER, Field, GrowingColumns
from albireo.machine.fold.live import Live
from albireo.model import quality as q
from albireo.model.instant import MS, SECOND
from albireo.model.item import AlarmSettings, Condition
from albireo.model.value import ValueType

SLOTS: Final = tuple(Condition)
"""An item has at most one rule of each condition; the place of a condition here is its slot."""
SLOT_OF: Final = {condition: slot for slot, condition in enumerate(SLOTS)}
RATE: Final = SLOT_OF[Condition.RATE]
STALE: Final = SLOT_OF[Condition.STALE]
THRESHOLDS: Final = np.array(
    [SLOT_OF[one] for one in Condition if one not in (Condition.RATE, Condition.STALE)], np.intp
)
VALUED: Final = np.array([slot for slot in range(len(SLOTS)) if slot != STALE], np.intp)

# Flags of an item: rules beyond its own limits that its samples concern.
HAS_RATE: Final = 1
IS_SUPPRESSOR: Final = 2
IS_SIGN_OF_LIFE: Final = 4
IS_STALE: Final = 8


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
    """-1 for conditions below a limit: the verdict is sign * value > on (off, once it holds)."""
    on: NDArray[np.float64]
    """Limit times sign; in units per second for RATE, in ns for STALE."""
    off: NDArray[np.float64]
    """`on` less the hysteresis."""
    on_delay: NDArray[np.int64]
    off_delay: NDArray[np.int64]
    raw: NDArray[np.bool_]
    """Present verdict, before any delay."""
    judged: NDArray[np.bool_]
    """Verdict after its delay."""
    due: NDArray[np.int64]
    """Log time at which `raw` becomes the judgement."""
    at_ns: NDArray[np.int64]
    """Node wall time of the last change of judgement."""
    value: NDArray[np.float64]
    """Item's value at the last activation."""
    before: NDArray[np.float64]
    """RATE: the last judged sample, NaN before the first."""
    before_ns: NDArray[np.int64]
    fall_at: NDArray[np.int64]
    """RATE: log time at which the verdict falls if no sample comes."""


class WatchedItems(GrowingColumns):
    """State of each item that the rules need, by dense item index."""

    fields: ClassVar = {
        "rule_of": Field("<i4", -1, len(SLOTS)),
        "low": Field("<f8", -np.inf),
        "high": Field("<f8", np.inf),
        "seen": Field("<i8"),
        "flags": Field("u1"),
        "adapter": Field("<i4", -1),
        "suppressor": Field("<i4", -1),
        "is_suppressed": Field("?"),
    }
    rule_of: NDArray[np.int32]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    seen: NDArray[np.int64]
    """Log time of the last live sample, or of the declaration."""
    flags: NDArray[np.uint8]
    adapter: NDArray[np.int32]
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
        "changed_at": Field("<i8"),
    }
    is_open: NDArray[np.bool_]
    is_active: NDArray[np.bool_]
    is_suppressed: NDArray[np.bool_]
    is_chattering: NDArray[np.bool_]
    unshelve_at: NDArray[np.int64]
    on_way: NDArray[np.int32]
    """Records handed out and not yet folded."""
    changed_at: NDArray[np.int64]
    """Committed view: sequence of the record that last changed the rule's open case."""


class AdapterSigns(GrowingColumns):
    """Signs of life by adapter."""

    fields: ClassVar = {"alive": Field("<i8")}
    alive: NDArray[np.int64]
    """Log time of the last sample of one of its diagnostics items."""


LIMITS: Final = (Condition.HI_HI, Condition.HI, Condition.LO, Condition.LO_LO)
NO_ALARMS: Final = AlarmSettings()
LONGEST_NS: Final = 10 * 365 * 86_400 * SECOND
"""No delay, no stale time and no rate verdict is longer: times stay within int64 whatever a table says."""


def limits_of(settings: AlarmSettings, value_type: ValueType) -> dict[Condition, tuple[float, float]]:
    """Limits of an item: condition -> (sign, limit times sign). Limits judge numbers, off-normal a bool."""
    found: dict[Condition, tuple[float, float]] = {}
    if settings.stale_s is not None:
        found[Condition.STALE] = (1.0, math.ceil(min(settings.stale_s * SECOND, LONGEST_NS) / MS) * MS)
    if value_type in (ValueType.FLOAT64, ValueType.INT64):
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


def fold_bands(rules: Rules, watched: WatchedItems, index: NDArray[np.intp]) -> None:
    """Set the interval of each item within which no threshold verdict changes."""
    of_items = watched.rule_of[index[:, None], THRESHOLDS]
    rows = np.maximum(of_items, 0)
    counts = (of_items >= 0) & rules.is_enabled[rows]
    raw, sign = rules.raw[rows], rules.sign[rows]
    # A rule that does not hold keeps the value at or inside `on`, one that holds keeps it beyond `off`.
    edge = np.where(raw, np.nextafter(rules.off[rows], np.inf), rules.on[rows]) * sign
    is_upper = counts & (raw != (sign > 0))
    watched.low[index] = np.where(counts & ~is_upper, edge, -np.inf).max(axis=1)
    watched.high[index] = np.where(is_upper, edge, np.inf).min(axis=1)


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


def is_sound(rules: Rules, watched: WatchedItems, adapters: AdapterSigns) -> bool:
    """False: an index leads out of its columns, or a time is one that no table can have set."""
    items, rows = watched.count, rules.count
    stale = rules.on[:rows][rules.slot[:rows] == STALE]
    return (
        _within(rules.item[:rows], 0, items)
        and _within(rules.slot[:rows], 0, len(SLOTS))
        and bool(((stale >= 0) & (stale <= LONGEST_NS)).all())
        and _within(watched.rule_of[:items], -1, rows)
        and _within(watched.suppressor[:items], -1, items)
        and _within(watched.adapter[:items], -1, adapters.count)
    )


def _within(column: NDArray[np.integer], low: int, above: int) -> bool:
    return bool(((column >= low) & (column < above)).all())
