"""Hexabus adapter: the node is the master of a network of devices, and their endpoints are its items.

    journal of the node --entries--> HouseFold, on both members
    this member acts --> HexLead: sockets, master; another one does --> none

Values come as devices tell them (INFO), and as they answer: an item that was silent for a few polls is asked for. A
device that left the order, or is silent, has items without communication, and a case.

Spec: docs/adapters/hexabus.md; ADR-0251, ADR-0253.
"""

import asyncio
import socket
import time
from collections.abc import Mapping, Sequence
from ipaddress import IPv6Interface
from random import SystemRandom
from typing import Final

import numpy as np
from numpy.typing import NDArray

from albireo.codec.errors import DecodeError
from albireo.codec.hexabus.journal import (
    DeviceJoined,
    DeviceLeft,
    HouseSnapshot,
    JournalRecord,
    RecordReader,
    entries_of,
)
from albireo.codec.hexabus.packets import AckPacket, ErrorPacket, QueryPacket, ReportPacket, WritePacket
from albireo.codec.hexabus.values import HexType, HexValue, encode_value
from albireo.field.contract import (
    Arrivals,
    ConfigurationError,
    DeviceLost,
    Give,
    PolledColumns,
    SendGuard,
    WriteTenure,
    Written,
)
from albireo.field.hexabus.aside import WRITE_WAIT
from albireo.field.hexabus.config import HexabusConfig
from albireo.field.hexabus.items import HexItem, parse_row, table_of
from albireo.field.hexabus.lead import HexLead
from albireo.field.journal import AdapterJournal, JournalEntryRead, JournalLost
from albireo.field.kinds import Rows, Surroundings
from albireo.machine.hexabus.fold import HouseFold
from albireo.machine.hexabus.master import ValueTold
from albireo.model.command import Outcome
from albireo.model.decimals import single
from albireo.model.instant import SECOND, Instant
from albireo.model.item import DataItem
from albireo.model.quality import BAD_CONFIGURATION_ERROR, BAD_NO_COMMUNICATION, BAD_OUT_OF_RANGE, GOOD
from albireo.model.samples import column_of
from albireo.model.value import Value, ValueType

SNAPSHOT_EVERY: Final = 1_000
"""Entries of the journal after which what follows from them is put into it."""
SILENT_POLLS: Final = 5
"""Polls without a word after which an item is asked for; after as many questions in vain it has no communication."""
WHOLE_MAX: Final = (1 << 63) - 1
"""Largest value of an item; an endpoint of type uint64 may have a larger one."""
RESET_TOLD_NS: Final = 60 * SECOND
"""So long a case says that all devices began anew with one."""
ASKED_MAX: Final = 64
"""Questions of one poll."""


