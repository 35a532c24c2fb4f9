"""Sessions of a pair, over a takeover: both members have them, and who comes back goes on with the same one."""

import asyncio
from pathlib import Path

import pytest

from albireo.client import aconnect
from albireo.codec.record import LEVELS, SessionBegan
from albireo.machine.producer.asking import KEEP_NS
from albireo.model.instant import SECOND
from tests.parts.core_pair import plant, until
from tests.parts.waiting import PATIENCE_S

pytestmark = [pytest.mark.slow]


def test_a_session_goes_on_at_the_other_member_with_its_number(tmp_path: Path) -> None:
    async def story() -> None:
        async with plant(tmp_path, cold_wait_ns=SECOND) as made:
            await made.start(1)
            await made.wait_for("active", "ready")
            await until(lambda: made.cores[0].root.folds.feature_level >= LEVELS[SessionBegan], "both know the record")
            client = await aconnect(made.lines, timeout_s=PATIENCE_S)
            await client.status()
            await until(lambda: len(made.cores[1].root.folds.sessions) == 1, "the passive member has it too")
            (before,) = await client.sessions()
            await made.wait_until_level()

            await made.kill(0)
            await made.wait_for("", "solo")
            await client.status()
            machine = made.cores[1].root.sessions
            await until(lambda: not any(one.is_returning for one in machine._present.values()), "it came back")
            (after,) = await client.sessions()
            assert after == before
            await client.close()

    asyncio.run(story())


def test_a_client_that_says_nothing_comes_back_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("albireo.machine.producer.asking.KEEP_NS", KEEP_NS // 100)

    async def story() -> None:
        async with plant(tmp_path, cold_wait_ns=SECOND) as made:
            await made.start(1)
            await made.wait_for("active", "ready")
            await until(lambda: made.cores[0].root.folds.feature_level >= LEVELS[SessionBegan], "both know the record")
            client = await aconnect(made.lines, timeout_s=PATIENCE_S)
            await client.status()
            await until(lambda: len(made.cores[1].root.folds.sessions) == 1, "the passive member has it too")
            await made.wait_until_level()
            await made.kill(0)
            await made.wait_for("", "solo")
            machine = made.cores[1].root.sessions
            await until(lambda: not any(one.is_returning for one in machine._present.values()), "it came back")
            assert len(made.cores[1].root.folds.sessions) == 1
            await client.close()

    asyncio.run(story())
