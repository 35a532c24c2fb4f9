"""Client: a node, alone or a pair, as a program speaks with it.

    with connect("tcp://10.0.0.5:7700", keys="keys") as client:
        print(client.read("co_1").value)

It may be used from any number of threads. A takeover makes an answer come later, nothing else; an order whose answer
did not come ends with `OutcomeUnknown`, and is never given twice. All it does is in one thread of its own (engine.py).

For users: docs/client.md. Decision: ADR-0156.
"""

import contextlib
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

from albireo.client import orders, requests
from albireo.client.consumer import RecordConsumer
from albireo.client.conversation import Conversation
from albireo.client.core import ANSWER_S, ClientCore
from albireo.client.errors import ClientError
from albireo.client.history import ToldRows
from albireo.client.live import Changes, StateChange
from albireo.client.message import files, messages
from albireo.client.producer import CLOSE_S, SampleProducer
from albireo.client.questions import NodeReply, Request
from albireo.client.requests import Extent, ItemCase, ItemReading, Summing, TreeRow
from albireo.client.target import AnyKeys, AnyTarget, target_of
from albireo.machine.producer.producer import ProducerConfig
from albireo.model.case import Action, Case
from albireo.model.command import Receipt
from albireo.model.force import ForcedItem
from albireo.model.item import DataItem, Reading
from albireo.model.position import BEGINNING, Position
from albireo.model.tree.course import CommandCourse
from albireo.model.tree.message import DEFAULT_INBOX
from albireo.model.tree.proof import MessageProof
from albireo.model.value import Value

if TYPE_CHECKING:
    import pyarrow as pa

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


