"""Stores that earlier releases wrote are read as these read them; one of a later release is refused, and left alone.

The kept stores and what is in them: docs/formats/stores.md.
"""

import json
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from albireo.log import Corrupted, OpenRefused
from albireo.log.log import Log
from albireo.node.history.files.store import HistoryStore
from tests.stores.archive import kept, told_beside, unpack
from tests.stores.later import COPIES, LATER, REMEDY, add_field, make_later, make_strange
from tests.stores.telling import command, differences, digest, opened, owner_of, told_of, voter_of, voter_told

pytestmark = pytest.mark.slow

NAMES = ("alone", "pair", "private")


def named(archive: Path) -> str:
    return f"{archive.parent.name}-{archive.name.removesuffix('.tar.xz')}"


def wanted_of(archive: Path) -> dict[str, Any]:
    found = json.loads(told_beside(archive).read_text())
    assert isinstance(found, dict)
    return found


def latest(name: str) -> Path:
    return [one for one in kept() if one.name == f"{name}.tar.xz"][-1]


@pytest.mark.parametrize("archive", kept(), ids=named)
def test_it_tells_what_it_told_the_release_that_wrote_it(archive: Path, tmp_path: Path) -> None:
    """Every frame, the folds from the first one and from each snapshot, every row of the history, every promise.

    Three answers differ on purpose: 0.1.0 counted a gap before an item's first sample as lost time of the item, held
    values of a clock that is ahead of the node's before the node's came there, and told with a gap of all its items.
    """
    wanted = wanted_of(archive)
    unpack(archive, tmp_path)
    asked = {item for node in wanted["nodes"].values() for item in node.get("history", {"items": ()})["items"]}
    found = differences(wanted, told_of(tmp_path, sorted(asked)))
    assert [one for one in found if not is_unknown_now(wanted, one) and not is_of_one_item_now(one)] == []


INTERVAL = re.compile(
    r"/nodes/(?P<node>[^/]+)/history/items/(?P<item>.+)/(?P<aggregate>average|max)/"
    r"(?P<column>bad_ns|good_ns|quality|value)/(?P<index>\d+): (?P<now>.+), it was .+"
)


def is_unknown_now(wanted: dict[str, Any], difference: str) -> bool:
    """Time of an interval that was bad before the item's first sample, or good behind the node's own time, and is
    neither now (ADR-0168)."""
    one = INTERVAL.fullmatch(difference)
    if one is None:
        return False
    item = wanted["nodes"][one["node"]]["history"]["items"][one["item"]]
    first = min(item["raw"]["source_ns"])
    is_before = item[one["aggregate"]]["start_ns"][int(one["index"])] <= first
    is_ahead = first > max([gap["node_ns"] for gap in item["gaps"]], default=first)
    is_nothing = one["now"] in ("0", "None") or one["column"] == "quality"
    return is_nothing and (is_ahead or (is_before and one["column"] in ("bad_ns", "quality")))


ITEMS_OF_A_GAP = re.compile(
    r"/nodes/[^/]+/history/items/.+/gaps/\d+/item_ids: \[(?P<now>\d+)\], it was \[(?P<was>[\d, ]+)\]"
)


def is_of_one_item_now(difference: str) -> bool:
    """A gap of several items, of which only the one that was asked for is told."""
    one = ITEMS_OF_A_GAP.fullmatch(difference)
    return one is not None and one["now"] in one["was"].split(", ")


def test_each_release_keeps_every_store() -> None:
    releases = dict.fromkeys(archive.parent.name for archive in kept())
    assert [named(one) for one in kept()] == [f"{release}-{name}" for release in releases for name in NAMES]


