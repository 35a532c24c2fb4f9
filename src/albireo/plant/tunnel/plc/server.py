"""One PLC as a real Modbus TCP server, in a process of its own.

It holds its set points (a real PLC's are retentive) and gets everything else from the plant ten times a second. Writes
are checked as a PLC program does: only set points, whole values, within their range. Beside them it has what a pair of
nodes needs (`pair_area`); with `--guarded` its set points are reached through the output mailboxes only.

    python -m albireo.plant.tunnel.plc.server --plc p1 --directory DIR [--port N] [--guarded]
"""

import argparse
import asyncio
import math
from collections.abc import Callable, Coroutine, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Final, cast

import numpy as np
from pymodbus.constants import ExcCodes
from pymodbus.simulator import DataType, SimData, SimDevice

from albireo.field.modbus.items import TableKind
from albireo.machine.output.mailbox import RAISE_ONLY, Applied
from albireo.plant.tunnel.child import until_told
from albireo.plant.tunnel.plc.memory import Area, WordStore
from albireo.plant.tunnel.plc.modbus_tcp import ConnectionServer, current_connection
from albireo.plant.tunnel.plc.orders import CarriedOrder, OnCarried, order_file
from albireo.plant.tunnel.plc.pair_area import PairArea
from albireo.plant.tunnel.plc.plcs import MOMENTARY, MOMENTARY_S, PLCS
from albireo.plant.tunnel.plc.registers import (
    Register,
    RegisterMap,
    value_of,
    value_of_order,
    word_places,
    words_of,
    words_of_text,
)
from albireo.plant.tunnel.plc.wire import (
    ActAsked,
    Image,
    PlcFaults,
    PlcHello,
    PointsWritten,
    ResetConnections,
    Restart,
    ZeroVoter,
    connected,
    framed,
    receive,
)
from albireo.plant.tunnel.setpoints import Vector

ANY_UNIT: Final = 0
"""pymodbus: the device that answers to every unit id."""
READ_CODE: Final = {TableKind.COIL: 1, TableKind.DISCRETE: 2, TableKind.HOLDING: 3, TableKind.INPUT: 4}
"""Function code by which pymodbus picks a table, for its own stores too."""
_KINDS: Final = {1: TableKind.COIL, 2: TableKind.DISCRETE, 4: TableKind.INPUT, 5: TableKind.COIL, 15: TableKind.COIL}
"""Table of a function code; all others are of holding registers."""

OnWritten = Callable[[dict[str, float]], None]


