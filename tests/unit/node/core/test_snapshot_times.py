"""Times at which a member makes snapshots, and at which it opens its links: a restart has little to replay, unheard."""

import asyncio
import socket
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest

from albireo.codec.record import Audited
from albireo.machine.fold.folds import Folds
from albireo.machine.kernel.events import OrdersGiven
from albireo.node.core import housekeeping
from albireo.node.core.actor import Core
from albireo.node.core.housekeeping import Retention
from tests.parts import core_pair
from tests.parts.core_pair import plant, until

pytestmark = pytest.mark.slow

SELDOM: Final = Retention(snapshot_every_s=3600)
FRAMES: Final = 60


def append_small_frames(core: Core) -> int:
    """FRAMES frames of one record each; returns the end of the log."""
    for number in range(FRAMES):
        core.tell(OrdersGiven([Audited(at_ns=number, user="u", action="a", subject="s")]))
    core.wake()
    return core.log.end.sequence


def test_many_small_frames_bring_a_snapshot_forward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "SNAPSHOT_FRAMES", FRAMES // 2)

    async def story() -> None:
        async with plant(tmp_path) as made:
            await made.start(1, SELDOM)
            await made.wait_for("active", "ready")
            backup = made.cores[1]
            await until(lambda: backup.log.snapshot.sequence, "the one of a member that is ready")
            begin = backup.log.snapshot.sequence
            end = append_small_frames(made.cores[0])
            assert end >= begin + FRAMES
            await until(lambda: backup.log.snapshot.sequence >= begin + FRAMES // 2, "a snapshot by frames")
            await until(lambda: not backup._house._is_replay_long(), "frames are counted from that one on")

    asyncio.run(story())


def test_a_member_that_has_caught_up_has_a_snapshot_when_it_is_ready(tmp_path: Path) -> None:
    async def story() -> None:
        async with plant(tmp_path) as made:
            end = append_small_frames(made.cores[0])
            backup = await made.start(1, SELDOM)
            await made.wait_for("active", "ready")
            await until(lambda: backup.log.snapshot.sequence >= end, "a snapshot with all it caught up with")

    asyncio.run(story())


def test_links_open_behind_the_replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever replays hears nobody; a link that takes messages meanwhile would be a lie."""
    heard_while_replaying: list[int] = []

    async def story() -> None:
        async with plant(tmp_path) as made:
            at = urlsplit(made.peer_ends[1])

            class Watched(Core):
                def _rebuild(self) -> tuple[Folds, bytes]:
                    with socket.socket() as one:
                        heard_while_replaying.append(one.connect_ex((at.hostname, at.port)))
                    return super()._rebuild()

            monkeypatch.setattr(core_pair, "Core", Watched)
            await made.start(1)
            await made.wait_for("active", "ready")

    asyncio.run(story())
    assert heard_while_replaying
    assert all(heard_while_replaying), "nobody listens: each connection is refused"
