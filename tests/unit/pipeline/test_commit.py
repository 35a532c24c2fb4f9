"""A commit is in the table whole or not at all, whenever the power fails; nothing is replaced that was not read."""

import json
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql.pandas.types import to_arrow_schema

from albireo.pipeline import delta
from albireo.pipeline.commit import CHECKPOINT_EVERY, Change, TableFiles, check, commit, tended
from albireo.pipeline.delta import StagedFile, TableState, Watermark, read_state
from albireo.pipeline.errors import OutputUnusable, SchemaDiffers, TableChanged
from albireo.pipeline.tables import LakeTable
from albireo.sim.engine.disk import PowerCut, SimDisk
from tests.long_form import IS_LONG

TABLE = LakeTable(name="rows", columns="item_id bigint, value double, day string", partition_by=("day",))
OUT = Path("/out")
NOW_MS = 1_772_000_000_000
DAY_MS = 86_400_000
MARK = Watermark(log_id="5f" * 16, epoch=1, sequence=9, complete_to_ns=77)
SEEDS = 8 if IS_LONG else 2


def staged(folder: Path, day: str, values: Sequence[float]) -> list[StagedFile]:
    """A file as a task of Spark leaves it; no other has its name."""
    schema = to_arrow_schema(TABLE.schema, timezone="UTC")
    rows = pa.table({"item_id": pa.array(range(len(values)), pa.int64()), "value": pa.array(values, pa.float64())})
    place = folder / f"day={day}"
    place.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows.cast(pa.schema([schema.field(0), schema.field(1)])), place / f"part-{folder.name}.parquet")
    return delta.staged_files(folder)


def change(run: int, files: Sequence[StagedFile], *, from_day: str | None = None, columns: str = "") -> Change:
    table = LakeTable(name="rows", columns=columns or TABLE.columns, partition_by=TABLE.partition_by)
    return Change(
        run=run,
        mark=MARK,
        schema=delta.schema_json(table.schema),
        partition_by=table.partition_by,
        files=tuple(files),
        replaced=None if from_day is None else lambda day: day >= from_day,
    )


def rows(table: Path) -> dict[str, list[float]]:
    """Values by day, read from the files."""
    found: dict[str, list[float]] = {}
    for row in DeltaTable(str(table)).to_pyarrow_table().to_pylist():
        found.setdefault(row["day"], []).append(row["value"])
    return {day: sorted(values) for day, values in sorted(found.items())}


class Lake:
    """A table on a disk in memory, written by two runs."""

    def __init__(self, folder: Path, disk: SimDisk) -> None:
        self.folder = folder
        self.disk = disk
        disk.install(OUT)

    def written(self, files: Sequence[StagedFile]) -> list[StagedFile]:
        """The same files on the disk in memory, not synced, as Spark leaves them."""
        there = []
        for one in files:
            path = OUT / "staging" / one.relative
            self.disk.make_directory(path.parent)
            handle = self.disk.open(path, create=True)
            self.disk.pwritev(handle, [one.path.read_bytes()], 0)
            self.disk.close(handle)
            there.append(StagedFile(**{name: getattr(one, name) for name in one.__struct_fields__} | {"path": path}))
        return there

    def two_runs(self) -> int:
        """Days 1 and 2, then day 2 anew and day 3; returns how many of the two runs said that they are done."""
        done = 0
        try:
            first = staged(self.folder / "a", "2026-03-01", [1.0]) + staged(self.folder / "b", "2026-03-02", [2.0, 3.0])
            commit(self.disk, OUT / "tables" / "rows", TableState(), change(1, self.written(first)), NOW_MS)
            done = 1
            state = read_state(exported(self.disk, self.folder / "read"))
            later = staged(self.folder / "c", "2026-03-02", [4.0]) + staged(self.folder / "d", "2026-03-03", [5.0] * 3)
            more = change(2, self.written(later), from_day="2026-03-02")
            assert commit(self.disk, OUT / "tables" / "rows", state, more, NOW_MS) == 1
            done = 2
        except PowerCut:
            pass
        return done


