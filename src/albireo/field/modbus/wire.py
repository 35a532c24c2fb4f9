"""The wire: one Modbus TCP connection through pymodbus. Its types stop here.

It keeps pymodbus from doing on its own what must not be done here:
- repeat a request (`retries` is 0): a repeated write could be carried out twice;
- reconnect (`reconnect_delay` is 0): COMM decides when, with jitter;
- close a connection because some requests in a row were not answered (its count never runs out): behind a gateway
  others may well answer;
- take the answer to another request for this one's: the function is compared; and the connection is ended when the time
  was up with half a frame there, or when an answer without a number comes after one that did not come in time;
- close a connection because an answer can't be read: that unit answers nonsense, others need not;
- log (its logger is silenced): an outage is one line of COMM's;
- decode registers one by one: replies keep their bytes, numpy reads them.

Exchanges are one at a time, first come first served: many devices answer a second request before the first wrongly or
not at all. A request that comes during a poll waits for one block, not for the poll.

A connection that the device ended may be made again before the next request, by whoever has the turn: nothing was sent
on it yet. One that was ended here never is.

A connection ends by RST, never by FIN: what the kernel still holds of it is thrown away, and a device with few
connections has this one free at once.

Spec: MODBUS Application Protocol V1.1b3, 6 and 7; MODBUS Messaging on TCP/IP V1.0b, 4.2; ADR-0030, ADR-0107.
"""

import asyncio
import contextlib
import logging
import socket
import struct
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, NoReturn
from urllib.parse import urlsplit

from pymodbus.client import AsyncModbusTcpClient
from pymodbus.exceptions import ConnectionException, ModbusException, ModbusIOException
from pymodbus.pdu import ModbusPDU

from albireo.field.contract import GOES_ON, ConfigurationError, DeviceLost, SendGuard
from albireo.field.modbus.answers import (
    LATE,
    Answer,
    DataReply,
    ExceptionCode,
    ExceptionReply,
    Nonsense,
    NotSent,
    Silence,
    WriteAnswer,
    untaken,
)
from albireo.field.modbus.items import TableKind
from albireo.runtime.link.names import NAMES, is_number

DEFAULT_PORT: Final = 502
_ADDRESS_REMEDY: Final = "write tcp://HOST:PORT, such as tcp://10.0.2.5:502"
CLOSING_TURNS_MAX: Final = 100
"""Rounds of the loop within which an aborted socket is closed; it takes two."""
_RST_ON_CLOSE: Final = struct.pack("ii", 1, 0)
"""SO_LINGER on, with no time to linger."""
_TCP_USER_TIMEOUT: Final = getattr(socket, "TCP_USER_TIMEOUT", None)
"""Linux only; elsewhere the kernel's own patience bounds a late delivery."""


class _RawRead(ModbusPDU):
    """A read reply that keeps its bytes."""

    data: bytes = b""

    def decode(self, data: bytes) -> None:
        self.data = data[1:] if data and data[0] == len(data) - 1 else b""


class _RawCoils(_RawRead):
    function_code = 1


class _RawDiscrete(_RawRead):
    function_code = 2


class _RawHolding(_RawRead):
    function_code = 3


class _RawInput(_RawRead):
    function_code = 4


class _Unreadable(ModbusException):
    """A whole frame with this request's number came, and no answer in it."""


TAKEN: Final = "it ends the connection before it answers; is another program connected, and takes it only one?"
LATE_WAIT: Final = 2
"""Time limits of an answer for which a slow device is listened to, so that it is known for one."""
_READ_FUNCTIONS: Final = {TableKind.COIL: 1, TableKind.DISCRETE: 2, TableKind.HOLDING: 3, TableKind.INPUT: 4}
_EXCEPTION_BIT: Final = 0x80
_WriteWay = tuple[int, Callable[[AsyncModbusTcpClient], Awaitable[ModbusPDU]]]
"""Function, and its request."""


class Address(NamedTuple):
    host: str
    port: int


