"""Paths: the connections to one process, which say whether it is gone or merely silent. For watchers of a holder.

A process that ends takes its connections and its listening sockets with it, and the kernel of its host says so: every
connection is closed, a new one is refused. Nothing else looks like that:

    killed, crashed, stopped    closed, then refused           gone
    paused, hung, swapped out   stays open; a new one is made  silent
    host off, cable cut         stays open until a timeout     silent (a new one is not answered)
    host up again, no process   closed by RST, then refused    gone: no process outlives its host
    started anew                closed, a new one is made      silent: the lease decides
    listening socket made anew  closed, refused for some ms    silent, because a refusal has to be seen again
    forged by a device          closed, refused                gone, wrongly: rule 12 says what that costs

One closed path is no sign; neither is a refusal of an endpoint that was never reached (its address may be wrong). One
path on which a process answers outweighs all that refuse. So does a message of the process itself that comes too late
to have been under way before its end: a device forges refusals then, and these paths say nothing until one is up again.

Not done here: connections and probes (the shell), consequences (the voter, the member).
Spec: design/pair.md, rule 12; ADR-0104.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final

from albireo.model.instant import MS, Instant

PROBE_EVERY_NS: Final = 20 * MS
"""Pause between two probes, in which passing states end: the connections of a killed process end some microseconds
before its listening socket, and a process that changes its keys listens on a new socket within 5 ms."""
REFUSALS_NEEDED: Final = 2
"""Refusals in succession that show the process to be gone."""
PROBES_MAX: Final = 10
"""Probes of one look; after them only a new sign begins another look."""
LATE_NS: Final = 100 * MS
"""Time after the end of a process by which all its messages have arrived."""


class Probed(Enum):
    """Outcome of a fresh connection to one endpoint."""

    REFUSED = "refused"
    """ECONNREFUSED: the host is alive and nobody listens."""
    ANSWERED = "answered"
    SILENT = "silent"
    """No answer in time, no route, no such host."""


class Paths:
    """Watch of one process over `count` endpoints: of whichever process listens there now."""

    def __init__(self, count: int, refusals_needed: int = REFUSALS_NEEDED) -> None:
        self.gone_at: Instant | None = None
        """Instant at which the process was found to be gone; the next connection clears it."""
        self.is_contradicted = False
        """The process was found to be gone and spoke afterwards."""
        self._is_up = [False] * count
        self._was_up = [False] * count
        self._look = 0
        """Number of the present look; a probe of an earlier look says nothing."""
        self._left = 0
        self._refusals = 0
        self._refusals_needed = refusals_needed
        self._due: Instant | None = None

    @property
    def are_closed(self) -> bool:
        """A connection was there, and there is none now."""
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
        """A message of the process came in.

        Soon after the end of the process it is a late message, and the end is looked for anew, for a listener that took
        it for a sign of life. Later it proves that the process lives.
        """
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
        """Instant at which `begin` is due; None: it is not."""
        return self._due

    def begin(self, now: Instant) -> int | None:
        """Number of the look for which every endpoint is to be probed now; None: not now."""
        if self._due is None or now < self._due:
            return None
        self._due = None
        self._left -= 1
        return self._look

    def probed(self, look: int, results: Sequence[Probed], now: Instant) -> bool:
        """Take the results of one probe of every endpoint; True: they show that the process is gone."""
        if look != self._look:
            return False
        is_refused = Probed.REFUSED in results and Probed.ANSWERED not in results
        self._refusals = self._refusals + 1 if is_refused else 0
        if self._refusals >= self._refusals_needed:
            self.gone_at = now if self.gone_at is None else self.gone_at
            return True
        self._due = Instant(now + PROBE_EVERY_NS) if self._left else None
        return False