AFTER: tuple[dict[str, list[float]], ...] = (
    {},
    {"2026-03-01": [1.0], "2026-03-02": [2.0, 3.0]},
    {"2026-03-01": [1.0], "2026-03-02": [4.0], "2026-03-03": [5.0] * 3},
)


def exported(disk: SimDisk, place: Path) -> Path:
    """The table, as a folder that delta-rs can read."""
    todo = [OUT]
    while todo:
        folder = todo.pop()
        todo += [folder / name for name in disk.names(folder) if disk.has_directory(folder / name)]
        for path in disk.paths(folder):
            target = place / path.relative_to("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(disk.bytes_of(path))
    return place / "out" / "tables" / "rows"


def found_after(disk: SimDisk, place: Path) -> dict[str, list[float]]:
    table = exported(disk, place)
    return rows(table) if DeltaTable.is_deltatable(str(table)) else {}


def cuts(tmp_path: Path, disk_of: type[SimDisk]) -> list[tuple[int, int, bool]]:
    """Power cuts at every change of the disk: cut, seed, and whether the table was right afterwards."""
    whole = disk_of()
    Lake(tmp_path / "whole", whole).two_runs()
    judged = []
    for cut in range(1, len(whole.operations) + 1):
        for seed in range(SEEDS):
            place = tmp_path / f"{cut}-{seed}"
            disk = disk_of(seed, cut_at=cut)
            done = Lake(place / "made", disk).two_runs()
            try:
                found = found_after(disk.power_cut(seed), place / "found")
                is_right = found in AFTER[done : done + 2]
            except Exception:  # noqa: BLE001  # Whatever a reader of a torn table says.
                is_right = False
            judged.append((cut, seed, is_right))
    return judged


@pytest.mark.slow
def test_a_power_cut_at_any_step_leaves_the_table_before_or_after_a_run(tmp_path: Path) -> None:
    """What a run said that it did is there; what it did not say is there whole or not at all."""
    judged = cuts(tmp_path, SimDisk)
    assert len(judged) > 50
    assert [one for one in judged if not one[2]] == []


class WithoutSyncOfFiles(SimDisk):
    def sync(self, handle: int) -> None:
        """Does nothing, as for a commit that forgets it."""


class WithoutSyncOfFolders(SimDisk):
    def sync_directory(self, directory: Path) -> None:
        """Does nothing, as for a commit that forgets it."""


@pytest.mark.slow
@pytest.mark.parametrize("disk_of", [WithoutSyncOfFiles, WithoutSyncOfFolders])
def test_a_forgotten_sync_is_found(tmp_path: Path, disk_of: type[SimDisk]) -> None:
    """The test above sees what it is made for."""
    assert any(not is_right for _, _, is_right in cuts(tmp_path, disk_of))


def first_run(tmp_path: Path) -> Path:
    table = tmp_path / "rows"
    files = staged(tmp_path / "a", "2026-03-01", [1.0]) + staged(tmp_path / "b", "2026-03-02", [2.0])
    assert commit(TableFiles(), table, TableState(), change(1, files), NOW_MS) == 0
    return table


def test_a_run_that_is_in_the_table_is_left_out(tmp_path: Path) -> None:
    table = first_run(tmp_path)
    again = change(1, staged(tmp_path / "c", "2026-03-02", [9.0]))
    assert commit(TableFiles(), table, read_state(table), again, NOW_MS) == 0
    assert rows(table) == {"2026-03-01": [1.0], "2026-03-02": [2.0]}
    assert read_state(table).version == 0


def test_the_version_that_was_read_is_the_one_that_is_replaced(tmp_path: Path) -> None:
    """Two programs read version 0; the slower one neither wins nor tries again on what it has not read."""
    table = first_run(tmp_path)
    before = read_state(table)
    commit(TableFiles(), table, before, change(2, staged(tmp_path / "c", "2026-03-02", [3.0])), NOW_MS)
    with pytest.raises(TableChanged, match="run the pipeline again") as caught:
        commit(TableFiles(), table, before, change(3, staged(tmp_path / "d", "2026-03-02", [4.0, 4.0])), NOW_MS)
    assert caught.value.version == 0
    assert rows(table) == {"2026-03-02": [3.0]}
    assert [path.name for path in sorted((table / "_delta_log").iterdir())] == [f"{n:020d}.json" for n in (0, 1)]


def test_an_older_run_is_refused(tmp_path: Path) -> None:
    table = first_run(tmp_path)
    commit(TableFiles(), table, read_state(table), change(5, staged(tmp_path / "c", "2026-03-02", [3.0])), NOW_MS)
    with pytest.raises(TableChanged):
        check(table, read_state(table), change(4, []))


def test_other_columns_are_refused_by_a_run_that_replaces_a_part(tmp_path: Path) -> None:
    """It would take away days that it has not read. A run over everything may change the columns."""
    table = first_run(tmp_path)
    wider = "item_id bigint, value double, unit string, day string"
    with pytest.raises(SchemaDiffers, match="move it away"):
        check(table, read_state(table), change(2, [], from_day="2026-03-02", columns=wider))
    files = staged(tmp_path / "c", "2026-03-02", [3.0])
    with pytest.raises(SchemaDiffers):
        commit(TableFiles(), table, read_state(table), change(2, files, from_day="2026-03-02", columns=wider), NOW_MS)
    assert rows(table) == {"2026-03-01": [1.0], "2026-03-02": [2.0]}
    assert commit(TableFiles(), table, read_state(table), change(2, files, columns=wider), NOW_MS) == 1
    assert rows(table) == {"2026-03-02": [3.0]}


def test_a_table_that_needs_other_writers_is_refused(tmp_path: Path) -> None:
    table = first_run(tmp_path)
    entry = table / "_delta_log" / f"{1:020d}.json"
    features = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["appendOnly"]}
    entry.write_text(json.dumps({"protocol": features}))
    with pytest.raises(OutputUnusable, match="another program"):
        check(table, read_state(table), change(2, []))


