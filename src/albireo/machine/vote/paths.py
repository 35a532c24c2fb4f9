"""What the connections to one process say about it: is it gone, or merely silent? For whoever watches a holder.

A process that ends takes its connections and its listening sockets with it, and the kernel of its host says so: every
connection is closed, a new one is refused. Nothing else looks like that:

    killed, crashed, stopped    closed, then refused           gone
    paused, hung, swapped out   stays open; a new one is made  silent
    host off, cable cut         stays open until a timeout     silent (a new one is not answered)
    host up again, no process   closed by RST, then refused    gone: no process outlives its host
    started anew                closed, a new one is made      silent: the lease decides
    listening socket made anew  closed, refused for some ms    silent, because a refusal has to be seen again
    forged by a device          closed, refused                gone, wrongly: rule 12 says what that costs

One closed path is no sign, a refusal of an endpoint that was never reached is none either (a wrong address), and one
path on which somebody answers outweighs all that refuse. So does a message of the process itself that comes too late
to have been on its way: then a device forges refusals, and these paths say nothing until one is up again.

Not done here: connections and probes (the shell), what follows from it (the voter, the member).
Spec: design/pair.md, rule 12; ADR-0104.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final

from albireo.model.instant import MS, Instant

PROBE_EVERY_NS: Final = 20 * MS
"""Time for what is not final: connections end some microseconds before the listening socket of a killed process does,
and a process that changes its keys listens on a new socket within 5 ms."""
REFUSALS_NEEDED: Final = 2
"""One after the other."""
PROBES_MAX: Final = 10
"""After that only a new sign makes it look again."""
LATE_NS: Final = 100 * MS
"""What a dead process had sent before it died has arrived by then."""


class Probed(Enum):
    """What a fresh connection to one endpoint came to."""

    REFUSED = "refused"
    """ECONNREFUSED: the host is alive and nobody listens."""
    ANSWERED = "answered"
    SILENT = "silent"
    """No answer in time, no route, no such host."""


class Paths:
    """Watches one process over `count` endpoints. Not a process in particular: whoever listens there now."""

    def __init__(self, count: int, refusals_needed: int = REFUSALS_NEEDED) -> None:
        self.gone_at: Instant | None = None
        """When it was found to be gone; taken back by the next connection."""
        self.is_contradicted = False
        """It was found to be gone and spoke afterwards."""
        self._is_up = [False] * count
        self._was_up = [False] * count
        self._look = 0
        """Number of the present look; a probe of an earlier one says nothing."""
        self._left = 0
        self._refusals = 0
        self._refusals_needed = refusals_needed
        self._due: Instant | None = None

    @property
    def are_closed(self) -> bool:
        """There was a connection, and there is none now."""
        return any(self._was_up) and not any(self._is_up)

    @property
    def connected(self) -> int:
        return sum(self._is_up)

    def changed(self, path: int, is_up: bool, now: Instant) -> None:
        """A connection was made, proven by its keys, or has ended."""
        self._is_up[path] = is_up
        self._was_up[path] |= is_up
        if is_up:
            self.gone_at = None
            self.is_contradicted = False
        self._look_anew(now)

    def heard(self, now: Instant) -> None:
        """A message of the process came in. Soon after its end that is a late one, and what took the message for a sign
        of life has to be told again; later it is proof of a life."""
        if self.gone_at is None:
            return
        self.is_contradicted = now - self.gone_at > LATE_NS
        self.gone_at = None if self.is_contradicted else self.gone_at
        self._look_anew(now)

    def _look_anew(self, now: Instant) -> None:
        self._look += 1
        self._refusals = 0
        self._left = PROBES_MAX if self.are_closed and not self.is_contradicted else 0
        self._due = now if self._left else None

    def deadline(self) -> Instant | None:
        """When `begin` is due."""
        return self._due

    def begin(self, now: Instant) -> int | None:
        """The number of the look for which every endpoint is to be probed now; None: not now."""
        if self._due is None or now < self._due:
            return None
        self._due = None
        self._left -= 1
        return self._look

    def probed(self, look: int, results: Sequence[Probed], now: Instant) -> bool:
        """Take the results of one probe of every endpoint; whether it shows that the process is gone."""
        if look != self._look:
            return False
        is_refused = Probed.REFUSED in results and Probed.ANSWERED not in results
        self._refusals = self._refusals + 1 if is_refused else 0
        if self._refusals >= self._refusals_needed:
            self.gone_at = now if self.gone_at is None else self.gone_at
            return True
        self._due = Instant(now + PROBE_EVERY_NS) if self._left else None
        return False
