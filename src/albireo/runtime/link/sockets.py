"""ZeroMQ sockets. The only module of the project that creates one.

A link (link.py) is one socket, owned by one actor, never shared between threads. Two shapes:

    bind("core")     ROUTER, many peers; `send` names the peer (`to`), ROUTER_MANDATORY says when it is gone or full
    connect("core")  DEALER with an identity of its own, drawn anew for each link

Both use unix sockets; tcp.py makes them over TCP, with keys. Programs of others, which have neither our keys nor our
messages, are served by plain.py.

Rules (ADR-0020, ADR-0022):
- Queues are bounded by high-water marks, messages by ZMQ_MAXMSGSIZE.
- ZeroMQ loses messages at a reconnect: position, acknowledgement and asking again live above, in the protocols.

NB: libzmq bounds the size of a part and the number of messages, not the number of parts of one message. Whoever can
reach the socket could make it hold one endless message; the directory's mode (0700) is what keeps others away, and on
TCP the keys.
"""

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import zmq

from albireo.codec.message import AnyMessage
from albireo.model.instant import SECOND
from albireo.runtime.clock import boot_ns
from albireo.runtime.directory import RunDirectory
from albireo.runtime.errors import AddressTaken, NodeSilent
from albireo.runtime.link.connection import Monitor
from albireo.runtime.link.dialing import MIND_S, RECONNECT_MS, RECONNECT_MS_MAX, TCP_LIMITS, BlockingDialer, Dialer
from albireo.runtime.link.keys import Keys
from albireo.runtime.link.link import DEFAULT_LIMITS, Drained, Letter, Link, LinkLimits, Part, SyncSocket

__all__ = [
    "DEFAULT_LIMITS",
    "Drained",
    "Letter",
    "Link",
    "LinkLimits",
    "Part",
    "Sockets",
    "SyncLink",
    "SyncSocket",
    "new_identity",
]

SOCKETS_MAX: Final = 256
"""Sockets of one actor. A TCP link takes three: its own and two that bring its events."""
EVENTS_MAX: Final = 100_000
"""Connection events that may wait for the actor's loop, as when it hangs for seconds while a peer redials."""


class Sockets:
    """The ZeroMQ side of one actor: its context and its links. Closing it is a barrier."""

    def __init__(self, run: RunDirectory | None = None) -> None:
        """`run`: directory of the unix sockets, closed with them; None for TCP alone."""
        self._run = run
        # One context per actor, so that its end waits for its own links only and a thread can be released alone.
        self._context: zmq.Context[SyncSocket] = zmq.Context(io_threads=1)
        self._context.setsockopt(zmq.MAX_SOCKETS, SOCKETS_MAX)
        self.links: list[Link] = []

    def bind(self, name: str, limits: LinkLimits, *, takes_over: bool) -> Link:
        """A ROUTER on `name`.

        Args:
            name: name of the link.
            limits: bounds of the link.
            takes_over: a stale socket file may be replaced (the caller holds the data directory's lock).
        Raises:
            AddressTaken: somebody answers there, or a stale file is in the way and may not be replaced.
        """
        assert self._run is not None
        if self._run.answers(name):
            raise AddressTaken(name, f"another process answers on {self._run.path / name}")
        if not takes_over and (self._run.path / name).exists():
            raise AddressTaken(name, f"{self._run.path / name} is left over and this process does not hold the lock")
        socket = self.router(limits)
        socket.bind(f"ipc://{self._run.address(name)}")  # libzmq removes a file that is there, therefore the checks.
        return self.keep(Link(name, b"", socket, limits.linger_ms, self._run.path / name))

    def connect(self, name: str, limits: LinkLimits, identity: bytes) -> Link:
        """A DEALER towards `name`, which may come and go."""
        assert self._run is not None
        socket = self.dealer(limits, identity)
        socket.connect(f"ipc://{self._run.address(name)}")
        return self.keep(Link(name, identity, socket, limits.linger_ms))

    def router(self, limits: LinkLimits) -> SyncSocket:
        """A socket for a bound link, not bound yet."""
        socket = self._open(zmq.ROUTER, limits)
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        # A peer's identity is drawn for each link: the same one again is the same socket after a reconnect.
        socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        return socket

    def dealer(self, limits: LinkLimits, identity: bytes) -> SyncSocket:
        """A socket for a connected link, not connected yet."""
        socket = self._open(zmq.DEALER, limits)
        socket.setsockopt(zmq.IDENTITY, identity)
        socket.setsockopt(zmq.IMMEDIATE, int(not limits.holds_for_peer))
        socket.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, RECONNECT_MS_MAX)
        return socket

    def publisher(self, limits: LinkLimits) -> SyncSocket:
        """A PUB socket, not bound yet: what a subscriber does not take is dropped."""
        return self._open(zmq.PUB, limits)

    def collector(self, limits: LinkLimits) -> SyncSocket:
        """A SUB socket that takes everything, not bound yet."""
        socket = self._open(zmq.SUB, limits)
        socket.setsockopt(zmq.SUBSCRIBE, b"")
        return socket

    def pair(self) -> SyncSocket:
        """A socket that brings the connection events of another one."""
        socket = self._context.socket(zmq.PAIR)
        # A full one stops libzmq's I/O thread, and with it every link of the actor.
        socket.setsockopt(zmq.RCVHWM, EVENTS_MAX)
        return socket

    def close(self, *, lingers: bool) -> None:
        """Close every link and wait until nothing of them is left; at most the longest linger."""
        for link in self.links:
            link.close(link.linger_ms if lingers else 0)
        self.links.clear()
        self._context.destroy(0)  # With sockets that are no links yet, which it would wait for without end.
        if self._run is not None:
            self._run.close()

    def _open(self, kind: int, limits: LinkLimits) -> SyncSocket:
        socket = self._context.socket(kind)
        socket.setsockopt(zmq.SNDHWM, limits.send_messages_max)
        socket.setsockopt(zmq.RCVHWM, limits.receive_messages_max)
        socket.setsockopt(zmq.MAXMSGSIZE, limits.message_bytes_max)
        socket.setsockopt(zmq.LINGER, limits.linger_ms)
        socket.setsockopt(zmq.TCP_MAXRT, limits.stall_ms)
        return socket

    def keep(self, link: Link) -> Link:
        """Close this link with the others."""
        self.links.append(link)
        return link


