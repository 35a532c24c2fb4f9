"""Memory of a gate on its disk: a mirrored state (log/store/mirrored_state.py) in <data>/gate.

Without one the gate begins with another boot number, by which it refuses all earlier orders, as a PLC does that forgot
its guard.

Spec: machine/output/gate.py; ADR-0126.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from albireo.log import FileSystem
from albireo.log.store.mirrored_file import MirrorFormat
from albireo.log.store.mirrored_state import MirroredState

FOLDER: Final = "gate"
KIND: Final = MirrorFormat(magic=b"ALBG", bytes_max=16 * 1024)


class KeptGuard(msgspec.Struct, frozen=True, kw_only=True):
    """Body of a copy."""

    cluster: str
    gate: str
    """Name of the gate whose guard this is: the guard of another PLC says nothing here."""
    boot: int
    guard: int


class GateDisk:
    """The memory of one gate. Opened once per start; for one thread."""

    def __init__(self, files: FileSystem, data: Path, cluster: str, gate: str) -> None:
        """Read the stored guard; raises the errors of `MirroredState`."""
        self._owner = (cluster, gate)
        loss = "this gate lets no order pass any more"
        self._mirrored = MirroredState(files, data, FOLDER, KIND, KeptGuard, self._foreign, loss)
        self._was_damaged = self._mirrored.is_damaged

    @property
    def boot(self) -> int | None:
        kept = self._mirrored.body
        return None if kept is None else kept.boot

    @property
    def guard(self) -> int:
        kept = self._mirrored.body
        return 0 if kept is None else kept.guard

    @property
    def told(self) -> Mapping[str, object]:
        mirrored = self._mirrored
        repaired = ", ".join(mirrored.repaired_copies)
        return {"saves": mirrored.saves, "repaired_copies": repaired, "is_damaged": self._was_damaged}

    def save(self, boot: int, guard: int) -> None:
        """Make this durable before it returns; raises the errors of `MirroredState.save`."""
        cluster, gate = self._owner
        self._mirrored.save(KeptGuard(cluster=cluster, gate=gate, boot=boot, guard=guard))

    def _foreign(self, kept: KeptGuard) -> str:
        if (kept.cluster, kept.gate) == self._owner:
            return ""
        cluster, gate = self._owner
        return f"the guard of {kept.gate} in cluster {kept.cluster}, not of {gate} in {cluster}"
