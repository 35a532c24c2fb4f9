"""A login at a pair whose active member is killed goes on at the other one, and so does what the person may."""

import asyncio
from pathlib import Path

import pytest

from albireo.client import aconnect
from albireo.machine.fold.people.persons import People
from albireo.model.instant import SECOND
from tests.parts.core_pair import plant, until
from tests.parts.waiting import PATIENCE_S

pytestmark = [pytest.mark.slow]


async def taken_over(home: Path) -> None:
    async with plant(home, cold_wait_ns=SECOND) as made:
        await made.start(1)
        await made.wait_for("active", "ready")
        async with await aconnect(made.lines, timeout_s=PATIENCE_S) as client:
            await client.add_person("anna")
            login = await client.begin_login("anna", "10.1.1.1")
            await until(lambda: "anna" in made.cores[1].root.folds.of(People), "the passive member has her too")
            await made.wait_until_level()
            await made.kill(0)
            await made.wait_for("", "solo")
            assert await client.login(login.session_id) == login
            async with client.speaking_for("anna") as anna:
                assert (await anna.status()).node
                await anna.end_session(login)
            assert await client.login(login.session_id) is None


def test_a_login_goes_on_over_a_takeover_and_its_person_ends_it(tmp_path: Path) -> None:
    asyncio.run(taken_over(tmp_path))
