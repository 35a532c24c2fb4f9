"""Options of a ZeroMQ socket for TCP: own key, expected key, times.

Without keys (NULL mechanism: everybody is let in, everything is readable) only a numeric loopback address is taken.
Options hold for the bind or connect calls that follow, so they are set right before each of them.

Decisions: ADR-0100 (keys), ADR-0101 (who is let in), ADR-0102 (times).
"""

import contextlib
import ipaddress
import re
from typing import Final

import zmq

from albireo.runtime.errors import EndpointRefused
from albireo.runtime.link.key_files import KeyPair
from albireo.runtime.link.keys import Keys
from albireo.runtime.link.link import SyncSocket
from albireo.runtime.link.patience import BOUNDS, CONNECT_MS

KEEPALIVE_S: Final = 5
"""Idle time after which the kernel checks a connection, so that one to a vanished peer is cleared away."""
_ENDPOINT = re.compile(r"tcp://(\[[0-9a-fA-F:.]+\]|[^\s/:\[\]]+):([0-9]{1,5}|\*)")


def host_and_port(endpoint: str) -> tuple[str, int]:
    """The two halves of `tcp://HOST:PORT`; port 0 for `*`.

    Raises:
        EndpointRefused: it is no such endpoint.
    """
    found = _ENDPOINT.fullmatch(endpoint)
    if found is None:
        raise EndpointRefused(endpoint, "write tcp://HOST:PORT, an IPv6 address in brackets")
    host, port = found[1].strip("[]"), 0 if found[2] == "*" else int(found[2])
    if port > 65535:
        raise EndpointRefused(endpoint, "a port is at most 65535")
    return host, port


def is_loopback(endpoint: str) -> bool:
    """True if it is a numeric address that never leaves this machine. A name or a wildcard is none."""
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(host_and_port(endpoint)[0])
        if isinstance(address, ipaddress.IPv4Address):
            return address in ipaddress.IPv4Network("127.0.0.0/8")
        return address == ipaddress.IPv6Address("::1")
    return False


def check(endpoint: str, keys: Keys | None) -> None:
    """Refuse an endpoint that must not be used, as without keys every one but the loopback.

    Raises:
        EndpointRefused: it is no endpoint, or without keys it would reach another machine, or be reached by one.
    """
    host_and_port(endpoint)
    if keys is None and not is_loopback(endpoint):
        raise EndpointRefused(
            endpoint, "without keys only a loopback address may be used, such as tcp://127.0.0.1:5555; or make keys"
        )


def prepare(socket: SyncSocket, endpoint: str, keys: Keys | None, handshake_ms: int = BOUNDS.most_ms) -> None:
    """Set the options of every TCP link, before its first bind or connect.

    Nothing is held for a peer that is not there, whatever the limits say: it would arrive stale, and a queue that
    outlives its connection is the other way into the abort of `set_times`.

    Raises:
        EndpointRefused: it is no endpoint, or may not be used without keys.
    """
    check(endpoint, keys)
    set_times(socket, endpoint, handshake_ms)
    if socket.getsockopt(zmq.TYPE) == zmq.DEALER:
        socket.setsockopt(zmq.IMMEDIATE, 1)


def set_times(socket: SyncSocket, endpoint: str, handshake_ms: int = BOUNDS.most_ms) -> None:
    """Set after which times connections count as ended; `handshake_ms`: time for a peer to prove its key.

    ZMTP heartbeats stay off: they prove only that libzmq's thread lives, and libzmq 4.3.5 aborts the whole process when
    one is due on a broken connection whose receive queue is full (libzmq issues 3937, 4364; seen here).
    """
    take_address(socket, host_and_port(endpoint)[0])
    socket.setsockopt(zmq.CONNECT_TIMEOUT, CONNECT_MS)
    socket.setsockopt(zmq.HANDSHAKE_IVL, handshake_ms)
    socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
    socket.setsockopt(zmq.TCP_KEEPALIVE_IDLE, KEEPALIVE_S)
    socket.setsockopt(zmq.TCP_KEEPALIVE_INTVL, 1)


def take_address(socket: SyncSocket, address: str) -> None:
    """Prepare the socket for an address of its family."""
    socket.setsockopt(zmq.IPV6, int(":" in address))


def serve_as(socket: SyncSocket, pair: KeyPair, domain: str) -> None:
    """CURVE server with this pair; nobody gets in unless the handler for `domain` says so."""
    socket.setsockopt(zmq.CURVE_SERVER, 1)
    socket.setsockopt(zmq.CURVE_SECRETKEY, pair.secret_bytes)
    socket.setsockopt_string(zmq.ZAP_DOMAIN, domain)
    # Without it a server lets in everybody while no handler is there.
    socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)


def call_as(socket: SyncSocket, pair: KeyPair, server: str) -> None:
    """CURVE client with this pair, for a server that has the secret of the public key `server`."""
    socket.setsockopt(zmq.CURVE_SERVERKEY, bytes.fromhex(server))
    socket.setsockopt(zmq.CURVE_PUBLICKEY, pair.public_bytes)
    socket.setsockopt(zmq.CURVE_SECRETKEY, pair.secret_bytes)