def parse_url(url: str) -> Address:
    """Host and port of `tcp://HOST[:PORT]`.

    Raises:
        ConfigurationError: it is none.
    """
    try:
        parts = urlsplit(url)
        port = DEFAULT_PORT if parts.port is None else parts.port
    except ValueError as error:
        raise ConfigurationError(f"url is {url!r}: {error}; {_ADDRESS_REMEDY}") from error
    # NB: what is left out silently is what somebody relies on.
    beyond = {
        "a user": "@" in parts.netloc, "a path": parts.path not in ("", "/"), "a query": "?" in url,
        "a fragment": "#" in url, "port 0": port == 0,
    }  # fmt: skip
    if named := [name for name, is_there in beyond.items() if is_there]:
        raise ConfigurationError(f"url is {url!r}: it has {' and '.join(named)}; {_ADDRESS_REMEDY}")
    if parts.scheme != "tcp" or not parts.hostname:
        raise ConfigurationError(f"url is {url!r}; {_ADDRESS_REMEDY}")
    return Address(parts.hostname, port)


class DeviceUnreachable(DeviceLost):
    """There is no connection, and none could be made."""


class Wire:
    """One connection, one exchange at a time."""

    def __init__(self, address: Address, timeout_ns: int) -> None:
        self._address = address
        self._timeout_s = timeout_ns / 1e9
        self._client: AsyncModbusTcpClient | None = None
        self._transport: asyncio.Transport | None = None
        self._delivery_ns_max: int | None = None
        self._turn = asyncio.Lock()
        self._waiting = False
        self._may_come_late = False
        """A request of this connection was not answered in time; its answer may still come."""
        self._is_answered = False
        """A request of this connection was."""
        self._untaken = ""
        """Description of what came since the last answer, and was none."""
        self._came = asyncio.Event()
        self._lacking: set[tuple[int, int]] = set()
        """(unit, function) for which another function does."""
        self._on_redial: Callable[[], object] | None = None
        self.redialled = 0
        self._is_wanted = False
        """It was connected, and nobody here has ended it since."""
        self._attempt = 0
        logging.getLogger("pymodbus").setLevel(logging.CRITICAL)

    async def connect(self) -> None:
        """Open the connection.

        Raises:
            DeviceUnreachable: refused, unreachable, no answer within the timeout, or closed meanwhile.
        """
        self.close()
        self._untaken = ""
        host, attempt = self._address.host, self._attempt
        for number in await NAMES.found(host, self._timeout_s):
            client = self._made_for(number)
            if await client.connect() and attempt == self._attempt:
                break
            client.close()
            if attempt != self._attempt:
                raise DeviceUnreachable("no connection")
        else:
            raise DeviceUnreachable("no connection" if is_number(host) else f"no connection: {NAMES.told(host)}")
        self._client = client
        self._is_wanted = True
        self._may_come_late = self._is_answered = False
        assert isinstance(client.ctx.transport, asyncio.Transport)
        self._transport = client.ctx.transport
        self._socket().setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST_ON_CLOSE)
        self._bound_delivery()

    def _made_for(self, number: str) -> AsyncModbusTcpClient:
        port, most, trace = self._address.port, self._timeout_s, self._connection_changed
        client = AsyncModbusTcpClient(
            number, port=port, timeout=most, retries=0, reconnect_delay=0, trace_connect=trace
        )
        for reply in (_RawCoils, _RawDiscrete, _RawHolding, _RawInput):
            client.register(reply)
        self._tolerate_nonsense(client)
        client.ctx.max_until_disconnect = sys.maxsize
        return client

    def close(self) -> None:
        """End the connection by RST. The socket closes a moment later; whoever waits for an answer learns it now."""
        self._attempt += 1
        self._is_wanted = False
        self._end()

    def redial(self, on_redial: Callable[[], object]) -> None:
        """From now on make a connection that the device ended again, before the next request; `on_redial` hears it."""
        self._on_redial = on_redial

    @property
    def redials(self) -> bool:
        return self._on_redial is not None

    def _end(self) -> None:
        client, self._client = self._client, None
        if client is None:
            return
        self._wake(client)
        if self._transport is not None:
            self._transport.abort()
        client.close()

    async def heard_late(self) -> str:
        """Description of what comes now that the time is up; empty: nothing, for as long as LATE_WAIT says."""
        self._came.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LATE_WAIT * self._timeout_s):
                await self._came.wait()
        return self._untaken

    async def closed(self) -> None:
        """Close, and return when the socket is closed."""
        transport = self._transport
        self.close()
        if transport is None:
            return
        for _ in range(CLOSING_TURNS_MAX):
            if transport.get_extra_info("socket").fileno() == -1:
                return
            await asyncio.sleep(0)
        raise AssertionError("an aborted socket stays open")

    def bound_delivery(self, longest_ns: int) -> None:
        """Let the kernel give up bytes that the device has not taken this long after they were sent."""
        self._delivery_ns_max = longest_ns
        if self.is_connected:
            self._bound_delivery()

    def _bound_delivery(self) -> None:
        if self._delivery_ns_max is not None and _TCP_USER_TIMEOUT is not None:
            self._socket().setsockopt(socket.IPPROTO_TCP, _TCP_USER_TIMEOUT, max(1, self._delivery_ns_max // 1_000_000))

    def _socket(self) -> socket.socket:
        assert self._transport is not None
        found: socket.socket = self._transport.get_extra_info("socket")
        return found

    @property
    def is_connected(self) -> bool:
        return self._client is not None and self._client.connected

    async def read(
        self, kind: TableKind, device_id: int, address: int, count: int, timeout_ns: int | None = None
    ) -> Answer:
        """Read `count` registers or bits.

        Args:
            timeout_ns: of this exchange; None: the connection's.

        Raises:
            DeviceLost: the connection is gone.
        """
        async with self._turn:
            await self._ready()
            client = self._connected()
            match kind:
                case TableKind.COIL:
                    request = client.read_coils(address, count=count, device_id=device_id)
                case TableKind.DISCRETE:
                    request = client.read_discrete_inputs(address, count=count, device_id=device_id)
                case TableKind.HOLDING:
                    request = client.read_holding_registers(address, count=count, device_id=device_id)
                case TableKind.INPUT:
                    request = client.read_input_registers(address, count=count, device_id=device_id)
            answer = await self._exchange(_READ_FUNCTIONS[kind], request, timeout_ns)
        wanted = (count + 7) // 8 if kind.is_bits else 2 * count
        if isinstance(answer, DataReply) and len(answer.data) != wanted:
            return Nonsense(f"{len(answer.data)} bytes, {wanted} wanted")
        return answer

    async def write_registers(
        self,
        device_id: int,
        address: int,
        registers: Sequence[int],
        may_send: SendGuard,
        timeout_ns: int | None = None,
    ) -> WriteAnswer:
        """Write holding registers, once: function 6 for one, 16 for more, or for one if the unit lacks 6."""
        whole: _WriteWay = (16, lambda client: client.write_registers(address, list(registers), device_id=device_id))
        one: _WriteWay = (6, lambda client: client.write_register(address, registers[0], device_id=device_id))
        return await self._write(device_id, (one, whole) if len(registers) == 1 else (whole,), may_send, timeout_ns)

    async def write_masked(
        self, device_id: int, address: int, mask: int, value: int, may_send: SendGuard
    ) -> WriteAnswer:
        """Change the bits of `mask` in a holding register, once: function 22, which the device does in one step."""
        and_mask, or_mask = 0xFFFF & ~mask, value & mask
        way: _WriteWay = (
            22,
            lambda client: client.mask_write_register(
                address=address, and_mask=and_mask, or_mask=or_mask, device_id=device_id
            ),
        )
        return await self._write(device_id, (way,), may_send)

    async def write_coil(self, device_id: int, address: int, value: bool, may_send: SendGuard) -> WriteAnswer:
        """Switch one coil, once: function 5, or 15 if the unit lacks that."""
        one: _WriteWay = (5, lambda client: client.write_coil(address, value, device_id=device_id))
        several: _WriteWay = (15, lambda client: client.write_coils(address, [value], device_id=device_id))
        return await self._write(device_id, (one, several), may_send)

    async def _write(
        self, device_id: int, ways: Sequence["_WriteWay"], may_send: SendGuard, timeout_ns: int | None = None
    ) -> WriteAnswer:
        """Write in one of the ways, once: a unit that lacks a function has surely not written by it.

        The way that a unit took is its first from then on.
        """
        async with self._turn:
            answer: WriteAnswer = NotSent("")
            refused: set[tuple[int, int]] = set()
            for function, request in sorted(ways, key=lambda way: (device_id, way[0]) in self._lacking):
                if reason := await self._refusal(may_send):
                    return NotSent(reason)
                answer = await self._write_exchange(function, request(self._connected()), timeout_ns)
                if not isinstance(answer, ExceptionReply) or answer.code != ExceptionCode.ILLEGAL_FUNCTION:
                    break
                refused.add((device_id, function))
            if isinstance(answer, DataReply):
                self._lacking |= refused
            return answer

    async def _ready(self) -> None:
        """Connect again if the device has hung up.

        Raises:
            DeviceUnreachable: that failed.
        """
        if self._on_redial is not None and self._is_wanted and not self.is_connected:
            self._on_redial()
            self.redialled += 1
            await self.connect()

    async def _refusal(self, may_send: SendGuard) -> str:
        """Why a write must not leave now. Nothing is awaited between the guard's word and the bytes."""
        with contextlib.suppress(DeviceUnreachable):
            await self._ready()
        reason = may_send()
        if reason == GOES_ON and not self.is_connected:
            return "the device is not connected"
        return reason

    def _connected(self) -> AsyncModbusTcpClient:
        if self._client is None or not self._client.connected:
            raise DeviceUnreachable(self._ended)
        return self._client

    async def _write_exchange(
        self, function: int, request: Awaitable[ModbusPDU], timeout_ns: int | None = None
    ) -> WriteAnswer:
        try:
            return await self._exchange(function, request, timeout_ns)
        except DeviceLost:
            return Silence()

    async def _exchange(self, function: int, request: Awaitable[ModbusPDU], timeout_ns: int | None = None) -> Answer:
        connection = self._connected().ctx
        connection.comm_params.timeout_connect = self._timeout_s if timeout_ns is None else timeout_ns / 1e9
        self._waiting = True
        try:
            reply = await request
        except ModbusIOException:
            if connection.recv_buffer:
                self._out_of_step(self._untaken or "part of an answer, or none that is one")
            self._may_come_late = True
            return Silence(self._untaken)
        except _Unreadable as error:
            return Nonsense(str(error))
        except (ConnectionException, ModbusException) as error:
            raise DeviceLost(self._ended) from error
        finally:
            self._waiting = False
        if self._may_come_late and not reply.transaction_id:
            self._out_of_step("an answer without a number after one that did not come in time")
        self._is_answered, self._untaken = True, ""
        answered = reply.function_code & ~_EXCEPTION_BIT
        if answered != function:
            return Nonsense(f"an answer to function {answered}, {function} was asked for")
        if reply.isError():
            return ExceptionReply(reply.exception_code)
        return DataReply(reply.data if isinstance(reply, _RawRead) else b"")

    @property
    def _ended(self) -> str:
        """Why there is no connection any more."""
        return self._untaken or ("connection lost" if self._is_answered else TAKEN)

    def _out_of_step(self, reason: str) -> NoReturn:
        """End a connection on which nobody can tell any more what is the answer to what.

        Raises:
            DeviceLost: always.
        """
        self._end()
        raise DeviceLost(reason)

    def _connection_changed(self, is_connected: bool) -> None:
        """pymodbus waits for its timeout after the connection broke; the waiting request learns of it here at once."""
        if not is_connected and self._client is not None:
            self._wake(self._client)

    def _wake(self, client: AsyncModbusTcpClient) -> None:
        if not self._waiting:
            return
        answer = client.ctx.response_future
        if not answer.done():
            answer.set_exception(ConnectionException("connection lost"))

    def _tolerate_nonsense(self, client: AsyncModbusTcpClient) -> None:
        """Let what can't be read be nonsense to whoever waits; pymodbus would make it an error in asyncio's handler."""
        receive = client.ctx.callback_data

        def checked(data: bytes, addr: tuple[str, int] | None = None) -> int:
            self._untaken = untaken(data, client.ctx.request_dev_id, client.ctx.request_transaction_id) or (
                "" if self._waiting else LATE
            )
            self._came.set()
            try:
                return receive(data, addr)
            except ModbusIOException:
                # The frame is whole, and its number and unit are those of the request: the connection is in step.
                if not client.ctx.response_future.done():
                    client.ctx.response_future.set_exception(_Unreadable("an answer that can't be read"))
                return len(data)
            except (ModbusException, ValueError, IndexError) as error:
                client.ctx.connection_lost(error)
                return len(data)

        client.ctx.callback_data = checked  # type: ignore[method-assign]  # Its only seam for this.
