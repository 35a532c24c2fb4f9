"""The stored history: schemas of its Parquet files, and the manifest that says which files are valid.

    <data>/history/manifest.json                                    list of the files that count; others are garbage
    <data>/history/manifest.previous.json                           the manifest before it
    <data>/history/<kind>/node=<node>/day=<YYYY-MM-DD>/<first>-<last>-<generation>.parquet
    <data>/history/items/<generation>.parquet                       every item ever declared, with its versions
    <data>/history-below/<node>-<log id>/...                        the same, for each log of a node below

`node` has `~` in place of `/`. `day` is the UTC day on which the node's CORE appended the rows (frame `node_ns`):
not the day of their source time, which a device's clock may set to anything. `first` and `last` are the lowest and
highest log sequence in the file, `generation` is the manifest's at the writing, so no name is ever used twice.

Integers are signed 64 bit everywhere, because Spark and SQL have no others. No I/O happens here.
Described for other readers in docs/formats/history.md.
"""

import re
from datetime import date, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Final

import msgspec
import pyarrow as pa
from msgspec import Meta

from albireo.codec.crc import crc32c
from albireo.codec.errors import DecodeError
from albireo.model.bounded import ENTRIES_MAX, Count, Name, Number32, Signed, Text
from albireo.model.feature import STORE_FORMAT
from albireo.model.position import EpochEntry, Position

MANIFEST_NAME: Final = "manifest.json"
PREVIOUS_NAME: Final = "manifest.previous.json"
MANIFEST_BYTES_MAX: Final = 64 * 1024 * 1024
"""Largest manifest: some 200,000 files, decades of days. A reader allocates no more."""
NODE_BYTES_MAX: Final = 200
"""Longest name of a node."""
BELOW: Final = "history-below"
"""Folder of the histories of nodes below, beside the one of the node itself."""
_BELOW_NAME: Final = re.compile(r"(?P<node>[a-z][a-z0-9_~\-]*)-(?P<log_id>[0-9a-f]{32})")
DAY_NS: Final = 86_400_000_000_000
NO_ITEM: Final = 0
"""Id that no item has. A gap whose source had no item names it, and a question for rows of no item."""
BUCKET_NS: Final = 60_000_000_000
"""Width of the stored partials' buckets: one minute of source time, counted from 1970-01-01T00:00:00Z."""


class _Column(msgspec.Struct, frozen=True):
    name: str
    type: pa.DataType
    nullable: bool


def _required(name: str, kind: pa.DataType) -> _Column:
    return _Column(name, kind, False)


def _optional(name: str, kind: pa.DataType) -> _Column:
    return _Column(name, kind, True)


def _schema(*columns: _Column) -> pa.Schema:
    schema = pa.schema([(column.name, column.type) for column in columns])
    for index, column in enumerate(columns):
        schema = schema.set(index, schema.field(index).with_nullable(column.nullable))
    return schema


SAMPLES: Final = _schema(
    _required("item_id", pa.int64()),
    _required("source_ns", pa.int64()),
    _required("node_ns", pa.int64()),
    _optional("value_f64", pa.float64()),
    _optional("value_i64", pa.int64()),
    _optional("value_str", pa.string()),
    _required("quality", pa.int64()),
    _required("epoch", pa.int64()),
    _required("sequence", pa.int64()),
)
"""Sorted by item_id, source_ns, sequence. Exactly one value column is not null; a bool is 0 or 1 in value_i64."""

PARTIALS: Final = _schema(
    _required("item_id", pa.int64()),
    _required("bucket_ns", pa.int64()),
    _required("rows", pa.int64()),
    _required("good_rows", pa.int64()),
    _required("first_ns", pa.int64()),
    _optional("first_value", pa.float64()),
    _required("first_quality", pa.int64()),
    _required("last_ns", pa.int64()),
    _optional("last_value", pa.float64()),
    _required("last_quality", pa.int64()),
    _required("integral", pa.float64()),
    _required("good_ns", pa.int64()),
    _required("uncertain_ns", pa.int64()),
    _required("bad_ns", pa.int64()),
    _optional("minimum", pa.float64()),
    _required("minimum_ns", pa.int64()),
    _optional("maximum", pa.float64()),
    _required("maximum_ns", pa.int64()),
    _required("total", pa.float64()),
    _required("sequence_max", pa.int64()),
)
"""One row per item and minute that has rows in the file beside it; sorted by item_id, bucket_ns. Made by the kernels of
`machine/history/aggregate.py`.

`integral` (value x seconds), `good_ns`, `uncertain_ns`, `bad_ns` cover first_ns..last_ns only: the hold from one
bucket's last row to the next one's first (the bridge) belongs to whoever merges. Null float: no such value (minimum and
maximum without a good row, strings); `_ns` is then 0."""

