"""Parts that the tests of the field share: a core that only records, and simulated devices."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence

import numpy as np
from pymodbus.server import ModbusTcpServer
from pymodbus.simulator import DataType, SimData, SimDevice

from albireo.codec import record, samples
from albireo.codec.message import (
    Append,
    Appended,
    AppendRefused,
    ProducerHello,
    ProducerWelcome,
    RoleTold,
    WriteDone,
    WriteOrder,
)
from albireo.codec.record import GapFound, Kind
from albireo.field.comm import Comm, create
from albireo.model.command import Receipt
from albireo.model.instant import SECOND, Instant
from albireo.model.item import DataItem
from albireo.model.position import Position
from albireo.model.samples import SampleBatch
from albireo.model.value import Value
from albireo.runtime.actor.actor import ActorContext
from albireo.runtime.link.sockets import Letter
from tests.parts.port import free_port
from tests.parts.refusals import no
from tests.parts.waiting import PATIENCE_S

LONG_MS = 60_000
"""Of a time limit that is not the point: nobody may take longer, and a machine that stands still does not reach it."""
SILENCE_MS = 2_500
"""Of a time limit that has to run out: a machine that stands still for a second does not make it do so."""


async def until(condition: Callable[[], object], what: str = "condition") -> None:
    """Wait for `condition` with a deadline."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, f"{what} did not come"
        await asyncio.sleep(0.005)


class RecordingCore:
    """A core as small as the contract allows: takes each number once, keeps what it took, and can be made to sulk."""

    name = "core"

    def __init__(self, epoch: int = 1) -> None:
        self.epoch = epoch
        self.items: tuple[DataItem, ...] = ()
        self.batches: list[SampleBatch] = []
        self.gaps: list[GapFound] = []
        self.ordered: list[WriteOrder] = []
        self.receipts: list[Receipt] = []
        self.hellos: list[ProducerHello] = []
        self.last = 0
        self.is_deaf = False
        self._sender = b""

    async def start(self, actor: ActorContext) -> None:
        self.actor = actor
        self.link = actor.bind("core")

    def drained(self, letters: Sequence[Letter]) -> None:
        for letter in letters:
            if not self.is_deaf:
                self._take(letter)

    def _take(self, letter: Letter) -> None:
        self._sender = letter.sender
        match letter.message:
            case ProducerHello() as hello:
                self.hellos.append(hello)
                self.items = hello.items
                welcome = ProducerWelcome(
                    producer_id=7,
                    last_sequence=self.last,
                    item_ids=tuple(range(100, 100 + len(hello.items))),
                    epoch=self.epoch,
                    credit_bytes=1 << 20,
                    run=hello.run,
                )
                self.link.send(welcome, to=letter.sender)
            case Append(entries=entries):
                for entry, body in zip(entries, letter.raw, strict=True):
                    producer_id, sequence = record.decode_producer(body)
                    if sequence > self.last + 1:
                        refused = AppendRefused(
                            producer_id=producer_id, producer_sequence=sequence, refusal=no("gap"), wanted=self.last + 1
                        )
                        self.link.send(refused, to=letter.sender)
                        return
                    if sequence == self.last + 1:
                        self.last = sequence
                        self._keep(entry.kind, entry.record_count, bytes(body))
                position = Position(self.epoch, self.last)
                self.link.send(
                    Appended(producer_id=7, producer_sequence=self.last, position=position), to=letter.sender
                )
            case WriteDone(receipt=receipt):
                self.receipts.append(receipt)

    def _keep(self, kind: int, count: int, body: bytes) -> None:
        if kind == Kind.RECORDS:
            self.gaps += [one for one in record.decode_records(body, count) if isinstance(one, GapFound)]
        else:
            self.batches.append(samples.decode_body(body, kind, count))

    def ticked(self, now: Instant) -> None:
        pass

    async def stop(self) -> None:
        pass

    def id_of(self, name: str) -> int:
        return 100 + [one.name for one in self.items].index(name)

    def history(self, name: str) -> list[tuple[Value, int]]:
        """(value, quality) of every sample of an item, in order."""
        if not self.items:
            return []
        wanted = self.id_of(name)
        found: list[tuple[Value, int]] = []
        for batch in self.batches:
            rows = np.flatnonzero(batch.item_id == wanted)
            if len(rows):
                part = batch.take(rows)
                found += zip(part.values(), part.quality.tolist(), strict=True)
        return found

    def timed(self, name: str) -> list[tuple[Value, int]]:
        """(value, source time) of every sample of an item, in order."""
        wanted = self.id_of(name)
        parts = [batch.take(np.flatnonzero(batch.item_id == wanted)) for batch in self.batches]
        return [pair for part in parts for pair in zip(part.values(), part.source_ns.tolist(), strict=True)]

    def tell_role(self, *, is_acting: bool) -> None:
        self.link.send(RoleTold(epoch=self.epoch, is_acting=is_acting), to=self._sender)

    def last_of(self, name: str) -> tuple[Value, int] | None:
        found = self.history(name)
        return found[-1] if found else None

    def order(
        self,
        command_id: str,
        name: str,
        value: Value,
        *,
        epoch: int | None = None,
        valid_s: float = PATIENCE_S,
        not_before: int = 0,
    ) -> None:
        order = WriteOrder(
            command_id=command_id,
            item_id=self.id_of(name),
            value=value,
            epoch=self.epoch if epoch is None else epoch,
            not_after=self.actor.now() + int(valid_s * SECOND),
            not_before=not_before,
        )
        self.ordered.append(order)
        self.link.send(order, to=self._sender)

    def receipts_of(self, command_id: str) -> list[Receipt]:
        return [one for one in self.receipts if one.command_id == command_id]


