"""Lease: how long the holder may do what cannot be undone. Three grounds, counted from the instant of sending.

    (a) a majority of the voters confirmed a round              send time of the round + lease
    (b) the other member follows and promised no candidacy      send time of the heartbeat + lease
    (c) the confirmed set is the holder alone, no add was sent  decided by `set_changes`, no clock

Counted from the send, because whoever answered starts its own wait later than that, never earlier.

Spec: design/pair.md, rule 4.
"""

from typing import Final

from albireo.machine.pair.config import PairConfig
from albireo.model.instant import Instant

ROUNDS_MAX: Final = 16
"""Most rounds under way that are remembered; an answer to an older one has no lease left to give."""


class Lease:
    """Grounds (a) and (b) of one tenure."""

    def __init__(self, config: PairConfig, from_voters: Instant) -> None:
        self._config = config
        self.from_voters = from_voters
        """End of ground (a)."""
        self.from_peer = Instant(0)
        """End of ground (b)."""
        self._dropped_at = Instant(-1)
        self._rounds: dict[int, tuple[Instant, set[str]]] = {}

    @property
    def until(self) -> Instant:
        return max(self.from_voters, self.from_peer)

    def sent(self, round_number: int, now: Instant) -> None:
        """Take note that a round went out to all voters; where there are none, it is confirmed."""
        self._rounds[round_number] = (now, set())
        while len(self._rounds) > ROUNDS_MAX:
            del self._rounds[min(self._rounds)]
        if not self._config.voters:
            self.from_voters = Instant(now + self._config.lease_ns)

    def confirmed(self, round_number: int, voter: str, now: Instant) -> None:
        """Count a voter that granted this round."""
        if round_number not in self._rounds:
            return
        sent, voters = self._rounds[round_number]
        voters.add(voter)
        if len(voters) >= self._config.majority:
            self.from_voters = max(self.from_voters, self._counted(sent, now))

    def promised(self, sent: Instant, now: Instant) -> None:
        """Extend ground (b): the other member answered the heartbeat of `sent`, follows, and stands not before long."""
        if self._dropped_at < sent <= now:
            self.from_peer = max(self.from_peer, self._counted(sent, now))

    def _counted(self, sent: Instant, now: Instant) -> Instant:
        del now  # Taken so that a variant which counts from the answer can be shown to be caught.
        return Instant(sent + self._config.lease_ns)

    def drop(self, now: Instant) -> None:
        """Give up the lease; nothing sent until now brings it back."""
        self.from_voters = self.from_peer = Instant(0)
        self._dropped_at = now
        self._rounds.clear()
