"""One ZeroMQ socket of one actor: sends, drains, counts.

Rules (ADR-0020, ADR-0021):
- The descriptor of a socket is edge-like: a drain goes on until the socket says that it is empty, or is continued in
  the next turn; after a send the socket is asked again (EVENTS).
- A full or unknown peer makes `send` answer False.
- A malformed message is counted, reported to the owner and gone; the peer's other messages are taken as before.
- Parts are copied when they are sent: without a copy a send is faster on the whole, but the thread that later gives
  the memory back needs the GIL, and single sends took 200 ms of a turn (measured). Large parts are taken without one.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import zmq

from albireo.codec.errors import DecodeError
from albireo.codec.message import MESSAGE_BYTES_MAX, AnyMessage, decode, encode

if TYPE_CHECKING:
    SyncSocket = zmq.Socket[bytes]
else:
    SyncSocket = zmq.Socket

Part = bytes | memoryview

PARTS_MAX: Final = 4096
"""Parts of one message that are kept, its map included; further ones are dropped and the protocol misses them."""
LARGE_BYTES: Final = 65536
"""From here on a part is taken without a copy."""


_NOT_SENT: Final = (zmq.EAGAIN, zmq.EHOSTUNREACH)
"""The queue is full; nobody of that name is there."""


def _ignore(*_: object) -> None:
    """Nobody listens."""


class LinkLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one link. Overflow rule: refuse (the sender's `send` answers False)."""

    send_messages_max: int = 1000
    """Messages waiting for one peer (ZMQ_SNDHWM)."""
    receive_messages_max: int = 1000
    """Messages of one peer waiting for us (ZMQ_RCVHWM)."""
    message_bytes_max: int = MESSAGE_BYTES_MAX
    """Largest part; a peer that sends a larger one is disconnected (ZMQ_MAXMSGSIZE)."""
    linger_ms: int = 500
    """How long a clean stop waits for what was sent (ZMQ_LINGER). A crash waits not at all."""
    holds_for_peer: bool = True
    """connect: messages are held while the peer is not there yet. False: `send` answers False then (ZMQ_IMMEDIATE).
    Over TCP nothing is ever held."""
    stall_ms: int = 2000
    """TCP: what the other side has not acknowledged, or not taken because it does not read, for so long ends the
    connection (TCP_USER_TIMEOUT). Above it for a peer that may rest with full queues."""


DEFAULT_LIMITS: Final = LinkLimits()


class Letter(msgspec.Struct, frozen=True):
    """One message that came in."""

    link: "Link"
    sender: bytes
    """Identity of the peer: what `Link.send(..., to=)` takes. Empty on a link made by `connect`."""
    message: AnyMessage
    raw: list[Part]
    """Raw parts. A memoryview is read-only and keeps its message alive; `bytes(part)` to keep it longer."""
    peer: str = ""
    """Under which name the key of the peer is trusted. Empty on a link without keys: anybody may have said it."""


class Drained(msgspec.Struct, frozen=True):
    """What one drain gave."""

    letters: list[Letter]
    count: int
    """Messages taken, malformed ones too."""
    bytes_taken: int
    is_empty: bool
    """False: a bound was reached and there may be more."""