class Client:
    """A connected client, for threads. Use as a context manager, or call `close`."""

    def __init__(self, core: ClientCore) -> None:
        """Use `connect`."""
        self._core = core

    # Values.

    def items(self, pattern: str | Sequence[str] = "*") -> list[ItemReading]:
        """Items with their readings.

        Args:
            pattern: full or local names, with * and ?. `north:*` names a node below by its id or the end of it, and
                `*:*` means the items of all nodes; without a colon those of the node that is asked are meant.
        """
        return self.converse(requests.items(requests.patterns_of(pattern)))

    @overload
    def read(self, names: str) -> Reading: ...  # type: ignore[overload-overlap]  # A str is a sequence of str, too.
    @overload
    def read(self, names: Sequence[str]) -> list[Reading]: ...
    def read(self, names: str | Sequence[str]) -> Reading | list[Reading]:
        """Latest reading of an item, or of several in their sequence.

        Raises:
            NodeRefused: there is no such item.
        """
        found = self.converse(requests.readings(requests.patterns_of(names)))
        return found[0] if isinstance(names, str) else found

    def watch(self, names: str | Sequence[str] = "*", *, timeout_s: float | None = None) -> Iterator[Changes]:
        """Changes as they come, ten times a second at most; at first everything.

        Who reads slowly gets the latest values, and is told how many were joined. After an outage everything comes
        again (`is_whole`).

        Args:
            names: full or local names, with * and ?.
            timeout_s: time after which empty changes come if there are none; None: never.
        """
        reader = self._core.watching(self.converse(requests.by_node(requests.patterns_of(names))))
        try:
            while True:
                yield reader.wait(timeout_s)
        finally:
            self._core.leave(reader)

    def write(self, item: str, value: Value, reason: str = "", *, expires_s: float = 10.0) -> Receipt:
        """Set an item, and say what became of it.

        Raises:
            NodeRefused: the item is unknown or takes no orders; `AccessRefused`: our role does not suffice.
            OutcomeUnknown: no answer came, and nobody here knows whether the order was carried out.
        """
        return self.converse(requests.write(item, value, self._core.user, reason, expires_s))

    def force(self, item: str, value: Value, reason: str, *, for_s: float) -> ForcedItem:
        """Put a value to an item in the place of what its device measures, for a time.

        Everybody sees it with the quality `Good_LocalOverride`; what is measured goes on as `<item>/measured`. Nothing
        is written to the device.

        Raises: as `write`.
        """
        return self.converse(requests.force(item, value, self._core.user, reason, for_s))

    def release(self, item: str, reason: str = "") -> None:
        """End the force of an item before its time; a moment later it shows what is measured.

        Raises: as `write`.
        """
        self.converse(requests.release(item, self._core.user, reason))

    def forces(self) -> list[ForcedItem]:
        """Forced items here and at the nodes below, with what is measured of each, by name."""
        return self.converse(requests.forces())

    def command(self, command_id: str) -> CommandCourse:
        """The life of one command. Raises NodeRefused: this node neither gave nor has it, or has forgotten it."""
        return self.converse(orders.command(command_id))

    def cancel(self, command_id: str, reason: str = "") -> MessageProof:
        """Take an order to another node back, or a message; says what became of it: `cancelled` is a promise."""
        return self.converse(orders.cancel(command_id, self._core.user, reason))

    def commands(self, *, limit: int = orders.LATEST) -> list[CommandCourse]:
        """The latest commands that this node gave, or carried out for others, the newest first."""
        return self.converse(orders.commands(limit))

    # Messages.

    @overload
    def send(
        self,
        node: str,
        body: bytes,
        *,
        inbox: str = ...,
        kind: str = ...,
        reason: str = ...,
        expires_s: float = ...,
        wait: Literal[True] = ...,
    ) -> MessageProof: ...
    @overload
    def send(
        self,
        node: str,
        body: bytes,
        *,
        inbox: str = ...,
        kind: str = ...,
        reason: str = ...,
        expires_s: float = ...,
        wait: Literal[False],
    ) -> str: ...
    def send(
        self,
        node: str,
        body: bytes,
        *,
        inbox: str = DEFAULT_INBOX,
        kind: str = "message",
        reason: str = "",
        expires_s: float = 10.0,
        wait: bool = True,
    ) -> MessageProof | str:
        """Send at most 512 KiB to the programs that receive at another node, and say what became of it.

        A receiver of that inbox there has to take it within `expires_s`; `kind` is a word that receivers go by.

        Args:
            wait: False: return its id once it is on record here; `message` tells what became of it. Raises: as `write`.
        """
        message = messages.OutgoingMessage(
            node=node, body=body, kind=kind, reason=reason, expires_s=expires_s, inbox=inbox
        )
        if wait:
            return self.converse(messages.send(message, self._core.user))
        return self.converse(messages.send_off(message, self._core.user))

    def message(self, command_id: str, *, timeout_s: float = 0.0) -> MessageProof | None:
        """Tell what became of a message, and the reply; None: it has no end after `timeout_s`."""
        return self.converse(messages.proof(command_id, timeout_s))

    def inbox(self, inbox: str = DEFAULT_INBOX, *, timeout_s: float | None = None) -> Iterator[messages.InboxMessage]:
        """Messages to this node, each given to one of all clients that receive from this inbox here.

        It is this client's for 30 s, and then given to another one, unless `take` says in time that it is taken. Ends
        after `timeout_s` without a message; None: never.
        """
        while (found := self.converse(messages.receive(inbox, timeout_s))) is not None:
            yield found

    def take(self, message: messages.InboxMessage, reply: bytes | None = None) -> None:
        """Say that a message is taken: its sender hears `executed`, and `reply`, of at most 16 KiB.

        Raises:
            NodeRefused: another one may have it.
        """
        self.converse(messages.take(message, reply))

    def send_file(
        self,
        node: str,
        file: str | Path | bytes,
        *,
        name: str = "",
        inbox: str = DEFAULT_INBOX,
        reason: str = "",
        expires_s: float = 600.0,
        progress: files.Progress | None = None,
        transfer: str = "",
    ) -> MessageProof:
        """Send a file of at most 64 MiB to a program that calls `receive_file` at another node.

        Args:
            file: its path, or what is in it.
            name: its name there; empty: as here.
            progress: is called with the number of bytes that were taken so far, and of all.
            transfer: id of a transfer that did not end: what its receiver has is not sent again.
        Returns:
            `executed`: it is whole there, with the same sum.
        Raises:
            FileNotSent: it can't be sent, or is not taken there. And as `send`.
        """
        data = file if isinstance(file, bytes) else Path(file).read_bytes()
        named = name or ("" if isinstance(file, bytes) else Path(file).name)
        sent = files.OutgoingFile(
            node=node,
            name=named,
            data=data,
            inbox=inbox,
            reason=reason,
            expires_s=expires_s,
            transfer=transfer or files.new_transfer(),
        )
        return self.converse(files.send_file(sent, self._core.user, progress))

    def receive_file(self, message: messages.InboxMessage, directory: str | Path) -> Path | None:
        """Take a message of kind `file`, and what belongs to it.

        Returns:
            Where the file is, whole and checked; None: not yet, or it was there before. Its sender announces it again.
        """
        return self.converse(files.receive_file(message, Path(directory)))

    # Cases.

    def cases(self, *, include_closed: bool = False, node: str = "") -> list[ItemCase]:
        """Open cases, the most severe first. `node`: a node below, of which the open ones are known here."""
        return self.converse(requests.cases(node, include_closed=include_closed))

    def tree(self) -> list[TreeRow]:
        """The nodes below: whether they are heard, and how much of what they recorded lies here."""
        return self.converse(requests.tree())

    def ack(self, case: Case | int, comment: str = "", *, activation: int | None = None) -> list[Case]:
        """Acknowledge the activation that somebody saw. Gives the cases that changed, as all actions do.

        Args:
            case: the case as it was shown; a number alone means its first activation.
            activation: number of the activation (`Case.activations`), if it is not that of `case`.
        Raises:
            NodeRefused: another activation is the present one; the words say which.
        """
        case_id, seen = requests.seen_activation(case, activation)
        return self.act(Action.ACK, case_id, comment, activation=seen)

    def reset(self, case_id: int, comment: str = "") -> list[Case]:
        """End the latch of a case whose cause is gone."""
        return self.act(Action.RESET, case_id, comment)

    def shelve(self, case_id: int, comment: str = "", *, duration_s: float | None = None) -> list[Case]:
        """Shelve for a time; None: until it next clears."""
        return self.act(Action.SHELVE, case_id, comment, duration_s)

    def unshelve(self, case_id: int, comment: str = "") -> list[Case]:
        """Bring a shelved case back."""
        return self.act(Action.UNSHELVE, case_id, comment)

    def out_of_service(self, case_id: int, comment: str = "") -> list[Case]:
        """Take the alarm out of service."""
        return self.act(Action.OUT_OF_SERVICE, case_id, comment)

    def in_service(self, case_id: int, comment: str = "") -> list[Case]:
        """Put the alarm back into service."""
        return self.act(Action.IN_SERVICE, case_id, comment)

    def comment(self, case_id: int, comment: str) -> list[Case]:
        """Add a comment to a case."""
        return self.act(Action.COMMENT, case_id, comment)

    def act(
        self, action: Action, case_id: int, comment: str, duration_s: float | None = None, activation: int = 1
    ) -> list[Case]:
        """Any of these actions by its name. `activation`: the one that is acknowledged.

        Raises: as `write`.
        """
        return self.converse(requests.act(action, case_id, self._core.user, comment, duration_s, activation))

    # History.

    def history(
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
        """Stored and recent values as an Arrow table; `to_pandas()` makes a DataFrame of it.

        Args:
            items: full or local names, or ids.
            start: begin of the range; a datetime (UTC if it names no zone), or wall time in ns.
            end: end of the range, not included; None: now.
            aggregate: "" for the rows themselves, or average, min, max, count, duration, last, interpolated.
            every_s: length of an interval, for aggregates.
            uncertain_is_good: aggregates use uncertain values too.
            only_raw: aggregates are computed from raw rows, even where stored sums would do.
            cursor: place where an answer that was cut short goes on.
            limit: most rows, the first ones of the answer; None: all of it.
            told: is called with the number of rows so far, after each piece.
            node: node below whose history is asked, when ids or local names are given; full names say it themselves.
        Raises:
            NodeRefused: there is no such item, or the range is none.
            HistoryCutShort: some of it came, and then nobody answered.
        """
        summing = Summing(aggregate=aggregate, every_s=every_s, uncertain_is_good=uncertain_is_good, only_raw=only_raw)
        extent = Extent(cursor=cursor, limit=limit, told=told, node=node)
        return self.converse(requests.history(items, start, end, summing, extent))

    def events(
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
        """The journal as an Arrow table: changes of cases, what people did, starts and stops.

        Args: as `history`; `kind`: only these: case, audit, control; `item_ids`: only the cases of these items.
        Raises: as `history`.
        """
        extent = Extent(cursor=cursor, limit=limit, told=told, node=node)
        return self.converse(requests.events(start, end, kind, item_ids, extent))

    def gaps(
        self,
        start: datetime | int,
        end: datetime | int | None = None,
        *,
        item_ids: Sequence[int] = (),
        node: str = "",
    ) -> "pa.Table":
        """Times of which something is missing, as an Arrow table: those that touch the range, by start.

        Args: as `history`; `item_ids`: only what these items miss.
        Raises: as `history`.
        """
        return self.converse(requests.gaps(start, end, item_ids, Extent(node=node)))

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

    def status(self, member: int | None = None) -> dict[str, Any]:
        """State of the node as the acting member tells it, or this one."""
        return self.converse(requests.status(member))

    @property
    def acting(self) -> int | None:
        """Index of the member that is known to act: 0 the primary, 1 the backup; None: neither."""
        return self._core.acting

    def ask(
        self,
        what: str,
        *,
        of: str = "core",
        member: int | None = None,
        timeout_s: float | None = None,
        **arguments: object,
    ) -> object:
        """The answer to one question of docs/node-protocol.md, as the node gives it.

        Args:
            of: part of the node that is asked: `core`, `history`, `boot`.
            member: member that is asked, acting or not; None: the one that acts.
            timeout_s: time that the answer may take; None: that of the client.
        Raises:
            NodeUnreachable, NodeRefused, and what is below them.
        """
        return self.ask_parts(what, of=of, member=member, timeout_s=timeout_s, **arguments).result

    def ask_parts(
        self,
        what: str,
        *,
        of: str = "core",
        member: int | None = None,
        timeout_s: float | None = None,
        **arguments: object,
    ) -> NodeReply:
        """As `ask`, with the raw parts of the answer."""
        request = Request(what=what, arguments=arguments, of=of, member=member, wait_s=timeout_s)
        return self._core.begin(request).result()

    def follow_state(self, pause_s: float = 0.1) -> Iterator[StateChange | None]:
        """The live state as the feed has it, for who draws a view: first all of it, then each delta.

        None comes at least every `pause_s` while nothing changes. After a loss, or if the reader is slow, the next
        change is a whole snapshot.
        """
        reader = self._core.following()
        is_begun = False
        try:
            while True:
                changes = reader.wait(pause_s)
                for change in changes:
                    is_begun = is_begun or change.state.is_snapshot
                    if is_begun:
                        yield change
                if not changes:
                    yield None
        finally:
            self._core.leave(reader)

    def converse(self, conversation: Conversation[_Wanted]) -> _Wanted:
        """Ask what a conversation asks, and give what it comes to."""
        try:
            request = next(conversation)
            while True:
                if request.pause_s:
                    time.sleep(request.pause_s)
                try:
                    reply = self._core.begin(request).result()
                except ClientError as error:
                    request = conversation.throw(error)
                else:
                    request = conversation.send(reply)
        except StopIteration as ended:
            wanted: _Wanted = ended.value
            return wanted

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
