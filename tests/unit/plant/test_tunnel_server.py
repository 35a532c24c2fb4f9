"""A PLC of the tunnel as a Modbus device, asked by pymodbus' own client over TCP on this machine."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

import numpy as np
import pytest
from pymodbus.client import AsyncModbusTcpClient
from pymodbus.exceptions import ModbusIOException

from albireo.plant.tunnel.physics import channels, physics
from albireo.plant.tunnel.plc.plcs import PLCS
from albireo.plant.tunnel.plc.registers import Register, value_of, words_of_text
from albireo.plant.tunnel.plc.server import PlcServer
from albireo.plant.tunnel.plc.wire import PlcFaults
from tests.parts.steady import run_steadily
from tests.parts.waiting import PATIENCE_S

P1 = PLCS["p1"]
ADDRESS, VALUE = 2, 3
"""Modbus exception codes: illegal data address, illegal data value."""


def named(name: str) -> Register:
    return next(one for one in P1.registers if one.name == name)


@asynccontextmanager
async def plc() -> AsyncIterator[tuple[PlcServer, AsyncModbusTcpClient, list[dict[str, float]]]]:
    """A PLC with one image, a client on it, and the writes it reported."""
    server = PlcServer(P1)
    written: list[dict[str, float]] = []
    server.on_written = written.append
    state = physics.initial(seed=1)
    await server.load(P1.gathered(channels.read(state)), channels.texts(state))
    await server.start()
    client = AsyncModbusTcpClient("127.0.0.1", port=server.port, timeout=PATIENCE_S, retries=0, reconnect_delay=0)
    await client.connect()
    try:
        yield server, client, written
    finally:
        client.close()
        await server.stop()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110  # pymodbus offers no event for a lost connection.
            await asyncio.sleep(0.01)


async def holding(client: AsyncModbusTcpClient, name: str) -> float:
    one = named(name)
    return value_of((await client.read_holding_registers(one.address, count=one.words)).registers, one)


def scenario(test: Callable[[], Coroutine[None, None, None]]) -> Callable[[], None]:
    """Runs an async test in a loop of its own."""

    def run() -> None:
        run_steadily(test())

    run.__name__ = test.__name__
    run.__doc__ = test.__doc__
    return run


@scenario
async def test_first_values_are_there_when_the_port_opens() -> None:
    async with plc() as (_, client, _written):
        pressure = named("outside_pressure")
        answer = await client.read_input_registers(pressure.address, count=pressure.words)
        assert value_of(answer.registers, pressure) == pytest.approx(96_540, abs=50)
        name = named("p1_name")
        assert (await client.read_holding_registers(name.address, count=8)).registers == words_of_text("TUNNEL-P1 R2.4")
        sign = named("sign_text")
        assert (await client.read_input_registers(sign.address, count=8)).registers == words_of_text("LIMIT 80")
        assert await holding(client, "co_setpoint") == 12


@scenario
async def test_a_set_point_is_taken_read_back_and_reported() -> None:
    async with plc() as (_, client, written):
        one = named("co_setpoint")
        answer = await client.write_registers(one.address, [0x4120, 0x0000])
        assert not answer.isError()
        assert await holding(client, "co_setpoint") == 10
        await client.write_coil(named("vent_auto").address, False)
        await client.write_register(named("vent_stage_set").address, 3)
        assert written == [{"co_setpoint": 10}, {"vent_auto": 0}, {"vent_stage_set": 3}]


@scenario
async def test_what_is_no_whole_set_point_in_range_is_refused() -> None:
    async with plc() as (server, client, written):
        stage, set_point = named("vent_stage_set"), named("co_setpoint")
        refused = [
            (await client.write_register(stage.address, 5), VALUE),
            (await client.write_registers(set_point.address, [0x7FC0, 0]), VALUE),
            (await client.write_registers(set_point.address, [0xBF80, 0]), VALUE),
            (await client.write_register(set_point.address, 0x4120), ADDRESS),
            (await client.write_register(set_point.address + 1, 0), ADDRESS),
            (await client.write_register(named("p1_name").address, 0x4141), ADDRESS),
            (await client.write_register(500, 1), ADDRESS),
        ]
        assert [(answer.isError(), answer.exception_code) for answer, _ in refused] == [
            (True, code) for _, code in refused
        ]
        assert written == []
        assert server.held["co_setpoint"] == 12


@scenario
async def test_reading_behind_the_end_is_an_illegal_address() -> None:
    async with plc() as (_, client, _written):
        answer = await client.read_input_registers(P1.sizes[named("co_1").row.kind], count=2)
        assert answer.isError() and answer.exception_code == ADDRESS


@pytest.mark.slow
@scenario
async def test_a_momentary_coil_falls_back_by_itself() -> None:
    async with plc() as (server, client, written):
        address = named("fan_reset").address
        await client.write_coil(address, True)
        assert (await client.read_coils(address, count=1)).bits[0], "still on for the read-back"
        await until(lambda: len(written) == 2)
        assert written == [{"fan_reset": 1}, {"fan_reset": 0}]
        assert not (await client.read_coils(address, count=1)).bits[0]
        assert server.held["fan_reset"] == 0


@scenario
async def test_off_closes_the_port_and_set_points_survive() -> None:
    async with plc() as (server, client, _written):
        await client.write_register(named("vent_stage_set").address, 2)
        await server.apply(PlcFaults(is_off=True))
        await until(lambda: not client.connected)
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", server.port)
        port = server.port
        await server.apply(PlcFaults())
        assert server.port == port
        await client.connect()
        assert await holding(client, "vent_stage_set") == 2


@scenario
async def test_frozen_answers_but_nothing_changes() -> None:
    async with plc() as (server, client, _written):
        await server.apply(PlcFaults(is_frozen=True))
        await server.load(np.full(len(P1.live), 7.0), {})
        life = named("p1_life").address
        assert (await client.read_input_registers(life, count=1)).registers == [0]
        await server.apply(PlcFaults())
        await server.load(np.full(len(P1.live), 7.0), {})
        assert (await client.read_input_registers(life, count=1)).registers == [7]


@scenario
async def test_exception_answers() -> None:
    async with plc() as (server, client, _written):
        await server.apply(PlcFaults(exception_code=6))
        answer = await client.read_input_registers(0, count=1)
        assert answer.isError() and answer.exception_code == 6


@scenario
async def test_delayed_answers_come() -> None:
    async with plc() as (server, client, _written):
        await server.apply(PlcFaults(answer_delay_ms=60))
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert not (await client.read_input_registers(0, count=1)).isError()
        assert loop.time() - began >= 0.06


@pytest.mark.slow
@scenario
async def test_half_open_does_the_write_and_never_answers() -> None:
    async with plc() as (server, client, written):
        await server.apply(PlcFaults(is_half_open=True))
        client.ctx.comm_params.timeout_connect = 0.2
        with pytest.raises(ModbusIOException):
            await client.write_register(named("vent_stage_set").address, 4)
        assert written == [{"vent_stage_set": 4}]


@scenario
async def test_a_taken_port_is_an_error_that_says_so() -> None:
    async with plc() as (server, _client, _written):
        second = PlcServer(P1, port=server.port)
        with pytest.raises(OSError, match=f"port {server.port} "):
            await second.start()
