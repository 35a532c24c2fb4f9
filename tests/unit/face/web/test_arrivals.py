"""Heads of requests that never end: too large, or too slow."""

import asyncio
import contextlib
import socket
from pathlib import Path

import pytest

from albireo.face.web import arrivals
from tests.parts.waiting import PATIENCE_S
from tests.parts.web_face import WebNode

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


def test_a_head_that_does_not_come_ends_the_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "HEAD_S", 0.2)

    async def main() -> None:
        node = WebNode(tmp_path)
        async with node.up():
            for part in (b"", b"GET /livez HTTP/1.1\r\n", b"GET /livez HTTP/1.1\r\n\r\nGET /l"):
                said = await asyncio.to_thread(answer_to, node, part)
                assert said == b"" or b"200 OK" in said

    asyncio.run(main())
