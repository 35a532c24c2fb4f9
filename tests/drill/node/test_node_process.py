"""A whole node in a process of its own: signals, kill -9, two on one directory, exit codes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from albireo.codec.message import Answer, Ask
from albireo.runtime import SyncLink
from albireo.runtime.directory import holder
from tests.parts.waiting import PATIENCE_S

pytestmark = [pytest.mark.drill, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
BOTH = pytest.mark.parametrize("placement", ["process", "thread"])
SILENT_MS = 3_000
"""Where silence is waited for: a machine that stands still for a second is not meant."""


class Node:
    """One run of node_main.py."""

    def __init__(self, data: Path, placement: str, *actors: str, **environment: str) -> None:
        self.data = data
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / "tests" / "drill" / "node" / "node_main.py"), str(data), placement, *actors],
            env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"} | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def started(self) -> "Node":
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "started\n"
        return self

    def ended(self) -> tuple[int, str]:
        """Exit code and stderr."""
        _, stderr = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, stderr

    def ask(self, name: str, what: str, **arguments: object) -> object:
        with SyncLink(self.data, name) as link:
            assert link.send(Ask(request_id=1, what=what, arguments=arguments))
            answer = link.receive(PATIENCE_S)
        assert answer is not None
        assert isinstance(answer[0], Answer)
        return answer[0].result

    def actors(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children()

    def journal(self) -> list[dict[str, object]]:
        """Whole lines only: it is being written."""
        path = self.data / "journal" / "node.log"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


@pytest.fixture
def nodes() -> Iterator[Callable[..., Node]]:
    made: list[Node] = []

    def make(data: Path, placement: str, *actors: str, **environment: str) -> Node:
        made.append(Node(data, placement, *actors, **environment))
        return made[-1]

    yield make
    for node in made:
        node.process.kill()
        node.process.communicate()


def until(condition: Callable[[], bool]) -> None:
    """Wait for `condition`; what is waited for happens in other processes."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_gone(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize(
    ("placement", "number"),
    [
        ("process", signal.SIGTERM),
        ("process", signal.SIGINT),
        ("thread", signal.SIGTERM),
        ("thread", signal.SIGINT),
        ("thread", signal.SIGHUP),
    ],
)
def test_a_signal_is_a_clean_stop(
    tmp_path: Path, nodes: Callable[..., Node], placement: str, number: signal.Signals
) -> None:
    node = nodes(tmp_path, placement, "core", "a").started()
    actors = node.actors()
    assert len(actors) == (3 if placement == "process" else 0)
    until(lambda: any(one["event"] == "node_started" for one in node.journal()))
    # The terminal sends Ctrl-C to the whole group: the order of the stop must not suffer.
    (os.killpg if number == signal.SIGINT else os.kill)(node.process.pid, number)
    assert node.ended()[0] == 0
    assert all(is_gone(actor) for actor in actors)
    assert list((tmp_path / "run").iterdir()) == []
    assert holder(tmp_path) == 0
    changes = [(one.get("name"), one.get("new")) for one in node.journal() if one["event"] == "actor_changed"]
    assert changes.index(("core", "ended")) < changes.index(("logger", "ending")), "logger goes last"
    assert not [one for one in node.journal() if one["level"] in ("warning", "error")]


def test_a_second_signal_ends_everything_at_once(tmp_path: Path, nodes: Callable[..., Node]) -> None:
    node = nodes(tmp_path, "process", "core").started()
    actors = node.actors()
    for actor in actors:
        actor.suspend()
    node.process.send_signal(signal.SIGINT)
    until(lambda: any(one["event"] == "actor_changed" and one["new"] == "ending" for one in _boot_lines(node)))
    node.process.send_signal(signal.SIGINT)
    assert node.ended()[0] == 130
    until(lambda: all(is_gone(actor) for actor in actors))


