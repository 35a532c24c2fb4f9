"""One ZeroMQ socket of one actor: sends, drains, counts.

Rules (ADR-0020, ADR-0021):
- The descriptor of a socket signals changes only: a drain goes on until the socket says that it is empty, or is
  continued in the next turn; after a send the socket is asked again (EVENTS).
- A full or unknown peer makes `send` answer False.
- A malformed message is counted, reported to the owner and gone; the peer's other messages are taken as before. So is
  one of too many parts or bytes: it is dropped whole.
- With keys the name of the sender's key decides which messages are heard; others are counted and gone (ADR-0144).
- Parts are copied when they are sent: without a copy a send is faster on the whole, but the thread that later gives
  the memory back needs the GIL, and single sends took 200 ms of a turn (measured). Large parts are taken without one.
"""

from collections.abc import Callable, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import zmq

from albireo.codec.bounds import MESSAGE_BYTES_MAX, PARTS_MAX, TOTAL_BYTES_MAX
from albireo.codec.errors import DecodeError
from albireo.codec.message import AnyMessage, Ask, FeedHello, decode, encode
from albireo.model.principal import local_name
from albireo.model.status import Knock
from albireo.model.tree.session import LOCALHOST

if TYPE_CHECKING:
    SyncSocket = zmq.Socket[bytes]
else:
    SyncSocket = zmq.Socket

Part = bytes | memoryview
Hears = Callable[[str], frozenset[type]]
"""Gives the messages that are heard from the holder of the key trusted under a name."""

KNOCKS_MAX: Final = 32
"""Most refused keys that a link remembers."""
LARGE_BYTES: Final = 65536
"""Size from which a received part is taken without a copy."""


# As plain numbers, because the operators of pyzmq's flags are functions of Python.
_EVENTS: Final = int(zmq.EVENTS)
_INPUT: Final = int(zmq.POLLIN)
_AT_ONCE: Final = int(zmq.DONTWAIT)
_AND_MORE: Final = int(zmq.DONTWAIT | zmq.SNDMORE)

_NOT_SENT: Final = (zmq.EAGAIN, zmq.EHOSTUNREACH)
"""Errors of a send: the queue is full; the peer is not there."""


def _address_of(frame: zmq.Frame) -> str:
    """Address of the peer that sent a message; empty: it speaks a ZMTP before 3.0, where messages have none."""
    try:
        return plain_address(str(frame.get("Peer-Address")))
    except zmq.ZMQError:
        return ""


def plain_address(address: str) -> str:
    """An address as people write it: a socket for both families tells IPv4 as ::ffff:10.0.0.5."""
    return address.removeprefix("::ffff:")


def _ignore(*_: object) -> None:
    """Callback that does nothing."""


class LinkLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one link. Overflow rule: refuse (the sender's `send` answers False)."""

    send_messages_max: int = 1000
    """Messages waiting for one peer (ZMQ_SNDHWM)."""
    receive_messages_max: int = 1000
    """Messages of one peer waiting for us (ZMQ_RCVHWM)."""
    message_bytes_max: int = MESSAGE_BYTES_MAX
    """Largest part; a peer that sends a larger one is disconnected (ZMQ_MAXMSGSIZE)."""
    linger_ms: int = 500
    """Time that a clean stop waits for messages to leave (ZMQ_LINGER). A crash does not wait."""
    holds_for_peer: bool = True
    """True: a connected link holds messages while the peer is not there yet; False: `send` answers False then
    (ZMQ_IMMEDIATE). Over TCP nothing is ever held."""
    silence_ms: int = 0
    """TCP, of a connected link: time after which it is dialled anew if something was said on it, if only in vain, and
    nothing heard nor `answered`; doubling up to a minute while that does not help. 0: the peer may be silent."""
    is_near: bool = False
    """TCP, of a connected link: no attempt to connect takes longer than one to a near peer (patience.py)."""
    stall_ms: int = 2000
    """Time after which a TCP connection ends if the other side has not acknowledged data, or not taken them because it
    does not read (TCP_USER_TIMEOUT). A peer that may rest with full queues needs a longer one."""


DEFAULT_LIMITS: Final = LinkLimits()


class Letter(msgspec.Struct, frozen=True):
    """One message that came in."""

    link: "Link"
    sender: bytes
    """Identity of the peer, for `Link.send(..., to=)`. Empty on a link made by `connect`."""
    message: AnyMessage
    raw: list[Part]
    """Raw parts. A memoryview is read-only and keeps its message alive; `bytes(part)` to keep it longer."""
    principal: str = ""
    """Who sent it: name under which the sender's key is trusted; `local:UID` on a bound link of this machine; empty on
    a link without keys: anybody may have sent the letter."""
    address: str = ""
    """Address of the machine that a question or a follower's hello came from, on a bound link; else empty."""


class Drained(msgspec.Struct, frozen=True):
    """Result of one drain."""

    letters: list[Letter]
    count: int
    """Number of messages taken, malformed ones included."""
    bytes_taken: int
    is_empty: bool
    """True: no message is left; False: a bound was reached, and there may be more."""


class Link:
    """One socket of one actor. Made by `ActorContext.bind` and `ActorContext.connect`; for its thread only."""

    is_hung_up = False
    """Connected: True from the time when its dialer hung up until the next connection is proven. `send` answers False:
    libzmq would queue a message for the connection that it is about to end."""
    _last: zmq.Frame | None = None
    """First frame of the last message, which knows where it came from."""

    def __init__(
        self, name: str, identity: bytes, socket: SyncSocket, linger_ms: int, file: Path | None = None
    ) -> None:
        """`file`: the socket file of a bound link; it goes when the link is closed."""
        self.name = name
        """The bound name: `core`, `history`, `boot`, `logger` or whatever an actor binds."""
        self.identity = identity
        """Identity of this end; empty for a bound link."""
        self.linger_ms = linger_ms
        """Time that a clean stop waits for messages to leave."""
        self.sent = self.received = self.refused = 0
        """Numbers of messages sent and received, and of sends that answered False."""
        self.answered = self.malformed = 0
        """Numbers of messages that were answered on another link, as the owner counts them, and of malformed ones."""
        self.on_malformed: Callable[[Link, bytes, DecodeError], object] = _ignore
        """Callback for each malformed message; the owner logs at a limited rate."""
        self.on_sent: Callable[[Link], object] = _ignore
        """Callback after each send, done or not: the owner asks `has_input` before it waits on the descriptor again."""
        self.on_connection: Callable[[bool], object] = _ignore
        """TCP only: callback when a connection is there, proven by its keys (True), or has ended (False); on a bound
        link for each peer. False says nothing about the peer's process: see probe.py."""
        self.name_of: Callable[[str], str] | None = None
        """Bound with keys: function that gives the name of a public key, empty if it is trusted no more."""
        self.peer = ""
        """Connected with keys: name of the only peer that can be at the other end. Bound: principal of the last
        message."""
        self.endpoint = ""
        """TCP only: endpoint at which the link is bound (with the real port), or to which it connects."""
        self.untrusted = 0
        """Number of messages dropped because the key of their sender had been revoked in the meantime."""
        self.hears: Hears | None = None
        """With keys: says which messages are heard from whom; None: all of them, from everybody."""
        self.unheard = 0
        """Number of messages dropped because they are not heard from the holder of their sender's key."""
        self.on_unheard: Callable[[Link, str], object] = _ignore
        """Callback for each of them, with the name of the message; empty: nothing at all is heard from that peer."""
        self.at_close: list[Callable[[], object]] = []
        """Functions called right before the descriptor becomes invalid."""
        self._socket = socket
        self._is_bound = not identity
        self._file = file

    def send(self, message: AnyMessage, raw: Sequence[Part] = (), to: bytes = b"") -> bool:
        """Hand over a message. Never blocks.

        Args:
            message: message to be encoded.
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
        if self.is_hung_up:
            self.refused += 1
            return False
        try:
            send = self._socket.send
            if self._is_bound:
                send(to, _AND_MORE)
            for part in parts[:-1]:
                send(part, _AND_MORE)
            send(parts[-1], _AT_ONCE)  # Only the first part is ever refused: libzmq takes the rest of what it began.
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
        """Take waiting messages: at most `count_max`, and no further one once `bytes_max` is reached."""
        letters: list[Letter] = []
        bytes_taken = taken = 0
        while taken < count_max and bytes_taken < bytes_max:
            if taken == 1 and not self.has_input():  # Most drains find one, and to receive nothing is an exception.
                return Drained(letters, taken, bytes_taken, True)
            received = self._receive()
            if received is None:
                return Drained(letters, taken, bytes_taken, True)
            parts, size_bytes, fault = received
            taken += 1
            bytes_taken += size_bytes
            letter = self._read(parts, fault)
            if letter is not None:
                letters.append(letter)
        return Drained(letters, taken, bytes_taken, False)

    def has_input(self) -> bool:
        """Ask the socket whether messages wait.

        It is needed after each send, and after a drain that stopped at a bound: both swallow the descriptor's signal. A
        drain that found the socket empty has asked already.
        """
        events: int = self._socket.get(_EVENTS)  # type: ignore[assignment]  # This option is an int.
        return bool(events & _INPUT)

    def settle(self) -> None:
        """Have the socket note changes of its connections at once; else it does so within a ms or at the next receive.

        Letters that came meanwhile are not forgotten.
        """
        self.has_input()
        self.on_sent(self)

    def wait_for_input(self, timeout_s: float) -> bool:
        """Block until a message is there; False after `timeout_s`. For links outside of a loop."""
        return bool(self._socket.poll(int(timeout_s * 1000), zmq.POLLIN))

    def descriptor(self) -> int:
        return int(self._socket.getsockopt(zmq.FD))

    def close(self, linger_ms: int = 0) -> None:
        """Release the socket; messages that were sent have `linger_ms` to leave. Closing twice is fine."""
        if not self._socket.closed:
            for release in self.at_close:
                release()
            if self._file is not None:
                self._file.unlink(missing_ok=True)  # While we still listen, so it can't be a successor's.
            self._socket.close(linger_ms)

    @property
    def is_closed(self) -> bool:
        return self._socket.closed

    def _receive(self) -> tuple[list[Part], int, DecodeError | None] | None:
        """The parts of the next message, its size, and what is wrong with both; None if there is none right now.

        It is received as frames, which know their length and whether more follow; asking the socket costs twice that.
        """
        receive = self._socket.recv
        try:
            frame = receive(_AT_ONCE, copy=False)
        except zmq.Again:
            return None
        self._last = frame
        if self.name_of is not None:
            self.peer = self.name_of(str(frame.get("User-Id")))
        elif self._file is not None:
            self.peer = local_name(_address_of(frame))
        parts: list[Part] = [frame.bytes]
        size_bytes, count = len(frame), 1
        while frame.more:
            frame = receive(copy=False)
            size_bytes += len(frame)
            count += 1
            if count <= PARTS_MAX and size_bytes <= TOTAL_BYTES_MAX:
                parts.append(frame.buffer if len(frame) >= LARGE_BYTES else frame.bytes)
        if len(parts) == count:
            return parts, size_bytes, None
        most = f"at most {PARTS_MAX} and {TOTAL_BYTES_MAX}"
        return parts[:1], size_bytes, DecodeError(0, f"{count} parts of {size_bytes} bytes, {most}")

    def _read(self, parts: list[Part], fault: DecodeError | None) -> Letter | None:
        sender = bytes(parts.pop(0)) if self._is_bound else b""
        if self.name_of is not None and not self.peer:
            self.untrusted += 1
            return None
        heard = self.hears(self.peer) if self.peer and self.hears is not None else None
        if heard is not None and not heard:
            self._drop_unheard("")
            return None
        try:
            if fault is not None:
                raise fault
            message, raw = decode(parts, takes_answers=not self._is_bound)
        except DecodeError as error:
            self.malformed += 1
            self.on_malformed(self, sender, error)
            return None
        if heard is not None and type(message) not in heard:
            self._drop_unheard(type(message).__name__)
            return None
        self.received += 1
        address = self._address() if self._is_bound and isinstance(message, Ask | FeedHello) else ""
        return Letter(self, sender, message, raw, self.peer, address)

    def hear(self, hears: Hears) -> None:
        """Have `hears` say from now on which messages are heard from whom; it is asked once for each name."""
        self.hears = cache(hears)

    def _address(self) -> str:
        """Address behind the last message: asked for where somebody's presence is judged, and for no batch."""
        return LOCALHOST if self._file is not None or self._last is None else _address_of(self._last)

    @cached_property
    def knocks(self) -> dict[str, Knock]:
        """Bound with keys: the latest keys that were refused, the last one last."""
        return {}

    def knocked(self, public: str, address: str, at_ns: int) -> None:
        """Remember that the holder of a key which is not trusted wanted to be let in."""
        before = self.knocks.pop(public, None)
        times = 1 + (before.times if before else 0)
        self.knocks[public] = Knock(public=public, address=address, at_ns=at_ns, times=times)
        if len(self.knocks) > KNOCKS_MAX:
            del self.knocks[next(iter(self.knocks))]

    def _drop_unheard(self, what: str) -> None:
        self.unheard += 1
        self.on_unheard(self, what)
