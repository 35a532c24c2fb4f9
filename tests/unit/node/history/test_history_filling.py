"""What a site let go of comes from its own history, each row once, with its names; and nothing of anybody else."""

import itertools
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from albireo.codec.history import FileKind, Hole
from albireo.codec.history_copy import GroupSent, PieceAsked, PieceSent, Word
from albireo.codec.record import GapFound, OriginGap, Stream
from albireo.codec.tree.stored import PIECE_BYTES
from albireo.machine.history.copy_events import EndHole, TakeFile
from albireo.machine.history.copy_pace import FROM_BELOW
from albireo.model.instant import SECOND, Instant
from albireo.model.position import Position
from albireo.node.history.files.store import HistoryStore
from albireo.node.history.query import StoredHistory, TimeRange
from albireo.pipeline.plan import mark_of, news
from tests.parts.history import DAY_ZERO, LOG_ID, MemoryLog, fill, hot_of, listed_files_are_there
from tests.parts.history_copy import Copy, Piece, all_rows, merge_once, partial_sums, source_of
from tests.parts.history_filling import (
    NORTH,
    above_of,
    begins_epoch,
    declares,
    filling,
    opened_above,
    seal,
    site_log,
)

EVER = TimeRange(-(2**61), 2**61)


def is_whole(data: Path, source: HistoryStore) -> bool:
    """The history above has what the site's own has, without a gap."""
    store = opened_above(data).store
    assert store.manifest.holes == ()
    listed_files_are_there(store.root, store.manifest)
    assert all_rows(store) == all_rows(source)
    assert partial_sums(store) == partial_sums(source)
    return True


def versions(store: HistoryStore) -> list[tuple[object, ...]]:
    return [
        (row["item_id"], row["name"], row["unit"], row["valid_from_ns"], row["valid_to_ns"])
        for row in store.declared.rows()
    ]


def test_each_row_comes_once_and_the_gap_goes(tmp_path: Path) -> None:
    """An epoch lies within the hole, unseen above; the files of the site reach over both of its ends."""
    log, first, last = site_log()
    source = source_of(tmp_path / "site", log, seal_every=10**6, node=NORTH)
    above = above_of(tmp_path / "above", log, first, last)
    (hole,) = above.store.manifest.holes
    assert (hole.first_sequence, hole.last_sequence, hole.reason) == (first, last, "let_go")
    spans = [(one.first_sequence, one.last_sequence) for one in source.manifest.files if one.kind is FileKind.SAMPLES]
    assert all(any(low <= edge < high for low, high in spans) for edge in (first - 1, last))
    before = mark_of(above.store.manifest)
    copy = filling(source, above)
    assert copy.run()
    assert copy.refused == {}
    assert is_whole(tmp_path / "above", source)
    come = [one for new in news(above.store.manifest, before) for one in new.sequences]
    assert set(come) == {(first, last)}, "the pipeline looks at what came late, and at no more"
    assert not filling(source, opened_above(tmp_path / "above")).asked


def test_rows_have_the_names_of_their_time(tmp_path: Path) -> None:
    """Of an item that was declared anew within the hole, and of one that came and was forgotten there."""
    log, first, last = site_log()
    source = source_of(tmp_path / "site", log, seal_every=3, node=NORTH)
    above = above_of(tmp_path / "above", log, first, last)
    assert {row[1] for row in versions(above.store)} == {"level"}
    assert filling(source, above).run()
    assert versions(above.store) == versions(source)
    assert versions(opened_above(tmp_path / "above").store) == versions(source), "a restart knows them too"
    found = StoredHistory(above.store.root, above.store.manifest)
    assert found.item("level.old")["item_id"] == 2


