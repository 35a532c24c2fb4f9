"""Address of the master, on whichever machine leads.

It is given to the interface with a short life and prolonged while this process lives, so the kernel itself takes it
away when the process ends, however it does. Devices are told where it is now; their own look would take half a minute.

Spec: rtnetlink(7), RTM_NEWADDR; RFC 4861, 4.4 and 7.2.6 (unsolicited Neighbor Advertisement).
"""

import contextlib
import errno
import os
import socket
import struct
from ipaddress import IPv6Interface
from pathlib import Path
from typing import Final

LIFE_S: Final = 3
"""Seconds for which the address is given; the kernel looks once a second or so."""
_NEW_ADDRESS: Final = 20
_DELETE_ADDRESS: Final = 21
_ACKNOWLEDGED, _REQUEST, _REPLACE, _CREATE = 0x4, 0x1, 0x100, 0x400
_ERROR: Final = 2
_NO_DETECTION: Final = 0x02
"""IFA_F_NODAD: the member before has given it up, or its lease is over."""
_ADDRESS, _LOCAL, _CACHE = 1, 2, 6
_ADVERTISEMENT, _TARGET_LINK = 136, 2
_OVERRIDE: Final = 0x20000000
_ND_HOPS: Final = 255
_ALL_NODES: Final = "ff02::1"
_HEAD: Final = struct.Struct("=IHHII")
_BODY: Final = struct.Struct("=BBBBI")
_LIVES: Final = struct.Struct("=IIII")


class MasterAddress:
    """The address of the master on one interface."""

    def __init__(self, interface: str, address: IPv6Interface) -> None:
        self._interface = interface
        self._address = address

    def take(self) -> None:
        """Have the address for LIFE_S more. Raises OSError: there is no such interface, or this is not allowed."""
        lives = _attribute(_CACHE, _LIVES.pack(LIFE_S, LIFE_S, 0, 0))
        self._ask(_NEW_ADDRESS, _REPLACE | _CREATE, lives)
        self._advertise()

    def give_up(self) -> None:
        """Have it no longer; what is not there is no error."""
        with contextlib.suppress(OSError):
            self._ask(_DELETE_ADDRESS, 0, b"")

    def _advertise(self) -> None:
        """Tell all neighbours that the address is here."""
        mac = bytes.fromhex(Path(f"/sys/class/net/{self._interface}/address").read_text().strip().replace(":", ""))
        target = self._address.ip.packed
        told = (
            struct.pack("!BBHI", _ADVERTISEMENT, 0, 0, _OVERRIDE) + target + struct.pack("!BB", _TARGET_LINK, 1) + mac
        )
        index = socket.if_nametoindex(self._interface)
        with socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6) as raw:
            raw.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
            raw.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, _ND_HOPS)
            raw.bind((str(self._address.ip), 0))
            raw.sendto(told, (_ALL_NODES, 0, 0, index))

    def _ask(self, kind: int, flags: int, more: bytes) -> None:
        index = socket.if_nametoindex(self._interface)
        packed = self._address.ip.packed
        body = _BODY.pack(socket.AF_INET6, self._address.network.prefixlen, _NO_DETECTION, 0, index)
        body += _attribute(_LOCAL, packed) + _attribute(_ADDRESS, packed) + more
        head = _HEAD.pack(_HEAD.size + len(body), kind, _REQUEST | _ACKNOWLEDGED | flags, 1, 0)
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as asked:
            asked.settimeout(1.0)
            asked.send(head + body)
            answer = asked.recv(4096)
        (code,) = struct.unpack_from("=i", answer, _HEAD.size)
        if struct.unpack_from("=H", answer, 4)[0] == _ERROR and code:
            raise OSError(-code, f"{os.strerror(-code)}: {self._address} on {self._interface}{_remedy(-code)}")


def _attribute(kind: int, data: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(data), kind) + data


def _remedy(code: int) -> str:
    return "; the node needs CAP_NET_ADMIN and CAP_NET_RAW, or has_address = true" if code == errno.EPERM else ""
