"""Key-value store of a client: a topic that keeps the last message of each key, as a mapping with versions.

    recipes = plant.store("recipes")
    recipes["fan"] = b"..."                                 # on both disks when it returns
    entry = recipes.entry("fan")
    recipes.put("fan", b"...", version=entry.version)       # refused with `changed` if somebody was quicker

Each method asks the member that leads, so it sees all that was put before. Who wants to hear of changes subscribes to
the topic: `plant.topics.messages("recipes", subscriber=...)`.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from albireo.client.conversation import Conversation, all_rows, asks
from albireo.client.conversed import AnyClient, LoopClient, ThreadClient, conversed
from albireo.client.errors import NodeRefused
from albireo.client.orders import ACTION_S
from albireo.client.putting import TopicPutting, received, receives
from albireo.client.topic_message import NewMessage
from albireo.codec.questions.topics import (
    STORE_KEY,
    STORE_KEYS,
    TOPIC_CREATE,
    TOPIC_MESSAGE,
    StoreKeyAsked,
    StoreKeysAsked,
    TopicMessageAsked,
    TopicPolicyAsked,
)
from albireo.model.refusal import RefusalCode
from albireo.model.topic import StoredKey, Topic, TopicPolicy

if TYPE_CHECKING:
    from albireo.client.core import ClientCore


class StoreEntry(msgspec.Struct, frozen=True):
    """A key of a store, with what was put last."""

    key: str
    value: bytes
    version: int
    """Sequence of its last message in the log."""
    at_ns: int
    """Wall time at which it was put; Unix ns, UTC."""
    headers: Mapping[str, str]


class AnyStore(AnyClient):
    """A store, whoever waits for answers."""

    def __init__(self, core: "ClientCore", name: str) -> None:
        """Use `Client.store`."""
        super().__init__(core)
        self.name = name

    @conversed
    def create(self, max_age_s: int = 0, reason: str = "") -> Conversation[Topic]:
        """Declare the store, or get the one of this name.

        Args:
            max_age_s: time after which a key is gone that nobody put again; 0: it stays.
        Raises:
            AccessRefused: it needs the role engineer.
        """
        policy = TopicPolicy(last_value=True, max_age_s=max_age_s)
        asked = TopicPolicyAsked(name=self.name, policy=policy, user=self.user, reason=reason)
        return asks(TOPIC_CREATE, asked, ACTION_S)

    @conversed
    def entry(self, key: str) -> Conversation[StoreEntry | None]:
        """Value of a key with its version; None: the key is not there.

        Raises:
            NodeRefused: there is no such store.
        """
        while True:
            found = yield from asks(STORE_KEY, StoreKeyAsked(name=self.name, key=key.encode()))
            row = found.entry
            if row is None:
                return None
            asked = TopicMessageAsked(topic_id=row.topic_id, number=row.number, sequence=row.version)
            try:
                told = yield from asks(TOPIC_MESSAGE, asked)
            except NodeRefused as error:
                if error.code != RefusalCode.UNKNOWN_NAME:
                    raise
                continue  # Somebody has put it again meanwhile.
            return StoreEntry(key, told.body, row.version, told.at_ns, told.headers)

    @conversed
    def keys(self, prefix: str = "") -> Conversation[list[str]]:
        """Keys that are there and begin so, sorted. Raises: as `entry`."""
        asked = StoreKeysAsked(name=self.name, prefix=prefix.encode())
        found: list[StoredKey] = yield from all_rows(STORE_KEYS, asked)
        return sorted(one.key.decode(errors="backslashreplace") for one in found)

    def _putting(self, message: NewMessage) -> TopicPutting:
        return TopicPutting(self._core, [(self.name, [message])])


class KeyValueStore(AnyStore, ThreadClient):
    """A store, for threads."""

    def put(
        self, key: str, value: bytes, *, version: int | None = None, headers: Mapping[str, str] | None = None
    ) -> int:
        """Put the value of a key: it is on the disks of both members when this returns.

        Args:
            version: version that the key must have, 0: it must not be there; None: whatever it has.
        Returns:
            The new version; at or behind it if a takeover came between.
        Raises:
            NodeRefused: there is no such store; or with the code `changed`, the key has another version.
            OutcomeUnknown: no answer came in time; it may still be taken.
        """
        message = NewMessage(value, key.encode(), headers or {}, version)
        return received(self, self._putting(message)).position.sequence

    def delete(self, key: str, *, version: int | None = None) -> None:
        """Let a key be gone. Arguments and errors: as `put`."""
        received(self, self._putting(NewMessage(b"", key.encode(), {}, version, is_deleted=True)))

    def __getitem__(self, key: str) -> bytes:
        if (found := self.entry(key)) is None:
            raise KeyError(key)
        return found.value

    def __setitem__(self, key: str, value: bytes) -> None:
        self.put(key, value)

    def __delitem__(self, key: str) -> None:
        self.delete(key)

    def __contains__(self, key: str) -> bool:
        return self.entry(key) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())


class AsyncKeyValueStore(AnyStore, LoopClient):
    """A store, for coroutines."""

    async def put(
        self, key: str, value: bytes, *, version: int | None = None, headers: Mapping[str, str] | None = None
    ) -> int:
        """Put the value of a key, as `KeyValueStore.put` does."""
        message = NewMessage(value, key.encode(), headers or {}, version)
        return (await receives(self, self._putting(message))).position.sequence

    async def delete(self, key: str, *, version: int | None = None) -> None:
        """Let a key be gone, as `Store.delete` does."""
        await receives(self, self._putting(NewMessage(b"", key.encode(), {}, version, is_deleted=True)))
