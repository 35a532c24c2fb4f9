"""The ZAP handler of one actor, which says who is let in. The actor's own loop runs it.

libzmq asks at each handshake, over `inproc://zeromq.zap.01` of the same context:

    request   "1.0"  request id  domain  address  identity  mechanism  credentials (CURVE: the public key, 32 bytes)
    answer    "1.0"  request id  status  text     user id   metadata

Status 200 lets the peer in, and its public key as 64 hexadecimal digits becomes the user id of each of its messages;
400 ends its handshake. No answer, or nobody to answer, lets nobody in, because every listener enforces its domain.

Spec: RFC 27/ZAP 1.0. Decision: ADR-0101.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import zmq

from albireo.runtime.link.link import SyncSocket, plain_address

ADDRESS: Final = "inproc://zeromq.zap.01"
VERSION: Final = b"1.0"
NOT_TRUSTED: Final = "key not trusted"
NameOf = Callable[[str], str]


class HandshakeRefusal(msgspec.Struct, frozen=True):
    """A handshake that was refused, for the log."""

    domain: str
    address: str
    """Network address of the peer, without its port."""
    public: str
    """Public key that the peer proved to have; empty if it has proved none."""
    reason: str


class Verdict(msgspec.Struct, frozen=True):
    """Answer to one request."""

    reply: list[bytes]
    refusal: HandshakeRefusal | None


def judge(request: Sequence[bytes], domains: dict[str, NameOf]) -> Verdict | None:
    """Decide one request.

    Args:
        request: its parts, from the version on.
        domains: for each listener's domain, the name of a public key (empty: not trusted).
    Returns:
        The verdict; None: it is no request, so there is nothing to answer, and nobody is let in.
    """
    if len(request) < 6 or request[0] != VERSION:
        return None
    _, request_id, domain, address, _, mechanism, *credentials = request
    public = credentials[0].hex() if mechanism == b"CURVE" and len(credentials) == 1 else ""
    name_of = domains.get(domain.decode("utf-8", "replace"))
    if name_of is None:
        reason = "no such domain"
    elif len(public) != 64:
        reason = "no CURVE key"
    elif not name_of(public):
        reason = NOT_TRUSTED
    else:
        return Verdict([VERSION, request_id, b"200", b"", public.encode(), b""], None)
    refusal = HandshakeRefusal(
        domain=domain.decode("utf-8", "replace"),
        address=plain_address(address.decode("utf-8", "replace")),
        public=public,
        reason=reason,
    )
    return Verdict([VERSION, request_id, b"400", reason.encode(), b"", b""], refusal)


class ZapHandler:
    """Socket of the handler, and the domains that it knows. One per context."""

    def __init__(self, socket: SyncSocket, on_refusal: Callable[[HandshakeRefusal], object]) -> None:
        """`socket`: a ROUTER of the listeners' context, not bound yet."""
        socket.bind(ADDRESS)
        self.domains: dict[str, NameOf] = {}
        self.refused = 0
        self._socket = socket
        self._on_refusal = on_refusal

    def descriptor(self) -> int:
        return int(self._socket.getsockopt(zmq.FD))

    def answer(self) -> None:
        """Answer all requests that wait."""
        while not self._socket.closed and int(self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            asker, _, *request = self._socket.recv_multipart(zmq.DONTWAIT)
            verdict = judge(request, self.domains)
            if verdict is None:
                continue
            with contextlib.suppress(zmq.ZMQError):  # The asker went away, and its session with it.
                self._socket.send_multipart([asker, b"", *verdict.reply], zmq.DONTWAIT)
            if verdict.refusal is not None:
                self.refused += 1
                self._on_refusal(verdict.refusal)

    def close(self) -> None:
        self._socket.close(0)
