"""A bell wakes its loop from any thread, on a loop of ours and on a foreign one."""

import asyncio
import os
import threading
from collections.abc import Callable

import pytest

from albireo.runtime.loop import ActorLoop, Bell
from tests.parts.waiting import PATIENCE_S

LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [ActorLoop, asyncio.SelectorEventLoop]


@pytest.mark.parametrize("loop_of", LOOPS)
def test_rings_of_other_threads_wake_the_loop_and_many_are_one(
    loop_of: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def story() -> int:
        rung = asyncio.Event()
        calls: list[int] = []

        def heard() -> None:
            calls.append(len(calls))
            rung.set()

        bell = Bell(asyncio.get_running_loop(), heard)
        for _ in range(3):
            thread = threading.Thread(target=lambda: [bell.ring() for _ in range(100)])
            thread.start()
            thread.join()
            await asyncio.wait_for(rung.wait(), PATIENCE_S)
            rung.clear()
        bell.close()
        return len(calls)

    with asyncio.Runner(loop_factory=loop_of) as runner:
        assert runner.run(story()) == 3


@pytest.mark.parametrize("loop_of", LOOPS)
def test_a_closed_bell_wakes_nobody_and_leaves_its_descriptor_alone(
    loop_of: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def story() -> None:
        bell = Bell(asyncio.get_running_loop(), lambda: pytest.fail("nobody rang"))
        taken = bell._descriptor
        bell.close()
        reader, writer = os.pipe()
        assert taken in (reader, writer), "the number is somebody else's by now"
        assert bell.ring() is False
        os.set_blocking(reader, False)
        with pytest.raises(BlockingIOError):
            os.read(reader, 8)
        for one in (reader, writer):
            os.close(one)

    with asyncio.Runner(loop_factory=loop_of) as runner:
        runner.run(story())
