"""Forced values of a pair, over a takeover: what is shown, what is left of the time, what is measured."""

import asyncio
from pathlib import Path

import pytest

from albireo.client import AsyncClient, aconnect, connect
from albireo.model import quality
from albireo.model.instant import SECOND
from tests.parts.client import produce
from tests.parts.core_pair import aside, plant
from tests.parts.waiting import PATIENCE_S

pytestmark = [pytest.mark.slow]
FOR_S = 3_600.0


async def shown(client: AsyncClient) -> list[tuple[object, int]]:
    return [(one.value, one.quality) for one in await client.read(["number", "number/measured"])]


def test_a_forced_item_stays_forced_over_a_takeover_for_what_was_left(tmp_path: Path) -> None:
    async def story() -> None:
        async with plant(tmp_path, cold_wait_ns=SECOND) as made:
            await made.start(1)
            await made.wait_for("active", "ready")
            producing = await aside(lambda: connect(made.lines, timeout_s=PATIENCE_S))
            client = await aconnect(made.lines, timeout_s=PATIENCE_S)
            await aside(lambda: produce(producing, 1, 3))
            forced = await client.force("number", 70, "sensor broken", for_s=FOR_S)
            assert (forced.item, forced.value, forced.measured.value) == ("root:number", 70, 3)
            await aside(lambda: produce(producing, 4, 5))
            assert await shown(client) == [(70, quality.GOOD_LOCAL_OVERRIDE), (5, quality.GOOD)]
            await made.wait_until_level()

            await made.kill(0)
            await made.wait_for("", "solo")
            assert (await shown(client))[0] == (70, quality.GOOD_LOCAL_OVERRIDE)
            (row,) = await client.forces()
            assert (row.value, row.reason, row.measured.value) == (70, "sensor broken", 5)
            assert 0 < row.left_ms <= FOR_S * 1000
            await aside(lambda: produce(producing, 6, 7))
            assert await shown(client) == [(70, quality.GOOD_LOCAL_OVERRIDE), (7, quality.GOOD)]
            await client.release("number", "repaired")
            async for changes in client.watch("number", timeout_s=PATIENCE_S):
                assert changes.readings, "it never shows what is measured"
                if [(one.value, one.quality) for one in changes.readings] == [(7, quality.GOOD)]:
                    break
            await client.close()
            await aside(producing.close)

    asyncio.run(story())
