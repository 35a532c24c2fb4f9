"""The state of a table against a dumb oracle, over any story of rows that come, change and go."""

from typing import Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from albireo.codec.errors import DecodeError
from albireo.codec.slices import read_slices, sliced
from albireo.machine.table.shape import TableShape
from albireo.machine.table.table import Table
from albireo.machine.table.told import cut_table
from albireo.model.bounded import Count

GONE: Final = 3


class Row(msgspec.Struct, frozen=True):
    """A row; a negative content would be out of bounds."""

    number: Count
    content: Count
    is_over: bool = False


SHAPE: Final = TableShape("rows", Row, lambda one: one.number, 5, gone_max=GONE, is_over=lambda one: one.is_over)

acts = st.lists(
    st.tuples(st.sampled_from(["put", "over", "remove", "restore"]), st.integers(1, 6), st.integers(0, 2)), max_size=60
)


def restored(table: Table[int, Row]) -> Table[int, Row]:
    again = Table(SHAPE)
    again.restore(read_slices(table.snapshot()))
    assert again.snapshot() == table.snapshot()
    return again


def told(table: Table[int, Row], since: int, room: int = 1 << 20) -> tuple[list[Row], list[int]]:
    """All pieces of a delta, as a viewer reads them."""
    rows: list[Row] = []
    gone: list[int] = []
    behind = None
    while True:
        found = cut_table(table, since, behind, room, is_first=True)
        if found.part is not None:
            rows += SHAPE.decode(found.part.rows)
            gone += [one for one in found.part.gone if isinstance(one, int)]
        if found.is_all:
            return rows, gone
        assert found.last != behind
        behind = found.last


@given(acts, st.integers(-1, 60), st.sampled_from([1, 20, 1 << 20]))
def test_any_story_leaves_what_a_plain_table_has_however_often_it_is_restored(
    story: list[tuple[str, int, int]], since: int, room: int
) -> None:
    table = Table(SHAPE)
    plain: dict[int, Row] = {}
    last: dict[int, tuple[int, Row | None]] = {}
    changed: dict[int, int] = {}
    for at, (act, number, content) in enumerate(story, 1):
        if act == "restore":
            table = restored(table)
        elif act == "put":
            plain[number] = row = Row(number, content)
            last.pop(number, None)
            table.put(row, at)
            changed[number] = at
        elif act == "over":
            row = Row(number, content, is_over=True)
            plain.pop(number, None)
            table.put(row, at)
            changed[number] = at
            last[number] = (at, row)
        else:
            row_before = plain.pop(number, None)
            assert table.remove(number, at) == row_before
            if row_before is not None:
                changed[number] = at
                last[number] = (at, None)
        for forgotten in sorted(last, key=lambda one: last[one][0])[:-GONE]:
            del last[forgotten]
    assert {one.number: one for one in table} == plain
    if since < 0:
        assert told(table, since, room) == ([plain[one] for one in sorted(plain)], [])
    elif since >= table.forgotten_at:
        words = {one: plain.get(one) or last[one][1] for one in sorted(changed) if changed[one] > since}
        assert told(table, since, room) == (
            [one for one in words.values() if one is not None],
            [number for number, one in words.items() if one is None],
        )
    kept = [number for number in changed if number in plain or number in last]
    assert set(kept) == set(changed) or table.forgotten_at > 0


def test_rows_of_another_node_above_the_bound_are_left_out_and_those_that_are_there_still_change() -> None:
    table = Table(SHAPE)
    assert table.take([Row(number, 1) for number in range(7)], (), 1) == 2
    assert table.take([Row(0, 2), Row(6, 2)], (), 2) == 1
    assert table.take([Row(6, 3)], (0, 4711), 3) == 1
    assert table.take([Row(6, 3)], (), 4) == 0
    assert sorted(one.number for one in table) == [1, 2, 3, 4, 6]


@pytest.mark.parametrize(
    "section",
    [
        b"\0",
        sliced(None),
        sliced([[1], [], [], 0]),
        sliced([[], [1], [], 0]),
        sliced([[1], [], [], 0]) + sliced([None]),
        sliced([[1], [], [], 0]) + sliced([{"number": 1, "content": 2**64 - 1}]),
        sliced([[], [], [], 0]) + sliced([Row(1, 1)]),
    ],
)
def test_a_snapshot_that_is_none_is_told(section: bytes) -> None:
    with pytest.raises(DecodeError):
        Table(SHAPE).restore(read_slices(section))
