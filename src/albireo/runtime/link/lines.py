"""Lines: links to several peers for a program without a loop, waited for together.

A client of a pair listens to both members at once: the acting member says so by itself. A line has a descriptor for
letters and one for events of its connection; the wait ends with whichever comes first. A line leads over TCP, or to a
link of a node on this machine, by its data directory.

    with Lines([LineTo("tcp://10.0.0.5:7001", "root[primary]"), ...], Keys.load(directory)) as lines:
        for news in lines.wait(0.5): ...

Decisions: ADR-0021 (descriptors), ADR-0101, ADR-0115, ADR-0156.
"""

import os
import select
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

import msgspec

from albireo.codec.message import AnyMessage
from albireo.model.instant import SECOND
from albireo.runtime.clock import boot_ns
from albireo.runtime.directory import RunDirectory
from albireo.runtime.errors import NodeSilent
from albireo.runtime.link.connection import ConnectionEvent, Dialling, Monitor
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
    """Address of the peer, tcp://HOST:PORT; or the data directory of a node on this machine."""
    peer: str = ""
    """TCP: name of the peer whose key is expected, or ANY_PLACE; without keys none is."""
    link: str = "core"
    """Data directory: name of the link of that node."""

    @property
    def is_local(self) -> bool:
        """True: the endpoint is a data directory."""
        return "://" not in self.endpoint


class LineNews(msgspec.Struct, frozen=True, eq=False):
    """News of the line with index `line`: it is up, it is down, or it brought a message."""

    line: int
    is_up: bool | None = None
    message: AnyMessage | None = None
    raw: list[Part] = []


class LocalConnection:
    """News of a connection to a node of this machine, which libzmq makes anew by itself."""

    fate = "nothing listens there"

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._dialling = Dialling()

    def mind(self) -> list[bool]:
        """Take the events; in order: True for each time the connection was made, False for each time it ended."""
        changes = []
        for news in self._monitor.take():
            event = self._dialling.takes(news)
            if event in (ConnectionEvent.PROVEN, ConnectionEvent.ENDED):
                changes.append(event is ConnectionEvent.PROVEN)
        return changes

    def descriptor(self) -> int:
        """Readable when `mind` has something to take."""
        return self._monitor.descriptor()


class Lines:
    """The lines of one program, for one thread. Lines that are down are dialled again for ever."""

    def __init__(self, to: Sequence[LineTo], keys: Keys | None, limits: LinkLimits = TCP_LIMITS) -> None:
        """Begin to dial all peers; `wait` says when a line is up.

        Raises:
            EndpointRefused: it is no endpoint, or may not be used without keys.
            NodeSilent: no node has ever run in that data directory.
            DirectoryUnsafe: its run directory is open to others.
        """
        self._sockets = Sockets()
        self._keys = keys
        self._limits = limits
        self._links: list[Link] = []
        self._dialers: list[BlockingDialer | LocalConnection] = []
        self._poll = select.poll()
        self.is_stirred = True
        """True: `take` may find something although no descriptor says so, because something was sent or left."""
        try:
            for one in to:
                self.add(one)
        except BaseException:  # Whatever it was goes on; the sockets do not stay open.
            self._sockets.close(lingers=False)
            raise

    def add(self, to: LineTo) -> int:
        """Begin to dial one more peer.

        Returns:
            Index of its line.
        Raises: as the constructor.
        """
        identity = new_identity(f"client-{os.getpid()}")
        socket = self._sockets.dealer(self._limits, identity)
        link = self._sockets.keep(Link(to.endpoint, identity, socket, self._limits.linger_ms))
        monitor = Monitor(socket, self._sockets.pair())
        if to.is_local:
            link.at_close.append(monitor.close)
            run = _run_directory(to)
            link.at_close.append(run.close)
            socket.connect(f"ipc://{run.address(to.link)}")
            self._dialers.append(LocalConnection(monitor))
        else:
            dialer = BlockingDialer(Dialer(link, socket, to.endpoint, self._keys, to.peer), monitor)
            dialer.begin()
            self._dialers.append(dialer)
        self._links.append(link)
        for descriptor in (link.descriptor(), self._dialers[-1].descriptor()):
            self._poll.register(descriptor, select.POLLIN)
        self.is_stirred = True
        return len(self._links) - 1

    def descriptors(self) -> list[int]:
        """Descriptors of all lines, for a loop that waits for more than these lines (see `is_stirred`)."""
        both = zip(self._links, self._dialers, strict=True)
        return [one for link, dialer in both for one in (link.descriptor(), dialer.descriptor())]

    def fate(self, line: int) -> str:
        """The end of the last try to connect, in words."""
        return self._dialers[line].fate

    def malformed(self) -> int:
        """Number of messages that could not be read."""
        return sum(link.malformed for link in self._links)

    def send(self, line: int, message: AnyMessage, raw: Sequence[Part] = ()) -> bool:
        """Send a message; False: the line is down, or its peer does not read, and nothing was sent."""
        self.is_stirred = True
        return self._links[line].send(message, raw)

    def wait(self, timeout_s: float) -> list[LineNews]:
        """News of all lines, at once if there are any; empty after `timeout_s`."""
        deadline = boot_ns() + int(timeout_s * SECOND)
        while True:
            news = self.take()
            left_s = (deadline - boot_ns()) / SECOND
            if news or left_s <= 0:
                return news
            # Both kinds of descriptor signal only what comes after they were found empty; `take` found them empty.
            self._poll.poll(1000 * min(left_s, MIND_S))

    def take(self) -> list[LineNews]:
        """News that wait. Descriptors signal only what comes after they were found empty: see `is_stirred`."""
        news = []
        for line, dialer in enumerate(self._dialers):
            news += [LineNews(line, is_up=change) for change in dialer.mind()]
        for line, link in enumerate(self._links):
            drained = link.drain(LETTERS_MAX, BYTES_MAX)
            news += [LineNews(line, message=one.message, raw=one.raw) for one in drained.letters]
        self.is_stirred = bool(news)
        return news

    def close(self) -> None:
        """Close all lines; messages that were sent have the linger to leave."""
        self._sockets.close(lingers=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _run_directory(to: LineTo) -> RunDirectory:
    data = Path(to.endpoint)
    try:
        return RunDirectory(data, create=False)
    except FileNotFoundError as error:
        raise NodeSilent(data, to.link, "no node has ever run there") from error
