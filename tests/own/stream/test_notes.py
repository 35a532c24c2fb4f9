"""A stream that only this folder knows goes the whole way: admission, log, pair, fold, feed, retention."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import msgspec
import pytest

from albireo.codec.frame import Frame, FrameHeader, frames
from albireo.codec.message import (
    Append,
    Appended,
    AppendRefused,
    FeedAlive,
    FeedAnswer,
    FeedData,
    FeedHello,
    ProducerHello,
    ProducerWelcome,
)
from albireo.codec.record import Kind, Stream
from albireo.log import LogConfig
from albireo.machine.desk.pending import FOLD_COST_MAX
from albireo.machine.feed.follower import (
    Digested,
    Effect,
    Follower,
    FollowerConfig,
    LinkUp,
    MadeDurable,
    Received,
    TellLeader,
)
from albireo.machine.fold import declared
from albireo.machine.fold.folds import Folds
from albireo.machine.kernel.named import HISTORY
from albireo.model.feature import FIRST_LEVEL
from albireo.model.instant import SECOND, TimePassed
from albireo.model.position import Position
from albireo.model.refusal import RefusalCode
from albireo.node.core.actor import Core
from albireo.node.core.arguments import CoreArguments
from albireo.node.core.housekeeping import Retention
from albireo.runtime import SyncLink, running
from albireo.runtime.clock import boot_ns
from albireo.runtime.errors import ConfigurationRefused
from tests.own.stream.notes import (
    COST,
    KEEPER,
    KEPT_BYTES,
    NOTES,
    PUTS,
    NoteCount,
    NoteCounts,
    NoteStream,
    body_of,
    entry_of,
)
from tests.parts.core_pair import Plant, aside, plant, until
from tests.parts.root import LOG, World, append, hello
from tests.parts.waiting import PATIENCE_S

MANY: Final = 160
T = TypeVar("T", bound=msgspec.Struct)


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream and its fold are among those that there are."""
    monkeypatch.setitem(declared.CONTENTS, (NoteStream.NOTES, PUTS), NOTES)
    monkeypatch.setattr(declared, "FOLDS", (*declared.FOLDS, NoteCounts))


def puts(world: World, welcome: ProducerWelcome, sequence: int, topic: int = 1, count: int = 1) -> None:
    body = body_of(welcome.producer_id, sequence, topic, *[b"note"] * count)
    world.letter(b"plc", Append(entries=(entry_of(body, count),)), [body])


def counts(folds: Folds) -> dict[int, int]:
    return {one.topic: one.notes for one in folds.of(NoteCounts)}


def refused(world: World) -> str:
    (one,) = world.take(AppendRefused)
    assert isinstance(one, AppendRefused)
    return one.refusal.code


def test_a_batch_is_checked_whole_recorded_as_it_came_and_folded_by_its_head() -> None:
    world = World()
    welcome = hello(world)
    puts(world, welcome, 1, topic=7, count=3)
    world.sync()
    assert counts(world.root.folds) == {7: 3}
    (appended,) = world.take(Appended)
    assert isinstance(appended, Appended)
    assert appended.producer_sequence == 1
    stored = next(one for one in world.frames if one.header.stream == NoteStream.NOTES)
    assert stored.body == body_of(welcome.producer_id, 1, 7, b"note", b"note", b"note")
    body = body_of(welcome.producer_id, 2, 7, b"note")
    for entry, sent in (
        (entry_of(body, 2), body),
        (entry_of(body[:-1], 1), body[:-1]),
        (msgspec.structs.replace(entry_of(body, 1), kind=PUTS + 1), body),
        (msgspec.structs.replace(entry_of(body, 1), body_crc=1), body),
    ):
        world.letter(b"plc", Append(entries=(entry,)), [sent])
        assert refused(world) == RefusalCode.MALFORMED
    append(world, welcome, 2, [1.0])
    world.sync()
    assert world.root.samples_committed == 1, "its numbers are those of the producer, whatever it sends"


def test_nobody_can_append_what_declares_no_check(monkeypatch: pytest.MonkeyPatch) -> None:
    own = msgspec.structs.replace(NOTES, check=None)
    monkeypatch.setitem(declared.CONTENTS, (NoteStream.NOTES, PUTS), own)
    world = World()
    puts(world, hello(world), 1)
    assert refused(world) == RefusalCode.MALFORMED


