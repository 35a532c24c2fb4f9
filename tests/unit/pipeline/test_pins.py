"""What a run reads is its own: a node that merges and removes files takes nothing from it. And which days are new."""

import errno
import os
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest

from albireo.codec import history as stored
from albireo.codec.history import FileKind
from albireo.pipeline import pins
from albireo.pipeline.errors import OutputUnusable, SourceDamaged, SourceMissing
from albireo.pipeline.plan import LateRows, News
from albireo.pipeline.source import HistoryFolder, open_history, read_manifest
from albireo.pipeline.touched import late_rows
from tests.parts.rollup import kernel_partials
from tests.unit.pipeline.history_files import DAY0, SECOND, HistoryWriter, Row, replaced, sample

DAY = 86_400 * SECOND
LATE_ROWS = [sample(1, 7, 1.0, 11), sample(1, DAY0 - 3 * DAY, 2.0, 12), sample(1, DAY0, 3.0, 13)]


def written(directory: Path, rows: list[Row], *, sequence: int = 20) -> HistoryWriter:
    writer = HistoryWriter(directory / "history")
    writer.add(FileKind.SAMPLES, rows)
    writer.publish(sequence=sequence, complete_to_ns=DAY0 + DAY)
    return writer


def opened(directory: Path) -> HistoryFolder:
    return open_history(directory / "history", read_manifest(directory / "history"))


def refused(code: int) -> Any:
    def call(*_: Any) -> None:
        raise OSError(code, os.strerror(code))

    return call


def test_pinned_files_outlive_those_of_the_node(tmp_path: Path) -> None:
    """However long the run takes: they are the same bytes under a name of its own, until it lets them go."""
    written(tmp_path, [sample(1, DAY0, 1.0, 1)])
    history = opened(tmp_path)
    (entry,) = history.manifest.files
    content = history.path(entry).read_bytes()
    pinned = pins.pin(history, [entry], tmp_path / "out" / pins.FOLDER)
    assert pinned.path(entry).stat().st_ino == history.path(entry).stat().st_ino, "a link costs no room"
    shutil.rmtree(tmp_path / "history")
    assert pinned.path(entry).read_bytes() == content
    assert pins.pin(pinned, [entry], tmp_path / "out" / pins.FOLDER).path(entry).exists()
    pins.unpin(tmp_path / "out" / pins.FOLDER)
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("code", [errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP])
def test_without_links_a_pin_is_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """Another file system, another owner, a file system without links. A copy that was cut off is no pin."""
    written(tmp_path, [sample(1, DAY0, 1.0, 1)])
    history, folder = opened(tmp_path), tmp_path / "out" / pins.FOLDER
    (entry,) = history.manifest.files
    half = folder / f"{entry.path}.tmp"
    half.parent.mkdir(parents=True)
    half.write_bytes(b"PAR1")
    monkeypatch.setattr(os, "link", refused(code))
    pinned = pins.pin(history, [entry], folder)
    assert pinned.path(entry).read_bytes() == history.path(entry).read_bytes()
    assert pinned.path(entry).stat().st_ino != history.path(entry).stat().st_ino
    assert not half.exists()


def test_no_room_for_copies_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, [sample(1, DAY0, 1.0, 1)])
    history = opened(tmp_path)
    monkeypatch.setattr(os, "link", refused(errno.EXDEV))
    monkeypatch.setattr(shutil, "copyfile", refused(errno.ENOSPC))
    with pytest.raises(OutputUnusable, match="history's own file system"):
        pins.pin(history, history.manifest.files, tmp_path / "out")


def test_a_file_that_was_merged_before_it_was_pinned_is_found_in_the_newer_manifest(tmp_path: Path) -> None:
    writer = written(tmp_path, [sample(1, DAY0, 1.0, 1)])
    seen = []

    def pinned(history: HistoryFolder) -> HistoryFolder:
        seen.append(history.manifest.generation)
        if len(seen) == 1:
            history.path(history.manifest.files[0]).unlink()
            writer.entries.clear()
            written_anew = writer.add(FileKind.SAMPLES, [sample(1, DAY0, 1.0, 1)])
            assert written_anew.path != history.manifest.files[0].path
            writer.publish(sequence=20, complete_to_ns=DAY0 + DAY)
        return pins.pin(history, history.manifest.files, tmp_path / "out")

    found = pins.begun(tmp_path / "history", pinned)
    assert found.path(found.manifest.files[0]).exists()
    assert seen == [1, 2]


