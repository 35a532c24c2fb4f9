"""Limits and waits of the pair, read once and handed to the machines.

Units: every duration is nanoseconds of the boot clock.
Spec: design/pair.md, Defaults and the time to recover.
"""

from typing import Final

import msgspec

from albireo.model.instant import MS, SECOND, Duration, Instant

MEMBERS: Final = 2
VOTER_COUNTS: Final = (0, 1, 3, 5)
"""Lengths of a voter list: an even one can be split in halves that decide nothing; more than five only cost time."""
PATHS_MAX: Final = 8


class PairConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Terms that both members and all voters must agree on, and this member's own patience."""

    cluster: str
    """Identity of the pair; a message of another pair is refused."""
    voters: tuple[str, ...]
    """Names of all voters: the majority is of this list, never of those connected."""
    generation: int = 1
    """Number of the voter list, which rises with each change of it."""
    paths: int = 1
    """Endpoints between the members; heartbeats go over all of them."""
    heartbeat_ns: int = 100 * MS
    silence_ns: int = 300 * MS
    """Silence that counts: three heartbeats (Binary Star: two), as one lost message must not start a candidacy."""
    solo_after_ns: int = 500 * MS
    """Standstill of the other's durable position, while something waits, after which the holder goes on alone."""
    patience_longest_ns: int = 2 * SECOND
    """The longest that standstill, and the wait for a follower that is to be added, become while stays are short."""
    lease_ns: int = 600 * MS
    renew_ns: int = 100 * MS
    drift: float = 0.05
    """Most by which two clocks of the pair may differ in rate: a crystal has 0.0001, a bad virtual machine 0.01."""
    cold_wait_ns: int = 30 * SECOND
    """Wait for the other member of the set after a start: long enough for a machine to boot after a power cut."""
    attempt_ns: int = 300 * MS
    """Time without a majority after which READ or PREPARE is withdrawn; ACCEPT is sent again, each `renew_ns`."""
    sync_stall_ns: int = 2 * SECOND
    """Wait of the oldest append for its sync after which a holder renews no more: its disk hangs."""
    handover_ns: int = 5 * SECOND
    """Time after which a switchover that is not through is given up."""
    steady_ns: int = 60 * SECOND
    """Shortest stay in the set that ends the flapping."""
    hold_off_first_ns: int = 1 * SECOND
    hold_off_longest_ns: int = 300 * SECOND

    def __post_init__(self) -> None:
        if len(self.voters) not in VOTER_COUNTS or len(set(self.voters)) != len(self.voters):
            raise ValueError(f"pair: 0, 1, 3 or 5 different voters, got {self.voters}")
        if not 1 <= self.paths <= PATHS_MAX:
            raise ValueError(f"pair: 1 to {PATHS_MAX} paths, got {self.paths}")
        if not 0 < self.heartbeat_ns * 2 <= self.silence_ns:
            raise ValueError(f"pair: silence_ns {self.silence_ns} must be two heartbeats ({self.heartbeat_ns}) or more")
        if not 0 < self.renew_ns * 3 <= self.lease_ns:
            raise ValueError(f"pair: lease_ns {self.lease_ns} must hold three renewals ({self.renew_ns}) or more")
        if not 0.0 <= self.drift < 0.5:
            raise ValueError(f"pair: drift is a rate between 0 and 0.5, got {self.drift}")
        if not 0 < self.hold_off_first_ns <= self.hold_off_longest_ns:
            raise ValueError(f"pair: 0 < hold_off_first_ns <= hold_off_longest_ns, got {self.hold_off_first_ns}")

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1

    @property
    def lease_and_drift(self) -> Duration:
        """Time that others must wait to know that a lease has ended, whichever of the clocks is the faster."""
        return self.with_drift(self.lease_ns)

    def with_drift(self, duration_ns: int) -> Duration:
        return Duration(int(duration_ns * (1.0 + self.drift)) + 1)


def after(now: Instant, duration_ns: int) -> Instant:
    return Instant(now + duration_ns)
