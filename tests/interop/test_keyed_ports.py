"""Each kind of key at each end of the links of a pair, over real sockets: what is said there, and what is heard.

The table itself is judged in tests/unit/codec/test_principal.py; here real members and a real witness keep to it.
"""

import asyncio
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from albireo.client import Acknowledged, ProducerRefused
from albireo.codec.message import AnyMessage
from albireo.codec.pair_message import FollowAcked, Heartbeat, Leaving
from albireo.codec.principal import Audience, KeyedEnd
from albireo.machine.pair.party import PeerHead
from albireo.model.instant import Instant
from albireo.model.item import DataItem
from albireo.model.position import Position
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType
from albireo.runtime import Keys, Link, running
from albireo.runtime.link import tcp
from albireo.runtime.link.keys import introduce
from tests.parts.core_pair import CLUSTER, PLACES, VOTER, Plant, aside, keyed_plant
from tests.parts.keyed_ports import judged, membership, said, speaker
from tests.parts.message import MESSAGES, plain
from tests.parts.producing import producing
from tests.parts.transport import ANY_PORT, End, key_pair, until
from tests.parts.waiting import PATIENCE_S

OPERATOR = "operator@desk"
MES = "mes-1"
ITEM = DataItem(name="pressure", value_type=ValueType.BOOL)
ROW = SampleBatch(
    value_type=ValueType.BOOL,
    item_id=np.zeros(1, np.uint32),
    source_ns=np.ones(1, np.int64),
    node_ns=np.ones(1, np.int64),
    value=np.ones(1, np.uint8),
    quality=np.zeros(1, np.uint32),
)
TAKEN = {
    "core": "'core' is reserved",
    "history": "'history' is reserved",
    PLACES[0]: "is reserved: a part of the node, a member or a witness",
    "boiler": "belongs to the key 'mes-1', not to 'operator@desk'; what to do: ",
    "other": "item 'pressure' belongs to 'boiler'",
}
"""Names that another key can't produce under, with the reason."""
STRANGERS = ("north[primary]", "witness:w9")
HEAD = PeerHead(cluster=CLUSTER, member=1, run=99, store="forged")
FORGED: tuple[AnyMessage, ...] = (
    Heartbeat(
        feature_level=1,
        log_level=1,
        **HEAD,
        beat=1,
        sent=Instant(1),
        state="active",
        epoch=1001,
        is_acting=True,
        is_holder=True,
        members=(1,),
        end=Position(1001, 1_000_000),
        committed=Position(1001, 1_000_000),
        accepted_epoch=1001,
    ),
    FollowAcked(**HEAD, to_run=1, epoch=2, session=1, received=1, durable=1),
    Leaving(**HEAD),
)


@pytest.mark.slow
@pytest.mark.parametrize("name", [OPERATOR, VOTER, *STRANGERS])
def test_nobody_else_speaks_as_the_other_member(tmp_path: Path, name: str) -> None:
    """A forged heartbeat would depose the active member, a forged acknowledgement make `both` of what one disk has."""

    async def story() -> None:
        async with keyed_plant(tmp_path, OPERATOR, *STRANGERS) as plant:
            own = membership(plant)
            async with speaker(plant, name, plant.peer_ends[0], PLACES[0]) as link:
                assert await said(link, own._links.own[0], name, FORGED) == (0, [""] * len(FORGED))
            assert own._member.peer.last is None
            assert plant.state(0) == "solo"
            assert own.describe().refused["not heard on member.0"] == len(FORGED)

    asyncio.run(story())


def test_the_other_member_is_heard(tmp_path: Path) -> None:
    async def story() -> None:
        async with keyed_plant(tmp_path) as plant:
            own = membership(plant)
            async with speaker(plant, PLACES[1], plant.peer_ends[0], PLACES[0]) as link:
                assert await said(link, own._links.own[0], PLACES[1], FORGED[:1]) == (1, [])
            await plant.start(1)
            await plant.wait_for("active", "ready")

    asyncio.run(story())


