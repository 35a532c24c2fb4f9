"""A whole node in one process, from a seed: producers, CORE's root machine, followers, a log on a disk that forgets.

Links lose, repeat and delay messages; CORE is killed at any event and rebuilt by replay of what its disk kept; time
passes unevenly. Checked all the while and at the end, once the faults stop: nothing acknowledged is lost, nothing is
stored twice, the order of each producer holds, followers have every record once, folds equal a replay from zero, every
command ends in exactly one outcome and is sent at most once.

A failure prints the seed: `pytest tests/sim -k "seed-17"` plays it again.
"""

import pytest

from albireo.codec import record, samples
from albireo.codec.frame import Frame, encode_header
from albireo.codec.record import Kind
from albireo.machine.fold.folds import Folds
from tests.long_form import some
from tests.parts.node_world import Plc, World

SEEDS = some(range(100), 4)
STEPS = 250


def producer_sequences(world: World) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for frame in world.disk.frames:
        producer_id, sequence = record.decode_producer(frame.body)
        if producer_id:
            found.setdefault(producer_id, []).append(sequence)
    return found


def check_log(world: World) -> None:
    """The batches of each life stand in the log 1, 2, 3..., once each, and all that were acknowledged are there."""
    found = producer_sequences(world)
    for sequences in found.values():
        assert sequences == list(range(1, len(sequences) + 1))
    for life, acknowledged in world.acknowledged.items():
        durable = [
            record.decode_producer(one.body)[1]
            for one in world.disk.frames
            if record.decode_producer(one.body)[0] == life and one.header.last_sequence <= world.disk.durable
        ]
        assert acknowledged <= max(durable, default=0), "acknowledged and not durable"
    assert len(world.sent_orders) == len(set(world.sent_orders)), "an order was sent twice"


def stored(world: World, plc: Plc) -> list[float]:
    """Values of this producer in the log, of its present life."""
    known = world.root.folds.producers.find(plc.name)
    assert known is not None
    return [
        value
        for frame in world.disk.frames
        if record.decode_producer(frame.body)[0] == known.producer_id and frame.header.kind == Kind.FLOAT64
        for value in samples.decode_body(frame.body, frame.header.kind, frame.header.record_count).values()
        if isinstance(value, float)
    ]


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"seed-{seed}")
def test_a_node_survives(seed: int) -> None:
    world = World(seed)
    for _ in range(STEPS):
        world.turn()
        check_log(world)
    world.settle()
    check_log(world)

    for plc in world.plcs:
        assert plc.machine.is_all_acknowledged
        assert plc.machine.dropped == 0
        found = stored(world, plc)
        assert found == plc.offered, "an offered value is lost, or out of order"
    expected = [(one.header.first_sequence, crc_of(one)) for one in world.disk.frames]
    assert world.followed == expected[: len(world.followed)]
    assert len(world.followed) == len(expected)

    replayed = Folds()
    for frame in world.disk.frames:
        replayed.replay(frame)
    assert replayed.snapshot() == world.root.folds.snapshot()

    receipts = [
        one.receipt.command_id
        for frame in world.disk.frames
        if frame.header.kind == Kind.RECORDS
        for one in record.decode_records(frame.body, frame.header.record_count)
        if isinstance(one, record.CommandFinished)
    ]
    assert len(receipts) == len(set(receipts))
    requested = [one for one in world.asked if world.root.folds.commands.find(one) is not None]
    assert set(requested) == set(receipts)
    assert world.root.folds.commands.open_count == 0


def crc_of(frame: Frame) -> int:
    return int.from_bytes(encode_header(frame.header)[8:12], "little")