def test_items_end_as_they_ended_behind_the_hole(tmp_path: Path) -> None:
    log, first, last = site_log()
    at = log.frames[-1].header.node_ns + SECOND
    source = source_of(tmp_path / "site", log, node=NORTH)
    above = above_of(tmp_path / "above", log, first, last)
    declares(log, 1, "level", at, unit="km")
    declares(log, 3, "new", at)
    for one in log.frames[-2:]:
        above.take(one.header, one.body)
    seal(above)
    assert filling(source, above).run(), "the site's files do not have the newest declarations yet"
    whole = source_of(tmp_path / "whole", log, node=NORTH)
    assert versions(above.store) == versions(whole)


def test_rows_of_an_epoch_that_can_not_lie_within_the_hole_stay_out(tmp_path: Path) -> None:
    """A site that went another way meanwhile has other records there; they come by its log."""
    log, first, last = site_log()
    above = above_of(tmp_path / "above", log, first, last)
    other = MemoryLog()
    other.frames = [one for one in log.frames if one.header.last_sequence < first]
    other.end, other.epoch = first - 1, 9
    while other.end <= last + 50:
        other.samples([(1, DAY_ZERO, -1.0, 0)], DAY_ZERO)
    source = source_of(tmp_path / "site", other, node=NORTH)
    here = all_rows(above.store)
    assert filling(source, above).run()
    assert all_rows(above.store)[FileKind.SAMPLES] == here[FileKind.SAMPLES]


def test_what_the_site_lacks_for_good_stays_a_gap(tmp_path: Path) -> None:
    log, first, last = site_log()
    starts = [one.header.first_sequence for one in log.frames if first < one.header.first_sequence < last]
    low, high = starts[4], starts[12]
    source = site_without(tmp_path / "site", log, low, high)
    above = above_of(tmp_path / "above", log, first, last)
    assert filling(source, above).run()
    (left,) = above.store.manifest.holes
    assert (left.first_sequence, left.last_sequence) == (low, high - 1)
    assert (left.is_settled, left.reason) == (True, "let_go")
    (gap,) = list(StoredHistory(above.store.root, above.store.manifest).gaps(EVER))
    assert (gap["reason"], gap["sequence"]) == ("let_go", high)
    assert not filling(source, opened_above(tmp_path / "above")).asked, "nobody is asked for it any more"


def site_without(data: Path, log: MemoryLog, low: int, high: int) -> HistoryStore:
    """The site's own history, which lacks what lies from `low` to `high`."""
    store, _ = HistoryStore.open(data, NORTH)
    hot = hot_of(store)
    fill(hot, log, low - 1)
    header = next(one.header for one in log.frames if one.header.first_sequence == high)
    hot.lost(high - 1, header)
    for one in log.frames:
        if one.header.first_sequence >= high:
            hot.take(one.header, one.body)
    store.seal(hot.content(), LOG_ID.hex(), DAY_ZERO)
    return store


def test_what_the_site_lacks_for_now_comes_once_it_is_there(tmp_path: Path) -> None:
    """The rest comes at once, and nothing twice: also what the site gets while its other rows are copied."""
    log, first, last = site_log()
    starts = [one.header.first_sequence for one in log.frames if first < one.header.first_sequence < last]
    low, high = starts[4], starts[12]
    source = site_without(tmp_path / "site", log, low, high)
    mate = source_of(tmp_path / "mate", log, node=NORTH)
    above = above_of(tmp_path / "above", log, first, last)
    copy = filling(source, above, is_final=False)
    assert not copy.run(within_ns=3600 * SECOND)
    (left,) = above.store.manifest.holes
    assert (left.first_sequence, left.last_sequence, left.is_settled) == (low, high - 1, False)
    asked = len(copy.asked)
    assert not copy.run(within_ns=3600 * SECOND)
    assert len(copy.asked) - asked < 10, "a question each ten minutes, and no file"
    assert not any(isinstance(one, PieceAsked) for one in copy.asked[asked:])
    assert Copy(mate, source).run()
    assert copy.run()
    assert is_whole(tmp_path / "above", mate)


