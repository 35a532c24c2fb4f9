"""Fault: the moments at which something is done to a pair."""

from albireo.drill.pair import Pair


class Fault:
    """A fault in which nothing happens; others override what they need."""

    alone_s: float = 30.0
    """The pair has this long to bring the service back by itself; then the fault is undone to see what comes then."""
    felt_s: float = 30.0
    """Longest time until `is_felt`; after it the round has failed."""

    def begin(self, pair: Pair) -> None:
        """The pair is made, and not started yet."""

    def prepare(self, pair: Pair) -> None:
        """Both members are in the set, no load yet."""

    def strike(self, pair: Pair, active: str) -> None:
        """Returns when it is done; the service may be gone from then on."""

    def is_felt(self, pair: Pair, active: str) -> bool:
        """The fault has had its effect, whatever that is; the round goes on until then."""
        return True

    def heal(self, pair: Pair, active: str) -> None:
        """Everything is in order again, but for what the pair itself has to put right."""

    def conclude(self, pair: Pair, active: str) -> str:
        """Do what a pair can go through only once, in the last round, healed and under load; says how it ended."""
        return ""
