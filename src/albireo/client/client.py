"""Client: a node, alone or a pair, as a program speaks with it.

    with connect("tcp://10.0.0.5:7700", keys="keys") as client:
        print(client.read("co_1").value)

It may be used from any number of threads. A takeover makes an answer come later, nothing else; an order whose answer
did not come ends with `OutcomeUnknown`, and is never given twice. All it does is in one thread of its own (engine.py).

For users: docs/client.md. Decision: ADR-0156.
"""

import contextlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from albireo.client import requests
from albireo.client.consumer import RecordConsumer
from albireo.client.conversation import asks
from albireo.client.core import ANSWER_S, ClientCore
from albireo.client.errors import ClientError
from albireo.client.history import ToldRows
from albireo.client.live import Changes
from albireo.client.message.messaging import MessagingClient
from albireo.client.producer import CLOSE_S, SampleProducer
from albireo.client.questions import NodeReply, Request
from albireo.client.requests import Extent, ItemReading, Summing
from albireo.client.target import AnyKeys, AnyTarget, target_of
from albireo.codec.questions.kind import AnswerT, QuestionKind, ShapeT
from albireo.machine.feed.viewing import StateChange
from albireo.machine.producer.producer import ProducerConfig
from albireo.model.case import Action, Case, ItemCase
from albireo.model.item import DataItem, Reading
from albireo.model.position import BEGINNING, Position
from albireo.model.tree.node_row import NodeRow
from albireo.model.tree.session import SessionRow

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


class Client(MessagingClient):
    """A connected client, for threads. Use as a context manager, or call `close`."""

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
            names: full or local names, with * and ?, of items of any node, as for `items`.
            timeout_s: time after which empty changes come if there are none; None: never.
        """
        reader = self._core.watching(self.converse(requests.by_node(requests.patterns_of(names))))
        try:
            while True:
                yield reader.wait(timeout_s)
        finally:
            self._core.leave(reader)

    # Cases.

    def cases(self, *, include_closed: bool = False, node: str = "") -> list[ItemCase]:
        """Open cases, the most severe first. `node`: another node, of which the open ones are known here."""
        return self.converse(requests.cases(node, include_closed=include_closed))

    def tree(self) -> list[NodeRow]:
        """The other nodes known here: whether they are heard, and of those below how much of their log lies here."""
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
        self,
        action: Action,
        case_id: int,
        comment: str,
        duration_s: float | None = None,
        activation: int = 1,
        node: str = "",
    ) -> list[Case]:
        """Any of these actions by its name.

        Args:
            activation: the one that is acknowledged.
            node: another node that has the case; what changed is in its state then, and none is returned.

        Raises: as `write`.
        """
        return self.converse(requests.act(action, case_id, self._core.user, comment, duration_s, activation, node))

    # Sessions.

    def sessions(self, pattern: str = "*") -> list[SessionRow]:
        """Who is present here and at the nodes below, since when. `pattern`: only at nodes that it means."""
        return self.converse(requests.sessions(pattern))

    def end_session(self, session: SessionRow | int, reason: str = "", *, node: str = "") -> None:
        """End a session: another principal's as an admin of its node, or one of our own here; its key stays trusted.

        `node`: where the session is, if only its id is given. Raises: as `write`.
        """
        self.converse(requests.end_session(session, self._core.user, reason, node))

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

    def ask_kind(self, kind: QuestionKind[ShapeT, AnswerT], asked: ShapeT, timeout_s: float | None = None) -> AnswerT:
        """The answer to a question of the list, as a value. Raises: as `ask`, and AnswerNotUnderstood."""
        return self.converse(asks(kind, asked, timeout_s))

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
