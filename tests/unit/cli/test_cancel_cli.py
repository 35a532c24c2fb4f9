"""`albireo command cancel` of an order to an item of the node itself: its adapter is away, or has it already."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from albireo.cli import cli
from albireo.client import connect
from albireo.model.command import Outcome
from tests.parts.access_cli import with_node
from tests.parts.tree_orders import SET_POINT, Device
from tests.parts.waiting import PATIENCE_S, awaited

pytestmark = pytest.mark.slow


def cancel(data: Path, command_id: str, *more: str) -> Result:
    return CliRunner().invoke(cli, ["command", "cancel", command_id, *more, "--data", str(data)])


def declared(data: Path) -> None:
    """The item is known, and its adapter has gone."""
    one = Device(data)
    one.start()
    with connect(data, timeout_s=PATIENCE_S) as client:
        awaited(lambda: client.items(SET_POINT.name))
    one.end()


def test_an_order_that_waits_for_its_adapter_is_cancelled_and_never_sent(tmp_path: Path) -> None:
    def first() -> None:
        declared(tmp_path)

    def second() -> None:
        with connect(tmp_path, timeout_s=PATIENCE_S) as client, ThreadPoolExecutor(1) as pool:
            ordered = pool.submit(client.write, "speed", 1.0, expires_s=PATIENCE_S)
            listed = awaited(client.commands)
            done = cancel(tmp_path, listed[0].command_id, "--reason", "mistake", "--json")
            assert done.exit_code == 0, done.output
            told: Any = json.loads(done.stdout.splitlines()[-1])
            assert (told["outcome"], told["cause"]) == ("cancelled", "abortion-by-cancel")
            receipt = ordered.result()
            assert (receipt.outcome, receipt.cause) == (Outcome.REJECTED, "abortion-by-cancel")
            again = cancel(tmp_path, listed[0].command_id)
            assert (again.exit_code, "ended already: cancelled" in again.output) == (1, True)
            unknown = cancel(tmp_path, "c9")
            assert (unknown.exit_code, "albireo command list" in unknown.output) == (1, True)
        one = Device(tmp_path)
        one.start()
        with connect(tmp_path, timeout_s=PATIENCE_S) as client:
            assert client.write("speed", 2.0, expires_s=PATIENCE_S).outcome is Outcome.VERIFIED
        one.end()
        assert [order.value for order in one.orders] == [2.0]

    with_node(tmp_path, first)
    entries = with_node(tmp_path, second)
    assert [(one.action, one.detail) for one in entries if one.action == "cancel"] == [("cancel", "mistake")]
