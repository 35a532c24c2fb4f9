"""A whole tunnel in one process: the physics and its PLCs, for who runs several tunnels on one machine.

    python -m albireo.plant.tunnel.whole --directory DIR [--seed N] [--guarded PLC]...

The PLCs are the same servers as in processes of their own, and talk to the plant through the same socket; what only
processes of their own can do, such as to be killed one by one, is not to be had here.
"""

import argparse
import asyncio
from collections.abc import Collection
from pathlib import Path

from albireo.plant.tunnel.child import until_told
from albireo.plant.tunnel.plant import Plant
from albireo.plant.tunnel.plc.memory import WordStore
from albireo.plant.tunnel.plc.plcs import PLCS
from albireo.plant.tunnel.plc.server import PlcServer, follow


class WholeTunnel:
    """Plant and PLCs of one directory."""

    def __init__(self, directory: Path, seed: int, guarded: Collection[str] = ()) -> None:
        """`guarded`: PLCs whose set points are reached through the output mailboxes only."""
        self._directory = directory
        self._plant = Plant(seed)
        self._servers = {
            plc: PlcServer(registers, store=WordStore(directory / f"{plc}.retained"), is_guarded=plc in guarded)
            for plc, registers in PLCS.items()
        }

    @property
    def ports(self) -> dict[str, int]:
        """Modbus TCP port of each PLC; 0 before it is open."""
        return {plc: server.port for plc, server in self._servers.items()}

    async def run(self, is_ready: asyncio.Event) -> None:
        """Serves until it is cancelled; sets the event when every port is open."""
        try:
            async with asyncio.TaskGroup() as group:
                has_socket = asyncio.Event()
                group.create_task(self._plant.run(self._directory, has_socket))
                await has_socket.wait()
                for plc, server in self._servers.items():
                    is_open = asyncio.Event()
                    group.create_task(follow(server, plc, self._directory, is_open))
                    await is_open.wait()
                is_ready.set()
        finally:
            for server in self._servers.values():
                await server.stop()


async def _main(arguments: argparse.Namespace) -> None:
    tunnel = WholeTunnel(arguments.directory, arguments.seed, arguments.guarded)
    await until_told(tunnel.run, lambda: {"ports": tunnel.ports}, is_child=arguments.child)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m albireo.plant.tunnel.whole", description="A tunnel with its PLCs in one process."
    )
    parser.add_argument("--directory", type=Path, required=True, help="where plant.sock is opened")
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same tunnel")
    parser.add_argument("--guarded", choices=sorted(PLCS), action="append", default=[], help="PLC behind its mailboxes")
    parser.add_argument("--child", action="store_true", help="end at the end of stdin")
    asyncio.run(_main(parser.parse_args()))


if __name__ == "__main__":
    main()
