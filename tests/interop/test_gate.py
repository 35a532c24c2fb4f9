"""The gate between members and a PLC, over TCP: what passes, what is refused, what it remembers, what breaks it."""

import asyncio
import contextlib
import errno
import socket
import struct
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import pytest
from pymodbus.client import AsyncModbusTcpClient

from albireo.field.contract import GOES_ON, ConfigurationError, DeviceLost, PairAdapter
from albireo.field.modbus.gate import door as gate_door
from albireo.field.modbus.gate.door import CONNECTIONS_MAX
from albireo.field.modbus.gate.gate import GateActor, GateArguments
from albireo.log import FileSystem, OsFileSystem
from albireo.machine.output.mailbox import MAILBOX_REGISTERS, MailboxOrder, Result, decode_answer, encode_order
from albireo.model.command import Outcome
from albireo.model.instant import MS, Instant
from albireo.model.quality import GOOD
from albireo.model.value import Value
from albireo.node.gate.store import GateDisk
from albireo.plant.tunnel.plc.orders import CarriedOrder
from albireo.plant.tunnel.plc.pair_area import MAILBOX_ADDRESS, PLAIN_ADDRESS
from albireo.plant.tunnel.plc.server import PlcServer
from albireo.plant.tunnel.plc.wire import PlcFaults
from albireo.plant.unruly.device import UnrulyDevice
from albireo.plant.unruly.manners import honest, silent
from albireo.runtime.actor.actor import running
from albireo.sim.engine.disk import SimDisk
from tests.parts.field import LONG_MS, SILENCE_MS, RawDevice, comm, in_loop, registers_answer, until
from tests.parts.guard_levels import NAMES, NEW, OLD, P1, LeadingCore, modbus, row_of, write
from tests.parts.port import free_port
from tests.parts.steady import run_steadily
from tests.parts.unruly import rows_of
from tests.parts.waiting import PATIENCE_S

ROWS = [row_of(name) for name in NAMES]
GATED = "tcp://127.0.0.1:1"
"""The PLC behind the gate, which only the gate reads."""


def gate_of(device: int, listen: int, data: Path, files: FileSystem | None = None, **more: object) -> GateActor:
    arguments: dict[str, object] = {
        "name": "root:p1", "cluster": "c", "listen": f"tcp://127.0.0.1:{listen}", "device": f"tcp://127.0.0.1:{device}",
        "items": ROWS, "mailbox_address": MAILBOX_ADDRESS, "timeout_ms": LONG_MS, "dead_time_ms": 1,
        "backoff_min_ms": 10, "backoff_max_ms": 20, **more,
    }  # fmt: skip
    disk_at = Path("/data") if isinstance(files, SimDisk) else data
    return GateActor(
        GateArguments(**arguments),  # type: ignore[arg-type]  # One table, some of it of the test.
        lambda _: GateDisk(files or OsFileSystem(), disk_at, "c", "root:p1"),
    )


class Site:
    """A PLC without any guard, a gate in front of it, and what the PLC carried out."""

    def __init__(self, data: Path) -> None:
        self.server = PlcServer(P1)
        self.carried: list[CarriedOrder] = []
        self.server.on_carried = self.carried.append
        self.data = data
        self.listen = free_port()
        self.gate: GateActor
        self._adapters: list[PairAdapter] = []

    @contextlib.asynccontextmanager
    async def guarded(self, **more: object) -> AsyncIterator[GateActor]:
        """One life of the gate, on its disk."""
        self.gate = gate_of(self.server.port, self.listen, self.data, **more)  # type: ignore[arg-type]  # As above.
        async with running(self.gate, self.data):
            yield self.gate

    async def adapter(self, rows: Sequence[dict[str, str]] = ROWS, **more: object) -> PairAdapter:
        made = modbus(self.listen, rows, **{"guard": "gate", "gated_url": GATED, **more})
        await made.connect()
        self._adapters.append(made)
        return made

    async def client(self) -> AsyncModbusTcpClient:
        client = AsyncModbusTcpClient("127.0.0.1", port=self.listen, timeout=PATIENCE_S, retries=0)
        assert await client.connect()
        return client

    def values(self) -> list[tuple[str, float]]:
        return [(one.name, one.value) for one in self.carried]

    async def close(self) -> None:
        for adapter in self._adapters:
            await adapter.close()
        await self.server.stop()