GAPS: Final = _schema(
    _required("source", pa.string()),
    _required("reason", pa.string()),
    _required("from_ns", pa.int64()),
    _required("to_ns", pa.int64()),
    _required("item_ids", pa.list_(pa.int64())),
    _optional("lost", pa.int64()),
    _required("node_ns", pa.int64()),
    _required("epoch", pa.int64()),
    _required("sequence", pa.int64()),
)
"""model.value.Gap, and when CORE appended it. Sorted by sequence. `item_ids` are named as the row is written; NO_ITEM
alone: the source had none. Empty: every item of the node, of the sources `core` and `history`; of another source every
item that was its own at `node_ns`, by ITEMS: its declarations were missing as the row was written (ADR-0188)."""

EVENTS: Final = _schema(
    _required("at_ns", pa.int64()),
    _required("kind", pa.string()),
    _required("action", pa.string()),
    _required("user", pa.string()),
    _required("principal", pa.string()),
    _required("speaker", pa.string()),
    _required("subject", pa.string()),
    _required("detail", pa.string()),
    _optional("case_id", pa.int64()),
    _optional("item_id", pa.int64()),
    _optional("condition", pa.string()),
    _optional("severity", pa.int64()),
    _optional("lifecycle_status", pa.string()),
    _optional("is_active", pa.bool_()),
    _optional("is_acked", pa.bool_()),
    _optional("is_latched", pa.bool_()),
    _optional("shelving", pa.string()),
    _optional("is_suppressed", pa.bool_()),
    _optional("is_out_of_service", pa.bool_()),
    _optional("is_chattering", pa.bool_()),
    _optional("activations", pa.int64()),
    _optional("raised_ns", pa.int64()),
    _optional("value_f64", pa.float64()),
    _optional("value_str", pa.string()),
    _required("node_ns", pa.int64()),
    _required("epoch", pa.int64()),
    _required("sequence", pa.int64()),
)
"""The event journal: one row per record, sorted by sequence.

`kind` is `case` (action = cause of the transition; the case as it stands after it), `audit` (action, user, principal,
speaker, subject, detail of the entry) or `control` (`epoch_granted`, `node_stopped`). The columns from case_id to
value_str are null but for cases. `detail` of a case is the operator's comment, or the node's message where it became
active."""

ITEMS: Final = _schema(
    _required("item_id", pa.int64()),
    _required("node", pa.string()),
    _required("name", pa.string()),
    _required("value_type", pa.int64()),
    _required("unit", pa.string()),
    _required("description", pa.string()),
    _required("adapter", pa.string()),
    _required("states", pa.string()),
    _optional("stale_ns", pa.int64()),
    _optional("valid_from_ns", pa.int64()),
    _optional("valid_to_ns", pa.int64()),
    _required("sequence", pa.int64()),
)
"""One row per version of an item's declaration; sorted by item_id and valid_from_ns. value_type as in
model.value.ValueType. `states`: words for values, as model.item_states writes them. `stale_ns`: the item's stale time,
which bounds how long a value is held. A version counts from
`valid_from_ns` (null: nobody knows since when) to `valid_to_ns` (null: it still does): node times of the declarations,
or of the forgetting. `sequence` is that of the declaration in the log, 0 if nobody knows it: a sample is of the last
version before it, whatever its times say (codec.item_kinds)."""


class FileKind(StrEnum):
    """Kind of the rows of a file; also the name of its folder."""

    SAMPLES = "samples"
    PARTIALS = "partials"
    GAPS = "gaps"
    EVENTS = "events"
    ITEMS = "items"


SCHEMAS: Final = {
    FileKind.SAMPLES: SAMPLES,
    FileKind.PARTIALS: PARTIALS,
    FileKind.GAPS: GAPS,
    FileKind.EVENTS: EVENTS,
    FileKind.ITEMS: ITEMS,
}


class FileEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One file that counts."""

    kind: FileKind
    path: Text
    """Relative to the history folder, with forward slashes."""
    node: Name
    """Node whose items these are: `root/north`, not the folder's spelling."""
    day: Name
    """UTC day of the append, `YYYY-MM-DD`; empty for items."""
    rows: Count
    min_source_ns: Signed
    """Smallest time in the file: source_ns of samples, first_ns of partials, from_ns of gaps, at_ns of events."""
    max_source_ns: Signed
    """Largest time in the file: source_ns, last_ns, to_ns, at_ns."""
    first_sequence: Count
    last_sequence: Count
    size_bytes: Count
    content_crc: Number32
    """CRC-32C of the file."""
    footer_crc: Number32
    """CRC-32C of what follows the last page: Parquet's footer, which no page checksum covers."""
    level: Count = 0
    """0: sealed from the hot tail; 1, 2: merged from files of the level below; 9: the only file of a closed day."""
    sealed_ns: Signed = 0
    """Node time up to which the log was complete when the newest row of the file was first sealed."""
    log_id: Name = ""
    """Hexadecimal id of the log its sequences count in."""


class Retired(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a merge has replaced; it stays for a while for readers of an older manifest."""

    path: str
    since_ns: int
    """Boot clock at the merge."""


class Hole(msgspec.Struct, frozen=True, kw_only=True):
    """Records that retention took from the log before they were taken into the history.

    The other member of a pair may have them, or the node below whose records they are. They are copied group by group
    (`group_of`), the newest first.
    """

    first_sequence: Count
    last_sequence: Count
    from_ns: Signed
    """Node time of the last record taken before the hole."""
    to_ns: Signed
    """Node time of the first record taken behind the hole."""
    behind: Position
    """Position of the first record taken behind the hole."""
    gap: Text = ""
    """Path of the gaps file that tells readers of the hole: one row, merged with no other. Also the hole's name."""
    upto: Text = ""
    """Oldest group that is copied, like every newer one; empty: none yet."""
    missed: Annotated[tuple[Text, ...], Meta(max_length=ENTRIES_MAX)] = ()
    """Groups that could not be copied, and are tried again."""
    reason: Text = "overflow"
    """Reason of the gap: `let_go` where a node below let go of its records before they were copied into the log."""
    is_settled: bool = False
    """True: whoever was asked lacks these records too, and nobody is asked for them any more."""


def cut_hole(hole: Hole, last_sequence: int) -> Hole:
    """The hole up to a sequence within it, without a gap file: behind it the log went another way."""
    behind = Position(hole.behind.epoch, last_sequence + 1)
    return msgspec.structs.replace(hole, last_sequence=last_sequence, behind=behind, gap="")


class Enclosed(msgspec.Struct, frozen=True, kw_only=True):
    """Place of a history's log in the log of a node above, which holds its records in envelopes."""

    log_id: str
    """Hexadecimal id of the log above."""
    index: int
    """Number of the origin there; 0: not known."""
    upto: Position = Position()
    """Record of the log above up to which the history has taken what is in envelopes."""
    refill_to: Position = Position()
    """Record of the log above up to which envelopes have to be taken again, because a newer manifest was lost."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """List of the files of a stored history, replaced as a whole by a rename."""

    version: int = STORE_FORMAT
    """Format of the store."""
    node: str
    log_id: str = ""
    """Hexadecimal id of the log that is followed; empty before the first contact."""
    generation: int = 0
    """Number of this manifest; grows by one with each."""
    position: Position = Position()
    """Durable position of the follower: every record up to here is in the listed files, or needs no row."""
    history: tuple[EpochEntry, ...] = ()
    """Epoch history of the log, as last heard; tells where a log that lost its end went another way."""
    complete_to_ns: int = 0
    """Node time of the last sealed frame; every record that the node appended up to it is in the files."""
    files: tuple[FileEntry, ...] = ()
    retired: tuple[Retired, ...] = ()
    holes: tuple[Hole, ...] = ()
    cut_off: tuple[FileEntry, ...] = ()
    """Files of rows whose branch of the log was left; they are kept, and part of no answer."""
    filled: int = 0
    """Grows when rows below `position` are added or cut off, or a hole goes; whoever has read files up to there reads
    anew."""
    enclosed: Enclosed | None = None
    """Place in the log above from which records of a node below came; None: it is the history of the node itself."""
    crc: int = 0
    """CRC-32C of this manifest's JSON with crc 0."""

    def of_kind(self, kind: FileKind) -> list[FileEntry]:
        return [entry for entry in self.files if entry.kind == kind]

    def overlapping(self, kind: FileKind, from_ns: int, to_ns: int) -> list[FileEntry]:
        """Files of a kind with rows in `from_ns` (included) .. `to_ns` (not), or around it."""
        entries = self.of_kind(kind)
        return [one for one in entries if one.min_source_ns < to_ns and one.max_source_ns >= from_ns]


_decoder = msgspec.json.Decoder(Manifest)
_CRC_FIELD: Final = re.compile(rb'"crc":\d+')
"""Matches the field alone, because quotes inside of JSON strings are escaped."""


def encode_manifest(manifest: Manifest) -> bytes:
    """JSON with its checksum set."""
    plain = msgspec.json.encode(msgspec.structs.replace(manifest, crc=0))
    return _CRC_FIELD.sub(b'"crc":%d' % crc32c(plain), plain, count=1)


def decode_manifest(buffer: bytes) -> Manifest:
    """The manifest that `buffer` holds.

    Raises:
        DecodeError: too large, no such JSON, another version, a checksum that does not fit, or a path that leads out
            of the history folder.
    """
    if len(buffer) > MANIFEST_BYTES_MAX:
        raise DecodeError(0, f"a manifest of {len(buffer)} bytes, at most {MANIFEST_BYTES_MAX}")
    try:
        manifest = _decoder.decode(buffer)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise DecodeError(0, str(error)) from error
    if manifest.version != STORE_FORMAT:
        raise DecodeError(0, f"manifest version {manifest.version}, this software reads {STORE_FORMAT}")
    # Over the bytes as they stand: fields of the next version, which this one does not know, must not look like damage.
    if crc32c(_CRC_FIELD.sub(b'"crc":0', buffer, count=1)) != manifest.crc:
        raise DecodeError(0, "the manifest's checksum does not fit its content")
    paths = [entry.path for entry in (*manifest.files, *manifest.cut_off)] + [one.path for one in manifest.retired]
    for path in paths + [hole.gap for hole in manifest.holes]:
        if not is_inside(path):
            raise DecodeError(0, f"path {path!r} leads out of the history folder")
    return manifest


def is_inside(path: str) -> bool:
    """True if a relative path stays below the folder it is relative to."""
    return bool(path) and path[0] != "/" and ".." not in path.split("/") and "\0" not in path


def is_node(name: str) -> bool:
    """True if a node may have this name, which becomes that of a folder."""
    return 0 < len(name.encode()) <= NODE_BYTES_MAX and "\0" not in name


def node_folder(node: str) -> str:
    return f"node={node.replace('/', '~')}"


class BelowFolder(msgspec.Struct, frozen=True):
    """Folder of the history of one log of a node below."""

    node: str
    log_id: bytes

    @classmethod
    def of_name(cls, name: str) -> "BelowFolder | None":
        """Inverse of `name`; None: it is none, such as that of a folder that was moved aside."""
        found = _BELOW_NAME.fullmatch(name)
        return found and cls(found["node"].replace("~", "/"), bytes.fromhex(found["log_id"]))

    @property
    def name(self) -> str:
        return f"{self.node.replace('/', '~')}-{self.log_id.hex()}"

    @property
    def path(self) -> str:
        """Relative to the data directory."""
        return f"{BELOW}/{self.name}"


def day_of(wall_ns: int) -> str:
    """UTC day of a wall time, `YYYY-MM-DD`; every signed 64-bit value has one (1677..2262)."""
    return _day_name(wall_ns // DAY_NS)


@lru_cache(maxsize=64)
def _day_name(days: int) -> str:
    return (date(1970, 1, 1) + timedelta(days=days)).isoformat()


def day_start_ns(day: str) -> int:
    return (date.fromisoformat(day) - date(1970, 1, 1)).days * DAY_NS


def file_path(kind: FileKind, node: str, day: str, sequences: tuple[int, int], generation: int) -> str:
    """Path of a partitioned file below the history folder."""
    name = f"{sequences[0]:020d}-{sequences[1]:020d}-{generation:010d}.parquet"
    return f"{kind}/{node_folder(node)}/day={day}/{name}"


def group_of(entry: FileEntry) -> str:
    """Group to which the rows of a file belong; a merge moves no row from one group to another."""
    return f"{entry.day}/{entry.kind}/{entry.node}"


def items_path(generation: int) -> str:
    return f"{FileKind.ITEMS}/{generation:010d}.parquet"


def partials_path(samples_path: str) -> str:
    """Path of the partials of a samples file."""
    return f"{FileKind.PARTIALS}{samples_path.removeprefix(FileKind.SAMPLES)}"
