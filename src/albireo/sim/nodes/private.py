"""Private logs in the world of whole nodes: their threads, and what is checked of them.

Checked here and in the ledger
    whoever is given a whole frame is given the one that was taken; nobody is given one by the other member;
    the history of the member that took a batch gets its values.
"""

from collections.abc import Sequence

from albireo.codec.frame import Frame
from albireo.model.position import Position
from albireo.sim.nodes.ledger import Payloads
from albireo.sim.nodes.log import StagedLog
from albireo.sim.nodes.machine import Machine


class PrivateWatch:
    """Watcher of one member's private log (`log.Watcher`), with the work of its threads."""

    def __init__(self, machine: Machine, payloads: Payloads) -> None:
        self._machine = machine
        self._payloads = payloads
        self.log: StagedLog | None = None
        """Private log of the running process; None until the process has opened it."""
        self._log_id = b""

    def begin(self) -> None:
        """Let go of the log, as another process begins."""
        self.log = None

    def exchanged(self) -> None:
        """Note that the disk was exchanged for another."""
        self._payloads.gone(self._log_id)

    def opened(self, log: StagedLog) -> None:
        self.log, self._log_id = log, log.log_id
        self._payloads.synced(log)

    def appended(self, frames: Sequence[Frame]) -> None:
        self._payloads.stored(frames)

    def committed(self, position: Position) -> None:
        """Do nothing: a private log is committed by its own sync, and nobody else has to have it."""

    def cutting(self, sequence: int) -> None:
        raise AssertionError("a private log is never cut")

    def cut(self, sequence: int) -> None:
        raise AssertionError("a private log is never cut")

    def turned(self) -> None:
        """Begin, after each turn, what the threads of the log would do now."""
        log = self.log
        if log is not None and (log.durable.sequence < log.end.sequence or log.wants_house):
            self._machine.beside(log, self._work)

    def _work(self) -> None:
        log = self.log
        assert log is not None
        for work in (log.flush, log.keep_house):
            if self._machine.is_up and log._work.failure is None:
                self._machine.aside(work)
        if self._machine.is_up and log._work.failure is None:
            self._payloads.synced(log)
            self.turned()

    def is_here(self, frame: Frame) -> bool:
        """True: the payload of this reference stands in the log that runs here."""
        return self.log is not None and self._payloads.stands_in(self.log, frame)
