"""Modbus TCP adapter: a table of items read in blocks, written one at a time with read-back.

A poll reads every block once. A block's answer means for its items:

    data                    decoded; the quality is the value's own
    illegal address, value  the block is split and tried again at once; a single item that is refused is
                            Bad_ConfigurationError and tried again every REFUSED_RETRY_NS
    illegal function        Bad_ConfigurationError, not split: the device has no such table
    gateway 10, 11          Bad_NoCommunication: the unit behind the gateway is away
    any other exception     Bad_DeviceFailure for this poll
    no answer               the unit is silent: asked again `retries` times, then Bad_NoCommunication for the unit; when
                            no unit of the connection answers, the device is lost
    an answer that fits not Bad_DeviceFailure for this poll

Spec: MODBUS Application Protocol V1.1b3, 7; docs/adapters/modbus.md; ADR-0030, 0033.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
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
from albireo.field.kinds import Surroundings
from albireo.field.modbus.config import ModbusConfig
from albireo.field.modbus.decode import Layout, Unencodable
from albireo.field.modbus.items import REGISTERS_MAX, ModbusItem, TableKind, parse_row
from albireo.field.modbus.mailbox import MailboxConfig, MailboxOutputs
from albireo.field.modbus.output import ModbusOutputs, PlainOutputs, registers_of
from albireo.field.modbus.plan import BITS_MAX, BITS_PER_REGISTER, Block, PlanConfig, plan, split
from albireo.field.modbus.stamp import StampedOutputs
from albireo.field.modbus.wire import (
    Answer,
    DataReply,
    ExceptionCode,
    ExceptionReply,
    Nonsense,
    NotSent,
    Silence,
    Wire,
    parse_url,
)
from albireo.model.command import Outcome
from albireo.model.instant import MS, SECOND, Instant
from albireo.model.item import DataItem
from albireo.model.quality import (
    BAD_CONFIGURATION_ERROR,
    BAD_DEVICE_FAILURE,
    BAD_NO_COMMUNICATION,
    BAD_WAITING_FOR_INITIAL_DATA,
    GOOD,
)
from albireo.model.topology import VOTER_REGISTERS, Guard
from albireo.model.value import Value

REFUSED_RETRY_NS: Final = 60 * SECOND
"""Interval at which an item that the device does not know is tried again: somebody may have loaded another program."""
SILENT_RETRY_NS: Final = 5 * SECOND
"""Interval at which a silent unit is asked while others on its line answer: each question costs the line a timeout."""
SPLITS_PER_POLL_MAX: Final = 32
"""Extra reads for splitting in one poll; the rest waits for the next, so that good blocks are not held up."""
_SPLITS: Final = (ExceptionCode.ILLEGAL_ADDRESS, ExceptionCode.ILLEGAL_VALUE)
_GATEWAY: Final = (ExceptionCode.GATEWAY_PATH_UNAVAILABLE, ExceptionCode.GATEWAY_TARGET_SILENT)


class _Read(msgspec.Struct, eq=False):
    """A block, and how it stands with the device."""

    block: Block
    rows: NDArray[np.intp]
    """Rows of its items."""
    refused_until: Instant = Instant(0)
    """Instant before which the block is not asked for; 0: the device knows it."""

    @classmethod
    def of(cls, block: Block) -> "_Read":
        return cls(block, np.array([span.row for span in block.spans], np.intp))


class Modbus:
    """Adapter for one Modbus TCP connection, with one or more units behind it."""

    def __init__(self, config: ModbusConfig, table: Sequence[ModbusItem], now: Callable[[], Instant]) -> None:
        self._config = config
        self._table = table
        self._items = tuple(one.item for one in table)
        self._now = now
        self._retries = config.retries
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
        self._planned = laid.blocks
        self._reads = [_Read.of(block) for block in laid.blocks]
        self._layout = Layout(table, laid)
        self._registers = np.zeros(laid.register_count, np.uint16)
        self._bits = np.zeros(laid.bit_count, np.uint8)
        self._quality = np.full(len(table), BAD_WAITING_FOR_INITIAL_DATA, np.uint32)
        self._silent_until: dict[int, Instant] = {}
        self._requests = 0
        self._errors = 0
        self._knocks = 0

    @property
    def items(self) -> Sequence[DataItem]:
        return self._items

    @property
    def dead_bands(self) -> NDArray[np.float64]:
        return np.array([one.dead_band for one in self._table], np.float64)

    def counters(self) -> Mapping[str, int]:
        refused = sum(len(one.rows) for one in self._reads if one.refused_until)
        own = {"errors": self._errors, "requests": self._requests, "refused_items": refused}
        return {**own, **self._outputs.counters()}

    async def connect(self) -> None:
        # It may be another device now, or another program in it: what was split or silent is tried afresh.
        self._silent_until.clear()
        self._reads = [_Read.of(block) for block in self._planned]
        await self._wire.connect()

    async def close(self) -> None:
        await self.hang_up()

    async def knock(self) -> None:
        """Ask for one block of the plan, each time another, so that silent units are found as well."""
        self._knocks += 1
        read = self._reads[self._knocks % len(self._reads)]
        if isinstance(await self._ask(read.block), Silence):
            raise DeviceLost("no answer")

    async def poll(self) -> Sequence[PolledColumns]:
        answered: set[int] = set()
        silent: set[int] = set()
        kept: list[_Read] = []
        splits_left = SPLITS_PER_POLL_MAX
        todo = deque(self._reads)
        while todo:
            read = todo.popleft()
            if not self._is_due(read, silent):
                kept.append(read)
                continue
            answer = await self._ask(read.block)
            if isinstance(answer, Silence):
                silent.add(read.block.device_id)
                self._mark(read, BAD_NO_COMMUNICATION)
                kept.append(read)
                continue
            answered.add(read.block.device_id)
            parts = self._took(read, answer)
            if parts and splits_left >= len(parts):
                splits_left -= len(parts)
                todo.extendleft(reversed(parts))
            else:
                kept += parts or [read]
        self._reads = kept
        self._judge_silence(answered, silent)
        await self._outputs.look()
        return self._layout.columns(self._registers, self._bits, self._quality)

    def _is_due(self, read: _Read, silent: set[int]) -> bool:
        now = self._now()
        device_id = read.block.device_id
        if device_id in silent or self._silent_until.get(device_id, 0) > now:
            self._mark(read, BAD_NO_COMMUNICATION)
            return False
        return read.refused_until <= now

    async def _ask(self, block: Block) -> Answer:
        """Read one block; after silence again as often as `retries` says, since reading twice harms nothing."""
        answer: Answer = Silence()
        for _ in range(1 + self._retries):
            self._requests += 1
            answer = await self._wire.read(block.kind, block.device_id, block.address, block.count)
            if not isinstance(answer, Silence):
                break
            self._errors += 1
        return answer

    def _took(self, read: _Read, answer: DataReply | ExceptionReply | Nonsense) -> list[_Read]:
        """Put an answer where it belongs; the reads to try instead of one that was refused."""
        read.refused_until = Instant(0)
        match answer:
            case DataReply():
                self._store(read.block, answer.data)
                self._mark(read, GOOD)
            case Nonsense():
                self._errors += 1
                self._mark(read, BAD_DEVICE_FAILURE)
            case ExceptionReply():
                self._errors += 1
                return self._was_refused(read, answer.code)
        return []

    def _was_refused(self, read: _Read, code: int) -> list[_Read]:
        if code in _SPLITS and (parts := split(read.block)):
            return [_Read.of(part) for part in parts]
        if code in _SPLITS or code == ExceptionCode.ILLEGAL_FUNCTION:
            read.refused_until = Instant(self._now() + REFUSED_RETRY_NS)
            self._mark(read, BAD_CONFIGURATION_ERROR)
        elif code in _GATEWAY:
            self._mark(read, BAD_NO_COMMUNICATION)
        else:
            self._mark(read, BAD_DEVICE_FAILURE)
        return []

    def _judge_silence(self, answered: set[int], silent: set[int]) -> None:
        """One silent unit among others is away by itself; when nobody answered, the device is lost.

        Raises:
            DeviceLost: somebody was asked, and nobody answered.
        """
        if silent and not answered:
            raise DeviceLost("no answer")
        now = self._now()
        for device_id in silent:
            self._silent_until[device_id] = Instant(now + SILENT_RETRY_NS)
        for device_id in answered:
            self._silent_until.pop(device_id, None)

    def _mark(self, read: _Read, quality: int) -> None:
        self._quality[read.rows] = quality

    def _store(self, block: Block, data: bytes) -> None:
        start, stop = block.image_at, block.image_at + block.count
        if block.kind.is_bits:
            bits = np.unpackbits(np.frombuffer(data, np.uint8), count=block.count, bitorder="little")
            self._bits[start:stop] = bits
        else:
            self._registers[start:stop] = np.frombuffer(data, ">u2")

    # Writing.

    async def write(self, row: int, value: Value, may_send: SendGuard) -> Written:
        item = self._table[row]
        if not item.item.is_writable:
            return Written(outcome=Outcome.REJECTED, detail="the item is not writable")
        try:
            wanted = registers_of(item, value)
        except Unencodable as error:
            return Written(outcome=Outcome.REJECTED, detail=str(error))
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
                guard="the PLC's guard" if config.guard is Guard.PLC else "the gate",
            )
            return MailboxOutputs(wire, mailboxes, table, now)
        case Guard.PLC:
            raise AssertionError("ModbusConfig has a mailbox_address for it")
        case Guard.STAMP:
            return StampedOutputs(wire, table, min(config.read_count_max, REGISTERS_MAX), now)
        case Guard.GATE | Guard.LEASE:
            return PlainOutputs(wire)


def create(arguments: Mapping[str, object], surroundings: Surroundings) -> Modbus:
    """The adapter that `arguments` (JSON) describe.

    Raises:
        ConfigurationError: they can't work.
    """
    try:
        config = msgspec.convert(arguments, ModbusConfig)
    except msgspec.ValidationError as error:
        raise ConfigurationError(str(error)) from error
    table = parse_table(config.items, adapter=config.name, device_id=config.device_id)
    return Modbus(config, table, surroundings.now)