def test_old_files_stay_for_a_day_and_the_log_gets_a_checkpoint(tmp_path: Path) -> None:
    """Old versions can be read for a day; a reader of the newest needs few entries of the log."""
    table = tmp_path / "rows"
    for run in range(CHECKPOINT_EVERY + 2):
        files = staged(tmp_path / f"staged-{run}", "2026-03-01", [float(run)])
        now_ms = real_ms() - (2 * DAY_MS if run == 1 else 0)
        version = commit(TableFiles(), table, read_state(table), change(run + 1, files, from_day="0"), now_ms)
        tended(TableFiles(), table, tmp_path / "tended", lets_go=True)
    assert version == CHECKPOINT_EVERY + 1
    log = table / "_delta_log"
    assert (log / "_last_checkpoint").exists()
    assert [path.name for path in log.glob("*.parquet")] == [f"{CHECKPOINT_EVERY:020d}.checkpoint.parquet"]
    for old in log.glob("*.json"):
        if int(old.stem) < CHECKPOINT_EVERY:
            old.unlink()
    assert rows(table) == {"2026-03-01": [float(CHECKPOINT_EVERY + 1)]}
    assert read_state(table).run == CHECKPOINT_EVERY + 2
    assert not (tmp_path / "tended").exists()
    kept = {path.name for path in table.rglob("part-*")}
    assert "part-staged-0.parquet" not in kept, "replaced two days ago"
    assert {f"part-staged-{run}.parquet" for run in range(1, CHECKPOINT_EVERY + 2)} == kept


def real_ms() -> int:
    """Milliseconds of the clock that delta-rs looks at to judge what is old."""
    return time.time_ns() // 1_000_000
