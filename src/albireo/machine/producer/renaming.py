"""Renaming: bodies in flight get another number, or the item ids of another log; CORE provably holds none of them."""

from collections.abc import Iterable

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.codec import record
from albireo.codec.crc import crc32c
from albireo.codec.record import PRODUCER, GapFound
from albireo.machine.producer.flight import Flight, flight_of


def renumber(flights: Iterable[Flight], producer_id: int, first: int) -> None:
    """Number the bodies anew, from `first` on."""
    for sequence, flight in enumerate(flights, first):
        flight.sequence = sequence
        flight.body = PRODUCER.pack(producer_id, sequence) + flight.body[PRODUCER.size :]
        flight.entry = msgspec.structs.replace(flight.entry, body_crc=crc32c(flight.body))


def renamed(flight: Flight, producer_id: int, known: NDArray[np.uint32], ids: NDArray[np.uint32]) -> Flight:
    """The same body for another log, which gave the items other ids.

    Args:
        known: ids by row that the body was made with.
        ids: those that hold now.
    """
    if flight.batches:
        return flight_of(flight.batches, flight.batch, producer_id, flight.sequence, ids)
    (gap,) = record.decode_records(flight.body, 1)
    assert isinstance(gap, GapFound)
    now = dict(zip(known.tolist(), ids.tolist(), strict=True))
    gap = msgspec.structs.replace(gap, item_ids=tuple(now[one] for one in gap.item_ids if one in now))
    body = record.encode_records(producer_id, flight.sequence, [gap])
    return msgspec.structs.replace(
        flight, body=body, entry=msgspec.structs.replace(flight.entry, body_crc=crc32c(body))
    )
