"""The manifest's line for a file, made from what was written."""

from typing import Final

import pyarrow as pa

from albireo.codec.history import FileEntry, FileKind
from albireo.node.history.files import parquet

TIMES: Final = {
    FileKind.SAMPLES: ("source_ns", "source_ns"),
    FileKind.PARTIALS: ("first_ns", "last_ns"),
    FileKind.GAPS: ("from_ns", "to_ns"),
    FileKind.EVENTS: ("at_ns", "at_ns"),
}
"""Columns of the smallest and the largest time of a file."""


def entry_of(
    kind: FileKind,
    path: str,
    table: pa.Table,
    partition: tuple[str, str],
    written: parquet.WrittenFile,
    sealed_ns: int,
    sequences: tuple[int, int] | None = None,
) -> FileEntry:
    """The manifest's line for a file that holds exactly `table`."""
    begin, end = TIMES[kind]
    if sequences is None:
        sequences = parquet.span(table, "sequence")
    return FileEntry(
        kind=kind,
        path=path,
        node=partition[0],
        day=partition[1],
        rows=len(table),
        min_source_ns=parquet.span(table, begin)[0],
        max_source_ns=parquet.span(table, end)[1],
        first_sequence=sequences[0],
        last_sequence=sequences[1],
        size_bytes=written.size_bytes,
        content_crc=written.crc,
        footer_crc=written.footer_crc,
        sealed_ns=sealed_ns,
    )
