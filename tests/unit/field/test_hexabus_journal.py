"""Journal of the Hexabus adapter with entries that somebody forged: both members, and each start, decide alike."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from albireo.codec.errors import DecodeError
from albireo.codec.hexabus.house import House, encode_house
from albireo.codec.hexabus.journal import (
    BY_HAND,
    DATAGRAM_BYTES_MAX,
    DEVICES_MAX,
    HOUSE_BYTES_MAX,
    PART_BYTES,
    PARTS_MAX,
    PIECE_BYTES,
    AllHave,
    DeviceJoined,
    DeviceKept,
    DeviceLeft,
    EventTaken,
    HouseSnapshot,
    HouseTaken,
    JournalEntry,
    JournalRecord,
    LeadTaken,
    RecordReader,
    RowKept,
    Term,
    decode_record,
    encode_record,
    entries_of,
    event_of,
)
from albireo.codec.hexabus.recovery import PIECES_MAX
from albireo.codec.hexabus.values import HexType, HexValue
from albireo.field.hexabus.adapter import Hexabus
from albireo.field.journal import JournalEntryRead, Read
from albireo.field.kinds import Surroundings, create_adapter
from albireo.machine.hexabus import Machine, after
from albireo.machine.hexabus.fold import HouseFold
from albireo.machine.hexabus.master import PENDING_MAX, HexMaster, PutRecord
from albireo.machine.hexabus.order import ROWS_MAX
from albireo.machine.hexabus.rows import FIRSTS_MAX, WINDOW
from albireo.model.bounded import INT64_MAX
from albireo.model.instant import Instant, WallTime
from albireo.runtime.clock import boot_ns

LAMP = "fd00::11"
OWN, OTHER = Term(3, 7), Term(4, 1)
NOW = Instant(10)
AHEAD = JournalRecord(Term(INT64_MAX, INT64_MAX), LeadTaken())


class Entries:
    """A journal with given entries."""

    def __init__(self, entries: Sequence[tuple[int, bytes]]) -> None:
        self.trouble = ""
        self.done = 0
        self._entries = [JournalEntryRead(number, 1, epoch, data) for number, (epoch, data) in enumerate(entries, 1)]

    async def open(self, read: Read) -> None:
        read([one for one in self._entries if one.number >= self.done])

    def put(self, data: bytes) -> None: ...

    def let_go(self, number: int) -> None:
        self.done = number

    async def close(self) -> None: ...


def adapter_of(journal: Entries, now: Callable[[], Instant] = boot_ns, **more: str) -> Hexabus:
    row = {"name": "light", "device": "lamp", "address": LAMP, "endpoint": "relay", "eid": "1", "type": "bool"}
    arguments = {"name": "house", "kind": "hexabus", "interface": "lo", "items": [row], **more}
    adapter = create_adapter(arguments, Surroundings(Path(), now, lambda: WallTime(1), journal=lambda: journal))
    assert isinstance(adapter, Hexabus)
    return adapter


def read_by(journal: Entries) -> dict[str, int]:
    adapter = adapter_of(journal)
    asyncio.run(adapter.connect())
    return dict(adapter.counters())


def entry(epoch: int, term: Term, one: JournalEntry) -> tuple[int, bytes]:
    return epoch, encode_record(JournalRecord(term, one))


def test_a_term_of_an_epoch_that_the_log_had_not_reached_is_void_and_counted() -> None:
    forged = [(3, encode_record(AHEAD)), entry(3, OTHER, LeadTaken()), (3, b"noise")]
    journal = Entries([*forged, entry(3, OWN, LeadTaken()), *forged, entry(3, OWN, DeviceJoined(LAMP))])
    counts = read_by(journal)
    assert (counts["members"], counts["journal_void"], counts["journal_entries"]) == (1, 6, 8)
    later = Entries([entry(3, OWN, LeadTaken()), entry(4, OTHER, LeadTaken()), entry(4, OTHER, DeviceJoined(LAMP))])
    assert read_by(later)["members"] == 1


def test_nobody_lets_go_of_the_journal_for_a_snapshot_that_does_not_count() -> None:
    nothing = HouseSnapshot(last=0, all_have=0, since=1, items=(), recent=(), members=(), rows=())
    joined = [entry(3, OWN, LeadTaken()), entry(3, OWN, DeviceJoined(LAMP))]
    for term in (Term(3, 9), OWN):
        forged = Entries([*joined, entry(3, term, nothing)])
        assert (read_by(forged)["members"], forged.done) == (1, 0)
        assert read_by(forged)["members"] == 1, "so says the next start as well"
    fold = HouseFold()
    for _, data in joined:
        fold.fold(decode_record(data, 3), NOW)
    late = Entries([*joined, entry(4, OTHER, LeadTaken()), entry(4, OWN, fold.snapshot(NOW))])
    assert (read_by(late)["members"], late.done) == (1, 0), "what the new one puts would be void behind it"
    true = Entries([*joined, entry(3, OWN, fold.snapshot(NOW))])
    for _ in range(2):
        assert (read_by(true)["members"], true.done) == (1, 3)


def largest() -> HouseSnapshot:
    """Snapshot of as many devices as a network has, each with all that is remembered of one."""
    hosts = [f"fd00:1111:2222:3333:4444:5555:6666:{one:x}" for one in range(0x1000, 0x1000 + DEVICES_MAX)]
    firsts, recent = (bytes(DATAGRAM_BYTES_MAX),) * FIRSTS_MAX, (0xFFFF,) * WINDOW
    pieces = (bytes(PIECE_BYTES),) * PIECES_MAX
    return HouseSnapshot(
        last=1 << 40,
        all_have=(1 << 40) - PENDING_MAX,
        since=1,
        items=(bytes(DATAGRAM_BYTES_MAX),) * PENDING_MAX,
        recent=(None,) * WINDOW,
        members=tuple(DeviceKept(host, 1 << 40, 0xFFFF, pieces) for host in hosts),
        rows=tuple(
            RowKept(host, port, 0xFFFF, firsts, False, recent)
            for host in hosts
            for port in range(0xFFFF, 0xFFFF - ROWS_MAX, -1)
        ),
        house=bytes(HOUSE_BYTES_MAX),
        memory=bytes(4096),
        ages_ns=(INT64_MAX,) * 255,
        values=((INT64_MAX, HexType.STRING, bytes(128)),) * 255,
    )


def test_a_snapshot_of_the_largest_network_stands_in_several_entries() -> None:
    record = JournalRecord(OWN, largest())
    parts = entries_of(record)
    assert 20 < len(parts) <= PARTS_MAX and max(map(len, parts)) <= PART_BYTES + 3
    reader = RecordReader()
    told = [reader.read(number, 3, data) for number, data in enumerate(parts, 5)]
    assert told == [None] * (len(parts) - 1) + [record] and reader.first == 5
    for wrong in (parts[1], parts[0][:2], b"\xc1\x00\xff", b"\xc1\x01\x00"):
        with pytest.raises(DecodeError):
            reader.read(99, 3, wrong)


def test_a_start_reads_from_the_first_entry_of_a_large_snapshot_on() -> None:
    """Whatever others put between its entries, unless it changes something."""
    fold, joined = HouseFold(), [entry(3, OWN, LeadTaken())]
    hosts = [f"fd00::{one:x}" for one in range(0x1000, 0x1000 + DEVICES_MAX)]
    joined += [entry(3, OWN, DeviceJoined(host)) for host in hosts]
    told = {"number": 1, "first": bytes(DATAGRAM_BYTES_MAX), "eid": 4, "datatype": HexType.UINT8, "value": b"1"}
    joined += [entry(3, OWN, EventTaken(host=host, port=1, **told)) for host in hosts]  # type: ignore[arg-type]
    joined.append(entry(3, OWN, AllHave(len(hosts))))
    for _, data in joined:
        fold.fold(decode_record(data, 3), NOW)
    first, *others = entries_of(JournalRecord(OWN, fold.snapshot(NOW)))[:2]
    assert others, "it has two entries"
    noise = 3, others[0][:3] + b"noise"
    journal = Entries([*joined, (3, first), (3, encode_record(AHEAD)), (3, others[0])])
    for _ in range(2):
        assert read_by(journal)["members"] == DEVICES_MAX and journal.done == len(joined) + 1
    forged = HouseSnapshot(last=0, all_have=0, since=1, items=(b"noise",), recent=(), members=(), rows=())
    journal = Entries([*joined, (3, first), entry(3, Term(1, 5), forged), (3, others[0])])
    for _ in range(2):
        began = read_by(journal)["members"], journal.done
        assert began == (DEVICES_MAX, len(joined) + 1), "one that others forged between them stands for nothing"
    for between in (noise, entry(3, OWN, DeviceJoined(LAMP))):
        overtaken = Entries([*joined, (3, first), between, (3, others[0])])
        assert read_by(overtaken)["members"] >= DEVICES_MAX and overtaken.done == 0


@pytest.mark.parametrize("forged", [Term(3, INT64_MAX), Term(3, 0), Term(2, INT64_MAX)])
def test_a_forged_lead_of_a_term_that_may_be_costs_one_lead_and_the_next_one_counts(forged: Term) -> None:
    fold = HouseFold()
    for life in (7, 3):  # A start on a machine whose boot clock is behind.
        lead = HexMaster(fold, Term(3, life), {LAMP})
        for one in lead.begin():
            assert isinstance(one, PutRecord)
            lead.read(one.record, NOW)
        assert lead.is_leading
        lead.read(JournalRecord(forged, LeadTaken()), NOW)
        assert lead.is_deposed == (forged.epoch == 3)
        left = JournalRecord(lead.term, DeviceLeft(LAMP, "silent"))
        assert fold.fold(left, NOW) == (not lead.is_deposed), "what the deposed one still writes is void"


def test_a_snapshot_whose_ages_are_not_those_of_the_machines_does_not_count() -> None:
    """Whoever began with it could not say when a machine is due."""
    light = Machine("light", state="dark")
    light.on("dark", after(5), go="lit")
    fold = HouseFold()
    fold.fold(JournalRecord(OWN, LeadTaken()), NOW)
    fold.fold(JournalRecord(BY_HAND, HouseTaken(encode_house(House({}, [light], bytes(15) + b"\1")))), NOW)
    kept = fold.snapshot(NOW)
    for ages, counts in (((8,), True), ((), False), ((8, 8), False)):
        told = JournalRecord(OWN, msgspec.structs.replace(kept, ages_ns=ages))
        assert fold.is_at(told, NOW) == counts


@pytest.mark.parametrize("term", [OWN, OTHER, Term(3, 9)])
def test_only_a_join_that_counts_says_that_all_began_anew(term: Term) -> None:
    """Nor is a device that never joined one that has just come back, on a machine that has."""
    for entries in ([], [entry(4, term, DeviceJoined(LAMP))]):
        adapter = adapter_of(Entries([entry(3, OWN, LeadTaken()), *entries]), lambda: NOW, original_resets="all")
        asyncio.run(adapter.connect())
        assert adapter._was_reset(LAMP) == bool(entries and term == OWN)


@pytest.mark.parametrize("host", ["ff15::1", "ff05::205"])
def test_no_entry_is_about_a_device_with_an_address_of_many(host: str) -> None:
    """It would be the id of a group, and leave a note of it behind in the programs."""
    event = event_of(host, 1, 1, b"", 4, HexValue(HexType.UINT8, 1))
    for one in (event, DeviceJoined(host), DeviceLeft(host, "silent")):
        with pytest.raises(DecodeError, match="no address of a device"):
            decode_record(encode_record(JournalRecord(OWN, one)), 3)
