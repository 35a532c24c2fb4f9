"""Hold-off: how long a flapping member waits before it is added to the set again.

A passive member that comes and goes costs the clients one `solo_after` at every loss. So the wait doubles while its
stays are short, and starts afresh once a stay was long. So does the patience with it, up to a bound: on a starved
machine a member stands still for a moment now and then, and would stay outside.

Spec: design/pair.md, rule 6.
"""

import msgspec

from albireo.machine.pair.config import PairConfig
from albireo.model.instant import Instant


class HoldOff(msgspec.Struct, frozen=True):
    """Wait now in force. A first loss costs nothing: one honest restart is not flapping."""

    added_at: Instant | None = None
    wait_ns: int = 0
    not_before: Instant = Instant(0)

    def patience_ns(self, config: PairConfig) -> int:
        """Time for which whoever leads waits for the other member: the longer, the more often that was too short."""
        return max(config.solo_after_ns, min(self.wait_ns, config.patience_longest_ns))

    def added(self, now: Instant) -> "HoldOff":
        return HoldOff(now, self.wait_ns, self.not_before)

    def lost(self, now: Instant, config: PairConfig) -> "HoldOff":
        """The member was taken out of the set."""
        if self.added_at is None or now - self.added_at >= config.steady_ns:
            return HoldOff()
        wait_ns = min(max(config.hold_off_first_ns, 2 * self.wait_ns), config.hold_off_longest_ns)
        return HoldOff(None, wait_ns, Instant(now + wait_ns))
