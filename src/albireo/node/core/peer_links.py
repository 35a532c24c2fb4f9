"""Peer links: the name of each sender within CORE, and the way back to it.

A peer chooses its identity, so that two of them may have the same one, by chance or on purpose: each is told apart by
the link on which it speaks and by its principal too. The root machine knows senders by the name that is made of all
three, and only compares it.

    sender = number of (link, principal), 4 bytes | channel, 2 bytes | identity of the peer, on a bound link

The channel is that of a feed which the peer follows, and 0 in the name of whoever says anything else: several feeds to
one peer are several senders.

Nothing is kept of the peers themselves, who come and go and never say which is gone for good.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from albireo.codec.message import AnyMessage, FeedAck, FeedHello, FeedMessage
from albireo.runtime import Letter, Link

NUMBER_BYTES: Final = 4
CHANNEL_BYTES: Final = 2
IDENTITY_AT: Final = NUMBER_BYTES + CHANNEL_BYTES


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
        channel = letter.message.channel if isinstance(letter.message, FeedHello | FeedAck) else 0
        return self._number(letter.link, letter.principal) + channel.to_bytes(CHANNEL_BYTES, "big") + letter.sender

    def _number(self, link: Link, principal: str) -> bytes:
        way = (link, principal)
        number = self._numbers.get(way)
        if number is None:
            number = self._numbers[way] = len(self._links).to_bytes(NUMBER_BYTES, "big")
            self._links.append(link)
        return number

    def send(self, to: bytes, message: AnyMessage, raw: Sequence[bytes | memoryview]) -> bool:
        """Send to a sender; False: it is gone, or its queue is full."""
        link = self._links[int.from_bytes(to[:NUMBER_BYTES], "big")]
        if link.is_closed:  # A stop closes the links while the disk may still bring news.
            return False
        channel = int.from_bytes(to[NUMBER_BYTES:IDENTITY_AT], "big")
        if channel and isinstance(message, FeedMessage):
            message = msgspec.structs.replace(message, channel=channel)
        return link.send(message, raw, to=to[IDENTITY_AT:])
