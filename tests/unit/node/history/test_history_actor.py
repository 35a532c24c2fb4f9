"""The actor `history` against a leader that serves a log from memory over real links."""

from pathlib import Path

import msgspec
import pytest

from albireo.codec.history import FileKind
from albireo.codec.record import Audited, GapFound, ItemDeclared, Stream
from albireo.machine.history.sealing import SealPaceConfig
from albireo.model.instant import MS, SECOND
from albireo.model.item import DataItem, KnownItem
from albireo.model.position import EpochEntry, EpochHistory
from albireo.model.value import ItemId, ValueType
from albireo.node.history.actor import Historian, HistoryArguments
from albireo.node.history.below.answers import READING_MAX
from albireo.node.history.files.store import HistoryStore, read_manifest
from albireo.runtime import running
from tests.parts.history import DAY_ZERO, DyingFiles, MemoryLog, stored, stored_rows
from tests.parts.history_actor import HISTORY, Asker, LogServer, history, in_a_loop, until
from tests.parts.refusals import refused_with


def some_log(batches: int = 20, rows: int = 50) -> MemoryLog:
    log = MemoryLog()
    item = DataItem(name="co", value_type=ValueType.FLOAT64, adapter="p1", unit="ppm")
    log.records(Stream.STATE, [ItemDeclared(item_id=ItemId(1), node="root", item=item)], DAY_ZERO)
    for batch in range(batches):
        now = DAY_ZERO + batch * SECOND
        log.samples([(1, now + row, float(row), 0) for row in range(rows)], now)
    log.records(Stream.AUDIT, [Audited(at_ns=DAY_ZERO, user="u", action="write", subject="s")], DAY_ZERO)
    return log


@pytest.mark.slow
@in_a_loop
async def test_rows_are_sealed_acknowledged_and_survive_a_restart(tmp_path: Path) -> None:
    log = some_log()
    server = LogServer(log)
    async with running(server, tmp_path):
        async with running(history(), tmp_path), running(asker := Asker(), tmp_path):
            await server.until_taken()
            assert refused_with(await asker.ask("seal")) == ""
            await until(lambda: server.durable == server.committed)
            assert stored_rows(tmp_path / "history") == sorted(log.rows)
            log.samples([(1, DAY_ZERO + 99 * SECOND, 1.5, 0)], DAY_ZERO + 99 * SECOND)
            await server.until_taken()
        assert stored_rows(tmp_path / "history") == sorted(log.rows), "a clean stop seals"
        log.samples([(1, DAY_ZERO + 100 * SECOND, 2.5, 0)], DAY_ZERO + 100 * SECOND)
        async with running(history(), tmp_path):
            await server.until_taken()
        assert stored_rows(tmp_path / "history") == sorted(log.rows)


@in_a_loop
async def test_a_record_out_of_bounds_is_an_event_and_stops_nothing(tmp_path: Path) -> None:
    """The error of the seal ended the history at each start, once: numbers of msgpack have one bit more than those of
    Parquet."""
    log = some_log()
    gap = GapFound(source="p1", reason="overflow", from_ns=DAY_ZERO, to_ns=2**63, item_ids=(2**64 - 1,), lost=1)
    log.records(Stream.SAMPLES, [gap], DAY_ZERO)
    log.records(Stream.SAMPLES, [msgspec.structs.replace(gap, to_ns=DAY_ZERO + 1, item_ids=())], DAY_ZERO)
    log.samples([(1, DAY_ZERO + 99 * SECOND, 1.5, 0)], DAY_ZERO + 99 * SECOND)
    server = LogServer(log)
    async with running(server, tmp_path), running(history(), tmp_path), running(asker := Asker(), tmp_path):
        await server.until_taken()
        assert refused_with(await asker.ask("seal")) == ""
        await until(lambda: server.durable == server.committed)
    assert stored_rows(tmp_path / "history") == sorted(log.rows)
    (gaps,) = stored(tmp_path / "history", FileKind.GAPS)
    assert [row["to_ns"] for row in gaps.to_pylist()] == [DAY_ZERO + 1]
    (events,) = stored(tmp_path / "history", FileKind.EVENTS)
    (unreadable,) = (row for row in events.to_pylist() if row["action"] == "unreadable")
    assert "9223372036854775807" in str(unreadable["detail"])
    assert unreadable["sequence"] == log.end - 2


