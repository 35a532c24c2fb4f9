"""Flights: batches that a producer has on their way, as bodies under consecutive numbers.

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
from albireo.codec.record import PRODUCER, GapFound, Kind, Stream
from albireo.model.samples import SampleBatch

MESSAGE_BYTES: Final = 512 * 1024
"""Most that the bodies of one Append message take, so that CORE's turn stays short during a resend."""
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
        """Both losses as one, from the earlier begin to the later end."""
        if before is None:
            return self
        return Loss(
            reason=self.reason,
            from_ns=min(before.from_ns, self.from_ns),
            to_ns=max(before.to_ns, self.to_ns),
            lost=(before.lost or 0) + (self.lost or 0),
        )


class PutOffer(msgspec.Struct, frozen=True, eq=False):
    """Messages to topics that are offered together: they are one batch, and become one body."""

    unnumbered: bytes
    """The body without the producer's numbers (codec.puts)."""
    count: int
    """Records of its frame."""
    at_ns: int
    """Wall time at which it was offered."""


Batch = SampleBatch | PutOffer


def times_of(batch: Batch) -> tuple[int, int]:
    """Times of the first and the last row."""
    if isinstance(batch, PutOffer):
        return batch.at_ns, batch.at_ns
    return int(batch.source_ns[0]), int(batch.source_ns[-1])


class Flight(msgspec.Struct, eq=False):
    """A numbered body that CORE may already have."""

    sequence: int
    entry: AppendEntry
    body: bytes
    last_ns: int
    batch: int
    """Number of the last offered batch in this body, counted from 1; 0: the body is a gap record."""
    batches: Sequence[Batch] = ()
    """Batches that the body was made of: each is sent by itself if CORE refuses the body."""


def flight_of(batches: Sequence[Batch], last: int, producer_id: int, sequence: int, ids: NDArray[np.uint32]) -> Flight:
    """The rows of all batches as one body; of puts there is one.

    Args:
        last: number of the last batch.
        ids: item ids by row of the hello.
    """
    last_ns = times_of(batches[-1])[1]
    if isinstance(batches[0], PutOffer):
        (put,) = batches
        assert isinstance(put, PutOffer)
        body = PRODUCER.pack(producer_id, sequence) + put.unnumbered
        entry = AppendEntry(int(Stream.PUTS), int(Kind.PUTS), put.count, crc32c(body))
        return Flight(sequence, entry, body, last_ns, last, batches)
    rows = [one for one in batches if isinstance(one, SampleBatch)]
    body = samples.encode_body(producer_id, sequence, *rows, ids=ids)
    entry = AppendEntry(int(Stream.SAMPLES), int(rows[0].value_type), sum(map(len, rows)), crc32c(body))
    return Flight(sequence, entry, body, last_ns, last, batches)


def flight_of_loss(loss: Loss, producer: str, producer_id: int, sequence: int, ids: NDArray[np.uint32]) -> Flight:
    """The gap record of `loss` as a body."""
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
    """Number of the last batch in the flights up to `sequence`; 0: they hold gap records only, or there are none."""
    last = min(sequence - flights[0].sequence, len(flights) - 1)
    while last >= 0 and not flights[last].batch:
        last -= 1
    return flights[last].batch if last >= 0 else 0


def messages(flights: Sequence[Flight]) -> list[list[Flight]]:
    """The flights in order, grouped into messages of bounded size."""
    found: list[list[Flight]] = []
    size = 0
    for flight in flights:
        if not found or size + len(flight.body) > MESSAGE_BYTES or len(found[-1]) == MESSAGE_ENTRIES_MAX:
            found.append([])
            size = 0
        found[-1].append(flight)
        size += len(flight.body)
    return found
