"""A file of declared items of another history, as it is judged before its versions are taken."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from albireo.codec.crc import crc32c
from albireo.codec.history import ITEMS, FileEntry, FileKind
from albireo.machine.history.declared import VERSIONS_MAX, item_row
from albireo.model.item import DataItem, KnownItem
from albireo.model.value import ItemId, ValueType
from albireo.node.history.errors import FileRefused
from albireo.node.history.files.taking import take_items

NORTH = "root/north"
LEVEL = KnownItem(item_id=ItemId(1), node=NORTH, item=DataItem(name="level", value_type=ValueType.FLOAT64))


def file_of(tmp_path: Path, rows: list[dict[str, Any]]) -> tuple[Path, FileEntry]:
    path = tmp_path / "incoming.tmp"
    pq.write_table(pa.Table.from_pylist(rows, schema=ITEMS), path, write_page_checksum=True)
    entry = FileEntry(
        kind=FileKind.ITEMS,
        path="items.parquet",
        node=NORTH,
        day="",
        rows=len(rows),
        min_source_ns=0,
        max_source_ns=0,
        first_sequence=0,
        last_sequence=0,
        size_bytes=path.stat().st_size,
        content_crc=crc32c(path.read_bytes()),
        footer_crc=1,
    )
    return path, entry


def test_versions_are_taken(tmp_path: Path) -> None:
    rows = [item_row(LEVEL, at) for at in range(VERSIONS_MAX)]
    taken = take_items(*file_of(tmp_path, rows))
    assert [len(versions) for versions in taken.versions.values()] == [VERSIONS_MAX]


def test_a_file_with_very_many_versions_of_an_item_is_refused_before_they_are_joined(tmp_path: Path) -> None:
    """Joined one by one 100,000 of them would take half a minute, and the two million that a file may have hours."""
    rows = [item_row(LEVEL, 1)] * 100_000
    with pytest.raises(FileRefused, match="too_many_versions"):
        take_items(*file_of(tmp_path, rows))