def test_a_file_that_is_missing_in_the_newest_manifest_is_missing(tmp_path: Path) -> None:
    written(tmp_path, [sample(1, DAY0, 1.0, 1)])
    seen = []

    def pinned(history: HistoryFolder) -> HistoryFolder:
        seen.append(history)
        history.path(history.manifest.files[0]).unlink()
        return pins.pin(history, history.manifest.files, tmp_path / "out")

    with pytest.raises(SourceMissing, match="restore"):
        pins.begun(tmp_path / "history", pinned)
    assert len(seen) == 1


def test_a_file_of_another_length_is_told_by_its_name_in_the_history(tmp_path: Path) -> None:
    written(tmp_path, [sample(1, DAY0, 1.0, 1)])
    history = opened(tmp_path)
    path = history.path(history.manifest.files[0])
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(SourceDamaged) as caught:
        pins.pin(history, history.manifest.files, tmp_path / "out")
    assert caught.value.path == path


def news_of(history: HistoryFolder, first: int, last: int, *, is_copied: bool = False) -> list[News]:
    entries = history.manifest.of_kind(FileKind.SAMPLES) + history.manifest.of_kind(FileKind.GAPS)
    return [News(entry=entry, sequences=((first, last),), is_copied=is_copied) for entry in entries]


def late(history: HistoryFolder, found: list[News], open_ns: int) -> LateRows:
    """Late rows beside tables that are not there yet."""
    return late_rows(history, found, open_ns, history.directory / "none")


def days_of(history: HistoryFolder, found: list[News], open_ns: int) -> Mapping[str, Collection[int]]:
    return late(history, found, open_ns).days


def test_the_days_of_new_rows_are_read_from_the_new_file(tmp_path: Path) -> None:
    """A file that reaches from 1970 to today has rows of three days, and one of them is no news."""
    writer = written(tmp_path, LATE_ROWS)
    history = opened(tmp_path)
    (entry,) = history.manifest.files
    assert days_of(history, news_of(history, 11, 99), DAY0) == {entry.path: {0, DAY0 - 3 * DAY}}
    assert days_of(history, news_of(history, 12, 99), DAY0) == {entry.path: {DAY0 - 3 * DAY}}
    assert days_of(history, news_of(history, 11, 99), 0) == {}
    like = replaced(entry, kind=FileKind.PARTIALS)
    writer.write(FileKind.PARTIALS, stored.partials_path(entry.path), kernel_partials(LATE_ROWS), like)
    writer.publish(sequence=20, complete_to_ns=DAY0 + DAY)
    history.path(entry).write_bytes(b"its partials tell enough")
    history = HistoryFolder(directory=history.directory, manifest=read_manifest(history.directory))
    assert days_of(history, news_of(history, 12, 99), DAY0) == {entry.path: {DAY0 - 3 * DAY}}


def test_copied_rows_are_told_apart_by_their_own_sequences(tmp_path: Path) -> None:
    """Rows before and behind the hole lie in the same file since a merge."""
    written(tmp_path, LATE_ROWS)
    history = opened(tmp_path)
    assert days_of(history, news_of(history, 12, 12, is_copied=True), DAY0 + DAY) == {
        history.manifest.files[0].path: {DAY0 - 3 * DAY}
    }


def test_items_begin_where_their_earliest_late_row_is(tmp_path: Path) -> None:
    """Told of items that no table knows, by day; a row of the open days begins nothing."""
    written(tmp_path, [*LATE_ROWS, sample(2, DAY0 + 5, 1.0, 14), sample(3, DAY0 - 5, 1.0, 15)])
    history = opened(tmp_path)
    assert late(history, news_of(history, 11, 99), DAY0).begun == {1: 0, 3: DAY0 - DAY}
    assert late(history, news_of(history, 12, 99), DAY0).begun == {1: DAY0 - 3 * DAY, 3: DAY0 - DAY}


def test_a_new_file_that_can_not_be_read_is_told(tmp_path: Path) -> None:
    written(tmp_path, LATE_ROWS)
    history = opened(tmp_path)
    history.path(history.manifest.files[0]).write_bytes(b"PAR1")
    with pytest.raises(SourceDamaged, match="can't be read"):
        days_of(history, news_of(history, 1, 99), DAY0)
