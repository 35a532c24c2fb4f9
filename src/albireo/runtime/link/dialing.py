"""The two ends of a TCP link: a listener that can be bound anew, a dialer that finds the right key.

libzmq makes a connection anew by itself after it has broken. It does not, or not well, when a handshake was refused: it
gives up for ever when our key is not trusted there (yet), and knocks fifty times a second when the server has another
key than we expect. A dialer therefore hangs up after each refused handshake, waits, and tries the server's other
trusted key in turn; that is how a server changes its key on a port that stays.

News of a connection are taken only by the dialling that made it (connection.py): what was queued when the dialer hung
up says nothing of the next. And whatever a dialer believes, a connection on which nothing is heard is dialled anew, if
the link's limits say how long a silence counts.

Not done here: the loop (tcp.py). Decisions: ADR-0101, ADR-0102.
"""

import contextlib
import os
import resource
from collections.abc import Callable, Sequence
from typing import Final

import zmq

from albireo.model.instant import SECOND, Instant
from albireo.runtime.clock import boot_ns
from albireo.runtime.errors import PeerUnreachable
from albireo.runtime.link import curve
from albireo.runtime.link.connection import MUTE, ConnectionEvent, ConnectionNews, Dialling, Monitor
from albireo.runtime.link.keys import Keys
from albireo.runtime.link.link import Link, LinkLimits, SyncSocket
from albireo.runtime.link.names import NAMES, is_number
from albireo.runtime.link.patience import BOUNDS, Patience, PatienceBounds
from albireo.runtime.link.port import Port, answer, is_socket, opened

CONNECTIONS_MAX: Final = 1024
"""Most connections of one listener, proven or not; those that wait to be accepted come on top."""
TCP_LIMITS: Final = LinkLimits(holds_for_peer=False)
"""Limits of a TCP link: `send` says False until the peer is there, because a message that waited would be stale."""
RECONNECT_MS: Final = 20
RECONNECT_MS_MAX: Final = 500
STANDSTILL_S: Final = 1.0
"""Time after which an ended connection is dialled anew if libzmq has said nothing of it."""
SILENT_LOOKS_MAX: Final = 240
"""Silent looks after which a connection is dialled anew at the latest: a minute."""
NOBODY: Final = "nobody answers"
NO_KEY: Final = "no key of that place is trusted here"
Way = tuple[str, str]
"""Key that is expected and address that is dialled."""
FIRST_ANSWER_S: Final = 0.03
"""Longest wait of a program without a loop for the first answer about a name, which files and a near server give."""
ANY_PLACE: Final = "*"
"""Stands for the name of any node or member whose key is trusted: they are tried in turn."""
MIND_S: Final = 0.25
"""Time between two looks of a program without a loop after its connection while it waits for a message."""


