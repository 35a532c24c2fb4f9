"""The actor `history` against a leader that serves a log from memory over real links."""

import asyncio
import functools
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from albireo.codec.history import FileKind
from albireo.codec.message import Answer, Ask, FeedAck, FeedHello
from albireo.codec.record import Audited, GapFound, ItemDeclared, OriginDeclared, Stream
from albireo.machine.feed.leader import Leader, LogFacts
from albireo.machine.history.sealing import SealPaceConfig
from albireo.model.instant import MS, SECOND, Instant
from albireo.model.item import DataItem, KnownItem
from albireo.model.position import EpochEntry, EpochHistory, Position
from albireo.model.value import ItemId, ValueType
from albireo.node.history.actor import Historian, HistoryArguments
from albireo.node.history.below.answers import READING_MAX
from albireo.node.history.files.store import HistoryStore, read_manifest
from albireo.runtime import ActorContext, Letter, Link, running
from tests.parts.history import DAY_ZERO, LOG_ID, DyingFiles, MemoryLog, stored, stored_rows
from tests.parts.pulled import pulled
from tests.parts.refusals import refused_with
from tests.parts.waiting import PATIENCE_S

Story = TypeVar("Story", bound=Callable[..., Coroutine[None, None, None]])


def in_a_loop(story: Story) -> Callable[..., None]:
    @functools.wraps(story)
    def run(*args: object, **kwargs: object) -> None:
        asyncio.run(story(*args, **kwargs))

    return run


HISTORY = EpochHistory((EpochEntry(epoch=1, first_sequence=1, branch_id=5),))


class LogServer:
    """CORE as far as a follower sees it: the real leader machine over a log in memory."""

    name = "core"

    def __init__(self, log: MemoryLog) -> None:
        self.log = log
        self.log_id = LOG_ID
        self.history = HISTORY
        self.first_sequence = 1
        self.items: list[KnownItem] = []
        self.origins: list[OriginDeclared] = []
        self.leader = Leader()
        self.durable = Position()
        self.received = Position()
        self.credits: list[int] = []
        self.hellos_to_lose = 0

    async def start(self, actor: ActorContext) -> None:
        self.actor = actor
        self.link = actor.bind("core")
        actor.at_ready(lambda: self.ticked(actor.now()))

    def drained(self, letters: Sequence[Letter]) -> None:
        facts = LogFacts(self.log_id, self.history, self.first_sequence, self.committed)
        for letter in letters:
            match letter.message:
                case FeedHello() if self.hellos_to_lose > 0:
                    self.hellos_to_lose -= 1
                case FeedHello() as hello:
                    self.link.send(self.leader.hello(letter.sender, hello, facts, self.actor.now()), to=letter.sender)
                case Ask(request_id=number, what="items"):
                    self.link.send(Answer(request_id=number, result=msgspec.to_builtins(self.items)), to=letter.sender)
                case Ask(request_id=number, what="origins"):
                    told = msgspec.to_builtins(self.origins)
                    self.link.send(Answer(request_id=number, result=told), to=letter.sender)
                case FeedAck() as ack:
                    self.leader.ack(letter.sender, ack, self.actor.now())
                    self.durable = max(self.durable, ack.durable)
                    self.received = max(self.received, ack.received)
                    self.credits.append(ack.credit_bytes)
        self.serve()

    @property
    def committed(self) -> Position:
        return Position(self.history.epoch, self.log.end)

    def serve(self) -> None:
        for pull in self.leader.pulls(self.committed, self.actor.now()):
            given, data, raw = pulled(self.log.frames, pull, self.history.epoch)
            if data is not None and self.link.send(data, [raw], to=pull.to):
                is_all = given.scanned >= self.committed.sequence
                self.leader.pulled(pull, given.scanned, data.last, len(raw), is_all=is_all)

    def ticked(self, now: Instant) -> None:
        for to, alive in self.leader.alive(self.history.epoch, self.committed, self.committed, now):
            self.link.send(alive, to=to)
        self.serve()
        self.actor.arm(Instant(now + 20 * MS))

    async def stop(self) -> None:
        pass

    async def until_taken(self) -> None:
        """The follower has all that is in the log now."""
        await until(lambda: self.received == self.committed)


class Asker:
    """Asks the actor `history`."""

    name = "asker"

    async def start(self, actor: ActorContext) -> None:
        self.link: Link = actor.connect("history")
        self.answers: dict[int, tuple[Answer, list[bytes | memoryview]]] = {}
        self.asked = 0

    def drained(self, letters: Sequence[Letter]) -> None:
        for letter in letters:
            assert isinstance(letter.message, Answer)
            self.answers[letter.message.request_id] = (letter.message, letter.raw)

    def ticked(self, now: Instant) -> None: ...

    async def stop(self) -> None: ...

    async def ask(self, what: str, **arguments: object) -> Answer:
        self.asked += 1
        number = self.asked
        self.link.send(Ask(request_id=number, what=what, arguments=arguments))
        await until(lambda: number in self.answers)
        return self.answers[number][0]

    async def stats(self) -> dict[str, object]:
        answer = await self.ask("stats")
        assert isinstance(answer.result, dict)
        return answer.result


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110  # What it waits for is in other actors.
            await asyncio.sleep(0.005)


def some_log(batches: int = 20, rows: int = 50) -> MemoryLog:
    log = MemoryLog()
    item = DataItem(name="co", value_type=ValueType.FLOAT64, adapter="p1", unit="ppm")
    log.records(Stream.STATE, [ItemDeclared(item_id=ItemId(1), node="root", item=item)], DAY_ZERO)
    for batch in range(batches):
        now = DAY_ZERO + batch * SECOND
        log.samples([(1, now + row, float(row), 0) for row in range(rows)], now)
    log.records(Stream.AUDIT, [Audited(at_ns=DAY_ZERO, user="u", action="write", subject="s")], DAY_ZERO)
    return log


def history(**pace: int) -> Historian:
    return Historian(HistoryArguments(node="root", pace=SealPaceConfig(**pace)))


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
        files._full = range(0)
        await until(lambda: server.durable.sequence >= log.end - 2000)
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