def test_a_fork_cuts_the_hole_and_nothing_of_the_branch_that_was_left_comes_back(tmp_path: Path) -> None:
    """The site's store is restored while its rows are copied: what it has behind the fork comes by its log."""
    log, first, last = site_log()
    source = source_of(tmp_path / "site", log, seal_every=10**6, node=NORTH)
    fork = [one.header.last_sequence for one in log.frames if first < one.header.last_sequence < last][6]
    above = above_of(tmp_path / "above", log, first, last)
    copy = filling(source, above)

    def forked(effect: object) -> None:
        if isinstance(effect, TakeFile) and fork not in above.hot._forks and above.hot.position.sequence > fork:
            above.fork(Position(2, fork))
            seal(above)

    copy.after = forked
    assert copy.run()
    store = opened_above(tmp_path / "above").store
    assert store.manifest.holes == ()
    for rows in all_rows(store).values():
        assert all(int(str(row[-1])) <= fork for row in rows if "log_forked" not in row)
    living = [row for row in all_rows(source)[FileKind.SAMPLES] if int(str(row[-1])) <= fork]
    assert all_rows(store)[FileKind.SAMPLES] == living


@pytest.mark.parametrize("is_sealed", [True, False])
def test_a_hole_behind_a_fork_is_gone(tmp_path: Path, is_sealed: bool) -> None:
    log, first, last = site_log()
    above = above_of(tmp_path / "above", log, first, last)
    if not is_sealed:
        above.hot.lack(Hole(first_sequence=900, last_sequence=990, from_ns=1, to_ns=2, behind=Position(3, 991)))
    above.fork(Position(1, first - 1))
    seal(above)
    assert above.store.manifest.holes == ()
    assert list(StoredHistory(above.store.root, above.store.manifest).gaps(EVER)) == []


def test_a_hole_that_a_seal_writes_during_a_fork_is_cut_by_the_next(tmp_path: Path) -> None:
    log, first, last = site_log()
    above = above_of(tmp_path / "above", log, first, last)
    at = above.hot.position.sequence
    above.hot.lack(Hole(first_sequence=at + 1, last_sequence=at + 90, from_ns=1, to_ns=2, behind=Position(3, at + 91)))
    one = above.seal(Position(1, at))
    above.hot.position = Position(3, at + 91)
    above.fork(Position(3, at + 10))
    one.write(DAY_ZERO)
    above.hot.drop(one.content)
    seal(above)
    spans = [(hole.first_sequence, hole.last_sequence) for hole in above.store.manifest.holes]
    assert spans == [(first, last), (at + 1, at + 10)]


def test_what_was_missed_here_and_what_the_site_let_go_do_not_overlap(tmp_path: Path) -> None:
    """Envelopes went with the own log, and behind them the site let go of records: each is missing once."""
    log, first, last = site_log()
    above = opened_above(tmp_path / "above")
    above.may_lack = True
    behind = [one for one in log.frames if one.header.first_sequence > last]
    header = behind[0].header
    place = {"epoch": header.epoch, "sequence": header.first_sequence}
    for _ in range(2):
        above.let_go(OriginGap(index=1, first=first, from_ns=DAY_ZERO, to_ns=header.node_ns, **place))
        above.may_lack = True
    for one in behind:
        above.take(one.header, one.body)
    seal(above)
    spans = [(hole.first_sequence, hole.last_sequence) for hole in above.store.manifest.holes]
    assert spans == [(1, first - 1), (first, last)]
    source = source_of(tmp_path / "site", log, node=NORTH)
    assert filling(source, above).run()
    assert is_whole(tmp_path / "above", source)


@pytest.mark.parametrize("merges", [False, True])
def test_a_site_that_merges_its_files_gives_each_row_once(tmp_path: Path, merges: bool) -> None:
    log, first, last = site_log()
    source = source_of(tmp_path / "site", log, seal_every=1, node=NORTH)
    above = above_of(tmp_path / "above", log, first, last)
    copy = filling(source, above)
    copy.after = lambda effect: merges and merge_once(source, 2**62) and merge_once(above.store, 2**62)
    assert copy.run()
    assert is_whole(tmp_path / "above", source)


