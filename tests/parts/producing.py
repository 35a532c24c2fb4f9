"""A producer on a client of its own, which may be left with batches that nobody acknowledged."""

import contextlib
from collections.abc import Iterator, Sequence

from albireo.client import NotDelivered, SampleProducer, connect
from albireo.machine.producer.config import ProducerConfig
from albireo.model.item import DataItem
from albireo.runtime.link.keys import Keys
from albireo.runtime.link.lines import LineTo


@contextlib.contextmanager
def producing(
    name: str,
    items: Sequence[DataItem],
    members: Sequence[LineTo],
    keys: Keys | None,
    config: ProducerConfig | None = None,
) -> Iterator[SampleProducer]:
    """Nobody need be there yet."""
    with connect(members, keys=keys, waits=False) as client:
        producer = client.producer(name, items, config)
        yield producer
        with contextlib.suppress(NotDelivered):
            producer.close(0)