@pytest.mark.parametrize("archive", [one for one in kept() if one.name.startswith("alone")], ids=named)
def test_a_lone_node_has_something_of_everything(archive: Path, tmp_path: Path) -> None:
    """A writer that leaves something out would make all other tests here say less than they seem to."""
    node = wanted_of(archive)["nodes"]["root"]
    unpack(archive, tmp_path)
    assert len(list((tmp_path / "root" / "log" / "segments").glob("0*.segment"))) > 1
    assert not node["recovery"]["was_clean"]
    assert node["snapshots"][0]["position"] < node["committed"], "something is replayed behind the newest snapshot"
    assert all(one["gives_the_same"] for one in node["snapshots"])
    assert set(node["frames"]["by_record"]) >= {"accepted", "audit", "case", "command", "epoch", "feature", "gap"}
    assert set(node["frames"]["by_record"]) >= {"item", "mark", "producer", "receipt", "stopped"}
    types = {f"samples {name}" for name in ("float64", "int64", "bool", "string")}
    assert set(node["frames"]["by_stream_and_kind"]) > types
    outcomes = {one["outcome"] for one in node["folds"]["receipts"]}
    assert outcomes >= {"verified", "mismatched", "rejected", "unknown"}
    cases = node["folds"]["cases"]
    assert {one["shelving"] for one in cases} == {"unshelved", "timed", "one_shot"}
    states = ("is_active", "is_acked", "is_latched", "is_suppressed", "is_out_of_service")
    assert [state for state in states if {one[state] for one in cases} != {True, False}] == []
    assert node["history"]["retired"]
    assert {"samples, level 1", "partials, level 1", "events, level 1"} <= set(node["history"]["files"])
    assert all(table["rows"] for table in node["history"]["tables"].values())


@pytest.mark.parametrize("archive", [one for one in kept() if one.name.startswith("pair")], ids=named)
def test_a_pair_has_a_tail_that_was_cut(archive: Path) -> None:
    found = wanted_of(archive)
    nodes = found["nodes"]
    assert nodes["primary.before"]["uncommitted"]["count"]
    (cut,) = nodes["primary"]["quarantine"]
    assert cut["first_sequence"] == nodes["primary.before"]["committed"][1] + 1
    assert cut["last_sequence"] == nodes["primary.before"]["end"][1]
    assert nodes["primary"]["frames"] == nodes["backup"]["frames"]
    assert nodes["primary"]["folds"] == nodes["backup"]["folds"]
    assert found["compared"]["backup primary"]["kind"] == "equal"
    assert found["compared"]["backup primary.before"]["kind"] == "forked"
    assert {one["store"]["promised"] for one in found["voters"].values()} == {nodes["backup"]["end"][0]}


@pytest.mark.parametrize("archive", [one for one in kept() if one.name.startswith("private")], ids=named)
def test_members_keep_values_of_their_own(archive: Path) -> None:
    nodes = wanted_of(archive)["nodes"]
    assert nodes["primary"]["frames"] == nodes["backup"]["frames"]
    references = [nodes[name]["references"] for name in ("primary", "backup")]
    assert all(one["joined"] and not one["damages"] for one in references)
    assert sum(one["joined"] for one in references) == references[0]["all"] == references[1]["all"]
    assert {"elsewhere"} == set(nodes["primary"]["folds"]["sections"]) - set(nodes["backup"]["folds"]["sections"])


def bytes_below(directory: Path) -> str:
    """Every file but the lock."""
    files = sorted(one for one in directory.rglob("*") if one.is_file() and one.name != "lock")
    return digest(part for one in files for part in (str(one.relative_to(directory)).encode(), one.read_bytes()))


@pytest.mark.parametrize("change", [make_later, make_strange])
@pytest.mark.parametrize("folder", ["log", "private"])
def test_a_log_of_a_later_format_is_refused_and_left_alone(
    tmp_path: Path, folder: str, change: Callable[[Path], None]
) -> None:
    """What to do is said by whoever opens it, and by the command that only looks."""
    unpack(latest("private"), tmp_path)
    data = tmp_path / "primary"
    owner = owner_of(data / folder)
    for name in COPIES:
        change(data / folder / name)
    before = bytes_below(data)
    with pytest.raises(OpenRefused, match=REMEDY):
        Log.open(data / folder, owner)
    told = command("stores", str(data), str(data), exit_codes=(1,))
    assert REMEDY in told["error"]
    assert bytes_below(data) == before


