"""Histories written by hand, for who reads them as a demo does at its end."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from albireo.codec.crc import crc32c
from albireo.codec.history import MANIFEST_NAME, SCHEMAS, FileEntry, FileKind, Manifest, encode_manifest
from albireo.model.instant import SECOND
from albireo.model.position import Position

BEGAN = 1_800_000_000 * SECOND
CO, ACQUIRED, DROPPED, LOG_BYTES = 1, 2, 3, 4


def item(item_id: int, name: str, adapter: str) -> dict[str, Any]:
    kind = {"item_id": item_id, "node": "root", "name": name, "value_type": 2}
    return {**kind, "unit": "", "description": "", "adapter": adapter, "states": "", "sequence": 0}


ITEMS = [
    item(CO, "co_1", "p1"),
    item(ACQUIRED, "p1/acquired", "p1"),
    item(DROPPED, "p1/dropped", "p1"),
    item(LOG_BYTES, "core/log_bytes", ""),
]


def sample(sequence: int, item_id: int, value: float, at_ns: int = BEGAN, quality: int = 0) -> dict[str, Any]:
    whole = item_id in (ACQUIRED, DROPPED)
    return {
        "item_id": item_id,
        "source_ns": at_ns,
        "node_ns": at_ns,
        "value_f64": None if whole else float(value),
        "value_i64": int(value) if whole else None,
        "value_str": None,
        "quality": quality,
        "epoch": 1,
        "sequence": sequence,
    }


def event(sequence: int, action: str, at_ns: int = BEGAN) -> dict[str, Any]:
    columns = dict.fromkeys(SCHEMAS[FileKind.EVENTS].names)
    told = {"kind": "case", "action": action, "user": "", "principal": "", "speaker": "", "subject": "", "detail": ""}
    return {**columns, **told, "at_ns": at_ns, "node_ns": at_ns, "epoch": 1, "sequence": sequence}


def write_history(
    data: Path,
    rows: dict[FileKind, list[dict[str, Any]]],
    *,
    upto: int = 99,
    name: str = "history",
    node: str = "root",
) -> None:
    """Writes a history that goes on to sequence `upto`; `name` of its folder, which is the node's own without one."""
    files = []
    root = data / name
    root.mkdir(parents=True)
    for kind, content in rows.items():
        path = f"{kind.value}.parquet"
        pq.write_table(pa.Table.from_pylist(content, schema=SCHEMAS[kind]), root / path)
        files.append(
            FileEntry(
                kind=kind,
                path=path,
                node=node,
                day="",
                rows=len(content),
                min_source_ns=0,
                max_source_ns=0,
                first_sequence=0,
                last_sequence=0,
                size_bytes=0,
                content_crc=crc32c((root / path).read_bytes()),
                footer_crc=1,
            )
        )
    manifest = Manifest(node=node, position=Position(2, upto), files=tuple(files))
    (root / MANIFEST_NAME).write_bytes(encode_manifest(manifest))
