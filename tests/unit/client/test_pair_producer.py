"""The client library at a pair of two real COREs: what is offered between two waits leaves together."""

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest

from albireo.client import Acknowledged, NameTaken, QueueFull, SampleProducer
from albireo.codec import record, samples
from albireo.codec.record import Kind
from albireo.machine.producer.batch_queue import queued_bytes
from albireo.machine.producer.config import ProducerConfig
from albireo.model.position import Position
from albireo.model.samples import SampleBatch, Strings
from albireo.model.value import ValueType
from albireo.node.core.actor import Core
from albireo.node.core.folding import TOGETHER_RECORDS
from albireo.runtime.link.lines import LineTo
from tests.parts.core_pair import aside, plant, until
from tests.parts.early_receipts import ITEM, batch, stored, told
from tests.parts.port import free_ports
from tests.parts.producing import producing

pytestmark = [pytest.mark.slow]


def test_more_than_fits_is_refused_and_not_taken() -> None:
    small = ProducerConfig(queue_bytes_max=1 << 20)
    (port,) = free_ports(1)
    with producing("p", [ITEM], [LineTo(f"tcp://127.0.0.1:{port}", "nobody")], None, small) as producer:
        fits = small.queue_bytes_max // queued_bytes(batch(1))
        assert [producer.offer([batch(1)]) for _ in range(fits)] == list(range(1, fits + 1))
        for _ in range(2):
            with pytest.raises(QueueFull):
                producer.offer([batch(1)])
            assert producer.wait(0) == [], "also once the machine has them"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"item_id": np.array([0, 1], np.uint32)}, "item_id 1: .* 1 items from 0"),
        ({"item_id": np.array([0, -1])}, "item_id 4294967295: "),
        ({"quality": np.zeros(1, np.uint32)}, r"has 2 rows, and .* have \[2, 2, 2, 1\]"),
        ({"value": np.zeros(3)}, r"has 2 rows, and .* have \[2, 2, 3, 2\]"),
        ({"value": Strings.of(["a", "b"])}, "value_type is FLOAT64, and value is Strings"),
        ({"value_type": ValueType.STRING}, "value_type is STRING, and value is ndarray"),
        ({"item_id": np.zeros(0, np.uint32)}, "without rows: leave it out"),
    ],
)
def test_a_batch_that_is_none_is_refused_at_once(changed: dict[str, object], said: str) -> None:
    two = SampleBatch(
        value_type=ValueType.FLOAT64,
        item_id=np.zeros(2, np.uint32),
        source_ns=np.zeros(2, np.int64),
        node_ns=np.zeros(2, np.int64),
        value=np.zeros(2),
        quality=np.zeros(2, np.uint32),
    )
    (port,) = free_ports(1)
    with producing("p", [ITEM], [LineTo(f"tcp://127.0.0.1:{port}", "nobody")], None) as producer:
        with pytest.raises(ValueError, match=said):
            producer.offer([two, msgspec.structs.replace(two, **changed)])
        assert producer.offer([two]) == 1, "nothing of it was taken"


def test_what_is_offered_in_one_call_is_one_frame_and_has_one_receipt(tmp_path: Path) -> None:
    def rounds(producer: SampleProducer) -> list[Acknowledged]:
        receipts = []
        for first in (1, 33):
            last = producer.offer([batch(value) for value in range(first, first + 32)])
            receipts.append(told(producer, last))
        return receipts

    async def story() -> None:
        async with plant(tmp_path, ()) as made:
            await made.start(1)
            await made.wait_for("active", "ready")
            with producing("p", [ITEM], made.lines, None) as producer:
                assert [one.batch for one in await aside(lambda: rounds(producer))] == [32, 64]
            await until(lambda: all(stored(one, "p") == list(range(1, 65)) for one in made.cores.values()), "committed")
            log = made.cores[0].log
            sizes = [
                frame.header.record_count
                for frame in log.replay(0, log.committed.sequence)
                if frame.header.kind == Kind.INT64 and record.decode_producer(frame.body)[0] == 1
            ]
            assert sizes == [32, 32]

    asyncio.run(story())


def test_a_program_whose_name_is_taken_is_told_so_and_records_nothing_more(tmp_path: Path) -> None:
    """The first one says nothing for a while, as a paused process does, and is told."""

    def two_programs(lines: Sequence[LineTo]) -> NameTaken:
        with contextlib.ExitStack() as ends:
            first = ends.enter_context(producing("p", [ITEM], lines, None))
            told(first, first.offer([batch(1)]))
            second = ends.enter_context(producing("p", [ITEM], lines, None))
            told(second, second.offer([batch(11)]))
            told(second, second.offer([batch(12)]))
            with pytest.raises(NameTaken) as raised:
                told(first, first.offer([batch(2)]))
            with pytest.raises(NameTaken):
                first.offer([batch(3)])
            with pytest.raises(NameTaken):
                first.wait(0)
            told(second, second.offer([batch(13)]))
            return raised.value

    async def story() -> None:
        async with plant(tmp_path, ()) as made:
            await made.start(1)
            await made.wait_for("active", "ready")
            taken = await aside(lambda: two_programs(made.lines))
            known = made.cores[0].root.folds.producers.find("p")
            assert known is not None
            assert (taken.by.producer_id, taken.by.run, taken.by.since_ns) == (2, known.run, known.since_ns)
            assert "life 2" in str(taken)
            assert "a name of its own" in str(taken)
            values = [value for life in (1, 2) for value in values_of(made.cores[0], life)]
            assert values == [1, 11, 12, 13]

    asyncio.run(story())


def values_of(core: Core, life: int) -> list[object]:
    """Values of one life in the log."""
    return [
        value
        for frame in core.log.replay(0, core.log.committed.sequence)
        if frame.header.kind == Kind.INT64 and record.decode_producer(frame.body)[0] == life
        for value in samples.decode_body(frame.body, Kind.INT64, frame.header.record_count).values()
    ]


def test_a_stream_without_a_pause_does_not_leave_the_folds_of_the_passive_member_behind(tmp_path: Path) -> None:
    """It folds once enough is committed; with a sync always under way as well."""
    in_flight = 16
    lags: list[int] = []

    def stream(producer: SampleProducer) -> None:
        acked = last = 0
        while acked < 2000:
            while last < acked + in_flight:
                last = producer.offer([batch(last + 1)])
                acked = max([acked, *(one.batch for one in producer.wait(0) if isinstance(one, Acknowledged))])
            acked = max(acked, told(producer, acked + 1).batch)

    def watch(core: Core) -> None:
        commit = core.commit

        def watched(position: Position) -> None:
            commit(position)
            lags.append(position.sequence - core.root.folded_to.sequence)

        core.commit = watched  # type: ignore[method-assign]

    async def story() -> None:
        async with plant(tmp_path, ()) as made:
            await made.start(1)
            await made.wait_for("active", "ready")
            watch(made.cores[1])
            with producing("p", [ITEM], made.lines, None) as producer:
                await aside(lambda: stream(producer))

    asyncio.run(story())
    assert 0 < max(lags) <= TOGETHER_RECORDS + 8 * in_flight
