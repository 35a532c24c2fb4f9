"""Peer links: on which link each peer is heard that is not an actor of this node.

Senders come and go, and nobody says when one is gone for good: a client that reconnects may be another sender. So the
table is bounded, and the peer that was heard least lately goes first. Who is forgotten can't be told anything until it
speaks again; what is sent to it meanwhile fails, as to a peer that is gone, and it says hello again.
"""

from collections.abc import Callable, Sequence
from typing import Final

from albireo.codec.message import AnyMessage
from albireo.runtime import Link

PEERS_MAX: Final = 4_096
"""Most peers remembered: four times the connections that one listener takes."""


class PeerLinks:
    """Links by sender; of one run of CORE."""

    def __init__(self, local: Link, on_forgotten: Callable[[int], object]) -> None:
        """
        Args:
            local: link of everybody who is not remembered.
            on_forgotten: told how many peers had to give way to others so far.
        """
        self._local = local
        self._on_forgotten = on_forgotten
        self._links: dict[bytes, Link] = {}
        self.forgotten = 0
        """Number of peers that had to give way to others."""

    def __len__(self) -> int:
        return len(self._links)

    def heard(self, sender: bytes, link: Link) -> None:
        """Take note that a peer spoke on that link."""
        self._links.pop(sender, None)
        self._links[sender] = link
        if len(self._links) > PEERS_MAX:
            del self._links[next(iter(self._links))]
            self.forgotten += 1
            self._on_forgotten(self.forgotten)

    def of(self, sender: bytes) -> Link:
        return self._links.get(sender, self._local)

    def say(self, to: bytes, message: AnyMessage, raw: Sequence[bytes | memoryview]) -> bool:
        """Send on the link where this peer is heard; False: it is gone."""
        is_said = self.of(to).send(message, raw, to=to)
        if not is_said:
            self.gone(to)
        return is_said

    def gone(self, sender: bytes) -> None:
        """Take note that a send to this peer failed."""
        self._links.pop(sender, None)
