"""Queue of the batches that were offered to a producer and have no number yet. Sizes are measured once."""

from collections import deque
from collections.abc import Sequence
from typing import Final

from albireo.machine.producer.flight import Batch, Loss, PutOffer, times_of
from albireo.model.refusal import Refusal
from albireo.model.samples import SampleBatch, Strings

BATCH_OVERHEAD_BYTES: Final = 1_024
"""Memory of a waiting batch beside its rows: five arrays and their objects."""
ROW_BYTES: Final = 32
LOST_KEPT: Final = 65_536
"""Numbers of lost batches that are kept: more than one step can lose."""


def queued_bytes(one: Batch | Loss) -> int:
    """Bytes that count against the bound while the batch waits; close to the size of its body."""
    if isinstance(one, Loss):
        return BATCH_OVERHEAD_BYTES
    if isinstance(one, PutOffer):
        return BATCH_OVERHEAD_BYTES + len(one.unnumbered)
    text = len(one.value.data) if isinstance(one.value, Strings) else 0
    return BATCH_OVERHEAD_BYTES + ROW_BYTES * len(one) + text


class BatchFates:
    """How far the batches of one producer are, by their numbers: 1, 2, 3... as they were offered."""

    def __init__(self) -> None:
        self.offered = 0
        self.left = 0
        """Batches that left the queue, for the link or because it was full."""
        self.acknowledged = 0
        """Number of the last acknowledged batch; all before it are too, except those in `lost`."""
        self.committed = 0
        """Number of the last committed batch; all before it are too, except those in `lost`."""
        self.lost: deque[int] = deque(maxlen=LOST_KEPT)
        """Latest batches that are never committed, for whoever takes them off: CORE could not take them, or the queue
        was full. A gap record stands in the place of each that had samples."""
        self.refusals: dict[int, Refusal] = {}
        """Words of CORE about those that it could not take, by number, for the same."""


class BatchQueue:
    """The queue; the producer keeps its bound."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self._entries: deque[tuple[Batch | Loss, int]] = deque()

    def __bool__(self) -> bool:
        return bool(self._entries)

    @property
    def first_bytes(self) -> int:
        return self._entries[0][1]

    @property
    def first_sample_ns(self) -> int | None:
        """Source time of the first sample that waits."""
        return next((times_of(one)[0] for one, _ in self._entries if not isinstance(one, Loss)), None)

    def add(self, one: Batch | Loss) -> None:
        self._entries.append((one, queued_bytes(one)))
        self.size_bytes += self._entries[-1][1]

    def take(self) -> Batch | Loss:
        """Take the first entry."""
        one, size_bytes = self._entries.popleft()
        self.size_bytes -= size_bytes
        return one

    def take_alike(self, bytes_max: int) -> Sequence[Batch] | Loss:
        """Take the first entry, however large, and those behind it of its value type that fit into `bytes_max`."""
        left = bytes_max - self.first_bytes
        first = self.take()
        if isinstance(first, Loss):
            return first
        if isinstance(first, PutOffer):
            return [first]
        found = [first]
        while self._entries:
            one, size_bytes = self._entries[0]
            left -= size_bytes
            if not isinstance(one, SampleBatch) or one.value_type is not first.value_type or left < 0:
                break
            found.append(one)
            self.take()
        return found
