"""Pieces of any size, of either member, with seals and merges between them, are together the whole answer."""

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from albireo.codec.questions.history import AnyPieceQuestion, EventsQuestion, GapsQuestion, RowsQuestion
from albireo.codec.record import Audited, EpochGranted, GapFound, ItemDeclared, Stream
from albireo.machine.history.sealing import merge_plan
from albireo.model import quality as q
from albireo.model.instant import SECOND
from albireo.model.item import DataItem
from albireo.model.position import Position
from albireo.model.value import ItemId, ValueType
from albireo.node.history import paging
from albireo.node.history.errors import QueryRefused, UnknownItem
from albireo.node.history.files import hot as hot_tail
from albireo.node.history.files import merging, sweep
from albireo.node.history.files.hot import HotContent, HotRows
from albireo.node.history.files.store import HistoryStore
from albireo.node.history.paging import AnswerPiece, PagedHistory
from albireo.node.history.per_interval import AGGREGATES, Aggregation, interval_table
from albireo.node.history.query import StoredHistory, TimeRange
from tests.parts.history import DAY_ZERO, LOG_ID, MemoryLog, fill, hot_of

DAY_NS = 86_400 * SECOND
ITEMS = (1, 2, 5)
TEXT = 6
SEEDS = range(12)


class MemberHistory:
    """The history of one member, which seals and merges when it likes."""

    def __init__(self, root: Path, chance: random.Random) -> None:
        self.store, _ = HistoryStore.open(root, "root")
        self.hot = hot_of(self.store)
        self.chance = chance
        self.sealed: HotContent | None = None
        """Rows that are in a file and still in the hot tail."""

    def work(self, log: MemoryLog) -> None:
        """Take what is new; perhaps seal, perhaps merge."""
        fill(self.hot, log)
        if self.sealed is not None:
            self.hot.drop(self.sealed)
            self.sealed = None
        elif self.chance.random() < 0.5:
            self.sealed = self.hot.content()
            self.store.seal(self.sealed, LOG_ID.hex(), self.sealed.complete_to_ns)
        plan = merge_plan(self.store.manifest.files, self.hot.complete_to_ns + self.chance.choice([0, DAY_NS]))
        if plan is not None and self.chance.random() < 0.7:
            made = merging.merge_files(self.store, plan, self.store.manifest.generation + 1, threading.Event())
            self.store.replace(merging.inputs_listed(self.store, plan), made, self.hot.complete_to_ns)

    def piece(self, asked: AnyPieceQuestion) -> AnswerPiece:
        content = self.hot.content()
        return PagedHistory(self.store.root, self.store.manifest, content, self.store.declared).piece(asked)

    def reader(self) -> StoredHistory:
        """The local reader, as `albireo history` has it."""
        content = self.hot.content()
        newest = HotRows(
            samples=hot_tail.samples_table(content.chunks),
            gaps=content.all_gaps,
            items=content.items,
            events=content.events,
            known_to_ns=content.complete_to_ns,
        )
        return StoredHistory(self.store.root, self.store.manifest, newest.above(self.store.manifest.position))


