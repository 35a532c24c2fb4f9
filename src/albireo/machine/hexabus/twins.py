"""Twins: two devices with one address, told by the numbers with which they acknowledge.

Each of them acknowledges each item, with a number of its own row; copies of one device's have the same number. One
that began anew has another number from then on.
"""

from typing import Final

ITEMS: Final = 10
"""Items after which they are two, and not one that began anew."""


class Twins:
    """Hosts, with the numbers by which they acknowledge."""

    def __init__(self) -> None:
        self._numbers: dict[str, bytes] = {}
        """Number with which each acknowledged last what it had not yet."""
        self._differs: dict[str, int] = {}
        """Rises by one with each item that is acknowledged by two numbers, and falls by one with each other item."""

    def first(self, host: str, number: bytes) -> None:
        """An item is acknowledged that was not yet."""
        self._numbers[host] = number
        self._differs[host] = max(0, self._differs.get(host, 0) - 1)

    def again(self, host: str, number: bytes) -> None:
        """An item is acknowledged once more, or nobody waits for it."""
        if self._numbers.get(host, number) != number:
            self._differs[host] = min(2 * ITEMS, self._differs[host] + 2)

    def are_two(self, host: str) -> bool:
        return self._differs.get(host, 0) >= ITEMS
