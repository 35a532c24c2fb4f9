"""A loop for tests in which delays race with each other: its clock does not count what the machine takes for itself.

Everything that such a test is about must go by the loop's clock and live in this one loop; a clock of its own, or
another process, would be out of step.
"""

import asyncio
import selectors
import time
from collections.abc import Coroutine
from typing import Any, Final

STEP_S: Final = 0.002
"""Most that the clock goes on between two readings of it. No wait is longer, so what is waited for counts in full."""


class _ShortWaits(selectors.EpollSelector):
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(STEP_S / 2 if timeout is None else min(timeout, STEP_S / 2))


class SteadyLoop(asyncio.SelectorEventLoop):
    """asyncio's loop; a process that stands still for a second is one step late afterwards."""

    def __init__(self) -> None:
        self._read_at = time.monotonic()
        self._now = self._read_at
        super().__init__(_ShortWaits())

    def time(self) -> float:
        now = time.monotonic()
        self._now += min(now - self._read_at, STEP_S)
        self._read_at = now
        return self._now


def run_steadily(story: Coroutine[Any, Any, object]) -> None:
    with asyncio.Runner(loop_factory=SteadyLoop) as runner:
        runner.run(story)