@pytest.mark.slow
@pytest.mark.parametrize("end", [KeyedEnd.PEER, KeyedEnd.CLIENT, KeyedEnd.WITNESS])
def test_each_kind_of_key_is_heard_as_the_table_says(tmp_path: Path, end: KeyedEnd) -> None:
    async def story() -> None:
        async with keyed_plant(tmp_path, OPERATOR, "witness:w2", *STRANGERS) as plant:
            for name in (OPERATOR, PLACES[1], "witness:w2", *STRANGERS):
                await judged(plant, end, name)
            assert plant.state(0) == "solo"

    asyncio.run(story())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "name"), [(KeyedEnd.TO_PEER, PLACES[1]), (KeyedEnd.TO_WITNESS, VOTER)], ids=["to_peer", "to_witness"]
)
def test_who_is_dialled_is_hung_up_on_when_it_says_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: KeyedEnd, name: str
) -> None:
    """It is dialled again a while later; the connection is there and says nothing else meanwhile."""
    monkeypatch.setattr(tcp, "STANDSTILL_S", 0.01)

    async def story() -> None:
        server_keys, keys = Keys.new(tmp_path / "s", name), Keys.new(tmp_path / "c", PLACES[0])
        introduce(server_keys, keys)
        server, member = End("server"), End("member")
        async with running(server, tmp_path / "a"), running(member, tmp_path / "b"):
            bound = server.bind(server_keys, ANY_PORT)
            hears = Audience(end, frozenset({name})).hears
            link = member.connect(bound.endpoint, keys, name, hears=hears)
            for kind in MESSAGES:
                await until(lambda: member.connections == [True, *[False, True] * link.unheard])
                before = (link.unheard, link.received)
                assert link.send(plain(kind))
                await until(lambda: len(server.letters) > 0)
                assert bound.send(plain(kind), to=server.letters.pop().sender)
                await until(partial(changed, link, before))
                is_heard = kind in hears(name)
                assert (link.unheard, link.received) == (before[0] + (not is_heard), before[1] + is_heard), kind

    asyncio.run(story())


def changed(link: Link, before: tuple[int, int]) -> bool:
    return (link.unheard, link.received) != before


def test_where_nobody_says_who_is_heard_nobody_is(tmp_path: Path) -> None:
    async def story() -> None:
        server_keys, keys = key_pair(tmp_path)
        server, member = End("server"), End("member")
        async with running(server, tmp_path / "a"), running(member, tmp_path / "b"):
            bound = server.actor.bind_tcp("new", ANY_PORT, server_keys)
            link = member.connect(bound.endpoint, keys)
            await until(lambda: member.connections == [True])
            assert link.send(plain(MESSAGES[0]))
            await until(lambda: bound.unheard == 1)
            assert server.letters == []

    asyncio.run(story())


def test_without_keys_everybody_is_heard(tmp_path: Path) -> None:
    """On loopback only: there are no names to judge by (docs/keys.md)."""

    async def story() -> None:
        server, member = End("server"), End("member")
        async with running(server, tmp_path / "a"), running(member, tmp_path / "b"):
            bound = server.bind(None, ANY_PORT, hears=Audience(KeyedEnd.PEER, frozenset({PLACES[1]})).hears)
            link = member.connect(bound.endpoint, None)
            await until(lambda: member.connections == [True])
            for message in MESSAGES:
                assert link.send(plain(message))
            await until(lambda: len(server.letters) == len(MESSAGES))
            assert bound.unheard == 0

    asyncio.run(story())


@pytest.mark.slow
def test_a_program_with_a_key_takes_neither_the_nodes_names_nor_another_programs(tmp_path: Path) -> None:
    """`ProducerRefused`, over CURVE, with the reason and what to do; the name's owner goes on."""

    def appends(plant: Plant, key: str, name: str) -> None:
        with producing(name, [ITEM], plant.lines, plant.keys[key]) as producer:
            producer.offer([ROW])
            assert [type(one) for one in producer.wait(PATIENCE_S)] == [Acknowledged]

    async def story() -> None:
        async with keyed_plant(tmp_path, OPERATOR, MES) as plant:
            await aside(partial(appends, plant, MES, "boiler"))
            for name, reason in TAKEN.items():
                with pytest.raises(ProducerRefused, match=reason):
                    await aside(partial(appends, plant, OPERATOR, name))
            await aside(partial(appends, plant, MES, "boiler"))

    asyncio.run(story())
