"""Events of a socket's connections, as libzmq tells them: made, proven, refused, ended."""

import struct
from enum import Enum
from typing import Final

import zmq

from albireo.runtime.link.link import SyncSocket

WATCHED: Final = (
    zmq.EVENT_CONNECTED
    | zmq.EVENT_CONNECT_RETRIED
    | zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_DISCONNECTED
)


class ConnectionEvent(Enum):
    """Event of one connection."""

    CONNECTED = "tcp connection made"
    PROVEN = "handshake done"
    REFUSED = "our key is not trusted there"
    BROKEN_OFF = "handshake broken off: the other side has another key, or went away"
    ENDED = "connection ended"
    RETRIED = "tried again"


_MEANING: Final = {
    zmq.EVENT_CONNECTED: ConnectionEvent.CONNECTED,
    zmq.EVENT_CONNECT_RETRIED: ConnectionEvent.RETRIED,
    zmq.EVENT_HANDSHAKE_SUCCEEDED: ConnectionEvent.PROVEN,
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL: ConnectionEvent.BROKEN_OFF,
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL: ConnectionEvent.BROKEN_OFF,
    zmq.EVENT_HANDSHAKE_FAILED_AUTH: ConnectionEvent.REFUSED,
    zmq.EVENT_DISCONNECTED: ConnectionEvent.ENDED,
}


class Monitor:
    """The events of one socket, in their order."""

    def __init__(self, watched: SyncSocket, socket: SyncSocket) -> None:
        """`socket`: a PAIR of the same context, which brings the events of `watched`."""
        address = f"inproc://events-{int(watched.getsockopt(zmq.FD))}"
        watched.monitor(address, WATCHED)
        socket.connect(address)
        self._watched = watched
        self._socket = socket

    def descriptor(self) -> int:
        return int(self._socket.getsockopt(zmq.FD))

    def take(self) -> list[ConnectionEvent]:
        """Events that wait."""
        told = []
        while not self._socket.closed and int(self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            event, _value = struct.unpack("=HI", self._socket.recv_multipart(zmq.DONTWAIT)[0])
            told.append(_MEANING[zmq.Event(event)])
        return told

    def wait(self, timeout_s: float) -> bool:
        """Block until an event waits; False after `timeout_s`. For programs without a loop."""
        return bool(self._socket.poll(int(timeout_s * 1000), zmq.POLLIN))

    def close(self) -> None:
        """End the monitor, before the watched socket is closed."""
        if not self._socket.closed:
            self._watched.disable_monitor()
            self._socket.close(0)
