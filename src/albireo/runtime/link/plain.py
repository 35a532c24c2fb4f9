"""Plain sockets: bound TCP sockets for programs of others, which have neither our keys nor our messages.

Who may connect is decided by addresses alone: those of this machine, or those that are listed. Connections from others
are closed before a byte of them is read.

Not for a node's own links: those prove who is at the other end (tcp.py). Decision: ADR-0174.
"""

import contextlib
import ipaddress
import math
import os
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final

import zmq

from albireo.runtime.errors import AddressTaken, EndpointRefused
from albireo.runtime.link.curve import host_and_port, is_loopback, set_times
from albireo.runtime.link.link import LinkLimits, Part, SyncSocket
from albireo.runtime.link.sockets import Sockets

MakeSocket = Callable[[Sockets, LinkLimits], SyncSocket]
"""`Sockets.router`, `Sockets.publisher` or `Sockets.collector`."""

PARTS_KEPT: Final = 8
"""Parts of a message that are kept; of one that has more the rest is thrown away, so that it is none."""


class Fate(Enum):
    """How a send ended."""

    QUEUED = "queued"
    FULL = "full"
    """The peer does not read; nothing of the message was sent."""
    GONE = "gone"
    """There is no such peer."""


class PlainSocket:
    """One bound socket. For one thread only."""

    def __init__(self, socket: SyncSocket) -> None:
        self._socket = socket

    def send(self, parts: Sequence[Part]) -> Fate:
        """Hand over a message; never blocks. To a ROUTER the first part says who gets it."""
        try:
            self._socket.send_multipart(parts, zmq.DONTWAIT)
        except zmq.ZMQError as error:
            if error.errno == zmq.EHOSTUNREACH:
                return Fate.GONE
            if error.errno != zmq.EAGAIN:
                raise
            return Fate.FULL
        return Fate.QUEUED

    def drain(self, count_max: int) -> list[list[bytes]]:
        """Take waiting messages, at most so many; of a ROUTER each begins with the sender's identity."""
        taken: list[list[bytes]] = []
        with contextlib.suppress(zmq.Again):
            while len(taken) < count_max:
                parts = [self._socket.recv(zmq.DONTWAIT)]
                while self._socket.getsockopt(zmq.RCVMORE):
                    part = self._socket.recv()
                    if len(parts) < PARTS_KEPT:
                        parts.append(part)
                taken.append(parts)
        return taken

    def descriptor(self) -> int:
        """Descriptor that becomes readable when there may be news; for a loop that waits by itself."""
        return int(self._socket.getsockopt(zmq.FD))


class PlainSockets:
    """Plain sockets, and the wait for any of them. For one thread but for `wake`."""

    def __init__(self) -> None:
        self._sockets = Sockets()
        self._bound: list[SyncSocket] = []
        self._poller = zmq.Poller()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poller.register(self._wake, zmq.POLLIN)

    def bind(self, make: MakeSocket, endpoint: str, limits: LinkLimits, peers: Sequence[str] = ()) -> PlainSocket:
        """Listen at an endpoint.

        Args:
            make: makes the socket.
            endpoint: tcp://ADDRESS:PORT.
            limits: bounds; `stall_ms` is the time after which a peer that does not read is cut off.
            peers: addresses or networks that are let in; none: all of this machine.
        Raises:
            EndpointRefused: it is no endpoint, or open to others than those listed.
            AddressTaken: somebody else listens there.
        """
        networks = check_open_to(endpoint, peers)
        socket = make(self._sockets, limits)
        self._bound.append(socket)
        set_times(socket, endpoint)
        for network in networks:
            socket.setsockopt_string(zmq.TCP_ACCEPT_FILTER, network)
        try:
            socket.bind(endpoint)
        except zmq.ZMQError as error:
            raise AddressTaken(endpoint, str(error.strerror)) from error
        if socket.getsockopt(zmq.TYPE) != zmq.PUB:
            self._poller.register(socket, zmq.POLLIN)
        return PlainSocket(socket)

    def wait(self, timeout_s: float) -> None:
        """Wait until a message may be there, somebody wakes us, or the time is over."""
        self._poller.poll(math.ceil(timeout_s * 1000))
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake)

    def wake(self) -> None:
        """End the wait; from any thread, and from a handler of a signal."""
        os.eventfd_write(self._wake, 1)

    def close(self, linger_ms: int = 0) -> None:
        """Close all; messages that were sent have `linger_ms` to leave."""
        for socket in self._bound:
            socket.close(linger_ms)
        self._sockets.close(lingers=False)
        os.close(self._wake)


def check_open_to(endpoint: str, peers: Sequence[str]) -> list[str]:
    """The networks that are let in at an endpoint; none: only this machine can reach it.

    Raises:
        EndpointRefused: it is no endpoint, a peer is no address, or others could reach it and none are listed.
    """
    host, _ = host_and_port(endpoint)
    networks = []
    for peer in peers:
        try:
            networks.append(str(ipaddress.ip_network(peer, strict=False)))
        except ValueError as error:
            raise EndpointRefused(endpoint, f"{peer!r} is no address of a peer, and no network") from error
    if not is_loopback(endpoint) and not networks:
        reason = "whoever reaches it could read everything: use a loopback address, or list the addresses of peers"
        raise EndpointRefused(endpoint, reason)
    if not is_loopback(endpoint) and host != "*":
        try:
            ipaddress.ip_address(host)
        except ValueError as error:
            raise EndpointRefused(endpoint, "a name may come to mean another address: give the address") from error
    return networks
