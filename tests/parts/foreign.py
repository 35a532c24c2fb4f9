"""Sockets of another program: plain pyzmq, nothing of ours."""

from typing import Any, Self

import zmq

from tests.parts.waiting import PATIENCE_S

Socket = Any
"""zmq.Socket; its options have no useful types."""


class ForeignSockets:
    """A context and its sockets, which are kept until it is closed."""

    def __init__(self) -> None:
        self._context: zmq.Context[Any] = zmq.Context()
        self._kept: list[Socket] = []

    def open(self, kind: int, endpoint: str, **options: Any) -> Socket:
        """A socket connected there; `options` by their names in zmq, such as RCVHWM=5."""
        socket = self._context.socket(kind)
        self._kept.append(socket)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RCVTIMEO, int(PATIENCE_S * 1000))
        socket.setsockopt(zmq.SNDTIMEO, int(PATIENCE_S * 1000))
        for name, value in options.items():
            socket.setsockopt(getattr(zmq, name), value)
        monitor = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_SUCCEEDED)
        monitor.setsockopt(zmq.RCVTIMEO, int(PATIENCE_S * 1000))
        self._kept.append(monitor)
        socket.connect(endpoint)
        return socket

    def wait_for(self, socket: Socket, event: int) -> None:
        """Wait until this has happened to a connection of the socket."""
        monitor = self._kept[self._kept.index(socket) + 1]
        while int.from_bytes(monitor.recv_multipart()[0][:2], "little") != event:
            pass

    def close(self) -> None:
        for socket in self._kept:
            socket.close(0)
        self._context.term()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
