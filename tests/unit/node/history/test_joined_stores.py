"""Questions about a node's past join all its stores: new hardware under its name, and a backup that was put back."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pytest

from albireo.codec.item_kinds import kinds_in
from albireo.codec.questions.history import AnyPieceQuestion, EventsQuestion, GapsQuestion, RowsQuestion
from albireo.codec.record import EpochGranted, GapFound, ItemDeclared, Stream
from albireo.machine.fold.origins import ORIGINS_MAX
from albireo.machine.history.trace import AggregateSettings
from albireo.model.bounded import INT64_MAX
from albireo.model.instant import SECOND
from albireo.model.item import DataItem
from albireo.model.value import ItemId, ValueType
from albireo.node.history.access import HistoryAccess
from albireo.node.history.files.joined import STORE_SEQUENCES, NodeStore
from albireo.node.history.paging import PagedHistory
from albireo.node.history.query import TimeRange
from albireo.runtime import running
from tests.parts.history import DAY_ZERO, LOG_ID, MemoryLog
from tests.parts.history_actor import Asker, LogServer, history, in_a_loop
from tests.parts.history_below import Historian, Site

NODE: Final = "root/north"
HOUR: Final = 3_600 * SECOND
FIRST_AT, SECOND_AT = DAY_ZERO, DAY_ZERO + HOUR
SPAN: Final = TimeRange(DAY_ZERO - HOUR, DAY_ZERO + 10 * HOUR)


class Stores:
    """A node of two stores: `co` has another id in each, `old` is in the first only and `new` in the second."""

    def __init__(self, data: Path, seals: str = "never") -> None:
        self.log = MemoryLog()
        self.life = Historian(data)
        self.first, self.second = Site(1, NODE), Site(2, NODE)
        self.begin(self.first, FIRST_AT, [("co", "ppm"), ("old", "")])
        self.rows(self.first, FIRST_AT, 1, range(20))
        self.rows(self.first, FIRST_AT, 2, range(100, 103))
        if seals != "never":
            self.take(is_sealed=True)
        self.begin(self.second, SECOND_AT, [("new", ""), ("co", "%")])
        self.rows(self.second, SECOND_AT, 2, range(20, 30))
        self.rows(self.second, SECOND_AT, 1, range(200, 202))
        self.take(is_sealed=seals == "both")

    def begin(self, site: Site, at_ns: int, items: Sequence[tuple[str, str]]) -> None:
        self.log.declares(site.index, NODE, site.log, at_ns)
        granted = EpochGranted(epoch=1, branch_id=1, node=NODE, reason="start")
        site.log.records(Stream.CONTROL, [granted], at_ns)
        for number, (name, unit) in enumerate(items, 1):
            item = DataItem(name=name, value_type=ValueType.FLOAT64, unit=unit)
            record = ItemDeclared(item_id=ItemId(number), node=NODE, item=item)
            site.log.records(Stream.STATE, [record], at_ns)

    def rows(self, site: Site, at_ns: int, item_id: int, values: range) -> None:
        """Rows a minute apart, and then the envelope that brings them."""
        for number, value in enumerate(values):
            at = at_ns + number * 60 * SECOND
            site.log.samples([(item_id, at, float(value), 0)], at)
        self.log.envelope(site.index, site.pending(), at_ns + len(values) * 60 * SECOND)
        site.above = site.log.end

    def take(self, *, is_sealed: bool) -> None:
        self.life.take(self.log)
        if is_sealed:
            self.life.seal()

    def paged(self) -> PagedHistory:
        found = self.life.below.of_node(NODE, LOG_ID)
        stores = [NodeStore(one.store.root, one.store.manifest, one.store.declared) for one in found]
        return PagedHistory(stores, [one.hot.content() for one in found])

    def asked(self, question: AnyPieceQuestion) -> pa.Table:
        """All pieces of an answer."""
        tables, cursor = [], ""
        while True:
            raw, told = self.paged().piece(msgspec.structs.replace(question, cursor=cursor)).encoded()
            tables.append(pa.ipc.open_stream(pa.py_buffer(raw)).read_all())
            cursor = str(told["next"])
            if not cursor:
                return pa.concat_tables(tables)

    def values(self, *names: str, rows_max: int = 10_000) -> list[float]:
        asked = RowsQuestion(from_ns=SPAN.from_ns, to_ns=SPAN.to_ns, names=names, rows_max=rows_max)
        return [one["value_f64"] for one in self.asked(asked).to_pylist()]


def floats(values: range) -> list[float]:
    return [float(one) for one in values]


SEALS = pytest.mark.parametrize("seals", ["never", "first", "both"])


@SEALS
@pytest.mark.parametrize("rows_max", [3, 10_000])
def test_rows_of_all_stores_are_told_by_name_each_once(tmp_path: Path, seals: str, rows_max: int) -> None:
    stores = Stores(tmp_path, seals)
    assert stores.values("co", rows_max=rows_max) == floats(range(30))
    assert stores.values(f"{NODE}:old", rows_max=rows_max) == floats(range(100, 103))
    assert stores.values("new", rows_max=rows_max) == floats(range(200, 202))
    assert sorted(stores.values("co", "old", "new", rows_max=rows_max)) == sorted(
        floats(range(30)) + floats(range(100, 103)) + floats(range(200, 202))
    )


def test_sequences_of_two_stores_never_meet() -> None:
    """A store that records without a pause, as fast as any does, for a lifetime; and as many stores as there may be."""
    lifetime = 30 * 366 * 86_400 * 1_000_000
    assert lifetime < STORE_SEQUENCES and ORIGINS_MAX * STORE_SEQUENCES + lifetime <= INT64_MAX


@SEALS
def test_a_value_is_told_with_the_unit_that_it_had_in_its_store(tmp_path: Path, seals: str) -> None:
    stores = Stores(tmp_path, seals)
    table = stores.asked(RowsQuestion(from_ns=SPAN.from_ns, to_ns=SPAN.to_ns, names=("co",)))
    (kinds,) = kinds_in(table.schema.metadata)
    assert kinds.units == ("ppm", "%")
    at = kinds.at(table.column("sequence").to_numpy())
    assert [kinds.units[one] for one in at] == ["ppm"] * 20 + ["%"] * 10
    assert set((table.column("sequence").to_numpy() // STORE_SEQUENCES).tolist()) == {0, 1}


@SEALS
@pytest.mark.parametrize("only_raw", [True, False])
def test_aggregates_are_those_of_the_rows_of_all_stores(tmp_path: Path, seals: str, only_raw: bool) -> None:
    stores = Stores(tmp_path, seals)
    asked = RowsQuestion(
        from_ns=SPAN.from_ns, to_ns=SPAN.to_ns, names=("co",), aggregate="count", bucket_ns=HOUR // 2, only_raw=only_raw
    )
    counts = [one for one in stores.asked(asked).column("value").to_pylist() if one]
    assert counts == [20, 10]


@SEALS
def test_a_gap_says_where_one_store_ends_and_the_next_begins(tmp_path: Path, seals: str) -> None:
    stores = Stores(tmp_path, seals)
    gaps = stores.asked(GapsQuestion(from_ns=SPAN.from_ns, to_ns=SPAN.to_ns)).to_pylist()
    ends = FIRST_AT + 2 * 60 * SECOND
    assert [(one["reason"], one["from_ns"], one["to_ns"]) for one in gaps] == [("other_store", ends, SECOND_AT)]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_store_without_a_record_is_no_gap(tmp_path: Path, place: int) -> None:
    """It was declared, and its node was exchanged once more before the first of its records came."""
    stores = Stores.__new__(Stores)
    stores.log, stores.life = MemoryLog(), Historian(tmp_path)
    sites = [Site(number, NODE) for number in (1, 2, 3)]
    for number, site in enumerate(sites):
        at = FIRST_AT + number * HOUR
        if number == place:
            stores.log.declares(site.index, NODE, site.log, at)
        else:
            stores.begin(site, at, [("co", "ppm")])
            stores.rows(site, at, 1, range(10 * number, 10 * number + 5))
    stores.take(is_sealed=False)
    first, last = (one for one in range(3) if one != place)
    gaps = stores.asked(GapsQuestion(from_ns=0, to_ns=SPAN.to_ns)).to_pylist()
    ends, begins = FIRST_AT + first * HOUR + 4 * 60 * SECOND, FIRST_AT + last * HOUR
    assert [(one["from_ns"], one["to_ns"]) for one in gaps] == [(ends, begins)]


@SEALS
def test_the_journal_has_the_events_of_all_stores_in_their_order(tmp_path: Path, seals: str) -> None:
    stores = Stores(tmp_path, seals)
    for rows_max in (1, 100):
        asked = EventsQuestion(from_ns=SPAN.from_ns, to_ns=SPAN.to_ns, rows_max=rows_max)
        events = stores.asked(asked).to_pylist()
        assert [(one["action"], one["at_ns"]) for one in events] == [
            ("epoch_granted", FIRST_AT),
            ("epoch_granted", SECOND_AT),
        ]


@SEALS
def test_gaps_of_an_earlier_store_are_about_the_items_as_they_are_told_now(tmp_path: Path, seals: str) -> None:
    stores = Stores(tmp_path, seals)
    gap = GapFound(source="p", reason="poll", from_ns=FIRST_AT, to_ns=FIRST_AT + 1, item_ids=(ItemId(1),))
    stores.first.log.records(Stream.SAMPLES, [gap], FIRST_AT)
    stores.rows(stores.first, FIRST_AT + HOUR // 2, 1, range(0))
    stores.take(is_sealed=seals == "both")
    (co,) = (row for row in (stores.paged().item("co"),))
    told = stores.asked(GapsQuestion(from_ns=SPAN.from_ns, to_ns=SPAN.to_ns, item_ids=(int(str(co["item_id"])),)))
    assert [one["item_ids"] for one in told.to_pylist() if one["source"] == "p"] == [[co["item_id"]]]


def test_files_alone_answer_so_too(tmp_path: Path) -> None:
    Stores(tmp_path, "both")
    access = HistoryAccess(tmp_path, "north")
    for name, values in (("co", range(30)), ("old", range(100, 103)), ("new", range(200, 202))):
        item_id = access.item(f"{NODE}:{name}")["item_id"]
        assert isinstance(item_id, int)
        reader = access.reader([item_id])
        assert reader.raw([item_id], SPAN).column("value_f64").to_pylist() == floats(values)
        found = reader.intervals(item_id, SPAN, HOUR, AggregateSettings())
        assert found.good_rows.sum() == len(values)
    assert len(access.event_reader().events(SPAN)) == 2


@in_a_loop
async def test_the_actor_tells_a_reader_of_files_what_no_file_has_of_each_store(tmp_path: Path) -> None:
    stores = Stores(tmp_path / "other")
    server = LogServer(stores.log)
    async with running(server, tmp_path), running(history(), tmp_path), running(asker := Asker(), tmp_path):
        await server.until_taken()
        result = (await asker.ask("history", node="north", item_ids=[1])).result
        assert isinstance(result, dict)
        folders = result["folders"]
        assert folders == [stores.first.folder.name, stores.second.folder.name]
        counts = [await rows_of(asker, folder) for folder in folders]
        assert counts == [20, 2], "the item 1 of each"
        answer = await asker.ask("history_piece", names=["north:co"], from_ns=SPAN.from_ns, to_ns=SPAN.to_ns)
        assert isinstance(answer.result, dict) and answer.result["rows"] == 30


async def rows_of(asker: Asker, folder: str) -> object:
    result = (await asker.ask("history", node="north", folder=folder, item_ids=[1])).result
    assert isinstance(result, dict)
    return result["rows"]


@pytest.mark.parametrize("is_sealed", [True, False])
def test_rows_that_a_backup_lacks_are_still_told(tmp_path: Path, is_sealed: bool) -> None:
    """The node had recorded and told them; its store is an older one now, and goes another way."""
    stores = Stores(tmp_path)
    before = stores.values("co")
    stores.take(is_sealed=is_sealed)
    stores.second.restored(stores.log, stores.second.log.end - 8)
    stores.rows(stores.second, SECOND_AT + HOUR, 2, range(50, 55))
    stores.take(is_sealed=True)
    assert sorted(stores.values("co")) == sorted([*before, *floats(range(50, 55))])
    assert sorted(stores.values("co", rows_max=2)) == sorted([*before, *floats(range(50, 55))])
    asked = RowsQuestion(from_ns=SPAN.from_ns, to_ns=SPAN.to_ns, names=("co",), aggregate="count", bucket_ns=10 * HOUR)
    assert sum(one or 0 for one in stores.asked(asked).column("value").to_pylist()) == len(before) + 5


def test_what_is_known_of_a_node_is_bounded_by_the_clock_of_the_one_that_heard_it(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    ahead = SECOND_AT + 2 * HOUR
    stores.second.log.samples([(1, ahead, 7.0, 0)], ahead)
    stores.log.envelope(2, stores.second.pending(), SECOND_AT + HOUR)
    for is_sealed in (False, True):
        stores.take(is_sealed=is_sealed)
        asked = RowsQuestion(from_ns=SPAN.from_ns, to_ns=SPAN.to_ns, names=("new",))
        assert stores.paged().piece(asked).complete_to_ns == SECOND_AT + HOUR
