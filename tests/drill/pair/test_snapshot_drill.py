"""A pair of real processes whose holder has pruned: an empty directory joins, gets old files too, and takes over."""

import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import convert

from albireo.cli.pair.table import MemberRow, troubles
from albireo.client import Acknowledged, SampleProducer, connect
from albireo.codec.history import FileEntry, FileKind, decode_manifest
from albireo.model.instant import SECOND
from albireo.model.item import DataItem
from albireo.model.samples import SampleBatch, Strings
from albireo.model.value import ValueType
from albireo.node.history import sql
from tests.parts.process_pair import VOTERS, Pair, until
from tests.parts.producing import producing
from tests.parts.snapshot_drill import history, members
from tests.parts.waiting import PATIENCE_S, awaited

pytestmark = [pytest.mark.drill, pytest.mark.slow]

ROWS = 100
ITEM = DataItem(name="message", value_type=ValueType.STRING)

SETTINGS = """
[node.log]
segment_mib = 1
disk_reserve_mib = 0
bytes_max_mib = 64
snapshot_every_s = 1
keep_h = 0
[node.history]
seal_every_s = 1
"""


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    with (tmp_path / "plant.toml").open("a") as plant:
        plant.write(SETTINGS)
    try:
        yield made
    finally:
        made.end()


def begins_at(pair: Pair, member: str) -> int:
    """First sequence that is still in the log."""
    found = (pair.data(member) / "log" / "segments").glob("*.segment")
    return min((int(one.stem) for one in found if one.stem.isdigit()), default=0)


def rows(number: int) -> SampleBatch:
    times = np.full(ROWS, 1_800_000_000 * SECOND + number, np.int64)
    return SampleBatch(
        value_type=ValueType.STRING,
        item_id=np.zeros(ROWS, np.uint32),
        source_ns=times,
        node_ns=times,
        value=Strings.of([secrets.token_hex(300)] * ROWS),
        quality=np.zeros(ROWS, np.uint32),
    )


def produce(producer: SampleProducer, batches: int) -> None:
    """Until every one of them is acknowledged."""
    numbers = {producer.offer([rows(number)]) for number in range(batches)}
    ends = time.monotonic() + PATIENCE_S
    while numbers:
        assert time.monotonic() < ends, f"{len(numbers)} batches are not acknowledged"
        for receipt in producer.wait(1.0):
            assert isinstance(receipt, Acknowledged), receipt
            numbers = {number for number in numbers if number > receipt.batch}


def told(pair: Pair, member: str) -> dict[str, object]:
    """What its folds say of the item and of the producer's cases."""
    with connect(pair.data(member), timeout_s=PATIENCE_S, is_pinned=True) as client:
        status = client.ask("status")
    assert isinstance(status, dict)
    return {"items": status["items"], "sequence": status["log"]["sequence"]}


def sealed(pair: Pair, member: str) -> int:
    """Sequence up to which its records are in files."""
    return int(history(pair, member, "seal")["position"][1])


def stored(pair: Pair, member: str, upto: int) -> dict[str, list[Any]]:
    """What DuckDB finds in its files, by item over the whole time: number of rows, and what is in them."""
    what = "count(*) AS n, sum(hash(source_ns, value_f64, value_i64, value_str, quality, epoch, sequence)) AS content"
    by_item = f"SELECT item_id, {what} FROM samples WHERE sequence <= {upto} GROUP BY item_id ORDER BY item_id"
    events = f"SELECT count(*) AS n, sum(hash(at_ns, kind, action, sequence)) AS c FROM events WHERE sequence <= {upto}"
    gaps = f"SELECT source, from_ns, to_ns, sequence FROM gaps WHERE sequence <= {upto} ORDER BY sequence"
    with sql.connect(pair.data(member)) as database:
        found = {name: database.rows(sql) for name, sql in (("samples", by_item), ("events", events), ("gaps", gaps))}
    return {f"{table}.{name}": column for table, rows in found.items() for name, column in rows.to_pydict().items()}


