"""A member whose records were pruned comes back: two COREs and a witness over real links, on real logs."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from albireo.codec.message import (
    FeedAlive,
    FeedAnswer,
    FeedData,
)
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
from albireo.model.instant import TimePassed
from albireo.node.core.actor import Core
from albireo.node.core.housekeeping import Retention
from albireo.runtime import SyncLink
from albireo.runtime.clock import boot_ns
from tests.parts.core_pair import Plant, aside, plant, until
from tests.parts.snapshot_join import ITEM, Producer

pytestmark = [pytest.mark.slow]


def as_history(data: Path, ended: threading.Event, verdicts: list[str]) -> None:
    """What lets retention go on: a follower of that name that keeps everything at once."""
    machine = Follower(FollowerConfig(name="history"))
    with SyncLink(data, "core") as link:
        effects: list[Effect] = machine.step(LinkUp(), boot_ns())
        while not ended.is_set():
            for effect in effects:
                if isinstance(effect, TellLeader):
                    link.send(effect.message)
            message, raw = link.receive(0.05) or (None, [])
            effects = machine.step(TimePassed(), boot_ns())
            if isinstance(message, FeedAnswer | FeedData | FeedAlive):
                if isinstance(message, FeedAnswer):
                    verdicts.append(message.verdict)
                effects += machine.step(Received(message, sum(map(len, raw))), boot_ns())
                effects += machine.step(Digested(machine.position), boot_ns())
                effects += machine.step(MadeDurable(machine.position), boot_ns())


@contextlib.asynccontextmanager
async def history_of(data: Path) -> AsyncIterator[list[str]]:
    ended, verdicts = threading.Event(), list[str]()
    thread = threading.Thread(target=as_history, args=(data, ended, verdicts))
    thread.start()
    try:
        yield verdicts
    finally:
        ended.set()
        await aside(thread.join)


async def pruned(made: Plant, producer: Producer) -> None:
    """The primary's log has let go of its beginning."""
    log = made.cores[0].log
    async with history_of(made.data(0)):
        await aside(lambda: producer.send(made.data(0), 60))
        await until(lambda: log.begin_sequence > 1, "pruned")


def test_an_empty_member_joins_a_pruned_holder_and_takes_over_from_it(tmp_path: Path) -> None:
    producer = Producer()

    async def story() -> None:
        async with plant(tmp_path) as made:
            await pruned(made, producer)
            end = made.cores[0].log.end.sequence
            backup = await made.start(1, Retention(snapshot_every_s=3600))
            await made.wait_for("active", "ready")
            await until(lambda: backup.log.snapshot.sequence >= end, "a restart replays nothing of what it was given")
            assert (
                1 < backup.log.begin_sequence <= made.cores[0].log.begin_sequence
            )  # It may have let go of more by now.
            assert backup.log.snapshot.sequence >= backup.log.begin_sequence
            await aside(lambda: producer.send(made.data(0), 5))
            await made.wait_until_level()
            await made.kill(0)
            await made.wait_for("", "solo")
            await aside(lambda: producer.send(made.data(1), 5))

    asyncio.run(story())
    assert producer.acknowledged == 70


def started_over(core: Core) -> int:
    """Ranges in quarantine of logs that did not go on."""
    return sum("begins later" in one.why for one in core.log.quarantine())


def test_a_member_that_lags_behind_what_is_kept_starts_over_and_its_followers_are_told(tmp_path: Path) -> None:
    """It keeps what it had in quarantine, and is not asked to start over again after a restart."""
    producer = Producer()

    async def story() -> None:
        async with plant(tmp_path) as made:
            await made.start(1)
            await made.wait_for("active", "ready")
            await aside(lambda: producer.send(made.data(0), 5))
            await made.kill(1)
            await made.wait_for("solo", "")
            await pruned(made, producer)
            backup = await made.start(1)
            async with history_of(made.data(1)) as verdicts:
                await made.wait_for("active", "ready")
                await until(lambda: "snapshot" in verdicts, "the follower knows of the gap")
            await made.wait_until_level()
            begin = backup.log.begin_sequence
            assert begin > 1
            assert started_over(backup) == 1
            await made.kill(1)
            await made.wait_for("solo", "")
            backup = await made.start(1)
            await made.wait_for("active", "ready")
            await made.wait_until_level()
            assert (backup.log.begin_sequence, started_over(backup)) == (begin, 1)

    asyncio.run(story())


def test_a_member_that_dies_before_its_log_reaches_the_folds_starts_over_again(tmp_path: Path) -> None:
    """Frames without the folds of before are no state: after a restart nothing of them may be believed."""
    producer = Producer()

    async def story() -> None:
        async with plant(tmp_path) as made:
            await pruned(made, producer)
            backup = await made.start(1, Retention(snapshot_every_s=300))
            backup.save_snapshot = lambda: None  # type: ignore[method-assign]  # Its disk takes long over it.
            await until(lambda: backup.log.begin_sequence > 1 and made.is_level(), "all frames")
            assert (backup.log.snapshot.sequence, backup.log.begin_sequence > 1) == (0, True)
            assert (made.state(0), made.state(1)) == ("solo", "catching_up")
            await made.kill(1)
            backup = await made.start(1)
            assert not backup.is_complete
            await made.wait_for("active", "ready")
            await made.wait_until_level()

    asyncio.run(story())


def rot(data: Path) -> Callable[[], bool]:
    """Turn over a byte of the item's declaration; the result tells whether it is as it was."""
    segment = min((data / "log" / "segments").glob("*.segment"))
    whole = segment.read_bytes()
    at = whole.index(ITEM.name.encode())
    assert whole[at : at + 1] != b"?"
    with segment.open("r+b") as file:
        file.seek(at)
        file.write(b"?")
    return lambda: segment.read_bytes()[at : at + 1] == whole[at : at + 1]


def test_rot_found_at_a_start_is_repaired_before_the_member_is_in_the_set_again(tmp_path: Path) -> None:
    """What the records said before the repair was not folded, so the folds are read anew."""
    producer = Producer()

    async def story() -> None:
        async with plant(tmp_path) as made:
            await made.start(1, Retention(snapshot_every_s=300))
            await made.wait_for("active", "ready")
            await aside(lambda: producer.send(made.data(0), 30))
            await made.wait_until_level()
            await made.kill(1)
            is_mended = rot(made.data(1))
            for derived in (*made.data(1).glob("log/snapshots/*"), *made.data(1).glob("log/segments/*.index")):
                derived.unlink()
            await made.wait_for("solo", "")
            backup = await made.start(1, Retention(snapshot_every_s=300))
            assert backup.log.corrupt
            await made.wait_for("active", "ready")
            assert is_mended()
            assert backup.log.corrupt == ()
            await made.wait_until_level()
            await made.kill(0)
            await made.wait_for("", "solo")
            await aside(lambda: producer.send(made.data(1), 5))

    asyncio.run(story())


def test_rot_found_by_the_scrub_is_repaired(tmp_path: Path) -> None:
    producer = Producer()

    async def story() -> None:
        async with plant(tmp_path) as made:
            backup = await made.start(1, Retention(snapshot_every_s=300))
            await made.wait_for("active", "ready")
            await aside(lambda: producer.send(made.data(0), 40))
            await until(lambda: backup.log.stats().segments > 2, "a sealed segment")
            is_mended = rot(made.data(1))
            await until(is_mended, "repaired")
            await made.wait_for("active", "ready")
            assert backup.log.corrupt == ()
            await made.wait_until_level()

    asyncio.run(story())
