"""Back-off: how long to wait before the next attempt to reach a device.

Each wait is drawn evenly from the upper half of a range that doubles: adapters that lost one switch together do not
come back in step, and none waits less than half of what its range says. Pure: the randomness is the caller's.
"""

import random

import msgspec

from albireo.model.instant import MS, SECOND, Duration


class BackOffConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Range of the wait."""

    first_ns: int = 500 * MS
    longest_ns: int = 2 * SECOND
    """A device that is back is found out so late; an attempt costs it one connection request."""

    def __post_init__(self) -> None:
        if not 0 < self.first_ns <= self.longest_ns:
            raise ValueError(f"back-off: 0 < first_ns <= longest_ns, got {self.first_ns}, {self.longest_ns}")


class BackOff(msgspec.Struct, frozen=True):
    """Place of the next wait in its range; a fresh one is made after every success."""

    range_ns: int = 0
    """Upper end of the last wait's range; 0 before the first."""

    def next(self, config: BackOffConfig, draw: random.Random) -> tuple["BackOff", Duration]:
        """The wait after one more failure, and the state that follows it."""
        range_ns = min(max(config.first_ns, 2 * self.range_ns), config.longest_ns)
        return BackOff(range_ns), Duration(range_ns - int(draw.random() * range_ns / 2))
