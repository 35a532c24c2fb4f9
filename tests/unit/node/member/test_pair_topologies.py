"""Each member of a pair tells the other one which topology it runs, over two real COREs."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from albireo.client import connect
from albireo.machine.kernel.events import TopologyTold
from albireo.model.settings import LimitSettings
from tests.parts.core_pair import Plant, aside, plant, until
from tests.parts.waiting import PATIENCE_S, awaited

OLD, NEW = "a" * 64, "b" * 64


def take_up(made: Plant, member: int, hashed: str) -> None:
    """What boot answers once this member has taken a file up."""
    made.cores[member].tell(TopologyTold(hashed, LimitSettings(), children=(), beyond=()))


def said_in(made: Plant, member: int) -> tuple[Any, Any]:
    """Hashes of both members as the status of one has them: its own, and that of the other one."""
    membership: Any = made.cores[member]._membership
    told = membership.describe()
    return told.topology_hash, told.other.topology_hash


def differing(made: Plant) -> list[float]:
    """Value of the item at the member that serves."""
    with connect(made.data(0), timeout_s=PATIENCE_S, is_pinned=True) as client:
        found: Any = client.ask("read", names=["core/topology_differs", "core/clock_apart"])
        return [one["value"] for one in found]


async def shown(made: Plant, members: float) -> None:
    """Wait until the item has the value; the clocks of one machine are not apart."""
    found = await aside(lambda: awaited(partial(differing, made), lambda found: found[0] == members))
    assert abs(found[1]) < 10


@pytest.mark.slow
def test_a_file_that_one_member_alone_takes_up_is_shown_until_the_other_one_has_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with plant(tmp_path) as made:
            await made.start(1)
            await made.wait_for("active", "ready")
            take_up(made, 0, OLD)
            await until(lambda: said_in(made, 1) == ("", OLD), "the old one is heard")
            await shown(made, 0)  # The backup does not know what it runs: nothing is compared.
            take_up(made, 1, OLD)
            await until(lambda: said_in(made, 0) == (OLD, OLD), "the same is heard")
            take_up(made, 1, NEW)
            await shown(made, 1)
            assert said_in(made, 0) == (OLD, NEW)
            await until(lambda: said_in(made, 1) == (NEW, OLD), "the one that serves tells its own")
            take_up(made, 0, NEW)
            await shown(made, 0)

    asyncio.run(asyncio.wait_for(story(), PATIENCE_S))
