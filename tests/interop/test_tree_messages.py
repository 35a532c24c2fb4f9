"""Programs send messages from node to node, and take them from the inbox of theirs."""

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import msgspec
import pytest

from albireo.client import NodeRefused, aconnect, connect
from albireo.codec.message_records import MessageDone, MessageEnded
from albireo.codec.questions.messages import SEND_BYTES_MAX
from tests.parts.core_pair import aside, until
from tests.parts.tree import tree_of
from tests.parts.tree_messages import joined
from tests.parts.tree_orders import NORTH, PUMP, ROOT, told
from tests.parts.waiting import PATIENCE_S

pytestmark = pytest.mark.slow


def test_a_message_is_taken_by_one_of_two_receivers_and_proven_at_both_ends(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH, PUMP)
    poems = [f"poem {number}".encode() for number in range(6)]

    are_sent = Event()

    def received() -> list[bytes]:
        found = []
        with connect(nodes[PUMP].endpoint) as client:
            while not are_sent.is_set():
                for one in client.inbox(timeout_s=0.5):
                    assert (one.origin, one.kind, one.user, one.reason) == (ROOT, "poem", "ann", "for fun")
                    client.take(one)
                    client.take(one)
                    with pytest.raises(NodeRefused, match="lease is over"):
                        client.take(msgspec.structs.replace(one, lease=one.lease + 1))
                    found.append(one.body)
        return found

    def story_of() -> list[str]:
        joined(nodes)
        with ThreadPoolExecutor(8) as pool, connect(nodes[ROOT].endpoint, name="ann") as client:
            receivers = [pool.submit(received) for _ in range(2)]
            sent = [
                pool.submit(client.send, "pump", one, kind="poem", reason="for fun", expires_s=PATIENCE_S)
                for one in poems
            ]
            try:
                proofs = [one.result() for one in sent]
            finally:
                are_sent.set()
            assert Counter(body for one in receivers for body in one.result()) == Counter(poems)
        assert {one.outcome for one in proofs} == {"executed"}
        return sorted(one.guid for one in proofs)

    async def story() -> None:
        async with nodes[ROOT].core_up() as root, nodes[NORTH].core_up(), nodes[PUMP].core_up() as pump:
            await until(lambda: all(one.root.tree.post.messages.is_serving for one in (root, pump)), "both ends serve")
            guids = await aside(story_of)
            assert sorted(one.guid for one in told(root.log, MessageEnded)) == guids
            assert sorted(one.guid for one in told(pump.log, MessageDone)) == guids

    asyncio.run(story())


def test_a_site_sends_upward_and_what_nobody_takes_expires(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH, PUMP)

    async def story() -> None:
        async with nodes[ROOT].core_up() as root, nodes[NORTH].core_up(), nodes[PUMP].core_up() as pump:
            await aside(lambda: joined(nodes))
            await until(lambda: all(one.root.tree.post.messages.is_serving for one in (root, pump)), "both ends serve")
            async with await aconnect(nodes[PUMP].endpoint) as below, await aconnect(nodes[ROOT].endpoint) as above:
                body = bytes(range(256)) * (SEND_BYTES_MAX // 512)
                sending = asyncio.create_task(below.send(ROOT, body, expires_s=PATIENCE_S))
                async for one in above.inbox():
                    assert (one.body, one.origin) == (body, PUMP)
                    await above.take(one)
                    break
                assert (await sending).outcome == "executed"
                proof = await above.send(PUMP, b"nobody", expires_s=0.3)
                assert (proof.outcome, proof.cause) == ("expired", "time-limit-over")
                assert [one async for one in below.inbox(timeout_s=0.1)] == []
                assert (await above.command(proof.command_id)).subject == f"message of 6 bytes to {PUMP}"

    asyncio.run(story())


def test_what_can_not_be_sent_is_refused_at_once(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH)

    def story_of() -> None:
        joined(nodes)
        with connect(nodes[NORTH].endpoint) as client:
            for node, body, kind, words in (
                (NORTH, b"", "message", "no other node"),
                ("root/north/none", b"", "message", "no other node"),
                ("elsewhere", b"", "message", "no other node"),
                (ROOT, b"", "write", "a kind of orders"),
                (ROOT, bytes(SEND_BYTES_MAX + 1), "message", "524288"),
            ):
                with pytest.raises(NodeRefused, match=words):
                    client.send(node, body, kind=kind)

    async def story() -> None:
        async with nodes[ROOT].core_up(), nodes[NORTH].core_up():
            await aside(story_of)

    asyncio.run(story())
