"""DataItem: a value that a node measures or sets, and how its alarms are judged."""

import math
from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from albireo.model.bounded import Count, LongText, Name
from albireo.model.item_states import States, word_of
from albireo.model.value import ItemId, Value, ValueType, number_text, value_text

NAME_PATTERN = r"^[A-Za-z][A-Za-z0-9_.\-]{0,63}(/[A-Za-z][A-Za-z0-9_.\-]{0,63})?(?!\n)$"
"""Local name of an item; the diagnostics items of an adapter have its name before a slash (`p1/connected`)."""


LOST_SEVERITY: Final = 700
"""A lost device hides everything behind it: above the usual 500, below what people's safety hangs on."""
DELAY_MS_MAX = 7 * 86_400_000
"""Longest delay of a condition, one week: an alarm that comes later is none."""


class Condition(StrEnum):
    """Condition that can be wrong with an item; each has cases of its own.

    After OPC UA Part 9, 5.8 (limit, rate of change, discrete and off-normal alarms), plus stale, frozen and device
    lost, which the standard leaves to the vendor. A new one comes last: snapshots count them.
    """

    HI_HI = "hi_hi"
    HI = "hi"
    LO = "lo"
    LO_LO = "lo_lo"
    RATE = "rate"
    STALE = "stale"
    OFF_NORMAL = "off_normal"
    DEVICE_LOST = "device_lost"
    FROZEN = "frozen"


class Control(StrEnum):
    """How an item takes orders. After the control models of IEC 61850-7-2."""

    DIRECT = "direct"
    SELECT = "select"
    """Only from whoever has selected it (select before operate with normal security)."""


class AlarmSettings(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, gc=False
):
    """Rules by which an item is in alarm. A rule that is None is not judged."""

    hi_hi: float | None = None
    hi: float | None = None
    lo: float | None = None
    lo_lo: float | None = None
    hysteresis: float = 0.0
    """Distance inside a limit at which a raised condition clears; engineering units."""
    on_delay_ms: Count = 0
    """Time for which the value must be beyond the limit itself before a case is raised."""
    off_delay_ms: Count = 0
    """Time for which the value must be back inside by the hysteresis before a case clears."""
    rate_per_s: float | None = None
    """Largest change per second between two samples, either way."""
    stale_s: float | None = None
    """Longest time without a usable value."""
    frozen_s: float | None = None
    """Longest time for which samples may tell the same number."""
    off_normal: bool | None = None
    """Value of a bool item that is in alarm."""
    is_device_state: bool = False
    """True: the off-normal case of this item means that a whole device is lost."""
    severity: Count = 500
    """Severity 1..1000 (OPC UA Part 5, 6.4.2)."""
    is_latched: bool = False
    """True: the case stays until an operator resets it, even when the condition is gone and acknowledged."""
    suppressed_by: LongText = ""
    """Local name of a bool item; while that one is true (equipment off) the alarms of this item are suppressed."""

    def __post_init__(self) -> None:
        limits = [one for one in (self.lo_lo, self.lo, self.hi, self.hi_hi) if one is not None]
        if any(not math.isfinite(one) for one in limits) or limits != sorted(limits):
            raise ValueError("limits must be finite and in the order lo_lo <= lo <= hi <= hi_hi")
        if not 0 <= self.hysteresis < math.inf:
            raise ValueError("hysteresis must be finite and not negative")
        if not (0 <= self.on_delay_ms <= DELAY_MS_MAX and 0 <= self.off_delay_ms <= DELAY_MS_MAX):
            raise ValueError(f"delays must be within 0..{DELAY_MS_MAX} ms")
        if not 1 <= self.severity <= 1000:
            raise ValueError("severity must be within 1..1000")
        for positive in (self.rate_per_s, self.stale_s, self.frozen_s):
            if positive is not None and not 0 < positive < math.inf:
                raise ValueError("rate_per_s, stale_s and frozen_s must be finite and above 0")


class DataItem(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, gc=False
):  # Holds no references back; a node and its copies have 100,000 of them.
    """An item as its owner declares it. Full name: `<node>:<name>`."""

    name: LongText
    value_type: ValueType
    adapter: LongText = ""
    """Name of the adapter that owns the item; empty for items of the node itself."""
    unit: LongText = ""
    description: LongText = ""
    is_writable: bool = False
    minimum: float | None = None
    """Least value of a set point; a write below it is refused."""
    maximum: float | None = None
    """Largest value of a set point; a write above it is refused."""
    control: Control = Control.DIRECT
    """Whether it has to be selected before an order."""
    states: States = ()
    """Words for values of a bool or a whole number; a value without one is shown as it is."""
    counter_range: float | None = None
    """Values that it can count before it begins again, in engineering units; negative if its scale is. A change that
    passing the end explains within `rate_per_s` is no rate."""
    alarm: AlarmSettings | None = None
    was: LongText = ""
    """Local name that the item had before. If nobody declares that any more its id goes over, and with it history and
    cases. LongText by whoever declares the item, and never on record, where the id says it."""

    def shown(self, value: Value | None) -> str:
        """A value as a person reads it, with its word or its unit."""
        return value_text(value, self.unit, word_of(self.states, value))

    def worded(self, value: Value | None) -> str:
        """As `shown`, without the unit, and without a word for a value that is none of the item's type any more."""
        is_of_it = isinstance(value, bool) == (self.value_type is ValueType.BOOL) and not isinstance(value, float)
        return value_text(value, word=word_of(self.states, value) if is_of_it else "")

    def out_of_range(self, value: Value) -> str:
        """Why this is no set point of the item; empty: it may be one."""
        if isinstance(value, str):
            return ""
        if self.minimum is not None and value < self.minimum:
            return f"{number_text(value)} is below the minimum {number_text(self.minimum)}"
        if self.maximum is not None and value > self.maximum:
            return f"{number_text(value)} is above the maximum {number_text(self.maximum)}"
        return ""


class KnownItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An item with the id that CORE allotted."""

    item_id: Annotated[ItemId, Meta(ge=0, le=2**32 - 1)]
    node: Name
    item: DataItem
    is_retired: bool = False
    """True: nobody declares it any more. It keeps its id and its history, and has no rules; left out of its bytes else,
    and in a log below feature level 3."""

    @property
    def full_name(self) -> str:
        return f"{self.node}:{self.item.name}"

    def reading(self, value: Value | None, quality: int, source_ns: int, node_ns: int) -> "Reading":
        return Reading(
            item_id=self.item_id,
            name=self.full_name,
            value=value,
            quality=quality,
            source_ns=source_ns,
            node_ns=node_ns,
            unit=self.item.unit,
            word=word_of(self.item.states, value),
        )


def name_parts(name: str) -> tuple[str, str]:
    """Node and local name of an item's full name, or of a pattern of such; the node is empty if none is named.

    No node has a colon in its id, and programs may name items with some.
    """
    node, colon, local = name.partition(":")
    return (node, local) if colon else ("", name)


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """Current value of one item, at an edge (status, watch, JSON)."""

    item_id: int
    name: str
    value: Value | None
    """None before the first sample: unknown is not zero."""
    quality: int
    source_ns: int
    node_ns: int
    unit: str = ""
    word: str = ""
    """Word of the value, if the item has one for it."""
