"""NodeClient: questions to a node, and its live state, from another process on the same machine."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from albireo.client.errors import NodeRefused, NodeUnreachable
from albireo.codec import samples
from albireo.codec.errors import DecodeError
from albireo.codec.message import Answer, AnyMessage, Ask, FeedAlive, FeedAnswer, FeedData, FeedState
from albireo.machine.feed.follower import (
    Deliver,
    Digested,
    Effect,
    Follower,
    FollowerConfig,
    LinkUp,
    Received,
    TellLeader,
)
from albireo.model.instant import TimePassed
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType
from albireo.runtime.actor.clock import boot_ns
from albireo.runtime.errors import NodeSilent
from albireo.runtime.link.sockets import SyncLink

ANSWER_S: Final = 5.0
"""Time that a question waits by default."""


class StateChange(msgspec.Struct, frozen=True, eq=False):
    """One delta of the live state, decoded."""

    state: FeedState
    batches: Sequence[SampleBatch]


class NodeClient:
    """A connection to the node whose data directory is `data`.

    Not for several threads at once. Use as a context manager, or call `close`.
    """

    def __init__(self, data: Path, *, timeout_s: float = ANSWER_S) -> None:
        self._data = data
        self._timeout_s = timeout_s
        self._links: dict[str, SyncLink] = {}
        self._request_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for link in self._links.values():
            link.close()
        self._links.clear()

    def ask(self, what: str, *, of: str = "core", timeout_s: float | None = None, **arguments: object) -> object:
        """The answer to one question; see docs/node-protocol.md for the questions.

        Args:
            of: actor that is asked: `core`, `history` or `boot`.
        Raises:
            NodeUnreachable: no answer in time.
            NodeRefused: the node said no.
        """
        return self.ask_parts(what, of=of, timeout_s=timeout_s, **arguments)[0]

    def ask_parts(
        self, what: str, *, of: str = "core", timeout_s: float | None = None, **arguments: object
    ) -> tuple[object, list[bytes | memoryview]]:
        """As `ask`, with the raw parts of the answer."""
        self._request_id += 1
        link = self._link(of)
        link.send(Ask(request_id=self._request_id, what=what, arguments=arguments))
        wait_s = self._timeout_s if timeout_s is None else timeout_s
        ends = time.monotonic() + wait_s
        while (left := ends - time.monotonic()) > 0:
            received = link.receive(left)
            if received is None:
                break
            message, raw = received
            if isinstance(message, Answer) and message.request_id == self._request_id:
                if message.error:
                    raise NodeRefused(what, message.error)
                return message.result, raw
        raise NodeUnreachable(
            f"{of} of the node in {self._data} did not answer within {wait_s:g} s; is it running? (`albireo node run`)"
        )

    def _link(self, of: str) -> SyncLink:
        link = self._links.get(of)
        if link is None:
            link = self._links[of] = self._connected(of)
        return link

    def _connected(self, of: str) -> SyncLink:
        try:
            return SyncLink(self._data, of)
        except NodeSilent as error:
            raise NodeUnreachable(str(error)) from error

    def follow_state(self, name: str, *, pause_s: float = 0.1) -> Iterator[StateChange | None]:
        """The live state: first all of it, then the changes; None at least every `pause_s` while nothing changes.

        It reconnects by itself: after a loss the next change is a whole snapshot (`state.is_snapshot`).

        Args:
            name: name of the follower; a second follower of the same name replaces the first.
        """
        link = self._connected("core")
        machine = Follower(FollowerConfig(name=name, mode="state"))
        try:
            self._say(link, machine.step(LinkUp(), boot_ns()))
            while True:
                received = link.receive(pause_s)
                if received is None:
                    self._say(link, machine.step(TimePassed(), boot_ns()))
                    yield None
                    continue
                yield self._taken(link, machine, *received)
        finally:
            link.close()

    def _taken(
        self, link: SyncLink, machine: Follower, message: AnyMessage, raw: list[bytes | memoryview]
    ) -> StateChange | None:
        if not isinstance(message, FeedAnswer | FeedData | FeedState | FeedAlive):
            return None
        effects = machine.step(Received(message, sum(len(part) for part in raw)), boot_ns())
        self._say(link, effects)
        change = None
        for effect in effects:
            if isinstance(effect, Deliver) and isinstance(effect.message, FeedState):
                change = StateChange(effect.message, decoded(effect.message, raw))
                self._say(link, machine.step(Digested(machine.position), boot_ns()))
        return change

    def _say(self, link: SyncLink, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, TellLeader):
                link.send(effect.message)


def decoded(state: FeedState, raw: Sequence[bytes | memoryview]) -> list[SampleBatch]:
    """The sample columns that travel beside a `FeedState`.

    Raises:
        DecodeError: the parts do not fit their description.
    """
    if len(raw) != len(state.value_parts):
        raise DecodeError(0, f"{len(raw)} parts, {len(state.value_parts)} described")
    return [
        samples.decode(part, ValueType(value_type), count)
        for part, (value_type, count) in zip(raw, state.value_parts, strict=True)
    ]
