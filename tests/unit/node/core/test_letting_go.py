"""What a node lets go of by age: the age is log time, so a wall clock that jumps lets nothing go."""

import asyncio
import struct
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from albireo.codec.record import Audited
from albireo.log import LogConfig
from albireo.machine.kernel.events import OrdersGiven
from albireo.machine.kernel.named import NamedFollower
from albireo.model.instant import SECOND
from albireo.node.core.actor import Core
from albireo.node.core.arguments import CoreArguments
from albireo.node.core.housekeeping import Retention
from albireo.runtime import clock, running
from tests.parts.core_pair import until

pytestmark = pytest.mark.slow

YEAR_NS: Final = 366 * 86_400 * SECOND
KEEPER: Final = NamedFollower(name="keeper", days=30)
NOBODY: Final = NamedFollower(name="nobody", days=0)


def is_saved(core: Core, sequence: int) -> bool:
    return core.log.snapshot.sequence >= sequence


async def filled(core: Core) -> None:
    """Let the log have some sealed segments, and two snapshots behind them."""
    for _ in range(2):
        for _ in range(20):
            core.tell(OrdersGiven([Audited(at_ns=1, user="u", action="a", subject="s" * 1_000) for _ in range(100)]))
            core.wake()
            await until(lambda: core.root.folded_to.sequence == core.log.end.sequence, "committed")
        end = core.root.folded_to.sequence
        await core._house._save_snapshot()
        await until(partial(is_saved, core, end), "a snapshot")


@pytest.mark.parametrize(
    ("retention", "is_kept"),
    [
        (Retention(keep_h=24.0, snapshot_every_s=3600, named=(NOBODY,)), True),
        (Retention(keep_h=0.0, snapshot_every_s=3600, named=(KEEPER,)), True),
        (Retention(keep_h=0.0, snapshot_every_s=3600, named=(NOBODY,)), False),
    ],
    ids=["age of the log", "age for a follower", "no age"],
)
@pytest.mark.parametrize("jump_ns", [YEAR_NS, -YEAR_NS])
def test_a_wall_clock_that_jumps_lets_no_record_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, retention: Retention, jump_ns: int, *, is_kept: bool
) -> None:
    shift = bytearray(8)
    monkeypatch.setattr(clock, "_shift", shift)
    log = LogConfig(segment_bytes=1 << 20, free_bytes_min=0)
    core = Core(CoreArguments(node="root", cluster="c", log=log, retention=retention))

    async def story() -> None:
        async with running(core, tmp_path):
            await filled(core)
            struct.pack_into("<q", shift, 0, jump_ns)
            size = core.log.stats().size_bytes
            core._house._prune(size)
            assert (core.log.begin_sequence == 1) is is_kept
            if KEEPER in retention.named:
                assert core._house._held_percent(KEEPER, size) < 0.1

    asyncio.run(story())
