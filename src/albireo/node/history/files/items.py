"""The file of declared items: written whole with each change, and read back at a start."""

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from albireo.codec.history import ITEMS, FileEntry, FileKind, Manifest, items_path
from albireo.log.files import FileSystem
from albireo.machine.history.declared import DeclaredItems
from albireo.node.history.errors import HistoryDamaged
from albireo.node.history.files import parquet


def write_items(root: Path, files: FileSystem, declared: DeclaredItems, node: str, generation: int) -> FileEntry:
    """Write the file, whose folder is there.

    Raises:
        OSError: of the disk.
    """
    path = items_path(generation)
    table = pa.Table.from_pylist(declared.rows(), schema=ITEMS)
    written = parquet.write(files, root / path, FileKind.ITEMS, table)
    return FileEntry(
        kind=FileKind.ITEMS,
        path=path,
        node=node,
        day="",
        rows=len(table),
        min_source_ns=0,
        max_source_ns=0,
        first_sequence=0,
        last_sequence=0,
        size_bytes=written.size_bytes,
        content_crc=written.crc,
        footer_crc=written.footer_crc,
    )


def load_items(root: Path, manifests: Iterable[Manifest]) -> DeclaredItems:
    """Items by the file of the first manifest whose file can be read. Without any they come again from the log."""
    for manifest in manifests:
        entries = manifest.of_kind(FileKind.ITEMS)
        if entries:
            try:
                table = parquet.read(root, entries[:1], [field.name for field in ITEMS])
            except HistoryDamaged:
                continue
            return DeclaredItems.of_rows(table.to_pylist())
    return DeclaredItems({})
