"""Devices of a topology, each looked at as its adapter would: connected, and a row of its table read for each unit."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from albireo.cli.findings import Finding
from albireo.codec.topology.topology import LoadedTopology
from albireo.field.contract import Adapter, ConfigurationError, DeviceLost, PolledColumns, ToldAdapter
from albireo.field.kinds import ROWS, Surroundings, create_adapter
from albireo.model import quality
from albireo.model.samples import Strings
from albireo.runtime.clock import boot_ns

CONNECT_S: Final = 1.0
LOOK_S: Final = 10.0
"""Longest look at one device."""
_LOST: Final = (
    "compare url, device_id and timeout_ms with the device's settings; one that takes only one connection has it with "
    "a node that runs, or with another program. The node starts all the same and keeps trying"
)
_BAD: Final = "compare the row with the manual: its table, its address from 0, its unit (device_id)"


def devices(loaded: LoadedTopology) -> Iterator[Finding]:
    """The device of every adapter that has one at an address."""
    for node in loaded.topology.node:
        for adapter, arguments in zip(node.adapter, loaded.arguments[node.id], strict=True):
            if adapter.url.startswith("tcp://"):
                yield asyncio.run(looked_at(f"device {node.id}:{adapter.name}", adapter.url, arguments))


async def looked_at(name: str, url: str, arguments: Mapping[str, Any]) -> Finding:
    """The device of the adapter with these arguments, rows of its table among them."""
    by_unit = {row.get("device_id"): row for row in reversed(arguments[ROWS])}
    rows = list(reversed(by_unit.values()))
    try:
        adapter = create_adapter({**arguments, ROWS: rows}, Surroundings(Path(), boot_ns))
        if isinstance(adapter, ToldAdapter):
            return _reachable(name, url)
        read = await _read(adapter)
    except ConfigurationError as error:
        return Finding(name=name, status="failed", value=f"{url}: {error}", remedy="albireo topology check says more")
    except TimeoutError:
        return Finding(name=name, status="warning", value=f"{url}: no answer within {LOOK_S:g} s", remedy=_LOST)
    except DeviceLost as lost:
        found = _reachable(name, url)
        is_there = found.status == "good"
        return Finding(name=name, status="warning", value=f"{url}: {lost.reason}", remedy=_LOST) if is_there else found
    is_good = all(one == quality.GOOD for _, one, _ in read)
    shown = ", ".join(text for _, _, text in read)
    value, remedy = f"{url} answers: {shown}", "" if is_good else _BAD
    return Finding(name=name, status="good" if is_good else "warning", value=value, remedy=remedy)


async def _read(adapter: Adapter) -> list[tuple[int, int, str]]:
    """(row, quality, description) of each item, in one poll."""
    try:
        async with asyncio.timeout(LOOK_S):
            await adapter.connect()
            return sorted(one for columns in await adapter.poll() for one in _described(adapter, columns))
    finally:
        with contextlib.suppress(DeviceLost):
            await adapter.close()


def _described(adapter: Adapter, columns: PolledColumns) -> Iterator[tuple[int, int, str]]:
    values: Sequence[object] = columns.value.to_list() if isinstance(columns.value, Strings) else columns.value.tolist()
    for row, value, mark in zip(columns.rows.tolist(), values, columns.quality.tolist(), strict=True):
        shown = f"= {value}" if mark == quality.GOOD else f"is {quality.name(mark)}"
        yield row, mark, f"{adapter.items[row].name} {shown}"


def _reachable(name: str, url: str) -> Finding:
    parts = urlsplit(url)
    try:
        with socket.create_connection((parts.hostname or "", parts.port or 0), CONNECT_S):
            return Finding(name=name, status="good", value=f"{url} answers")
    except OSError as error:
        remedy = "is the device on and in this network? The node starts all the same and keeps trying"
        return Finding(name=name, status="warning", value=f"{url}: {error.strerror or error}", remedy=remedy)
