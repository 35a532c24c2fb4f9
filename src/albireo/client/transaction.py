"""Transactions of a client: messages put and messages acknowledged, all of it or nothing, on both members.

    with plant.transaction() as tx:
        tx.put("plant.totals", b"42")
        tx.acknowledge(message)             # What was made of it is put, and it never comes again: exactly once.

Nothing leaves before the end of the block. It becomes one batch, so one frame of the log.
"""

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

from albireo.client.conversed import AnyClient, LoopClient, ThreadClient
from albireo.client.putting import Runs, TopicPutting, received, receives
from albireo.client.topic_message import NewMessage, TopicMessage
from albireo.codec.puts import CursorMoved
from albireo.machine.producer.sending import Acknowledged
from albireo.model.topic_lease import joined

if TYPE_CHECKING:
    from albireo.client.core import ClientCore


class AnyTransaction(AnyClient):
    """A transaction, whoever waits for its end."""

    def __init__(self, core: "ClientCore") -> None:
        """Use `Client.transaction`."""
        super().__init__(core)
        self.receipt: Acknowledged | None = None
        """Receipt of all of it; None: it is not committed, or had nothing in it."""
        self._runs: Runs = []
        self._spans: dict[tuple[int, int], tuple[int, int]] = {}
        """First and last number that is acknowledged, by subscription and topic."""
        self._shared: list[TopicMessage] = []
        """Messages of shared subscriptions that are acknowledged."""

    def put(
        self, name: str, body: bytes, *, key: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        """Put a message to a topic when the block ends."""
        if not self._runs or self._runs[-1][0] != name:
            self._runs.append((name, []))
        self._runs[-1][1].append(body if key is None and not headers else NewMessage(body, key, headers or {}))

    def acknowledge(self, message: TopicMessage) -> None:
        """Have this message of its topic, and those before it, done for its subscription when the block ends.

        Of a shared subscription it is this message alone. If it was acknowledged meanwhile, such as by a program that
        reads the same subscription, or its lease is over, nothing of the transaction is done.
        """
        if message.consumer:
            self._shared.append(message)
            return
        key = message.subscription_id, message.topic_id
        first, last = self._spans.get(key, (message.number, message.number))
        self._spans[key] = min(first, message.number), max(last, message.number)

    def _putting(self) -> TopicPutting | None:
        """All that is to be sent; None: nothing is."""
        moves = [
            CursorMoved(subscription_id, topic_id, last, since=first - 1)
            for (subscription_id, topic_id), (first, last) in self._spans.items()
        ]
        parts: dict[tuple[int, int, int], list[TopicMessage]] = {}
        for one in self._shared:
            parts.setdefault((one.subscription_id, one.topic_id, one.consumer), []).append(one)
        for (subscription_id, topic_id, consumer), found in parts.items():
            done = tuple(joined((one.number, one.number) for one in found))
            low = max((one.number - 1 for one in found if one.lost_before), default=0)
            moves.append(CursorMoved(subscription_id, topic_id, low, done, consumer=consumer))
        return TopicPutting(self._core, self._runs, moves) if self._runs or moves else None


class Transaction(AnyTransaction, ThreadClient):
    """A transaction, for threads: one thread at a time."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Commit, unless the block raised: then nothing is done.

        Raises:
            NodeRefused: nothing is done: there is no such topic, or with the code `changed`, a message was acknowledged
                meanwhile. ValueError: it has more than one batch may have.
            OutcomeUnknown: no answer came in time; all of it may still be done, or nothing.
        """
        putting = self._putting() if kind is None else None
        if putting is not None:
            self.receipt = received(self, putting)
            self._core.acknowledged(self._shared, self.receipt)


class AsyncTransaction(AnyTransaction, LoopClient):
    """A transaction, for coroutines."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        """Commit, as `Transaction` does."""
        putting = self._putting() if kind is None else None
        if putting is not None:
            self.receipt = await receives(self, putting)
            self._core.acknowledged(self._shared, self.receipt)
