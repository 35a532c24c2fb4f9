"""Stored messages: what was sealed is read back in the order of the log, whatever was merged, cut or refused."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars
import pytest

from albireo.codec.puts import Extra
from albireo.codec.topic_files import MessageHole, MessageManifest, decode_manifest, encode_manifest
from albireo.log.files import OsFileSystem
from albireo.machine.topics.tables import KeptMessages
from albireo.model.position import EpochEntry, Position
from albireo.node.topics import store as module
from albireo.node.topics.store import MANIFEST, MessagesDamaged, TopicStore
from tests.parts.message_columns import Row, columns, rows_of

NAMES = {one: f"plant.{one}" for one in range(1, 40)}


def sealed(store: TopicStore, rows: list[Row], end: int, floors: dict[int, int] | None = None) -> None:
    none = dict.fromkeys(NAMES, 0)
    history = (EpochEntry(1, 1, 7),)
    position = Position(1, end)
    store.seal(
        [columns(rows)] if rows else [], position, {"topics": b"x"}, NAMES, b"L", history, KeptMessages(floors or none)
    )


def read(store: TopicStore, wanted: dict[int, int], after: int, up_to: int, bytes_max: int = 1 << 20) -> list[Row]:
    """All that is wanted, piece by piece."""
    found: list[Row] = []
    while after < up_to:
        piece = store.read(wanted, after, up_to, bytes_max)
        assert piece.scanned_to > after
        found += [] if piece.messages is None else rows_of(piece.messages)
        after = piece.scanned_to
    return found


def drawn(random_: random.Random, counts: dict[int, int], begin: int, count: int) -> list[Row]:
    rows = []
    for sequence in range(begin + 1, begin + count + 1):
        topic = random_.choice(list(counts))
        counts[topic] += 1
        rows.append((topic, counts[topic], sequence, random_.randbytes(random_.choice((0, 5, 100, 3_000)))))
    return rows


@pytest.mark.parametrize("seed", range(8))
def test_what_is_read_is_what_a_plain_list_has(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random_ = random.Random(seed)
    monkeypatch.setattr("albireo.node.topics.parquet.GROUP_BYTES", random_.choice((2_000, 50_000)))
    monkeypatch.setattr(module, "MERGE_BYTES", random_.choice((400_000, 64 << 20)))
    store, _ = TopicStore.open(tmp_path, "root")
    counts = dict.fromkeys(random_.sample(sorted(NAMES), random_.choice((1, 3, 30))), 0)
    kept: list[Row] = []
    floors = dict.fromkeys(NAMES, 0)
    end = 0
    for _ in range(random_.randint(1, 20)):
        rows = drawn(random_, counts, end, random_.choice((0, 1, 200)))
        end += len(rows) + random_.randint(0, 3)
        for topic in random_.sample(sorted(counts), 1):
            floors[topic] = random_.randint(floors[topic], counts[topic])
        sealed(store, rows, end, floors)
        kept += rows
        while inputs := store.next_merge():
            store.rewrite(inputs, KeptMessages(floors))
        if random_.random() < 0.2:
            store, problem = TopicStore.open(tmp_path, "root")
            assert not problem
        wanted = {topic: random_.randint(floors[topic], counts[topic]) for topic in random_.sample(sorted(counts), 1)}
        wanted |= {topic: floors[topic] for topic in counts if random_.random() < 0.5}
        after = random_.randint(0, end)
        expected = [row for row in kept if row[0] in wanted and row[1] > wanted[row[0]] and row[2] > after]
        assert read(store, wanted, after, end, random_.choice((1, 4_000, 1 << 20))) == expected


def test_keys_headers_times_and_the_manifest_come_back(tmp_path: Path) -> None:
    store, _ = TopicStore.open(tmp_path, "root")
    rows = [(2, 1, 1, b"a"), (1, 1, 2, b"b"), (2, 2, 3, b"c")]
    content = columns(rows, {1: Extra(key=b"k"), 2: Extra(headers={"h": "v"})})
    store.seal([content], Position(1, 3), {"topics": b"x"}, NAMES, b"L" * 16, (), KeptMessages(dict.fromkeys(NAMES, 0)))
    store, _ = TopicStore.open(tmp_path, "root")
    assert (store.manifest.position, store.manifest.tables) == (Position(1, 3), {"topics": b"x"})
    assert store.stored_counts() == {1: 1, 2: 2}
    piece = store.read({1: 0, 2: 0}, 0, 3, 1 << 20)
    assert piece.messages is not None and piece.messages.at_ns.tolist() == [0, 1, 2]
    assert dict(piece.messages.extras) == {1: Extra(key=b"k"), 2: Extra(headers={"h": "v"})}


def test_a_file_of_which_nobody_wants_anything_is_gone(tmp_path: Path) -> None:
    store, _ = TopicStore.open(tmp_path, "root")
    sealed(store, [(1, 1, 1, b"a"), (2, 1, 2, b"b")], 2)
    sealed(store, [(1, 2, 3, b"c")], 3, {1: 1, 2: 0})
    assert len(list(tmp_path.glob("topics/*.parquet"))) == 2
    sealed(store, [], 4, {1: 1})
    assert read(store, {1: 1}, 0, 4) == [(1, 2, 3, b"c")], "topic 2 is gone, and topic 1 is done up to 1"
    assert len(list(tmp_path.glob("topics/*.parquet"))) == 1


def test_a_log_that_went_another_way_takes_its_messages_back(tmp_path: Path) -> None:
    store, _ = TopicStore.open(tmp_path, "root")
    for end in (2, 4, 6):
        sealed(store, [(1, end - 1, end - 1, b"a"), (1, end, end, b"b")], end)
    store.cut(Position(1, 3), ())
    assert read(store, {1: 0}, 0, 9) == [(1, 1, 1, b"a"), (1, 2, 2, b"b"), (1, 3, 3, b"a")]
    assert (store.manifest.position, store.manifest.tables) == (Position(1, 3), {})


class Refusing(OsFileSystem):
    """A disk that refuses its n-th change."""

    def __init__(self, number: int) -> None:
        self.left = number

    def _count(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise OSError(28, "no space left on device")

    def pwritev(self, *arguments: Any) -> int:
        self._count()
        return super().pwritev(*arguments)

    def sync(self, *arguments: Any) -> None:
        self._count()
        super().sync(*arguments)

    def rename(self, *arguments: Any) -> None:
        self._count()
        super().rename(*arguments)


@pytest.mark.parametrize("number", range(1, 7))
def test_a_disk_that_refuses_leaves_the_old_state_or_the_new_one(tmp_path: Path, number: int) -> None:
    store, _ = TopicStore.open(tmp_path, "root")
    sealed(store, [(1, 1, 1, b"a")], 1)
    refusing, _ = TopicStore.open(tmp_path, "root", Refusing(number))
    with pytest.raises(OSError, match="no space"):
        sealed(refusing, [(1, 2, 2, b"b")], 2)
    assert refusing.manifest.position == Position(1, 1)
    again, problem = TopicStore.open(tmp_path, "root")
    assert not problem and read(again, {1: 0}, 0, 2) == [(1, 1, 1, b"a")]
    sealed(again, [(1, 2, 2, b"b")], 2)
    assert read(again, {1: 0}, 0, 2) == [(1, 1, 1, b"a"), (1, 2, 2, b"b")]


def _cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def _flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for place in range(8, len(data) // 2):
        data[place] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [_cut_off, _flipped, Path.unlink])
def test_a_damaged_file_is_told_and_never_read_as_messages(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    store, _ = TopicStore.open(tmp_path, "root")
    sealed(store, [(1, 1, 1, b"a" * 1_000)], 1)
    (path,) = tmp_path.glob("topics/*.parquet")
    damage(path)
    with pytest.raises(MessagesDamaged):
        TopicStore.open(tmp_path, "root")[0].read({1: 0}, 0, 1, 1 << 20)


def test_a_damaged_manifest_is_moved_aside_with_its_files(tmp_path: Path) -> None:
    store, _ = TopicStore.open(tmp_path, "root")
    sealed(store, [(1, 1, 1, b"a")], 1)
    manifest = tmp_path / module.FOLDER / MANIFEST
    manifest.write_bytes(manifest.read_bytes()[:-1])
    store, problem = TopicStore.open(tmp_path, "root")
    assert problem and store.manifest == MessageManifest(node="root")
    assert len(list(tmp_path.glob("topics.damaged-1/*.parquet"))) == 1
    assert decode_manifest(encode_manifest(store.manifest)) == store.manifest


def test_other_tools_read_messages_by_the_name_of_their_topic(tmp_path: Path) -> None:
    store, _ = TopicStore.open(tmp_path, "root")
    sealed(store, [(1, 1, 1, b"a"), (2, 1, 2, b"b"), (1, 2, 3, b"c")], 3)
    files = str(tmp_path / "topics" / "*.parquet")
    asked = f"SELECT number, body FROM '{files}' WHERE topic = 'plant.1' ORDER BY sequence"
    assert duckdb.sql(asked).fetchall() == [(1, b"a"), (2, b"c")]
    frame = polars.read_parquet(files).filter(polars.col("topic") == "plant.1").sort("sequence")
    assert frame["body"].to_list() == [b"a", b"c"]


def test_a_damaged_file_is_a_hole_until_its_messages_are_there_again(tmp_path: Path) -> None:
    store, _ = TopicStore.open(tmp_path, "root")
    rows: list[Row] = [(1 + number % 2, 1 + number // 2, 1 + number, b"%d" % number) for number in range(30)]
    for begin in (0, 10, 20):
        sealed(store, rows[begin : begin + 10], begin + 10)
    damaged = store.manifest.files[1]
    _cut_off(store.root / damaged.name)
    wanted = {1: 0, 2: 0}
    with pytest.raises(MessagesDamaged) as told:
        read(store, wanted, 0, 30)
    assert told.value.name == damaged.name
    store.give_up(damaged.name, is_alone=False)
    hole = MessageHole(11, 20, damaged.lasts)
    assert (tmp_path / f"topics.damaged-{damaged.name}").exists() and store.manifest.holes == (hole,)
    assert store.read({1: 5, 2: 5}, 5, 30, 1 << 20).hole == hole
    assert read(store, {1: 10, 2: 10}, 0, 30) == rows[20:], "nothing in the hole is wanted"
    assert store.stored_counts() == {1: 15, 2: 15}
    kept = KeptMessages({1: 0, 2: 0})
    store.fill([columns(rows[10:13])], NAMES, kept, hole, 13)
    (left,) = store.manifest.holes
    assert (left.first_sequence, left.last_sequence) == (14, 20)
    store.fill([columns(rows[10:13])], NAMES, kept, hole, 13)
    assert store.manifest.holes == (left,), "that hole is no more"
    reopened, _ = TopicStore.open(tmp_path, "root")
    reopened.fill([columns(rows[13:20])], NAMES, kept, left, 20)
    assert not reopened.manifest.holes and read(reopened, wanted, 0, 30) == rows


def test_messages_that_are_all_alike_are_merged_by_their_size_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MERGE_BYTES", 10 << 20)
    store, _ = TopicStore.open(tmp_path, "root")
    merged = []
    for number in range(1, 101):
        sealed(store, [(1, number, number, bytes(1 << 20))], number)
        while inputs := store.next_merge():
            merged.append(len(inputs))
            store.rewrite(inputs, KeptMessages({1: 0}))
    assert merged == [10] * 10 and sum(one.size_bytes for one in store.manifest.files) < 1 << 20
    assert [one.plain_bytes >> 20 for one in store.manifest.files] == [10] * 10


def test_a_small_file_is_not_merged_into_a_large_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MERGE_FILES", 2)
    store, _ = TopicStore.open(tmp_path, "root")
    for number, mib in enumerate((6, 1, 6, 1), 1):
        sealed(store, [(1, number, number, bytes(mib << 20))], number)
    assert store.next_merge() == ()
    sealed(store, [(1, 5, 5, b"")], 5)
    assert [one.first_sequence for one in store.next_merge()] == [4, 5]


def test_files_on_both_sides_of_a_hole_are_not_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MERGE_FILES", 2)
    store, _ = TopicStore.open(tmp_path, "root")
    for number in range(3):
        sealed(store, [(1, number + 1, number + 1, b"")], number + 1)
    store.give_up(store.manifest.files[1].name, is_alone=False)
    assert store.next_merge() == ()
    (hole,) = store.manifest.holes
    store.fill([], NAMES, KeptMessages({1: 0}), hole, hole.last_sequence)
    assert len(store.next_merge()) == 2


def test_what_a_log_does_not_reach_is_a_hole_before_and_after_it_is_listed(tmp_path: Path) -> None:
    store, _ = TopicStore.open(tmp_path, "root")
    store.lacks_to(Position(1, 10), {1: 8})
    hole = MessageHole(1, 10, {1: 8})
    assert store.read({1: 3}, 0, 10, 1).hole == hole and not store.manifest.holes
    sealed(store, [(1, 9, 11, b"x")], 11)
    assert store.manifest.holes == (hole,) and store.manifest.files[0].first_sequence == 11
    assert store.read({1: 3}, 0, 11, 1).hole == hole
    store.cut(Position(1, 4), ())
    assert store.manifest.holes == (MessageHole(1, 4, {1: 8}),)