@contextlib.asynccontextmanager
async def site(data: Path) -> AsyncIterator[Site]:
    one = Site(data)
    await one.server.start()
    try:
        yield one
    finally:
        await one.close()


def sim_disk() -> SimDisk:
    disk = SimDisk(1)
    disk.make_directory(Path("/data"))
    disk.sync_directory(Path("/"))
    return disk


async def led(adapter: PairAdapter, tenure: object) -> None:
    """Raise the guard; a gate that has just started keeps everything back for its dead time."""
    while (reason := await adapter.lead(tenure)) != GOES_ON:  # type: ignore[arg-type]  # A Tenure.
        assert "does not answer" in reason
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("name", "value"), [("speed_limit", 60), ("co_setpoint", 12.5), ("opacity_setpoint", 2.5), ("barrier_close", True)]
)
def test_an_order_passes_and_the_member_reads_it_back_in_the_plc(tmp_path: Path, name: str, value: Value) -> None:
    async def story() -> None:
        async with site(tmp_path) as one, one.guarded() as gate:
            adapter = await one.adapter()
            await led(adapter, OLD)
            written = await write(adapter, name, value)
            assert (written.outcome, written.read_back) == (Outcome.VERIFIED, value)
            assert one.values() == [(name, float(value))]
            assert one.carried[0].way == "register", "an ordinary write, for the PLC"
            assert gate.status()["orders"] == {"done": 2}

    in_loop(story)


def test_a_bit_of_a_register_leaves_its_neighbours_alone(tmp_path: Path) -> None:
    rows = [
        {"name": "on", "kind": "holding", "address": "7", "type": "bool", "bit": "3", "writable": "true", "target": "1"}
    ]

    async def story() -> None:
        async with RawDevice(lambda unit, function, request: answer(function, request)) as device:
            gate = gate_of(device.port, listen := free_port(), tmp_path, items=rows)
            async with running(gate, tmp_path):
                adapter = modbus(listen, rows, guard="gate", gated_url=GATED)
                await adapter.connect()
                await led(adapter, OLD)
                assert (await write(adapter, "on", True)).outcome is Outcome.VERIFIED
                assert (1, 22, struct.pack(">HHH", 7, 0xFFF7, 8)) in device.requests
                await adapter.close()

    def answer(function: int, request: bytes) -> bytes:
        return registers_answer(request, 8) if function == 3 else bytes([function]) + request

    in_loop(story)


def test_a_late_order_of_the_old_epoch_is_refused_by_the_gate(tmp_path: Path) -> None:
    """The old holder was paused between its last look and the send."""

    async def story() -> None:
        async with site(tmp_path) as one, one.guarded() as gate:
            old, new = await one.adapter(), await one.adapter()
            await led(old, OLD)
            assert (await write(old, "speed_limit", 60)).outcome is Outcome.VERIFIED
            await led(new, NEW)
            refused = await write(old, "speed_limit", 100)
            assert (refused.outcome, "the gate refused it in favour of epoch 5" in refused.detail) == (
                Outcome.REJECTED, True,
            )  # fmt: skip
            assert (await write(new, "speed_limit", 50)).outcome is Outcome.VERIFIED
            assert "the gate stands at epoch 5" in (await write(old, "speed_limit", 100)).detail
            assert one.values() == [("speed_limit", 60.0), ("speed_limit", 50.0)]
            assert gate.status()["guard"] == 5

    in_loop(story)


def test_a_gate_that_was_started_again_has_not_forgotten(tmp_path: Path) -> None:
    async def story() -> None:
        async with site(tmp_path) as one:
            async with one.guarded() as gate:
                old, new = await one.adapter(), await one.adapter()
                await led(old, OLD)
                await led(new, NEW)
                boot = gate.status()["boot"]
                await old.close()
                await new.close()
            async with one.guarded() as gate:
                assert isinstance(boot, int)
                assert (gate.status()["guard"], gate.status()["boot"]) == (5, boot % 0xFFFF + 1)
                await old.connect()
                refused = await write(old, "speed_limit", 100)
                assert (refused.outcome, "stands at epoch 5" in refused.detail) == (Outcome.REJECTED, True)
                await new.connect()
                assert (await write(new, "speed_limit", 50)).outcome is Outcome.VERIFIED
            assert one.values() == [("speed_limit", 50.0)]

    in_loop(story)


