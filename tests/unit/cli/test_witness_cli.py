"""`albireo witness`: what it refuses before anything is started, and what it says of a witness."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from albireo.cli import cli
from albireo.node.vote.seats import AskingMember, AskingPair
from albireo.node.vote.witness import Witness, WitnessArguments
from albireo.runtime import running
from tests.parts.waiting import PATIENCE_S

TOPOLOGY = """
cluster = "11111111-2222-3333-4444-555555555555"

[[witness]]
name = "w1"
endpoint = "tcp://127.0.0.1:47001"

[[witness]]
name = "idle"
endpoint = "tcp://127.0.0.1:47002"

[[node]]
id = "root"
voters = ["witness:w1"]

[node.primary]
client = "tcp://127.0.0.1:47003"
peer = ["tcp://127.0.0.1:47004"]

[node.backup]
client = "tcp://127.0.0.1:47005"
peer = ["tcp://127.0.0.1:47006"]
"""


def witness(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["witness", *arguments])


@pytest.mark.parametrize(("name", "reason"), [("w2", "it has w1, idle"), ("idle", "no pair lists witness:idle")])
def test_a_witness_with_nothing_to_do_is_refused(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "plant.toml").write_text(TOPOLOGY)
    found = witness("--topology", str(tmp_path / "plant.toml"), "--name", name, "--data", str(tmp_path / "d"), "--json")
    assert found.exit_code == 78
    assert reason in json.loads(found.stdout.splitlines()[-1])["error"]
    assert not (tmp_path / "d").exists()


def test_where_no_witness_runs_status_says_so(tmp_path: Path) -> None:
    found = witness("--name", "w1", "--data", str(tmp_path), "--status")
    assert (found.exit_code, "no witness answers" in found.stderr) == (69, True)


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """Of an empty witness that runs in a thread."""
    members = tuple(AskingMember(place=f"root[{member}]", endpoints=()) for member in ("primary", "backup"))
    pair = AskingPair(node="root", cluster="c/root", voters=("witness:w1",), members=members, drift=0.05)
    arguments = WitnessArguments(voter="witness:w1", endpoint="tcp://127.0.0.1:*", pairs=(pair,))
    is_ready, is_over = threading.Event(), threading.Event()

    async def live() -> None:
        async with running(Witness(arguments), tmp_path):
            is_ready.set()
            await asyncio.to_thread(is_over.wait)

    thread = threading.Thread(target=asyncio.run, args=(live(),))
    thread.start()
    assert is_ready.wait(PATIENCE_S)
    yield tmp_path
    is_over.set()
    thread.join()


def test_status_names_every_pair_and_its_state(data: Path) -> None:
    shown = witness("--name", "w1", "--data", str(data), "--status")
    assert (shown.exit_code, shown.stdout.splitlines()[1].split("\t")[:3]) == (0, ["root", "empty", "-"])
    [pair] = json.loads(witness("--name", "w1", "--data", str(data), "--status", "--json").stdout)["pairs"]
    assert (pair["cluster"], pair["record"], pair["refused"]) == ("c/root", None, {})
