"""Rules: what is judged, as columns; how, is the business of `conditions`.

The idea: one row per item x condition, and beside it, per item, what a sample of it may concern.
"""

import math
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from albireo.machine.fold.columns import NEVER, Columns, Field
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

# What a sample of an item may concern beyond its own limits.
HAS_RATE: Final = 1
IS_SUPPRESSOR: Final = 2
IS_SIGN_OF_LIFE: Final = 4
IS_STALE: Final = 8


class Rules(Columns):
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
    """Limit times sign; of RATE units per second; of STALE ns."""
    off: NDArray[np.float64]
    """`on` less the hysteresis."""
    on_delay: NDArray[np.int64]
    off_delay: NDArray[np.int64]
    raw: NDArray[np.bool_]
    """Verdict of now."""
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


class Watched(Columns):
    """What the rules need to know of each item, by dense item index."""

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


class Adapters(Columns):
    """Signs of life by adapter."""

    fields: ClassVar = {"alive": Field("<i8")}
    alive: NDArray[np.int64]
    """Log time of the last sample of one of its diagnostics items."""


LIMITS: Final = (Condition.HI_HI, Condition.HI, Condition.LO, Condition.LO_LO)
NO_ALARMS: Final = AlarmSettings()
LONGEST_NS: Final = 10 * 365 * 86_400 * SECOND
"""No delay, no stale time and no rate verdict is longer: times stay within int64 whatever a table says."""


def limits_of(settings: AlarmSettings, value_type: ValueType) -> dict[Condition, tuple[float, float]]:
    """What an item is judged by: condition -> (sign, limit times sign). Limits judge numbers, off-normal a bool."""
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
        # True is alarm: value > 0.5. False is alarm: -value > -0.5.
        found[condition] = (1.0, 0.5) if settings.off_normal else (-1.0, -0.5)
    return found
