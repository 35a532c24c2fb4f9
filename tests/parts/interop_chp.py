"""Parts that tests share: a CHP client of plain sockets, written from RFC 12, at the face of a real node."""

import contextlib
import json
import struct
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import zmq

from albireo.client import connect
from albireo.client.target import AnyTarget
from albireo.face.chp.face import ChpFace
from albireo.face.chp.settings import ChpSettings
from albireo.machine.chp.server import ChpNoted
from albireo.model.instant import SECOND
from albireo.node.core.actor import create
from albireo.runtime import running
from albireo.runtime.clock import boot_ns
from tests.parts.core_actor import ARGUMENTS
from tests.parts.foreign import ForeignSockets
from tests.parts.port import free_row
from tests.parts.waiting import PATIENCE_S


class RfcClient:
    """A client as the RFC has it: frames by hand, nothing of ours."""

    def __init__(self, foreign: ForeignSockets, port: int, subtree: bytes = b"") -> None:
        self.subtree = subtree
        self.map: dict[bytes, Any] = {}
        self.sequence = 0
        self.hugs = 0
        at = "tcp://127.0.0.1"
        self.snapshot = foreign.open(zmq.DEALER, f"{at}:{port}")
        self.subscriber = foreign.open(zmq.SUB, f"{at}:{port + 1}", SUBSCRIBE=subtree)
        self.subscriber.setsockopt(zmq.SUBSCRIBE, b"HUGZ")
        self.publisher = foreign.open(zmq.PUB, f"{at}:{port + 2}")
        foreign.wait_for(self.publisher, zmq.EVENT_HANDSHAKE_SUCCEEDED)

    def synchronise(self) -> None:
        while not self._hears(self.subscriber.recv_multipart()):  # The subscription is there once this is heard.
            pass
        self.map.clear()
        self.snapshot.send_multipart([b"ICANHAZ?", self.subtree])
        while True:
            key, sequence, uuid, properties, value = self.snapshot.recv_multipart()
            assert (len(sequence), uuid, properties) == (8, b"", b"")
            if key == b"KTHXBAI":
                assert value == self.subtree
                (self.sequence,) = struct.unpack("!q", sequence)
                return
            assert key.startswith(self.subtree)
            self.map[key] = json.loads(value)

    def wait_for(self, is_so: Callable[[], object]) -> None:
        ends = boot_ns() + PATIENCE_S * SECOND
        while not is_so():
            assert boot_ns() < ends, self.map
            self._hears(self.subscriber.recv_multipart())

    def value(self, key: bytes) -> object:
        return self.map[key]["value"] if key in self.map else None

    def set(self, key: bytes, value: bytes, properties: bytes = b"", uuid: bytes = b"") -> None:
        self.publisher.send_multipart([key, bytes(8), uuid, properties, value])

    def _hears(self, parts: list[bytes]) -> bool:
        """Take a message of the subscription; True: it was a HUGZ."""
        key, sequence, uuid, properties, value = parts
        assert (len(sequence), uuid, properties) == (8, b"", b"")
        if key == b"HUGZ":
            assert (sequence, value) == (bytes(8), b"")
            self.hugs += 1
            return True
        (number,) = struct.unpack("!q", sequence)
        if number > self.sequence:
            self.sequence = number
            if value:
                self.map[key] = json.loads(value)
            else:
                self.map.pop(key, None)
        return False


@contextlib.contextmanager
def face_at(
    node: AnyTarget, *, is_set_allowed: bool = False, other: str = ""
) -> Iterator[tuple[ChpFace, int, list[ChpNoted]]]:
    """A face of the node, or of this other one that it knows, in a thread."""
    port = free_row(3)
    notes: list[ChpNoted] = []
    client = connect(node, waits=False, timeout_s=PATIENCE_S)
    settings = ChpSettings(bind=f"tcp://127.0.0.1:{port}", of=other, allow_set=is_set_allowed)
    face = ChpFace(client, settings, notes.append)
    thread = threading.Thread(target=face.run)
    thread.start()
    try:
        yield face, port, notes
    finally:
        face.stop()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


@contextlib.asynccontextmanager
async def node(data: Path) -> AsyncIterator[None]:
    async with running(create(ARGUMENTS | {"node": "site"}), data):
        yield
