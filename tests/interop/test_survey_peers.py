"""Survey of devices of other authors' making, each with registers and bits of its own; what is missing is skipped."""

import asyncio
import contextlib
import importlib
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from pymodbus.server import ModbusTcpServer
from pymodbus.simulator import DataType, SimData, SimDevice

from albireo.cli.site.survey import Surveyed, survey_device
from albireo.field.modbus.items import TableKind
from albireo.field.modbus.survey import SurveyLimits
from tests.parts.libmodbus import BITS, NAME, REGISTERS, LibmodbusServer
from tests.parts.port import free_port
from tests.parts.waiting import awaited

UNTIDY = ("ResourceWarning", "pytest.PytestUnraisableExceptionWarning", "DeprecationWarning")
"""Some of these servers leave their sockets to the garbage collector, or use what Python gives up."""
pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    *(pytest.mark.filterwarnings(f"ignore::{one}") for one in UNTIDY),
]

HOLDING = {one: 1_000 + one for one in range(30)}
"""Registers of each device, where its library lets one say which there are."""
COILS = {one: one % 3 == 0 for one in range(20)}
Serving = contextlib.AbstractContextManager[int]


@contextlib.contextmanager
def pymodbus(blocks: Any) -> Iterator[int]:
    """A server in a loop of its own; the port."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    port = free_port()

    async def serve() -> ModbusTcpServer:
        server = ModbusTcpServer([SimDevice(1, simdata=blocks)], address=("127.0.0.1", port))
        await server.serve_forever(background=True)
        return server

    async def stop(server: ModbusTcpServer) -> None:
        await server.shutdown()  # type: ignore[no-untyped-call]  # pymodbus leaves it untyped.

    server = asyncio.run_coroutine_threadsafe(serve(), loop).result()
    try:
        yield port
    finally:
        asyncio.run_coroutine_threadsafe(stop(server), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def pymodbus_in_tables() -> Serving:
    bits = [SimData(0, values=[*COILS.values(), *[False] * 12], datatype=DataType.BITS)]
    registers = [SimData(0, values=[*HOLDING.values()], datatype=DataType.REGISTERS)]
    return pymodbus((bits, list(bits), registers, list(registers)))


def pymodbus_in_one() -> Serving:
    """Its plain server has one memory for all tables, and reads bits from the registers that they lie in."""
    return pymodbus([SimData(0, values=[*HOLDING.values()], datatype=DataType.REGISTERS)])


@contextlib.contextmanager
def libmodbus() -> Iterator[int]:
    if not NAME:
        pytest.skip("Debian package libmodbus5 is missing (make peers)")
    server = LibmodbusServer()
    server.put(0, [*HOLDING.values()])
    for address, is_on in COILS.items():
        server.tables.tab_bits[address] = is_on
    try:
        yield server.port
    finally:
        server.stop()


def wanted(name: str, package: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError:
        pytest.skip(f"the Python package {package} is missing (.venv/bin/pip install {package})")


@contextlib.contextmanager
def py_modbus_tcp() -> Iterator[int]:
    server_module = wanted("pyModbusTCP.server", "pyModbusTCP")
    server = server_module.ModbusServer("127.0.0.1", free_port(), no_block=True)
    server.data_bank.set_holding_registers(0, [*HOLDING.values()])
    server.data_bank.set_coils(0, [*COILS.values()])
    server.start()
    try:
        yield server.port
    finally:
        server.stop()


@contextlib.contextmanager
def umodbus() -> Iterator[int]:
    module = wanted("umodbus.server.tcp", "uModbus")
    server = module.get_server(socketserver.ThreadingTCPServer, ("127.0.0.1", 0), module.RequestHandler)
    server.daemon_threads = True
    server.route(slave_ids=[1], function_codes=[3], addresses=list(HOLDING))(
        lambda slave_id, function_code, address: HOLDING[address]
    )
    server.route(slave_ids=[1], function_codes=[1], addresses=list(COILS))(
        lambda slave_id, function_code, address: int(COILS[address])
    )
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def modbus_tk() -> Iterator[int]:
    defines, tcp = wanted("modbus_tk.defines", "modbus-tk"), wanted("modbus_tk.modbus_tcp", "modbus-tk")
    port = free_port()
    server = tcp.TcpServer(port=port, address="127.0.0.1")
    slave = server.add_slave(1)
    slave.add_block("holding", defines.HOLDING_REGISTERS, 0, len(HOLDING))
    slave.add_block("coils", defines.COILS, 0, len(COILS))
    slave.set_values("holding", 0, [*HOLDING.values()])
    slave.set_values("coils", 0, [int(one) for one in COILS.values()])
    server.start()
    awaited(lambda: is_open(port))
    try:
        yield port
    finally:
        server.stop()


def is_open(port: int) -> bool:
    """Its start returns before it listens."""
    with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def surveyed(port: int) -> Surveyed:
    return survey_device(f"127.0.0.1:{port}", 1, SurveyLimits(address_max=100), keeps_zeros=True)


ALL_ADDRESSES = {(TableKind.HOLDING, one) for one in HOLDING} | {(TableKind.COIL, one) for one in COILS}


@pytest.mark.parametrize("peer", [pymodbus_in_tables, libmodbus, py_modbus_tcp, umodbus, modbus_tk])
def test_a_device_of_others_is_found_whole(peer: Callable[[], Serving]) -> None:
    with peer() as port:
        found = surveyed(port).survey
    places = {(one.kind, one.address): one for one in found.guesses}
    assert ALL_ADDRESSES <= set(places)
    assert {places[TableKind.HOLDING, one].seen for one in HOLDING} == {str(one) for one in HOLDING.values()}
    assert {one for one in COILS if places[TableKind.COIL, one].seen == "true"} == {one for one in COILS if COILS[one]}
    assert found.is_complete


def test_a_plain_server_of_pymodbus_loses_no_bits() -> None:
    with pymodbus_in_one() as port:
        found = surveyed(port).survey
    assert [(one.kind, one.found) for one in found.tables] == [(kind, len(HOLDING)) for kind in FOUR]
    assert found.is_complete


FOUR = (TableKind.HOLDING, TableKind.INPUT, TableKind.COIL, TableKind.DISCRETE)


def test_a_table_is_found_as_long_as_it_is() -> None:
    with libmodbus() as port:
        found = survey_device(f"127.0.0.1:{port}", 1, SurveyLimits(address_max=400), keeps_zeros=True).survey
    assert [one.found for one in found.tables] == [REGISTERS, REGISTERS, BITS, BITS]
