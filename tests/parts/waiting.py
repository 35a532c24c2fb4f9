"""How long tests wait for what must come: until it is there, and no figure of the machine decides."""

import time
from collections.abc import Callable
from typing import Final, TypeVar

PATIENCE_S: Final = 90.0
"""Longest wait for a condition. Only a hang meets it; a machine that is busy or stands still for a second does not."""
PAUSE_S: Final = 0.01
"""Between two looks at what nobody announces: who asks without one takes the processor from whoever is to answer."""

T = TypeVar("T")


def awaited(look: Callable[[], T], is_so: Callable[[T], object] = bool) -> T:
    """Look again and again; returns what is seen once it is as wanted."""
    ends = time.monotonic() + PATIENCE_S
    while not is_so(seen := look()):
        assert time.monotonic() < ends, f"it did not come in {PATIENCE_S:g} s; last seen: {seen!r}"
        time.sleep(PAUSE_S)
    return seen
