"""Actors in threads of one process: they are built one after another, and stop whenever they are asked to."""

import asyncio
import socket
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from albireo.model.instant import Instant
from albireo.runtime import ActorContext, Letter
from albireo.runtime.actor.directory import DataLock
from albireo.runtime.actor.placement import BUILDING, EXIT_CRASHED, ActorEnd, ActorSpec, ThreadPlacement, build

MEETING = threading.Barrier(2, timeout=0.2)
MET: list[int] = []


def wait_for_another(arguments: object) -> None:
    """Factory that sees whether another one is at work at the same time."""
    del arguments
    MET.append(MEETING.wait())


def test_no_two_actors_are_built_at_a_time() -> None:
    """A type that two threads use for the first time at once ends the process (msgspec 0.22)."""
    spec = ActorSpec(name="one", factory=f"{__name__}:wait_for_another")

    def built() -> None:
        with pytest.raises(threading.BrokenBarrierError):
            build(spec)

    threads = [threading.Thread(target=built) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert MET == []


class Quiet:
    """An actor that does nothing until it is stopped."""

    name = "one"

    async def start(self, actor: ActorContext) -> None: ...
    def drained(self, letters: Sequence[Letter]) -> None: ...
    def ticked(self, now: Instant) -> None: ...
    async def stop(self) -> None: ...


def quiet(arguments: object) -> Quiet:
    del arguments
    return Quiet()


class Listening(Quiet):
    """An actor that listens at an address."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint

    async def start(self, actor: ActorContext) -> None:
        actor.bind_tcp("clients", self._endpoint, None)


def listening(arguments: dict[str, object]) -> Listening:
    return Listening(str(arguments["endpoint"]))


def test_an_address_that_is_taken_ends_an_actor_with_what_to_do_and_no_traceback(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Two nodes with one port: a user's mistake, and none of the program."""

    async def story(endpoint: str) -> ActorEnd:
        ended: asyncio.Future[ActorEnd] = asyncio.get_running_loop().create_future()
        lock = DataLock.acquire(tmp_path)
        placement = ThreadPlacement(tmp_path, lock, "info")
        spec = ActorSpec(name="one", factory=f"{__name__}:listening", arguments={"endpoint": endpoint})
        placement.spawn(spec, b"one#1", ended.set_result)
        async with asyncio.timeout(60):
            end = await ended
        lock.release()
        return end

    with socket.create_server(("127.0.0.1", 0)) as server:
        endpoint = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        end = asyncio.run(story(endpoint))
    words = (
        f"link 'clients': {endpoint}: Address already in use; end who listens there, or give the node another address"
    )
    assert end == ActorEnd(EXIT_CRASHED, words)
    assert "Traceback" not in capfd.readouterr().err


def test_a_stop_asked_before_the_thread_has_made_its_actor_is_not_lost(tmp_path: Path) -> None:
    """The node waited for an actor that nobody had told, and ended with 75 when it had waited long enough."""

    async def story() -> None:
        ended: asyncio.Future[ActorEnd] = asyncio.get_running_loop().create_future()
        lock = DataLock.acquire(tmp_path)
        placement = ThreadPlacement(tmp_path, lock, "info")
        with BUILDING:
            placement.spawn(ActorSpec(name="one", factory=f"{__name__}:quiet"), b"one#1", ended.set_result)
            placement.request_stop("one")
        async with asyncio.timeout(60):
            assert await ended == ActorEnd(0, "stopped")
        lock.release()

    asyncio.run(story())
