"""Queue of the batches that were offered to a producer and have no number yet. Sizes are measured once."""

from collections import deque
from collections.abc import Sequence
from typing import Final

from albireo.codec.puts import RUNS_MAX
from albireo.machine.producer.flight import Batch, Loss, PutOffer, times_of
from albireo.model.refusal import Refusal
from albireo.model.samples import Strings

BATCH_OVERHEAD_BYTES: Final = 1_024
"""Memory of a waiting batch beside its rows: five arrays and their objects."""
ROW_BYTES: Final = 32
ALIKE_MAX: Final = RUNS_MAX
"""Most batches that become one body: each may bring a topic of its own."""
LOST_KEPT: Final = 65_536
"""Numbers of lost batches that are kept: more than one step can lose."""


def queued_bytes(one: Batch | Loss) -> int:
    """Bytes that count against the bound while the batch waits; close to the size of its body."""
    if isinstance(one, Loss):
        return BATCH_OVERHEAD_BYTES
    if isinstance(one, PutOffer):
        return BATCH_OVERHEAD_BYTES + one.size_bytes
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
        self.ends: dict[int, int] = {}
        """Sequences of the last messages of committed batches, by number, for whoever takes them off."""
        self.refusals: dict[int, Refusal] = {}
        """Words of CORE about those that it could not take, by number, for the same."""

    def take_ends(self) -> dict[int, int]:
        ends, self.ends = self.ends, {}
        return ends


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
        """Take the first entry, however large, and those behind it that are alike and fit into `bytes_max`."""
        left = bytes_max - self.first_bytes
        first = self.take()
        if isinstance(first, Loss):
            return first
        found = [first]
        while self._entries and len(found) < ALIKE_MAX:
            one, size_bytes = self._entries[0]
            left -= size_bytes
            if isinstance(one, Loss) or not _is_alike(one, first) or left < 0:
                break
            found.append(one)
            self.take()
        return found


def _is_alike(one: Batch, first: Batch) -> bool:
    """True: both may become one body. See `PutOffer.stands_alone`."""
    if isinstance(one, PutOffer) or isinstance(first, PutOffer):
        are_puts = isinstance(one, PutOffer) and isinstance(first, PutOffer)
        return are_puts and not (one.stands_alone or first.stands_alone)  # type: ignore[union-attr]
    return one.value_type is first.value_type
