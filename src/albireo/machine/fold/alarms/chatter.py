"""Chatter: a condition that comes and goes too often to be read.

Not done here: judging (`conditions`, which counts its flips here) and recording (`cases`).

The idea: the last N activations of each rule stand in a ring. When the newest and the oldest of them lie within the
window, the rule chatters, and is held active instead of making a record of every flip. The rule is calm again when it
did not flip for `chatter_calm_ms`; the count then starts afresh.

             N activations within the window
    calm ------------------------------------> chattering (held active)
      ^                                             |
      +---------------------------------------------+
             no flip for chatter_calm_ms

Spec: reference/scada.md, 0.8 (C2MON's flood protection) and 1 (alarm load).
"""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from albireo.machine.fold.columns import NEVER, OLDEST, Field, GrowingColumns
from albireo.model.instant import MS, LogTime
from albireo.model.settings import ACTIVATIONS_MAX, AlarmConfig

Rows = NDArray[np.intp]


class Flips(GrowingColumns):
    """Recent activations by rule row."""

    fields: ClassVar = {
        "times": Field("<i8", OLDEST, ACTIVATIONS_MAX),
        "is_chattering": Field("?"),
        "calm_at": Field("<i8", NEVER),
    }
    times: NDArray[np.int64]
    """Log times of the last activations, newest first."""
    is_chattering: NDArray[np.bool_]
    calm_at: NDArray[np.int64]
    """Log time at which a chattering rule is calm again if nothing flips before."""


class Chatter:
    """Counts flips of judged conditions."""

    def __init__(self, config: AlarmConfig) -> None:
        self.flips = Flips()
        self._newest = config.chatter_activations - 1
        self._window_ns = config.chatter_window_ms * MS
        self._calm_ns = config.chatter_calm_ms * MS
        self.calm_at = NEVER
        """No rule is calm again before this."""

    def flipped(self, rows: Rows, is_active: NDArray[np.bool_], log_time: LogTime) -> bool:
        """Count rules that have just changed their judgement, each once. True: at least one began to chatter."""
        flips = self.flips
        risen = rows[is_active]
        if len(risen):
            flips.times[risen, 1:] = flips.times[risen, :-1]
            flips.times[risen, 0] = log_time
            flips.is_chattering[risen] |= log_time - flips.times[risen, self._newest] <= self._window_ns
        noisy = rows[flips.is_chattering[rows]]
        if not len(noisy):
            return False
        has_begun = bool((flips.calm_at[noisy] == NEVER).any())
        flips.calm_at[noisy] = log_time + self._calm_ns
        self.calm_at = min(self.calm_at, log_time + self._calm_ns)
        return has_begun

    def time_passed(self, log_time: LogTime) -> Rows:
        """Rules that are calm again."""
        if log_time < self.calm_at:
            return np.zeros(0, np.intp)
        flips = self.flips
        calm = np.flatnonzero(flips.calm_at <= log_time)
        flips.is_chattering[calm] = False
        flips.calm_at[calm] = NEVER
        flips.times[calm] = OLDEST
        self.arm()
        return calm

    def arm(self) -> None:
        self.calm_at = int(self.flips.calm_at.min())


__all__ = ["Chatter", "Flips"]
