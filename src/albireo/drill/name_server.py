"""A name server in the drill's own program, which can be silent, refuse and lie; and what lets a process ask it alone.

The process has a mount namespace of its own, in which other files stand in the place of those that say whom to ask.
"""

import asyncio
import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Final

from albireo.drill.serving import ServingThread

PORT: Final = 53
NOWHERE: Final = "192.0.2.1"
"""Address for documents (RFC 5737), at which nobody is."""
_HEADER: Final = struct.Struct("!HHHHHH")
_IPV4, _ANSWERED, _REFUSED = 1, 0x8180, 0x8185


class NameServer(ServingThread, asyncio.DatagramProtocol):
    """Says that every name stands for one address."""

    def __init__(self, address: str) -> None:
        """`address`: the one that is told."""
        super().__init__("name server")
        self.address = address
        self.is_silent = False
        self.refuses = False
        self.own_address = f"127.53.{os.getpid() // 256 % 256}.{os.getpid() % 256}"
        self._transport: asyncio.DatagramTransport

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(lambda: self, (self.own_address, PORT))

    async def shut(self) -> None:
        self._transport.close()

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if not self.is_silent:
            self._transport.sendto(answer(data, self.address, refuses=self.refuses), addr)

    def within(self, directory: Path) -> tuple[str, ...]:
        """Command that runs another one where this name server is asked, and no file."""
        (directory / "resolv.conf").write_text(f"nameserver {self.own_address}\n", encoding="utf-8")
        (directory / "hosts").write_text("127.0.0.1 localhost\n", encoding="utf-8")
        mounts = " && ".join(f'mount --bind "$0/{file}" /etc/{file}' for file in ("resolv.conf", "hosts"))
        return ("unshare", "--mount", "sh", "-c", f'{mounts} && exec "$@"', str(directory))


def answer(query: bytes, address: str, *, refuses: bool) -> bytes:
    """The answer to a question of one name; of other kinds than IPv4 addresses it has none.

    Spec: RFC 1035, 4.1.
    """
    end = query.index(b"\0", _HEADER.size) + 5
    question, number = query[_HEADER.size : end], query[:2]
    has_one = not refuses and question[-4:-2] == struct.pack("!H", _IPV4)
    header = number + _HEADER.pack(0, _REFUSED if refuses else _ANSWERED, 1, has_one, 0, 0)[2:]
    octets = bytes(int(one) for one in address.split("."))
    row = struct.pack("!HHHIH", 0xC00C, _IPV4, 1, 1, len(octets)) + octets
    return header + question + (row if has_one else b"")


def objection() -> str:
    """Why there can be none here; empty: it can."""
    if os.geteuid() != 0:
        return "a name server of its own needs root"
    if shutil.which("unshare") is None:
        return "unshare not installed (Debian: util-linux)"
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True, check=False)
    return tried.stderr.strip()
