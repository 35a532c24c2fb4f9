"""The stored history as DataFrames, by its manifest and by nothing else.

A file that the manifest does not list does not exist; one that it lists and that is not there, or has another size, is
an error that names it before Spark starts to work. Offsets are positions: a file whose `last_sequence` is not above a
watermark holds nothing new.
"""

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from albireo.codec import history as stored
from albireo.codec.crc import crc32c
from albireo.codec.errors import DecodeError
from albireo.codec.history import FileEntry, FileKind, Manifest
from albireo.pipeline.config import LOG_BYTES_MAX, MEMORY_VARIABLE
from albireo.pipeline.errors import OutputUnusable, SourceDamaged, SourceMissing, SparkFailed, foreign_text

_NAMED_FILE: Final = re.compile(r"file:/+(?P<path>[^\s,'\"]+?\.parquet)")
"""Pattern by which Spark's errors name the file that a task could not read."""
_VERIFY_PAGES: Final = "parquet.page.verify-checksum.enabled"
_READ_BYTES: Final = 1 << 20
RESTORE: Final = "restore it from a backup, or move it away and start the node, which rebuilds what its log still holds"
_OUT_OF_MEMORY: Final = b"java.lang.OutOfMemoryError"
_MORE_MEMORY: Final = f"give it more with {MEMORY_VARIABLE}, such as 2g (docs/pipeline.md); see {{log}}"


class HistoryFolder(msgspec.Struct, frozen=True, kw_only=True):
    """History folder as its manifest stood when it was opened."""

    directory: Path
    manifest: Manifest
    intact: set[str] = msgspec.field(default_factory=set)
    """Paths of the files whose checksum was looked at."""
    pins: Path | None = None
    """Folder in which the files are that a run reads, under the same paths (pipeline.pins)."""

    def entries(self, kind: FileKind) -> list[FileEntry]:
        return self.manifest.of_kind(kind)

    def path(self, entry: FileEntry) -> Path:
        return (self.pins or self.directory) / entry.path

    def original(self, entry: FileEntry) -> Path:
        """Path by which people know the file, pinned or not."""
        return self.directory / entry.path