def test_an_order_from_before_a_start_of_the_gate_is_refused(tmp_path: Path) -> None:
    """Byte for byte the one that was on its way: it carries the boot number of before."""

    async def story() -> None:
        async with site(tmp_path) as one:
            async with one.guarded() as gate:
                boot = gate.status()["boot"]
                assert isinstance(boot, int)
                order = encode_order(MailboxOrder(count=7, epoch=4, boot=boot, target=1, value=50))
            async with one.guarded():
                client = await one.client()
                await client.write_registers(MAILBOX_ADDRESS, list(order))
                box = await client.read_holding_registers(MAILBOX_ADDRESS, count=MAILBOX_REGISTERS)
                assert decode_answer(box.registers).result.name == "STALE"
                client.close()
            assert one.values() == []

    in_loop(story)


def test_the_guard_is_on_the_disk_before_the_order_leaves(tmp_path: Path) -> None:
    """A power cut at the moment of the write takes nothing back that the PLC has seen."""
    disk = sim_disk()
    kept: list[int] = []

    async def story() -> None:
        async with site(tmp_path) as one:
            one.server.on_carried = lambda carried: kept.append(
                GateDisk(disk.image(1), Path("/data"), "c", "root:p1").guard
            )
            async with one.guarded(files=disk):
                adapter = await one.adapter()
                await led(adapter, OLD)
                await write(adapter, "speed_limit", 60)
        assert kept == [OLD.epoch]

    in_loop(story)


@pytest.mark.slow
def test_a_disk_that_refuses_lets_nothing_pass(tmp_path: Path) -> None:
    disk = sim_disk()

    async def story() -> None:
        async with site(tmp_path) as one:
            adapter = modbus(one.listen, ROWS, guard="gate", gated_url=GATED, timeout_ms=SILENCE_MS)
            with pytest.raises(ExceptionGroup, match="unhandled") as ended:
                async with one.guarded(files=disk):
                    await adapter.connect()
                    disk.refuse = lambda operation, _: errno.EIO if operation == "sync" else 0
                    assert await adapter.lead(OLD) != GOES_ON
                    await adapter.close()
                    await asyncio.sleep(PATIENCE_S)
            assert "lets no order pass any more" in str(ended.value.exceptions[0])
            assert one.values() == []

    in_loop(story)


@pytest.mark.slow
def test_a_unit_that_never_answered_does_not_end_the_gates_connection(tmp_path: Path) -> None:
    """One that had answered does, when it is silent three times in a row."""

    async def story() -> None:
        device, listen = UnrulyDevice({1: silent, 2: silent, 3: honest}), free_port()
        await device.start()
        adapter = modbus(listen, rows_of({3: (0,)}))
        hurried = modbus(listen, rows_of({1: (0,), 2: (0,)}), timeout_ms=20, retries=0)
        gate = gate_of(device.port, listen, tmp_path, timeout_ms=50)
        async with running(gate, tmp_path):
            await adapter.connect()
            await adapter.poll()
            for _ in range(5):
                await hurried.connect()
                with pytest.raises(DeviceLost):
                    await hurried.poll()
            await adapter.poll()
            assert device.connections == 1
            device.manners[3] = silent
            hearing = modbus(listen, rows_of({3: (0,)}), timeout_ms=20, retries=2)
            await hearing.connect()
            with pytest.raises(DeviceLost):
                await hearing.poll()
            await until(lambda: not gate.status()["is_connected"], "the third silence")
            device.manners[3] = honest
            await adapter.poll()
            assert device.connections == 2
            for one in (adapter, hurried, hearing):
                await one.close()
        await device.stop()

    run_steadily(story())