class PlcServer:
    """A PLC; runs in the event loop of its caller. `start` returns when the port is open."""

    def __init__(
        self,
        registers: RegisterMap,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        store: WordStore | None = None,
        is_guarded: bool = False,
    ) -> None:
        """`port` 0 takes a free one, and keeps it when the PLC comes back; without `store` nothing outlives it."""
        self.port = port
        self.on_written: OnWritten = lambda values: None
        """Gets every accepted write, by item name in engineering units."""
        self.on_carried: OnCarried = lambda carried: None
        """Gets every output that was written, by whatever way."""
        self.faults = PlcFaults()
        self.pair = PairArea(store or WordStore(), len(registers.writable))
        self.pair.on_applied = self._ordered
        self.held = {one.name: registers.default(one) for one in registers.writable}
        """Set points by item name, engineering units."""
        self.requests = 0
        self.writes = 0
        """Writes that came so far, those that `PlcFaults.write_delay_ms` holds back included."""
        self._registers = registers
        self._host = host
        self._is_guarded = is_guarded
        self._server: ConnectionServer | None = None
        self._is_down = False
        """A power cycle is under way; the port opens at its end, whatever the faults say."""
        self._is_loading = False
        self._image = {kind: np.zeros(size, np.uint16) for kind, size in registers.sizes.items()}
        self._by_place = {(one.row.kind, place): one for one in registers.registers for place in word_places(one)}
        self._fallbacks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Opens the port, with the values last loaded in place: no client ever reads registers that were never set.

        Raises:
            OSError: the port is taken.
        """
        device = SimDevice(ANY_UNIT, simdata=_tables(self._registers, self.pair.areas), action=self._accessed)
        server = ConnectionServer(device, (self._host, self.port), self._on_wire)
        server.connections_max = self.faults.connections_max
        self._server = server
        for register in self._registers.writable:
            await self._hold(register, self.held[register.name])
        for register in self._registers.strings:
            await self._store(register.row.kind, register.address, words_of_text(register.row.text))
        await self._show()
        if not await server.listen():
            self._server = None
            raise OSError(f"port {self.port} of {self._host} cannot be opened; is another plant running?")
        # pymodbus types its listener as a plain transport; it is an asyncio.Server.
        listener = cast(asyncio.Server, server.transport)
        self.port = listener.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Closes the port and every connection; set points are kept."""
        for task in list(self._fallbacks):
            task.cancel()
        self.pair.close()
        server, self._server = self._server, None
        if server is not None:
            await server.shutdown()  # type: ignore[no-untyped-call]  # pymodbus leaves it untyped.

    async def apply(self, faults: PlcFaults) -> None:
        """Set what is wrong from now on."""
        self.faults = faults
        self.pair.freeze(faults.is_frozen)
        if self._server is not None:
            self._server.connections_max = faults.connections_max
        if faults.is_off and self._server is not None:
            await self.stop()
        elif not faults.is_off and self._server is None and not self._is_down:
            await self.start()

    async def act(self, act: Restart | ZeroVoter | ResetConnections) -> None:
        """Something happens once; returns when it is over."""
        match act:
            case ZeroVoter():
                self.pair.zero_voter()
            case ResetConnections():
                self._reset_connections()
            case Restart():
                await self._restart(act)

    def _reset_connections(self) -> None:
        if self._server is not None:
            self._server.reset_connections()

    async def _restart(self, act: Restart) -> None:
        if self._is_down:
            return
        self._is_down = True
        self._reset_connections()
        await self.stop()
        await asyncio.sleep(act.down_ms / 1_000)
        self.pair.restart(act.keep, act.age_ms / 1_000)
        self._is_down = False
        if not self.faults.is_off:
            await self.start()

    async def load(self, values: Vector, texts: dict[str, str]) -> None:
        """New values of everything but the set points; not taken while frozen."""
        if self.faults.is_frozen:
            return
        self._image = self._registers.encode(values)
        for register in self._registers.strings:
            if register.row.kind is TableKind.INPUT:
                words = words_of_text(texts.get(register.row.channel, ""))
                self._image[TableKind.INPUT][register.address : register.address + len(words)] = words
        if self._server is not None:
            await self._show()

    async def _show(self) -> None:
        for kind in (TableKind.INPUT, TableKind.DISCRETE):
            await self._store(kind, 0, self._image[kind].tolist())

    async def _store(self, kind: TableKind, address: int, words: list[int]) -> None:
        assert self._server is not None
        stored: list[int] | list[bool] = [bool(word) for word in words] if kind.is_bits else words
        self._is_loading = True
        try:
            await self._server.async_setValues(ANY_UNIT, READ_CODE[kind], address, stored)
        finally:
            self._is_loading = False

    async def _hold(self, register: Register, value: float) -> None:
        words = words_of(np.array([value / register.row.scale]), register.row.type)[0].tolist()
        if register.row.word_order == "little":
            words.reverse()
        await self._store(register.row.kind, register.address, words)

    async def _accessed(
        self,
        code: int,
        start: int,
        address: int,
        count: int,
        words: list[int],
        written: list[int] | list[bool] | None,
    ) -> ExcCodes | None:
        """pymodbus calls this before every access; an exception code refuses it."""
        if self._is_loading:
            return None
        self.requests += 1
        if self.faults.answer_delay_ms:
            await asyncio.sleep(self.faults.answer_delay_ms / 1_000)
        if self.faults.exception_code:
            return ExcCodes(self.faults.exception_code)
        kind = _KINDS.get(code, TableKind.HOLDING)
        if written is None:
            if kind is TableKind.HOLDING:
                self._show_pair(words, start, Area(address, count))
            return None
        self.writes += 1
        if self.faults.write_delay_ms:
            await asyncio.sleep(self.faults.write_delay_ms / 1_000)
        values = [int(word) for word in written]
        if kind is TableKind.HOLDING and self.pair.holds(address, count):
            await self.pair.write(current_connection(), address, values, self.faults)
            if self.pair.plain.holds(address, count):
                self.on_carried(CarriedOrder(way="plain", name=str(address), words=tuple(values)))
            return None
        if self._is_guarded:
            return ExcCodes.ILLEGAL_ADDRESS
        return self._written(kind, address, values)

    def _show_pair(self, words: list[int], start: int, read: Area) -> None:
        """pymodbus answers from `words`; what this connection sees of the pair's registers is put there first."""
        for area in self.pair.areas:
            if area.touches(read.first, read.count):
                words[area.first - start : area.first - start + area.count] = self.pair.seen(current_connection(), area)

    def _ordered(self, applied: Sequence[Applied]) -> None:
        """Orders that came through the mailboxes; a value out of range is not taken over, as in a write."""
        for member, order in ((one.member, one.order) for one in applied):
            if order.target == RAISE_ONLY:
                continue
            register = self._registers.writable[order.target - 1]
            value = value_of_order(order.value, register)
            self.on_carried(
                CarriedOrder(way="mailbox", name=register.name, value=value, member=member, epoch=order.epoch)
            )
            if _is_in_range(value, register):
                self._take({register.name: value})
                self._later(self._hold(register, value))

    def _written(self, kind: TableKind, address: int, words: list[int]) -> ExcCodes | None:
        accepted: dict[str, float] = {}
        place = address
        while place < address + len(words):
            register = self._by_place.get((kind, place))
            if register is None or not register.row.is_writable or register.address != place:
                return ExcCodes.ILLEGAL_ADDRESS
            if place + register.words > address + len(words):
                return ExcCodes.ILLEGAL_ADDRESS
            value = value_of(words[place - address :][: register.words], register)
            if not _is_in_range(value, register):
                return ExcCodes.ILLEGAL_VALUE
            accepted[register.name] = value
            place += register.words
        for name, value in accepted.items():
            self.on_carried(CarriedOrder(way="register", name=name, value=value))
        self._take(accepted)
        return None

    def _take(self, accepted: dict[str, float]) -> None:
        self.held.update(accepted)
        self.on_written(accepted)
        for name in MOMENTARY & accepted.keys():
            if accepted[name]:
                self._later(self._fall_back(name))

    def _later(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._fallbacks.add(task)
        task.add_done_callback(self._fallbacks.discard)

    async def _fall_back(self, name: str) -> None:
        await asyncio.sleep(MOMENTARY_S)
        register = next(one for one in self._registers.writable if one.name == name)
        self.held[name] = 0.0
        await self._hold(register, 0.0)
        self.on_written({name: 0.0})

    def _on_wire(self, is_sending: bool, data: bytes) -> bytes:
        return b"" if is_sending and self.faults.is_half_open else data


def _is_in_range(value: float, register: Register) -> bool:
    row = register.row
    return (
        math.isfinite(value)
        and (row.minimum is None or value >= row.minimum)
        and (row.maximum is None or value <= row.maximum)
    )


def _tables(
    registers: RegisterMap, plain: Sequence[Area]
) -> tuple[list[SimData], list[SimData], list[SimData], list[SimData]]:
    """Coils, discrete inputs, holding and input registers, all zero: four separate tables."""
    coils, discretes = (
        [SimData(0, values=[False] * registers.sizes[kind], datatype=DataType.BITS)]
        for kind in (TableKind.COIL, TableKind.DISCRETE)
    )
    holdings, inputs = (
        [SimData(0, count=registers.sizes[kind], values=0, datatype=DataType.REGISTERS)]
        for kind in (TableKind.HOLDING, TableKind.INPUT)
    )
    holdings += [SimData(one.first, count=one.count, values=0, datatype=DataType.REGISTERS) for one in plain]
    return coils, discretes, holdings, inputs


async def follow(server: PlcServer, plc: str, directory: Path, is_open: asyncio.Event) -> None:
    """Runs `server` as PLC `plc` of the plant in `directory`, until the plant is gone.

    Raises:
        OSError: no plant there, or the port is taken.
        WireError: the plant says what is no message.
    """
    outbox: asyncio.Queue[dict[str, float]] = asyncio.Queue()
    server.on_written = outbox.put_nowait
    async with connected(directory) as (reader, writer):
        writer.write(framed(PlcHello(plc=plc)) + framed(PointsWritten(values=server.held)))
        async with asyncio.TaskGroup() as group:
            while isinstance(message := await receive(reader), Image | ActAsked):
                if isinstance(message, ActAsked):
                    # A power cycle takes its time; images go on coming.
                    group.create_task(server.act(message.act))
                    continue
                await server.load(np.frombuffer(message.values, "<f8"), message.texts)
                await server.apply(message.faults)
                is_open.set()
                while not outbox.empty():
                    writer.write(framed(PointsWritten(values=outbox.get_nowait())))
    await server.stop()


async def _main(arguments: argparse.Namespace) -> None:
    plc, directory = arguments.plc, arguments.directory
    store = WordStore(directory / f"{plc}.retained")
    server = PlcServer(PLCS[plc], arguments.host, arguments.port, store=store, is_guarded=arguments.guarded)
    with order_file(directory / f"{plc}.orders.jsonl") if arguments.orders else nullcontext(server.on_carried) as note:
        server.on_carried = note
        work = partial(follow, server, plc, directory)
        await until_told(work, lambda: {"plc": plc, "port": server.port}, is_child=arguments.child)
        await server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m albireo.plant.tunnel.plc.server", description="One PLC of the tunnel."
    )
    parser.add_argument("--plc", choices=sorted(PLCS), required=True)
    parser.add_argument("--directory", type=Path, required=True, help="where the plant has its plant.sock")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free port")
    parser.add_argument("--child", action="store_true", help="end at the end of stdin")
    parser.add_argument("--guarded", action="store_true", help="set points are reached through the mailboxes only")
    parser.add_argument("--orders", action="store_true", help="note every write of an output in PLC.orders.jsonl")
    asyncio.run(_main(parser.parse_args()))


if __name__ == "__main__":
    main()
