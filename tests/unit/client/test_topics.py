"""Messages are put to topics through the client: once each, whatever happens to the members meanwhile."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from albireo.client import Client, NameTaken, NodeRefused, aconnect, connect
from albireo.codec.puts import decode_puts
from albireo.codec.questions.topics import LastPut
from albireo.codec.record import Stream
from albireo.model.refusal import RefusalCode
from tests.parts.client import lone
from tests.parts.core_pair import Plant, aside, plant
from tests.parts.waiting import PATIENCE_S

EVENTS = "plant.events"


def count(client: Client, name: str = EVENTS) -> int:
    return {one.name: one.count for one in client.topics.all()}[name]


def unread(client: Client, name: str = EVENTS) -> dict[str, int]:
    return {one.subscription.subscriber: one.unread for one in client.topics.readers(name)}


def test_what_is_put_is_unread_by_who_subscribed_before(tmp_path: Path) -> None:
    def story() -> None:
        with connect(tmp_path, timeout_s=PATIENCE_S, name="mes") as client:
            with pytest.raises(NodeRefused) as refused:
                client.topics.put(EVENTS, b"too early")
            assert refused.value.code == RefusalCode.UNKNOWN_TOPIC
            client.topics.create(EVENTS)
            for no_batch in ([], [b"x" * 300_000] * 2):
                with pytest.raises(ValueError, match="no batch: put one"):
                    client.topics.put_many(EVENTS, no_batch)
            client.topics.put(EVENTS, b"before")
            client.topics.subscribe(EVENTS, subscriber="billing")
            receipt = client.topics.put_many(EVENTS, [b"door open", b"", b"x" * 100_000])
            assert receipt.position.sequence > 0 and not receipt.may_be_cut
            assert (count(client), unread(client)) == (4, {"billing": 3})

    async def world() -> None:
        async with lone(tmp_path):
            await aside(story)
            async with await aconnect(tmp_path, timeout_s=PATIENCE_S, name="desk") as client:
                await client.topics.put(EVENTS, b"once more")
                with pytest.raises(NodeRefused, match="no topic 'none'"):
                    await client.topics.put("none", b"")
                (topic,) = await client.topics.all()
                assert topic.count == 5

    asyncio.run(world())


def test_a_topic_that_was_made_anew_is_found_by_its_name(tmp_path: Path) -> None:
    def story() -> None:
        with connect(tmp_path, timeout_s=PATIENCE_S, name="mes") as client:
            client.topics.create(EVENTS)
            client.topics.put(EVENTS, b"1")
            client.topics.delete(EVENTS)
            with pytest.raises(NodeRefused, match="no topic"):
                client.topics.put(EVENTS, b"nobody")
            client.topics.create(EVENTS)
            client.topics.put(EVENTS, b"2")
            client.topics.delete(EVENTS)
            client.topics.create(EVENTS)
            client.topics.put(EVENTS, b"3")
            assert count(client) == 1

    async def world() -> None:
        async with lone(tmp_path):
            await aside(story)

    asyncio.run(world())


def test_of_two_programs_of_one_name_the_later_one_puts(tmp_path: Path) -> None:
    def story() -> None:
        with (
            connect(tmp_path, timeout_s=PATIENCE_S, name="mes") as first,
            connect(tmp_path, timeout_s=PATIENCE_S, name="mes") as second,
        ):
            first.topics.create(EVENTS)
            assert first.topics.last_put() == LastPut()
            first.topics.put(EVENTS, b"0")
            receipt = first.topics.put(EVENTS, b"1")
            told = second.topics.last_put()
            assert (told.batches, told.sequence) == (2, receipt.position.sequence), "of the life before"
            second.topics.put(EVENTS, b"2")
            assert second.topics.last_put().batches == 1
            with pytest.raises(NameTaken):
                first.topics.put(EVENTS, b"3")
            second.topics.put(EVENTS, b"4")
            assert count(second) == 4

    async def world() -> None:
        async with lone(tmp_path):
            await aside(story)

    asyncio.run(world())


def bodies(made: Plant, member: int) -> list[bytes]:
    """Messages in the log of a member, in their order."""
    log = made.cores[member].log
    frames = (one for one in log.replay(0, log.end.sequence) if one.header.stream == Stream.PUTS)
    return [bytes(body) for one in frames for body in decode_puts(one.body, one.header.record_count).bodies]


@pytest.mark.slow
def test_through_a_takeover_each_message_is_put_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with plant(tmp_path) as made:
            await made.start(1)
            await made.wait_for("active", "ready")
            client = await aside(lambda: connect(made.lines, timeout_s=PATIENCE_S, name="mes"))
            await aside(partial(client.topics.create, EVENTS))
            await aside(partial(client.topics.subscribe, "plant.>", subscriber="billing"))
            putting = asyncio.gather(*(aside(partial(client.topics.put, EVENTS, b"%d" % one)) for one in range(40)))
            await made.kill(0)
            receipts = await putting
            assert len(receipts) == 40
            assert sorted(bodies(made, 1), key=int) == [b"%d" % one for one in range(40)]
            assert await aside(partial(count, client)) == 40
            assert await aside(partial(unread, client)) == {"billing": 40}
            await aside(client.close)

    asyncio.run(story())