def test_plain_writes_of_any_function_are_refused(tmp_path: Path) -> None:
    async def story() -> None:
        async with site(tmp_path) as one, one.guarded() as gate:
            client = await one.client()
            limit = int(row_of("speed_limit")["address"])
            refused = [
                await client.write_register(limit, 50),
                await client.write_registers(limit, [50, 50]),
                await client.write_coil(0, True),
                await client.write_coils(0, [True, True]),
                await client.mask_write_register(address=limit, and_mask=0, or_mask=50),
                await client.readwrite_registers(read_address=0, read_count=1, write_address=limit, values=[50]),
                await client.write_registers(PLAIN_ADDRESS, [1, 2]),
                await client.write_registers(MAILBOX_ADDRESS + 1, [1] * 10),
                await client.write_registers(MAILBOX_ADDRESS, [1] * 11),
                await client.write_registers(MAILBOX_ADDRESS + 2 * MAILBOX_REGISTERS, [1] * 10),
                await client.write_registers(MAILBOX_ADDRESS, [1] * 10, device_id=9),
            ]
            assert [one.exception_code for one in refused] == [1, 2, 1, 1, 1, 1, 2, 2, 2, 2, 2]
            assert one.values() == []
            assert gate.status()["refused"] == {"plain_write": 11}
            client.close()

    in_loop(story)


def test_reads_pass_and_the_plcs_own_exceptions_too(tmp_path: Path) -> None:
    async def story() -> None:
        async with site(tmp_path) as one, one.guarded():
            behind, direct = await one.client(), AsyncModbusTcpClient("127.0.0.1", port=one.server.port)
            assert await direct.connect()
            for client in (behind, direct):
                assert (await client.read_holding_registers(60_000, count=2)).exception_code == 2
            read = [
                (
                    (await client.read_holding_registers(0, count=4)).registers,
                    (await client.read_input_registers(0, count=20)).registers,
                    (await client.read_coils(0, count=1)).bits[:1],
                    (await client.read_discrete_inputs(0, count=9)).bits[:9],
                )
                for client in (behind, direct)
            ]
            assert read[0] == read[1]
            assert (await behind.read_holding_registers(MAILBOX_ADDRESS - 2, count=4)).exception_code == 2
            behind.close()
            direct.close()

    in_loop(story)


HOSTILE = [
    b"GET / HTTP/1.1\r\n\r\n",
    b"\0\1\0\0\0\0\1",
    b"\0\1\0\0\0\1\1",
    b"\0\1\0\0\xff\xff\1\3" + bytes(300),
    b"\0\1\0\5\0\6\1\3\0\0\0\1",
]


@pytest.mark.parametrize("data", HOSTILE, ids=range(len(HOSTILE)))
def test_what_is_no_modbus_ends_its_own_connection_only(tmp_path: Path, data: bytes) -> None:
    async def story() -> None:
        async with site(tmp_path) as one, one.guarded() as gate:
            client = await one.client()
            reader, writer = await asyncio.open_connection("127.0.0.1", one.listen)
            writer.write(data)
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()
            assert gate.status()["malformed"] == 1
            assert not (await client.read_holding_registers(0, count=1)).isError()
            client.close()

    in_loop(story)


def test_frames_may_come_in_pieces_and_several_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with site(tmp_path) as one, one.guarded():
            reader, writer = await asyncio.open_connection("127.0.0.1", one.listen)
            frame = struct.pack(">HHHBBHH", 7, 0, 6, 1, 3, MAILBOX_ADDRESS + 24, 1)
            for octet in frame:
                writer.write(bytes([octet]))
                await writer.drain()
            writer.write(frame * 3)
            answers = [await reader.readexactly(11) for _ in range(4)]
            assert len(set(answers)) == 1 and answers[0][:4] == b"\0\7\0\0"
            writer.close()

    in_loop(story)


def test_more_connections_than_there_is_room_for_are_turned_away(tmp_path: Path) -> None:
    async def story() -> None:
        async with site(tmp_path) as one, one.guarded() as gate:
            first = await one.client()
            others = [await asyncio.open_connection("127.0.0.1", one.listen) for _ in range(CONNECTIONS_MAX + 4)]
            await until(lambda: gate.status()["turned_away"] == 5, "five too many")
            assert gate.status()["connections"] == CONNECTIONS_MAX
            assert not (await first.read_holding_registers(0, count=1)).isError()
            for _, writer in others:
                writer.close()
            await until(lambda: gate.status()["connections"] == 1, "room again")
            second = await one.client()
            assert not (await second.read_holding_registers(0, count=1)).isError()
            first.close()
            second.close()

    in_loop(story)