class Link:
    """One socket of one actor. Made by `ActorContext.bind` and `ActorContext.connect`; for its thread only."""

    def __init__(
        self, name: str, identity: bytes, socket: SyncSocket, linger_ms: int, file: Path | None = None
    ) -> None:
        """`file`: the socket file of a bound link; it goes when the link is closed."""
        self.name = name
        """The bound name: `core`, `history`, `boot`, `logger` or whatever an actor binds."""
        self.identity = identity
        """Our own, empty for a bound link."""
        self.linger_ms = linger_ms
        """How long a clean stop waits for what was sent."""
        self.sent = 0
        self.received = 0
        self.refused = 0
        """Sends that answered False."""
        self.malformed = 0
        """Messages that were no messages."""
        self.on_malformed: Callable[[Link, bytes, DecodeError], object] = _ignore
        """Told of each malformed message; the owner logs at a limited rate."""
        self.on_sent: Callable[[Link], object] = _ignore
        """Told after each send, done or not: the owner asks `has_input` before it waits on the descriptor again."""
        self.on_connection: Callable[[bool], object] = _ignore
        """TCP only. A connection is there, proven by its keys (True), or it has ended (False). On a bound link for each
        of its peers. False says nothing about the peer's process: see probe.py."""
        self.name_of: Callable[[str], str] | None = None
        """Bound with keys: the name of a public key, empty if it is trusted no more."""
        self.peer = ""
        """Connected with keys: the name of the only one who can be at the other end."""
        self.endpoint = ""
        """TCP only: where it is bound (with the real port), or whereto it connects."""
        self.untrusted = 0
        """Messages dropped because the key of their sender had been revoked in the meantime."""
        self.at_close: list[Callable[[], object]] = []
        """Called right before the descriptor becomes invalid."""
        self._socket = socket
        self._is_bound = not identity
        self._file = file

    def send(self, message: AnyMessage, raw: Sequence[Part] = (), to: bytes = b"") -> bool:
        """Hand over a message. Never blocks.

        Args:
            message: what is said.
            raw: parts sent as they are.
            to: identity of the peer, needed on a bound link, ignored on a connected one.
        Returns:
            False: the peer is unknown (gone) or its queue is full; nothing of the message was sent. True says that the
            message was queued, not that it arrived.
        """
        return self.send_encoded(encode(message, raw), to)

    def send_encoded(self, parts: Sequence[Part], to: bytes = b"") -> bool:
        """Like `send` for parts made by `codec.message.encode`, so that one encoding serves many peers."""
        assert not self._is_bound or to, f"a message to nobody on {self.name}"
        try:
            self._socket.send_multipart([to, *parts] if self._is_bound else parts, zmq.DONTWAIT)
        except zmq.ZMQError as error:
            if error.errno not in _NOT_SENT:
                raise
            self.refused += 1
            is_sent = False
        else:
            self.sent += 1
            is_sent = True
        self.on_sent(self)  # Also when nothing left: the attempt has taken the descriptor's signal all the same.
        return is_sent

    def drain(self, count_max: int, bytes_max: int) -> Drained:
        """Take what is there: at most `count_max` messages, and no further one once `bytes_max` is reached."""
        letters: list[Letter] = []
        bytes_taken = taken = 0
        while taken < count_max and bytes_taken < bytes_max:
            parts = self._receive()
            if parts is None:
                return Drained(letters, taken, bytes_taken, True)
            taken += 1
            bytes_taken += sum(map(len, parts))
            letter = self._read(parts)
            if letter is not None:
                letters.append(letter)
        return Drained(letters, taken, bytes_taken, False)

    def has_input(self) -> bool:
        """Ask the socket again. Needed after each send, and after a drain that stopped at a bound: both swallow the
        descriptor's signal. A drain that found the socket empty has asked already."""
        events: int = self._socket.get(zmq.EVENTS)  # type: ignore[assignment]  # This option is an int.
        return bool(events & zmq.POLLIN)

    def settle(self) -> None:
        """Have the socket take in at once what has become of its connections; it does so on its own within a ms or at
        the next receive. Letters that came meanwhile are not forgotten."""
        self.has_input()
        self.on_sent(self)

    def wait_for_input(self, timeout_s: float) -> bool:
        """Block until a message is there; False after `timeout_s`. For links outside of a loop."""
        return bool(self._socket.poll(int(timeout_s * 1000), zmq.POLLIN))

    def descriptor(self) -> int:
        return int(self._socket.getsockopt(zmq.FD))

    def close(self, linger_ms: int = 0) -> None:
        """Release the socket; what was sent has up to `linger_ms` to leave. Closing twice is fine."""
        if not self._socket.closed:
            for release in self.at_close:
                release()
            if self._file is not None:
                self._file.unlink(missing_ok=True)  # While we still listen, so it can't be a successor's.
            self._socket.close(linger_ms)

    @property
    def is_closed(self) -> bool:
        return self._socket.closed

    def _receive(self) -> list[Part] | None:
        """The parts of the next message, None if there is none right now.

        As frames, because a frame knows its length and whether more follows; asking the socket costs twice a receive.
        """
        receive = self._socket.recv
        try:
            frame = receive(zmq.DONTWAIT, copy=False)
        except zmq.Again:
            return None
        if self.name_of is not None:
            self.peer = self.name_of(str(frame.get("User-Id")))
        parts: list[Part] = [frame.bytes]
        while frame.more:
            frame = receive(copy=False)
            if len(parts) < PARTS_MAX:
                parts.append(frame.buffer if len(frame) >= LARGE_BYTES else frame.bytes)
        return parts

    def _read(self, parts: list[Part]) -> Letter | None:
        sender = bytes(parts.pop(0)) if self._is_bound else b""
        if self.name_of is not None and not self.peer:
            self.untrusted += 1
            return None
        try:
            message, raw = decode(parts)
        except DecodeError as error:
            self.malformed += 1
            self.on_malformed(self, sender, error)
            return None
        self.received += 1
        return Letter(self, sender, message, raw, self.peer)
