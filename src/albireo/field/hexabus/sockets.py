"""Sockets of one end of a Hexabus network: one for its own address, one for the group, on one interface."""

import asyncio
import errno
import socket
from collections.abc import Callable, Sequence
from typing import Final

from albireo.codec.hexabus.packets import GROUP, HOPS
from albireo.machine.hexabus.device import HexAddress

DATAGRAMS_MAX: Final = 256
"""Datagrams that are taken in one turn."""
SOURCES_MAX: Final = 1_000
DATAGRAM_BYTES: Final = 2_048
BUFFER_BYTES: Final = 1 << 20

Came = Sequence[tuple[HexAddress, bytes]]
Heard = Callable[[Came, bool], None]
"""Takes the datagrams of one turn, each with where it is from; and whether they were sent to the group."""


def open_socket(interface: str, host: str, port: int) -> socket.socket:
    """A socket bound to an address of the interface; to the group it joins. Raises OSError."""
    made = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    try:
        index = socket.if_nametoindex(interface)
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, HOPS)
        if host == GROUP:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            group = socket.inet_pton(socket.AF_INET6, host) + index.to_bytes(4, "little")
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, group)
            made.setsockopt(socket.IPPROTO_IPV6, getattr(socket, "IPV6_MULTICAST_ALL", 29), 0)
        made.bind((host, port))
    except BaseException:  # Whatever it was goes on; the socket does not stay open.
        made.close()
        raise
    return made


class HexSocket:
    """A socket in a loop."""

    def __init__(self, made: socket.socket, heard: Heard, *, is_group: bool = False, listens: bool = True) -> None:
        """`listens`: False: what comes waits in the kernel until `listen`."""
        self.socket = made
        self._heard = heard
        self._is_group = is_group
        self._loop = asyncio.get_running_loop()
        self._sources: dict[tuple[str, int], HexAddress] = {}
        """Sources as they were met, so that each is made once; a few hundred at most."""
        self.unsent = 0
        """Datagrams that the kernel did not take; they are lost, as on a wire."""
        if listens:
            self.listen()

    def listen(self) -> None:
        self._loop.add_reader(self.socket, self._ready)

    def send(self, to: HexAddress, data: bytes) -> None:
        try:
            self.socket.sendto(data, (to.host, to.port))
        except OSError:
            self.unsent += 1

    def close(self) -> None:
        self._loop.remove_reader(self.socket)
        self.socket.close()

    def _ready(self) -> None:
        came = []
        for _ in range(DATAGRAMS_MAX):
            try:
                data, (host, port, *_) = self.socket.recvfrom(DATAGRAM_BYTES)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno not in (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH):
                    raise
                continue  # An answer of the network to what was sent.
            came.append((self._sources.get((host, port)) or self._source(host, port), data))
        if came:
            self._heard(came, self._is_group)

    def _source(self, host: str, port: int) -> HexAddress:
        if len(self._sources) >= SOURCES_MAX:
            self._sources.clear()
        found = self._sources[host, port] = HexAddress(host.partition("%")[0], port)
        return found
