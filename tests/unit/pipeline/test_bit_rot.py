"""A flipped bit anywhere in any file of a history is named by the pipeline, and by the historian, before it is used."""

import random
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from albireo.codec.history import FileEntry, FileKind, Manifest, encode_manifest
from albireo.codec.record import Audited, GapFound, ItemDeclared, Stream
from albireo.model.instant import SECOND
from albireo.model.item import DataItem
from albireo.model.value import ItemId, ValueType
from albireo.node.history.errors import HistoryDamaged
from albireo.node.history.files import parquet
from albireo.node.history.files.intact import WHOLE_BYTES_MAX
from albireo.node.history.files.store import HistoryStore
from albireo.node.history.sql import Database
from albireo.pipeline.errors import SourceDamaged
from albireo.pipeline.source import check, frame, named_failures, open_history, read_manifest
from tests.parts.history import DAY_ZERO, LOG_ID, MemoryLog, fill, hot_of

FLIPS = 200


def some_history(tmp_path: Path, rows: int = 3_000) -> HistoryStore:
    log, chance = MemoryLog(), random.Random(7)
    items = [DataItem(name=f"i_{one}", value_type=ValueType.FLOAT64, adapter="p1") for one in range(1, 9)]
    log.records(
        Stream.STATE,
        [ItemDeclared(item_id=ItemId(place), node="root", item=one) for place, one in enumerate(items, 1)],
        DAY_ZERO,
    )
    for block in range(3):
        at = DAY_ZERO + block * rows * SECOND
        log.samples([(1 + one % 8, at + one * SECOND, chance.random(), 0) for one in range(rows)], at + rows * SECOND)
        gap = GapFound(source="p1", reason="device_lost", from_ns=at, to_ns=at + SECOND)
        log.records(Stream.SAMPLES, [gap], at + rows * SECOND)
        log.records(Stream.AUDIT, [Audited(at_ns=at, user="u", action="a", subject=str(block))], at + rows * SECOND)
    store, _ = HistoryStore.open(tmp_path, "root")
    hot = hot_of(store)
    fill(hot, log)
    store.seal(hot.content(), LOG_ID.hex(), DAY_ZERO)
    return store


def flipped(source: Path, target: Path, byte: int, bit: int) -> None:
    content = bytearray(source.read_bytes())
    content[byte] ^= 1 << bit
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)


@pytest.mark.parametrize("kind", list(FileKind))
def test_every_flipped_bit_is_named(tmp_path: Path, kind: FileKind) -> None:
    """Pages, their headers, and the footer: 200 of 200 by the historian, and as many by the pipeline."""
    store = some_history(tmp_path / "node")
    entry = store.manifest.of_kind(kind)[0]
    whole, chance = store.root / entry.path, random.Random(11)
    named = 0
    for number in range(FLIPS):
        root = tmp_path / f"copy{number}"
        flipped(whole, root / entry.path, chance.randrange(entry.size_bytes), chance.randrange(8))
        (root / "manifest.json").write_bytes(encode_manifest(Manifest(node="root", generation=1, files=(entry,))))
        with pytest.raises(HistoryDamaged) as by_historian:
            parquet.read(root, [entry], pq.read_schema(whole).names)
        with pytest.raises(SourceDamaged) as by_pipeline:
            check(open_history(root, read_manifest(root)), [entry])
        named += by_historian.value.path == entry.path and by_pipeline.value.path == root / entry.path
        shutil.rmtree(root)
    assert named == FLIPS


def test_sql_names_a_flipped_bit_too(tmp_path: Path) -> None:
    store = some_history(tmp_path)
    (entry,) = store.manifest.of_kind(FileKind.SAMPLES)
    flipped(store.root / entry.path, store.root / entry.path, entry.size_bytes // 2, 3)
    with Database(store.root) as database:
        assert database.rows("SELECT count(*) AS n FROM gaps").to_pydict() == {"n": [3]}
        with pytest.raises(HistoryDamaged, match="samples"):
            database.rows("SELECT sum(value_f64) FROM Samples")


def large_file(tmp_path: Path) -> tuple[Path, FileEntry]:
    """A file that is too large to be checked whole by each question."""
    store = some_history(tmp_path / "node", rows=130_000)
    entry = store.manifest.of_kind(FileKind.SAMPLES)[0]
    assert entry.size_bytes > WHOLE_BYTES_MAX
    return store.root, entry


def test_a_large_file_is_checked_by_its_footer_and_its_pages(tmp_path: Path) -> None:
    """A flip in a footer or a page is named; one in a page header is, or changes nothing."""
    root, entry = large_file(tmp_path)
    names = pq.read_schema(root / entry.path).names
    right = parquet.read(root, [entry], names)
    footer = int.from_bytes((root / entry.path).read_bytes()[-8:-4], "little") + 8
    chance, named, of_footer = random.Random(13), 0, 0
    for number in range(40):
        is_footer = number % 2 == 0
        low, high = (entry.size_bytes - footer, entry.size_bytes) if is_footer else (4, entry.size_bytes - footer)
        copy = tmp_path / f"copy{number}"
        flipped(root / entry.path, copy / entry.path, chance.randrange(low, high), chance.randrange(8))
        try:
            assert parquet.read(copy, [entry], names).equals(right)
        except HistoryDamaged as error:
            assert error.path == entry.path
            named += 1
            of_footer += is_footer
        shutil.rmtree(copy)
    assert of_footer == 20
    assert named >= 38, "page headers are a thousandth of a file"


@pytest.mark.spark
@pytest.mark.slow
def test_spark_looks_at_page_checksums(spark: SparkSession, tmp_path: Path) -> None:
    """Of a file that rots after it was checked: the reader of columns honours the option, value by value."""
    store = some_history(tmp_path)
    (entry,) = store.manifest.of_kind(FileKind.SAMPLES)
    history = open_history(store.root, store.manifest)
    right = frame(spark, history, FileKind.SAMPLES).selectExpr("sum(value_f64)").collect()
    meta = pq.read_metadata(store.root / entry.path).row_group(0).column(3)
    begin = min(one for one in (meta.data_page_offset, meta.dictionary_page_offset) if one is not None)
    place = begin + meta.total_compressed_size // 2
    assert meta.path_in_schema == "value_f64"
    flipped(store.root / entry.path, store.root / entry.path, place, 2)
    with pytest.raises(SourceDamaged) as caught, named_failures(history, tmp_path / "spark.log"):
        frame(spark, history, FileKind.SAMPLES).selectExpr("sum(value_f64)").collect()
    assert caught.value.path == store.root / entry.path
    unchecked = spark.read.parquet(str(store.root / entry.path)).selectExpr("sum(value_f64)")
    assert unchecked.collect() != right, "without the option another sum comes out, and nothing is said"
