"""Settings of all alarms of a node; those of one item are its `AlarmSettings`."""

from typing import Final

import msgspec

ACTIVATIONS_MAX: Final = 16


class AlarmConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of the alarm machine. All times are log time."""

    chatter_activations: int = 3
    """Activations of one condition within the window that make it chatter. Three activations are six changes of state:
    C2MON's limit for an oscillating alarm."""
    chatter_window_ms: int = 60_000
    """Window of the activations, as in C2MON."""
    chatter_calm_ms: int = 180_000
    """A chattering condition is held active until it was calm for this long (C2MON's time to clear)."""
    shelve_max_ms: int = 12 * 3_600_000
    """MaxTimeShelved (OPC UA Part 9): no shelve outlasts a shift, so nothing is forgotten on the shelf."""

    def __post_init__(self) -> None:
        if not 2 <= self.chatter_activations <= ACTIVATIONS_MAX:
            raise ValueError(f"chatter_activations must be within 2..{ACTIVATIONS_MAX}")
        if min(self.chatter_window_ms, self.chatter_calm_ms, self.shelve_max_ms) <= 0:
            raise ValueError("chatter_window_ms, chatter_calm_ms and shelve_max_ms must be above 0")