class Hexabus:
    """The adapter."""

    def __init__(self, config: HexabusConfig, table: Sequence[HexItem], surroundings: Surroundings) -> None:
        self._config = config
        self._table = table
        self._surroundings = surroundings
        self._items = tuple(one.item for one in table)
        self._row_of = {(one.host, one.eid): row for row, one in enumerate(table)}
        self._originals = {one.host: one.is_original for one in table}
        self._devices = {one.device: one.host for one in table}
        self._tenure: WriteTenure | None = None
        self._lead: HexLead | None = None
        self._give: Give | None = None
        self._waiting: list[tuple[int, Value, int]] = []
        """Row, value and quality of what came and was not given on."""
        self._is_giving = False
        self._silent = [0] * len(table)
        """Polls since something was heard of an item."""
        self._vain = [0] * len(table)
        """Questions since then that were not answered."""
        self._asked = -1
        """Row that was asked for last."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._journal: AdapterJournal | None = None
        self._is_open = False
        self._trouble = ""
        self._counts = {"errors": 0, "journal_entries": 0, "journal_void": 0}
        self._forget()

    def _forget(self) -> None:
        self._fold = HouseFold(self._local_s)
        self._records = RecordReader()
        self._first = 0
        """Number of the first entry that was read; no snapshot but one that begins there stands for those before it."""
        self._joined = dict[str, Instant]()
        """When each device joined last."""
        self._since_snapshot = 0

    def _local_s(self, at: Instant) -> int:
        """Local time at an instant, seconds since 1970."""
        wall_s = (self._surroundings.wall_ns() - (self._surroundings.now() - at)) // SECOND
        return wall_s + time.localtime(wall_s).tm_gmtoff

    # The adapter's life.

    @property
    def items(self) -> Sequence[DataItem]:
        return self._items

    @property
    def dead_bands(self) -> NDArray[np.float64]:
        return np.array([one.dead_band for one in self._table], np.float64)

    def listen(self, give: Give) -> None:
        self._give = give

    def committed(self, token: int) -> None:
        """Nothing waits for it: events are acknowledged by the journal."""

    def let_go(self, token: int) -> None:
        """A value that nobody took comes again."""

    def led(self, tenure: WriteTenure | None, may_send: SendGuard) -> None:
        self._tenure, self._may_send = tenure, may_send
        self._end_lead()
        self._begin_lead()

    async def connect(self) -> None:
        self._forget()
        self._journal = self._surroundings.journal()
        try:
            socket.if_nametoindex(self._config.interface)
            await self._journal.open(self._read)
        except OSError as error:
            raise DeviceLost(f"interface {self._config.interface}: {error.strerror}") from error
        except JournalLost as lost:
            raise DeviceLost(f"the journal: {lost}") from lost
        self._is_open = True
        self._begin_lead()

    async def close(self) -> None:
        self._is_open = False
        self._end_lead()
        for task in list(self._tasks):
            task.cancel()
        if self._journal is not None:
            await self._journal.close()

    async def poll(self) -> Sequence[PolledColumns]:
        lead = self._lead
        trouble = "" if self._journal is None else self._journal.trouble
        trouble = trouble or ("" if lead is None else lead.trouble) or self._trouble
        if lead is not None and lead.master.is_deposed:
            trouble = trouble or "another one leads, says the journal"
        if trouble:
            self._counts["errors"] += 1
            raise DeviceLost(trouble)
        if lead is not None and lead.master.is_leading:
            self._look(lead)
        return ()

    def counters(self) -> Mapping[str, int]:
        lead = self._lead
        own = dict.fromkeys(("malformed", "strange", "again", "old", "refused", "events"), 0)
        if lead is not None:
            own |= lead.master.counts
        of_lead = (0, 0) if lead is None else (lead.not_sent, lead.uploads_failed)
        own |= dict(zip(("held_back", "uploads_failed"), of_lead, strict=True))
        return {**self._counts, **own, "members": len(self._fold.order.members)}

    def conditions(self) -> Mapping[str, bool]:
        lead, members = self._lead, self._fold.order.members
        found = {"house_refused": bool(self._fold.refused)}
        for name, host in self._devices.items():
            found[f"lost_{name}"] = host not in members
            found[f"twins_{name}"] = lead is not None and lead.master.twins.are_two(host)
            if self._originals[host]:
                found[f"reset_{name}"] = self._was_reset(host)
        is_leading = lead is not None and lead.master.is_leading
        return {name: is_wrong and is_leading for name, is_wrong in found.items()}

    def _was_reset(self, host: str) -> bool:
        """Whether an original has begun anew alone, and others have not since; or all with it, not long ago."""
        member, since = self._fold.order.members.get(host), self._fold.order.since
        if self._config.original_resets == "all":
            return host in self._joined and self._surroundings.now() < self._joined[host] + RESET_TOLD_NS
        return member is not None and member.behind >= since

    # The lead.

    def _begin_lead(self) -> None:
        self._trouble = ""
        if self._tenure is None or self._journal is None or not self._is_open or self._lead is not None:
            return
        lead = HexLead(self._config, self._surroundings, self._originals, self._told, SystemRandom())
        try:
            lead.begin(self._fold, self._tenure.epoch, self._journal.put, self._may_send)
        except OSError as error:
            self._trouble = str(error)
            lead.end()
            return
        self._lead = lead

    def _end_lead(self) -> None:
        if self._lead is not None:
            self._lead.end()
            self._lead = None

    # The journal.

    def _read(self, entries: Sequence[JournalEntryRead]) -> None:
        now, wall_ns = self._surroundings.now(), self._surroundings.wall_ns()
        for one in entries:
            self._since_snapshot += 1
            self._counts["journal_entries"] += 1
            self._first = self._first or one.number
            self._fold.is_begun = self._fold.is_begun or one.number == 1
            try:
                record = self._records.read(one.number, one.epoch, one.data)
            except DecodeError:
                self._counts["journal_void"] += 1
                continue
            is_first = self._records.first == self._first
            if record is None or not (self._fold.is_begun or (is_first and isinstance(record.entry, HouseSnapshot))):
                continue
            put_at = Instant(now - max(0, wall_ns - one.at_ns))
            refused = self._fold.refused
            if self._lead is not None:
                self._lead.read(record, put_at)
            else:
                self._fold.fold(record, put_at)
            self._counts["journal_void"] += self._fold.refused not in ("", refused)
            match record.entry:
                case HouseSnapshot() if self._fold.is_at(record, put_at):
                    self._since_snapshot = 0
                    self._let_go(self._records.first)
                case DeviceLeft() | DeviceJoined() if record.term != self._fold.term:
                    pass  # It is void.
                case DeviceLeft(host=host):
                    self._mark(host)
                case DeviceJoined(host=host):
                    self._joined[host] = put_at
                    self._hear_again(host)
        self._snapshot()

    def _let_go(self, number: int) -> None:
        if self._journal is not None:
            self._journal.let_go(number)

    def _snapshot(self) -> None:
        """Put what follows from all entries so far, when nothing of this member is on its way."""
        lead, journal = self._lead, self._journal
        if (
            journal is None
            or self._since_snapshot < SNAPSHOT_EVERY
            or lead is None
            or not lead.master.is_leading
            or lead.master.has_put
        ):
            return
        self._since_snapshot = 0
        kept = self._fold.snapshot(self._surroundings.now())
        for data in entries_of(JournalRecord(lead.master.term, kept)):
            journal.put(data)

    # Values.

    def _told(self, told: ValueTold) -> None:
        row = self._row_of.get((told.host, told.eid))
        if row is not None and told.value.datatype is self._table[row].datatype:
            self._arrived(row, told.value)

    def _arrived(self, row: int, value: HexValue) -> None:
        self._silent[row] = self._vain[row] = 0
        told = _as_value(value)
        if isinstance(told, int) and told > WHOLE_MAX:
            self._enter(row, 0, int(BAD_OUT_OF_RANGE))
        else:
            self._enter(row, told, int(GOOD))

    def _enter(self, row: int, value: Value, quality: int) -> None:
        self._waiting.append((row, value, quality))
        if not self._is_giving:
            self._is_giving = True
            asyncio.get_running_loop().call_soon(self._give_on)

    def _give_on(self) -> None:
        self._is_giving = False
        waiting, self._waiting = self._waiting, []
        by_type: dict[ValueType, list[tuple[int, Value, int]]] = {}
        for one in waiting:
            by_type.setdefault(self._items[one[0]].value_type, []).append(one)
        if self._give is not None and by_type:
            at_ns = self._surroundings.wall_ns()
            self._give([_arrivals(value_type, rows, at_ns) for value_type, rows in by_type.items()])

    def _mark(self, host: str) -> None:
        """Items of a device that left have no communication."""
        if self._lead is not None:
            for row, one in enumerate(self._table):
                if one.host == host:
                    self._enter(row, _nothing(one.datatype), int(BAD_NO_COMMUNICATION))

    def _hear_again(self, host: str) -> None:
        for row, one in enumerate(self._table):
            if one.host == host:
                self._silent[row] = SILENT_POLLS

    def _look(self, lead: HexLead) -> None:
        """Ask for items of which nothing was heard; each has its turn, whoever is dead before it."""
        for row in range(len(self._table)):
            self._silent[row] += 1
        rows = [row for row, polls in enumerate(self._silent) if polls > SILENT_POLLS]
        begin = next((place for place, row in enumerate(rows) if row > self._asked), 0)
        for row in (rows[begin:] + rows[:begin])[:ASKED_MAX]:
            self._asked = row
            task = asyncio.get_running_loop().create_task(self._ask(lead, row))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _ask(self, lead: HexLead, row: int) -> None:
        one = self._table[row]
        answer = await lead.questions.ask_one(one.host, QueryPacket(one.eid), WRITE_WAIT)
        if lead is not self._lead:
            return
        if answer is None:
            self._in_vain(lead, row)
        elif isinstance(answer, ReportPacket) and answer.value.datatype is one.datatype:
            self._arrived(row, answer.value)
            if self._originals[one.host]:
                lead.join(one.host)
        else:  # The device is there, and the table is wrong about this endpoint.
            self._vain[row] = self._silent[row] = 0
            self._enter(row, _nothing(one.datatype), int(BAD_CONFIGURATION_ERROR))

    def _in_vain(self, lead: HexLead, row: int) -> None:
        """A question was not answered: the item is bad after some, and the device is away if all its items are."""
        host = self._table[row].host
        self._vain[row] += 1
        if self._vain[row] == SILENT_POLLS:
            self._enter(row, _nothing(self._table[row].datatype), int(BAD_NO_COMMUNICATION))
        if all(self._vain[other] >= SILENT_POLLS for other, one in enumerate(self._table) if one.host == host):
            lead.leave(host)

    # Writing.

    async def write(self, row: int, value: Value, may_send: SendGuard) -> Written:
        one, lead = self._table[row], self._lead
        if lead is None:
            return Written(outcome=Outcome.REJECTED, detail="never sent: this member does not lead the network")
        try:
            wanted = _as_hex(one.datatype, value)
        except ValueError as error:
            return Written(outcome=Outcome.REJECTED, detail=f"never sent: {error}")
        if beyond := one.item.out_of_range(_as_value(wanted)):
            return Written(outcome=Outcome.REJECTED, detail=f"never sent: rounded for its endpoint, {beyond}")
        if reason := may_send():
            return Written(outcome=Outcome.REJECTED, detail=f"never sent: {reason}")
        answer = await lead.questions.ask_one(one.host, WritePacket(one.eid, wanted), WRITE_WAIT)
        if isinstance(answer, ErrorPacket):
            return Written(outcome=Outcome.REJECTED, detail=f"the device refused it: error {answer.code}")
        is_done = isinstance(answer, AckPacket)
        report = await lead.questions.ask_one(one.host, QueryPacket(one.eid))
        if not isinstance(report, ReportPacket) or report.value.datatype is not one.datatype:
            outcome = Outcome.EXECUTED if is_done else Outcome.UNKNOWN
            return Written(outcome=outcome, detail="it could not be read back")
        self._arrived(row, report.value)
        if report.value == wanted:
            return Written(outcome=Outcome.VERIFIED, read_back=_as_value(report.value))
        outcome = Outcome.MISMATCHED if is_done else Outcome.UNKNOWN
        return Written(outcome=outcome, read_back=_as_value(report.value), detail="another value was read back")


def _as_hex(datatype: HexType, value: Value) -> HexValue:
    """Raises ValueError: the endpoint can't have this value."""
    wanted: Value = value
    if datatype is HexType.BOOL and not isinstance(value, str):
        wanted = bool(value)
    elif datatype is HexType.FLOAT and not isinstance(value, str):
        wanted = float(value)
    elif isinstance(value, float) and value.is_integer():
        wanted = int(value)
    told = HexValue(datatype, wanted)
    data = encode_value(told)
    return HexValue(HexType.FLOAT, _single(data)) if datatype is HexType.FLOAT else told


