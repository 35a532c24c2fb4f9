"""Two COREs with their histories, over real links: the one that joins late ends with the other's stored rows."""

import asyncio
from pathlib import Path

import pytest

from albireo.client import connect
from albireo.codec.history import Manifest
from albireo.node.history.errors import HistoryDamaged
from albireo.node.history.files.store import HistoryStore, read_manifest
from tests.parts.core_pair import Plant, aside, plant, until
from tests.parts.history_copy import all_rows
from tests.parts.history_join import stored
from tests.parts.snapshot_join import Producer
from tests.parts.waiting import PATIENCE_S

pytestmark = [pytest.mark.slow]


def manifest(made: Plant, member: int) -> Manifest:
    """As it stands; an empty one until the first seal is done."""
    try:
        return read_manifest(made.data(member) / "history")
    except HistoryDamaged:
        return Manifest(node="")


async def settled(made: Plant) -> int:
    """Nothing is missing at either; up to which sequence both have everything in files."""

    def seal() -> None:
        for member in (0, 1):
            with connect(made.data(member), timeout_s=PATIENCE_S, is_pinned=True) as client:
                client.ask("seal", of="history")

    async def is_whole() -> bool:
        await aside(seal)
        return all(manifest(made, member).holes == () for member in (0, 1))

    async with asyncio.timeout(PATIENCE_S):
        while not await is_whole():
            pass
    return min(manifest(made, member).position.sequence for member in (0, 1))


async def joined(made: Plant, producer: Producer) -> None:
    """The primary's log has let go of its beginning; the backup begins behind it."""
    await aside(lambda: producer.send(made.data(0), 60))
    await until(lambda: made.cores[0].log.begin_sequence > 1, "pruned")
    await made.start(1)
    await made.wait_for("active", "ready")


def test_a_member_that_joins_late_gets_what_was_stored_before_and_can_give_it_back(tmp_path: Path) -> None:
    """Back to the primary, whose history is lost afterwards: who leads does not matter to a copy."""
    producer = Producer()

    async def story() -> int:
        async with plant(tmp_path) as made:
            async with stored(made, 0):
                await joined(made, producer)
                async with stored(made, 1):
                    await until(lambda: manifest(made, 1).filled, "something is copied")
                    await settled(made)
            await asyncio.to_thread((made.data(0) / "history").rename, tmp_path / "lost")
            async with stored(made, 1), stored(made, 0):
                await until(lambda: manifest(made, 0).filled, "something is copied back")
                return await settled(made)

    upto = asyncio.run(story())
    rows = [all_rows(HistoryStore.open(tmp_path / name, "root")[0], upto) for name in ("primary", "backup")]
    assert rows[0] == rows[1]
    assert sum(map(len, rows[0].values())) > 6000


def test_it_is_in_the_set_while_nothing_is_copied_and_shows_that(tmp_path: Path) -> None:
    """The other history is not there: the records are safe all the same, and both members can tell what is missing."""
    producer = Producer()

    async def story() -> None:
        async with plant(tmp_path) as made:
            async with stored(made, 0):
                await joined(made, producer)
            async with stored(made, 1):
                await until(lambda: manifest(made, 1).holes, "it knows what it lacks")

                def said() -> str:
                    told = made.cores[1]._membership.describe()
                    assert told is not None
                    return str(told.cases)

                await until(lambda: "history does not answer" in said(), "it says so")
                assert (made.state(0), made.state(1)) == ("active", "ready")
                assert manifest(made, 1).holes[0].first_sequence == 1

    asyncio.run(story())
