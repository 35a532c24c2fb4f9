"""CORE as an actor on a real log, without the rest of a node."""

import asyncio
import errno
from pathlib import Path

import msgspec
import pytest

from albireo.codec.frame import body_crc, frames
from albireo.codec.message import FeedAlive, FeedAnswer, FeedData, FeedHello, Logged
from albireo.codec.record import (
    Audited,
    GapFound,
    ItemDeclared,
    Kind,
    Marked,
    Record,
    Stream,
    decode_records,
    encode_records,
)
from albireo.log import FileSystem, LogConfig, OsFileSystem, StoreIdentity
from albireo.log.inspection import quarantined
from albireo.log.log import Log
from albireo.log.write.appending import Entry
from albireo.machine.desk.pending import FOLD_COST_MAX
from albireo.machine.feed.follower import Deliver, Digested, Follower, FollowerConfig, LinkUp, Received, TellLeader
from albireo.machine.feed.leader import Followed, Leader
from albireo.machine.fold.declared import RECORD_COST
from albireo.machine.fold.folds import Folds
from albireo.machine.kernel.events import OrdersGiven
from albireo.machine.kernel.pull import Pull
from albireo.model.instant import MS, SECOND, Instant, LogTime, TimePassed
from albireo.model.item import DataItem
from albireo.model.position import BEGINNING, EPOCHS_MOST, EpochEntry, EpochHistory, Position
from albireo.model.principal import ANYBODY
from albireo.model.value import ItemId, ValueType
from albireo.node.core.actor import Core, create
from albireo.node.core.arguments import CoreArguments
from albireo.node.core.peer_links import NUMBER_BYTES
from albireo.runtime import SyncLink, running
from albireo.runtime.clock import boot_ns
from albireo.runtime.errors import ActorFailed, ConfigurationRefused, StoreRefused
from albireo.runtime.loop import ActorLoop
from tests.parts.core_actor import ARGUMENTS, status
from tests.parts.waiting import PATIENCE_S


def test_each_start_is_an_epoch_and_the_log_goes_on(tmp_path: Path) -> None:
    async def story() -> None:
        ends = []
        for epoch in (1, 2, 3):
            async with running(create(ARGUMENTS), tmp_path):
                found = await status(tmp_path)
                log = found["log"]
                assert isinstance(log, dict)
                assert log["epoch"] == epoch
                ends.append(log["sequence"])
        assert ends == sorted(ends)

    asyncio.run(story())


def test_a_crash_lets_go_of_the_log_so_that_the_next_run_can_take_it(tmp_path: Path) -> None:
    """In thread placement the process lives on after a crash of CORE."""

    async def story() -> None:
        with pytest.RaisesGroup(pytest.RaisesExc(ActorFailed, match="on purpose")):
            async with running(create(ARGUMENTS), tmp_path) as context:
                context.fail("on purpose")
                await asyncio.Event().wait()
        async with running(create(ARGUMENTS), tmp_path):
            assert (await status(tmp_path))["node"] == "root"

    asyncio.run(story())


def test_ticks_go_on_while_the_last_snapshot_is_made(tmp_path: Path) -> None:
    """That of a large node takes longer than the time between two ticks."""
    arguments = {**ARGUMENTS, "topology_hash": "a" * 64}

    async def ticking(core: Core, until: asyncio.Event) -> int:
        """In each turn of a stop a tick is due that has a snapshot to begin and boot to ask; returns their number."""
        count = 0
        while not until.is_set():
            if core._actor.is_stopping:
                core.save_snapshot()
                core._house._boot._topology_at = Instant(0)
                core.wake()
                count += 1
            await asyncio.sleep(0)
        return count

    async def story() -> None:
        core, has_ended = create(arguments), asyncio.Event()
        async with running(core, tmp_path):
            ticks = asyncio.create_task(ticking(core, has_ended))
        has_ended.set()
        assert await ticks > 0
        async with running(create(arguments), tmp_path) as context:
            assert context.ready.is_set()

    asyncio.run(story())
    log, report = Log.open(tmp_path / "log", StoreIdentity("c", "root"))
    log.close()
    assert report.was_clean


def test_the_log_of_another_node_is_refused(tmp_path: Path) -> None:
    async def story() -> None:
        log, _ = Log.open(tmp_path / "log", StoreIdentity("c", "root/north"))
        log.close()
        with pytest.RaisesGroup(pytest.RaisesExc(ConfigurationRefused, match="root/north")):
            async with running(create(ARGUMENTS), tmp_path):
                pass

    asyncio.run(story())


