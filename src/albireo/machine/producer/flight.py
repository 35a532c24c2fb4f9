"""Flights: batches that a producer has on their way, as bodies under consecutive numbers.

Adjacent batches of one value type become one body: a frame costs the node far more than a row of it.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.codec import record, samples
from albireo.codec.crc import crc32c
from albireo.codec.message import Appended, AppendEntry
from albireo.codec.puts import CursorMoved, Extra, KeyPut, LeaseMoved, encode_puts
from albireo.codec.record import GapFound, Kind, Stream
from albireo.model.refusal import RefusalCode
from albireo.model.samples import SampleBatch

MESSAGE_BYTES: Final = 512 * 1024
"""Most that the bodies of one Append message take, so that CORE's turn stays short during a resend."""
MESSAGE_ENTRIES_MAX: Final = 256


FOR_GOOD: Final = frozenset(
    {
        RefusalCode.MALFORMED,
        RefusalCode.BAD_VALUE,
        RefusalCode.UNKNOWN_TOPIC,
        RefusalCode.NOT_OWNER,
        RefusalCode.CHANGED,
        RefusalCode.FULL,
    }
)
"""Refusals of a batch that would be refused again."""


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
    """Messages to topics that are offered together, with cursors that move: all of it is taken, or nothing is."""

    at_ns: int
    """Wall time at which it was offered."""
    runs: Sequence[tuple[int, Sequence[bytes]]] = ()
    """Topic id and bodies of messages that stand behind each other."""
    extras: Mapping[int, Extra] = {}
    """Keys and headers by index of the message."""
    moves: Sequence[CursorMoved] = ()
    keys: Sequence[KeyPut] = ()
    leases: Sequence[LeaseMoved] = ()
    size_bytes: int = 0
    """Size of the messages, with keys, headers and lengths."""
    stays_here: bool = False
    """The topics are kept with one member."""

    @property
    def count(self) -> int:
        """Number of messages."""
        return sum(len(bodies) for _, bodies in self.runs)

    @property
    def stands_alone(self) -> bool:
        """True: it may be refused for reasons of its own, so it becomes a body of its own."""
        return bool(self.moves or self.keys or self.leases)


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
    """The rows, or the messages, of all batches as one body.

    Args:
        last: number of the last batch.
        ids: item ids by row of the hello.
    """
    last_ns = times_of(batches[-1])[1]
    if isinstance(batches[0], PutOffer):
        puts = [one for one in batches if isinstance(one, PutOffer)]
        body = _body_of(puts, producer_id, sequence)
        stream = Stream.OWN_PUTS if puts[0].stays_here else Stream.PUTS
        entry = AppendEntry(int(stream), int(Kind.PUTS), max(1, sum(one.count for one in puts)), crc32c(body))
        return Flight(sequence, entry, body, last_ns, last, batches)
    rows = [one for one in batches if isinstance(one, SampleBatch)]
    body = samples.encode_body(producer_id, sequence, *rows, ids=ids)
    entry = AppendEntry(int(Stream.SAMPLES), int(rows[0].value_type), sum(map(len, rows)), crc32c(body))
    return Flight(sequence, entry, body, last_ns, last, batches)


def _body_of(puts: Sequence[PutOffer], producer_id: int, sequence: int) -> bytes:
    """Messages of all offers as one body. Runs of one topic that meet become one."""
    if len(puts) == 1:
        one = puts[0]
        return encode_puts(producer_id, sequence, one.runs, one.moves, one.extras, one.keys, one.leases)
    runs: list[tuple[int, list[bytes]]] = []
    extras: dict[int, Extra] = {}
    count = 0
    for put in puts:
        extras.update({count + index: one for index, one in put.extras.items()})
        count += put.count
        for topic_id, bodies in put.runs:
            if runs and runs[-1][0] == topic_id:
                runs[-1][1].extend(bodies)
            else:
                runs.append((topic_id, list(bodies)))
    return encode_puts(producer_id, sequence, runs, (), extras)


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


def ends_of(flight: Flight, receipt: Appended) -> dict[int, int]:
    """Sequences of the last messages of the batches in a flight, by their numbers, as far as its receipt tells."""
    found: dict[int, int] = {}
    place, ends = receipt.producer_sequence - flight.sequence, receipt.ends or (receipt.position.sequence,)
    if 0 <= place < len(ends):
        end = ends[-1 - place]
        for before, one in enumerate(reversed(flight.batches)):
            if isinstance(one, PutOffer) and one.runs:
                found[flight.batch - before] = end
                end -= one.count
    return found


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
