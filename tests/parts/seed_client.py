"""Parts that tests share: a client of the first publish/subscribe (its section 1.1): plain pyzmq, nothing of ours.

Each request has a REQ socket of its own. If no answer comes it is closed, and the request goes to the other endpoint.
"""

import time
from collections.abc import Sequence

import zmq

from tests.parts.waiting import PATIENCE_S

RESPONSE = b"ACK [SUCCESS]: GET RESPONSE ON TOPIC %s: "


class SeedClient:
    """One client with its port, which is its name."""

    def __init__(self, endpoints: Sequence[str], port: int, timeout_ms: int = 2_500, settle_ms: int = 2_000) -> None:
        self.resent = 0
        """Requests of which an answer was missed."""
        self._endpoints = endpoints
        self._port = port
        self._timeout_ms, self._settle_ms = timeout_ms, settle_ms
        self._first = 0
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()

    def ask(self, request: bytes) -> bytes:
        """The answer, however long that takes; the endpoint that gave the last one is asked first."""
        number = self._first
        ends = time.monotonic() + PATIENCE_S
        while True:
            assert time.monotonic() < ends, request
            with self._context.socket(zmq.REQ) as socket:
                socket.linger = 0
                socket.connect(self._endpoints[number])
                socket.send(request)
                if socket.poll(self._timeout_ms):
                    self._first = number
                    return socket.recv()
                time.sleep(self._settle_ms / 1000)  # As it does, before it closes the socket.
            self.resent += 1
            number = (number + 1) % len(self._endpoints)

    def put(self, topic: bytes, message: bytes) -> bytes:
        return self.ask(b"PUT %s %s" % (topic, message))

    def get(self, topic: bytes) -> bytes | None:
        """The next message; None: there is none."""
        answer = self.ask(b"GET FROM %d ON TOPIC : %s" % (self._port, topic))
        if answer == b"ACK [FAILURE]: NO MESSAGE ON TOPIC %s FOR SUBSCRIBER %d" % (topic, self._port):
            return None
        head = RESPONSE % topic
        assert answer.startswith(head), answer
        return answer[len(head) :]

    def subscribe(self, topic: bytes) -> bytes:
        return self.ask(b"SUBSCRIBE %s FROM SUBSCRIBER %d" % (topic, self._port))

    def unsubscribe(self, topic: bytes) -> bytes:
        return self.ask(b"UNSUBSCRIBE %s FROM SUBSCRIBER %d" % (topic, self._port))

    def close(self) -> None:
        self._context.term()
