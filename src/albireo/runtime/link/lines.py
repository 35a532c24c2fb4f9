"""Lines: TCP links to several peers for a program without a loop, waited for together.

A client of a pair listens to both members at once: the acting member says so by itself. A line has a descriptor for
letters and one for events of its connection; the wait ends with whichever comes first.

    with Lines([LineTo("tcp://10.0.0.5:7001", "root[primary]"), ...], Keys.load(directory)) as lines:
        for news in lines.wait(0.5): ...

Decisions: ADR-0021 (descriptors), ADR-0101, ADR-0115.
"""

import os
import select
from collections.abc import Sequence
from typing import Final, Self

import msgspec

from albireo.codec.message import AnyMessage
from albireo.model.instant import SECOND
from albireo.runtime.actor.clock import boot_ns
from albireo.runtime.link.connection import Monitor
from albireo.runtime.link.dialing import MIND_S, TCP_LIMITS, BlockingDialer, Dialer
from albireo.runtime.link.keys import Keys
from albireo.runtime.link.link import Link, LinkLimits, Part
from albireo.runtime.link.sockets import Sockets, new_identity

LETTERS_MAX: Final = 256
"""Letters taken from one line before the others have their turn."""
BYTES_MAX: Final = 4 << 20
"""The same in bytes."""


class LineTo(msgspec.Struct, frozen=True):
    """Peer to which a line leads."""

    endpoint: str
    """Address of the peer, tcp://HOST:PORT."""
    peer: str = ""
    """Name of the peer whose key is expected; without keys none is."""


class LineNews(msgspec.Struct, frozen=True, eq=False):
    """News of the line with index `line`: it is up, it is down, or it brought a message."""

    line: int
    is_up: bool | None = None
    message: AnyMessage | None = None
    raw: list[Part] = []


class Lines:
    """The lines of one program, for one thread. Lines that are down are dialled again for ever."""

    def __init__(self, to: Sequence[LineTo], keys: Keys | None, limits: LinkLimits = TCP_LIMITS) -> None:
        """Begin to dial all peers; `wait` says when a line is up.

        Raises:
            EndpointRefused: it is no endpoint, or may not be used without keys.
        """
        self._sockets = Sockets()
        self._links: list[Link] = []
        self._dialers: list[BlockingDialer] = []
        try:
            for one in to:
                self._open(one, keys, limits)
        except BaseException:  # Whatever it was goes on; the sockets do not stay open.
            self._sockets.close(lingers=False)
            raise
        self._poll = select.poll()
        for link, dialer in zip(self._links, self._dialers, strict=True):
            self._poll.register(link.descriptor(), select.POLLIN)
            self._poll.register(dialer.descriptor(), select.POLLIN)

    def _open(self, to: LineTo, keys: Keys | None, limits: LinkLimits) -> None:
        identity = new_identity(f"client-{os.getpid()}")
        socket = self._sockets.dealer(limits, identity)
        link = self._sockets.keep(Link(to.endpoint, identity, socket, limits.linger_ms))
        dialer = Dialer(link, socket, to.endpoint, keys, to.peer)
        blocking = BlockingDialer(dialer, Monitor(socket, self._sockets.pair()))
        blocking.begin()
        self._links.append(link)
        self._dialers.append(blocking)

    def send(self, line: int, message: AnyMessage, raw: Sequence[Part] = ()) -> bool:
        """Send a message; False: the line is down, or its peer does not read, and nothing was sent."""
        return self._links[line].send(message, raw)

    def wait(self, timeout_s: float) -> list[LineNews]:
        """News of all lines, at once if there are any; empty after `timeout_s`."""
        deadline = boot_ns() + int(timeout_s * SECOND)
        while True:
            news = self._take()
            left_s = (deadline - boot_ns()) / SECOND
            if news or left_s <= 0:
                return news
            # Both kinds of descriptor signal only what comes after they were found empty; `_take` found them empty.
            self._poll.poll(1000 * min(left_s, MIND_S))

    def _take(self) -> list[LineNews]:
        news = []
        for line, dialer in enumerate(self._dialers):
            news += [LineNews(line, is_up=change) for change in dialer.mind()]
        for line, link in enumerate(self._links):
            drained = link.drain(LETTERS_MAX, BYTES_MAX)
            news += [LineNews(line, message=one.message, raw=one.raw) for one in drained.letters]
        return news

    def close(self) -> None:
        """Close all lines; messages that were sent have the linger to leave."""
        self._sockets.close(lingers=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
