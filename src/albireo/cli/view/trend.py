"""Trends of the live view: the course of each numeric item over the last minutes, in a few characters. No I/O.

Time is cut into steps; of each step the last value counts, and a step without news repeats the one before, as an item
that stands still sends nothing. A step that ended bad is a blank.
"""

from collections import deque
from typing import Final

from albireo.model.instant import SECOND
from albireo.model.value import Value

STEP_NS: Final = 5 * SECOND
STEPS: Final = 12
"""Characters of a trend: a minute."""
_BARS: Final = "▁▂▃▄▅▆▇█"
_FLAT: Final = "─"


class Trend:
    """Values of one item by step, for the last STEPS steps and the one before them."""

    def __init__(self) -> None:
        self._steps: deque[tuple[int, float | None]] = deque(maxlen=STEPS + 1)

    def add(self, source_ns: int, value: Value | None) -> None:
        """Take a value; None: it is bad. Only numbers have a course."""
        if isinstance(value, bool | str):
            return
        step = source_ns // STEP_NS
        if self._steps and step < self._steps[-1][0]:
            return  # A late value is history, as it is for the current one.
        if self._steps and step == self._steps[-1][0]:
            self._steps.pop()
        self._steps.append((step, None if value is None else float(value)))

    def text(self, wall_ns: int) -> str:
        """STEPS characters, the newest on the right; blank where nothing is known."""
        now = wall_ns // STEP_NS
        values = [self._at(step) for step in range(now - STEPS + 1, now + 1)]
        known = [value for value in values if value is not None]
        if not known:
            return " " * STEPS
        low, span = min(known), max(known) - min(known)
        return "".join(" " if value is None else _bar(value - low, span) for value in values)

    def _at(self, step: int) -> float | None:
        return next((value for at, value in reversed(self._steps) if at <= step), None)


def _bar(above: float, span: float) -> str:
    return _BARS[min(len(_BARS) - 1, int(above / span * len(_BARS)))] if span > 0 else _FLAT
