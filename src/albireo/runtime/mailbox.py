"""A bounded queue between two threads, with a name, a capacity and an overflow rule. No defaults.

The mailbox of an actor towards its peers is the ZeroMQ pipe (`Link.send` in link.py answers False when it is full).
This one is for elements that stay inside a process: calls from a helper thread, log lines on their way out.
"""

import threading
from collections import deque
from enum import Enum
from typing import Generic, TypeVar

from albireo.runtime.errors import MailboxFull

T = TypeVar("T")


class Overflow(Enum):
    """Rule for an element that finds the mailbox full."""

    DROP_OLDEST = "drop oldest"
    """The oldest element goes and is counted: for elements that grow stale (log lines)."""
    FAIL = "fail"
    """MailboxFull is raised: for elements that must not be lost; a full mailbox means that its owner hangs."""


class Mailbox(Generic[T]):
    """First in, first out. Any thread may put; any thread may take."""

    def __init__(self, name: str, capacity: int, overflow: Overflow) -> None:
        self.name = name
        self.capacity = capacity
        self.overflow = overflow
        self.dropped = 0
        """Elements lost by DROP_OLDEST since the start."""
        self._elements: deque[T] = deque()
        self._lock = threading.Lock()

    def put(self, element: T) -> bool:
        """Add `element`; True if the mailbox was empty before (its owner wants to be woken).

        Raises:
            MailboxFull: it is full and its rule is FAIL.
        """
        with self._lock:
            if len(self._elements) >= self.capacity:
                if self.overflow is Overflow.FAIL:
                    raise MailboxFull(self.name, self.capacity)
                self._elements.popleft()
                self.dropped += 1
            self._elements.append(element)
            return len(self._elements) == 1

    def take(self, count_max: int) -> list[T]:
        """Up to `count_max` elements, oldest first."""
        with self._lock:
            count = min(count_max, len(self._elements))
            return [self._elements.popleft() for _ in range(count)]

    def put_back(self, elements: list[T]) -> None:
        """Return elements that `take` gave; beyond the capacity the oldest are dropped and counted."""
        with self._lock:
            excess = max(0, len(elements) + len(self._elements) - self.capacity)
            self.dropped += excess
            self._elements.extendleft(reversed(elements[excess:]))

    def __len__(self) -> int:
        return len(self._elements)
