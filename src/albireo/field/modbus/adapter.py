"""Modbus TCP adapter: a table of items read in blocks, written one at a time with read-back.

A poll reads every block once (reader.py). An answer means for the items that were asked for:

    data                    decoded; the quality is the value's own
    illegal function,       it is learnt which of them the device reads; one that it refuses alone is
    address, value          BadConfigurationError and tried again now and then
    gateway 10, 11          BadNoCommunication: the unit behind the gateway is away
    busy 5, 6               asked again within the poll, then as any other
    any other exception,    learnt in the same way; one that is refused alone is BadDeviceFailure, tried again in the
    an answer that fits not next poll and then every few seconds
    no answer               asked again `retries` times, then BadNoCommunication for the unit, which is away; when no
                            unit of the connection answers, the device is lost

Spec: MODBUS Application Protocol V1.1b3, 7; docs/adapters/modbus.md; ADR-0030, 0033, 0166.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from albireo.codec.register_block import BLOCK_REGISTERS
from albireo.field.contract import (
    ConfigurationError,
    DeviceLost,
    PolledColumns,
    SendGuard,
    VoterRequestRefused,
    WriteTenure,
    Written,
)
from albireo.field.kinds import Rows, Surroundings
from albireo.field.modbus.answers import DataReply, ExceptionReply, Nonsense, NotSent, Silence
from albireo.field.modbus.config import VOTER_REGISTERS, ModbusConfig
from albireo.field.modbus.decode import Layout, Unencodable
from albireo.field.modbus.items import REGISTERS_MAX, ModbusItem, TableKind, parse_row
from albireo.field.modbus.mailbox import MailboxConfig, MailboxOutputs
from albireo.field.modbus.output import ModbusOutputs, PlainOutputs, held_by, registers_of
from albireo.field.modbus.plan import BITS_MAX, BITS_PER_REGISTER, PlanConfig, plan
from albireo.field.modbus.reader import LineReader
from albireo.field.modbus.stamp import StampedOutputs
from albireo.field.modbus.wire import Wire, parse_url
from albireo.model.command import Outcome
from albireo.model.instant import MS, Instant
from albireo.model.item import DataItem
from albireo.model.topology import Guard
from albireo.model.value import Value


class Modbus:
    """Adapter for one Modbus TCP connection, with one or more units behind it."""

    def __init__(self, config: ModbusConfig, table: Sequence[ModbusItem], now: Callable[[], Instant]) -> None:
        self._config = config
        self._table = table
        self._items = tuple(one.item for one in table)
        self._wire = Wire(parse_url(config.url), config.timeout_ms * MS)
        if config.voter_address is not None:
            self._wire.bound_delivery(config.write_max_ms * MS)
        self._outputs = _outputs(self._wire, config, table, now)
        limits = PlanConfig(
            registers_max=min(config.read_count_max, REGISTERS_MAX),
            bits_max=min(BITS_PER_REGISTER * config.read_count_max, BITS_MAX),
            gap_registers_max=config.read_gap_max,
        )
        laid = plan(table, limits)
        self._layout = Layout(table, laid)
        self._reader = LineReader(self._wire, laid, config.retries, now)
        if config.voter_address is None:
            # NB: a voter's line stands for one connection, so that one is never made again behind its back.
            self._wire.redial(self._outputs.closed)
        self._requests = 0
        self._errors = 0

    @property
    def items(self) -> Sequence[DataItem]:
        return self._items

    @property
    def dead_bands(self) -> NDArray[np.float64]:
        return np.array([one.dead_band for one in self._table], np.float64)

    def counters(self) -> Mapping[str, int]:
        reader = self._reader
        own = {
            "errors": self._errors + reader.errors,
            "requests": self._requests + reader.requests,
            "refused_items": reader.blind_items,
            "units_away": reader.units_away,
            "redials": self._wire.redialled,
        }
        return {**own, **self._outputs.counters()}

    async def connect(self) -> None:
        await self._wire.connect()
        self._reader.connected()

    async def close(self) -> None:
        await self.hang_up()

    async def knock(self) -> None:
        await self._reader.knock()

    async def poll(self) -> Sequence[PolledColumns]:
        await self._reader.poll()
        await self._outputs.look()
        reader = self._reader
        return self._layout.columns(reader.registers, reader.bits, reader.quality)

    # Writing.

    async def write(self, row: int, value: Value, may_send: SendGuard) -> Written:
        item = self._table[row]
        if not item.item.is_writable:
            return Written(outcome=Outcome.REJECTED, detail="the item is not writable")
        try:
            wanted = registers_of(item, value)
        except Unencodable as error:
            return Written(outcome=Outcome.REJECTED, detail=str(error))
        if beyond := item.item.out_of_range(held_by(item, wanted)):
            return Written(outcome=Outcome.REJECTED, detail=f"never sent: rounded for its registers, {beyond}")
        return await self._outputs.write(item, wanted, may_send)

    async def lead(self, tenure: WriteTenure) -> str:
        if tenure.is_paired:
            self._wire.bound_delivery(self._config.write_max_ms * MS)
        try:
            return await self._outputs.lead(tenure)
        except DeviceLost as lost:
            return lost.reason

    @property
    def needs_mending(self) -> bool:
        return self._outputs.needs_mending

    async def mend(self, may_send: SendGuard) -> None:
        await self._outputs.mend(may_send)

    def conditions(self) -> Mapping[str, bool]:
        return self._outputs.conditions()

    # The voter's registers.

    async def read_voter(self) -> tuple[int, ...] | VoterRequestRefused:
        config = self._config
        assert config.voter_address is not None
        self._requests += 1
        answer = await self._wire.read(
            TableKind.HOLDING, config.device_id, config.voter_address, VOTER_REGISTERS, config.voter_timeout_ms * MS
        )
        if isinstance(answer, DataReply):
            return tuple(np.frombuffer(answer.data, ">u2").tolist())
        return self._voter_refused(answer)

    async def write_voter(
        self, member: int, register: int, words: Sequence[int], may_send: SendGuard
    ) -> VoterRequestRefused | None:
        config = self._config
        assert config.voter_address is not None
        if member not in (0, 1) or not 0 <= register <= BLOCK_REGISTERS - len(words):
            return VoterRequestRefused(
                f"{len(words)} registers at {register} of block {member} are outside of it", must_close=False
            )
        self._requests += 1
        address = config.voter_address + member * BLOCK_REGISTERS + register
        answer = await self._wire.write_registers(
            config.device_id, address, words, may_send, config.voter_timeout_ms * MS
        )
        return None if isinstance(answer, DataReply) else self._voter_refused(answer)

    def _voter_refused(self, answer: NotSent | ExceptionReply | Silence | Nonsense) -> VoterRequestRefused:
        self._errors += 1
        match answer:
            case NotSent():
                return VoterRequestRefused(f"never sent: {answer.reason}", must_close=True)
            case ExceptionReply():
                return VoterRequestRefused(f"the device answered {answer.text}", must_close=False)
            case Silence():
                return VoterRequestRefused("no answer", must_close=True)
            case Nonsense():
                return VoterRequestRefused(f"an answer that fits not: {answer.reason}", must_close=True)

    async def hang_up(self) -> None:
        await self._wire.closed()
        self._outputs.closed()


def parse_table(rows: Sequence[Mapping[str, str]], *, adapter: str, device_id: int) -> list[ModbusItem]:
    """The items of a table.

    Raises:
        ConfigurationError: rows with mistakes (all of them named), two rows of one name, or no rows.
    """
    table: list[ModbusItem] = []
    wrong: list[str] = []
    names: set[str] = set()
    for number, row in enumerate(rows, 1):
        parsed = parse_row(row, adapter=adapter, device_id=device_id)
        if isinstance(parsed, list):
            wrong += [f"row {number}: {one.text}; {one.remedy}" for one in parsed]
            continue
        if parsed.item.name in names:
            wrong.append(f"row {number}: a second item {parsed.item.name!r}; give it another name")
        names.add(parsed.item.name)
        table.append(parsed)
    if wrong or not table:
        raise ConfigurationError("; ".join(wrong) or "no items; name a table with at least one row")
    return table


def _outputs(
    wire: Wire, config: ModbusConfig, table: Sequence[ModbusItem], now: Callable[[], Instant]
) -> ModbusOutputs:
    match config.guard:
        case Guard.PLC | Guard.GATE if config.mailbox_address is not None:
            mailboxes = MailboxConfig(
                device_id=config.device_id,
                address=config.mailbox_address,
                answer_ns=config.timeout_ms * MS,
                dead_ns=config.dead_time_ms * MS,
                read_back_s=config.read_back_ms / 1_000,
                guard="the PLC's guard" if config.guard is Guard.PLC else "the gate",
            )
            return MailboxOutputs(wire, mailboxes, table, now)
        case Guard.PLC:
            raise AssertionError("ModbusConfig has a mailbox_address for it")
        case Guard.STAMP:
            registers_max = min(config.read_count_max, REGISTERS_MAX)
            return StampedOutputs(wire, table, registers_max, now, config.read_back_ms / 1_000)
        case Guard.GATE | Guard.LEASE:
            return PlainOutputs(wire, config.read_back_ms / 1_000)


def create(settings: ModbusConfig, rows: Rows, surroundings: Surroundings) -> Modbus:
    """The adapter that these settings and rows describe.

    Raises:
        ConfigurationError: they can't work.
    """
    table = parse_table(rows, adapter=settings.name, device_id=settings.device_id)
    return Modbus(settings, table, surroundings.now)
