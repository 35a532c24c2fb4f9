"""AsyncClient: the same as `Client`, for asyncio. It waits where that one blocks, on the same engine.

    async with await aconnect("tcp://10.0.0.5:7700", keys="keys") as client:
        print((await client.read("co_1")).value)

For users: docs/client.md. Decision: ADR-0156.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from albireo.client import orders, requests
from albireo.client.consumer import Deliveries, Reader
from albireo.client.conversation import asks
from albireo.client.core import ANSWER_S, ClientCore
from albireo.client.errors import ClientError
from albireo.client.history import ToldRows
from albireo.client.inbox import Inbox
from albireo.client.live import Changes
from albireo.client.message.aio_messaging import AsyncMessagingClient
from albireo.client.producer import CLOSE_S, Desk, Receipts
from albireo.client.questions import Request
from albireo.client.requests import Extent, ItemReading, Summing
from albireo.client.target import AnyKeys, AnyTarget, target_of
from albireo.codec.questions.kind import AnswerT, QuestionKind, ShapeT
from albireo.machine.feed.viewing import StateChange
from albireo.machine.producer.producer import ProducerConfig
from albireo.model.case import Action, Case, ItemCase
from albireo.model.command import SELECT_MS, ItemSelection, Receipt
from albireo.model.force import ForcedItem
from albireo.model.item import DataItem, Reading
from albireo.model.position import BEGINNING, Position
from albireo.model.samples import SampleBatch
from albireo.model.tree.course import CommandCourse
from albireo.model.tree.node_row import NodeRow
from albireo.model.tree.proof import MessageProof
from albireo.model.tree.session import SessionRow
from albireo.model.value import Value

if TYPE_CHECKING:
    import pyarrow as pa

_Taken = TypeVar("_Taken")
_Wanted = TypeVar("_Wanted")


async def aconnect(
    target: AnyTarget,
    *,
    keys: AnyKeys = None,
    timeout_s: float = ANSWER_S,
    name: str | None = None,
    waits: bool = True,
    is_pinned: bool = False,
) -> "AsyncClient":
    """Connect to a node, and wait until it answers. Arguments and errors: as `connect`."""
    core = await asyncio.to_thread(ClientCore, target_of(target, keys, is_pinned=is_pinned), timeout_s, name)
    client = AsyncClient(core)
    try:
        if waits and not is_pinned:
            await client.converse(core.greeting())
    except BaseException:  # Whatever it was goes on; the thread does not.
        core.engine.close()
        raise
    return client


class AsyncClient(AsyncMessagingClient):
    """A connected client, for coroutines of one loop. Methods mean what those of `Client` do."""

    async def items(self, pattern: str | Sequence[str] = "*") -> list[ItemReading]:
        """Items with their readings."""
        return await self.converse(requests.items(requests.patterns_of(pattern)))

    @overload
    async def read(self, names: str) -> Reading: ...  # type: ignore[overload-overlap]  # A str is a sequence of str, too.
    @overload
    async def read(self, names: Sequence[str]) -> list[Reading]: ...
    async def read(self, names: str | Sequence[str]) -> Reading | list[Reading]:
        """Latest reading of an item, or of several in their sequence."""
        found = await self.converse(requests.readings(requests.patterns_of(names)))
        return found[0] if isinstance(names, str) else found

    async def watch(
        self, names: str | Sequence[str] = "*", *, timeout_s: float | None = None
    ) -> AsyncIterator[Changes]:
        """Changes as they come; at first everything."""
        reader = self._core.watching(await self.converse(requests.by_node(requests.patterns_of(names))))
        try:
            while True:
                yield await arrived(reader, timeout_s)
        finally:
            self._core.leave(reader)

    async def write(
        self,
        item: str,
        value: Value,
        reason: str = "",
        *,
        expires_s: float = 10.0,
        selection: ItemSelection | None = None,
    ) -> Receipt:
        """Set an item, and say what became of it."""
        return await self.converse(requests.write(item, value, self._core.user, reason, expires_s, selection))

    async def select(self, item: str, reason: str = "", *, for_s: float = SELECT_MS / 1000) -> ItemSelection:
        """Have an item for this client alone for a moment, as `Client.select` does."""
        return await self.converse(orders.select(item, self._core.user, reason, for_s))

    async def deselect(self, selection: ItemSelection, reason: str = "") -> None:
        """Give a selection back, as `Client.deselect` does."""
        await self.converse(orders.deselect(selection, self._core.user, reason))

    async def selections(self, pattern: str = "*") -> list[ItemSelection]:
        """Selected items, as `Client.selections` lists them."""
        return await self.converse(requests.selections(pattern))

    async def end_selection(self, selection: ItemSelection, reason: str = "") -> None:
        """End a selection of anybody, as `Client.end_selection` does."""
        await self.converse(orders.end_selection(selection, self._core.user, reason))

    async def force(self, item: str, value: Value, reason: str, *, for_s: float) -> ForcedItem:
        """Put a value to an item for a time, as `Client.force` does."""
        return await self.converse(requests.force(item, value, self._core.user, reason, for_s))

    async def release(self, item: str, reason: str = "") -> None:
        """End the force of an item before its time."""
        await self.converse(requests.release(item, self._core.user, reason))

    async def forces(self) -> list[ForcedItem]:
        """Forced items here and at the nodes below, by name."""
        return await self.converse(requests.forces())

    async def sessions(self, pattern: str = "*") -> list[SessionRow]:
        """Who is present, as `Client.sessions` says."""
        return await self.converse(requests.sessions(pattern))

    async def end_session(self, session: SessionRow | int, reason: str = "", *, node: str = "") -> None:
        """End a session, as `Client.end_session` does."""
        await self.converse(requests.end_session(session, self._core.user, reason, node))

    async def command(self, command_id: str) -> CommandCourse:
        """The life of one command."""
        return await self.converse(orders.command(command_id))

    async def cancel(self, command_id: str, reason: str = "") -> MessageProof:
        """Take an order back, or a message, as `Client.cancel` does."""
        return await self.converse(orders.cancel(command_id, self._core.user, reason))

    async def commands(self, *, limit: int = orders.LATEST) -> list[CommandCourse]:
        """The latest commands, the newest first."""
        return await self.converse(orders.commands(limit))

    async def cases(self, *, include_closed: bool = False, node: str = "") -> list[ItemCase]:
        """Open cases, the most severe first; those of a node below, if one is named."""
        return await self.converse(requests.cases(node, include_closed=include_closed))

    async def tree(self) -> list[NodeRow]:
        """The other nodes that are known here."""
        return await self.converse(requests.tree())

    async def ack(self, case: Case | int, comment: str = "", *, activation: int | None = None) -> list[Case]:
        """Acknowledge the activation that somebody saw, as `Client.ack` does."""
        case_id, seen = requests.seen_activation(case, activation)
        return await self.act(Action.ACK, case_id, comment, activation=seen)

    async def reset(self, case_id: int, comment: str = "") -> list[Case]:
        """End the latch of a case."""
        return await self.act(Action.RESET, case_id, comment)

    async def shelve(self, case_id: int, comment: str = "", *, duration_s: float | None = None) -> list[Case]:
        """Shelve for a time; None: until it next clears."""
        return await self.act(Action.SHELVE, case_id, comment, duration_s)

    async def unshelve(self, case_id: int, comment: str = "") -> list[Case]:
        """Bring a shelved case back."""
        return await self.act(Action.UNSHELVE, case_id, comment)

    async def out_of_service(self, case_id: int, comment: str = "") -> list[Case]:
        """Take the alarm out of service."""
        return await self.act(Action.OUT_OF_SERVICE, case_id, comment)

    async def in_service(self, case_id: int, comment: str = "") -> list[Case]:
        """Put the alarm back into service."""
        return await self.act(Action.IN_SERVICE, case_id, comment)

    async def comment(self, case_id: int, comment: str) -> list[Case]:
        """Add a comment to a case."""
        return await self.act(Action.COMMENT, case_id, comment)

    async def act(
        self,
        action: Action,
        case_id: int,
        comment: str,
        duration_s: float | None = None,
        activation: int = 1,
        node: str = "",
    ) -> list[Case]:
        """Any of these actions by its name."""
        user = self._core.user
        return await self.converse(requests.act(action, case_id, user, comment, duration_s, activation, node))

    async def history(
        self,
        items: str | int | Sequence[str | int],
        start: datetime | int,
        end: datetime | int | None = None,
        *,
        aggregate: str = "",
        every_s: float = 0.0,
        uncertain_is_good: bool = False,
        only_raw: bool = False,
        cursor: str = "",
        limit: int | None = None,
        told: ToldRows | None = None,
        node: str = "",
    ) -> "pa.Table":
        """Stored and recent values as an Arrow table."""
        summing = Summing(aggregate=aggregate, every_s=every_s, uncertain_is_good=uncertain_is_good, only_raw=only_raw)
        extent = Extent(cursor=cursor, limit=limit, told=told, node=node)
        return await self.converse(requests.history(items, start, end, summing, extent))

    async def events(
        self,
        start: datetime | int,
        end: datetime | int | None = None,
        *,
        kind: str = "",
        item_ids: Sequence[int] = (),
        cursor: str = "",
        limit: int | None = None,
        told: ToldRows | None = None,
        node: str = "",
    ) -> "pa.Table":
        """The journal as an Arrow table."""
        extent = Extent(cursor=cursor, limit=limit, told=told, node=node)
        return await self.converse(requests.events(start, end, kind, item_ids, extent))

    async def gaps(
        self,
        start: datetime | int,
        end: datetime | int | None = None,
        *,
        item_ids: Sequence[int] = (),
        node: str = "",
    ) -> "pa.Table":
        """Times of which something is missing, as an Arrow table."""
        return await self.converse(requests.gaps(start, end, item_ids, Extent(node=node)))

    def producer(
        self, name: str, items: Sequence[DataItem], config: ProducerConfig | None = None
    ) -> "AsyncSampleProducer":
        """A producer of samples, each committed once."""
        return AsyncSampleProducer(self._core.desk(name, items, config))

    def consumer(
        self,
        name: str | None = None,
        *,
        after: Position = BEGINNING,
        streams: Sequence[int] = (),
        log_id: bytes = b"",
    ) -> "AsyncRecordConsumer":
        """A reader of every committed record."""
        return AsyncRecordConsumer(self._core.reader(name, after, streams, log_id))

    async def status(self, member: int | None = None) -> dict[str, Any]:
        """State of the node as the acting member tells it, or this one."""
        return await self.converse(requests.status(member))

    @property
    def acting(self) -> int | None:
        """Index of the member that is known to act."""
        return self._core.acting

    async def ask(
        self,
        what: str,
        *,
        of: str = "core",
        member: int | None = None,
        timeout_s: float | None = None,
        **arguments: object,
    ) -> object:
        """The answer to one question of docs/node-protocol.md, as the node gives it."""
        request = Request(what=what, arguments=arguments, of=of, member=member, wait_s=timeout_s)
        return (await asyncio.wrap_future(self._core.begin(request))).result

    async def ask_kind(
        self, kind: QuestionKind[ShapeT, AnswerT], asked: ShapeT, timeout_s: float | None = None
    ) -> AnswerT:
        """The answer to a question of the list, as a value."""
        return await self.converse(asks(kind, asked, timeout_s))

    async def follow_state(self, pause_s: float = 0.1) -> AsyncIterator[StateChange | None]:
        """The live state as the feed has it, as `Client.follow_state` gives it."""
        reader = self._core.following()
        try:
            while True:
                for change in await arrived(reader, pause_s) or (None,):
                    yield change
        finally:
            self._core.leave(reader)

    async def close(self, timeout_s: float = CLOSE_S) -> None:
        """Give open producers `timeout_s` to have everything recorded, and end."""
        left = await asyncio.to_thread(self._core.close, timeout_s)
        if left is not None:
            raise left

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
            return
        with contextlib.suppress(ClientError):  # It was logged; what ended the program's block is to be told.
            await self.close(0.0)


class AsyncSampleProducer:
    """As `SampleProducer`, for coroutines."""

    def __init__(self, desk: Desk) -> None:
        """Use `AsyncClient.producer`."""
        self._desk = desk

    def offer(self, batches: Sequence[SampleBatch]) -> int:
        """Take batches to be committed; the number of the last one."""
        return self._desk.offer(batches)

    async def wait(self, timeout_s: float) -> Receipts:
        """Receipts and refusals of batches, at once if there are any; empty after `timeout_s`."""
        self._desk.push()
        return await arrived(self._desk.part.inbox, timeout_s)

    async def flush(self, timeout_s: float) -> bool:
        """Wait until it is known of every batch what became of it; False after `timeout_s`."""
        return await in_time(self._desk.delivered(), timeout_s)

    async def close(self, timeout_s: float = CLOSE_S) -> None:
        """Flush for at most `timeout_s`, and close; raises NotDelivered as `SampleProducer.close`."""
        if not self._desk.is_closed:
            await asyncio.to_thread(self._desk.settle, timeout_s)
            await asyncio.to_thread(self._desk.leave)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
            return
        with contextlib.suppress(ClientError):  # What ended the program's block is to be told.
            await self.close(0.0)


class AsyncRecordConsumer:
    """As `RecordConsumer`, for coroutines."""

    def __init__(self, reader: Reader) -> None:
        """Use `AsyncClient.consumer`."""
        self._reader = reader

    @property
    def position(self) -> Position:
        """Position of the last record taken."""
        return self._reader.position

    async def take(self, timeout_s: float) -> Deliveries:
        """Deliveries since the last call, at once if there are any; empty after `timeout_s`."""
        return self._reader.taken(await arrived(self._reader.part.inbox, timeout_s))

    async def close(self) -> None:
        await asyncio.to_thread(self._reader.leave)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def arrived(inbox: Inbox[_Taken], timeout_s: float | None) -> _Taken:
    """Everything in an inbox, once something is there or the time is over."""
    await in_time(inbox.arrival(), timeout_s)
    return inbox.take()


async def in_time(future: "Future[None]", timeout_s: float | None) -> bool:
    """True: the future has ended; False: it has not within `timeout_s`."""
    try:
        async with asyncio.timeout(timeout_s):
            await asyncio.wrap_future(future)
    except TimeoutError:
        return False
    return True
