"""Parts that tests share: a local stream on two real COREs, with the client library."""

from typing import Final

import numpy as np

from albireo.client import Acknowledged, BatchRefused, SampleProducer
from albireo.codec import record, samples
from albireo.codec.record import Kind
from albireo.model.instant import SECOND
from albireo.model.item import DataItem
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType
from albireo.node.core.actor import Core
from albireo.runtime.clock import boot_ns
from tests.parts.waiting import PATIENCE_S

ITEM: Final = DataItem(name="number", value_type=ValueType.INT64)


def batch(value: int) -> SampleBatch:
    times = np.full(1, 1_800_000_000 * SECOND + value, np.int64)
    return SampleBatch(
        value_type=ValueType.INT64,
        item_id=np.zeros(1, np.uint32),
        source_ns=times,
        node_ns=times,
        value=np.array([value], np.int64),
        quality=np.zeros(1, np.uint32),
    )


def told(producer: SampleProducer, number: int) -> Acknowledged:
    """The receipt that covers this batch."""
    ends = boot_ns() + PATIENCE_S * SECOND
    while True:
        assert boot_ns() < ends, f"nobody tells of batch {number}"
        for one in producer.wait(1.0):
            assert not isinstance(one, BatchRefused)
            if one.batch >= number:
                return one


def stored(core: Core, name: str) -> list[int]:
    """Values of a producer in the committed log; a follower knows it when it has folded its hello."""
    known = core.root.folds.producers.find(name)
    if known is None:
        return []
    return [
        int(value)
        for frame in core.log.replay(0, core.log.committed.sequence)
        if frame.header.kind == Kind.INT64 and record.decode_producer(frame.body)[0] == known.producer_id
        for value in samples.decode_body(frame.body, frame.header.kind, frame.header.record_count).values()
    ]
