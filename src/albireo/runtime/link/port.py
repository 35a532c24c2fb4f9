"""The listening socket of an endpoint, and how to have its kernel answer nobody for a while.

A filter of packets that lets nothing through is put on the listening socket: the kernel drops what asks for a new
connection, as if it had been lost, and who asks tries again. Connections that are there have no such filter. Closing
the socket, or a full queue that is refused, would say that the process is gone (probe.py).
"""

import contextlib
import ctypes
import os
import socket
import stat
import struct
from typing import Final

from albireo.runtime.errors import AddressTaken
from albireo.runtime.link import curve
from albireo.runtime.link.names import NAMES, is_number

Port = socket.socket
BACKLOG: Final = 128
"""Connections that may wait to be accepted; further ones get no answer for a while."""
_ATTACH_FILTER: Final = 26
_DETACH_FILTER: Final = 27
_TAKE_NOTHING: Final = struct.pack("HBBI", 0x06, 0, 0, 0)
"""One instruction of the packet filter: return 0, no byte of the packet (socket(7), SO_ATTACH_FILTER)."""


def opened(name: str, endpoint: str) -> Port:
    """The port of an endpoint, listening; of a name at every address of this machine, IPv4 and IPv6.

    What a name stands for is another question on each machine, and may change: it says how others find this one.

    Args:
        name: name of the link, for the error.
    Raises:
        AddressTaken: somebody else listens there, or it is no address of this machine.
    """
    host, number = curve.host_and_port(endpoint)
    is_everywhere = host != "localhost" and not is_number(host)
    host = ("::" if socket.has_dualstack_ipv6() else "0.0.0.0") if is_everywhere else NAMES.addresses(host)[0]
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        port = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if host == "::" and is_everywhere:
                port.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            port.bind((host, number))
            port.listen(BACKLOG)
        except OSError:
            port.close()
            raise
    except OSError as error:
        where = ", at every address of this machine, since it is no number" if is_everywhere else ""
        raise AddressTaken(name, f"{endpoint}{where}: {error.strerror}") from error
    return port


def is_socket(descriptor: int) -> bool:
    """True if it is open, and a socket."""
    try:
        return stat.S_ISSOCK(os.fstat(descriptor).st_mode)
    except OSError:
        return False


def answer(port: Port, *, is_on: bool) -> None:
    """Answer who asks for a connection, or nobody. A kernel that knows no filters goes on answering."""
    with contextlib.suppress(OSError):
        if is_on:
            port.setsockopt(socket.SOL_SOCKET, _DETACH_FILTER, 0)
        else:
            program = ctypes.create_string_buffer(_TAKE_NOTHING, len(_TAKE_NOTHING))
            port.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(program)))