def test_a_log_below_its_level_holds_none_and_the_producer_keeps_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    later = msgspec.structs.replace(NOTES, level=FIRST_LEVEL + 1)
    monkeypatch.setitem(declared.CONTENTS, (NoteStream.NOTES, PUTS), later)
    world = World()
    puts(world, hello(world), 1)
    assert refused(world) == RefusalCode.NOT_RECORDING


def test_a_replay_folds_the_head_and_a_snapshot_has_it() -> None:
    world = World()
    welcome = hello(world)
    puts(world, welcome, 1, count=2)
    puts(world, welcome, 2, topic=4)
    world.sync()
    folds = Folds()
    for frame in world.frames:
        cut = frame.body[:20] if frame.header.stream == NoteStream.NOTES else frame.body
        folds.replay(Frame(frame.header, cut))
    assert folds.unreadable == 0, "what lies behind the head is not looked at"
    assert counts(folds) == {1: 2, 4: 1}
    assert folds.snapshot() == world.root.folds.snapshot()
    assert list(Folds.restore(folds.snapshot(), 0).of(NoteCounts)) == [
        NoteCount(topic=1, notes=2),
        NoteCount(topic=4, notes=1),
    ]


def test_many_notes_in_one_frame_cost_what_one_does() -> None:
    header = FrameHeader(b"", 1, 1, MANY, NoteStream.NOTES, PUTS, 1 << 20, 0)
    records = msgspec.structs.replace(header, stream=int(Stream.CASES), kind=int(Kind.RECORDS))
    assert declared.fold_cost(header) == COST
    assert declared.fold_cost(records) >= FOLD_COST_MAX, "as many records would use up a wake-up"


@pytest.mark.parametrize("asked", [(), (NoteStream.NOTES, Stream.CASES), (NoteStream.NOTES,)])
@pytest.mark.parametrize("name", ["above", "another"])
def test_a_node_above_is_not_given_it(asked: tuple[int, ...], name: str) -> None:
    world = World(parent="above", parent_places=frozenset({"above"}))
    says = FeedHello(follower=name, log_id=LOG, position=Position(1, 1), streams=asked, credit_bytes=1 << 20)
    world.letter(b"above", says, principal="above")
    (answer,) = world.take(FeedAnswer)
    assert isinstance(answer, FeedAnswer)
    if name == "above":
        assert answer.verdict == ("refused" if asked == (NoteStream.NOTES,) else "resume")
    followers = world.root.feeds.leader.followers.values()
    assert all(one.hello.streams and NoteStream.NOTES not in one.hello.streams for one in followers)


