"""Watch of one process over links to its peer endpoints, which says when it is gone (rule 12 of the pair).

The links carry no message; they are there for their end: a process that dies takes its connections with it, at once,
and its kernel then refuses new ones. What that proves is decided in machine/vote/paths.py.

Whoever listens at a peer endpoint has the run that it says it has from before it bound the endpoint until after it has
released it. So a run that was recorded when a probe began, and is refused, is over.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from albireo.machine.vote.paths import REFUSALS_NEEDED, Paths, Probed
from albireo.model.instant import Instant
from albireo.runtime import ActorContext, LinkLimits, Reach
from albireo.runtime.link.keys import Keys

PROBE_TIMEOUT_S: Final = 0.1
"""Wait for the answer to a probe; a live kernel in the same network answers within a millisecond or two."""
REFUSALS_FOR_A_MEMBER: Final = REFUSALS_NEEDED + 1
"""Refusals that a member needs, more than a voter: the voters must know first, since a member that asks while they
still see a lease asks again only after 50 to 150 ms."""
LIMITS: Final = LinkLimits(send_messages_max=1, receive_messages_max=10, holds_for_peer=False, message_bytes_max=1024)
"""Limits of the links, on which nothing is said."""
_MEANING: Final = {Reach.REFUSED: Probed.REFUSED, Reach.OPEN: Probed.ANSWERED, Reach.SILENT: Probed.SILENT}


class HolderWatch:
    """Watch of one process behind one or more endpoints. For the actor's thread."""

    def __init__(
        self,
        actor: ActorContext,
        place: str,
        endpoints: tuple[str, ...],
        keys: Keys | None,
        refusals_needed: int = REFUSALS_FOR_A_MEMBER,
    ) -> None:
        """Connect, now or whenever the process is there.

        Args:
            place: name of its key, such as `root[primary]`.
            endpoints: its peer endpoints.
            refusals_needed: refusals in a row that show the process to be gone.
        Raises:
            EndpointRefused: one of them is no endpoint, or may not be used without keys.
        """
        self.place = place
        self.paths = Paths(len(endpoints), refusals_needed)
        self.run_of: Callable[[], int] = lambda: 0
        """Gives the run that is thought to live there; 0: none. Asked right before each probe."""
        self.on_gone: Callable[[int, Instant], object] = lambda run, now: None
        """Told which run is over, each time a probe has shown that."""
        self.on_due: Callable[[], object] = lambda: None
        """Called when `deadline` may have changed."""
        self._actor = actor
        self._endpoints = endpoints
        for index, endpoint in enumerate(endpoints):
            link = actor.connect_tcp(f"watch {place}", endpoint, keys, LIMITS, peer=place)
            link.on_connection = partial(self._changed, index)

    def heard(self) -> None:
        """Take note of a message of the process; costs nothing while the process is not thought gone."""
        if self.paths.gone_at is not None:
            self.paths.heard(self._actor.now())
            self.on_due()

    def deadline(self) -> Instant | None:
        return self.paths.deadline()

    def pass_time(self, now: Instant) -> None:
        """Probe all endpoints if it is time."""
        look = self.paths.begin(now)
        run = self.run_of()
        if look is None or run == 0:
            return
        results: list[Probed] = []
        for endpoint in self._endpoints:
            self._actor.probe(endpoint, PROBE_TIMEOUT_S, partial(self._probed, look, run, results))

    def status(self) -> dict[str, object]:
        paths = self.paths
        return {
            "place": self.place,
            "connected": paths.connected,
            "endpoints": len(self._endpoints),
            "is_gone": paths.gone_at is not None,
            "is_contradicted": paths.is_contradicted,
        }

    def _changed(self, index: int, is_up: bool) -> None:
        self.paths.changed(index, is_up, self._actor.now())
        self.on_due()

    def _probed(self, look: int, run: int, results: list[Probed], answer: Reach) -> None:
        results.append(_MEANING[answer])
        if len(results) < len(self._endpoints):
            return
        now = self._actor.now()
        if self.paths.probed(look, results, now):
            self._actor.log.warning("process_gone", place=self.place, run=run)
            self.on_gone(run, now)
        self.on_due()