@pytest.mark.parametrize("change", [make_later, make_strange])
def test_a_voters_store_of_a_later_format_is_refused_and_left_alone(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    unpack(latest("pair"), tmp_path)
    folder = tmp_path / "w1" / "voters" / "root"
    owner = voter_of(folder)
    for name in COPIES:
        change(folder / name)
    before = bytes_below(folder)
    with pytest.raises(OpenRefused, match=REMEDY):
        voter_told(folder, owner)
    assert bytes_below(folder) == before


def test_one_later_copy_is_enough_for_a_refusal(tmp_path: Path) -> None:
    """It may be the newer one: going on with the other would break a promise."""
    unpack(latest("pair"), tmp_path)
    log = tmp_path / "primary" / "log"
    owner = owner_of(log)
    make_later(log / "store.b")
    with pytest.raises(OpenRefused, match=REMEDY):
        Log.open(log, owner)


def test_a_snapshot_of_a_later_format_is_passed_over_and_kept(tmp_path: Path) -> None:
    """The log gives the same state without it."""
    archive = latest("pair")
    unpack(archive, tmp_path)
    data = tmp_path / "primary"
    for snapshot in (data / "log" / "snapshots").iterdir():
        content = bytearray(snapshot.read_bytes())
        struct.pack_into("<H", content, 4, LATER)
        snapshot.write_bytes(content)
    found = told_of(tmp_path, [])["nodes"]["primary"]
    wanted = wanted_of(archive)["nodes"]["primary"]
    assert differences(wanted["folds"], found["folds"]) == []
    assert found["snapshots"] == []
    assert len(list((data / "log" / "quarantine").glob("*.snapshot"))) == len(wanted["snapshots"])


def test_a_history_of_a_later_format_is_moved_aside_whole_with_the_reason(tmp_path: Path) -> None:
    """A later manifest needs a later feature level, at which the node has not started; nothing is lost without."""
    unpack(latest("alone"), tmp_path)
    data = tmp_path / "root"
    for name in ("manifest.json", "manifest.previous.json"):
        path = data / "history" / name
        path.write_text(path.read_text().replace('"version":1', f'"version":{LATER}', 1))
    before = bytes_below(data / "history")
    _, report = HistoryStore.open(data, "root")
    assert f"version {LATER}" in report.problem
    assert bytes_below(data / report.quarantine) == before


def test_a_header_field_that_a_later_release_added_is_no_reason_to_refuse(tmp_path: Path) -> None:
    unpack(latest("pair"), tmp_path)
    log = tmp_path / "primary" / "log"
    for name in COPIES:
        add_field(log / name)
    found, report = opened(log)
    found.close(clean=False)
    assert report.was_clean
    assert report.repaired_copies == ()


def test_a_difference_is_named_by_its_place() -> None:
    wanted = {"a": [1, {"b": 2.0}], "c": None}
    assert differences(wanted, {"a": [1, {"b": 2.0, "more": 1}], "c": None, "more": 2}) == []
    assert differences(wanted, {"a": [1, {"b": 2.5}]}) == ["/c is gone", "/a/1/b: 2.5, it was 2.0"]
    assert differences(wanted, {"a": [1], "c": None}) == ["/a: [1], it was [1, {'b': 2.0}]"]
    assert differences({"a": 1}, {"a": True}) == ["/a: True, it was 1"]


def test_a_damaged_frame_and_a_missing_row_do_not_pass(tmp_path: Path) -> None:
    """A store that still opens is not taken for the one that was kept."""
    archive = latest("alone")
    unpack(archive, tmp_path)
    manifest = tmp_path / "root" / "history" / "manifest.json"
    manifest.write_text(manifest.with_name("manifest.previous.json").read_text())
    wanted = wanted_of(archive)
    wanted["nodes"]["root"]["history"].pop("items")
    found = differences(wanted, told_of(tmp_path, []))
    assert {"/".join(one.split("/")[:4]) for one in found} == {"/nodes/root/history"}
    assert any(one.startswith("/nodes/root/history/tables/samples/rows: ") for one in found)
    segment = max((tmp_path / "root" / "log" / "segments").glob("0*.segment"))
    data = bytearray(segment.read_bytes())
    data[len(data.rstrip(b"\0")) // 2] ^= 1
    segment.write_bytes(data)
    with pytest.raises(Corrupted):
        told_of(tmp_path, [])
