"""Peer links: the name of each sender within CORE, and the way back to it.

A peer chooses its identity, so that two of them may have the same one, by chance or on purpose: each is told apart by
the link on which it speaks and by its principal too. The root machine knows senders by the name that is made of all
three, and only compares it.

    sender = number of (link, principal), 4 bytes | identity of the peer on that link
                                                  | channel, 2 bytes: on a link that this node dialled, with one peer

Nothing is kept of the peers themselves, who come and go and never say which is gone for good.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from albireo.codec.message import AnyMessage, FeedMessage
from albireo.runtime import Letter, Link

NUMBER_BYTES: Final = 4
CHANNEL_BYTES: Final = 2


class PeerLinks:
    """Ways to senders; of one run of CORE. The entries are principals on links, which trusted keys bound."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Link, str], bytes] = {}
        self._links: list[Link] = []
        """Links by number."""

    def __len__(self) -> int:
        return len(self._links)

    def sender_of(self, letter: Letter) -> bytes:
        """Name of the sender of a letter, for `send`."""
        number = self.way(letter.link, letter.principal)
        if letter.sender or not isinstance(letter.message, FeedMessage) or not letter.message.channel:
            return number + letter.sender
        return number + letter.message.channel.to_bytes(CHANNEL_BYTES, "big")

    def way(self, link: Link, principal: str) -> bytes:
        """Name of the peer at the other end of a link that this node dialled, or the begin of a name at a bound one."""
        way = (link, principal)
        number = self._numbers.get(way)
        if number is None:
            number = self._numbers[way] = len(self._links).to_bytes(NUMBER_BYTES, "big")
            self._links.append(link)
        return number

    def send(self, to: bytes, message: AnyMessage, raw: Sequence[bytes | memoryview]) -> bool:
        """Send to a sender; False: it is gone, or its queue is full."""
        link, rest = self._links[int.from_bytes(to[:NUMBER_BYTES], "big")], to[NUMBER_BYTES:]
        if link.is_closed:  # A stop closes the links while the disk may still bring news.
            return False
        if isinstance(message, FeedMessage) and rest and link.identity:
            message = msgspec.structs.replace(message, channel=int.from_bytes(rest, "big"))
        return link.send(message, raw, to=rest)
