"""Answers of a history that a node makes up: each is refused by name, none ends in an error of our own."""

from collections.abc import Generator
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from albireo.client.errors import AnswerNotUnderstood
from albireo.client.history import HistoryClient, items_of
from albireo.client.questions import NodeReply
from albireo.codec.history import SAMPLES
from albireo.codec.item_kinds import ItemKinds, metadata_of
from albireo.model.value import ValueType
from albireo.node.history.hot_answer import arrow_stream

KINDS = ItemKinds(item_id=1, name="root:x", declared=(5,), types=(ValueType.BOOL,), units=("",))
ROW = dict.fromkeys(SAMPLES.names, 1) | {"value_f64": None, "value_str": None}
ROWS = pa.Table.from_pylist([ROW], schema=SAMPLES)


def answered(table: pa.Table, metadata: dict[bytes, bytes]) -> pa.Table:
    """The answer of the client to one piece."""

    class Asking:
        def converse(self, conversation: Generator[Any, Any, pa.Table]) -> pa.Table:
            next(conversation)
            raw = arrow_stream(table.replace_schema_metadata(metadata))
            try:
                conversation.send(NodeReply({"next": "", "complete_to_ns": 1, "rows": len(table)}, [raw]))
            except StopIteration as ended:
                found: pa.Table = ended.value
                return found
            raise AssertionError("it asks for more")

    asking: Any = Asking()
    found: pa.Table = HistoryClient.__dict__["history"].__get__(asking, Asking)("x", 0, 1)
    return found


def test_an_honest_answer_is_read() -> None:
    assert answered(ROWS, metadata_of([KINDS]))["value"].to_pylist() == [True]


@pytest.mark.parametrize(
    ("table", "items"),
    [
        (ROWS, []),
        (ROWS, [msgspec.structs.replace(KINDS, item_id=2)]),
        (ROWS.drop_columns(["sequence"]), [KINDS]),
        (ROWS.drop_columns(["value_f64"]), [KINDS]),
    ],
)
def test_rows_that_fit_no_item_are_not_understood(table: pa.Table, items: list[ItemKinds]) -> None:
    with pytest.raises(AnswerNotUnderstood):
        answered(table, metadata_of(items))


@pytest.mark.parametrize(
    "told",
    [
        b"{",
        b"[{}]",
        b'[{"item_id":1,"name":"x","declared":[],"types":[],"units":[]}]',
        b'[{"item_id":1,"name":"x","declared":[1,2],"types":[1],"units":[""]}]',
        b'[{"item_id":1,"name":"x","declared":[99999999999999999999],"types":[1],"units":[""]}]',
        b'[{"item_id":1,"name":"x","declared":[1],"types":[9],"units":[""]}]',
    ],
)
def test_items_that_are_none_are_not_understood(told: bytes) -> None:
    with pytest.raises(AnswerNotUnderstood):
        items_of(ROWS.replace_schema_metadata({b"items": told}))
