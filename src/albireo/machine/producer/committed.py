"""Memory of the flights that a producer was told are committed, as far back as is worth knowing.

A committed batch can be missing from the log all the same: after a forced promotion, or where a log was lost with its
disk, the node that welcomes the producer knows a lower number than the producer was told of. The bodies are dropped
by then; their times and counts, which are kept here, go into the gap record that stands for them.
"""

from array import array
from typing import Final

from albireo.machine.producer.flight import Flight, Loss, times_of

REASON: Final = "committed_lost"
BODIES_MAX: Final = 65_536
"""Bodies remembered one by one, 16 bytes each: at ten bodies a second, the last two hours."""


class CommittedFlights:
    """Committed flights of one run of a producer: consecutive numbers, oldest first."""

    def __init__(self) -> None:
        self._next = 0
        """Number that follows the newest flight's."""
        self._began_ns: int | None = None
        """Source time of the first sample of this run."""
        self._is_whole = True
        """Every flight since `_began_ns` is remembered."""
        self._last_ns = array("q")
        self._rows = array("q")

    def committed(self, flight: Flight) -> None:
        """`flight` is committed, and so are all flights before it."""
        if self._began_ns is None:
            self._began_ns = times_of(flight.batches[0])[0] if flight.batches else flight.last_ns
        if self._rows and flight.sequence != self._next:
            self._forget(0)  # Another program used the name meanwhile.
            self._is_whole = False
        self._next = flight.sequence + 1
        self._last_ns.append(flight.last_ns)
        self._rows.append(flight.entry.record_count if flight.batch else 0)
        if len(self._rows) >= 2 * BODIES_MAX:
            self._is_whole = False
            del self._last_ns[:BODIES_MAX], self._rows[:BODIES_MAX]

    def take_lost(self, last_sequence: int) -> Loss | None:
        """The loss in a log whose last number of this producer is `last_sequence`; reported once.

        Args:
            last_sequence: 0 if it is another log than the flights were committed to.
        Returns:
            None: nothing is lost. `lost` is None (unknown) where more is lost than is remembered.
        """
        first = self._next - len(self._rows)
        kept = max(0, last_sequence + 1 - first)
        if kept >= len(self._rows):
            return None
        is_counted = self._is_whole or last_sequence + 1 >= first
        lost = Loss(
            reason=REASON,
            from_ns=self._last_ns[kept - 1] if kept else self._began_ns or 0,
            to_ns=max(self._last_ns[kept:]),
            lost=sum(self._rows[kept:]) if is_counted else None,
        )
        self._forget(kept)
        return lost

    def _forget(self, kept: int) -> None:
        self._next -= len(self._rows) - kept
        del self._last_ns[kept:], self._rows[kept:]
