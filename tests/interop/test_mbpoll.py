"""The simulated tunnel's PLCs, asked by mbpoll: what our adapter and a foreign master see must be the same."""

import asyncio
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from albireo.field.kinds import Surroundings, create_adapter
from albireo.model.command import Outcome
from albireo.model.samples import Strings
from albireo.plant.tunnel.processes import Tunnel, start_tunnel
from albireo.runtime.clock import boot_ns
from tests.parts.field import LONG_MS, Plc, in_loop
from tests.parts.port import free_port
from tests.parts.waiting import PATIENCE_S

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("mbpoll") is None, reason="Debian package mbpoll is missing (make peers)"),
]


def mbpoll(port: int, kind: str, address: int, *values: str, count: int = 1) -> list[str]:
    """Read `count` values, or write `values`. `kind` as mbpoll's -t: 0 coil, 4 holding, 4:float."""
    command = [
        "mbpoll",
        "-m",
        "tcp",
        "-o",
        "10",
        "-p",
        str(port),
        "-0",
        "-1",
        "-a",
        "1",
        "-t",
        kind,
        "-r",
        str(address),
    ]
    if not values:
        command += ["-c", str(count)]
    done = subprocess.run(
        [*command, "127.0.0.1", "--", *values] if values else [*command, "127.0.0.1"],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return re.findall(r"^\[\d+\]:\s+(\S+)", done.stdout, re.M)


@pytest.fixture(scope="module")
def tunnel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tunnel]:
    with start_tunnel(tmp_path_factory.mktemp("t")) as one:
        yield one


def test_mbpoll_reads_the_plcs_of_the_tunnel(tunnel: Tunnel) -> None:
    for port in tunnel.ports.values():
        assert len(mbpoll(port, "4", 0, count=2)) == 2


def test_what_mbpoll_writes_our_adapter_reads_and_the_other_way_round(tmp_path: Path) -> None:
    async def story() -> None:
        device = Plc(free_port())
        await device.start()
        rows = [
            {"name": "a", "kind": "holding", "address": "5", "type": "uint16", "writable": "true"},
            {"name": "f", "kind": "holding", "address": "6", "type": "float32", "word_order": "cdab",
             "writable": "true"},
            {"name": "c", "kind": "coil", "address": "9", "writable": "true"},
        ]  # fmt: skip
        arguments = {
            "name": "p",
            "kind": "modbus",
            "url": f"tcp://127.0.0.1:{device.port}",
            "items": rows,
            "timeout_ms": LONG_MS,
        }
        one = create_adapter(arguments, Surroundings(tmp_path, boot_ns))
        await one.connect()
        await asyncio.to_thread(mbpoll, device.port, "4", 5, "4711")
        polled = await one.poll()
        values = [column.value.tolist() for column in polled if not isinstance(column.value, Strings)]
        assert values == [[0.0], [4711], [0]]
        for row, value in enumerate((815, 2.5, True)):
            assert (await one.write(row, value, lambda: "")).outcome is Outcome.VERIFIED
        assert await asyncio.to_thread(mbpoll, device.port, "4", 5) == ["815"]
        assert await asyncio.to_thread(mbpoll, device.port, "4:float", 6) == ["2.5"]
        assert await asyncio.to_thread(mbpoll, device.port, "0", 9) == ["1"]
        await one.close()
        await device.stop()

    in_loop(story)
