"""Files of messages with a wrong bit anywhere: what is read is what was written, or the file is known as damaged."""

import random

import pyarrow as pa
import pytest

from albireo.codec.errors import DecodeError
from albireo.node.topics import parquet
from albireo.node.topics.parquet import OpenFile, encoded, footer_crc, sorted_table, table_of
from tests.long_form import some
from tests.parts.message_columns import Row, columns


def read(data: bytes, crc: int) -> pa.Table:
    file = OpenFile(pa.BufferReader(data), len(data), crc)
    return pa.concat_tables([file.read(group) for group in file.groups])


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> pa.Table:
    monkeypatch.setattr(parquet, "GROUP_BYTES", 4_000)
    chance = random.Random(1)
    bodies = [chance.randbytes(chance.choice((0, 5, 100))) for _ in range(300)]
    rows: list[Row] = [(1 + at % 3, at // 3 + 1, at + 1, body) for at, body in enumerate(bodies)]
    return sorted_table([table_of(columns(rows), {1: "one", 2: "two", 3: "three"})])


def test_no_wrong_bit_gives_other_messages(table: pa.Table) -> None:
    data, chance = bytes(encoded(table)), random.Random(2)
    crc, found = footer_crc(pa.BufferReader(data)), 0
    assert read(data, crc) == table
    for at in some(range(len(data)), 7):
        wrong = bytearray(data)
        wrong[at] ^= 1 << chance.randrange(8)
        try:
            assert read(bytes(wrong), crc) == table
        except DecodeError:
            found += 1
    assert found > len(data) // 10


@pytest.mark.parametrize("size", [0, 1, 7, 8, 100, -1])
def test_a_file_that_was_cut_is_damaged(table: pa.Table, size: int) -> None:
    data = bytes(encoded(table))
    crc, cut = footer_crc(pa.BufferReader(data)), data[:size]
    for size_bytes in (len(data), len(cut)):
        with pytest.raises(DecodeError):
            OpenFile(pa.BufferReader(cut), size_bytes, crc)
