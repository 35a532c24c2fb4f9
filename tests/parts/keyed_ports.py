"""Parts that tests share: each kind of key at each end of the links of a pair, over real sockets."""

import contextlib
from collections.abc import AsyncIterator, Sequence

from albireo.codec.message import AnyMessage
from albireo.codec.principal import Audience, KeyedEnd
from albireo.node.member.member import PairMembership
from albireo.node.vote.witness import Witness
from albireo.runtime import Link, running
from tests.parts.core_pair import PLACES, VOTER, Plant
from tests.parts.message import MESSAGES, plain
from tests.parts.transport import End, until


def membership(plant: Plant) -> PairMembership:
    found = plant.cores[0]._membership
    assert isinstance(found, PairMembership)
    return found


@contextlib.asynccontextmanager
async def speaker(plant: Plant, name: str, endpoint: str, peer: str) -> AsyncIterator[Link]:
    """A connection of the holder of that key, who says what he likes."""
    end = End(f"speaker-{plant.keys[name].name}")
    async with running(end, plant.home / "speaker"):
        link = end.connect(endpoint, plant.keys[name], peer)
        await until(lambda: end.connections == [True])
        yield link


async def said(link: Link, at: Link, name: str, messages: Sequence[AnyMessage]) -> tuple[int, list[str]]:
    """Say all of it; returns how many of them were heard there, and the names of those that were not."""
    judged: list[str] = []
    unheard: list[str] = []
    hears, report = at.hears, at.on_unheard
    assert hears is not None

    def judge(one: str) -> frozenset[type]:
        judged.append(one)
        return hears(one)

    def drop(one: Link, what: str) -> None:
        unheard.append(what)
        report(one, what)

    at.hears = judge
    at.on_unheard = drop
    for message in messages:
        assert link.send(message)
    await until(lambda: judged.count(name) == len(messages))
    at.hears, at.on_unheard = hears, report
    return len(messages) - len(unheard), unheard


async def judged(plant: Plant, end: KeyedEnd, name: str) -> None:
    """Let the holder of that key say one message of each type at that end."""
    own = membership(plant)
    assert isinstance(plant.witness, Witness)
    places = {
        KeyedEnd.PEER: (own._links.own[0], PLACES[0]),
        KeyedEnd.CLIENT: (own._links.clients, PLACES[0]),
        KeyedEnd.WITNESS: (plant.witness._link, VOTER),
    }
    at, peer = places[end]
    expected = {KeyedEnd.WITNESS: frozenset(PLACES)}.get(end, frozenset({PLACES[1]}))
    allowed = Audience(end, expected).hears(name)
    async with speaker(plant, name, at.endpoint, peer) as link:
        heard, unheard = await said(link, at, name, [plain(one) for one in MESSAGES])
    assert heard == len(allowed), (end, name)
    wanted = [one.__name__ if allowed else "" for one in MESSAGES if one not in allowed]
    assert unheard == wanted, (end, name)
