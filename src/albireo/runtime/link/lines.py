"""Lines: links to several peers for a program without a loop, waited for together.

A client of a pair listens to both members at once: the acting member says so by itself. A line has a descriptor for
letters and one for events of its connection. A line leads over TCP, or to a link of a node on this machine, by its data
directory.

    lines = Lines([LineTo("tcp://10.0.0.5:7001", "root[primary]"), ...], Keys.load(directory))
    signalled = set() if lines.is_stirred else poll(lines.descriptors())
    for news in lines.take(signalled): ...

Only lines that signal are looked at, because a look at one that has nothing costs as much as a letter. A descriptor
signals once, and whatever touches its socket takes the signal: a send, a drain that stops at a bound, and a connection
that is minded. Descriptors whose signal was taken so are kept here, until they are found empty.

Decisions: ADR-0021 (descriptors), ADR-0101, ADR-0115, ADR-0156.
"""

import os
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from albireo.codec.message import AnyMessage
from albireo.runtime.directory import RunDirectory
from albireo.runtime.errors import NodeSilent
from albireo.runtime.link.connection import ConnectionEvent, Dialling, Monitor
from albireo.runtime.link.dialing import TCP_LIMITS, BlockingDialer, Dialer
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


class _Dialled(msgspec.Struct, frozen=True, eq=False):
    link: Link
    dialer: BlockingDialer | LocalConnection
    letters: int
    """Descriptor that signals letters."""
    events: int
    """Descriptor that signals events of the connection."""


class Lines:
    """The lines of one program, for one thread. Lines that are down are dialled again for ever, if they are minded."""

    def __init__(self, to: Sequence[LineTo], keys: Keys | None, limits: LinkLimits = TCP_LIMITS) -> None:
        """Begin to dial all peers; `take` says when a line is up.

        Raises:
            EndpointRefused: it is no endpoint, or may not be used without keys.
            NodeSilent: no node has ever run in that data directory.
            DirectoryUnsafe: its run directory is open to others.
        """
        self._sockets = Sockets()
        self._keys = keys
        self._limits = limits
        self._lines: list[_Dialled] = []
        self._swallowed: set[int] = set()
        """Descriptors that signal no more, although something may be there."""
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
        link.at_close.append(monitor.close)
        if to.is_local:
            run = _run_directory(to)
            link.at_close.append(run.close)
            socket.connect(f"ipc://{run.address(to.link)}")
            dialer: BlockingDialer | LocalConnection = LocalConnection(monitor)
        else:
            dialer = BlockingDialer(Dialer(link, socket, to.endpoint, self._keys, to.peer), monitor)
            dialer.begin()
        line = _Dialled(link, dialer, link.descriptor(), dialer.descriptor())
        link.on_sent = partial(self._look_again, line.letters)
        self._lines.append(line)
        self._swallowed.update((line.letters, line.events))
        return len(self._lines) - 1

    def descriptors(self) -> list[int]:
        """Descriptors of all lines, to be waited for while nothing `is_stirred`."""
        return [one for line in self._lines for one in (line.letters, line.events)]

    @property
    def is_stirred(self) -> bool:
        """True: `take` may find something although no descriptor says so."""
        return bool(self._swallowed)

    def fate(self, line: int) -> str:
        """The end of the last try to connect, in words."""
        return self._lines[line].dialer.fate

    def malformed(self) -> int:
        """Number of messages that could not be read."""
        return sum(line.link.malformed for line in self._lines)

    def send(self, line: int, message: AnyMessage, raw: Sequence[Part] = ()) -> bool:
        """Send a message; False: the line is down, or its peer does not read, and nothing was sent."""
        return self._lines[line].link.send(message, raw)

    def take(self, signalled: AbstractSet[int]) -> list[LineNews]:
        """News that wait.

        Args:
            signalled: descriptors that signal. Whoever waits names all of them each `MIND_S`, signalled or not: a line
                that is down is dialled again when it is minded.
        """
        news: list[LineNews] = []
        due, self._swallowed = signalled | self._swallowed, set()
        for index, line in enumerate(self._lines):
            is_minded = line.events in due
            if is_minded:
                news += [LineNews(index, is_up=change) for change in line.dialer.mind()]
            if is_minded or line.letters in due:  # To dial takes the signal of the letters too.
                drained = line.link.drain(LETTERS_MAX, BYTES_MAX)
                news += [LineNews(index, message=one.message, raw=one.raw) for one in drained.letters]
                if not drained.is_empty:
                    self._swallowed.add(line.letters)
        return news

    def _look_again(self, letters: int, link: Link) -> None:
        """Keep that letters wait, whose signal a send has taken."""
        if link.has_input():
            self._swallowed.add(letters)

    def close(self) -> None:
        """Close all lines; messages that were sent have the linger to leave."""
        self._sockets.close(lingers=True)


def _run_directory(to: LineTo) -> RunDirectory:
    data = Path(to.endpoint)
    try:
        return RunDirectory(data, create=False)
    except FileNotFoundError as error:
        raise NodeSilent(data, to.link, "no node has ever run there") from error
