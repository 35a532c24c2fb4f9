"""GATE: the only path to one PLC. Reads pass, plain writes are refused, orders go through the mailboxes and the guard.

    member --read----------------------------------------> device
           --read of the mailboxes--> the gate's own registers
           --write of a mailbox-----> gate machine --Keep--> disk, then --Apply--> device --> Landed --> answer
           --any other write--------> exception

The member hears what the device says to a read: data, an exception, nothing, or the end of the connection.

A disk that refuses anything ends the process at once and without an answer: a guard that may not be kept guards
nothing. Nothing is written by a gate that is not there, so that is safe.

What it does not do: decide (machine/output/gate.py), store (its memory is handed in), know who asks: as with a PLC,
whoever reaches the port may write the mailboxes. Spec: design/pair.md, Guard levels of outputs; docs/gate.md; ADR-0126.
"""

import asyncio
import random
import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec

from albireo.codec.message import Answer, Ask
from albireo.field.back_off import BackOffConfig
from albireo.field.contract import ConfigurationError, DeviceLost
from albireo.field.modbus.adapter import parse_table
from albireo.field.modbus.answers import DataReply, ExceptionCode, ExceptionReply, Silence
from albireo.field.modbus.config import MAILBOX_AREA_REGISTERS
from albireo.field.modbus.gate.device import GatedDevice
from albireo.field.modbus.gate.door import ClientDropped, Door
from albireo.field.modbus.gate.requests import (
    WRITE_REGISTERS,
    Header,
    NotServed,
    ReadRequest,
    WriteRequest,
    decode_request,
    encode_data,
    encode_exception,
    encode_words,
    encode_written,
    function_of,
)
from albireo.field.modbus.items import ModbusItem, TableKind
from albireo.field.modbus.mailbox import unfit
from albireo.field.modbus.wire import Wire, parse_url
from albireo.machine.output.gate import (
    Apply,
    Effect,
    Event,
    GateConfig,
    KeepGuard,
    Landed,
    MailboxWritten,
    deadline,
    registers,
    started,
    step,
)
from albireo.machine.output.mailbox import MAILBOX_REGISTERS, MEMBERS, ORDER_REGISTERS, MailboxOrder, Result
from albireo.model.instant import MS, Instant, TimePassed
from albireo.model.refusal import unknown_question
from albireo.runtime import ActorContext, ConfigurationRefused, Letter, LinkLimits

LIMITS: Final = LinkLimits(send_messages_max=100, receive_messages_max=100, message_bytes_max=64 * 1024)


class GateArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of the actor, from the command."""

    name: str
    """Node and adapter: `root:p1`."""
    cluster: str
    listen: str
    """Address at which members reach it: `tcp://HOST:PORT`."""
    device: str
    """The PLC: `tcp://HOST:PORT`."""
    items: list[dict[str, str]]
    """Rows of the adapter's item table."""
    device_id: int = 1
    mailbox_address: int
    timeout_ms: int = 1_000
    dead_time_ms: int = 2_000
    write_max_ms: int = 300
    backoff_min_ms: int = 500
    backoff_max_ms: int = 2_000


class Memory(Protocol):
    """Disk that keeps what a gate must not forget. It is opened once per start, and is for one thread."""

    @property
    def boot(self) -> int | None:
        """Number of the last start; None: this is the first."""
        ...

    @property
    def guard(self) -> int: ...

    @property
    def told(self) -> Mapping[str, object]:
        """Facts for the status and the log."""
        ...

    def save(self, boot: int, guard: int) -> None:
        """Durable when this returns. Whatever it raises ends the gate."""
        ...


