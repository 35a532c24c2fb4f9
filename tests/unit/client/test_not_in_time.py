"""Somebody who is there and does not answer in time is told so, and never as a node that does not run."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from albireo.cli.target import failure_of
from albireo.client import NodeUnreachable, NotInTime, connect
from albireo.node.history.access import HOT_TIMEOUT_S, NOT_IN_TIME, NOT_RUNNING, HistoryAccess
from albireo.node.history.errors import HistoryRefused, UnknownItem
from albireo.runtime.directory import DataLock, RunDirectory
from tests.parts.core_pair import aside
from tests.parts.lone import ITEM, LoneNode
from tests.parts.port import free_ports

SHORT_S = 0.3


@pytest.fixture
def run_directory(tmp_path: Path) -> Iterator[Path]:
    """Data directory of a node that runs: boot is there."""
    data = tmp_path / "data"
    lock, run = DataLock.acquire(data), RunDirectory(data)
    yield data
    run.close()
    lock.release()


def ask(data: Path) -> None:
    with connect(data, timeout_s=SHORT_S, is_pinned=True) as client:
        client.status()


def test_a_port_that_takes_connections_and_says_nothing_is_somebody() -> None:
    with socket.create_server(("127.0.0.1", 0)) as stopped:
        port = stopped.getsockname()[1]
        with pytest.raises(NotInTime, match="has not spoken") as caught:
            connect(f"tcp://127.0.0.1:{port}", timeout_s=SHORT_S)
    assert "start" not in caught.value.remedy and "ask again" in caught.value.remedy


def test_a_port_that_nobody_has_is_nobody() -> None:
    with pytest.raises(NodeUnreachable, match="nobody answers") as caught:
        connect(f"tcp://127.0.0.1:{free_ports(1)[0]}", timeout_s=SHORT_S)
    assert not isinstance(caught.value, NotInTime)


def test_a_core_that_hangs_or_begins_anew_is_no_node_that_is_to_be_started(run_directory: Path) -> None:
    with pytest.raises(NotInTime, match="does not listen yet"):  # It begins anew.
        ask(run_directory)
    with socket.socket(socket.AF_UNIX) as hung:
        hung.bind(str(run_directory / "run" / "core"))
        hung.listen()
        with pytest.raises(NotInTime, match="has not spoken") as caught:
            ask(run_directory)
    assert "albireo node run" not in failure_of(caught.value, run_directory).remedy


def test_without_a_boot_the_node_is_to_be_started(tmp_path: Path) -> None:
    RunDirectory(tmp_path).close()
    with pytest.raises(NodeUnreachable, match="nothing listens") as caught:
        ask(tmp_path)
    assert not isinstance(caught.value, NotInTime)


def test_a_history_that_is_busy_is_told_and_core_knows_the_items_that_no_file_has(tmp_path: Path) -> None:
    async def story() -> None:
        node = LoneNode(tmp_path, "boiler")
        async with node.core_up():
            async with node.history_up():
                pass  # It has a manifest now, and no item.
            await aside(lambda: node.produce("boiler", [(0, 1, 1.0, 0)]))
            lock = DataLock.acquire(node.data)
            with socket.socket(socket.AF_UNIX) as hung:
                (node.data / "run" / "history").unlink(missing_ok=True)
                hung.bind(str(node.data / "run" / "history"))
                hung.listen()
                access = HistoryAccess(node.data)
                row = await aside(lambda: access.item(ITEM.name))
                assert (row["name"], access.lacks) == (ITEM.name, NOT_IN_TIME)
                assert f"{HOT_TIMEOUT_S:g} s" in access.lacks
                assert (await aside(access.reader)).item(ITEM.name) == row
                with pytest.raises(UnknownItem):
                    await aside(lambda: HistoryAccess(node.data).item("nothing"))
                with pytest.raises(HistoryRefused, match="not answered"):
                    await aside(lambda: HistoryAccess(node.data, "root/below").reader())
            lock.release()
        stopped = HistoryAccess(node.data)
        await aside(stopped.reader)
        assert stopped.lacks == NOT_RUNNING

    asyncio.run(story())
