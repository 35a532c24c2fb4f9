"""Plain sockets: who gets in, what a peer can't do, and that a wait ends."""

import threading
from collections.abc import Iterator

import pytest
import zmq

from albireo.model.instant import SECOND
from albireo.runtime.clock import boot_ns
from albireo.runtime.errors import AddressTaken, EndpointRefused
from albireo.runtime.link.link import LinkLimits
from albireo.runtime.link.plain import PARTS_KEPT, Fate, PlainSocket, PlainSockets, check_open_to
from albireo.runtime.link.sockets import Sockets
from tests.parts.foreign import ForeignSockets
from tests.parts.port import free_port
from tests.parts.waiting import PATIENCE_S

LIMITS = LinkLimits(message_bytes_max=1000, send_messages_max=5)


@pytest.fixture
def foreign() -> Iterator[ForeignSockets]:
    with ForeignSockets() as made:
        yield made


@pytest.fixture
def plain() -> Iterator[PlainSockets]:
    made = PlainSockets()
    yield made
    made.close()


def taken(plain: PlainSockets, socket: PlainSocket, count: int) -> list[list[bytes]]:
    """The next messages, so many."""
    found: list[list[bytes]] = []
    ends = boot_ns() + PATIENCE_S * SECOND
    while len(found) < count:
        plain.wait(1.0)
        found += socket.drain(count - len(found))
        assert boot_ns() < ends
    return found


@pytest.mark.parametrize(
    ("endpoint", "peers", "networks"),
    [
        ("tcp://127.0.0.1:5556", [], []),
        ("tcp://[::1]:5556", [], []),
        ("tcp://10.0.0.5:5556", ["10.0.0.7"], ["10.0.0.7/32"]),
        ("tcp://*:5556", ["10.0.0.7/24"], ["10.0.0.0/24"]),
        ("tcp://[fd00::1]:5556", ["fd00::/64"], ["fd00::/64"]),
    ],
)
def test_an_endpoint_is_open_to_this_machine_or_to_those_listed(
    endpoint: str, peers: list[str], networks: list[str]
) -> None:
    assert check_open_to(endpoint, peers) == networks


@pytest.mark.parametrize(
    ("endpoint", "peers"),
    [
        ("tcp://10.0.0.5:5556", []),
        ("tcp://0.0.0.0:5556", []),
        ("tcp://*:5556", []),
        ("tcp://localhost:5556", []),
        ("tcp://plant:5556", ["10.0.0.7"]),
        ("tcp://10.0.0.5:5556", ["desk"]),
        ("10.0.0.5", ["10.0.0.7"]),
    ],
)
def test_another_endpoint_is_refused(endpoint: str, peers: list[str]) -> None:
    with pytest.raises(EndpointRefused):
        check_open_to(endpoint, peers)


def test_only_peers_that_are_listed_get_in(plain: PlainSockets, foreign: ForeignSockets) -> None:
    port = free_port()
    bound = plain.bind(Sockets.router, f"tcp://127.0.0.1:{port}", LIMITS, ["127.0.0.2"])
    stranger = foreign.open(zmq.DEALER, f"tcp://127.0.0.1:{port}")
    stranger.send(b"stranger")
    foreign.wait_for(stranger, zmq.EVENT_DISCONNECTED)
    foreign.open(zmq.DEALER, f"tcp://127.0.0.2:0;127.0.0.1:{port}").send(b"listed")
    assert [parts[1:] for parts in taken(plain, bound, 1)] == [[b"listed"]]


def test_an_address_that_is_taken_is_told(plain: PlainSockets) -> None:
    port = free_port()
    plain.bind(Sockets.router, f"tcp://127.0.0.1:{port}", LIMITS)
    with pytest.raises(AddressTaken, match="in use"):
        plain.bind(Sockets.publisher, f"tcp://127.0.0.1:{port}", LIMITS)


def test_of_a_message_of_many_parts_few_are_kept_and_a_part_too_large_ends_the_connection(
    plain: PlainSockets, foreign: ForeignSockets
) -> None:
    port = free_port()
    bound = plain.bind(Sockets.router, f"tcp://127.0.0.1:{port}", LIMITS)
    peer = foreign.open(zmq.DEALER, f"tcp://127.0.0.1:{port}")
    peer.send_multipart([b"x"] * 500)
    peer.send(b"after")
    many, after = taken(plain, bound, 2)
    assert (len(many), after[1:]) == (PARTS_KEPT, [b"after"])
    peer.send(bytes(1001))
    foreign.wait_for(peer, zmq.EVENT_DISCONNECTED)
    foreign.open(zmq.DEALER, f"tcp://127.0.0.1:{port}").send(b"other")
    assert [parts[1:] for parts in taken(plain, bound, 1)] == [[b"other"]]


def test_a_peer_that_does_not_read_is_full_and_one_that_is_not_there_is_gone(
    plain: PlainSockets, foreign: ForeignSockets
) -> None:
    port = free_port()
    bound = plain.bind(Sockets.router, f"tcp://127.0.0.1:{port}", LIMITS)
    peer = foreign.open(zmq.DEALER, f"tcp://127.0.0.1:{port}", RCVHWM=5)
    peer.send(b"here")
    ((identity, _),) = taken(plain, bound, 1)
    fates = {bound.send([identity, bytes(900)]) for _ in range(20_000)}
    assert fates == {Fate.QUEUED, Fate.FULL}
    assert bound.send([b"nobody", b"x"]) is Fate.GONE


def test_a_wait_is_ended_by_another_thread(plain: PlainSockets) -> None:
    waker = threading.Timer(0.05, plain.wake)
    waker.start()
    plain.wait(PATIENCE_S)
    waker.join()
    began = boot_ns()
    plain.wait(0.0)
    assert boot_ns() - began < PATIENCE_S * SECOND / 2
