"""Proof that one connection attempt gives: refused, open, silent."""

import asyncio
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from albireo.runtime import EndpointRefused, Reach, running
from albireo.runtime.link.probe import PROBES_MAX, Probes, reach
from tests.parts.transport import End, key_pair, two_ends, until
from tests.parts.waiting import PATIENCE_S


def endpoint_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


@contextmanager
def listening(address: str = "127.0.0.1", backlog: int = 5) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.bind((address, 0))
        listener.listen(backlog)
        yield listener


@contextmanager
def full_backlog() -> Iterator[socket.socket]:
    """A listener to which the kernel lets nobody else: it drops what asks, as a dead machine would."""
    with listening(backlog=0) as listener:
        waiting = []
        for _ in range(4):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
            waiting.append(one)
        yield listener
        for one in waiting:
            one.close()


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_port_with_a_listener_is_open_and_refused_once_it_is_gone(address: str) -> None:
    with listening(address) as listener:
        endpoint = endpoint_of(listener)
        assert asyncio.run(reach(endpoint, PATIENCE_S)) is Reach.OPEN
    assert asyncio.run(reach(endpoint, PATIENCE_S)) is Reach.REFUSED


def test_a_name_at_which_nobody_was_proven_is_silent() -> None:
    """Whoever refuses there may be somebody else (test_names.py)."""
    for name in ("no-such-host.invalid", "localhost"):
        assert asyncio.run(reach(f"tcp://{name}:1", PATIENCE_S)) is Reach.SILENT


def test_a_process_that_hangs_is_open_because_its_kernel_answers() -> None:
    """The listener never accepts: a paused member must not look like one that is gone."""
    with listening() as listener:
        assert [asyncio.run(reach(endpoint_of(listener), PATIENCE_S)) for _ in range(3)] == [Reach.OPEN] * 3


def test_no_answer_in_time_is_silent() -> None:
    with full_backlog() as listener:
        assert asyncio.run(reach(endpoint_of(listener), 0.1)) is Reach.SILENT


def test_a_firewalls_word_is_no_proof() -> None:
    """ICMP "port unreachable" ends a connection attempt with the same error as an RST does."""
    try:
        sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
        forger = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    except PermissionError:
        pytest.skip("forging an ICMP message takes a raw socket, hence root")

    async def story(listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        answer = asyncio.create_task(reach(endpoint_of(listener), 2 * PATIENCE_S))
        port = listener.getsockname()[1]
        async with asyncio.timeout(PATIENCE_S):  # Half of the probe's own time: it is the message that ends it.
            while not answer.done():
                packet = await loop.sock_recv(sniffer, 2048)
                if is_syn_to(packet, port):
                    forger.sendto(port_unreachable(packet), ("127.0.0.1", 0))
                    await asyncio.wait({answer}, timeout=0.2)
        assert answer.result() is Reach.SILENT

    with sniffer, forger, full_backlog() as listener:
        sniffer.setblocking(False)
        sniffer.bind(("lo", 0))
        asyncio.run(story(listener))


def is_syn_to(packet: bytes, port: int) -> bool:
    header = (packet[0] & 15) * 4
    return packet[9] == socket.IPPROTO_TCP and packet[header + 2 : header + 4] == struct.pack("!H", port)


def port_unreachable(packet: bytes) -> bytes:
    """The ICMP message (type 3, code 3) that quotes `packet`."""
    quoted = packet[: (packet[0] & 15) * 4 + 8]
    blank = struct.pack("!BBHI", 3, 3, 0, 0) + quoted
    total = sum(struct.unpack(f"!{len(blank) // 2}H", blank))
    total = (total >> 16) + (total & 0xFFFF)
    return struct.pack("!BBHI", 3, 3, ~(total + (total >> 16)) & 0xFFFF, 0) + quoted


def test_a_connection_to_itself_is_no_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel may choose the wanted port for our own end; then both ends are one socket and nobody listens."""
    with listening() as free:
        port = free.getsockname()[1]

    async def from_the_same_port(loop: asyncio.SelectorEventLoop, sock: socket.socket, address: Any) -> None:
        sock.bind(("127.0.0.1", port))
        await original(loop, sock, address)

    original = asyncio.SelectorEventLoop.sock_connect
    monkeypatch.setattr(asyncio.SelectorEventLoop, "sock_connect", from_the_same_port)
    assert asyncio.run(reach(f"tcp://127.0.0.1:{port}", PATIENCE_S)) is Reach.REFUSED


def test_what_is_no_endpoint_is_refused() -> None:
    with pytest.raises(EndpointRefused):
        asyncio.run(reach("127.0.0.1:80", 1.0))


def test_an_actor_probes_and_hears_the_answer_in_its_own_turn(tmp_path: Path) -> None:
    async def story() -> None:
        keys, _ = key_pair(tmp_path)
        answers: list[Reach] = []
        async with two_ends(tmp_path) as (server, client):
            endpoint = server.bind(keys).endpoint
            client.actor.probe(endpoint, PATIENCE_S, answers.append)
            await until(lambda: answers == [Reach.OPEN])
        other = End("other")
        async with running(other, tmp_path / "other"):
            other.actor.probe(endpoint, PATIENCE_S, answers.append)
            await until(lambda: answers == [Reach.OPEN, Reach.REFUSED])
            with pytest.raises(EndpointRefused):
                other.actor.probe("nowhere", PATIENCE_S, answers.append)

    asyncio.run(story())


def test_probes_are_bounded_and_end_with_their_actor() -> None:
    async def story() -> None:
        answers: list[Reach] = []
        probes = Probes(lambda function, answer: function(answer))
        with full_backlog() as listener:
            for _ in range(PROBES_MAX):
                probes.begin(endpoint_of(listener), PATIENCE_S, answers.append)
            assert answers == []
            probes.begin(endpoint_of(listener), PATIENCE_S, answers.append)
            assert answers == [Reach.SILENT]
            probes.close()
            await until(lambda: not probes._tasks)
        assert answers == [Reach.SILENT]

    asyncio.run(story())