class Recorded:
    """A log, and the histories of two members that follow it each at a pace of its own."""

    def __init__(self, tmp_path: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.log = MemoryLog()
        self.members = [MemberHistory(tmp_path / name, random.Random(seed + 1 + at)) for at, name in enumerate("ab")]
        self.now = DAY_ZERO + DAY_NS - 600 * SECOND
        self._declare()
        for _ in range(self.chance.randint(3, 10)):
            self._block()
        for member in self.members:
            fill(member.hot, self.log)
        self.now += 301 * SECOND
        self.span = (DAY_ZERO + DAY_NS - 700 * SECOND, self.now - self.chance.randint(0, 300) * SECOND)

    def _declare(self) -> None:
        kinds = dict.fromkeys(ITEMS, ValueType.FLOAT64) | {TEXT: ValueType.STRING}
        declared = [
            ItemDeclared(item_id=ItemId(one), node="root", item=DataItem(name=f"i{one}", value_type=kind, adapter="p1"))
            for one, kind in kinds.items()
        ]
        self.log.records(Stream.STATE, list(declared), self.now)

    def _block(self) -> None:
        chance, log = self.chance, self.log
        rows, texts = [], []
        for _ in range(chance.choice([0, 3, 40])):
            self.now += chance.choice([0, 1, SECOND, 20 * SECOND])
            late = chance.randint(0, 900) * SECOND if chance.random() < 0.1 else 0
            quality = chance.choice([int(q.GOOD)] * 4 + [int(q.BAD_NO_COMMUNICATION), int(q.UNCERTAIN)])
            rows.append((chance.choice(ITEMS), self.now - late, float(chance.randint(-9, 9)), quality))
            if chance.random() < 0.3:
                texts.append((TEXT, self.now - late, "x" * chance.choice([0, 7, 400]), quality))
        if rows:
            log.samples(rows, self.now)
        if texts:
            log.samples(texts, self.now, ValueType.STRING)
        for _ in range(chance.choice([0, 2])):
            gap = GapFound(source=chance.choice(["p1", "p2"]), reason="lost", from_ns=self.now, to_ns=self.now + SECOND)
            log.records(Stream.SAMPLES, [gap], self.now)
            said = Audited(at_ns=self.now, user="u", action="a", subject="s", detail="d")
            log.records(Stream.AUDIT, [said] * chance.choice([1, 5]), self.now)
        if chance.random() < 0.3:
            self._cut_back()
        for member in self.members:
            if chance.random() < 0.7:
                member.work(log)

    def _cut_back(self) -> None:
        """The log goes another way: its last records get other ones with the same sequences, in the next epoch."""
        for member in self.members:
            fill(member.hot, self.log)
        keep = self.chance.randint(max(1, len(self.log.frames) - 2), len(self.log.frames))
        del self.log.frames[keep:]
        self.log.end = self.log.frames[-1].header.last_sequence
        self.log.epoch += 1
        at = Position(self.log.frames[-1].header.epoch, self.log.end)
        granted = EpochGranted(epoch=self.log.epoch, branch_id=1, node="root", reason="forced")
        self.log.records(Stream.CONTROL, [granted], self.now)
        for member in self.members:
            member.hot.fork(at)
            fill(member.hot, self.log)

    def pieces(self, ask: Callable[[str, int], AnyPieceQuestion]) -> tuple[list[pa.Table], list[int]]:
        """All pieces, each asked of either member, which seals and merges meanwhile."""
        following, found, complete = "", [], []
        while True:
            piece = self.chance.choice(self.members).piece(ask(following, self.chance.choice([1, 2, 7, 100])))
            found.append(piece.table)
            complete.append(piece.complete_to_ns)
            for member in self.members:
                if self.chance.random() < 0.4:
                    member.work(self.log)
            following = piece.next
            if not following:
                return found, complete


def history_of(world: Recorded, cursor: str, rows_max: int, **more: Any) -> RowsQuestion:
    from_ns, to_ns = world.span
    return RowsQuestion(from_ns=from_ns, to_ns=to_ns, cursor=cursor, rows_max=rows_max, **more)


def keys(table: pa.Table) -> list[tuple[int, ...]]:
    names = ("item_id", "source_ns", "sequence", "epoch")
    return list(zip(*(table.column(name).to_pylist() for name in names), strict=True))


@pytest.mark.parametrize("seed", SEEDS)
def test_pieces_of_rows_are_the_whole_answer(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row once, in order, whatever the budget of a piece."""
    world = Recorded(tmp_path, seed)
    monkeypatch.setattr(paging, "TAKES_MAX", world.chance.choice([1, 2, sweep.TAKES_MAX]))
    monkeypatch.setattr(paging, "ITEMS_AT_ONCE", world.chance.choice([1, 64]))
    whole = world.members[0].reader().raw([*ITEMS, TEXT], TimeRange(*world.span))
    ids = (*ITEMS, TEXT, 99)
    tables, complete = world.pieces(lambda cursor, rows_max: history_of(world, cursor, rows_max, item_ids=ids))
    together = pa.concat_tables(tables)
    assert keys(together) == sorted(keys(whole))
    assert together.sort_by([(name, "ascending") for name in ("item_id", "source_ns", "sequence", "epoch")]).equals(
        whole.sort_by([(name, "ascending") for name in ("item_id", "source_ns", "sequence", "epoch")])
    )
    assert set(complete) == {max(member.hot.complete_to_ns for member in world.members)}


@pytest.mark.parametrize("aggregate", [one for one in AGGREGATES if one != "raw"])
@pytest.mark.parametrize("seed", SEEDS[:4])
def test_pieces_of_aggregates_are_the_whole_answer(
    tmp_path: Path, seed: int, aggregate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Recorded(tmp_path, seed)
    monkeypatch.setattr(paging, "SPAN_NS", world.chance.choice([1, 200 * SECOND, 31 * DAY_NS]))
    monkeypatch.setattr(paging, "RAW_ROWS_READ_MAX", world.chance.choice([60, 10**6]))
    every_ns = world.chance.choice([7 * SECOND, 60 * SECOND, 90 * SECOND])
    reader = world.members[0].reader()
    wanted = Aggregation(name=aggregate, every_ns=every_ns)
    items = {f"root:i{one}": one for one in ITEMS}
    whole = {
        item_id: interval_table(reader, reader.item(name), TimeRange(*world.span), wanted)
        for name, item_id in items.items()
    }

    def ask(cursor: str, rows_max: int) -> RowsQuestion:
        more = {"aggregate": aggregate, "bucket_ns": every_ns, "names": tuple(items)}
        return history_of(world, cursor, rows_max, **more)

    together = pa.concat_tables(world.pieces(ask)[0])
    for item_id, expected in whole.items():
        found = together.filter(pa.compute.field("item_id") == item_id)
        for name in expected.column_names:
            pairs = zip(found.column(name).to_pylist(), expected.column(name).to_pylist(), strict=True)
            assert all(one == other or one == pytest.approx(other) for one, other in pairs), name


@pytest.mark.parametrize("seed", SEEDS)
def test_pieces_of_events_and_gaps_are_the_whole_answer(tmp_path: Path, seed: int) -> None:
    world = Recorded(tmp_path, seed)
    from_ns, to_ns = world.span
    reader = world.members[0].reader()

    def events(cursor: str, rows_max: int) -> EventsQuestion:
        return EventsQuestion(from_ns=from_ns, to_ns=to_ns, cursor=cursor, rows_max=rows_max, kind="audit")

    def gaps(cursor: str, rows_max: int) -> GapsQuestion:
        return GapsQuestion(from_ns=from_ns, to_ns=to_ns, cursor=cursor, rows_max=rows_max, item_ids=(ITEMS[0],))

    def order(row: dict[str, Any]) -> tuple[int, int]:
        return row["sequence"], row["epoch"]

    expected = [row for row in reader.events(TimeRange(*world.span)).to_pylist() if row["kind"] == "audit"]
    assert pa.concat_tables(world.pieces(events)[0]).to_pylist() == sorted(expected, key=order)
    found = pa.concat_tables(world.pieces(gaps)[0]).to_pylist()
    assert sorted(found, key=order) == sorted(reader.gaps(TimeRange(*world.span), ITEMS[0]), key=order)


def test_a_piece_is_bounded_in_bytes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = Recorded(tmp_path, 3)
    monkeypatch.setattr(paging, "PIECE_BYTES", 4_000)
    for more in ({}, {"aggregate": "last", "bucket_ns": 5 * SECOND}):
        tables, _ = world.pieces(lambda cursor, _: history_of(world, cursor, 100, item_ids=(TEXT,), **more))  # noqa: B023
        assert max(table.nbytes for table in tables) <= 4_000
        assert len(tables) > 1


@pytest.mark.parametrize(
    ("cursor", "more"),
    [
        ("nonsense", {}),
        ("e.1.2", {}),
        ("r.1.2.3", {}),
        ("r.1.2.3.x", {}),
        (f"r.1.{2**63}.3.4", {}),
        ("r.1.0.3.4", {}),  # Before the range.
        ("a.1.0", {"aggregate": "min", "bucket_ns": SECOND}),
        (f"a.9.{DAY_ZERO + DAY_NS}", {"aggregate": "min", "bucket_ns": SECOND}),
        ("", {"aggregate": "min"}),
        ("", {"item_ids": ()}),
        ("", {"names": ("nobody",)}),
        ("", {"item_ids": (77,), "aggregate": "min", "bucket_ns": SECOND}),
        ("", {"item_ids": (TEXT,), "aggregate": "min", "bucket_ns": SECOND}),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, cursor: str, more: dict[str, Any]) -> None:
    world = Recorded(tmp_path, 1)
    with pytest.raises((QueryRefused, UnknownItem)):
        world.members[0].piece(history_of(world, cursor, 10, **{"item_ids": (1,), **more}))