class Notes:
    """A producer of notes at one door, one batch at a time."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self.acknowledged = 0

    def put(self, batches: int, size: int = 10) -> None:
        with SyncLink(self._data, "core") as link:
            link.send(ProducerHello(producer="desk", run=1))
            welcome = heard(link, ProducerWelcome)
            for _ in range(batches):
                body = body_of(welcome.producer_id, self.acknowledged + 1, 1, b"x" * size)
                link.send(Append(entries=(entry_of(body, 1),)), [body])
                self.acknowledged = heard(link, Appended).producer_sequence


def heard(link: SyncLink, kind: type[T]) -> T:
    ends = boot_ns() + PATIENCE_S * SECOND
    while boot_ns() < ends:
        received = link.receive(PATIENCE_S)
        assert received is not None and not isinstance(received[0], AppendRefused), received
        if isinstance(received[0], kind):
            return received[0]
    raise AssertionError(f"no {kind.__name__}")


def followed(data: Path, name: str, *streams: int) -> tuple[list[FrameHeader], list[str]]:
    """Headers of the frames that a follower of these streams is given until it has all, and the verdicts it hears."""
    machine = Follower(FollowerConfig(name=name, streams=streams))
    found: list[FrameHeader] = []
    verdicts: list[str] = []
    ends = boot_ns() + PATIENCE_S * SECOND
    with SyncLink(data, "core") as link:
        effects: list[Effect] = machine.step(LinkUp(), boot_ns())
        while not machine.is_level:
            assert boot_ns() < ends
            for effect in effects:
                if isinstance(effect, TellLeader):
                    link.send(effect.message)
            message, raw = link.receive(0.05) or (None, [])
            effects = machine.step(TimePassed(), boot_ns())
            if isinstance(message, FeedAnswer | FeedData | FeedAlive):
                verdicts += [message.verdict] if isinstance(message, FeedAnswer) else []
                effects += machine.step(Received(message, sum(map(len, raw))), boot_ns())
                found += [header for part in raw for header, _ in frames(part)]
                effects += machine.step(Digested(machine.position), boot_ns())
                effects += machine.step(MadeDurable(machine.position), boot_ns())
        for effect in effects:
            if isinstance(effect, TellLeader):
                link.send(effect.message)
    return found, verdicts


@pytest.mark.slow
def test_both_members_have_it_fold_it_alike_and_give_it_to_a_follower(tmp_path: Path) -> None:
    async def story() -> None:
        async with plant(tmp_path) as made:
            await made.start(1)
            await made.wait_for("active", "ready")
            desk = Notes(made.data(0))
            await aside(lambda: desk.put(20))
            await made.wait_until_level()
            assert all(counts(core.root.folds) == {1: 20} for core in made.cores.values())
            headers, _ = await aside(lambda: followed(made.data(0), "reader", NoteStream.NOTES))
            assert [one.stream for one in headers] == [NoteStream.NOTES] * 20
            await made.kill(0)
            await made.wait_for("", "solo")
            assert counts(made.cores[1].root.folds) == {1: 20}

    asyncio.run(story())


@pytest.mark.slow
@pytest.mark.parametrize("stream", ["notes", "cases", "nothing"])
def test_a_member_refuses_to_keep_it_to_itself(tmp_path: Path, stream: str) -> None:
    made = Plant(tmp_path)
    made.private_streams = (stream,)

    async def story() -> None:
        await made.start(0)
        with pytest.raises(ConfigurationRefused, match=stream):
            await made.kill(0)

    asyncio.run(story())


@pytest.mark.slow
def test_it_stays_for_a_named_follower_and_one_that_never_comes_fills_no_disk(tmp_path: Path) -> None:
    """What the follower had not taken when it went is a gap that it is told of."""
    core = Core(
        CoreArguments(
            node="root",
            cluster="c",
            log=LogConfig(segment_bytes=1 << 20, free_bytes_min=0),
            retention=Retention(keep_h=0.0, snapshot_every_s=1, named=(HISTORY, KEEPER)),
        )
    )

    def is_saved(sequence: int) -> bool:
        return core.log.snapshot.sequence >= sequence

    async def pruned(desk: Notes) -> int:
        """The log has snapshots near its end, and has let go of what nobody may hold; returns its first record."""
        for _ in range(2):
            await aside(lambda: desk.put(1))
            await aside(lambda: followed(tmp_path, "history", *Stream))
            end = core.log.committed.sequence
            await core._house._save_snapshot()
            await until(partial(is_saved, end), "a snapshot")
        core._house._prune(core.log.stats().size_bytes)
        return core.log.begin_sequence

    def held_percent() -> float:
        return core._house._held_percent(KEEPER, core.log.stats().size_bytes)

    async def story() -> None:
        async with running(core, tmp_path):
            desk = Notes(tmp_path)
            await aside(lambda: desk.put(20, size=100_000))
            assert await pruned(desk) == 1, "2 MB stay, though only the history has them"
            assert 50 < held_percent() < 90
            await aside(lambda: followed(tmp_path, KEEPER.name, NoteStream.NOTES))
            await until(lambda: core.root.feeds.leader.wanted_from(KEEPER.name) > 20, "it has said what it has")
            first = await pruned(desk)
            assert first > 1, "they go once it has them"
            await aside(lambda: desk.put(60, size=100_000))
            assert await pruned(desk) > first, "it does not come"
            assert core.log.stats().size_bytes < KEPT_BYTES + (2 << 20)
            assert held_percent() > 50, "whole segments go, of 1 MiB and a frame"
            _, verdicts = await aside(lambda: followed(tmp_path, KEEPER.name, NoteStream.NOTES))
            assert verdicts[0] == "snapshot"

    asyncio.run(story())