@in_a_loop
async def test_a_stop_takes_what_was_kept_back(tmp_path: Path) -> None:
    """Found by a demo that ended within the tenth of a second that the history lets CORE wait."""
    log = some_log()
    server = LogServer(log)
    async with running(server, tmp_path):
        async with running(history(), tmp_path):
            await server.until_taken()
            log.samples([(1, DAY_ZERO + 99 * SECOND, 1.5, 0)], DAY_ZERO + 99 * SECOND)
            server.serve()
            assert server.received != server.committed
        assert stored_rows(tmp_path / "history") == sorted(log.rows)


@in_a_loop
async def test_a_first_hello_that_got_lost_is_said_again(tmp_path: Path) -> None:
    """Found in a test run: history stood still for good, because nothing but a letter ever set its timer."""
    log = some_log(batches=1)
    server = LogServer(log)
    server.hellos_to_lose = 1
    async with running(server, tmp_path), running(history(), tmp_path):
        await server.until_taken()
    assert server.hellos_to_lose == 0


@pytest.mark.slow
@in_a_loop
async def test_a_full_tail_stops_credit_and_loses_nothing(tmp_path: Path) -> None:
    """The disk is full: the tail fills to its bound, credit runs dry, memory does not grow; then everything comes."""
    log = some_log(batches=400, rows=100)
    server = LogServer(log)
    actor = Historian(
        HistoryArguments(
            node="root",
            capacity_bytes=64 * 1024,
            pace=SealPaceConfig(seal_rows=500, hot_rows_max=2000, retry_min_ns=20 * MS, retry_max_ns=20 * MS),
        )
    )
    async with running(server, tmp_path), running(actor, tmp_path), running(asker := Asker(), tmp_path):
        files = actor._store._files = DyingFiles(full=range(10**9))
        while (await asker.stats())["seal_failures"] == 0:
            pass
        await until(lambda: bool(server.credits) and server.credits[-1] < 10_000)
        while (hot_rows := (await asker.stats())["hot_rows"]) < 2000:  # type: ignore[operator]  # A number.
            pass
        assert isinstance(hot_rows, int)
        assert hot_rows <= 2000 + 64 * 1024 // 32, "bound, and what was under way"
        await until(lambda: bool(server.seals) and "No space left on device: make room on the disk" in server.seals[-1])
        files._full = range(0)
        await until(lambda: server.durable.sequence >= log.end - 2000)
        await until(lambda: server.seals[-1] == "")
    assert stored_rows(tmp_path / "history") == sorted(log.rows)


@pytest.mark.slow
@in_a_loop
async def test_a_log_that_has_pruned_what_was_missing_leaves_a_gap_record(tmp_path: Path) -> None:
    log = some_log()
    server = LogServer(log)
    server.first_sequence = 502
    server.items = [
        KnownItem(item_id=ItemId(number), node="root", item=DataItem(name=name, value_type=ValueType.FLOAT64))
        for number, name in ((1, "co"), (2, "door"))
    ]
    async with running(server, tmp_path), running(history(), tmp_path), running(asker := Asker(), tmp_path):
        await server.until_taken()
        await asker.ask("seal")
        assert (await asker.stats())["gaps"] == 1
    assert [row["name"] for row in HistoryStore.open(tmp_path, "root")[0].declared.items.values()] == ["co", "door"]
    assert stored_rows(tmp_path / "history") == [row for row in sorted(log.rows) if row[0] >= 502]