class Listener:
    """One endpoint where others connect.

    The port is ours, libzmq gets a copy of its descriptor. So the port never closes while the listener is bound anew:
    whoever connects meanwhile waits in the kernel's queue instead of being refused, because a refusal says that our
    process is gone (probe.py), and nobody else can take the port.

    Whoever reaches the port can make connections that never prove anything. Above a number of them the kernel gives no
    answer to new ones, which is no refusal either, until some have ended: at the latest when their time is over.
    """

    def __init__(
        self,
        link: Link,
        socket: SyncSocket,
        endpoint: str,
        keys: Keys | None,
        domain: str,
        bounds: PatienceBounds = BOUNDS,
    ) -> None:
        """`domain`: name under which the ZAP handler knows this listener.

        Raises:
            EndpointRefused: it is no endpoint, or may not be used without keys.
        """
        curve.prepare(socket, endpoint, keys, bounds.most_ms)
        self.link = link
        link.endpoint = endpoint
        if keys is not None:
            link.name_of = keys.name_of
        self._socket = socket
        self._keys = keys
        self._domain = domain
        self._port: Port | None = None
        self._connections: set[int] = set()
        """Descriptors of the connections that were taken and have not ended."""
        self.is_full = False
        """True: new connections get no answer."""
        self._made_with = self._wanted()

    def bind(self) -> None:
        """Begin to listen, or go on with the present keys.

        Raises:
            AddressTaken: somebody else listens there, or it is no address of this machine.
        """
        if self._port is None:
            self._port = opened(self.link.name, self.link.endpoint)
            self.link.at_close.append(self._port.close)
        self._made_with = self._wanted()
        if self._keys is not None:
            curve.serve_as(self._socket, self._keys.pair, self._domain)
        self._socket.setsockopt(zmq.USE_FD, os.dup(self._port.fileno()))
        self._socket.bind(self.link.endpoint)
        self.link.endpoint = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self._connections.clear()
        self._mind_the_number()

    def counts(self, news: ConnectionNews) -> bool:
        """Count a connection that was taken or has ended; True: from now on there are too many."""
        was_full = self.is_full
        if news.event is ConnectionEvent.ACCEPTED:
            self._connections.add(news.descriptor)
        elif news.event is ConnectionEvent.ENDED:
            self._connections.discard(news.descriptor)
        self._mind_the_number()
        return self.is_full and not was_full

    def recount(self) -> bool:
        """Look which connections are there: news of an end may have been lost. True: there are too many still."""
        self._connections = {one for one in self._connections if is_socket(one)}
        self._mind_the_number()
        return self.is_full

    def _mind_the_number(self) -> None:
        is_full = len(self._connections) >= connections_max()
        if is_full != self.is_full and self._port is not None:
            self.is_full = is_full
            answer(self._port, is_on=not is_full)

    def release(self) -> None:
        """End every session, and begin none until `bind`."""
        with contextlib.suppress(zmq.ZMQError):  # Not bound just now.
            self._socket.unbind(self.link.endpoint)
        self.link.settle()  # A session ends when its socket has heard of it.

    def is_outdated(self) -> bool:
        """True if sessions were begun with a key that is no longer ours or trusted."""
        own, trusted = self._made_with
        own_now, trusted_now = self._wanted()
        self._made_with = (own, trusted | trusted_now)
        return own != own_now or not trusted <= trusted_now

    def _wanted(self) -> tuple[str, frozenset[str]]:
        return (self._keys.public, self._keys.trusted) if self._keys is not None else ("", frozenset())


