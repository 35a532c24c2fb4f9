"""The keep: sockets that outlive a process, with what comes meanwhile."""

import socket
from collections.abc import Iterator

import pytest

from albireo.runtime.actor.keep import KEPT_MAX, ActorKeeps, Keep


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    keeps = ActorKeeps()
    yield keeps.of("comm.house")
    keeps.close()


def bound() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind(("127.0.0.1", 0))
    made.settimeout(5.0)
    return made


def test_a_socket_and_what_came_for_it_are_there_at_the_next_start(ends: tuple[int, int]) -> None:
    first, address = Keep(ends), None
    with bound() as own:
        address = own.getsockname()
        first.put("events", own)
    del first
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.sendto(b"meanwhile", address)
    found = Keep(ends).take()
    assert list(found) == ["events"] and found["events"].recv(99) == b"meanwhile"
    again = Keep(ends).take()
    assert again["events"].getsockname() == address, "it stays kept"
    for one in (*found.values(), *again.values()):
        one.close()


def test_a_name_is_kept_once_and_dropped_by_it(ends: tuple[int, int]) -> None:
    keep = Keep(ends)
    with bound() as one, bound() as other, bound() as third:
        keep.put("a", one)
        keep.put("a", other)
        keep.put("b", third)
        found = keep.take()
        assert found["a"].getsockname() == other.getsockname() and found.keys() == {"a", "b"}
        keep.drop("a")
        left = keep.take()
        assert left.keys() == {"b"}
        for kept in (*found.values(), *left.values()):
            kept.close()


def test_there_is_no_room_without_bound(ends: tuple[int, int]) -> None:
    keep = Keep(ends)
    with bound() as one:
        for number in range(KEPT_MAX):
            keep.put(f"s{number}", one)
        with pytest.raises(OSError, match="kept already"):
            keep.put("one more", one)
        found = keep.take()
        assert len(found) == KEPT_MAX
        for kept in found.values():
            kept.close()
