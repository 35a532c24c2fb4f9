"""A local stream on two real COREs, with the client library: told by one disk, cut with it, and stored all the same."""

import asyncio
from pathlib import Path
from typing import Final

import pytest

from albireo.codec import samples
from albireo.codec.frame import frames
from albireo.codec.record import Kind
from albireo.machine.answers.status import status_of
from albireo.model.instant import SECOND
from albireo.node.core.actor import Core
from tests.parts.core_pair import aside, plant, until
from tests.parts.early_receipts import ITEM, batch, stored, told
from tests.parts.producing import producing

pytestmark = [pytest.mark.slow]

PATIENT: Final = {"cold_wait_ns": SECOND, "lease_ns": 6 * SECOND}
"""A member that starts alone does not wait for long; one whose witness is gone leads on for long enough."""


def on_one_disk(core: Core, after: int) -> list[int]:
    """Values behind this sequence that its own disk has, committed or not."""
    chunk = core.log.read_appended(after, 1 << 20)
    return [
        int(value)
        for header, body in frames(chunk)
        if header.kind == Kind.INT64 and header.last_sequence <= core.log.durable.sequence
        for value in samples.decode_body(body, header.kind, header.record_count).values()
    ]


def test_a_batch_that_one_disk_had_is_stored_after_that_disk_was_overtaken(tmp_path: Path) -> None:
    async def story() -> None:
        async with plant(tmp_path, ("samples",), **PATIENT) as made:
            await made.start(1)
            await made.wait_for("active", "ready")
            with producing("p", [ITEM], made.lines, None) as producer:
                producer.offer([batch(1)])
                await aside(lambda: told(producer, 1))
                await until(lambda: [stored(one, "p") for one in made.cores.values()] == [[1], [1]], "committed")

                await made.stop_witness()  # So the set stays what it is, and nothing more is committed.
                await made.kill(1)
                producer.offer([batch(2)])
                receipt = await aside(lambda: told(producer, 2))
                assert (receipt.durability, receipt.members, receipt.may_be_cut) == ("local", (0,), True)
                primary = made.cores[0]
                assert primary.log.committed < receipt.position <= primary.log.durable
                assert stored(primary, "p") == [1], "nobody reads what is not committed"
                status = status_of(primary.root, primary.log.view(), primary._moment())
                assert status.durability["samples"] == "local"

                await made.kill(0)
                await made.start_witness()
                backup = await made.start(1)
                await made.wait_for("", "solo")
                producer.offer([batch(3)])
                receipt = await aside(lambda: told(producer, 3))
                assert (receipt.members, receipt.may_be_cut) == ((1,), False), "alone in the set there is nobody else"
                assert stored(backup, "p") == [1, 2, 3]

                primary = await made.start(0)
                await made.wait_for("ready", "active")
                await made.wait_until_level()
                assert stored(primary, "p") == [1, 2, 3]
                assert sum("not in the holder's log" in one.why for one in primary.log.quarantine()) == 1

    asyncio.run(story())


def test_without_a_local_stream_one_disk_is_not_enough(tmp_path: Path) -> None:
    async def story() -> None:
        async with plant(tmp_path, (), **PATIENT) as made:
            await made.start(1)
            await made.wait_for("active", "ready")
            with producing("p", [ITEM], made.lines, None) as producer:
                producer.offer([batch(1)])
                receipt = await aside(lambda: told(producer, 1))
                assert (receipt.durability, receipt.members, receipt.may_be_cut) == ("both", (0, 1), False)
                await made.stop_witness()
                await made.kill(1)
                primary = made.cores[0]
                producer.offer([batch(2)])
                await aside(lambda: producer.wait(0.01))
                await until(lambda: on_one_disk(primary, receipt.position.sequence) == [2], "on one disk")
                assert await aside(lambda: producer.wait(0.1)) == []

    asyncio.run(story())