def read_manifest(directory: Path) -> Manifest:
    """The manifest of the history in `directory`.

    Raises:
        SourceMissing: there is none.
        SourceDamaged: it can't be read.
    """
    path = directory / stored.MANIFEST_NAME
    try:
        return stored.decode_manifest(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise SourceMissing(
            path, "there is no history here", "run a node on this data directory first, or name another with --data"
        ) from error
    except OSError as error:
        raise SourceDamaged(path, f"can't be read ({error.strerror})", "check the disk and the permissions") from error
    except DecodeError as error:
        raise SourceDamaged(
            path,
            f"the manifest can't be read ({error.reason})",
            f"a start of the node repairs it from {stored.PREVIOUS_NAME}; then run the pipeline again",
        ) from error


def open_history(directory: Path, manifest: Manifest) -> HistoryFolder:
    """The history in `directory`, each listed file looked at (size only).

    Raises:
        SourceMissing: a listed file is not there.
        SourceDamaged: a file has another size than listed.
    """
    history = HistoryFolder(directory=directory, manifest=manifest)
    for entry in manifest.files:
        _check(history.path(entry), entry)
    return history


def frame(
    spark: SparkSession, history: HistoryFolder, kind: FileKind, entries: Sequence[FileEntry] | None = None
) -> DataFrame:
    """Rows of the files of one kind, with the kind's columns.

    Args:
        entries: the files to read; all of the kind by default. None at all gives a frame without rows.

    Raises:
        SourceDamaged: a file is not as it was written.
    """
    chosen = history.entries(kind) if entries is None else entries
    schema = from_arrow_schema(stored.SCHEMAS[kind])
    check(history, chosen)
    paths = [literal(history.path(entry)) for entry in chosen if entry.rows]
    if not paths:
        return local_frame(spark, schema)
    return spark.read.schema(schema).option(_VERIFY_PAGES, "true").parquet(*paths)


def local_frame(spark: SparkSession, schema: StructType, rows: Sequence[Sequence[object]] = ()) -> DataFrame:
    """A frame of few rows that are here already.

    They go to Java as columns. A list, even an empty one, goes through processes of Python that Spark starts for it.
    """
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrow = to_arrow_schema(schema, timezone="UTC")
    arrays = [pa.array(column, field.type) for column, field in zip(columns, arrow, strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=arrow), schema)


def items_of(history: HistoryFolder) -> pa.Table:
    """All versions of all items: few enough to be read without Spark.

    Raises:
        SourceDamaged: a file is not as it was written.
    """
    entries = history.entries(FileKind.ITEMS)
    check(history, entries)
    found = [stored.ITEMS.empty_table()]
    for entry in entries:
        with named_damage(history, entry):
            found.append(pq.read_table(history.path(entry), schema=stored.ITEMS))
    return pa.concat_tables(found)


@contextlib.contextmanager
def named_damage(history: HistoryFolder, entry: FileEntry) -> Iterator[None]:
    """Turns what pyarrow raises inside the block into an error that names the file and the remedy."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise SourceDamaged(history.original(entry), f"can't be read ({error})", RESTORE) from error


def check(history: HistoryFolder, entries: Sequence[FileEntry]) -> None:
    """Compare files with their checksums in the manifest, each once.

    A page checksum, which Spark looks at when it is told to, covers no footer and no page header.

    Raises:
        SourceDamaged: a file is not as it was written.
    """
    for entry in entries:
        if entry.path in history.intact:
            continue
        path, crc = history.path(entry), 0
        try:
            with path.open("rb") as file:
                while data := file.read(_READ_BYTES):
                    crc = crc32c(data, crc)
        except OSError as error:
            raise SourceDamaged(history.original(entry), f"can't be read ({error.strerror})", RESTORE) from error
        if crc != entry.content_crc:
            raise SourceDamaged(history.original(entry), "its bytes are not those that were written", RESTORE)
        history.intact.add(entry.path)


def literal(path: Path) -> str:
    """A path as Spark must be told it: brackets and stars in it are no pattern."""
    return re.sub(r"([\\\[\]{}*?])", r"\\\1", str(path))


@contextlib.contextmanager
def named_failures(history: HistoryFolder, log: Path) -> Iterator[None]:
    """Turns what Spark raises inside the block into an error that names the file and the remedy.

    Raises:
        HistoryDamaged: a task could not read a file of the history.
        OutputUnusable: a task could not write.
        SparkFailed: Spark had too little memory, or anything else.
    """
    begins = log.stat().st_size if log.exists() else 0
    try:
        yield
    except (PySparkException, *_py4j_errors()) as error:
        # A JVM without memory ends before it has told us why.
        if _OUT_OF_MEMORY in _written_since(begins, log):
            raise SparkFailed("Spark ran out of memory", _MORE_MEMORY.format(log=log)) from error
        raise _named(error, history, log) from error


def _written_since(begins: int, log: Path) -> bytes:
    try:
        with log.open("rb") as written:
            written.seek(begins)
            return written.read(LOG_BYTES_MAX)
    except OSError:
        return b""


def _py4j_errors() -> tuple[type[Exception], ...]:
    from py4j.protocol import Py4JError

    return (Py4JError, ConnectionError)


def _named(error: Exception, history: HistoryFolder, log: Path) -> SourceDamaged | OutputUnusable | SparkFailed:
    text = str(error)
    found = _NAMED_FILE.search(text)
    path = Path("/" + found["path"].lstrip("/")) if found else None
    root = (history.pins or history.directory).absolute()
    if path is not None and path.is_relative_to(root):
        return SourceDamaged(
            history.directory.absolute() / path.relative_to(root),
            "the file can't be read as Parquet of its kind",
            RESTORE,
        )
    if "No space left on device" in text:
        return OutputUnusable("no space left for the tables", "make room or name another directory with --out")
    return SparkFailed(f"a Spark job failed: {foreign_text(error)}", f"see {log}")


def _check(path: Path, entry: FileEntry) -> None:
    try:
        size_bytes = path.stat().st_size
    except FileNotFoundError as error:
        raise SourceMissing(
            path,
            "listed in the manifest but not there",
            "restore it from a backup, or run the pipeline again if a node was merging files meanwhile",
        ) from error
    if size_bytes != entry.size_bytes:
        raise SourceDamaged(
            path, f"has {size_bytes} bytes, the manifest says {entry.size_bytes}", "restore it from a backup"
        )