def _single(data: bytes) -> float:
    return float(np.frombuffer(data, ">f4")[0])


def _as_value(told: HexValue) -> Value:
    assert not isinstance(told.value, bytes)
    if told.datatype is HexType.FLOAT:
        return single(float(told.value))
    return told.value


def _nothing(datatype: HexType) -> Value:
    """The value beside a bad quality."""
    return "" if datatype is HexType.STRING else False if datatype is HexType.BOOL else 0


def _arrivals(value_type: ValueType, rows: Sequence[tuple[int, Value, int]], at_ns: int) -> Arrivals:
    return Arrivals(
        value_type=value_type,
        rows=np.array([row for row, _, _ in rows], np.intp),
        value=column_of([value for _, value, _ in rows], value_type),
        quality=np.array([quality for _, _, quality in rows], np.uint32),
        source_ns=np.full(len(rows), at_ns, np.int64),
    )


def create(settings: HexabusConfig, rows: Rows, surroundings: Surroundings) -> Hexabus:
    """The adapter of these settings.

    Raises:
        ConfigurationError: the item table has mistakes.
    """
    parsed = [parse_row(row, adapter=settings.name) for row in rows]
    mistakes = [f"{one.text}: {one.remedy}" for found in parsed if isinstance(found, list) for one in found]
    table = [one for one in parsed if isinstance(one, HexItem)]
    mistakes += table_of(table)
    master = str(IPv6Interface(settings.master).ip)
    mistakes += [f"{one.device} has the address of the master" for one in table if one.host == master]
    if mistakes:
        raise ConfigurationError("; ".join(mistakes))
    return Hexabus(settings, table, surroundings)
