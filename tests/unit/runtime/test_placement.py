"""Actors in threads of one process: they share its types, and stop whenever they are asked to."""

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from albireo.model.instant import Instant
from albireo.runtime import ActorContext, Letter
from albireo.runtime.actor.placement import EXIT_CRASHED, ActorEnd, ActorSpec, ThreadPlacement
from albireo.runtime.directory import DataLock

FIRST_USE = """
import sys, threading
import msgspec
from albireo.runtime.actor.first_use import settle_types

COUNT, THREADS = 200, 4
for number in range(COUNT):
    exec(f'''
class Outer{number}(msgspec.Struct):
    inner: "list[Inner{number}]" = []
    named: "dict[str, Inner{number}] | None" = None

class Inner{number}(msgspec.Struct):
    outer: "Outer{number} | None" = None
''')
settle_types()
together = threading.Barrier(THREADS)

def decode_each():
    for number in range(COUNT):
        together.wait()
        msgspec.json.decode(b'{"inner": [{"outer": {}}]}', type=globals()[f"Outer{number}"])

sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=decode_each) for _ in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("all decoded")
"""
BUILT = threading.Event()


def test_types_that_several_threads_use_at_once_end_no_process() -> None:
    """Without `settle_types` the process dies each time (msgspec 0.22)."""
    ended = subprocess.run([sys.executable, "-c", FIRST_USE], capture_output=True, check=False, text=True)
    assert (ended.returncode, ended.stdout) == (0, "all decoded\n"), ended.stderr


class Quiet:
    """An actor that does nothing until it is stopped."""

    name = "one"

    async def start(self, actor: ActorContext) -> None: ...
    def drained(self, letters: Sequence[Letter]) -> None: ...
    def ticked(self, now: Instant) -> None: ...
    async def stop(self) -> None: ...


def quiet_once_built(arguments: object) -> Quiet:
    del arguments
    BUILT.wait()
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
        placement.spawn(ActorSpec(name="one", factory=f"{__name__}:quiet_once_built"), b"one#1", ended.set_result)
        placement.request_stop("one")
        BUILT.set()
        async with asyncio.timeout(60):
            assert await ended == ActorEnd(0, "stopped")
        lock.release()

    asyncio.run(story())
