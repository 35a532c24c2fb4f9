"""The demo's account against histories written by hand."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from albireo.cli.demo.account import account_of, final_counts, last_of_runs, stood_by, with_last
from albireo.cli.demo.demo import LOCK_NAME, MARK, prepared
from albireo.cli.demo.recording import DemoOptions
from albireo.cli.demo.told import NOTHING
from albireo.cli.output import Failure
from albireo.codec.errors import DecodeError
from albireo.codec.history import MANIFEST_NAME, FileKind
from albireo.model.instant import SECOND
from tests.parts.demo_history import ACQUIRED, BEGAN, CO, DROPPED, ITEMS, LOG_BYTES, event, sample, write_history


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


@pytest.mark.parametrize("quality", [0x8031_0000, 0x800A_0000, 0x8000_0000])
def test_an_adapter_that_was_silent_for_a_while_did_not_begin_anew(tmp_path: Path, quality: int) -> None:
    """What the node says of its silence was acquired by nobody, and is not lost."""
    marked = BEGAN + 20 * SECOND
    silent = [
        sample(7, CO, 0.0, marked, quality=quality),
        sample(8, ACQUIRED, 0, marked, quality=quality),
        sample(9, DROPPED, 0, marked, quality=quality),
        sample(10, ACQUIRED, 7, marked + SECOND),
        sample(11, DROPPED, 0, marked + SECOND),
    ]
    write_history(tmp_path, {FileKind.ITEMS: ITEMS, FileKind.SAMPLES: a_run() + silent})
    account = account_of(tmp_path, BEGAN, ["p1"])
    assert account.samples_acquired == 7 + 1 + 3, "the last count, the sample of the node itself, its word of silence"
    assert account.complaints() == []


def test_an_uncertain_count_counts(tmp_path: Path) -> None:
    write_history(
        tmp_path, {FileKind.ITEMS: ITEMS, FileKind.SAMPLES: [*a_run(), sample(7, ACQUIRED, 6, quality=0x4090_0000)]}
    )
    assert account_of(tmp_path, BEGAN, ["p1"]).samples_acquired == 6 + 1


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


@pytest.mark.parametrize(("began", "expected"), [(BEGAN, True), (BEGAN + SECOND, True), (BEGAN + 2 * SECOND, False)])
def test_an_adapter_that_had_to_stand_by_since_the_begin_is_known(tmp_path: Path, began: int, expected: bool) -> None:
    """A suspension within one epoch: what the adapter had not handed over is as lost as in a takeover."""
    at = datetime.fromtimestamp((BEGAN + SECOND) / SECOND, UTC).isoformat(timespec="milliseconds")
    said = msgspec.json.encode({"at": at.replace("+00:00", "Z"), "actor": "comm.p1", "event": "standing_by"})
    other = said.replace(b"standing_by", b"acting")
    (tmp_path / "node.log").write_bytes(b"\n".join([b"node root", other, said, said[:-9]]))
    assert stood_by(tmp_path / "node.log", began) is expected
    assert not stood_by(tmp_path / "missing.log", began)


def options(data: Path, *, is_fresh: bool) -> DemoOptions:
    return DemoOptions(data=data, is_fresh=is_fresh, seconds=1.0, seed=1, has_pipeline=False, has_view=False)


def test_an_earlier_demo_is_cleared_away(tmp_path: Path) -> None:
    data = tmp_path / "demo"
    with prepared(options(data, is_fresh=True)):
        pass
    (data / "log" / "segments").mkdir(parents=True)
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
    (tmp_path / "log" / "segments").mkdir(parents=True)
    with prepared(options(tmp_path, is_fresh=False)):
        pass
    assert (tmp_path / "log").is_dir()


def test_a_running_demo_is_never_cleared_away(tmp_path: Path) -> None:
    mine = options(tmp_path / "demo", is_fresh=True)
    with prepared(mine), pytest.raises(Failure) as refused, prepared(mine):
        pass
    assert refused.value.exit_code == 78
