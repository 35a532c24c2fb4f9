"""Heads of requests that never end: too large, or too slow."""

import asyncio
import contextlib
import socket
from pathlib import Path

import pytest

from albireo.face.web import actor, arrivals
from tests.parts.port import free_ports
from tests.parts.waiting import PATIENCE_S, awaited
from tests.parts.web import WebNode

pytestmark = pytest.mark.slow


def answer_to(node: WebNode, *parts: bytes) -> bytes:
    """Send these, and read until the face closes."""
    with socket.create_connection(("127.0.0.1", node.port), PATIENCE_S) as line:
        with contextlib.suppress(OSError):
            for part in parts:
                line.sendall(part)
        said = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := line.recv(65_536):
                said += piece
        return said


@pytest.mark.parametrize("flood", [b"X-A: b\r\n" * 10_000, b"X-A: " + b"b" * 80_000, b"X" * 80_000])
def test_a_flood_of_headers_ends_the_connection(tmp_path: Path, flood: bytes) -> None:
    async def main() -> None:
        node = WebNode(tmp_path)
        async with node.up():
            head = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            said = await asyncio.to_thread(answer_to, node, head, *[flood] * 40)
            assert said == b"" or said.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 "))
            assert (await node.get("/livez")).status == 200

    asyncio.run(main())


HOST = b"Host: 127.0.0.1\r\n"
UPGRADE = HOST + (
    b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


@pytest.mark.parametrize(
    "parts",
    [
        (b"POST /login HTTP/1.1\r\n" + HOST + b"Content-Length: 9\r\n\r\n{",),
        (b"POST /login HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n1",),
        (b"GET /livez HTTP/1.1\r\n" + HOST + b"Content-Length: 9\r\n\r\n", b"x"),
        (b"POST /ws HTTP/1.1\r\n" + UPGRADE + b"Content-Length: 5\r\n\r\nhello",),
        (b"POST /login HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX-A: b\r\n",),
        (b"GET /ws HTTP/1.1\r\n" + UPGRADE + b"X-A: b\r\n" * 300 + b"\r\n",),
        (b"GET /ws HTTP/1.1\r\n" + UPGRADE + b"X-A: " + b"b" * 20_000 + b"\r\n\r\n",),
    ],
)
def test_no_connection_waits_for_the_rest_of_a_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: tuple[bytes, ...]
) -> None:
    monkeypatch.setattr(arrivals, "BODY_S", 0.2)

    async def main() -> None:
        node = WebNode(tmp_path)
        async with node.up():
            said = await asyncio.to_thread(answer_to, node, *parts)
            assert b" 101 " not in said
            assert (await node.get("/livez")).status == 200

    asyncio.run(main())


def test_one_address_leaves_connections_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "CONNECTIONS_OF_ONE_MAX", 3)

    async def main() -> None:
        node = WebNode(tmp_path)
        async with node.up():
            with contextlib.ExitStack() as stack:
                for _ in range(3):
                    stack.enter_context(socket.create_connection(("127.0.0.1", node.port), PATIENCE_S))
                await node.until("/livez", lambda one: one.status == 503)
                with socket.create_connection(("127.0.0.1", node.port), PATIENCE_S, ("127.0.0.2", 0)) as line:
                    line.sendall(b"GET /livez HTTP/1.1\r\n" + HOST + b"\r\n")
                    assert (await asyncio.to_thread(line.recv, 99)).startswith(b"HTTP/1.1 200")
            await node.until("/livez", lambda one: one.status == 200)

    asyncio.run(main())


def test_headers_behind_a_body_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "BODY_S", 1.0)

    async def main() -> None:
        node = WebNode(tmp_path)
        async with node.up():
            with socket.create_connection(("127.0.0.1", node.port), PATIENCE_S) as line:
                line.sendall(b"GET /livez HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n")
                assert (await asyncio.to_thread(line.recv, 99)).startswith(b"HTTP/1.1 200")
                (served,) = node.actor._server.server_state.connections
                line.sendall(b"X-A: b\r\n" * 2)
                with contextlib.suppress(ConnectionResetError):
                    while await asyncio.to_thread(line.recv, 4_096):
                        pass
                assert b"x-a" not in {name for name, _ in served.headers}  # type: ignore[union-attr]

    asyncio.run(main())