def connections_max() -> int:
    """Most connections of one listener: a quarter of the descriptors that this process may have, at most."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return CONNECTIONS_MAX if soft == resource.RLIM_INFINITY else min(CONNECTIONS_MAX, soft // 4)


class LinkSilence:
    """Looks at a link, one after the other, between which something was to be said on it and nothing was heard.

    It counts looks, each in a turn of its own, and no time: who stood still itself judges nobody.
    """

    def __init__(self, link: Link, looks: int) -> None:
        """`looks`: how many it may last; 0: any number."""
        self._link = link
        self._first = self._most = looks
        self._heard = self._said = self._looks = 0

    def begin(self) -> None:
        """Begin to count: the connection is new."""
        (self._said, self._heard), self._looks = self._counts(), 0

    def has_lasted(self) -> bool:
        """Look; True: too long. The next one may last twice as long, unless something is heard before."""
        said, heard = self._counts()
        if heard != self._heard:
            self._most = self._first
        if heard != self._heard or said == self._said:
            self.begin()
            return False
        self._looks += 1
        if self._looks < self._most or not self._first:
            return False
        self._most = min(2 * self._most, max(self._first, SILENT_LOOKS_MAX))
        self._looks = 0
        return True

    def _counts(self) -> tuple[int, int]:
        """Numbers of messages said, if only in vain, and heard."""
        link = self._link
        return link.sent + link.refused, link.received + link.answered + link.malformed + link.unheard


class Dialer:
    """One connection to one named peer."""

    def __init__(
        self,
        link: Link,
        socket: SyncSocket,
        endpoint: str,
        keys: Keys | None,
        peer: str,
        silent_looks: int = 0,
        patience: Patience | None = None,
    ) -> None:
        """
        Args:
            peer: name of the peer whose key is expected.
            silent_looks: see `LinkSilence`; 0: the peer may be silent.
            patience: none: that of a peer which may be far.
        Raises:
            EndpointRefused: it is no endpoint, or may not be used without keys.
        """
        self._patience = patience or Patience(BOUNDS)
        curve.prepare(socket, endpoint, keys, self._patience.handshake_ms)
        self.link = link
        link.endpoint = endpoint
        link.peer = peer if keys is not None else ""
        self.is_up = False
        self.is_told_down = False
        """True: the outage was logged."""
        self._socket = socket
        self._keys = keys
        self._tries = 0
        """Number of refused handshakes since the last good one."""
        self._made_with: tuple[str, Way] | None = None
        """Own key and the way of the last dialling; None when there was none."""
        self._host, self._port = curve.host_and_port(endpoint)
        self.dialling: Dialling | None = None
        """Dialling whose news count; None: hung up, and no news do."""
        self.waiting: Callable[[], Sequence[ConnectionNews]] = tuple
        """Takes the news that wait; set by who looks after the connection."""
        self._silence = LinkSilence(link, silent_looks)

    def dial(self) -> None:
        """Connect by the way whose turn it is; nothing happens while no key of the peer is trusted, and none known."""
        self.hang_up()
        self.waiting()  # They are of the connection before.
        self._made_with = None
        if not (ways := self._ways()):
            return
        server, address = way = ways[self._tries % len(ways)]
        if self._keys is not None:
            curve.call_as(self._socket, self._keys.pair, server)
        curve.take_address(self._socket, address)
        self._socket.setsockopt(zmq.CONNECT_TIMEOUT, self._patience.connect_ms)
        self._socket.setsockopt(zmq.HANDSHAKE_IVL, self._patience.handshake_ms)
        self._patience.begin(boot_ns())
        self._made_with = (self._keys.public if self._keys is not None else "", way)
        self._dialled = f"tcp://[{address}]:{self._port}" if ":" in address else f"tcp://{address}:{self._port}"
        self._socket.connect(self._dialled)
        self.dialling = Dialling()

    def takes(self, news: ConnectionNews) -> ConnectionEvent | None:
        """The event that these news mean; None: they are of a connection that was hung up, or mean nothing."""
        if self.dialling is None:
            return None
        event, now = self.dialling.takes(news), boot_ns()
        if news.event is ConnectionEvent.CONNECTED:
            self._patience.begin(now)
        elif event is ConnectionEvent.PROVEN:
            self._patience.proven(now)
        elif event is ConnectionEvent.BROKEN_OFF and self._patience.broken_off(now):
            return ConnectionEvent.NOT_IN_TIME
        return event

    def is_silent(self) -> bool:
        """Look; True: the connection is thought to be up, and nothing was heard on it for too long."""
        return self.is_up and self._silence.has_lasted()

    def has_key(self) -> bool:
        """True if there is a key to expect, or none is needed."""
        return self._keys is None or bool(self._servers())

    def tries_several(self) -> bool:
        """True if the peer may have one of several keys, which are tried in turn."""
        return len(self._servers()) > 1

    def hang_up(self) -> None:
        if self.dialling is not None:
            self.dialling = None
            self.link.is_hung_up = True
            with contextlib.suppress(zmq.ZMQError):  # libzmq has given it up by itself.
                self._socket.disconnect(self._dialled)
            self.link.settle()

    def look_at_keys(self) -> None:
        """Take what has changed in the key directory."""
        if self._keys is not None:
            self._keys.look()

    def is_outdated(self) -> bool:
        """True if a key of the last dialling is no longer ours or trusted, or a missing key or address is there now."""
        if self._keys is None:
            return False
        if self._made_with is None:
            return bool(self._ways())
        own, (server, _) = self._made_with
        return own != self._keys.public or server not in self._servers()

    def has_other_way(self) -> bool:
        """An attempt has failed; True: the peer may be found at another address, or with another patience."""
        if self._patience.unanswered(boot_ns()):
            return True
        return self._made_with is not None and any(one != self._made_with[1][1] for one in self._addresses())

    def trouble(self, wait_s: float) -> str:
        """Reason why nothing can be dialled; empty: something can. Waits so long for the first answer about a name."""
        if not self.has_key():
            return NO_KEY
        if NAMES.addresses(self._host, wait_s):
            return ""
        return NAMES.told(self._host)

    def pause_s(self) -> float:
        """Wait after a refused handshake before the next try; short if the peer has another key to be tried."""
        self._tries += 1
        round_, is_same_round = divmod(self._tries, max(1, len(self._ways())))
        pause_ms = RECONNECT_MS if is_same_round else min(RECONNECT_MS_MAX, RECONNECT_MS << min(10, round_))
        return pause_ms / 1000

    def succeeded(self) -> None:
        """Note that the connection is there and proven. Its way is the first to be tried the next time."""
        self.is_up = True
        self.link.is_hung_up = False
        self._silence.begin()
        self.link.settle()  # A socket looks for news at most once per ms when it sends, so `send` could say False.
        self._tries = 0
        if self._made_with is not None:
            way, ways = self._made_with[1], self._ways()
            if not is_number(self._host):
                NAMES.prove(self.link.endpoint, way[1])
            self._tries = ways.index(way) if way in ways else 0

    def _ways(self) -> list[Way]:
        """Keys and addresses with which the peer may be found; those that were good come first."""
        servers = self._servers() if self._keys is not None else ("",)
        return [(server, address) for server in servers for address in self._addresses()]

    def _addresses(self) -> tuple[str, ...]:
        return NAMES.ways(self.link.endpoint, self._host)

    def _servers(self) -> tuple[str, ...]:
        if self._keys is None:
            return ()
        if self.link.peer == ANY_PLACE:
            return self._keys.keys_of_places()
        return self._keys.keys_of(self.link.peer)


class BlockingDialer:
    """A dialer for a program without a loop: it does what is due whenever `mind` is called."""

    def __init__(self, dialer: Dialer, monitor: Monitor) -> None:
        self._dialer = dialer
        self._monitor = monitor
        self._dial_at: Instant | None = None
        self._look_at = Instant(0)
        self._fate = NOBODY
        dialer.waiting = monitor.take
        dialer.link.at_close.append(monitor.close)

    @property
    def fate(self) -> str:
        """End of the last try, in words, or how far this one has come."""
        dialling = self._dialer.dialling
        return MUTE if self._fate == NOBODY and dialling is not None and dialling.is_mute else self._fate

    def wait_until_up(self, timeout_s: float) -> None:
        """Dial and wait for a proven connection.

        Raises:
            PeerUnreachable: there is none within `timeout_s`; tells the fate of the last try.
        """
        link = self._dialer.link
        if not self._dialer.has_key():
            raise PeerUnreachable(link.endpoint, f"no key of {link.peer!r} is trusted here; albireo keys trust")
        self.begin()
        deadline = boot_ns() + int(timeout_s * SECOND)
        while not self._dialer.is_up:
            now = boot_ns()
            if now >= deadline:
                raise PeerUnreachable(link.endpoint, self.fate)
            self._monitor.wait(min(MIND_S, (min(deadline, self._dial_at or deadline) - now) / SECOND))
            self.mind()

    def mind(self) -> list[bool]:
        """Take the events of the connection, and dial when it is time to.

        Returns:
            In order: True for each time it was made, False for each time it ended.
        """
        changes = []
        for news in self._monitor.take():
            match event := self._dialer.takes(news):
                case ConnectionEvent.PROVEN:
                    self._dialer.succeeded()
                    self._fate = NOBODY
                    self._dial_at = None
                    changes.append(True)
                case ConnectionEvent.REFUSED | ConnectionEvent.BROKEN_OFF | ConnectionEvent.NOT_IN_TIME:
                    self._dialer.hang_up()
                    self._note_fate(event)
                    self._dial_at = Instant(boot_ns() + int(self._dialer.pause_s() * SECOND))
                case ConnectionEvent.ENDED:
                    self._dialer.is_up = False
                    self._dial_at = self._dial_at or Instant(boot_ns() + int(STANDSTILL_S * SECOND))
                    changes.append(False)
                case ConnectionEvent.RETRIED if self._dialer.has_other_way():
                    self._dial_at = Instant(boot_ns() + int(self._dialer.pause_s() * SECOND))
                case _:
                    pass  # Nothing to do, or news of a connection that was hung up.
        if self._is_outdated():
            if self._dialer.is_up:
                changes.append(False)
            self._dialer.is_up, self._dial_at = False, None
            self.begin(wait_s=0.0)
        elif self._dial_at is None and self._dialer.dialling is None:
            self.begin(wait_s=0.0)
        elif self._dial_at is not None and boot_ns() >= self._dial_at:
            self._dial_at = None
            self._dialer.dial()
        return changes

    def _is_outdated(self) -> bool:
        """Look, each `MIND_S`, whether the key directory has changed so that the connection is to be made anew."""
        if boot_ns() < self._look_at:
            return False
        self._look_at = Instant(boot_ns() + int(MIND_S * SECOND))
        self._dialer.look_at_keys()
        return self._dialer.is_outdated()

    def _note_fate(self, event: ConnectionEvent) -> None:
        """Keep that it refuses our key, although it breaks off whenever another key than its own is expected of it."""
        is_known = self._fate == ConnectionEvent.REFUSED.value and self._dialer.tries_several()
        if event is ConnectionEvent.REFUSED or not is_known:
            self._fate = event.value

    def begin(self, wait_s: float = FIRST_ANSWER_S) -> None:
        """Dial, and wait at most so long for the address; `mind` says when the connection is there."""
        self._fate = self._dialer.trouble(wait_s) or NOBODY
        self._dialer.dial()

    def descriptor(self) -> int:
        """Readable when `mind` has something to take."""
        return self._monitor.descriptor()