async def refusal(data: Path, files: FileSystem | None = None) -> StoreRefused:
    """Of a CORE that can't open its log."""
    with pytest.raises(ExceptionGroup) as caught:
        async with running(Core(msgspec.convert(ARGUMENTS, CoreArguments), files), data):
            pass
    (refused,) = caught.value.exceptions
    assert isinstance(refused, StoreRefused)
    return refused


def test_a_log_in_use_is_refused_and_may_be_free_soon(tmp_path: Path) -> None:
    async def story() -> None:
        log, _ = Log.open(tmp_path / "log", StoreIdentity("c", "root"))
        refused = await refusal(tmp_path)
        assert refused.may_pass and "in use" in str(refused)
        log.close()

    asyncio.run(story())


def test_a_damaged_log_is_refused_for_good_with_what_to_do(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(create(ARGUMENTS), tmp_path):
            pass
        for copy in ("store.a", "store.b"):
            (tmp_path / "log" / copy).write_bytes(bytes(4096))
        refused = await refusal(tmp_path)
        assert not refused.may_pass and "restore it from a copy" in str(refused)

    asyncio.run(story())


def test_a_lone_node_with_all_the_epochs_that_a_header_holds_says_what_to_do(tmp_path: Path) -> None:
    log, _ = Log.open(tmp_path / "log", StoreIdentity("c", "root"), msgspec.convert(ARGUMENTS["log"], LogConfig))
    log.grant(EpochEntry(EPOCHS_MOST, 1, 1))
    body = encode_records(0, 0, [Marked()])
    log.append([Entry(Stream.CONTROL, Kind.RECORDS, 1, body, body_crc(body))], elapsed_ms=1, node_ns=1)
    log.flush()
    log.commit(log.end)
    log.promise(0, 0, EpochHistory((*(EpochEntry(one, 1, 1) for one in range(1, EPOCHS_MOST)), *log.history.entries)))
    log.close()

    async def story() -> None:
        refused = await refusal(tmp_path)
        assert not refused.may_pass and "move the log away" in str(refused)

    asyncio.run(story())


class NoRoom(OsFileSystem):
    """A disk that takes nothing."""

    def make_directory(self, path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_log_without_room_is_refused_until_there_is_some(tmp_path: Path) -> None:
    async def story() -> None:
        refused = await refusal(tmp_path, NoRoom())
        assert refused.may_pass and "make room on this disk" in str(refused)

    asyncio.run(story())


@pytest.mark.slow
def test_what_quarantine_does_not_keep_is_said_in_the_journal(tmp_path: Path) -> None:
    settings = LogConfig(segment_bytes=1 << 20, free_bytes_min=0)
    log, _ = Log.open(tmp_path / "log", StoreIdentity("c", "root"), settings)
    log.grant(EpochEntry(1, 1, 1))
    body = encode_records(0, 0, [Marked()])
    for number in range(9):
        log.append([Entry(Stream.CONTROL, Kind.RECORDS, 1, body, body_crc(body))], elapsed_ms=1, node_ns=1_000 + number)
    log.flush()
    for end in (8, 7, 6):
        log.cut_to(end, why=f"cut to {end}", node_ns=SECOND * (10 - end))
    log.close()
    arguments = {**ARGUMENTS, "log": {**msgspec.to_builtins(settings), "quarantine_count_max": 1}}
    said: list[Logged] = []

    def keep(line: Logged) -> bool:
        said.append(line)
        return True

    async def story() -> None:
        async with running(create(arguments), tmp_path) as context:
            context.log.redirect(keep)
            async with asyncio.timeout(PATIENCE_S):
                while not any(one.event == "quarantine_let_go" for one in said):
                    await status(tmp_path)

    asyncio.run(story())
    lines = [one for one in said if one.event == "quarantine_let_go"]
    assert [one.fields["was"] for one in lines] == ["cut to 8", "cut to 7"]
    assert {one.fields["reason"] for one in lines} == {"more than 1 are kept"}
    assert [one.why for one in quarantined(tmp_path / "log")] == ["cut to 6"]


class Watched(Core):
    """Sees what is committed while folding waits for its turn."""

    def __init__(self) -> None:
        super().__init__(msgspec.convert(ARGUMENTS, CoreArguments))
        self.waited = 0

    def commit(self, position: Position) -> None:
        waits, before = self._folding._is_posted, self.root.folded_to
        super().commit(position)
        if waits:
            assert self.root.folded_to == before, "folded beside the fold that was due"
            self.waited += 1


def test_what_is_committed_while_a_fold_waits_for_its_turn_waits_with_it(tmp_path: Path) -> None:
    """What a turn may fold is bounded; a second fold in it would have a bound of its own."""
    core = Watched()
    one = Audited(at_ns=1, user="ada", action="test", subject="", detail="")
    orders = OrdersGiven([one] * (FOLD_COST_MAX // RECORD_COST + 1))

    async def story() -> Position:
        async with running(core, tmp_path), asyncio.timeout(PATIENCE_S):
            while core.waited < 10:
                core.tell(orders)
                core.wake()
                await asyncio.sleep(0)
                core.commit(core.log.committed)
            return core.log.end

    told_to = asyncio.run(story())
    assert core.root.folded_to >= told_to, "it is folded in the end; a mark may stand behind it"


def test_the_pace_of_followers_hears_how_busy_the_loop_is_and_where_the_log_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, int, int]] = []
    takes = Leader.passed

    def passed(leader: Leader, end: int, committed: int, busy_ns: int, now: Instant) -> None:
        told.append((end, committed, busy_ns))
        takes(leader, end, committed, busy_ns, now)

    monkeypatch.setattr(Leader, "passed", passed)
    core = create(ARGUMENTS)
    assert isinstance(core, Core)

    async def story() -> None:
        async with running(core, tmp_path) as context:
            await status(tmp_path)
            hello = FeedHello(follower="f", credit_bytes=0)
            followed = Followed(b"f", hello, BEGINNING, context.now(), ANYBODY)
            core.root.feeds.leader.followers[b"f"] = followed
            followed.is_far = True  # Of one that lacks little nothing is reckoned.
            core.drained([])
            await status(tmp_path)
            end = core.log.end.sequence
            core.tell(OrdersGiven([Audited(at_ns=1, user="ada", action="test", subject="", detail="")]))
            followed.is_far = True
            core.drained([])
            # Whether the record is on the disk by now, and so committed, is the sync thread's business.
            assert told[-1][0] == core.log.end.sequence > end
            assert told[-1][1] <= told[-1][0]
            assert 0 < told[-1][2] <= context.turns.total_ns
            assert told[-1][2] > told[0][2]

    with asyncio.Runner(loop_factory=ActorLoop) as runner:
        runner.run(story())


def rotten_log(data: Path) -> None:
    """Fifty records, of which one in the middle can't be read any more."""
    log, _ = Log.open(data / "log", StoreIdentity("c", "root"), LogConfig(segment_bytes=1 << 20, free_bytes_min=0))
    log.grant(EpochEntry(1, 1, 1))
    body = encode_records(0, 0, [Marked()])
    for number in range(50):
        entry = Entry(Stream.CONTROL, Kind.RECORDS, 1, body, body_crc(body))
        log.append([entry], elapsed_ms=1, node_ns=1_000 + number)
    log.commit(log.flush())
    log.close()
    (segment,) = (data / "log" / "segments").glob("*.segment")
    damaged = bytearray(segment.read_bytes())
    damaged[damaged.index(body, len(damaged[: 25 * 200]) // 2)] ^= 0xFF
    segment.write_bytes(bytes(damaged))


def test_what_the_history_can_not_read_any_more_is_a_gap(tmp_path: Path) -> None:
    """Rot in the middle of the log: the frames around it are served, and the hole has a record."""
    rotten_log(tmp_path)

    def follow() -> list[Record]:
        machine = Follower(FollowerConfig(name="history"))
        found: list[Record] = []
        raw: list[bytes | memoryview] = []
        with SyncLink(tmp_path, "core") as link:
            effects = machine.step(LinkUp(), boot_ns())
            ends = boot_ns() + PATIENCE_S * SECOND
            while boot_ns() < ends and not any(isinstance(one, GapFound) for one in found):
                for effect in effects:
                    if isinstance(effect, TellLeader):
                        link.send(effect.message)
                    elif isinstance(effect, Deliver):
                        for header, part in frames(raw[0]):
                            found += decode_records(part, header.record_count) if header.kind == Kind.RECORDS else []
                message, raw = link.receive(0.2) or (None, [])
                effects = machine.step(TimePassed(), boot_ns())
                if isinstance(message, FeedAnswer | FeedData | FeedAlive):
                    effects += machine.step(Received(message, sum(map(len, raw))), boot_ns())
                    effects += machine.step(Digested(machine.position), boot_ns())
        return found

    async def story() -> None:
        async with running(create(ARGUMENTS), tmp_path):
            found = await asyncio.get_running_loop().run_in_executor(None, follow)
        gaps = [one for one in found if isinstance(one, GapFound)]
        assert [(gap.source, gap.reason) for gap in gaps] == [("core", "log_damage")]
        assert gaps[0].to_ns - gaps[0].from_ns == 2
        assert sum(isinstance(one, Marked) for one in found) >= 49

    asyncio.run(story())


def test_what_can_not_be_read_any_more_is_passed_for_a_follower_that_has_left_meanwhile(tmp_path: Path) -> None:
    rotten_log(tmp_path)
    core = create(ARGUMENTS)
    assert isinstance(core, Core)

    async def story() -> None:
        async with running(core, tmp_path) as context:
            await status(tmp_path)
            gone = bytes(NUMBER_BYTES) + b"gone"
            core._feeding.give([Pull(gone, after, 1 << 16, (), BEGINNING) for after in range(50)], context.now())
            assert (await status(tmp_path))["node"] == "root"

    asyncio.run(story())


def pruned_log(data: Path, folds: Folds) -> int:
    """A log of a lone node that retention has cut, with one snapshot; returns the sequence where it begins."""
    settings = LogConfig(segment_bytes=1 << 20, free_bytes_min=0)
    log, _ = Log.open(data / "log", StoreIdentity("c", "root"), settings)
    log.grant(EpochEntry(1, 1, 1))
    item = ItemDeclared(item_id=ItemId(7), node="root", item=DataItem(name="old", value_type=ValueType.FLOAT64))
    text = Audited(at_ns=1, user="u", action="a", subject="s", detail="x" * 100_000)
    records: list[tuple[Stream, Record]] = [(Stream.STATE, item), *([(Stream.AUDIT, text)] * 40)]
    for stream, one in records:
        body = encode_records(0, 0, [one])
        log.append([Entry(stream, Kind.RECORDS, 1, body, body_crc(body))], elapsed_ms=1, node_ns=SECOND)
    log.commit(log.flush())
    for frame in log.replay(0, log.committed.sequence):
        folds.replay(frame)
    assert log.save_snapshot(log.committed, LogTime(folds.log_time_ms * MS), folds.snapshot())
    assert log.prune(log.end.sequence)
    begin = log.begin_sequence
    log.close(clean=True)
    return begin


def test_a_lone_node_without_a_readable_snapshot_starts_with_its_log_and_says_so(tmp_path: Path) -> None:
    begin = pruned_log(tmp_path, Folds())
    for path in (tmp_path / "log" / "snapshots").iterdir():
        path.write_bytes(path.read_bytes()[:-1])

    async def story() -> None:
        core = create(ARGUMENTS)
        async with running(core, tmp_path):
            found = await status(tmp_path)
            assert isinstance(found["log"], dict)
            assert found["log"]["lacks_to"] == begin - 1 > 0
            async with asyncio.timeout(PATIENCE_S):
                while not len(core.root.folds.cases):
                    await status(tmp_path)
            assert min(one.item_id for one in core.root.folds.dim) > 1_000_000, "id 7 may be another item's"
            (case,) = core.root.folds.cases
            known = core.root.folds.dim.by_id(case.item_id)
            assert known is not None
            assert known.item.name == "core/log_damage"
        async with running(create(ARGUMENTS), tmp_path):
            found = await status(tmp_path)
            assert isinstance(found["log"], dict)
            assert found["log"]["lacks_to"] == 0, "it has a snapshot of its own now"

    asyncio.run(story())


def test_a_lone_node_whose_log_is_whole_needs_no_snapshot(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(create(ARGUMENTS), tmp_path):
            pass
        for path in (tmp_path / "log" / "snapshots").iterdir():
            path.write_bytes(b"")
        core = create(ARGUMENTS)
        async with running(core, tmp_path):
            found = await status(tmp_path)
            assert isinstance(found["log"], dict)
            assert found["log"]["lacks_to"] == 0
            assert list((tmp_path / "log" / "quarantine").glob("*.snapshot")), "kept for people"
            assert {one.item_id for one in core.root.folds.dim} < set(range(100))

    asyncio.run(story())
