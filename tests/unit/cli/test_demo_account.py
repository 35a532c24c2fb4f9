"""The demo's account against histories written by hand."""

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from albireo.cli.demo.account import account_of, final_counts, last_of_runs, with_last
from albireo.cli.demo.demo import LOCK_NAME, MARK, NOTHING, Options, prepared
from albireo.cli.output import Failure
from albireo.codec.errors import DecodeError
from albireo.codec.history import MANIFEST_NAME, SCHEMAS, FileEntry, FileKind, Manifest, encode_manifest
from albireo.model.instant import SECOND
from albireo.model.position import Position

BEGAN = 1_800_000_000 * SECOND
CO, ACQUIRED, DROPPED, LOG_BYTES = 1, 2, 3, 4


def item(item_id: int, name: str, adapter: str) -> dict[str, Any]:
    kind = {"item_id": item_id, "node": "root", "name": name, "value_type": 2}
    return {**kind, "unit": "", "description": "", "adapter": adapter}


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
    told = {"kind": "case", "action": action, "user": "", "subject": "", "detail": ""}
    return {**columns, **told, "at_ns": at_ns, "node_ns": at_ns, "epoch": 1, "sequence": sequence}


def write_history(data: Path, rows: dict[FileKind, list[dict[str, Any]]]) -> None:
    files = []
    (data / "history").mkdir()
    for kind, content in rows.items():
        path = f"{kind.value}.parquet"
        pq.write_table(pa.Table.from_pylist(content, schema=SCHEMAS[kind]), data / "history" / path)
        files.append(
            FileEntry(
                kind=kind,
                path=path,
                node="root",
                day="",
                rows=len(content),
                min_source_ns=0,
                max_source_ns=0,
                first_sequence=0,
                last_sequence=0,
                size_bytes=0,
            )
        )
    manifest = Manifest(node="root", position=Position(2, 99), files=tuple(files))
    (data / "history" / MANIFEST_NAME).write_bytes(encode_manifest(manifest))


def a_run() -> list[dict[str, Any]]:
    """Two polls and the counters: five samples of the adapter, one of the node."""
    return [
        sample(1, CO, 1.0),
        sample(2, CO, 2.0, BEGAN + 3 * SECOND),
        sample(3, CO, 0.0, BEGAN + 9 * SECOND, quality=0x8031_0000),
        sample(4, ACQUIRED, 5),
        sample(5, DROPPED, 0),
        sample(6, LOG_BYTES, 4_096),
    ]


def test_a_clean_run_adds_up(tmp_path: Path) -> None:
    write_history(
        tmp_path,
        {FileKind.ITEMS: ITEMS, FileKind.SAMPLES: a_run(), FileKind.EVENTS: [event(7, "raised"), event(8, "acked")]},
    )
    account = account_of(tmp_path, BEGAN, ["p1"])
    assert account.complaints() == []
    assert msgspec.to_builtins(account) == {
        "seconds": 3.0,
        "samples_acquired": 6,
        "samples_committed": 6,
        "samples_dropped": 0,
        "cases_raised": 1,
        "log": {"epoch": 2, "sequence": 99, "bytes": 4_096},
        "history": {"files": 1, "rows": 6, "gaps": 0},
    }


def test_a_sample_that_did_not_arrive_is_noticed(tmp_path: Path) -> None:
    write_history(tmp_path, {FileKind.ITEMS: ITEMS, FileKind.SAMPLES: a_run()[1:]})
    assert account_of(tmp_path, BEGAN, ["p1"]).complaints() == ["6 samples acquired, 5 committed"]


def test_what_an_adapter_could_not_hand_over_is_noticed(tmp_path: Path) -> None:
    """Its last word in the log counts, since its last samples never arrived to say so themselves."""
    write_history(tmp_path, {FileKind.ITEMS: ITEMS, FileKind.SAMPLES: a_run()})
    said = {"event": "adapter_stopped", "adapter": "p1", "acquired": 9, "dropped": 2}
    (tmp_path / "node.log").write_bytes(b"node root, data in x\n" + msgspec.json.encode(said) + b"\n{torn")
    assert account_of(tmp_path, BEGAN, ["p1"]).complaints() == [
        "10 samples acquired, 6 committed",
        "2 samples dropped",
    ]


def test_what_was_there_before_does_not_count(tmp_path: Path) -> None:
    earlier = [sample(0, CO, 1.0, BEGAN - SECOND), sample(0, ACQUIRED, 700, BEGAN - SECOND)]
    rows = {FileKind.SAMPLES: earlier + a_run(), FileKind.EVENTS: [event(1, "raised", BEGAN - 1)]}
    write_history(tmp_path, {FileKind.ITEMS: ITEMS, **rows})
    account = account_of(tmp_path, BEGAN, ["p1"])
    assert (account.samples_acquired, account.history["rows"], account.cases_raised) == (6, 6, 0)


def test_nothing_is_no_success() -> None:
    assert NOTHING.complaints() == ["no sample was acquired"]


def test_a_missing_history_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        account_of(tmp_path, BEGAN, ["p1"])


def test_a_damaged_manifest_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / MANIFEST_NAME).write_bytes(b"{}")
    with pytest.raises(DecodeError):
        account_of(tmp_path, BEGAN, ["p1"])


@pytest.mark.parametrize(
    ("values", "lasts"), [([], []), ([7], [7]), ([1, 5, 9, 2, 4], [9, 4]), ([3, 3], [3]), ([5, 1, 1], [5, 1])]
)
def test_a_restart_begins_a_counter_anew(values: list[int], lasts: list[int]) -> None:
    assert last_of_runs(values) == lasts


def test_the_last_word_replaces_the_last_run_only() -> None:
    assert with_last([9, 4], 6) == 15
    assert with_last([9, 4], None) == 13
    assert with_last([], 6) == 6


def test_a_log_without_such_lines_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "node.log").write_bytes(b"\xff\xfe\n[1]\n{}\n")
    assert final_counts(tmp_path / "node.log") == {}
    assert final_counts(tmp_path / "missing.log") == {}


def options(data: Path, *, is_fresh: bool) -> Options:
    return Options(data=data, is_fresh=is_fresh, seconds=1.0, seed=1, has_pipeline=False, has_view=False)


def test_an_earlier_demo_is_cleared_away(tmp_path: Path) -> None:
    data = tmp_path / "demo"
    with prepared(options(data, is_fresh=True)):
        pass
    (data / "log").mkdir()
    (data / "log" / "segment").write_text("old")
    (data / "link").symlink_to(tmp_path)
    with prepared(options(data, is_fresh=True)):
        pass
    assert sorted(one.name for one in data.iterdir()) == [MARK, LOCK_NAME]
    assert tmp_path.exists()


def test_a_directory_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letters").write_text("dear")
    with pytest.raises(Failure, match="left alone"), prepared(options(tmp_path, is_fresh=True)):
        pass
    assert (tmp_path / "letters").read_text() == "dear"


def test_with_data_given_everything_stays(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    with prepared(options(tmp_path, is_fresh=False)):
        pass
    assert (tmp_path / "log").is_dir()


def test_a_running_demo_is_never_cleared_away(tmp_path: Path) -> None:
    mine = options(tmp_path / "demo", is_fresh=True)
    with prepared(mine), pytest.raises(Failure) as refused, prepared(mine):
        pass
    assert refused.value.exit_code == 78
