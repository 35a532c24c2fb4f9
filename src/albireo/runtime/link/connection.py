"""News of a socket's connections, as libzmq tells them: made, proven, refused, ended; and whose news they are.

libzmq tells news of all connections of a socket through one queue, without saying which one a handshake belongs to. By
the time they are read the connection may be one that was hung up on since. A dialling therefore takes news only in the
order in which one connection causes them, and once it is over it takes none.
"""

import struct
from enum import Enum
from typing import Final

import msgspec
import zmq

from albireo.runtime.link.link import SyncSocket

WATCHED: Final = (
    zmq.EVENT_ACCEPTED
    | zmq.EVENT_CONNECTED
    | zmq.EVENT_CONNECT_RETRIED
    | zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_DISCONNECTED
)


class ConnectionEvent(Enum):
    """Event of one connection."""

    ACCEPTED = "tcp connection of a peer taken"
    CONNECTED = "tcp connection made"
    PROVEN = "handshake done"
    REFUSED = "our key is not trusted there"
    BROKEN_OFF = "handshake broken off: the other side has another key, or went away"
    NOT_IN_TIME = "handshake not done in time: the way there is slow or loses much, or no node answers at its end"
    ENDED = "connection ended"
    RETRIED = "tried again"


_MEANING: Final = {
    zmq.EVENT_ACCEPTED: ConnectionEvent.ACCEPTED,
    zmq.EVENT_CONNECTED: ConnectionEvent.CONNECTED,
    zmq.EVENT_CONNECT_RETRIED: ConnectionEvent.RETRIED,
    zmq.EVENT_HANDSHAKE_SUCCEEDED: ConnectionEvent.PROVEN,
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL: ConnectionEvent.BROKEN_OFF,
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL: ConnectionEvent.BROKEN_OFF,
    zmq.EVENT_HANDSHAKE_FAILED_AUTH: ConnectionEvent.REFUSED,
    zmq.EVENT_DISCONNECTED: ConnectionEvent.ENDED,
}


MUTE: Final = "somebody is there and has not spoken: busy, stopped, starting, or far"


class ConnectionNews(msgspec.Struct, frozen=True):
    """News of one connection."""

    event: ConnectionEvent
    descriptor: int = 0
    """Descriptor of the connection, if it is ACCEPTED, CONNECTED or ENDED."""


class Dialling:
    """One dialling, from `connect` until it is hung up: which news are of the connection that it has now.

        waits --RETRIED--> waits: an attempt has failed
        waits --CONNECTED--> made --PROVEN--> up --ENDED--> waits
                              +---REFUSED, BROKEN_OFF--> waits     (and the dialer hangs up)

    All other news are of an earlier connection, and nothing follows from them.
    """

    def __init__(self) -> None:
        self._made: int | None = None
        """Descriptor of the connection; None: there is none now."""
        self._is_up = False
        self._is_ended = False
        """The connection has ended, and libzmq has not said yet that it will make it again."""

    @property
    def is_mute(self) -> bool:
        """A connection is there, and its other side has not spoken."""
        return self._made is not None and not self._is_up

    def takes(self, news: ConnectionNews) -> ConnectionEvent | None:
        """The event that these news mean for this dialling; None: none."""
        match news.event:
            case ConnectionEvent.CONNECTED:
                was_up, self._is_up = self._is_up, False
                self._made = news.descriptor
                return ConnectionEvent.ENDED if was_up else None
            case ConnectionEvent.PROVEN:
                is_own = self._made is not None and not self._is_up
                self._is_up = self._is_up or is_own
            case ConnectionEvent.REFUSED | ConnectionEvent.BROKEN_OFF:
                is_own = self._made is not None and not self._is_up
                self._made = None if is_own else self._made
            case ConnectionEvent.ENDED:
                is_own = self._made == news.descriptor
                self._is_ended = self._is_ended or is_own
                self._made, self._is_up = (None, False) if is_own else (self._made, self._is_up)
            case ConnectionEvent.RETRIED:
                is_own, self._is_ended = self._made is None and not self._is_ended, False
            case ConnectionEvent.ACCEPTED:
                is_own = False
        return news.event if is_own else None


class Monitor:
    """The news of one socket, in their order."""

    def __init__(self, watched: SyncSocket, socket: SyncSocket) -> None:
        """`socket`: a PAIR of the same context, which brings the events of `watched`."""
        address = f"inproc://events-{int(watched.getsockopt(zmq.FD))}"
        watched.monitor(address, WATCHED)
        socket.connect(address)
        self._watched = watched
        self._socket = socket

    def descriptor(self) -> int:
        return int(self._socket.getsockopt(zmq.FD))

    def take(self) -> list[ConnectionNews]:
        """News that wait."""
        told = []
        while not self._socket.closed and int(self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            event, value = struct.unpack("=HI", self._socket.recv_multipart(zmq.DONTWAIT)[0])
            told.append(ConnectionNews(_MEANING[zmq.Event(event)], value))
        return told

    def wait(self, timeout_s: float) -> bool:
        """Block until an event waits; False after `timeout_s`. For programs without a loop."""
        return bool(self._socket.poll(int(timeout_s * 1000), zmq.POLLIN))

    def close(self) -> None:
        """End the monitor, before the watched socket is closed."""
        if not self._socket.closed:
            self._watched.disable_monitor()
            self._socket.close(0)
