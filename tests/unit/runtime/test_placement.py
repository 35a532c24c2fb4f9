"""Actors in threads of one process are built one after another."""

import threading

import pytest

from albireo.runtime.actor.placement import ActorSpec, build

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
