"""Which member of a pair on this machine acts now: for whoever watches both of their data directories."""

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from albireo.client import ClientError, connect
from albireo.model.status import NodeStatus
from albireo.runtime.errors import RuntimeFault

ACTING: Final = frozenset({"active", "solo", "standalone"})
LOOK_S: Final = 0.25
"""Between two looks; a takeover takes about as long."""
ANSWER_S: Final = 0.5


class ActingDirectory:
    """Calling it gives the data directory of the member that acts, as of a short while ago. From any thread."""

    def __init__(self, directories: Sequence[Path]) -> None:
        """`directories`: of both members; a single node has one."""
        self._directories = list(directories)
        self._acting = self._directories[0]
        self._looked_at = float("-inf")
        self._lock = threading.Lock()

    def __call__(self) -> Path:
        if len(self._directories) > 1:
            with self._lock:
                if time.monotonic() - self._looked_at >= LOOK_S:
                    self._look()
        return self._acting

    def _look(self) -> None:
        """Ask the member that acted last first: it answers most often."""
        for directory in sorted(self._directories, key=lambda one: one != self._acting):
            status = status_of(directory)
            if status is not None and status.role in ACTING:
                self._acting = directory
                break
        self._looked_at = time.monotonic()


def status_of(directory: Path, timeout_s: float = ANSWER_S) -> NodeStatus | None:
    """Status of the CORE in `directory`; None: it does not answer."""
    try:
        with connect(directory, timeout_s=timeout_s, is_pinned=True) as client:
            return client.status()
    except (ClientError, RuntimeFault):
        return None
