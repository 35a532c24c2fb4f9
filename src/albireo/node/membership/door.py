"""Door of a node: the TCP endpoint at which programs are heard, of a lone node and of a member alike.

With keys it hears programs whose key is trusted, and only what they may say (ADR-0144). Without keys nobody has a name:
a lone node opens it then only on loopback, and only if its topology says so (ADR-0155).
"""

from pathlib import Path
from typing import Final

import msgspec

from albireo.codec.principal import Audience, KeyedEnd
from albireo.model.status import DoorStatus, HandedOn
from albireo.runtime import ActorContext, Link
from albireo.runtime.link.curve import is_loopback
from albireo.runtime.link.dialing import TCP_LIMITS
from albireo.runtime.link.keys import Keys
from albireo.runtime.link.names import NAMES

CLIENT_LIMITS: Final = msgspec.structs.replace(TCP_LIMITS, receive_messages_max=100)
"""Limits of the endpoint for clients: 8 MiB of credit are some 16 full messages; a client that says more waits."""


class DoorArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of a lone node's door, from boot."""

    endpoint: str
    keys: str = ""
    """Directory of the CURVE keys; empty: none."""
    is_open_without_keys: bool = False
    """True: without keys the door is opened all the same, if the endpoint is on loopback."""

    def closed_because(self, node: str, data: Path) -> tuple[str, str]:
        """Reason why this door stays closed, and what to do; both empty: it is opened."""
        if self.keys:
            return "", ""
        make = f"albireo keys new {node} --data {data}, let the programs' keys be trusted, and start the node again"
        if not is_loopback(self.endpoint):
            return f"there are no keys, and other machines reach {self.endpoint}", make
        if not self.is_open_without_keys:
            return "there are no keys", f"{make}; or let in every program of this machine: open_on_loopback"
        return "", ""


class ProgramDoor:
    """The door of one run of CORE: open, closed, or none at all."""

    def __init__(self, endpoint: str = "", closed_because: str = "") -> None:
        """`endpoint`: empty: there is none."""
        self.endpoint = endpoint
        self.closed_because = closed_because
        self.link: Link | None = None
        """Link at which programs are heard."""
        self._has_keys = False
        self._audience = Audience(KeyedEnd.CLIENT)

    def open(
        self,
        actor: ActorContext,
        keys: Keys | None,
        expected: frozenset[str] = frozenset(),
        voters: frozenset[str] = frozenset(),
    ) -> Link:
        """Bind it. Raises what `ActorContext.bind_tcp` does.

        Args:
            expected: names of the members that are heard beside programs.
            voters: names of the places of the nodes below that vote for this pair.
        """
        self._audience = Audience(KeyedEnd.CLIENT, expected, voters=voters)
        self.link = actor.bind_tcp("clients", self.endpoint, keys, CLIENT_LIMITS, hears=self._audience.hears)
        self._has_keys = keys is not None
        return self.link

    def let_in(self, children: frozenset[str]) -> None:
        """Hear nodes directly below too, by the names of their places, and no others of them from now on."""
        if self.link is not None and children != self._audience.children:
            self._audience = msgspec.structs.replace(self._audience, children=children)
            self.link.hear(self._audience.hears)

    def describe(self, history: HandedOn, key_trouble: str) -> DoorStatus:
        """The door, for `status`. `key_trouble`: why the keys of this node can't be read."""
        return DoorStatus(
            endpoint=self.endpoint,
            closed_because=self.closed_because,
            with_keys=self._has_keys,
            key_trouble=key_trouble,
            not_heard=0 if self.link is None else self.link.unheard,
            history=history,
            names=NAMES.asked(),
            knocks=() if self.link is None else tuple(self.link.knocks.values()),
        )
