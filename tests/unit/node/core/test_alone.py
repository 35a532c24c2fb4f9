"""Whether the store of a node alone is proven to have all that was committed in the tenure before."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from albireo.node.core.actor import Core
from albireo.node.core.arguments import CoreArguments
from albireo.runtime.actor.actor import ActorContext, Supervised, run_actor
from albireo.runtime.directory import DataLock
from tests.parts.core_actor import ARGUMENTS
from tests.parts.waiting import PATIENCE_S

pytestmark = pytest.mark.slow


def goes_on(data: Path, lock: DataLock | None, *, crashes: bool = False) -> bool:
    """Run CORE once, under a boot that holds this lock, or none; whether its tenure goes on with the one before."""
    core = Core(msgspec.convert(ARGUMENTS, CoreArguments))
    supervised = None if lock is None else Supervised(identity=b"core#1", lock=lock)

    async def story() -> None:
        made: asyncio.Future[ActorContext] = asyncio.get_running_loop().create_future()
        run = asyncio.create_task(run_actor(core, data, supervised=supervised, on_made=made.set_result))
        context = await made
        async with asyncio.timeout(PATIENCE_S):
            await context.ready.wait()
        if crashes:
            run.cancel()
        else:
            context.stop()
        await asyncio.wait([run])

    asyncio.run(story())
    return core.root.role.goes_on


@pytest.mark.parametrize("crashes", [False, True])
def test_a_tenure_goes_on_under_the_boot_of_the_one_before_and_under_no_other(tmp_path: Path, *, crashes: bool) -> None:
    lock = DataLock.acquire(tmp_path)
    assert [goes_on(tmp_path, lock, crashes=crashes) for _ in range(3)] == [False, True, True]
    lock.release()
    lock = DataLock.acquire(tmp_path)
    assert [goes_on(tmp_path, lock, crashes=crashes) for _ in range(2)] == [False, True]
    lock.release()


def put_back(data: Path) -> None:
    """Put the copy of another tenure's store there."""
    (data / "log").rename(data / "log of before")
    assert not goes_on(data, None)


def run_between(data: Path) -> None:
    """Let a tenure pass that left nothing."""
    assert not goes_on(data, None)


def damage(data: Path) -> None:
    """Change a byte of the first record."""
    segment = min((data / "log" / "segments").iterdir())
    content = bytearray(segment.read_bytes())
    content[200] ^= 1
    segment.write_bytes(content)


@pytest.mark.parametrize("spoil", [put_back, run_between, damage])
def test_what_may_not_be_the_whole_store_of_the_tenure_before_goes_on_with_nothing(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    lock = DataLock.acquire(tmp_path)
    assert [goes_on(tmp_path, lock) for _ in range(2)] == [False, True]
    spoil(tmp_path)
    assert not goes_on(tmp_path, lock)
    lock.release()
