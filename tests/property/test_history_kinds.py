"""Values of an item that is declared anew again and again: each has the type and unit of its own place in the log.

Against a plain oracle, over the hot tail, files, merges and starts, and with clocks of all kinds: times of samples and
of programs say nothing of which declaration they came behind.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from albireo.client.readable import typed
from albireo.codec.item_kinds import kinds_in
from albireo.codec.questions.history import RowsQuestion
from albireo.codec.record import ItemDeclared, Marked, Stream
from albireo.model import quality as q
from albireo.model.instant import SECOND
from albireo.model.item import DataItem
from albireo.model.value import ItemId, Value, ValueType
from albireo.node.history.files.joined import NodeStore
from albireo.node.history.files.store import HistoryStore
from albireo.node.history.paging import PagedHistory
from albireo.node.history.query import TimeRange
from tests.parts.history import DAY_ZERO, LOG_ID, MemoryLog, fill, hot_of

END: Final = DAY_ZERO + 480 * SECOND
SPAN: Final = TimeRange(DAY_ZERO, END)
Row = tuple[int, Value, ValueType, str, int]
"""Source time, value, type, unit, and number of changes of either before it: a unit that came back is another one."""

TYPES: Final = st.sampled_from(list(ValueType))
STEPS: Final = st.lists(
    st.one_of(
        st.tuples(st.just("declare"), TYPES, st.sampled_from(["", "kW", "W"])),
        st.tuples(st.just("sample"), st.integers(0, 479), st.integers(0, 9)),
        st.tuples(st.just("big"), st.integers(0, 479), st.just(2**60 + 1)),
        st.tuples(st.just("seal"), st.just(0), st.just(0)),
    ),
    max_size=25,
)


class Life:
    """A log and its history, sealed now and then, and the rows as they should be."""

    def __init__(self, data: Path) -> None:
        self.data, self.log, self.rows = data, MemoryLog(), list[Row]()
        self.value_type, self.unit, self.changes = ValueType.FLOAT64, "kW", 0
        self.declare()

    def declare(self) -> None:
        item = DataItem(name="x", value_type=self.value_type, unit=self.unit)
        self.log.records(
            Stream.STATE, [ItemDeclared(item_id=ItemId(1), node="root", item=item)], DAY_ZERO + self.log.end
        )

    def step(self, what: str, one: Any, other: Any) -> None:
        match what:
            case "declare":
                self.changes += (self.value_type, self.unit) != (one, other)
                self.value_type, self.unit = one, other
                self.declare()
            case "seal":
                self.open().seal(self.content, LOG_ID.hex(), DAY_ZERO)
            case _:
                value = told_as(self.value_type, other)
                at_ns = DAY_ZERO + one * SECOND
                # A program's clock is a year behind: its times are of before all declarations.
                self.log.samples([(1, at_ns, value, int(q.GOOD))], DAY_ZERO - 365 * 86_400 * SECOND, self.value_type)
                self.rows.append((at_ns, value, self.value_type, self.unit, self.changes))

    def open(self) -> HistoryStore:
        store, _ = HistoryStore.open(self.data, "root")
        hot = hot_of(store)
        fill(hot, self.log)
        self.content = hot.content()
        return store

    def answers(self, aggregate: str, *, only_raw: bool = False) -> list[dict[str, Any]]:
        """Rows of an answer, from files and the hot tail, typed as clients have them."""
        store = self.open()
        paged = PagedHistory([NodeStore(store.root, store.manifest, store.declared)], [self.content])
        asked = RowsQuestion(
            item_ids=(1,),
            from_ns=SPAN.from_ns,
            to_ns=SPAN.to_ns,
            aggregate=aggregate,  # type: ignore[arg-type]  # one of them
            bucket_ns=60 * SECOND,
            only_raw=only_raw,
        )
        table = paged.piece(asked).table
        found = typed(table, kinds_in(table.schema.metadata), aggregate)
        return found.to_pylist()


def told_as(value_type: ValueType, number: int) -> Value:
    match value_type:
        case ValueType.FLOAT64:
            return float(number)
        case ValueType.INT64:
            return number
        case ValueType.BOOL:
            return number % 2 == 1
        case ValueType.STRING:
            return str(number)


def value_of(row: dict[str, Any]) -> Value | None:
    values = [one for name, one in row.items() if name.startswith("value") and name != "value_i64" and one is not None]
    return values[0] if values else None


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row[0])  # Stable: rows of one instant stay in the order of the log.


def average(rows: list[Row], begin: int, end: int) -> tuple[float | None, str | None]:
    """Average of an interval and its unit: none of several kinds, of text, or of nothing."""
    before, inside = [row for row in rows if row[0] < begin], [row for row in rows if begin <= row[0] < end]
    is_held = bool(before) and (not inside or inside[0][0] > begin)
    parts = ([(begin, *before[-1][1:])] if is_held else []) + inside
    if not parts:
        return None, None
    if len({part[2:] for part in parts}) > 1 or parts[0][2] is ValueType.STRING:
        return None, parts[-1][3]
    ends = [*(part[0] for part in parts[1:]), end]
    held = [after - part[0] for part, after in zip(parts, ends, strict=True)]
    return sum(float(part[1]) * ns for part, ns in zip(parts, held, strict=True)) / sum(held), parts[-1][3]


@given(steps=STEPS)
def test_every_row_is_told_as_it_was_recorded(steps: list[tuple[str, Any, Any]]) -> None:
    with TemporaryDirectory() as folder:
        life = Life(Path(folder))
        for step in steps:
            life.step(*step)
        told = [(row["source_ns"], value_of(row), type(value_of(row)), row["unit"]) for row in life.answers("raw")]
        assert told == [(row[0], row[1], type(row[1]), row[3]) for row in in_order(life.rows)]


@example(
    steps=[
        ("sample", 0, 5),
        ("declare", ValueType.FLOAT64, ""),
        ("declare", ValueType.FLOAT64, "kW"),
        ("sample", 30, 5),
    ],
    only_raw=False,
)
@given(steps=STEPS, only_raw=st.booleans())
def test_no_number_is_made_of_values_of_two_kinds(steps: list[tuple[str, Any, Any]], only_raw: bool) -> None:
    with TemporaryDirectory() as folder:
        life = Life(Path(folder))
        for step in steps:
            life.step(*step)
        life.log.records(Stream.CONTROL, [Marked()], END)
        rows = in_order(life.rows)
        told = life.answers("average", only_raw=only_raw)
        lows, highs = life.answers("min", only_raw=only_raw), life.answers("max", only_raw=only_raw)
        for row, low, high in zip(told, lows, highs, strict=True):
            right, unit = average(rows, row["start_ns"], row["start_ns"] + 60 * SECOND)
            assert row["value"] == (None if right is None else pytest.approx(right))
            assert unit in (None, row["unit"])
            assert q.is_bad(row["quality"]) == (right is None)
            assert (low["value"] is None) == (high["value"] is None) == (right is None)
            if right is not None:
                assert low["value"] * (1 - 1e-9) <= right <= high["value"] * (1 + 1e-9)
