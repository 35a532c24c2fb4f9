"""Orders to the sites, given at the root while the demo runs: each goes down the tree, to a PLC, and back."""

import itertools
import threading
from collections.abc import Callable, Collection
from typing import Final

import msgspec

from albireo.client import Client, ClientError, NodeRefused, OutcomeUnknown
from albireo.model.command import Outcome
from albireo.runtime.errors import RuntimeFault

ITEM: Final = "sump_1_start"
"""Set point that is written: a level of the pumps, which no scenario looks at."""
VALUES: Final = (1.5, 1.6)
"""Levels in m, in turn; the second one is what the PLC begins with."""
EVERY_S: Final = 1.0
EXPIRES_S: Final = 5.0


class OrdersTold(msgspec.Struct, frozen=True, kw_only=True):
    """Outcomes of the orders, as `--json` tells them."""

    sent: int = 0
    verified: int = 0
    """Carried out, and read back from the PLC."""
    failed: int = 0
    """Refused, expired, or read back otherwise than ordered."""
    failed_while_cut: int = 0
    """How many of those were never carried out, and went to a site that was not heard any more as they ended: its cable
    was cut."""
    unknown: int = 0
    """Nobody knows whether the device has taken them."""

    def with_outcome(self, outcome: Outcome, *, is_heard: bool) -> "OrdersTold":
        """`is_heard`: whether the site is connected as the order ends."""
        name = {Outcome.VERIFIED: "verified", Outcome.UNKNOWN: "unknown"}.get(outcome, "failed")
        more = {"sent": self.sent + 1, name: getattr(self, name) + 1}
        if outcome in (Outcome.REJECTED, Outcome.EXPIRED) and not is_heard:
            more["failed_while_cut"] = self.failed_while_cut + 1
        return msgspec.structs.replace(self, **more)


class DemoOrders:
    """A thread that orders one write each second, at one site after the other."""

    def __init__(self, at_root: Callable[[], Client], sites: Collection[str], hears: Callable[[str], bool]) -> None:
        """
        Args:
            at_root: a client of the root.
            sites: nodes to which orders go.
            hears: whether a site is connected; no operator orders anything where nobody is heard.
        """
        self._at_root, self._sites, self._hears = at_root, sites, hears
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="demo-orders", daemon=True)
        self.commands = OrdersTold()

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """No more orders; returns when the last one has its outcome."""
        self._ends.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        for value, site in itertools.cycle(itertools.product(VALUES, self._sites)):
            if self._hears(site):
                outcome = self._ordered(f"{site}:{ITEM}", value)
                self.commands = self.commands.with_outcome(outcome, is_heard=self._hears(site))
            if self._ends.wait(EVERY_S):
                return

    def _ordered(self, item: str, value: float) -> Outcome:
        try:
            with self._at_root() as client:
                return client.write(item, value, "demo", expires_s=EXPIRES_S).outcome
        except OutcomeUnknown:
            return Outcome.UNKNOWN
        except NodeRefused:
            return Outcome.REJECTED
        except (ClientError, RuntimeFault):
            return Outcome.REJECTED  # Nobody took it: the root was not reached.
