"""pymodbus' server, told apart by connection: whose request this is, how many there may be, and an end by RST."""

import asyncio
import contextvars
import itertools
import socket
import struct
from collections.abc import Callable
from typing import Final

from pymodbus.server import ModbusTcpServer
from pymodbus.server.requesthandler import ServerRequestHandler
from pymodbus.simulator import SimDevice

PROGRAM: Final = 0
"""Stands for the PLC's own program where a connection is asked for."""
OnWire = Callable[[bool, bytes], bytes]
"""Gets whether these bytes are sent, and the bytes; gives what goes on."""
_RST_ON_CLOSE: Final = struct.pack("ii", 1, 0)

_connection: contextvars.ContextVar[int] = contextvars.ContextVar("connection", default=PROGRAM)


def current_connection() -> int:
    """Number of the connection whose request is being carried out, from 1."""
    return _connection.get()


class _Connection(ServerRequestHandler):
    """One client."""

    server: "ConnectionServer"

    def __init__(self, owner: "ConnectionServer", number: int) -> None:
        super().__init__(owner, owner.trace_packet, owner.trace_pdu, owner.trace_connect)  # type: ignore[no-untyped-call]
        self.number = number

    def callback_connected(self) -> None:
        """One more client than the device takes is turned away, as small PLCs do."""
        super().callback_connected()
        if 0 < self.server.connections_max <= len(self.server.connections):
            self.reset()
        else:
            self.server.connections.add(self)

    def callback_disconnected(self, exc: Exception | None) -> None:
        self.server.connections.discard(self)
        super().callback_disconnected(exc)

    async def handle_request(self) -> None:
        """Each request runs in a task of its own, so the number does not leak into another's."""
        _connection.set(self.number)
        await super().handle_request()  # type: ignore[no-untyped-call]

    def reset(self) -> None:
        """RST instead of FIN: what a restarted device answers to a connection it knows nothing of."""
        if isinstance(self.transport, asyncio.Transport):
            wire = self.transport.get_extra_info("socket")
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST_ON_CLOSE)
            self.transport.abort()


class ConnectionServer(ModbusTcpServer):
    """Modbus TCP server of one device."""

    def __init__(self, device: SimDevice, address: tuple[str, int], on_wire: OnWire) -> None:
        super().__init__(device, address=address, trace_packet=on_wire)
        self.connections: set[_Connection] = set()
        self.connections_max = 0
        """More are turned away; 0: no limit."""
        self._numbers = itertools.count(1)

    def callback_new_connection(self) -> ServerRequestHandler:
        return _Connection(self, next(self._numbers))

    def reset_connections(self) -> None:
        for one in list(self.connections):
            one.reset()
