"""The epoch that a member accepted is on its disk, and its next run begins with it, before it hears of anybody."""

import asyncio
from pathlib import Path

import pytest

from albireo.node.core.actor import Core
from albireo.node.member.member import PairMembership
from tests.parts.core_pair import Plant, plant, until

pytestmark = pytest.mark.slow


def accepted(core: Core) -> tuple[int, int]:
    """What the machine goes by, and what its store holds."""
    membership = core._membership
    assert isinstance(membership, PairMembership)
    return membership._member.own.accepted_epoch, core.log.header.accepted_epoch


async def alone_again(made: Plant, member: int) -> Core:
    """The next run of a member that nobody speaks to."""
    await made.stop_witness()
    for one in (0, 1):
        await made.kill(one)
    return await made.start(member)


@pytest.mark.parametrize("member", [0, 1], ids=["who led", "who followed"])
def test_the_accepted_epoch_outlives_the_run_that_accepted_it(tmp_path: Path, member: int) -> None:
    async def story() -> None:
        async with plant(tmp_path) as made:
            await made.start(1)
            await made.wait_for("active", "ready")
            epoch = made.cores[0].log.history.epoch
            await until(lambda: [accepted(one) for one in made.cores.values()] == [(epoch, epoch)] * 2, "accepted")
            core = await alone_again(made, member)
            assert accepted(core) == (epoch, epoch)

    asyncio.run(story())
