"""The actor `history` of a node above: each origin's records under its own name, asked for by that name."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from albireo.codec.frame import Origin, encode
from albireo.codec.history import MANIFEST_NAME, BelowFolder, FileKind
from albireo.codec.record import ItemDeclared, Kind, OriginDeclared, OriginGap, Stream
from albireo.codec.tree.envelope import encode_envelope
from albireo.machine.fold.origins import ORIGINS_MAX
from albireo.machine.history.sealing import SealPaceConfig
from albireo.model.instant import SECOND
from albireo.model.item import DataItem
from albireo.model.position import Position
from albireo.model.value import ItemId, ValueType
from albireo.node.history.actor import Historian, HistoryArguments
from albireo.node.history.below.folders import folders_below, node_meant, roots_of
from albireo.node.history.below.origin import OriginHistory
from albireo.node.history.errors import AmbiguousNode, UnknownNode
from albireo.node.history.files.store import HistoryStore, read_manifest
from albireo.runtime import running
from tests.parts.history import DAY_ZERO, DyingFiles, MemoryLog, stored, stored_rows
from tests.parts.history_actor import Asker, LogServer, history, in_a_loop, until
from tests.parts.history_below import Historian as Life
from tests.parts.history_below import Site, damage_newest, is_whole, rows, rows_below, sites
from tests.parts.refusals import refused_with

SPAN = {"from_ns": 0, "to_ns": 2 * DAY_ZERO}


def filled() -> tuple[MemoryLog, Site, Site]:
    """A log with two nodes below; the item 1 of each is called `co`, the own one too."""
    log, (north, south) = sites()
    item = DataItem(name="co", value_type=ValueType.FLOAT64, unit="ppm")
    log.records(Stream.STATE, [ItemDeclared(item_id=ItemId(1), node="root", item=item)], DAY_ZERO)
    log.samples(rows(5), DAY_ZERO)
    for site, count in ((north, 20), (south, 30)):
        declared = ItemDeclared(item_id=ItemId(1), node=site.folder.node, item=item)
        site.log.records(Stream.STATE, [declared], DAY_ZERO)
        site.log.samples(rows(count), DAY_ZERO)
        site.send(log, site.pending())
    return log, north, south


async def values(asker: Asker, **arguments: object) -> list[float]:
    answer = await asker.ask("history_piece", **SPAN, **arguments)
    assert refused_with(answer) == ""
    _, raw = asker.answers[asker.asked]
    table = pa.ipc.open_stream(pa.py_buffer(raw[0])).read_all()
    return [row["value_f64"] for row in table.to_pylist()]


@in_a_loop
async def test_rows_lie_under_their_origin_and_only_then_the_log_is_told(tmp_path: Path) -> None:
    log, north, south = filled()
    server = LogServer(log)
    async with running(server, tmp_path):
        async with running(history(), tmp_path), running(asker := Asker(), tmp_path):
            await server.until_taken()
            assert await values(asker, names=["root/north:co"]) == [float(one) for one in range(20)]
            assert refused_with(await asker.ask("seal")) == ""
            await until(lambda: server.durable == server.committed)
            is_whole(tmp_path, log, [north, south])
            assert await values(asker, names=["root/north:co"]) == [float(one) for one in range(20)]
            assert await values(asker, names=["north:co"]) == [float(one) for one in range(20)]
            assert await values(asker, names=["north:co", "root/north:co"]) == [float(one) for one in range(20)]
            assert await values(asker, names=["co"], node="root/south") == [float(one) for one in range(30)]
            assert await values(asker, names=["co"], node="south") == [float(one) for one in range(30)]
            assert await values(asker, names=["co"]) == await values(asker, names=["root:co"]) == [0, 1, 2, 3, 4]
            north.log.samples(rows(2, 50), DAY_ZERO + SECOND)
            north.send(log, north.pending())
            await server.until_taken()
        async with running(history(), tmp_path):
            await server.until_taken()
    is_whole(tmp_path, log, [north, south])


@in_a_loop
async def test_stats_tell_of_each_origin(tmp_path: Path) -> None:
    log, north, _ = filled()
    server = LogServer(log)
    async with running(server, tmp_path), running(history(), tmp_path), running(asker := Asker(), tmp_path):
        await server.until_taken()
        await asker.ask("seal")
        stats = await asker.stats()
        below = stats["below"]
        assert isinstance(below, list)
        first = below[0]
        wanted = {"node": "root/north", "log_id": north.log.log_id.hex(), "index": 1, "position": [1, 21], "rows": 20}
        assert {name: first[name] for name in wanted} == wanted
        assert first["complete_to_ns"] == first["known_to_ns"] == DAY_ZERO
        assert first["files"] == len(read_manifest(tmp_path / north.folder.path).files) == 3
        assert stats["rows"] == 5


@in_a_loop
async def test_a_node_that_has_no_history_here_is_named_beside_those_that_have(tmp_path: Path) -> None:
    log, *_ = filled()
    server = LogServer(log)
    async with running(server, tmp_path), running(history(), tmp_path), running(asker := Asker(), tmp_path):
        await server.until_taken()
        for what, arguments in (
            ("history_piece", {"names": ["root/west:co"], **SPAN}),
            ("events_piece", {"node": "root/west", **SPAN}),
            ("gaps_piece", {"node": "root/west", **SPAN}),
            ("history", {"node": "root/west"}),
            ("events", {"node": "root/west"}),
            ("history_item", {"name": "root/west:co"}),
        ):
            error = refused_with(await asker.ask(what, **arguments))
            assert "root/west" in error, what
            assert "root/north, root/south" in error, what
        both = await asker.ask("history_piece", names=["root/north:co", "root/south:co"], **SPAN)
        assert "one node at a time" in refused_with(both)
        item = (await asker.ask("history_item", name="root/south:co")).result
        assert isinstance(item, dict)
        assert (item["node"], item["name"], item["unit"]) == ("root/south", "co", "ppm")
    assert roots_of(tmp_path, "root/south") == [tmp_path / BelowFolder("root/south", bytes([2]) * 16).path]
    with pytest.raises(UnknownNode, match="root/west"):
        roots_of(tmp_path, "root/west")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("", ""),
        ("root", "root"),
        ("north", "root/north"),
        ("north/hall", "root/north/hall"),
        ("hall", None),
        ("orth", "orth"),
        ("west", "west"),
        ("root/north", "root/north"),
    ],
)
def test_the_end_of_an_id_means_one_node_or_is_refused(name: str, meant: str | None) -> None:
    nodes = ["root", "root/north", "root/north/hall", "root/south/hall", "root/south/root"]
    if meant is not None:
        assert node_meant(name, nodes) == meant
        return
    with pytest.raises(
        AmbiguousNode, match="root/north/hall or root/south/hall; what to do: name the node by its whole"
    ):
        node_meant(name, nodes)


@in_a_loop
async def test_an_origin_whose_declaration_was_pruned_is_asked_for(tmp_path: Path) -> None:
    log, north, _ = filled()
    server = LogServer(log)
    server.first_sequence = 3  # Both declarations are gone.
    server.origins = [OriginDeclared(index=1, node="root/north", origin_log=north.log.log_id)]
    async with running(server, tmp_path), running(history(), tmp_path), running(asker := Asker(), tmp_path):
        await server.until_taken()
        await asker.ask("seal")
        assert (await asker.stats())["left_out_below"] == 1, "CORE does not know the other one either"
    assert rows_below(tmp_path, north) == sorted(north.log.rows)
    assert [one.node for one in folders_below(tmp_path)] == ["root/north"]


@in_a_loop
async def test_a_lost_manifest_of_one_origin_is_refilled_from_the_log(tmp_path: Path) -> None:
    log, north, south = filled()
    server = LogServer(log)
    async with running(server, tmp_path):
        for count in (5, 6):
            async with running(history(), tmp_path):
                await server.until_taken()
            for site in (north, south):
                site.log.samples(rows(count, 100 * count), DAY_ZERO + count * SECOND)
                site.send(log, site.pending())
        async with running(history(), tmp_path):
            await server.until_taken()
        assert damage_newest(tmp_path, north)
        async with running(history(), tmp_path):
            await server.until_taken()
    is_whole(tmp_path, log, [north, south])


@in_a_loop
async def test_one_seal_that_fails_midway_writes_nothing_twice(tmp_path: Path) -> None:
    """The disk has room for the first history and not for the second: the next seal writes what is missing."""
    log, north, south = filled()
    server = LogServer(log)
    pace = SealPaceConfig(retry_min_ns=1, retry_max_ns=1)
    async with running(server, tmp_path):
        actor = Historian(HistoryArguments(node="root", pace=pace))
        async with running(actor, tmp_path), running(asker := Asker(), tmp_path):
            await server.until_taken()
            full = DyingFiles(full=range(10**9))
            origins: dict[str, OriginHistory] = {one.node: one for one in actor._below}
            origins["root/south"].store._files = full
            assert "not sealed" in refused_with(await asker.ask("seal"))
            assert rows_below(tmp_path, north) == sorted(north.log.rows)
            before = read_manifest(tmp_path / north.folder.path).generation
            full._full = range(0)
            assert refused_with(await asker.ask("seal")) == ""
    is_whole(tmp_path, log, [north, south])
    assert read_manifest(tmp_path / north.folder.path).generation == before, "nothing of it was sealed again"


@in_a_loop
async def test_hot_tails_count_together_against_the_bound(tmp_path: Path) -> None:
    log, north, south = filled()
    server = LogServer(log)
    actor = Historian(
        HistoryArguments(node="root", capacity_bytes=4096, pace=SealPaceConfig(seal_rows=60, hot_rows_max=60))
    )
    async with running(server, tmp_path), running(actor, tmp_path), running(asker := Asker(), tmp_path):
        actor._store._files = DyingFiles(full=range(10**9))
        for number in range(200):
            for site in (north, south):
                site.log.samples(rows(2, 1000 + number), DAY_ZERO)
                site.send(log, site.pending())
        server.serve()
        await until(lambda: bool(server.credits) and server.credits[-1] < 1024)
        stats = await asker.stats()
        tails = [one["hot_rows"] for one in stats["below"]]  # type: ignore[attr-defined]
        assert sum(tails) < 200
        actor._store._files = DyingFiles()
        await server.until_taken()
    is_whole(tmp_path, log, [north, south])


@in_a_loop
async def test_a_fork_is_sealed_at_once_and_what_was_left_lies_aside(tmp_path: Path) -> None:
    log, north, south = filled()
    server = LogServer(log)
    async with running(server, tmp_path), running(history(), tmp_path), running(asker := Asker(), tmp_path):
        await server.until_taken()
        await asker.ask("seal")
        for number in range(3):
            north.log.samples(rows(2, 100 + number), DAY_ZERO)
        north.send(log, north.pending())
        await server.until_taken()
        await asker.ask("seal")
        north.restored(log, north.log.end - 2)
        north.send(log, north.pending())
        await until(lambda: len(read_manifest(tmp_path / north.folder.path).cut_off) == 2)  # Samples, and their sums.
        await until(lambda: rows_below(tmp_path, north) == sorted(north.log.rows))
    is_whole(tmp_path, log, [north, south])
    (events,) = stored(tmp_path / north.folder.path, FileKind.EVENTS)
    assert [row["action"] for row in events.to_pylist()] == ["log_forked"]


@in_a_loop
async def test_envelopes_that_were_pruned_leave_a_gap_in_the_history_of_their_origin(tmp_path: Path) -> None:
    log, north, _ = filled()
    server = LogServer(log)
    async with running(server, tmp_path):
        async with running(history(), tmp_path):
            await server.until_taken()
        for _ in range(2):
            north.log.samples(rows(5, 100), DAY_ZERO)
            north.send(log, north.pending())
        server.first_sequence = log.end
        async with running(history(), tmp_path):
            await server.until_taken()
    holes = read_manifest(tmp_path / north.folder.path).holes
    assert [(one.first_sequence, one.last_sequence) for one in holes] == [(22, 26)]
    (gaps,) = stored(tmp_path / north.folder.path, FileKind.GAPS)
    assert [row["source"] for row in gaps.to_pylist()] == ["history"]


@in_a_loop
async def test_what_a_node_below_let_go_is_a_gap_there_once_though_the_log_comes_again(tmp_path: Path) -> None:
    log, north, south = filled()
    for _ in range(2):
        north.log.samples(rows(5, 100), DAY_ZERO + 7 * SECOND)
    gone, behind = north.pending()
    place = behind.header.epoch, behind.header.first_sequence
    gap = OriginGap(
        index=1, first=gone.header.first_sequence, epoch=place[0], sequence=place[1], from_ns=5, to_ns=7 * SECOND
    )
    log.records(Stream.CONTROL, [gap], DAY_ZERO)
    first_life = log.end
    north.send(log, [behind])
    for dies_after in (1, None):  # The history of the origin is written, the own one is not.
        life = Life(tmp_path)
        life.take(log, first_life if dies_after else None)
        life.seal(dies_after)
    (hole,) = read_manifest(tmp_path / north.folder.path).holes
    assert (hole.first_sequence, hole.last_sequence, hole.behind) == (22, 26, Position(*place))
    (gaps,) = stored(tmp_path / north.folder.path, FileKind.GAPS)
    assert [(one["reason"], one["from_ns"], one["to_ns"]) for one in gaps.to_pylist()] == [("let_go", 5, 7 * SECOND)]
    assert not read_manifest(tmp_path / south.folder.path).holes


@in_a_loop
async def test_a_lost_manifest_that_the_log_can_not_refill_leaves_a_gap_there_only(tmp_path: Path) -> None:
    log, north, south = filled()
    server = LogServer(log)
    async with running(server, tmp_path):
        for life in range(2):
            async with running(history(), tmp_path):
                await server.until_taken()
            for site in (north, south):
                site.log.end += life  # Records of other streams, which are not followed, lie between.
                site.log.samples(rows(5, 100), DAY_ZERO)
                site.send(log, site.pending())
        damage_newest(tmp_path, north)
        server.first_sequence = log.end - 1
        async with running(history(), tmp_path):
            await server.until_taken()
    holes = [read_manifest(tmp_path / site.folder.path).holes for site in (north, south)]
    assert [[(one.first_sequence, one.last_sequence) for one in some] for some in holes] == [[(22, 27)], []]
    assert read_manifest(tmp_path / "history").holes == ()


@in_a_loop
async def test_another_log_above_begins_anew_and_doubles_nothing(tmp_path: Path) -> None:
    """The parent lost its log and its history; what lies below is kept, and the places in the old log mean nothing."""
    log, north, south = filled()
    server = LogServer(log)
    async with running(server, tmp_path), running(history(), tmp_path):
        await server.until_taken()
    (tmp_path / "history").rename(tmp_path / "history.old")
    newer = MemoryLog(b"a different log.")
    for site in (north, south):
        newer.declares(9 - site.index, site.folder.node, site.log)
        site.log.samples(rows(3, 70), DAY_ZERO)
        site.send(newer, site.log.frames)
    again = LogServer(newer)
    again.log_id = newer.log_id
    async with running(again, tmp_path), running(history(), tmp_path):
        await again.until_taken()
    is_whole(tmp_path, newer, [north, south])


def test_what_an_envelope_says_of_other_nodes_items_is_left_out(tmp_path: Path) -> None:
    log, (north, _) = sites()
    item = DataItem(name="co", value_type=ValueType.FLOAT64)
    north.log.records(Stream.STATE, [ItemDeclared(item_id=ItemId(7), node="root/south", item=item)], DAY_ZERO)
    north.send(log, north.pending())
    life = Life(tmp_path)
    life.take(log)
    life.seal()
    assert not life.of(north).store.declared.versions
    (events,) = stored(tmp_path / north.folder.path, FileKind.EVENTS)
    assert [row["detail"] for row in events.to_pylist()] == ["an item of root/south, in the log of root/north"]


@pytest.mark.parametrize("node", ["../../escape", "Root", "", "root//x", "root\0"])
def test_a_name_that_is_no_nodes_makes_no_folder(tmp_path: Path, node: str) -> None:
    log = MemoryLog()
    log.declares(1, node, MemoryLog(bytes(16)))
    life = Life(tmp_path)
    life.take(log)
    life.seal()
    assert life.below.left_out == 1
    assert not (tmp_path / "history-below").exists()


def test_more_origins_than_a_log_may_have_are_refused(tmp_path: Path) -> None:
    life = Life(tmp_path)
    for number in range(ORIGINS_MAX + 3):
        record = OriginDeclared(index=number + 1, node="root/north", origin_log=number.to_bytes(16))
        life.below.declare(record, bytes(16))
    assert (len(life.below), life.below.left_out) == (ORIGINS_MAX, 3)


@in_a_loop
async def test_a_damaged_envelope_stops_nothing_and_stands_in_the_journal(tmp_path: Path) -> None:
    log, north, south = filled()
    foreign = encode(south.log.frames[0])
    body = encode_envelope(foreign[:-40] + b"x" * 40 + b"left over")
    log._append(Stream.BELOW, Kind.ENVELOPE, 1, body, DAY_ZERO, Origin(2, 1, 1))
    north.log.samples(rows(3, 70), DAY_ZERO)
    north.send(log, north.pending())
    server = LogServer(log)
    async with running(server, tmp_path), running(history(), tmp_path):
        await server.until_taken()
    is_whole(tmp_path, log, [north, south])
    (events,) = stored(tmp_path / "history", FileKind.EVENTS)
    assert [row["action"] for row in events.to_pylist()] == ["unreadable"]


def test_the_present_store_of_a_node_is_the_last_of_those_that_answer_for_it(tmp_path: Path) -> None:
    """A wiped store is another origin; the one that was declared last is the one that lives."""
    log, (north, _) = sites()
    north.log.samples(rows(2), DAY_ZERO)
    north.send(log, north.pending())
    wiped = Site(3, "root/north")
    log.declares(3, "root/north", wiped.log)
    wiped.log.samples(rows(4), DAY_ZERO)
    wiped.send(log, wiped.pending())
    life = Life(tmp_path)
    life.take(log)
    life.seal()
    earlier, present = roots_of(tmp_path, "root/north")
    assert (stored_rows(earlier), stored_rows(present)) == (sorted(north.log.rows), sorted(wiped.log.rows))
    assert [one.folder for one in life.below.of_node("root/north", log.log_id)] == [north.folder, wiped.folder]


def test_the_manifest_of_a_history_below_says_where_it_came_from(tmp_path: Path) -> None:
    log, north, _ = filled()
    life = Life(tmp_path)
    life.take(log)
    life.seal()
    own = json.loads((tmp_path / "history" / MANIFEST_NAME).read_bytes())
    assert own["enclosed"] is None
    below = json.loads((tmp_path / north.folder.path / MANIFEST_NAME).read_bytes())
    assert below["enclosed"] == {"log_id": log.log_id.hex(), "index": 1, "upto": [1, log.end], "refill_to": [0, 0]}
    assert (below["node"], below["log_id"]) == ("root/north", north.log.log_id.hex())
    assert below["history"] == [[1, 1, 0]]


@in_a_loop
async def test_a_start_removes_what_unfinished_work_left_below(tmp_path: Path) -> None:
    log, north, south = filled()
    life = Life(tmp_path)
    life.take(log)
    life.seal()
    left = tmp_path / north.folder.path / "samples" / "left.parquet"
    left.write_bytes(b"")
    async with running(LogServer(log), tmp_path), running(history(), tmp_path):
        await until(lambda: not left.exists())
    is_whole(tmp_path, log, [north, south])


def test_a_start_of_the_own_history_touches_nothing_below(tmp_path: Path) -> None:
    log, north, south = filled()
    life = Life(tmp_path)
    life.take(log)
    life.seal()
    _, report = HistoryStore.open(tmp_path, "root")
    assert report.leftovers == 0
    is_whole(tmp_path, log, [north, south])
