"""Whatever a program asks the history for a piece of, it gets a piece or a refusal, and no piece is too large."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albireo.codec.questions.history import EVENTS_PIECE, GAPS_PIECE, HISTORY_PIECE, PIECE_ROWS_MAX
from albireo.model.bounded import INT64_MAX, INT64_MIN
from albireo.model.instant import SECOND
from albireo.node.history.errors import HistoryError
from albireo.node.history.paging import PIECE_BYTES
from tests.long_form import examples
from tests.parts.history import DAY_ZERO
from tests.parts.history_pieces import DAY_NS, MemberHistory, Recorded

PIECES = {one.name: one.shape for one in (HISTORY_PIECE, EVENTS_PIECE, GAPS_PIECE)}
BEGIN = DAY_ZERO + DAY_NS
times = st.integers(INT64_MIN, INT64_MAX) | st.integers(BEGIN - 900 * SECOND, BEGIN + 900 * SECOND)
numbers = st.integers(-3, 9) | st.integers(-(2**70), 2**70) | times
cursors = (
    st.just("")
    | st.text(max_size=30)
    | st.builds(
        lambda letter, places: ".".join([letter, *map(str, places)]),
        st.sampled_from("raegx"),
        st.lists(numbers, max_size=5),
    )
)
asked = st.fixed_dictionaries(
    {},
    optional={
        "from_ns": times,
        "to_ns": times,
        "item_ids": st.lists(st.integers(0, 9) | numbers, max_size=4),
        "names": st.lists(st.sampled_from(["i1", "root:i2", "i6", "nobody"]), max_size=3),
        "aggregate": st.sampled_from(["", "raw", "average", "min", "count", "last", "interpolated", "nonsense"]),
        "bucket_ns": st.integers(1, 900 * SECOND) | numbers,
        "kind": st.sampled_from(["", "audit", "case", "nonsense"]),
        "cursor": cursors,
        "rows_max": st.integers(1, 50) | numbers,
        "uncertain_is_good": st.booleans(),
        "only_raw": st.booleans(),
        "more": st.integers(0, 1),
    },
)


@pytest.fixture(scope="module")
def member(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemberHistory]:
    home: Path = tmp_path_factory.mktemp("history")
    world = Recorded(home, 7)
    world.members[0].chance = random.Random(1)
    world.members[0].work(world.log)
    yield world.members[0]


@given(what=st.sampled_from(sorted(PIECES)), arguments=asked)
@settings(max_examples=examples(300), deadline=None)
def test_any_question_has_a_piece_or_a_refusal(member: MemberHistory, what: str, arguments: dict[str, Any]) -> None:
    span = {"from_ns": BEGIN - 900 * SECOND, "to_ns": BEGIN + 900 * SECOND}
    shape = PIECES[what]
    known = set(shape.__struct_fields__) | {"more"}
    try:
        question = msgspec.convert({**span, **{key: one for key, one in arguments.items() if key in known}}, shape)
    except msgspec.ValidationError:
        return
    try:
        piece = member.piece(question)
    except HistoryError as refused:
        assert str(refused)
        return
    assert len(piece.table) <= min(question.rows_max, PIECE_ROWS_MAX)
    assert piece.table.nbytes <= PIECE_BYTES
    if piece.next:
        assert piece.next != question.cursor, "each piece comes further"
        member.piece(msgspec.structs.replace(question, cursor=piece.next))