def new_identity(name: str) -> bytes:
    """A unique identity, so that messages to an earlier run of the same actor never reach this one."""
    return f"{name}#{secrets.token_hex(8)}".encode()


class SyncLink:
    """A plain client of a node for programs without a loop: the CLI, tests, notebooks.

    with SyncLink(data, "core") as link:
        link.send(Ask(request_id=1, what="status"))
        answer = link.receive(timeout_s=5.0)

    with SyncLink.tcp("tcp://10.0.0.5:7001", Keys.load(directory), peer="root[primary]") as link: ...
    """

    def __init__(self, data: Path, name: str, limits: LinkLimits = DEFAULT_LIMITS) -> None:
        """Connect to `name` of the node in `data`.

        Raises:
            NodeSilent: nothing listens there.
            DirectoryUnsafe: the run directory is open to others.
        """
        try:
            run = RunDirectory(data, create=False)
        except FileNotFoundError as error:
            raise NodeSilent(data, name, "no node has ever run there") from error
        if not run.answers(name):
            run.close()
            raise NodeSilent(data, name, "nothing listens")
        sockets = Sockets(run)
        self._begin(sockets, sockets.connect(name, limits, new_identity(f"client-{os.getpid()}")), None)

    @classmethod
    def tcp(
        cls, endpoint: str, keys: Keys | None, limits: LinkLimits = TCP_LIMITS, peer: str = "", timeout_s: float = 3.0
    ) -> "SyncLink":
        """Connect to another machine; returns when both ends have proven who they are.

        Args:
            endpoint: tcp://HOST:PORT.
            keys: own and trusted keys; None trusts everybody, on a loopback address only.
            limits: bounds of the link.
            peer: name of the peer whose key is expected.
            timeout_s: time for the first connection; later outages are waited out by `receive`.
        Raises:
            PeerUnreachable: no peer is there, or another one than expected, or our key is not trusted.
            EndpointRefused: it is no endpoint, or may not be used without keys.
        """
        sockets = Sockets()
        identity = new_identity(f"client-{os.getpid()}")
        socket = sockets.dealer(limits, identity)
        link = cls.__new__(cls)
        try:
            remote = sockets.keep(Link(endpoint, identity, socket, limits.linger_ms))
            dialer = BlockingDialer(Dialer(remote, socket, endpoint, keys, peer), Monitor(socket, sockets.pair()))
            link._begin(sockets, remote, dialer)
            dialer.wait_until_up(timeout_s)
        except BaseException:  # Whatever it was goes on; the socket does not stay open.
            sockets.close(lingers=False)
            raise
        return link

    def _begin(self, sockets: Sockets, link: Link, dialer: BlockingDialer | None) -> None:
        self._sockets = sockets
        self._link = link
        self._dialer = dialer

    def send(self, message: AnyMessage, raw: Sequence[Part] = ()) -> bool:
        """Send a message; False: the queue is full because the node does not read, or TCP is not connected."""
        self._mind()
        return self._link.send(message, raw)

    def receive(self, timeout_s: float) -> tuple[AnyMessage, list[Part]] | None:
        """Next message and its raw parts; None after `timeout_s` without a message. Malformed messages are skipped."""
        deadline = boot_ns() + int(timeout_s * SECOND)
        while True:
            self._mind()
            left_s = max(0, deadline - boot_ns()) / SECOND
            if self._link.wait_for_input(left_s if self._dialer is None else min(left_s, MIND_S)):
                letters = self._link.drain(1, 1).letters
                if letters:
                    return letters[0].message, letters[0].raw
            elif boot_ns() >= deadline:
                return None

    def close(self) -> None:
        self._sockets.close(lingers=True)

    def _mind(self) -> None:
        if self._dialer is not None:
            self._dialer.mind()

    def __enter__(self) -> "SyncLink":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