def lying(change: Callable[[GroupSent], GroupSent]) -> Callable[[Word, Piece], tuple[Word, Piece]]:
    """A site that says something else of its files."""
    return lambda word, piece: (change(word) if isinstance(word, GroupSent) and word.group else word, piece)


def entries(**fields: Any) -> Callable[[GroupSent], GroupSent]:
    def change(sent: GroupSent) -> GroupSent:
        return msgspec.structs.replace(
            sent, entries=tuple(msgspec.structs.replace(one, **fields) for one in sent.entries)
        )

    return change


LIES = {
    "other_node": entries(node="root/south"),
    "other_log": entries(log_id="00" * 16),
    "file_twice": lambda sent: msgspec.structs.replace(sent, entries=(*sent.entries, *sent.entries)),
    "wrong_holes": lambda sent: msgspec.structs.replace(
        sent, holes=(Hole(first_sequence=900, last_sequence=901, from_ns=0, to_ns=0, behind=Position(1, 902)),)
    ),
}


@pytest.mark.parametrize("reason", LIES)
def test_files_of_others_are_refused_by_name(tmp_path: Path, reason: str) -> None:
    log, first, last = site_log()
    source = source_of(tmp_path / "site", log, node=NORTH)
    above = above_of(tmp_path / "above", log, first, last)
    before = all_rows(above.store)
    copy = filling(source, above)
    copy.tamper = lying(LIES[reason])
    assert not copy.run(within_ns=60 * SECOND)
    assert set(copy.refused) == {reason}
    assert all_rows(above.store) == before
    assert len(above.store.manifest.holes) == 1
    copy.tamper = lambda word, piece: (word, piece)
    assert copy.run()
    assert is_whole(tmp_path / "above", source)


