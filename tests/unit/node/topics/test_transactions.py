"""What is put and acknowledged together is done together, and nothing of it twice, beside a real CORE."""

import asyncio
from pathlib import Path

import pytest

from albireo.client import AsyncClient, NodeRefused, TopicMessage
from albireo.client.topic_message import NewMessage
from albireo.model.refusal import RefusalCode
from albireo.model.topic import UNTIL_READ
from tests.parts.history_actor import in_a_loop
from tests.parts.topics_plant import take, topics_plant, unread

ORDERS, TOTALS = "plant.orders", "plant.totals"


@in_a_loop
async def test_keys_headers_and_exact_positions_go_with_many_small_puts(tmp_path: Path) -> None:
    async with topics_plant(tmp_path, {ORDERS: UNTIL_READ, TOTALS: UNTIL_READ}) as client:
        await client.topics.put(ORDERS, b"plain")
        await client.topics.put(ORDERS, b"keyed", key=b"fan", headers={"unit": "rpm"})
        receipts = await asyncio.gather(*(client.topics.put(ORDERS, b"%d" % one, key=b"k") for one in range(300)))
        batch = await client.topics.put_many(
            ORDERS, [b"a", NewMessage(b"b", b"key"), NewMessage(b"c", None, {"x": "y"})]
        )
        async with await client.topics.consumer(ORDERS, subscriber="desk") as consumer:
            found = await take(consumer, 305)
        assert [(one.body, one.key, one.headers) for one in found[:2]] == [
            (b"plain", None, {}),
            (b"keyed", b"fan", {"unit": "rpm"}),
        ]
        places = {one.body: one.position for one in found[2:302]}
        assert all(one.is_exact for one in receipts)
        assert [one.position for one in receipts] == [places[b"%d" % one] for one in range(300)]
        assert [(one.body, one.key, one.headers) for one in found[302:]] == [
            (b"a", None, {}),
            (b"b", b"key", {}),
            (b"c", None, {"x": "y"}),
        ]
        assert batch.is_exact and batch.position == found[-1].position
        with pytest.raises(ValueError, match="a key has"):
            await client.topics.put(ORDERS, b"", key=b"k" * 2_000)


@in_a_loop
async def test_a_transaction_is_done_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    async with topics_plant(tmp_path, {ORDERS: UNTIL_READ, TOTALS: UNTIL_READ}) as client:
        await client.topics.put_many(ORDERS, [b"1", b"2", b"3"])
        async with await client.topics.consumer(ORDERS, subscriber="desk") as consumer:
            first, second, third = await take(consumer, 3)
            async with client.transaction() as tx:
                tx.put(TOTALS, b"3", key=b"sum")
                tx.acknowledge(first)
                tx.acknowledge(second)
            assert tx.receipt is not None and tx.receipt.is_exact
            assert (await unread(client, ORDERS), await unread(client, TOTALS)) == (1, 1)
            with pytest.raises(ZeroDivisionError):
                async with client.transaction() as tx:
                    tx.put(TOTALS, b"never")
                    raise ZeroDivisionError
            with pytest.raises(NodeRefused) as refused:  # The second message is done already.
                async with client.transaction() as tx:
                    tx.put(TOTALS, b"twice")
                    tx.acknowledge(second)
                    tx.acknowledge(third)
            assert refused.value.code == RefusalCode.CHANGED
            with pytest.raises(NodeRefused) as refused:
                async with client.transaction() as tx:
                    tx.put("plant.nothing", b"")
                    tx.acknowledge(third)
            assert refused.value.code == RefusalCode.UNKNOWN_TOPIC
            assert (await unread(client, ORDERS), await unread(client, TOTALS)) == (1, 1)
            async with client.transaction():
                pass
            await consumer.acknowledge(third)
            with pytest.raises(NodeRefused) as refused:
                async with client.transaction() as tx:
                    tx.acknowledge(third)
            assert refused.value.code == RefusalCode.CHANGED


@in_a_loop
async def test_of_many_transactions_about_one_message_one_is_done(tmp_path: Path) -> None:
    """They are under way together: what is appended and not folded counts."""

    async def total(client: AsyncClient, message: TopicMessage, body: bytes) -> bool:
        try:
            async with client.transaction() as tx:
                tx.put(TOTALS, body)
                tx.acknowledge(message)
        except NodeRefused as error:
            assert error.code == RefusalCode.CHANGED
            return False
        return True

    async with topics_plant(tmp_path, {ORDERS: UNTIL_READ, TOTALS: UNTIL_READ}) as client:
        await client.topics.put_many(ORDERS, [b"%d" % one for one in range(20)])
        async with await client.topics.consumer(ORDERS, subscriber="desk") as consumer:
            for message in await take(consumer, 20):
                done = await asyncio.gather(*(total(client, message, b"%d" % one) for one in range(5)))
                assert done == [True, False, False, False, False]
        assert (await unread(client, ORDERS), await unread(client, TOTALS)) == (0, 20)
