"""Links of a member that are believed to be up and are not: each is dialled anew, and the pair goes on."""

import asyncio
from pathlib import Path

import pytest

from albireo.model.instant import MS
from albireo.node.member.member import PairMembership
from albireo.runtime import Link
from tests.parts.core_pair import VOTER, Plant, plant, until

pytestmark = pytest.mark.slow

EAGER = {"heartbeat_ns": 20 * MS, "silence_ns": 60 * MS}
"""A connection counts as silent after 0.6 s."""


def membership(made: Plant, member: int) -> PairMembership:
    found = made.cores[member]._membership
    assert isinstance(found, PairMembership)
    return found


def lose(link: Link) -> None:
    """End the connection without a word: nobody hears of it."""
    link._socket.disconnect(link.endpoint)


def beat_of(made: Plant) -> int:
    """Last heartbeat that the backup heard."""
    last = membership(made, 1)._member.peer.last
    return 0 if last is None else last.beat


def test_a_lost_link_to_the_other_member_is_dialled_anew(tmp_path: Path) -> None:
    async def story() -> None:
        async with plant(tmp_path, (), **EAGER) as made:
            await made.start(1)
            await until(lambda: beat_of(made) > 0, "heard")
            own = membership(made, 0)
            lose(own._links.others[0])
            lost_at = own._member._beat
            await until(lambda: beat_of(made) > lost_at + 5, "heard again")
            await made.wait_for("active", "ready")

    asyncio.run(story())


def test_a_lost_link_to_a_voter_is_dialled_anew(tmp_path: Path) -> None:
    async def story() -> None:
        async with plant(tmp_path, (), **EAGER) as made:
            own = membership(made, 0)
            link = own._links.voters[VOTER]
            lose(link)
            heard = link.received
            await until(lambda: link.received > heard + 5, "it votes again")

    asyncio.run(story())
