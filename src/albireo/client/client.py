"""Client: a node, alone or a pair, as a program speaks with it.

    with connect("tcp://10.0.0.5:7700", keys="keys") as client:
        print(client.read("co_1").value)

It may be used from any number of threads. A takeover makes an answer come later, nothing else; an order whose answer
did not come ends with `OutcomeUnknown`, and is never given twice. All it does is in one thread of its own (engine.py).

For users: docs/client.md. Decision: ADR-0156.
"""

import contextlib
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar, overload

from albireo.client.asking import AskingClient
from albireo.client.consumer import RecordConsumer
from albireo.client.conversation import patterns_of
from albireo.client.core import ANSWER_S, ClientCore
from albireo.client.errors import ClientError
from albireo.client.live import Changes
from albireo.client.message import messages
from albireo.client.message.file_client import FileClient
from albireo.client.nodes import by_node, readings
from albireo.client.producer import CLOSE_S, SampleProducer
from albireo.client.store import KeyValueStore
from albireo.client.target import AnyKeys, AnyTarget, target_of
from albireo.client.topics import ThreadTopics
from albireo.client.transaction import Transaction
from albireo.codec.questions.messages import InboxMessage
from albireo.machine.feed.viewing import StateChange
from albireo.machine.producer.config import ProducerConfig
from albireo.model.item import DataItem, Reading
from albireo.model.position import BEGINNING, Position
from albireo.model.tree.message import DEFAULT_INBOX

if TYPE_CHECKING:
    pass

_Wanted = TypeVar("_Wanted")


def connect(
    target: AnyTarget,
    *,
    keys: AnyKeys = None,
    timeout_s: float = ANSWER_S,
    name: str | None = None,
    waits: bool = True,
    is_pinned: bool = False,
) -> "Client":
    """Connect to a node, and wait until it answers.

    Args:
        target: data directory, endpoint or endpoints, or a node of a topology (docs/client.md, What to connect to).
        keys: directory of our keys; needed for another machine.
        timeout_s: time that this, and each question, may take.
        name: who speaks, for the audit journal; None: the login name.
        waits: False: return at once, whether anybody is there or not.
        is_pinned: speak with this one member whether it acts or not; does not wait.
    Raises:
        TargetRefused: it is nothing to connect to.
        NodeUnreachable: nobody who acts has answered; `KeyNotTrusted` if that is because of the keys.
    """
    core = ClientCore(target_of(target, keys, is_pinned=is_pinned), timeout_s, name)
    client = Client(core)
    try:
        if waits and not is_pinned:
            client.converse(core.greeting())
    except BaseException:  # Whatever it was goes on; the thread does not.
        core.engine.close()
        raise
    return client


class Client(AskingClient, FileClient):
    """A connected client, for threads. Use as a context manager, or call `close`."""

    # Values.

    @overload
    def read(self, names: str) -> Reading: ...  # type: ignore[overload-overlap]  # A str is a sequence of str, too.
    @overload
    def read(self, names: Sequence[str]) -> list[Reading]: ...
    def read(self, names: str | Sequence[str]) -> Reading | list[Reading]:
        """Latest reading of an item, or of several in their sequence.

        Raises:
            NodeRefused: there is no such item.
        """
        found = self.converse(readings(patterns_of(names)))
        return found[0] if isinstance(names, str) else found

    def watch(self, names: str | Sequence[str] = "*", *, timeout_s: float | None = None) -> Iterator[Changes]:
        """Changes as they come, ten times a second at most; at first everything.

        Who reads slowly gets the latest values, and is told how many were joined. After an outage everything comes
        again (`is_whole`).

        Args:
            names: full or local names, with * and ?, of items of any node, as for `items`.
            timeout_s: time after which empty changes come if there are none; None: never.
        """
        reader = self._core.watching(self.converse(by_node(patterns_of(names))))
        try:
            while True:
                yield reader.wait(timeout_s)
        finally:
            self._core.leave(reader)

    # Programs at other nodes.

    def inbox(self, inbox: str = DEFAULT_INBOX, *, timeout_s: float | None = None) -> Iterator[InboxMessage]:
        """Messages to this node, each given to one of all clients that receive from this inbox here.

        It is this client's for 30 s, and then given to another one, unless `take` says in time that it is taken. Ends
        after `timeout_s` without a message; None: never.
        """
        while (found := self.converse(messages.receive(inbox, timeout_s))) is not None:
            yield found

    @property
    def topics(self) -> ThreadTopics:
        """Topics of the node."""
        return ThreadTopics(self._core)

    def store(self, name: str) -> KeyValueStore:
        """The key-value store of this name; `create` declares it."""
        return KeyValueStore(self._core, name)

    def transaction(self) -> Transaction:
        """A block whose puts to topics, and acknowledgements of their messages, are done together or not at all."""
        return Transaction(self._core)

    # Programs.

    def producer(self, name: str, items: Sequence[DataItem], config: ProducerConfig | None = None) -> SampleProducer:
        """A producer of samples, each committed once. A program of the same name that starts later takes its place.

        Args:
            name: name of the producer in the log.
            items: items that it produces; `item_id` of a batch counts them from 0.
        """
        return SampleProducer(self._core.desk(name, items, config))

    def consumer(
        self,
        name: str | None = None,
        *,
        after: Position = BEGINNING,
        streams: Sequence[int] = (),
        log_id: bytes = b"",
    ) -> RecordConsumer:
        """A reader of every committed record.

        Args:
            name: name of the follower; a second follower of the same name takes its place.
            after: position of the last record that is known already; it means the same on both members.
            streams: streams to follow; empty: all.
            log_id: log that `after` is of; empty: not known.
        """
        return RecordConsumer(self._core.reader(name, after, streams, log_id))

    # The node.

    def follow_state(self, pause_s: float = 0.1) -> Iterator[StateChange | None]:
        """The live state as the feed has it, for who draws a view: first all of it, then each delta.

        None comes at least every `pause_s` while nothing changes. After a loss, or if the reader is slow, the next
        change is a whole snapshot.
        """
        reader = self._core.following()
        try:
            while True:
                yield from reader.wait(pause_s) or (None,)
        finally:
            self._core.leave(reader)

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """Give open producers `timeout_s` to have everything recorded, and end. Closing twice is fine.

        Raises:
            NotDelivered: something that a producer was offered is not acknowledged.
        """
        left = self._core.close(timeout_s)
        if left is not None:
            raise left

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        with contextlib.suppress(ClientError):  # It was logged; what ended the program's block is to be told.
            self.close(0.0)