def comm(arguments: Mapping[str, object]) -> Comm:
    quick: dict[str, object] = {"backoff_min_ms": 20, "backoff_max_ms": 100, "seed": 1, "diagnostics_ms": 200}
    return create({**quick, **arguments})


class Plc:
    """A Modbus TCP server of pymodbus with 200 registers and 64 bits of each kind, all within a test's reach."""

    def __init__(self, port: int, device_ids: Sequence[int] = (1,)) -> None:
        self.port = port
        self._device_ids = device_ids
        self._server: ModbusTcpServer | None = None
        self.reads = self.writes = 0

    async def start(self) -> None:
        devices = [self._device(one) for one in self._device_ids]
        self._server = ModbusTcpServer(devices, address=("127.0.0.1", self.port))
        await self._server.serve_forever(background=True)

    def _device(self, device_id: int) -> SimDevice:
        bits = [SimData(0, values=[False] * 64, datatype=DataType.BITS)]
        registers = [SimData(0, values=[0] * 200, datatype=DataType.REGISTERS)]
        blocks = (bits, list(bits), registers, list(registers))
        return SimDevice(device_id, simdata=blocks, action=self._accessed)

    async def _accessed(
        self, function: int, start: int, address: int, count: int, registers: list[int], values: object
    ) -> None:
        self.reads += function in (1, 2, 3, 4) and values is None
        self.writes += function in (5, 6, 15, 16, 22) and values is not None

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.shutdown()  # type: ignore[no-untyped-call]  # pymodbus leaves it untyped.
            self._server = None

    async def set(
        self, function: int, address: int, values: Sequence[int] | Sequence[bool], device_id: int = 1
    ) -> None:
        """`function` is that of a read: 1 coils, 2 discrete inputs, 3 holding, 4 input registers."""
        assert self._server is not None
        await self._server.context.async_setValues(device_id, function, address, list(values))

    async def get(self, function: int, address: int, count: int, device_id: int = 1) -> list[int]:
        assert self._server is not None
        found = await self._server.context.async_getValues(device_id, function, address, count)
        assert isinstance(found, list)
        return [int(one) for one in found]


@contextlib.asynccontextmanager
async def plc(device_ids: Sequence[int] = (1,)) -> AsyncIterator[Plc]:
    one = Plc(free_port(), device_ids)
    await one.start()
    try:
        yield one
    finally:
        await one.stop()


def in_loop(story: Callable[[], Coroutine[None, None, None]]) -> None:
    asyncio.run(story())


Respond = Callable[[int, int, bytes], bytes | None]
"""(unit, function, rest of the request) -> body of the answer with its function code; None: no answer."""


class RawDevice:
    """A Modbus TCP device that answers what a test says, sense or nonsense."""

    def __init__(self, respond: Respond) -> None:
        self.port = free_port()
        self.respond = respond
        self.garbage = b""
        """Sent instead of the next answer, as it stands."""
        self.requests: list[tuple[int, int, bytes]] = []
        self.connections = 0
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> "RawDevice":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.hang_up()

    def hang_up(self) -> None:
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    async def about_to_answer(self) -> None:
        """What it does first."""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readexactly(7)
                body = await reader.readexactly(int.from_bytes(head[4:6], "big") - 1)
                self.requests.append((head[6], body[0], body[1:]))
                answer = self.respond(head[6], body[0], body[1:])
                await self.about_to_answer()
                if self.garbage:
                    writer.write(self.garbage)
                    self.garbage = b""
                elif answer is not None:
                    writer.write(head[:4] + (len(answer) + 1).to_bytes(2, "big") + head[6:7] + answer)


def registers_answer(request: bytes, value: int = 7) -> bytes:
    """A well-formed answer to a read of holding registers, all of one value."""
    count = int.from_bytes(request[2:4], "big")
    return bytes([3, 2 * count]) + value.to_bytes(2, "big") * count
