"""A pair whose only voter is a node below, which dials both members: over real links, with and without keys."""

import asyncio
import contextlib
import io
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from albireo.cli.node.status import answer_of
from albireo.cli.output import Output, tell
from albireo.cli.pair.votes import votes_text
from albireo.client import connect
from albireo.model.instant import SECOND
from albireo.runtime.clock import boot_ns
from tests.parts.core_pair import SITE, Plant, aside, plant_over_a_site, until
from tests.parts.waiting import awaited

pytestmark = pytest.mark.slow

VOTER = f"node:{SITE}"
DESK = "desk"


def voter_seen(home: Path) -> Any:
    """The only voter, as the member whose data these are shows it."""
    with connect(home, is_pinned=True) as client:
        status: Any = client.ask("status")
    seen = status["pair"]["voters_seen"]
    assert list(seen) == [VOTER]
    return seen[VOTER]


def has_answered(voter: Any) -> bool:
    """Lately: it is asked for a vote again and again."""
    return voter["answered_ms"] is not None and voter["answered_ms"] < 3_000


def seat_of(home: Path) -> Any:
    """What the voter itself says."""
    with connect(home, is_pinned=True) as client:
        status: Any = client.ask("status", of="voter")
    [seat] = status["pairs"]
    return seat


def votes_of(home: Path) -> Any:
    """What `albireo status` knows of the votes of a place."""
    with connect(home, is_pinned=True) as client:
        return answer_of(client, "status", "voter")


def table_of(home: Path) -> list[list[str]]:
    """The same as `albireo status -v` shows it."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        tell(Output(None, votes_text(votes_of(home))))
    return [line.split("\t") for line in shown.getvalue().splitlines()]


async def both_in(made: Plant) -> None:
    await made.start(1)
    await made.wait_for("active", "ready")


LONG_NS = 60 * SECOND
"""A lease so long that a member which leads before its end did not wait for it."""


@pytest.mark.parametrize("keyed", [(), (DESK,)], ids=["without-keys", "with-keys"])
def test_the_other_member_takes_over_by_the_vote_of_a_node_below(tmp_path: Path, keyed: tuple[str, ...]) -> None:
    """It waits for no lease: the site sees that the process is gone, and so does the other member."""

    async def story() -> None:
        async with plant_over_a_site(tmp_path, *keyed, lease_ns=LONG_NS) as made:
            await both_in(made)
            await aside(partial(awaited, partial(voter_seen, made.data(0)), has_answered))
            killed_at = boot_ns()
            await made.kill(0)
            await until(lambda: made.state(1) == "solo", "the backup acts")
            assert boot_ns() - killed_at < LONG_NS
            seat = await aside(partial(seat_of, tmp_path / "w1"))
            assert seat["node"] == "root"
            assert seat["record"]["holder"] == 1
            assert [one["place"] for one in seat["members"]] == ["root[primary]", "root[backup]"]
            head, told = await aside(partial(table_of, tmp_path / "w1"))
            assert head[:4] == ["pair", "state", "promised", "holder"]
            assert (told[0], told[3]) == ("root", "backup")
            assert await aside(partial(votes_of, made.data(1))) is None, "it votes for nobody"

    asyncio.run(story())


def test_nobody_takes_over_while_the_site_is_away_and_the_vote_comes_with_it(tmp_path: Path) -> None:
    """It comes back on its own disk, knows what it promised, and is asked as soon as it has said hello."""

    async def story() -> None:
        async with plant_over_a_site(tmp_path) as made:
            await both_in(made)
            await made.stop_witness()
            before = made.witness.seats.by_cluster["c/root"].disk.store
            assert before is not None
            await made.kill(0)
            await until(lambda: made.machine(1).candidate.candidacy is not None, "the backup asks for votes")
            assert made.state(1) == "ready"
            await made.start_witness()
            assert made.witness.seats.by_cluster["c/root"].disk.store == before
            await until(lambda: made.state(1) == "solo", "the backup acts")

    asyncio.run(story())