def test_a_damaged_file_costs_its_own_rows_only(tmp_path: Path) -> None:
    """The others come; the gap stays, and the file is tried again."""
    log, first, last = site_log()
    source = source_of(tmp_path / "site", log, seal_every=10**6, node=NORTH)
    path = next(one.path for one in source.manifest.files if one.kind is FileKind.SAMPLES)
    shutil.copytree(tmp_path / "site", tmp_path / "whole")
    bits = bytearray((source.root / path).read_bytes())
    bits[len(bits) // 2] ^= 1
    (source.root / path).write_bytes(bits)
    above = above_of(tmp_path / "above", log, first, last)
    copy = filling(source, above)
    assert not copy.run(within_ns=120 * SECOND)
    assert set(copy.refused) == {"wrong_crc"}
    (hole,) = above.store.manifest.holes
    assert hole.missed == (f"{path.split('=')[2][:10]}/samples/{NORTH}",)
    copy.source, _ = HistoryStore.open(tmp_path / "whole", NORTH)
    assert all_rows(above.store)[FileKind.EVENTS] == all_rows(copy.source)[FileKind.EVENTS]
    assert copy.run()
    assert is_whole(tmp_path / "above", copy.source)


def test_items_of_other_nodes_are_not_taken(tmp_path: Path) -> None:
    log, first, last = site_log()
    whole = source_of(tmp_path / "site", log, node=NORTH)
    for at, node in ((7, "root/south"), (8, "root")):
        declares(log, at, "spy", log.frames[8].header.node_ns, node=node)
    source = source_of(tmp_path / "lying", log, node=NORTH)
    assert {7, 8} <= source.declared.items.keys()
    above = above_of(tmp_path / "above", log, first, last)
    assert filling(source, above).run()
    assert versions(opened_above(tmp_path / "above").store) == versions(whole)


def test_holes_that_overlap_are_made_ones_that_do_not(tmp_path: Path) -> None:
    """By a site that says that it lacks the same records twice, for now, and then has them."""
    log, first, last = site_log()
    source = source_of(tmp_path / "site", log, node=NORTH)
    above = above_of(tmp_path / "above", log, first, last)
    (hole,) = above.store.manifest.holes
    twice = tuple(
        msgspec.structs.replace(hole, first_sequence=low, last_sequence=high, gap="", behind=hole.behind)
        for low, high in ((first + 3, first + 20), (first + 10, first + 25), (first + 12, first + 13))
    )
    copy = filling(source, above, is_final=False)
    spans: list[list[tuple[int, int]]] = []

    def first_lie(word: Word, piece: Piece) -> tuple[Word, Piece]:
        is_first = isinstance(word, GroupSent) and not spans
        return msgspec.structs.replace(word, holes=twice) if is_first else word, piece

    def noted(effect: object) -> None:
        if isinstance(effect, EndHole):
            spans.append(sorted((one.first_sequence, one.last_sequence) for one in above.store.manifest.holes))

    copy.tamper, copy.after = first_lie, noted
    assert copy.run()
    low = first + 3
    assert spans[0] == [(first, low - 1), (low, low + 17), (low + 18, low + 22), (low + 23, last)]
    assert is_whole(tmp_path / "above", source)


def test_pieces_are_as_long_as_the_link_is_quick(tmp_path: Path) -> None:
    """They begin small, grow while they come at once, and are short again on a link that got slow."""
    log = MemoryLog()
    declares(log, 1, "level", DAY_ZERO)
    begins_epoch(log, DAY_ZERO)
    first = log.end + 1
    chance = random.Random(1)
    log.samples([(1, DAY_ZERO + one, chance.random(), 0) for one in range(100_000)], DAY_ZERO)
    last = log.end
    log.samples([(1, DAY_ZERO + SECOND, 0.0, 0)], DAY_ZERO)
    source = source_of(tmp_path / "site", log, seal_every=10**6, node=NORTH)
    above = above_of(tmp_path / "above", log, first, last)
    copy = filling(source, above)
    sizes: list[int] = []

    def slow_at_last(word: Word, piece: Piece) -> tuple[Word, Piece]:
        if isinstance(word, PieceSent):
            sizes.append(len(piece))
            if word.offset > 600_000:
                copy.now = Instant(copy.now + 2 * SECOND)
        return word, piece

    copy.tamper = slow_at_last
    assert copy.run()
    grown = sizes[: sizes.index(max(sizes)) + 1]
    assert grown == [FROM_BELOW.piece_bytes_min << step for step in range(len(grown))]
    assert max(sizes) <= PIECE_BYTES
    asked = [one.size_bytes for one in copy.asked if isinstance(one, PieceAsked)]
    halves = [after for before, after in itertools.pairwise(asked) if after < before]
    assert halves, "pieces stay long on a slow link"
    assert is_whole(tmp_path / "above", source)


def test_a_gap_before_its_declarations_came_is_about_the_items_that_were_its_sources(tmp_path: Path) -> None:
    """A history that lacks declarations names nobody in a gap, rather than say that it is about no item."""
    log, first, last = site_log()
    at = log.frames[-1].header.node_ns
    gap = GapFound(source="", reason="device_lost", from_ns=at, to_ns=at + SECOND)
    log.records(Stream.SAMPLES, [gap], at)
    above = above_of(tmp_path / "above", log, first, last)
    (row,) = [one for one in StoredHistory(above.store.root, above.store.manifest).gaps(EVER) if one["source"] == ""]
    assert row["item_ids"] == []
    source = source_of(tmp_path / "site", log, node=NORTH)
    assert filling(source, above).run()
    found = StoredHistory(above.store.root, above.store.manifest)
    assert [one["reason"] for one in found.gaps(EVER, 1)] == ["device_lost"]
