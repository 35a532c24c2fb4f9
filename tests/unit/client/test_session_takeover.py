"""Sessions of a pair, over a takeover: both members have them, and who comes back goes on with the same one."""

import asyncio
from pathlib import Path

import pytest

from albireo.client import aconnect
from albireo.machine.fold.people.sessions import SessionFold
from albireo.machine.producer.asking import KEEP_NS
from albireo.model.instant import SECOND
from tests.parts.core_pair import plant, until
from tests.parts.waiting import PATIENCE_S

pytestmark = [pytest.mark.slow]


async def taken_over(home: Path, *, is_silent: bool) -> None:
    """A client is present at a pair whose active member is killed; it comes back to the other one."""
    async with plant(home, cold_wait_ns=SECOND) as made:
        await made.start(1)
        await made.wait_for("active", "ready")
        client = await aconnect(made.lines, timeout_s=PATIENCE_S)
        await client.status()
        await until(lambda: len(made.cores[1].root.folds.of(SessionFold)) == 1, "the passive member has it too")
        (before,) = made.cores[1].root.folds.of(SessionFold)
        await made.wait_until_level()
        await made.kill(0)
        await made.wait_for("", "solo")
        if not is_silent:
            await client.status()
        sessions = made.cores[1].root.sessions
        await until(lambda: not any(one.is_returning for one in sessions._present.values()), "it came back")
        assert list(made.cores[1].root.folds.of(SessionFold)) == [before]
        await client.close()


def test_a_session_goes_on_at_the_other_member_with_its_number(tmp_path: Path) -> None:
    asyncio.run(taken_over(tmp_path, is_silent=False))


def test_a_client_that_says_nothing_comes_back_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("albireo.machine.producer.asking.KEEP_NS", KEEP_NS // 100)
    asyncio.run(taken_over(tmp_path, is_silent=True))