def _boot_lines(node: Node) -> list[dict[str, object]]:
    with SyncLink(node.data, "boot") as link:
        link.send(Ask(request_id=1, what="actors"))
        answer = link.receive(PATIENCE_S)
    assert answer is not None
    assert isinstance(answer[0], Answer)
    assert isinstance(answer[0].result, list)
    return [{"event": "actor_changed", "new": one["state"]} for one in answer[0].result]


@pytest.mark.parametrize("is_suspended", [False, True])
def test_actors_die_with_boot_and_the_next_node_starts(
    tmp_path: Path, nodes: Callable[..., Node], is_suspended: bool
) -> None:
    """kill -9 of boot, also while an actor hangs: nobody is left who could append or hold the directory."""
    node = nodes(tmp_path, "process", "core", "a").started()
    actors = node.actors()
    if is_suspended:
        actors[0].suspend()
    node.process.kill()
    os.waitid(os.P_PID, node.process.pid, os.WEXITED | os.WNOWAIT)  # Dead, and nobody has waited for it.
    again = nodes(tmp_path, "process", "core", "a").started()
    until(lambda: all(is_gone(actor) for actor in actors))  # They let go of the lock a moment before.
    pids = again.ask("core", "ping")
    assert isinstance(pids, list)
    assert pids[1] == again.process.pid


@BOTH
def test_the_second_node_on_one_data_directory_is_refused(
    tmp_path: Path, nodes: Callable[..., Node], placement: str
) -> None:
    first = nodes(tmp_path, placement, "core").started()
    code, stderr = nodes(tmp_path, placement, "core").ended()
    assert code == 3
    assert f"in use by process {first.process.pid}" in stderr
    assert first.ask("core", "ping")


def test_a_stop_can_be_asked_for_over_the_boot_link(tmp_path: Path, nodes: Callable[..., Node]) -> None:
    node = nodes(tmp_path, "thread", "core").started()
    assert node.ask("boot", "stop") is True
    assert node.ended()[0] == 0


def test_a_stop_while_the_node_still_starts(tmp_path: Path, nodes: Callable[..., Node]) -> None:
    node = nodes(tmp_path, "process", "core", "a")
    until(lambda: holder(tmp_path) == node.process.pid)
    node.process.send_signal(signal.SIGTERM)
    assert node.ended()[0] == 0
    assert holder(tmp_path) == 0


def test_giving_up_has_an_exit_code_and_a_reason(tmp_path: Path, nodes: Callable[..., Node]) -> None:
    code, stderr = nodes(tmp_path, "thread", "crasher", "core").ended()
    assert code == 1
    assert (
        "albireo: the node gives up: 6 actors died within 60 s, the last was crasher: RuntimeError: born to die"
        in stderr
    )


def test_a_hanging_thread_ends_the_process_with_75(tmp_path: Path, nodes: Callable[..., Node]) -> None:
    node = nodes(tmp_path, "thread", "core", "a", DRILL_SILENT_MS=str(SILENT_MS)).started()
    with SyncLink(tmp_path, "a") as link:
        link.send(Ask(request_id=1, what="hang", arguments={"seconds": 3600}))
        code, stderr = node.ended()
    assert code == 75
    assert "a hangs in its thread" in stderr
    assert "most recent call first" in stderr, "where each thread is"
    assert nodes(tmp_path, "thread", "core", "a").started().ask("a", "ping")


def test_the_journal_tells_the_life_of_an_actor(tmp_path: Path, nodes: Callable[..., Node]) -> None:
    node = nodes(tmp_path, "process", "core").started()
    pids = node.ask("core", "ping")
    assert isinstance(pids, list)
    os.kill(pids[0], signal.SIGKILL)
    until(lambda: any(one.get("cause") == "again" for one in node.journal()))
    node.process.terminate()
    assert node.ended()[0] == 0
    warnings = [(one["name"], one["cause"]) for one in node.journal() if one["level"] == "warning"]
    assert warnings == [("core", "ended by SIGKILL")]
