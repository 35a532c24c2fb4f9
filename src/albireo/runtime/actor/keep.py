"""Keep: sockets of an actor that outlive its process, as systemd's file descriptor store has them.

Boot makes a pair of connected sockets for each actor and hands both ends to every start of it. A descriptor that was
sent into one end and not received at the other one lives on in the kernel, with all datagrams that come meanwhile.

    keep = Keep(descriptors)
    keep.put("events", socket)          # stays when this process ends
    keep.take()                         # at the next start: {"events": socket}
"""

import os
import socket
from typing import Final

NAME_BYTES_MAX: Final = 64
KEPT_MAX: Final = 16
"""Descriptors that are kept; one more is refused."""


class ActorKeeps:
    """Ends of the keeps of all actors, as boot holds them."""

    def __init__(self) -> None:
        self._ends: dict[str, tuple[int, int]] = {}

    def of(self, actor: str) -> tuple[int, int]:
        """Both ends of an actor's keep, which is empty at first."""
        if actor not in self._ends:
            one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._ends[actor] = one.detach(), other.detach()
        return self._ends[actor]

    def close(self) -> None:
        for end in (one for ends in self._ends.values() for one in ends):
            os.close(end)
        self._ends.clear()


class Keep:
    """The keep of one actor. For its process alone."""

    def __init__(self, ends: tuple[int, int]) -> None:
        """`ends`: their owner closes them."""
        self._in, self._out = ends

    def put(self, name: str, kept: socket.socket) -> None:
        """Keep a socket, in place of another one of this name. Raises OSError: there is no room."""
        found = self._received()
        old = found.pop(name, None)
        if old is not None:
            old.close()
        has_room = len(found) < KEPT_MAX
        self._send({**found, name: kept} if has_room else found)
        for one in found.values():
            one.close()
        if not has_room:
            raise OSError(f"{KEPT_MAX} sockets are kept already")

    def take(self) -> dict[str, socket.socket]:
        """Copies of all that is kept, by name; it stays kept."""
        found = self._received()
        self._send(found)
        return found

    def drop(self, name: str) -> None:
        """Keep the socket of this name no longer."""
        found = self._received()
        self._send({one: kept for one, kept in found.items() if one != name})
        for kept in found.values():
            kept.close()

    def _send(self, all_of_it: dict[str, socket.socket]) -> None:
        with socket.socket(fileno=os.dup(self._in)) as end:
            for name, kept in all_of_it.items():
                socket.send_fds(end, [name.encode()], [kept.fileno()])

    def _received(self) -> dict[str, socket.socket]:
        found: dict[str, socket.socket] = {}
        with socket.socket(fileno=os.dup(self._out)) as end:
            end.setblocking(False)
            while True:
                try:
                    name, descriptors, _, _ = socket.recv_fds(end, NAME_BYTES_MAX, 1)
                except BlockingIOError:
                    return found
                if not name or not descriptors:
                    return found
                found[name.decode()] = socket.socket(fileno=descriptors[0])
