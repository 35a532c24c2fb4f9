"""Parts that tests share: an item that is declared anew again and again, its history, and answers about it."""

from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st

from albireo.client.readable import typed
from albireo.codec.item_kinds import kinds_in
from albireo.codec.questions.history import RowsQuestion
from albireo.codec.record import ItemDeclared, Stream
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
