"""Ends of real processes: the three signals to boot, to each actor and to all at once, and output that nobody takes."""

import contextlib
import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from albireo.runtime.directory import holder
from tests.long_form import some
from tests.parts.port import free_ports
from tests.parts.waiting import PATIENCE_S, awaited

pytestmark = [pytest.mark.drill, pytest.mark.slow]

PROGRAM = [sys.executable, "-c", "from albireo.cli import main; main()"]
TOPOLOGY = """cluster = "3f0c1c7a-1c1e-4c59-9f0e-0d6f2a9be001"
[runtime]
log_target = "{target}"
[[node]]
id = "root"
endpoint = "tcp://127.0.0.1:{ports[5]}"
[[node]]
id = "root/two"
voters = ["witness:w1"]
primary = {{ client = "tcp://127.0.0.1:{ports[0]}", peer = ["tcp://127.0.0.1:{ports[1]}"] }}
backup = {{ client = "tcp://127.0.0.1:{ports[2]}", peer = ["tcp://127.0.0.1:{ports[3]}"] }}
[[witness]]
name = "w1"
endpoint = "tcp://127.0.0.1:{ports[4]}"
"""
NODE = ("node", "run", "--id", "root")
WITNESS = ("witness", "--name", "w1", "--json")
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
END_S = 20.0
"""Time for an end on a busy machine. A wait for somebody who reads the output has no bound."""


class Ended:
    """A command that is started in a session of its own, with an output that the test chose."""

    def __init__(self, directory: Path, output: int, *arguments: str) -> None:
        self.data = directory / "data"
        self._asked = (
            ["status"] if arguments == NODE else [*WITNESS, "--status", "--topology", str(directory / "t.toml")]
        )
        self.process = subprocess.Popen(
            [*PROGRAM, *arguments, "--topology", str(directory / "t.toml"), "--data", str(self.data)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=_with_signals,  # One thread: what runs tests in the background ignores some.
        )

    def running(self) -> "Ended":
        awaited(self._runs)
        return self

    def _runs(self) -> bool:
        assert self.process.poll() is None, self.process.returncode
        command = [*PROGRAM, *self._asked, "--data", str(self.data)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def stopped(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(END_S)

    def actors(self) -> dict[str, psutil.Process]:
        """Its actors by name; one that has just ended has none."""
        children = psutil.Process(self.process.pid).children()
        return {words[-1]: one for one in children if (words := _words(one))}


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def _with_signals() -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., Ended]]:
    """Starts a command; the log of a node goes to its output, or to a file in its data directory."""
    made: list[Ended] = []

    def started(output: int, *arguments: str, target: str = "stdout") -> Ended:
        (tmp_path / "t.toml").write_text(TOPOLOGY.format(target=target, ports=free_ports(6)))
        made.append(Ended(tmp_path, output, *arguments))
        return made[-1]

    yield started
    for one in made:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(one.process.pid, signal.SIGKILL)
        one.process.wait()


def fill(pipe: int) -> None:
    """Let nobody write to this pipe any more."""
    other = os.open(f"/proc/self/fd/{pipe}", os.O_WRONLY | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(other, b"x")
    os.close(other)


def pipe_of_one_page() -> tuple[int, int]:
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    return reader, writer


def journal(data: Path) -> list[dict[str, object]]:
    path = data / "journal" / "node.log"
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


@pytest.mark.parametrize("arguments", [NODE, WITNESS], ids=["node", "witness"])
@pytest.mark.parametrize("state", ["full", "full from the start", "gone", "a full disk"])
def test_output_that_nobody_takes_delays_no_start_and_no_stop(
    begin: Callable[..., Ended], state: str, arguments: tuple[str, ...]
) -> None:
    """Boot waited in a write to standard error when all else had ended, or took the lost reader for a failure."""
    reader, writer = pipe_of_one_page()
    output = os.open("/dev/full", os.O_WRONLY) if state == "a full disk" else writer
    if state == "full from the start":
        fill(writer)
    ended = begin(output, *arguments).running()
    if state == "full":
        fill(writer)
    os.close(reader if state == "gone" else writer)
    assert ended.stopped() == 0
    assert holder(ended.data) == 0


def test_a_full_pipe_delays_no_giving_up(begin: Callable[..., Ended], tmp_path: Path) -> None:
    _, writer = pipe_of_one_page()
    fill(writer)
    taken = begin(writer, *NODE)
    awaited(lambda: holder(taken.data) == taken.process.pid)
    second = Ended(tmp_path, writer, *NODE)
    try:
        assert second.process.wait(END_S) == 78
    finally:
        second.process.kill()
        second.process.wait()
    assert taken.stopped() == 0


@pytest.mark.parametrize("number", SIGNALS, ids=[one.name for one in SIGNALS])
def test_a_signal_to_all_processes_at_once_stops_them_in_order(begin: Callable[..., Ended], number: int) -> None:
    """So a closing terminal sends SIGHUP, and `timeout` or a service manager SIGTERM; it comes twice to some."""
    ended = begin(subprocess.DEVNULL, *NODE, target="file").running()
    known = len(journal(ended.data))
    os.killpg(ended.process.pid, number)
    if number != signal.SIGINT:
        os.killpg(ended.process.pid, number)
    assert ended.process.wait(PATIENCE_S) == 0
    told = journal(ended.data)[known:]
    assert [one for one in told if one["level"] in ("warning", "error")] == []
    ends = [one["name"] for one in told if one.get("new") == "ended"]
    assert ends[0] == "comm.host" and ends[-1] == "core", "LOGGER ends last, and nobody writes that down"


@pytest.mark.parametrize("number", some(SIGNALS, 3), ids=lambda one: one.name)
def test_an_actor_that_gets_a_signal_of_its_own_stops_in_order_and_is_started_again(
    begin: Callable[..., Ended], number: int
) -> None:
    ended = begin(subprocess.DEVNULL, *NODE, target="file").running()
    for name, process in sorted(ended.actors().items()):
        process.send_signal(number)
        process.wait(PATIENCE_S)
        awaited(lambda: ended.actors().get(name, process).pid != process.pid)  # noqa: B023  # Before the next round.
        ended.running()
    assert ended.stopped() == 0
    told = journal(ended.data)
    causes = {one["name"]: one["cause"] for one in told if one.get("new") == "waiting"}
    assert causes == dict.fromkeys(causes, "stopped") and len(causes) >= 4
    assert [one["was_clean"] for one in told if one["event"] == "log_opened"] == [True, True]


def test_a_signal_to_all_while_they_start_is_a_clean_stop(begin: Callable[..., Ended]) -> None:
    """An actor that was still loading its modules died of it, and printed where it was."""
    reader, writer = os.pipe()
    ended = begin(writer, *NODE)
    awaited(lambda: len(psutil.Process(ended.process.pid).children()) > 0)
    os.killpg(ended.process.pid, signal.SIGINT)
    assert ended.process.wait(PATIENCE_S) == 0
    os.close(writer)
    with os.fdopen(reader) as said:
        text = said.read()
    assert "Traceback" not in text and "ended by" not in text, text


def test_a_terminal_that_closes_stops_a_node_in_order(begin: Callable[..., Ended]) -> None:
    ours, theirs = pty.openpty()
    ended = begin(theirs, *NODE, target="file").running()
    os.close(theirs)
    os.close(ours)  # Whatever is written from here on is an error.
    assert ended.stopped(signal.SIGHUP) == 0