def test_handshakes_that_do_not_end_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "CONNECTIONS_OF_ONE_MAX", 3)
    monkeypatch.setattr(arrivals, "REFUSED_MAX", 1)
    monkeypatch.setattr(actor, "HEAD_S", 1.0)

    def told(line: socket.socket) -> bytes:
        with contextlib.suppress(ConnectionResetError):
            return line.recv(99)
        return b""

    async def main() -> None:
        (port,) = free_ports(1)
        node = WebNode(tmp_path, bind=f"https://127.0.0.1:{port}")
        async with node.face_up():
            await asyncio.to_thread(awaited, lambda: node.actor._server.started)
            with contextlib.ExitStack() as stack:
                lines = [
                    stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE_S)) for _ in range(5)
                ]
                assert await asyncio.to_thread(told, lines[4]) == b"", "one more than there may be"
                lines[0].sendall(b"\x16\x03\x01\x40\x00")
                assert await asyncio.to_thread(told, lines[0]) == b"", "its time is over"

    asyncio.run(main())


def test_pings_whose_answers_nobody_reads_pile_up_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        node = WebNode(tmp_path)
        async with node.up():
            with socket.create_connection(("127.0.0.1", node.port), PATIENCE_S) as line:
                line.sendall(b"GET /ws HTTP/1.1\r\nOrigin: " + node.url.encode() + b"\r\n" + UPGRADE + b"\r\n")
                assert b" 101 " in await asyncio.to_thread(line.recv, 4_096)
                (served,) = (
                    one
                    for one in node.actor._server.server_state.connections
                    if isinstance(one, arrivals.BoundedSocket)
                )
                served.pause_writing()  # As the loop does once more is to be sent than it keeps gladly.
                line.sendall(b"\x89\xfd" + bytes(4) + b"p" * 125)
                line.sendall(b"\x88\x80" + bytes(4))
                said = await asyncio.to_thread(line.recv, 4_096)
                assert b"ppp" not in said, "the close is answered, the ping is not"

    asyncio.run(main())


@pytest.mark.parametrize("frame", [b"\x89\x80", b"\x8a\x80", b"\x01\x80", b"\x81\x80"])
def test_a_flood_of_frames_ends_its_page_and_holds_up_no_other(tmp_path: Path, frame: bytes) -> None:
    """Empty pings, pongs, pieces of a message and messages: many thousands in one piece of the network."""
    rest = b"\x00\x80" if frame[0] == 1 else frame
    flood = (frame + bytes(4)) + (rest + bytes(4)) * 200_000

    async def main() -> None:
        node = WebNode(tmp_path)
        async with node.up():
            head = b"GET /ws HTTP/1.1\r\nOrigin: " + node.url.encode() + b"\r\n" + UPGRADE + b"\r\n"
            said = await asyncio.to_thread(answer_to, node, head, *[flood] * 20)
            assert b" 101 " in said and said.count(b"\x8a") < arrivals.FRAMES_MAX + 100
            assert (await node.get("/livez")).status == 200

    asyncio.run(main())


def test_a_message_in_slow_pieces_without_end_ends_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "FRAMES_MAX", 5)

    async def main() -> None:
        node = WebNode(tmp_path)
        async with node.up():
            with socket.create_connection(("127.0.0.1", node.port), PATIENCE_S) as line:
                line.sendall(b"GET /ws HTTP/1.1\r\nOrigin: " + node.url.encode() + b"\r\n" + UPGRADE + b"\r\n")
                assert b" 101 " in await asyncio.to_thread(line.recv, 4_096)
                (served,) = (
                    one
                    for one in node.actor._server.server_state.connections
                    if isinstance(one, arrivals.BoundedSocket)
                )
                line.sendall(b"\x01\x80" + bytes(4))
                for count in range(1, 7):
                    await asyncio.to_thread(awaited, lambda count=count: len(served.frames) == count)
                    served._until = 0.0  # As if a second went by.
                    line.sendall(b"\x00\x80" + bytes(4))
                assert b"more than 5 frames at once" in await asyncio.to_thread(line.recv, 4_096)

    asyncio.run(main())


def test_a_head_that_does_not_come_ends_the_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "HEAD_S", 0.2)

    async def main() -> None:
        node = WebNode(tmp_path)
        async with node.up():
            for part in (b"", b"GET /livez HTTP/1.1\r\n", b"GET /livez HTTP/1.1\r\n\r\nGET /l"):
                said = await asyncio.to_thread(answer_to, node, part)
                assert said == b"" or b"200 OK" in said

    asyncio.run(main())
