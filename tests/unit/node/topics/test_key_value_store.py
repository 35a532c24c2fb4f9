"""A key-value store: the last message of each key, versions that are compared, and a watcher, beside a real CORE."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from albireo.client import NodeRefused, TopicPolicy, aconnect
from albireo.client.store import AsyncKeyValueStore
from albireo.model.refusal import RefusalCode
from albireo.node.topics import actor as module
from tests.parts.history_actor import in_a_loop
from tests.parts.topics_plant import take, topics_plant, unread
from tests.parts.waiting import PATIENCE_S

RECIPES = "recipes"
LAST = TopicPolicy(last_value=True)


async def changed(store: AsyncKeyValueStore, key: str, version: int) -> bool:
    """True: a put that builds on this version is refused."""
    try:
        await store.put(key, b"never", version=version)
    except NodeRefused as error:
        assert error.code == RefusalCode.CHANGED
        return True
    return False


@pytest.mark.parametrize("is_stored", [False, True])
@in_a_loop
async def test_a_store_has_the_last_value_of_each_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_stored: bool
) -> None:
    if is_stored:
        monkeypatch.setattr(module, "SEAL_BYTES", 1)
    async with topics_plant(tmp_path, {RECIPES: LAST}) as client:
        store = client.store(RECIPES)
        assert (await store.entry("fan"), await store.keys()) == (None, [])
        for number in range(30):
            await store.put(f"key {number % 3}", b"%d" % number, headers={"unit": "rpm"})
        assert await store.keys() == ["key 0", "key 1", "key 2"]
        for number in range(3):
            entry = await store.entry(f"key {number}")
            assert entry is not None and (entry.value, entry.headers) == (b"%d" % (27 + number), {"unit": "rpm"})
        await store.delete("key 1")
        assert await store.entry("key 1") is None and await store.keys("key") == ["key 0", "key 2"]
        async with await client.topics.consumer(RECIPES, subscriber="desk") as consumer:
            found = [(one.key, one.body, one.is_deleted) for one in await take(consumer, 3)]
            assert found == [(b"key 0", b"27", False), (b"key 2", b"29", False), (b"key 1", b"", True)]
        await client.topics.subscribe(RECIPES, subscriber="late", from_first=True)
        await store.put("key 0", b"new")
        async with await client.topics.consumer(RECIPES, subscriber="late") as consumer:
            found = [(one.key, one.body, one.is_deleted) for one in await take(consumer, 3)]
            assert found == [(b"key 2", b"29", False), (b"key 1", b"", True), (b"key 0", b"new", False)]


@in_a_loop
async def test_a_version_is_compared_before_a_value_is_put(tmp_path: Path) -> None:
    async with topics_plant(tmp_path, {RECIPES: LAST}) as client:
        store = client.store(RECIPES)
        assert await changed(store, "fan", 1)
        first = await store.put("fan", b"1", version=0)
        entry = await store.entry("fan")
        assert entry is not None and entry.version == first
        second = await store.put("fan", b"2", version=first)
        assert second > first and await changed(store, "fan", first) and await changed(store, "fan", 0)
        done = await asyncio.gather(*(changed(store, "fan", second) for _ in range(20)))
        assert sorted(done) == [False] + 19 * [True]
        with pytest.raises(NodeRefused) as refused:
            await store.delete("fan", version=second)
        assert refused.value.code == RefusalCode.CHANGED
        entry = await store.entry("fan")
        assert entry is not None
        await store.delete("fan", version=entry.version)
        assert await store.put("fan", b"anew", version=0) > entry.version
        with pytest.raises(ValueError, match="put each with a key"):
            await client.topics.put(RECIPES, b"without")
        with pytest.raises(NodeRefused, match="no key-value store"):
            await client.topics.create("plain")
            await client.store("plain").keys()
        with pytest.raises(NodeRefused, match="begins as a key-value store"):
            await client.topics.change(RECIPES, TopicPolicy())


@in_a_loop
async def test_a_key_that_nobody_puts_again_is_gone_after_its_time(tmp_path: Path) -> None:
    async with topics_plant(tmp_path, {RECIPES: TopicPolicy(last_value=True, max_age_s=1)}) as client:
        store = client.store(RECIPES)
        await store.put("fan", b"1")
        async with asyncio.timeout(20):
            while await store.entry("fan") is not None:
                pass
        assert await store.keys() == [] and await unread(client, RECIPES) == 0
        assert await store.put("fan", b"2", version=0) > 0


@in_a_loop
async def test_a_store_and_another_topic_change_together(tmp_path: Path) -> None:
    async with topics_plant(tmp_path, {RECIPES: LAST, "plant.orders": TopicPolicy()}) as client:
        async with client.transaction() as tx:
            tx.put("plant.orders", b"1")
            tx.put(RECIPES, b"a", key=b"fan")
            tx.put("plant.orders", b"2")
            tx.put(RECIPES, b"b", key=b"belt")
        entry = await client.store(RECIPES).entry("belt")
        assert entry is not None and tx.receipt is not None and entry.version == tx.receipt.position.sequence
        async with await client.topics.consumer("plant.orders", subscriber="desk") as consumer:
            assert [one.body for one in await take(consumer, 2)] == [b"1", b"2"]


@in_a_loop
async def test_a_store_goes_on_when_somebody_ends_the_session_of_the_user_of_the_node(tmp_path: Path) -> None:
    """The actor of topics asks CORE as that user, too, and is nobody who is present."""
    async with topics_plant(tmp_path, {RECIPES: LAST}) as client:
        await client.store(RECIPES).put("fan", b"1")
        (own,) = await client.sessions()
        with contextlib.suppress(NodeRefused):  # It is ours, too.
            await client.end_session(own.session_id)
        async with await aconnect(str(tmp_path / "data"), timeout_s=PATIENCE_S) as other:
            await other.store(RECIPES).put("fan", b"2")
            entry = await other.store(RECIPES).entry("fan")
            assert entry is not None and entry.value == b"2"