def copied(pair: Pair, member: str) -> dict[str, Any]:
    """How it tells of its copy."""
    told = history(pair, member, "stats")["copy"]["own"]
    assert isinstance(told, dict)
    return told


def lines(pair: Pair, member: str) -> list[str]:
    """What `albireo status` says is wrong with the pair."""
    _, status = pair.run("status", member=member)
    return troubles(convert(status["members"], list[MemberRow]))


def lost_for_now(pair: Pair, producer: SampleProducer) -> Path:
    """A file of the primary's history with records that its log has let go of is moved away; it comes back later."""
    history = pair.data("primary") / "history"

    def let_go() -> list[FileEntry]:
        produce(producer, 5)  # All may stand in one file by now, of which the log keeps the newest records.
        begin, manifest = begins_at(pair, "primary"), decode_manifest((history / "manifest.json").read_bytes())
        return [one for one in manifest.of_kind(FileKind.SAMPLES) if one.last_sequence < begin]

    path = history / awaited(let_go)[0].path
    path.rename(pair.home / path.name)
    return path


def test_an_empty_directory_joins_takes_over_and_gets_the_stored_history_of_before(pair: Pair) -> None:
    """The holder has pruned. What it told is in the folds of the one that joins, also after its death; the files of
    both end with the same rows, and the gap is gone.

    A file that the source can't read holds up neither the set nor the other files, and both members say what is
    missing. Both are killed meanwhile.
    """
    pair.start(*VOTERS, "primary")
    until(lambda: pair.run("pair", "init", member="primary")[0] == 0, lambda: "begun")
    pair.wait_for("solo", "silent")
    with producing("meter", [ITEM], members(pair), None) as producer:
        produce(producer, 80)
        sealed(pair, "primary")
        until(lambda: begins_at(pair, "primary") > 1, lambda: "the primary has not pruned")
        lost = lost_for_now(pair, producer)
        pair.start("backup")
        pair.wait_for("active", "ready")
        assert begins_at(pair, "backup") > 1
        sealed(pair, "backup")
        check_missing(pair)
        check_takeover(pair, producer)
        pair.kill("backup")
        (pair.home / lost.name).rename(lost)
        pair.start("primary", "backup")
        until(lambda: sorted(pair.states().values()) == ["active", "ready"], lambda: f"{pair.states()}")
        produce(producer, 5)
    until(lambda: not copied(pair, "backup")["is_incomplete"], lambda: f"{copied(pair, 'backup')}")
    upto = min(sealed(pair, "primary"), sealed(pair, "backup"))
    assert upto > 8000
    assert stored(pair, "backup", upto) == stored(pair, "primary", upto)
    assert "history" not in stored(pair, "backup", upto)["gaps.source"]
    until(lambda: not any("incomplete" in line for line in lines(pair, "backup")), lambda: f"{lines(pair, 'backup')}")


def check_missing(pair: Pair) -> None:
    """All files but the unreadable one are copied, and both members say so."""
    said = "history incomplete: "
    until(lambda: "unreadable_there" in copied(pair, "backup")["trouble"], lambda: f"{copied(pair, 'backup')}")
    told = copied(pair, "backup")
    assert told["done"] < told["files"]
    until(lambda: any(said in line for line in lines(pair, "primary")), lambda: f"{lines(pair, 'primary')}")
    until(lambda: any(said in line for line in lines(pair, "backup")), lambda: f"{lines(pair, 'backup')}")
    assert f"of {told['files']} files" in "".join(lines(pair, "primary"))


def check_takeover(pair: Pair, producer: SampleProducer) -> None:
    """The one that joined knows what the other one did, and goes on alone."""
    produce(producer, 5)
    until(lambda: told(pair, "primary") == told(pair, "backup"), lambda: "equal items")
    before = told(pair, "primary")["items"]
    pair.lose("primary")
    produce(producer, 5)
    assert told(pair, "backup")["items"] == before