class GateActor:
    """The behaviour of the actor `gate`."""

    name = "gate"

    def __init__(self, arguments: GateArguments, remembers: Callable[[Path], Memory]) -> None:
        """
        Args:
            remembers: opens the memory in the data directory.
        Raises:
            ConfigurationError: the arguments can't work.
        """
        self._arguments = arguments
        self._remembers = remembers
        self._targets = targets_of(parse_table(arguments.items, adapter=arguments.name, device_id=arguments.device_id))
        self._listen = parse_url(arguments.listen)
        self._wire = Wire(parse_url(arguments.device), arguments.timeout_ms * MS)
        self._wire.bound_delivery(arguments.write_max_ms * MS)
        highest = {target: _highest(item) for target, item in self._targets.items()}
        self._config = GateConfig(dead_ns=arguments.dead_time_ms * MS, highest=highest)
        self._under_way: asyncio.Task[None] | None = None
        self._answers: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._door = Door(self._served, self._failed)
        self.port = 0
        """Port on which it listens."""

    async def start(self, actor: ActorContext) -> None:
        self._actor = actor
        self._memory = self._remembers(actor.data)
        boot = secrets.randbelow(1 << 16) if self._memory.boot is None else self._memory.boot
        self._gate, effects = started(self._config, boot, self._memory.guard, actor.now())
        self._carry_out(effects)
        arguments = self._arguments
        back_off = BackOffConfig(first_ns=arguments.backoff_min_ms * MS, longest_ns=arguments.backoff_max_ms * MS)
        draw = random.Random(secrets.randbits(64))
        self._device = GatedDevice(self._wire, back_off, actor.now, actor.log, draw)
        actor.at_end(self._door.shut)
        actor.bind("gate", LIMITS)
        try:
            address = await self._door.open(self._listen)
        except OSError as error:
            reason = f"{arguments.listen} can't be listened on: {error.strerror or error}"
            raise ConfigurationRefused(f"gate {arguments.name}: {reason}") from error
        self.port = address.port
        if self._memory.told.get("is_damaged"):
            actor.log.error(
                "gate_store_damaged", gate=arguments.name, remedy="see docs/gate.md: it begins without guard"
            )
        told = {"boot": self._gate.state.boot, "guard": self._gate.state.guard, **self._memory.told}
        actor.log.info("gate_started", gate=arguments.name, endpoint=f"tcp://{address.host}:{address.port}", **told)

    def drained(self, letters: Sequence[Letter]) -> None:
        for letter in letters:
            match letter.message:
                case Ask(what="status", request_id=request_id):
                    letter.link.send(Answer(request_id=request_id, result=self.status()), to=letter.sender)
                case Ask(what=what, request_id=request_id):
                    refused = Answer(request_id=request_id, refusal=unknown_question(what, ["status"]))
                    letter.link.send(refused, to=letter.sender)
                case other:
                    self._actor.log.limited("message_unexpected", type(other).__name__, type=type(other).__name__)

    def ticked(self, now: Instant) -> None:
        self._step(TimePassed())

    async def stop(self) -> None:
        """Nobody is served any more; the order under way gets its outcome, though nobody may hear it."""
        await self._door.closed()
        while self._under_way is not None:
            await asyncio.wait({self._under_way})
        await self._device.close()
        self._actor.log.info("gate_stopped", gate=self._arguments.name, guard=self._gate.state.guard)

    def status(self) -> dict[str, object]:
        gate, arguments = self._gate, self._arguments
        return {
            "gate": arguments.name,
            "listen": arguments.listen,
            "port": self.port,
            "device": arguments.device,
            "is_connected": self._device.is_connected,
            "boot": gate.state.boot,
            "guard": gate.state.guard,
            "quiet_ms": max(0, gate.quiet_until - self._actor.now()) // MS,
            "under_way": gate.under_way is not None,
            "targets": len(self._targets),
            "orders": dict(self._answers),
            "refused": dict(self._refused),
            "reads": self._device.reads,
            "connections": self._door.connections,
            "turned_away": self._door.turned_away,
            "malformed": self._door.malformed,
            "store": dict(self._memory.told),
        }

    def _step(self, event: Event) -> None:
        """The new state is shown only when its effects are carried out: an answer tells of a guard that is kept."""
        before = self._gate
        after, effects = step(self._config, before, event, self._actor.now())
        self._carry_out(effects)
        self._gate = after
        for one, was in zip(after.state.answers, before.state.answers, strict=True):
            if one != was:
                self._answers[one.result.name.lower()] += 1
                self._tell(one.result, after.state.guard)
        if after.state.guard != before.state.guard:
            self._actor.log.info("guard_raised", gate=self._arguments.name, epoch=after.state.guard)
        self._actor.arm(deadline(after))

    def _tell(self, result: Result, guard: int) -> None:
        if result is not Result.DONE:
            name = result.name.lower()
            self._actor.log.limited("order_not_done", name, gate=self._arguments.name, result=name, guard=guard)

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case KeepGuard(boot=boot, guard=guard):
                    self._memory.save(boot, guard)
                case Apply(order=order):
                    assert self._under_way is None
                    self._under_way = self._actor.loop.create_task(self._apply(order))
                    self._under_way.add_done_callback(self._ended)

    async def _apply(self, order: MailboxOrder) -> None:
        result = await self._device.write(self._targets[order.target], order.value, self._arguments.timeout_ms * MS)
        self._under_way = None
        self._step(Landed(result))

    async def _served(self, header: Header, pdu: bytes) -> bytes | None:
        match decode_request(pdu):
            case ReadRequest() as asked:
                return await self._read(header.unit, asked)
            case WriteRequest() as asked:
                return self._written(header.unit, asked)
            case NotServed(function=function, code=code, is_write=is_write):
                if is_write:
                    self._plain_write(header.unit, function)
                else:
                    self._refused[code.name.lower()] += 1
                return encode_exception(function, code)

    async def _read(self, unit: int, asked: ReadRequest) -> bytes | None:
        offset = asked.first - self._arguments.mailbox_address
        if asked.kind is TableKind.HOLDING and unit == self._arguments.device_id and self._touches(offset, asked.count):
            if offset < 0 or offset + asked.count > MAILBOX_AREA_REGISTERS:
                return encode_exception(function_of(asked), ExceptionCode.ILLEGAL_ADDRESS)
            return encode_words(asked, registers(self._gate)[offset : offset + asked.count])
        try:
            answer = await self._device.read(asked.kind, unit, asked.first, asked.count)
        except DeviceLost as lost:
            raise ClientDropped from lost
        match answer:
            case DataReply(data=data):
                return encode_data(asked, data)
            case ExceptionReply(code=code):
                return encode_exception(function_of(asked), code)
            case Silence():
                return None
            case _:
                return encode_exception(function_of(asked), ExceptionCode.DEVICE_FAILURE)

    @staticmethod
    def _touches(offset: int, count: int) -> bool:
        return offset < MAILBOX_AREA_REGISTERS and offset + count > 0

    def _written(self, unit: int, asked: WriteRequest) -> bytes:
        """A whole order into one mailbox; nothing else is written through a gate."""
        member, within = divmod(asked.first - self._arguments.mailbox_address, MAILBOX_REGISTERS)
        is_order = member in range(MEMBERS) and within == 0 and len(asked.words) == ORDER_REGISTERS
        if unit != self._arguments.device_id or not is_order:
            self._plain_write(unit, WRITE_REGISTERS, asked.first)
            return encode_exception(WRITE_REGISTERS, ExceptionCode.ILLEGAL_ADDRESS)
        self._step(MailboxWritten(member, asked.words))
        return encode_written(asked)

    def _plain_write(self, unit: int, function: int, first: int | None = None) -> None:
        """Somebody means to go around the guard, or knows nothing of it: worth a look."""
        self._refused["plain_write"] += 1
        log, name = self._actor.log, self._arguments.name
        log.limited("plain_write_refused", str(function), gate=name, unit=unit, function=function, first=first)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        self._door.shut()
        self._actor.fail(str(error) or type(error).__name__)


def targets_of(table: Sequence[ModbusItem]) -> dict[int, ModbusItem]:
    """Target -> the output it is.

    Raises:
        ConfigurationError: a writable item has no target or one of another, or there is none; all of them are named.
    """
    found: dict[int, ModbusItem] = {}
    wrong: list[str] = []
    for one in table:
        if not one.item.is_writable:
            continue
        if text := unfit(one):
            wrong.append(text)
        elif one.target in found:
            wrong.append(f"{one.item.name}: target {one.target} is that of {found[one.target].item.name}; change one")
        else:
            assert one.target is not None
            found[one.target] = one
    if wrong or not found:
        raise ConfigurationError("; ".join(wrong) or "no writable item: a gate has nothing to guard here")
    return found


def _highest(item: ModbusItem) -> int:
    """The largest value of an order for this output."""
    if item.kind is TableKind.COIL or item.bit is not None:
        return 1
    return (1 << 16 * item.words) - 1
