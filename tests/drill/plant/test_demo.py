"""`albireo demo` as a user runs it: real processes, a real node, one line of JSON."""

import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner

from albireo.cli import cli
from albireo.cli.pair.acting import ActingDirectory, status_of
from albireo.cli.place import MEMBERS
from tests.long_form import IS_LONG, some
from tests.parts.java import without_java

pytestmark = [pytest.mark.drill, pytest.mark.slow]

DEADLINE_S = 500.0
"""Fifteen processes start, work and stop, then Spark; only a hang meets it."""
FIRST_EPOCH = 4
"""Of the member that is active first. Another one at the end: on a busy machine there was a takeover."""
KEYS = {
    "seconds",
    "samples_acquired",
    "samples_committed",
    "samples_dropped",
    "cases_raised",
    "acquire_to_commit_ms",
    "log",
    "history",
    "pipeline",
}
ALBIREO = [sys.executable, "-c", "from albireo.cli import main; main()"]


def demo(*arguments: str) -> list[str]:
    return [*ALBIREO, "demo", *arguments]


def until(condition: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
    ends = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < ends, "it did not come to pass in time"
        time.sleep(0.1)


def processes_of(directory: Path) -> list[str]:
    """Command lines that name `directory`: whoever was left behind."""
    found = []
    for process in psutil.process_iter(["cmdline", "pid"]):
        line = " ".join(process.info["cmdline"] or [])
        if str(directory) in line and process.info["pid"] != os.getpid():
            found.append(line)
    return found


@contextlib.contextmanager
def running(
    data: Path, *arguments: str, has_pipeline: bool = False, environment: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[str]"]:
    """A demo with its node connected; ended for sure."""
    child = subprocess.Popen(
        demo("--data", str(data), *(() if has_pipeline else ("--no-pipeline",)), "--json", *arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
    )
    try:
        until(lambda: child.poll() is not None or is_ready(data))
        assert child.poll() is None, child.communicate()
        yield child
    finally:
        if child.poll() is None:
            child.kill()
        child.communicate()


def is_ready(data: Path) -> bool:
    """Both members are in the set, and the acting one hears both PLCs."""
    status = status_of(ActingDirectory([data / member for member in MEMBERS])(), timeout_s=2.0)
    heard = {one["name"] for one in status.get("adapters", ()) if one["connected"]}
    return {"p1", "p2"} <= heard and (status.get("pair") or {}).get("members") == [0, 1]


def told_by(*arguments: str) -> dict[str, Any]:
    """What a command in a second terminal says; empty if it could not, because the members change places just now.

    It runs in this process, because it is asked over and over, and what is waited for needs the processor.
    """
    ran = CliRunner().invoke(cli, [*arguments, "--json"], catch_exceptions=False)
    answer: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1]) if ran.exit_code == 0 else {}
    return answer


def check_account(answer: dict[str, Any]) -> None:
    """Everything that was acquired is there; after a takeover a gap stands for what an adapter could not hand over."""
    assert answer["samples_committed"] == answer["history"]["rows"]
    if answer["log"]["epoch"] == FIRST_EPOCH:
        assert answer["samples_committed"] == answer["samples_acquired"]


def log_says(data: Path, text: str) -> bool:
    """Either member."""
    logs = [data / member / "node.log" for member in ("primary", "backup")]
    return any(text in log.read_text(errors="replace") for log in logs if log.exists())


@pytest.mark.spark
@pytest.mark.parametrize("number", some([signal.SIGTERM, signal.SIGINT], 2))
def test_a_killed_demo_is_gone_on_with_until_a_signal_ends_it_in_order(tmp_path: Path, number: signal.Signals) -> None:
    """The kill leaves no process. A write, a scenario and another demo, all on the one that goes on: what came of them
    is in its answer. Ctrl-C leaves the report too, made on the packaged Java; SIGTERM does not wait for it."""
    data = tmp_path / "demo"
    with running(data) as child:
        child.kill()
        child.wait()
        until(lambda: processes_of(data) == [])
    with running(data, has_pipeline=True, environment=without_java(tmp_path / "tools")) as again:
        check_second_terminals(data)
        answer, told = ended_in_order(data, again, number)
    assert answer["cases_raised"] >= 1
    assert answer["history"]["gaps"] > 0, "the time between both runs is a gap, and says so"
    if number == signal.SIGINT:
        check_report(answer, told)
    else:
        assert answer["pipeline"]["report"] is None


def check_second_terminals(data: Path) -> None:
    check_write(data)  # Before the fan trips: every fan is to run.
    begun = told_by("demo", "scenario", "fan-trip", "--at", "4", "--data", str(data))
    assert begun["scenario"] == "fan-trip"
    check_refused(data)

    def raised() -> bool:
        listed = told_by("cases", "list", "--data", str(data)).get("cases", [])
        return any(case["item"].endswith("fan_4_trip") for case in listed)

    until(raised)


def check_report(answer: dict[str, Any], told: str) -> None:
    """Tables and a page, and where it is; nothing else is left of Spark."""
    assert set(answer["pipeline"]) == {"tables", "seconds", "report"}
    page = Path(answer["pipeline"]["report"])
    assert page.stat().st_size > 10_000
    assert 'src="' not in page.read_text()
    assert sorted(path.name for path in page.parent.iterdir()) == [".lock", "report.html", "spark.log", "tables"]
    assert answer["pipeline"]["tables"]["rollup_1min"] > 0
    assert all(rows >= 0 for rows in answer["pipeline"]["tables"].values())
    assert f"Report: {answer['pipeline']['report']}" in told


def check_refused(data: Path) -> None:
    """A second demo on the same directory."""
    second = subprocess.run(demo("--json", "--data", str(data)), capture_output=True, text=True, timeout=DEADLINE_S)
    assert second.returncode == 78
    assert "remedy" in json.loads(second.stdout)


def check_write(data: Path) -> None:
    """What is ordered in a second terminal is done in the plant, and seen there."""

    def is_verified(item: str, value: str) -> bool:
        """As an operator does: what was not taken because the members changed places is ordered again."""
        return told_by("write", item, value, "--data", str(data)).get("outcome") == "verified"

    for item, value in (("vent_auto", "false"), ("vent_stage_set", "4")):
        until(lambda item=item, value=value: is_verified(item, value))  # type: ignore[misc]

    def fans() -> object:
        return told_by("items", "fans_running", "--data", str(data)).get("items", [{"value": None}])[0]["value"]

    until(lambda: fans() == 10)
    shown: dict[str, Any] = {}

    def is_shown() -> bool:
        shown.update(told_by("watch", "--data", str(data)))
        return bool(shown)

    until(is_shown)
    assert {one["item"]: one["value"] for one in shown["items"]}["root:fans_running"] == 10
    assert len(shown["items"]) > 400 and shown["sequence"] > 0


def ended_in_order(data: Path, child: "subprocess.Popen[str]", number: signal.Signals) -> tuple[dict[str, Any], str]:
    """Nothing is lost, nobody is left, and the answer is there all the same; that, and what was said beside it."""
    child.send_signal(number)
    said, told = child.communicate(timeout=DEADLINE_S)
    assert child.returncode == 130
    answer: dict[str, Any] = json.loads(said)
    check_account(answer)
    assert "did not hold" not in told
    assert log_says(data, "node_stopped")
    until(lambda: processes_of(data) == [])
    return answer, told


def test_on_a_terminal_it_is_a_screen_that_q_leaves(tmp_path: Path) -> None:
    data = tmp_path / "demo"
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        demo("--no-pipeline", "--data", str(data)),
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm", "NO_COLOR": "1", "COLUMNS": "80", "LINES": "24"},
    )
    os.close(theirs)
    screen = b""

    def shows(text: bytes) -> bool:
        nonlocal screen
        while select.select([ours], [], [], 0)[0]:
            try:
                screen += os.read(ours, 65_536)
            except OSError:
                break
        return text in screen

    try:
        until(lambda: shows(b"air_velocity_1"))
        assert b"\x1b[?1049h" in screen, "the alternate screen"
        os.write(ours, b"/co_set\r")
        until(lambda: shows(b"items with 'co_set'"))
        os.write(ours, b"w9\r")
        until(lambda: shows(b"verified, read back 9"))
        os.write(ours, b"q")
        until(lambda: shows(b"\x1b[?1049l"))
        until(lambda: shows(b"") and child.poll() is not None)
    finally:
        if child.poll() is None:
            child.kill()
        child.wait()
        os.close(ours)
    assert child.returncode == 0
    assert b"\x1b[31m" not in screen, "NO_COLOR is obeyed"
    until(lambda: processes_of(data) == [])


@pytest.mark.spark
def test_the_whole_walk_holds_and_says_so_in_one_line(tmp_path: Path) -> None:
    """It ends by itself; in the long form with the report, which Ctrl-C leaves as well."""
    data = tmp_path / "demo"
    done = subprocess.run(
        demo("--for", "3", "--json", "--data", str(data), *(() if IS_LONG else ("--no-pipeline",))),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    answer = json.loads(done.stdout)
    assert set(answer) == KEYS
    check_account(answer)
    assert answer["samples_committed"] > 1_000
    assert answer["samples_dropped"] == 0
    assert answer["seconds"] >= 3
    assert set(answer["acquire_to_commit_ms"]) == {"p50", "p99"}
    assert set(answer["log"]) == {"epoch", "sequence", "bytes"}
    assert set(answer["history"]) == {"files", "rows", "gaps"}
    if IS_LONG:
        check_report(answer, done.stderr)
    else:
        assert answer["pipeline"] == {"tables": {}, "seconds": 0.0, "report": None}
    until(lambda: processes_of(data) == [])