@in_a_loop
async def test_another_log_is_refused_and_the_history_stays(tmp_path: Path) -> None:
    log = some_log()
    server = LogServer(log)
    async with running(server, tmp_path):
        async with running(history(), tmp_path):
            await server.until_taken()
        before = stored_rows(tmp_path / "history")
        assert before
        server.log_id = bytes(16)
        async with running(history(), tmp_path), running(asker := Asker(), tmp_path):
            while not (await asker.stats())["problem"]:
                pass
        assert stored_rows(tmp_path / "history") == before


@in_a_loop
async def test_a_log_that_lost_its_end_goes_on_in_a_new_epoch(tmp_path: Path) -> None:
    """A disk that lied about a sync: what the log has is stored, nothing twice, and what it lost is kept aside."""
    log = some_log(batches=3, rows=10)
    longer = LogServer(log)
    async with running(longer, tmp_path), running(history(), tmp_path):
        await longer.until_taken()
    before = stored_rows(tmp_path / "history")
    assert before == sorted(log.rows)
    shorter = some_log(batches=1, rows=10)
    shorter.frames.pop()
    shorter.end -= 1
    server = LogServer(shorter)
    server.history = EpochHistory((*HISTORY.entries, EpochEntry(epoch=2, first_sequence=12, branch_id=6)))
    shorter.epoch = 2
    shorter.samples([(1, DAY_ZERO + 7, 7.0, 0)] * 5, DAY_ZERO + 7)
    async with running(server, tmp_path), running(history(), tmp_path), running(asker := Asker(), tmp_path):
        await server.until_taken()
        await asker.ask("seal")
    assert stored_rows(tmp_path / "history") == sorted(shorter.rows)
    aside = read_manifest(tmp_path / "history").cut_off
    assert sum(one.rows for one in aside if one.kind is FileKind.SAMPLES) == 20


@in_a_loop
async def test_a_log_of_lower_epochs_than_were_followed_changes_nothing_and_is_named(tmp_path: Path) -> None:
    """A store that was restored from an old backup, beside a history that was not."""
    log = some_log(batches=3, rows=10)
    log.epoch = 5
    log.samples([(1, DAY_ZERO + 7, 7.0, 0)] * 5, DAY_ZERO + 7)
    newer = LogServer(log)
    newer.history = EpochHistory((*HISTORY.entries, EpochEntry(epoch=5, first_sequence=33, branch_id=6)))
    async with running(newer, tmp_path), running(history(), tmp_path):
        await newer.until_taken()
    before = stored_rows(tmp_path / "history")
    assert before == sorted(log.rows)
    async with running(LogServer(some_log(batches=1, rows=10)), tmp_path):
        async with running(history(), tmp_path), running(asker := Asker(), tmp_path):
            while "stale_epoch" not in str((await asker.stats())["problem"]):
                pass
    assert stored_rows(tmp_path / "history") == before


@in_a_loop
async def test_questions_that_wait_for_the_reading_thread_are_bounded(tmp_path: Path) -> None:
    historian = history()
    async with running(LogServer(some_log()), tmp_path), running(historian, tmp_path):
        async with running(asker := Asker(), tmp_path):
            historian._answers._reading = READING_MAX
            assert str(READING_MAX) in refused_with(await asker.ask("history"))
            historian._answers._reading = 0
            for _ in range(READING_MAX + 1):
                assert refused_with(await asker.ask("history")) == ""
            assert historian._answers._reading == 0


@pytest.mark.parametrize("what", ["nonsense", "history"])
@in_a_loop
async def test_wrong_questions_are_answered_with_a_reason(tmp_path: Path, what: str) -> None:
    server = LogServer(some_log())
    async with running(server, tmp_path), running(history(), tmp_path), running(asker := Asker(), tmp_path):
        answer = await asker.ask(what, item_ids="x")
        assert refused_with(answer)
