"""Pieces of any size, of either member, with seals and merges between them, are together the whole answer."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from albireo.codec.questions.history import EventsQuestion, GapsQuestion, RowsQuestion
from albireo.model.instant import SECOND
from albireo.node.history import paging
from albireo.node.history.errors import QueryRefused, UnknownItem
from albireo.node.history.files import sweep
from albireo.node.history.per_interval import AGGREGATES, Aggregation, interval_table
from albireo.node.history.query import TimeRange
from tests.parts.history import DAY_ZERO
from tests.parts.history_pieces import DAY_NS, ITEMS, TEXT, Recorded

SEEDS = range(12)


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


def audited(events: pa.Table) -> list[dict[str, Any]]:
    """Its audit entries as a piece has them; they have no value that could be shown."""
    return [row | {"shown": None} for row in events.to_pylist() if row["kind"] == "audit"]


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

    expected = audited(reader.events(TimeRange(*world.span)))
    assert pa.concat_tables(world.pieces(events)[0]).to_pylist() == sorted(expected, key=order)
    found = pa.concat_tables(world.pieces(gaps)[0]).to_pylist()
    assert sorted(found, key=order) == sorted(reader.gaps(TimeRange(*world.span), ITEMS[0]), key=order)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_newest_events_come_first_where_they_are_asked_for_so(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Recorded(tmp_path, seed)
    monkeypatch.setattr(paging, "TAKES_MAX", world.chance.choice([1, 2, sweep.TAKES_MAX]))
    from_ns, to_ns = world.span
    expected = audited(world.members[0].reader().events(TimeRange(from_ns, to_ns)))

    def events(cursor: str, rows_max: int) -> EventsQuestion:
        return EventsQuestion(
            from_ns=from_ns, to_ns=to_ns, cursor=cursor, rows_max=rows_max, kind="audit", newest_first=True
        )

    found = pa.concat_tables(world.pieces(events)[0]).to_pylist()
    assert found == sorted(expected, key=lambda row: (-row["sequence"], -row["epoch"]))


def test_a_cursor_of_events_is_good_for_its_own_order_only(tmp_path: Path) -> None:
    world = Recorded(tmp_path, 1)
    from_ns, to_ns = world.span
    for cursor, is_back in (("e.5.1", True), ("b.-5.-1", False)):
        with pytest.raises(QueryRefused, match="cursor"):
            world.members[0].piece(EventsQuestion(from_ns=from_ns, to_ns=to_ns, cursor=cursor, newest_first=is_back))


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
