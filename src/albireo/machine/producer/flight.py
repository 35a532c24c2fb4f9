"""Flights: what a producer has on its way, as bodies under consecutive numbers.

Adjacent batches of one value type become one body: a frame costs the node far more than a row of it.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.codec import record, samples
from albireo.codec.crc import crc32c
from albireo.codec.message import AppendEntry
from albireo.codec.record import GapFound, Kind, Stream
from albireo.model.samples import SampleBatch

MESSAGE_BYTES: Final = 512 * 1024
"""Bodies of one Append message, so that CORE's turn stays short during a resend."""
MESSAGE_ENTRIES_MAX: Final = 256


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """A gap on its way to be a record; rows count the producer's items from 0."""

    reason: str
    from_ns: int
    to_ns: int
    rows: tuple[int, ...] = ()
    """Empty: every item of this producer."""
    lost: int | None = None

    def joined_to(self, before: "Loss | None") -> "Loss":
        """Both as one, from the first to the last."""
        if before is None:
            return self
        return Loss(
            reason=self.reason,
            from_ns=min(before.from_ns, self.from_ns),
            to_ns=max(before.to_ns, self.to_ns),
            lost=(before.lost or 0) + (self.lost or 0),
        )


class Flight(msgspec.Struct, eq=False):
    """A numbered body that CORE may already have."""

    sequence: int
    entry: AppendEntry
    body: bytes
    last_ns: int
    batch: int
    """The last of the batches offered that is in it, counted from 1; 0: a gap record."""
    batches: Sequence[SampleBatch] = ()
    """What it was made of, in case that CORE takes only some of it."""


def flight_of(
    batches: Sequence[SampleBatch], last: int, producer_id: int, sequence: int, ids: NDArray[np.uint32]
) -> Flight:
    """The rows of all batches as one body; `last`: number of the last batch; `ids`: of the rows of the hello."""
    body = samples.encode_body(producer_id, sequence, *batches, ids=ids)
    count = sum(map(len, batches))
    entry = AppendEntry(int(Stream.SAMPLES), int(batches[0].value_type), count, crc32c(body))
    return Flight(sequence, entry, body, int(batches[-1].source_ns[-1]), last, batches)


def flight_of_loss(loss: Loss, producer: str, producer_id: int, sequence: int, ids: NDArray[np.uint32]) -> Flight:
    """A gap record."""
    gap = GapFound(
        source=producer,
        reason=loss.reason,
        from_ns=loss.from_ns,
        to_ns=loss.to_ns,
        item_ids=tuple(int(ids[row]) for row in loss.rows),
        lost=loss.lost,
    )
    body = record.encode_records(producer_id, sequence, [gap])
    return Flight(sequence, AppendEntry(int(Stream.SAMPLES), int(Kind.RECORDS), 1, crc32c(body)), body, loss.to_ns, 0)


def batch_to(flights: Sequence[Flight], sequence: int) -> int:
    """The last batch in the flights up to this number; 0: they are gap records, or none."""
    last = min(sequence - flights[0].sequence, len(flights) - 1)
    while last >= 0 and not flights[last].batch:
        last -= 1
    return flights[last].batch if last >= 0 else 0


def messages(flights: Sequence[Flight]) -> list[list[Flight]]:
    """In messages of bounded size, in order."""
    found: list[list[Flight]] = []
    size = 0
    for flight in flights:
        if not found or size + len(flight.body) > MESSAGE_BYTES or len(found[-1]) == MESSAGE_ENTRIES_MAX:
            found.append([])
            size = 0
        found[-1].append(flight)
        size += len(flight.body)
    return found
