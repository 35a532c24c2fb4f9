"""Uplinks: this node dials its parent, says hello each second, and is followed on the links that it dialled.

Two links go to each member of the parent: one for the log, which may be full, and one for all that must not wait. The
parent speaks on them as any follower does, so CORE's feeds serve it like the others; and on the second one this node
follows the states that it wants of its parent and of nodes beyond. Sites are often behind firewalls that let nobody in.

Spec: design/tree.md, Links.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from albireo.codec.message import AnyMessage
from albireo.codec.principal import Audience, KeyedEnd
from albireo.codec.tree.hello import ChildHello
from albireo.codec.tree.letters import may_wait
from albireo.machine.carry.node_tree import PARENT
from albireo.machine.root.root import Root
from albireo.machine.tree.beyond import PARENT_LINES
from albireo.model.instant import SECOND, Instant
from albireo.runtime import ActorContext, Keys, Link
from albireo.runtime.errors import EndpointRefused
from albireo.runtime.link.dialing import TCP_LIMITS

HELLO_NS: Final = SECOND
"""Time between two hellos."""
SILENCE_MS: Final = 10_000
"""Silence of the parent after which a link is dialled anew; a parent that is there says something each second."""


class UplinkArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of the links to the node above, from boot."""

    parent: str
    """Id of the node above."""
    endpoints: dict[str, str]
    """Endpoint of each of its members, by the name of its place."""
    keys: str = ""
    """Directory of the CURVE keys; empty: none."""
    member: int = 0
    """Index of this member."""
    beyond: tuple[str, ...] = ()
    """Nodes outside the own subtree whose states are followed at the parent."""


class Uplinks:
    """The links of one run of CORE."""

    def __init__(self, actor: ActorContext, arguments: UplinkArguments, hello: Callable[[], ChildHello]) -> None:
        """`hello`: gives the hello of this moment, to be said on the link that must not wait."""
        self.why_not = ""
        """Reason why the parent is not dialled; empty: it is."""
        self._hello = hello
        self._say_at = Instant(0)
        self._is_bulk: dict[Link, bool] = {}
        self._members: dict[Link, int] = {}
        """Member of the parent to which each link leads."""
        keys = Keys.load(Path(arguments.keys)) if arguments.keys else None
        hears = Audience(KeyedEnd.TO_PARENT, parents=frozenset(arguments.endpoints)).hears
        limits = msgspec.structs.replace(TCP_LIMITS, silence_ms=SILENCE_MS)
        for index, (place, endpoint) in enumerate(arguments.endpoints.items()):
            for is_bulk in (False, True):
                name = f"parent.{index}" + (".log" if is_bulk else "")
                try:
                    link = actor.connect_tcp(name, endpoint, keys, limits, place, hears)
                except EndpointRefused as error:  # This node lives on without its parent.
                    self.why_not = str(error)
                    actor.log.error("parent_not_dialled", endpoint=endpoint, reason=self.why_not)
                    continue
                self._is_bulk[link], self._members[link] = is_bulk, index
                link.on_connection = partial(self._connected, link)

    def __contains__(self, link: Link) -> bool:
        return link in self._is_bulk

    def ticked(self, now: Instant) -> None:
        if now >= self._say_at:
            self._say_at = Instant(now + HELLO_NS)
            for link in self._is_bulk:
                self._say(link)

    def _connected(self, link: Link, is_up: bool) -> None:  # A callback of the link.
        if is_up:
            self._say(link)

    def _say(self, link: Link) -> None:
        hello = self._hello()
        link.send(msgspec.structs.replace(hello, is_bulk=True) if self._is_bulk[link] else hello)

    def sender_of(self, link: Link) -> bytes:
        """Name of the member of the parent that is heard on this link, one of `PARENT_LINES`."""
        return PARENT_LINES[self._members[link]]

    def say(self, to: bytes, message: AnyMessage) -> bool:
        """Say something to the parent, if that is meant; False: `to` is somebody else.

        Args:
            to: one of `PARENT_LINES`; or `PARENT`, for each member there is: one that does not act passes over it.
        """
        if to != PARENT and to not in PARENT_LINES:
            return False
        for link, is_bulk in self._is_bulk.items():
            if is_bulk == may_wait(message) and to in (PARENT, self.sender_of(link)):
                link.send(message)
        return True

    def member_of(self, link: Link) -> int | None:
        """Index of the parent's member at the other end of a link; None: it leads to no parent."""
        return self._members.get(link)

    def give(self, member: int, message: AnyMessage, raw: Sequence[bytes | memoryview]) -> None:
        """Say something to one member of the parent that may wait behind the log."""
        for link, is_bulk in self._is_bulk.items():
            if is_bulk and self._members[link] == member:
                link.send(message, raw)

    def deadline(self) -> Instant | None:
        return self._say_at if self._is_bulk else None

    def close(self) -> None:
        for link in self._is_bulk:
            link.close(TCP_LIMITS.linger_ms)


def uplinks_of(
    actor: ActorContext, arguments: UplinkArguments | None, log_id: bytes, root: Callable[[], Root]
) -> "Uplinks | NoUplinks":
    """The links of a node to the one above it."""
    if arguments is None:
        return NoUplinks()

    def hello() -> ChildHello:
        return ChildHello(
            node=root().config.node,
            log_id=log_id,
            feature_level=root().folds.feature_level,
            member=arguments.member,
            topology_hash=root().config.topology_hash,
            wall_ns=actor.wall_ns(),
            run=root().tree.run,
        )

    return Uplinks(actor, arguments, hello)


class NoUplinks:
    """Stands for the links of a node that has no parent."""

    def __contains__(self, link: Link) -> bool:
        return False

    def ticked(self, now: Instant) -> None: ...

    def sender_of(self, link: Link) -> bytes:
        raise LookupError("no link leads to a parent")

    def say(self, to: bytes, message: AnyMessage) -> bool:
        return False

    def member_of(self, link: Link) -> None: ...

    def give(self, member: int, message: AnyMessage, raw: Sequence[bytes | memoryview]) -> None: ...

    def deadline(self) -> None: ...

    def close(self) -> None: ...
