"""Ports of this machine, kept for processes that are started later.

A port that was free a moment ago may be somebody else's by the time its process binds it: another one's choice, or the
near end of any connection that the kernel makes. So it stays bound here, by a socket that does not listen. To everybody
who asks the kernel for a port it is taken, whoever connects to it is refused, and a listener that says SO_REUSEADDR, as
ours, asyncio's and libmodbus' do, may take it as often as it likes.
"""

import socket
from typing import Self


class KeptPorts:
    """Some ports of 127.0.0.1; free again for everybody once this is closed."""

    def __init__(self, count: int) -> None:
        self._sockets: list[socket.socket] = []
        self.numbers: list[int] = []
        for _ in range(count):
            self.keep(0)

    def keep(self, number: int) -> None:
        """Keep this port too; 0: any. Raises OSError: it is somebody's."""
        one = socket.socket()
        self._sockets.append(one)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(("127.0.0.1", number))
        self.numbers.append(int(one.getsockname()[1]))

    def close(self) -> None:
        for one in self._sockets:
            one.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
