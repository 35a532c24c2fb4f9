"""Peers come and go: what CORE keeps of them is bounded, and whoever is forgotten can come back."""

import asyncio
from pathlib import Path

from albireo.codec.message import Answer, Ask, FeedAck
from albireo.model.position import BEGINNING
from albireo.node.core.actor import create
from albireo.node.core.peer_links import PEERS_MAX
from albireo.runtime import Letter, SyncLink, running
from tests.parts.waiting import PATIENCE_S
from tests.unit.node.core.test_core_actor import ARGUMENTS

ACK = FeedAck(received=BEGINNING, durable=BEGINNING, credit_bytes=1)
STRANGERS = 10_000


def asked(link: SyncLink, number: int) -> Answer:
    assert link.send(Ask(request_id=number, what="status"))
    received = link.receive(PATIENCE_S)
    assert received is not None
    answer, _ = received
    assert isinstance(answer, Answer)
    return answer


def test_ten_thousand_short_lived_clients_leave_a_bounded_table(tmp_path: Path) -> None:
    """They say a word that is not answered, so no send ever fails; a client from before them is heard all the same."""

    async def story() -> None:
        core = create(ARGUMENTS)
        async with running(core, tmp_path) as context:
            guests = context.bind("guests")
            with SyncLink(tmp_path, "guests") as early:
                assert (await asyncio.to_thread(asked, early, 1)).request_id == 1
                for number in range(STRANGERS):
                    core.drained([Letter(guests, b"stranger%d" % number, ACK, [])])
                assert len(core._peers) == PEERS_MAX
                assert core._peers.forgotten == STRANGERS + 1 - PEERS_MAX
                assert (await asyncio.to_thread(asked, early, 2)).request_id == 2

    asyncio.run(story())


def test_a_peer_that_keeps_speaking_is_not_forgotten(tmp_path: Path) -> None:
    async def story() -> None:
        core = create(ARGUMENTS)
        async with running(core, tmp_path) as context:
            guests = context.bind("guests")
            for number in range(STRANGERS):
                core.drained([Letter(guests, b"stranger%d" % number, ACK, []), Letter(guests, b"steady", ACK, [])])
            assert core._peers.of(b"steady") is guests
            assert core._peers.of(b"stranger0") is not guests

    asyncio.run(story())
