"""Commands on a real node that watches nothing but this machine, as a newcomer meets them."""

import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from albireo.cli import cli
from albireo.client import ClientError, connect
from tests.long_form import some
from tests.parts.waiting import PATIENCE_S

pytestmark = [pytest.mark.drill, pytest.mark.slow]

TOPOLOGY = """cluster = "3f0c1c7a-1c1e-4c59-9f0e-0d6f2a9be001"
[[node]]
id = "root"
"""
PROGRAM = [sys.executable, "-c", "from albireo.cli import main; main()"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Data directory of a node that runs and has values."""
    site = tmp_path_factory.mktemp("site")
    (site / "topology.toml").write_text(TOPOLOGY)
    command = [*PROGRAM, "node", "run", "--topology", str(site / "topology.toml"), "--data", str(site / "data")]
    with (site / "said").open("wb") as said:
        node = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    try:
        ends = time.monotonic() + PATIENCE_S
        while node.poll() is None and not has_values(site / "data"):
            assert time.monotonic() < ends, (site / "said").read_text()
            time.sleep(0.1)
        assert node.poll() is None, (site / "said").read_text()
        yield site / "data"
    finally:
        node.terminate()
        assert node.wait() == 0


def has_values(data: Path) -> bool:
    try:
        with connect(data, timeout_s=2.0, is_pinned=True) as client:
            readings = client.ask("read")
    except ClientError:
        return False
    assert isinstance(readings, list)
    return any(one["name"].endswith("host/connected") and one["value"] for one in readings)


def test_a_terminal_gets_lines_for_people_and_no_json(tmp_path: Path) -> None:
    (tmp_path / "topology.toml").write_text(TOPOLOGY)
    ours, theirs = pty.openpty()
    command = [*PROGRAM, "node", "run", "--topology", str(tmp_path / "topology.toml"), "--data", str(tmp_path / "data")]
    node = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
    os.close(theirs)
    said, is_stopping = b"", False
    try:
        with contextlib.suppress(OSError):  # EIO: every process of the node has closed the terminal.
            while select.select([ours], [], [], PATIENCE_S)[0] and (piece := os.read(ours, 65_536)):
                said += piece
                if not is_stopping and b"node root runs; in another terminal" in said:
                    is_stopping = True
                    node.terminate()  # In the background SIGINT may be ignored, by the node too.
        assert is_stopping and node.wait(PATIENCE_S) == 0, said.decode()
    finally:
        os.close(ours)
        node.kill()
        node.wait()
    text = said.decode()
    assert "boot node_started" in text and "node_stopped" in text
    assert '{"at"' not in text


@pytest.mark.parametrize("closed", some([">&-", "2>&-", "<&- >&- 2>&-"], 3))
def test_a_node_that_is_started_with_closed_streams_runs(tmp_path: Path, closed: str) -> None:
    """Its files and sockets would take their numbers, and its logger would have nothing to write to."""
    (tmp_path / "topology.toml").write_text(TOPOLOGY)
    command = [*PROGRAM, "node", "run", "--topology", str(tmp_path / "topology.toml"), "--data", str(tmp_path / "data")]
    node = subprocess.Popen(["sh", "-c", f'exec "$@" {closed}', "sh", *command], stdin=subprocess.DEVNULL)
    try:
        ends = time.monotonic() + PATIENCE_S
        while node.poll() is None and not has_values(tmp_path / "data"):
            assert time.monotonic() < ends
            time.sleep(0.1)
        actors = json.loads(asked(tmp_path / "data", "status", "--json").stdout)["actors"]
        found = {(one["state"], one["restarts"]) for one in actors}
        assert (len(actors), found) == (5, {("running", 0)}), actors
        node.terminate()
        assert node.wait(PATIENCE_S) == 0
    finally:
        node.kill()
        node.wait()


def asked(data: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, [*arguments, "--data", str(data)])


def test_the_status_is_a_page_and_details_come_when_asked_for(data: Path) -> None:
    page = asked(data, "status").stdout.splitlines()
    assert page[0] == "root runs alone, it is no member of a pair" and page[1].startswith("SAFE: ")
    assert len(page) < 10 and not any("longest turn" in line for line in page)
    detailed = asked(data, "status", "-v").stdout.splitlines()
    assert any("longest turn" in line for line in detailed)
    told = json.loads(asked(data, "status", "--json").stdout)
    assert told["summary"]["is_safe"] is True and told["log"]["sequence"] > 0


@pytest.mark.parametrize(("more", "number"), [([], signal.SIGINT), (["--json"], signal.SIGTERM), ([], signal.SIGHUP)])
@pytest.mark.parametrize("command", some([["items", "--watch"], ["status", "--watch"]], 1))
def test_a_signal_ends_what_is_shown_again_and_again_and_is_no_failure(
    data: Path, command: list[str], more: list[str], number: signal.Signals
) -> None:
    arguments = [*PROGRAM, *command, *more, "--data", str(data)]
    with subprocess.Popen(
        arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # What runs tests in the background ignores some.
    ) as shown:
        assert shown.stdout is not None and shown.stdout.readline()
        shown.send_signal(number)
        _, said = shown.communicate(timeout=PATIENCE_S)
    assert shown.returncode == 0 and b"Abort" not in said and b"Traceback" not in said, said


def test_an_item_that_is_not_there_is_a_failure(data: Path) -> None:
    result = asked(data, "items", "nosuch", "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"] == "no item is called nosuch"
    assert asked(data, "items", "*connected").exit_code == 0