def test_a_full_gate_lets_go_of_whoever_has_been_silent_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forgotten connections must not keep a member out."""
    monkeypatch.setattr(gate_door, "SILENT_S", 0.0)

    async def story() -> None:
        async with site(tmp_path) as one, one.guarded() as gate:
            silent, _ = await asyncio.open_connection("127.0.0.1", one.listen)
            await until(lambda: gate.status()["connections"] == 1, "the silent one")
            others = [await one.client() for _ in range(CONNECTIONS_MAX - 1)]
            for client in others:
                assert not (await client.read_holding_registers(0, count=1)).isError()
            late = await one.client()
            assert not (await late.read_holding_registers(0, count=1)).isError()
            with contextlib.suppress(ConnectionError):
                assert await silent.read() == b""
            assert not (await others[0].read_holding_registers(0, count=1)).isError()
            assert (gate.status()["connections"], gate.status()["turned_away"]) == (CONNECTIONS_MAX, 0)
            for client in (late, *others):
                client.close()

    in_loop(story)


def test_a_client_that_stops_within_a_frame_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_door, "TAKEN_S", 0.05)

    async def story() -> None:
        async with site(tmp_path) as one, one.guarded() as gate:
            reader, writer = await asyncio.open_connection("127.0.0.1", one.listen)
            writer.write(b"\0\1\0\0\0\6\1\3")
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            await until(lambda: gate.status()["connections"] == 0, "its end")

    in_loop(story)


def test_without_the_plc_members_lose_the_device_and_an_order_certainly_did_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with site(tmp_path) as one, one.guarded() as gate:
            adapter = await one.adapter()
            await led(adapter, OLD)
            assert (await write(adapter, "speed_limit", 60)).outcome is Outcome.VERIFIED
            await one.server.apply(PlcFaults(is_off=True))
            await until(lambda: not gate.status()["is_connected"], "the end of the connection")
            refused = await write(adapter, "speed_limit", 70)
            assert (refused.outcome, "the device is away" in refused.detail) == (Outcome.REJECTED, True)
            with pytest.raises(DeviceLost):
                await adapter.poll()
            await one.server.apply(PlcFaults())
            await adapter.close()
            deadline = asyncio.get_running_loop().time() + PATIENCE_S
            while (written := await attempted(adapter)) is not Outcome.VERIFIED:
                assert asyncio.get_running_loop().time() < deadline, written
            assert [value for _, value in one.values()] == [60.0, 80.0]

    async def attempted(adapter: PairAdapter) -> Outcome | None:
        """One try, as COMM would: connect anew, see that it is there, write."""
        try:
            await adapter.close()
            await adapter.connect()
            await adapter.knock()
        except DeviceLost:
            return None
        return (await write(adapter, "speed_limit", 80)).outcome

    in_loop(story)


def test_what_the_plc_refuses_is_told_as_refused(tmp_path: Path) -> None:
    async def story() -> None:
        async with site(tmp_path) as one, one.guarded():
            adapter = await one.adapter()
            await led(adapter, OLD)
            written = await write(adapter, "speed_limit", 200)
            assert (written.outcome, written.detail) == (Outcome.REJECTED, "the device behind the gate refused it")
            assert (await write(adapter, "speed_limit", 50)).outcome is Outcome.VERIFIED

    in_loop(story)


def test_an_order_that_waited_for_the_line_too_long_is_not_sent_any_more(tmp_path: Path) -> None:
    """Who gave it has called it unknown by then, and may have given another one elsewhere."""

    async def story() -> None:
        async with site(tmp_path) as one, one.guarded() as gate:
            limit = gate._targets[int(row_of("speed_limit")["target"])]
            assert await gate._device.write(limit, 60, longest_ns=0) is Result.UNREACHED
            assert await gate._device.write(limit, 70, longest_ns=LONG_MS * MS) is Result.DONE
            assert one.values() == [("speed_limit", 70.0)]

    in_loop(story)


@pytest.mark.slow
def test_an_order_that_the_plc_does_not_answer_is_unknown_and_nothing_overtakes_it(tmp_path: Path) -> None:
    """Neither an order of the same holder nor the raised guard of the next: until the dead time has passed."""

    async def story() -> None:
        async with site(tmp_path) as one, one.guarded(timeout_ms=SILENCE_MS, dead_time_ms=LONG_MS) as gate:
            old, new = await one.adapter(), await one.adapter(timeout_ms=SILENCE_MS)
            assert "does not answer" in await new.lead(OLD), "a start keeps everything back"
            now_quiet(gate)
            await led(old, OLD)
            await one.server.apply(PlcFaults(is_half_open=True))
            written = await write(old, "speed_limit", 60)
            assert (written.outcome, written.detail) == (
                Outcome.UNKNOWN, "the gate passed it on, and nobody knows what became of it",
            )  # fmt: skip
            await one.server.apply(PlcFaults())
            refused = await write(old, "speed_limit", 70)
            assert (refused.outcome, "may still be on its way" in refused.detail) == (Outcome.REJECTED, True)
            assert "does not answer" in await new.lead(NEW)
            now_quiet(gate)
            await led(new, NEW)
            assert (await write(new, "speed_limit", 80)).outcome is Outcome.VERIFIED
            assert [value for _, value in one.values()] == [60.0, 80.0], "once, and in this order"

    def now_quiet(gate: GateActor) -> None:
        """The dead time has passed."""
        gate._gate = msgspec.structs.replace(gate._gate, quiet_until=Instant(0))

    in_loop(story)


@pytest.mark.parametrize("garbage", [b"\0" * 9, b"\xff" * 300, b"\0\1\0\0\0\3\1\x83\2" * 2, b"\0\1\0\0\0\2\1\3"])
def test_a_device_that_talks_nonsense_ends_nothing_but_its_own_connection(tmp_path: Path, garbage: bytes) -> None:
    async def story() -> None:
        async with RawDevice(lambda unit, function, request: registers_answer(request)) as device:
            gate = gate_of(device.port, listen := free_port(), tmp_path, timeout_ms=200)
            async with running(gate, tmp_path):
                device.garbage = garbage
                client = AsyncModbusTcpClient("127.0.0.1", port=listen, timeout=1, retries=0, reconnect_delay=0)
                assert await client.connect()
                with contextlib.suppress(Exception):
                    await client.read_holding_registers(0, count=1)
                client.close()
                again = AsyncModbusTcpClient("127.0.0.1", port=listen, timeout=PATIENCE_S, retries=0)
                assert await again.connect()
                read = await again.read_holding_registers(0, count=1)
                assert read.registers == [7]
                again.close()

    in_loop(story)


def test_comm_polls_and_orders_through_a_gate(tmp_path: Path) -> None:
    async def story() -> None:
        core = LeadingCore(epoch=5)
        (tmp_path / "node").mkdir()
        (tmp_path / "gate").mkdir()
        async with site(tmp_path / "gate") as one, one.guarded() as gate:
            arguments = {
                "name": "p1", "kind": "modbus", "url": f"tcp://127.0.0.1:{one.listen}", "poll_ms": 20, "items": ROWS,
                "guard": "gate", "mailbox_address": MAILBOX_ADDRESS, "gated_url": GATED,
            }  # fmt: skip
            async with running(core, tmp_path / "node"), running(comm(arguments), tmp_path / "node"):
                await until(lambda: gate.status()["guard"] == 5, "the guard at the holder's epoch")
                assert one.carried == []
                core.order("w", "speed_limit", 60)
                await until(lambda: core.receipts_of("w"), "a receipt")
                assert core.receipts_of("w")[0].outcome is Outcome.VERIFIED
                await until(lambda: core.last_of("speed_limit") == (60, GOOD), "the sample")

    in_loop(story)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"name": "x", "kind": "holding", "address": "0", "writable": "true"}], "needs its target"),
        ([{"name": "x", "kind": "holding", "address": "0"}], "nothing to guard"),
        (
            [
                {"name": "x", "kind": "holding", "address": "0", "writable": "true", "target": "1"},
                {"name": "y", "kind": "holding", "address": "1", "writable": "true", "target": "1"},
            ],
            "target 1 is that of x",
        ),
    ],
)
def test_a_table_that_a_gate_can_not_guard_is_refused_at_the_start(
    tmp_path: Path, rows: list[dict[str, str]], words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        gate_of(1, 2, tmp_path, items=rows)


def test_an_address_that_somebody_has_is_refused_by_name(tmp_path: Path) -> None:
    async def story() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            with pytest.raises(ExceptionGroup) as refused:
                async with running(gate_of(1, port, tmp_path), tmp_path):
                    pass
            assert f"{port} can't be listened on" in str(refused.value.exceptions[0])

    in_loop(story)
