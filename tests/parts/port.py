"""Ports for what a test starts later: nobody else gets them meanwhile."""

from collections import deque
from typing import Final

from albireo.drill.ports import KeptPorts

CALLS_KEPT: Final = 200
"""More than one test makes; then the oldest are free again."""
_kept: deque[KeptPorts] = deque()


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 at which a listener that says SO_REUSEADDR may come and go; without one they refuse."""
    kept = KeptPorts(count)
    _kept.append(kept)
    if len(_kept) > CALLS_KEPT:
        _kept.popleft().close()
    return kept.numbers


def free_row(count: int) -> int:
    """The first of some ports in a row, kept as those of `free_ports`."""
    while True:
        row = KeptPorts(1)
        _kept.append(row)
        try:
            for number in range(row.numbers[0] + 1, row.numbers[0] + count):
                row.keep(number)
        except (OSError, OverflowError):
            continue  # The next one is somebody's.
        return row.numbers[0]


def free_port() -> int:
    return free_ports(1)[0]
