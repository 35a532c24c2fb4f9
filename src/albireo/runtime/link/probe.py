"""Probe: one plain TCP connection attempt that shows whether a process is behind an endpoint.

    REFUSED   the other kernel lives and says that nobody listens: the process is gone (or its port is closed)
    OPEN      somebody listens; nothing is said about whether it still does its work: the kernel takes connections for
              a process that is paused or hangs
    SILENT    no answer in time, or none that proves anything: a broken cable, a machine without power, a firewall, a
              full backlog

Only REFUSED proves anything (rule 12 of the pair), and only if it came as an RST. Linux reports the ICMP message "port
unreachable" of a firewall in between as ECONNREFUSED too; its error queue tells the two apart, and ICMP is SILENT here.
A device that forges an RST can't be told from the real one.

Decision: ADR-0102.
"""

import asyncio
import contextlib
import errno
import socket
import struct
from collections.abc import Callable
from enum import StrEnum
from typing import Final

from albireo.runtime.link import curve
from albireo.runtime.link.names import NAMES, is_number

PROBES_MAX: Final = 64
"""Probes under way at a time; a further one is SILENT at once."""
_IP_RECVERR: Final = 11
_IPV6_RECVERR: Final = 25
_ABORT_ON_CLOSE: Final = struct.pack("ii", 1, 0)
"""SO_LINGER: an RST instead of a FIN, so that no half-closed connection stays behind on either side."""


class Reach(StrEnum):
    """Result of one attempt."""

    REFUSED = "refused"
    OPEN = "open"
    SILENT = "silent"


async def reach(endpoint: str, timeout_s: float) -> Reach:
    """Try to connect to `endpoint`.

    Args:
        endpoint: tcp://HOST:PORT. Of a name the address is tried at which keys have proven who is there: a refusal
            at any other, which a wrong answer of a name server may name, says nothing. Without one it is SILENT.
        timeout_s: time after which it is SILENT. A live kernel in the same network answers within a millisecond or two.
    Raises:
        EndpointRefused: it is no endpoint.
    """
    host, port = curve.host_and_port(endpoint)
    address = host if is_number(host) else NAMES.proven(endpoint)
    if address is None:
        return Reach.SILENT
    loop = asyncio.get_running_loop()
    with contextlib.suppress(TimeoutError, OSError):
        async with asyncio.timeout(timeout_s):
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            with socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC) as attempt:
                return await _attempt(loop, attempt, (address, port))
    return Reach.SILENT


async def _attempt(loop: asyncio.AbstractEventLoop, attempt: socket.socket, address: tuple[object, ...]) -> Reach:
    attempt.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT_ON_CLOSE)
    if attempt.family == socket.AF_INET6:
        attempt.setsockopt(socket.IPPROTO_IPV6, _IPV6_RECVERR, 1)
    else:
        attempt.setsockopt(socket.IPPROTO_IP, _IP_RECVERR, 1)
    try:
        await loop.sock_connect(attempt, address)
    except ConnectionRefusedError:
        return Reach.SILENT if _came_by_icmp(attempt) else Reach.REFUSED
    if attempt.getsockname() == attempt.getpeername():
        # Both ends are ours: the kernel chose the wanted port for this end, where nobody listens.
        return Reach.REFUSED
    return Reach.OPEN


def _came_by_icmp(attempt: socket.socket) -> bool:
    """True if the error queue holds a message of a router or firewall; an RST leaves nothing there."""
    try:
        attempt.recvmsg(1, 1024, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)
    except OSError as error:
        return error.errno != errno.EAGAIN
    return True


class Probes:
    """Probes that are under way on behalf of one actor."""

    def __init__(self, call: Callable[..., object]) -> None:
        """`call`: runs a function in the actor's next turn."""
        self._call = call
        self._tasks: set[asyncio.Task[Reach]] = set()

    def begin(self, endpoint: str, timeout_s: float, on_answer: Callable[[Reach], object]) -> None:
        """Try `endpoint` and call `on_answer` in a turn of the actor; see `reach`.

        Raises:
            EndpointRefused: it is no endpoint.
        """
        curve.host_and_port(endpoint)
        if len(self._tasks) >= PROBES_MAX:
            self._call(on_answer, Reach.SILENT)
            return
        task = asyncio.get_running_loop().create_task(reach(endpoint, timeout_s))
        self._tasks.add(task)

        def tell(done: asyncio.Task[Reach]) -> None:
            self._tasks.discard(done)
            if not done.cancelled():
                self._call(on_answer, done.result())

        task.add_done_callback(tell)

    def close(self) -> None:
        """Cancel all probes; none is answered any more."""
        for task in self._tasks:
            task.cancel()
