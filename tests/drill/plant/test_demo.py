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
from albireo.cli.acting import ActingDirectory, status_of
from albireo.cli.place import MEMBERS
from tests.long_form import IS_LONG, in_long_form, some
from tests.parts.java import without_java

pytestmark = [pytest.mark.crowd, pytest.mark.drill, pytest.mark.slow]

DEADLINE_S = 500.0
"""Twenty-three processes start, work and stop, then Spark; only a hang meets it."""
MEMORY_MAX = 1_050e6
"""Bytes of all processes of a demo without Spark, as the sum of their proportional set sizes (PSS)."""
NODES = {"root": MEMBERS, "root/north": (".",), "root/south": MEMBERS}
SITES = ("root/north", "root/south")
KEYS = {
    "seconds",
    "samples_acquired",
    "samples_committed",
    "samples_dropped",
    "cases_raised",
    "acquire_to_commit_ms",
    "log",
    "history",
    "nodes",
    "watermarks",
    "commands",
    "cuts",
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


def place_of(data: Path, node: str) -> Path:
    """Directory of a node of the demo."""
    return data / node.partition("/")[2]


def is_ready(data: Path) -> bool:
    """The pairs are whole, the acting members of both sites hear both PLCs, and the root shows their values."""
    found = [
        status_of(ActingDirectory([place_of(data, node) / one for one in members])(), timeout_s=2.0)
        for node, members in NODES.items()
    ]
    told = {one.node: one for one in found if one is not None}
    if told.keys() != NODES.keys():
        return False
    heard = [{one.name for one in told[site].adapters if one.connected} for site in SITES]
    pairs = [told[node].pair for node in ("root", "root/south")]
    is_whole = all(pair is not None and pair.members == (0, 1) for pair in pairs)
    return all({"p1", "p2"} <= one for one in heard) and is_whole and set_points(data) != {}


def set_points(data: Path) -> dict[str, Any]:
    """The set point that the demo itself orders, at both sites, as the root shows them; empty if it does not."""
    shown = told_by("items", *(f"{site}:sump_1_start" for site in SITES), "--data", str(data)).get("items", [])
    values = {one["name"]: one["value"] for one in shown if one["quality_name"] == "Good"}
    return values if len(values) == len(SITES) else {}


def told_by(*arguments: str) -> dict[str, Any]:
    """What a command in a second terminal says; empty if it could not, because the members change places just now.

    It runs in this process, because it is asked over and over, and what is waited for needs the processor.
    """
    ran = CliRunner().invoke(cli, [*arguments, "--json"], catch_exceptions=False)
    answer: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1]) if ran.exit_code == 0 else {}
    return answer


def check_account(answer: dict[str, Any]) -> None:
    """Everything that was acquired is there; after a takeover a gap stands for what an adapter could not hand over. The
    root has every sample of both sites once."""
    assert set(answer["nodes"]) == set(NODES)
    for node in answer["nodes"].values():
        assert node["samples_committed"] == node["history"]["rows"] > 0
        if not node["had_takeover"]:
            assert node["samples_committed"] == node["samples_acquired"]
    assert answer["samples_committed"] == sum(one["samples_committed"] for one in answer["nodes"].values())
    assert set(answer["watermarks"]) == set(SITES)
    for site, copy in answer["watermarks"].items():
        assert (copy["lost"], copy["doubled"], copy["is_same"]) == (0, 0, True)
        assert copy["rows"] + copy["behind"] == answer["nodes"][site]["samples_committed"]
    commands = answer["commands"]
    assert commands["sent"] == commands["verified"] + commands["failed"] + commands["unknown"]


def logs_of(data: Path) -> list[Path]:
    """Of every member of every node."""
    return [place_of(data, node) / member / "node.log" for node, members in NODES.items() for member in members]


def log_says(data: Path, text: str) -> bool:
    return all(text in log.read_text(errors="replace") for log in logs_of(data))


def tails(data: Path) -> list[str]:
    return [f"{log}:\n{log.read_text(errors='replace')[-8_000:]}" for log in logs_of(data)]


def memory_of(child: "subprocess.Popen[str]") -> int:
    """Proportional set sizes of a process and all below it, in bytes."""
    found = 0
    with contextlib.suppress(psutil.NoSuchProcess):
        top = psutil.Process(child.pid)
        for one in (top, *top.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                found += one.memory_full_info().pss
    return found


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
    assert all(answer["nodes"][site]["history"]["gaps"] > 0 for site in SITES), "the time between both runs is a gap"
    assert answer["commands"]["verified"] > 0, "what was ordered and read back at the root"
    if number == signal.SIGINT:
        check_report(answer, told)
    else:
        assert answer["pipeline"]["report"] is None


def check_readme(data: Path) -> None:
    """The program of the README that passes a message."""
    blocks = (Path(__file__).parents[3] / "README.md").read_text().split("```python\n")[1:]
    (program,) = [one.split("```")[0] for one in blocks if "plant.topics" in one]
    program = program.replace("var/demo", str(data)).replace("timeout_s=5", "timeout_s=15")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "plant.events 1 b'door open'\n", done.stderr


def check_second_terminals(data: Path) -> None:
    check_readme(data)
    check_write(data)  # Before the fan trips: every fan is to run.
    begun = told_by("demo", "scenario", "fan-trip", "--at", "4", "--data", str(data))
    assert begun["scenario"] == "fan-trip"
    check_refused(data)
    seen: set[str] = set()

    def ordered() -> bool:
        """Each site has another value than before, so an order from the root was carried out there."""
        seen.update(f"{item} {value}" for item, value in set_points(data).items())
        return len(seen) == 2 * len(SITES)

    until(ordered)

    def raised() -> bool:
        listed = told_by("cases", "list", "--data", str(data / "south")).get("cases", [])
        return any(case["item"].endswith("fan_4_trip") for case in listed)

    until(raised)


def check_report(answer: dict[str, Any], told: str) -> None:
    """Tables and a page, and where it is; nothing else is left of Spark."""
    assert set(answer["pipeline"]) == {"tables", "seconds", "report", "below"}
    check_page(answer["pipeline"], told, {"below", "spark.log"})  # Spark starts once for all.
    assert [one["node"] for one in answer["pipeline"]["below"]] == list(SITES)
    for below in answer["pipeline"]["below"]:
        check_page(below, told, set())


def check_page(answer: dict[str, Any], told: str, besides: set[str]) -> None:
    page = Path(answer["report"])
    assert page.stat().st_size > 10_000
    assert 'src="' not in page.read_text()
    left = {path.name for path in page.parent.iterdir()}
    assert left == {".lock", "report.html", "tables"} | besides
    assert answer["tables"]["rollup_1min"] > 0
    assert all(rows >= 0 for rows in answer["tables"].values())
    assert answer["report"] in told


def check_refused(data: Path) -> None:
    """A second demo on the same directory."""
    second = subprocess.run(demo("--json", "--data", str(data)), capture_output=True, text=True, timeout=DEADLINE_S)
    assert second.returncode == 78
    assert "remedy" in json.loads(second.stdout)


def check_write(data: Path) -> None:
    """What is ordered at the root, in a second terminal, is done in the plant below, and seen there and at the root."""

    def is_verified(item: str, value: str) -> bool:
        """As an operator does: what was not taken because the members changed places is ordered again."""
        return told_by("write", f"south:{item}", value, "--data", str(data)).get("outcome") == "verified"

    for item, value in (("vent_auto", "false"), ("vent_stage_set", "4")):
        until(lambda item=item, value=value: is_verified(item, value))  # type: ignore[misc]

    def fans() -> object:
        shown = told_by("items", "south:fans_running", "--data", str(data)).get("items", [])
        return [one["value"] for one in shown]

    until(lambda: fans() == [10])
    shown: dict[str, Any] = {}

    def is_shown() -> bool:
        shown.update(told_by("watch", "--data", str(data / "south")))
        return bool(shown)

    until(is_shown)
    assert {one["item"]: one["value"] for one in shown["items"]}["root/south:fans_running"] == 10
    assert len(shown["items"]) > 400 and shown["sequence"] > 0


def ended_in_order(data: Path, child: "subprocess.Popen[str]", number: signal.Signals) -> tuple[dict[str, Any], str]:
    """Nothing is lost, nobody is left, and the answer is there all the same; that, and what was said beside it."""
    child.send_signal(number)
    said, told = child.communicate(timeout=DEADLINE_S)
    assert child.returncode == 130
    answer: dict[str, Any] = json.loads(said)
    check_account(answer)
    assert "did not hold" not in told, "\n".join(tails(data))
    assert log_says(data, "node_stopped")
    until(lambda: processes_of(data) == [])
    return answer, told


@in_long_form("the screen of a node is in test_node_cli_drill.py")
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
        until(lambda: shows(b"root/south  live") and shows(b"north:air_temperature_1"))
        assert b"\x1b[?1049h" in screen, "the alternate screen"
        os.write(ours, b"/south co_set\r")
        until(lambda: shows(b"items with 'south co_set'"))
        os.write(ours, b"w9\r")
        until(lambda: shows(b"root/south:co_setpoint = 9: verified, read back 9"))
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
    """It ends by itself, and needs no more memory than it may; in the long form with the report, which Ctrl-C leaves as
    well."""
    data = tmp_path / "demo"
    with subprocess.Popen(
        demo("--for", "6", "--json", "--data", str(data), *(() if IS_LONG else ("--no-pipeline",))),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        memory = most_memory(child, data)
        said, told = child.communicate(timeout=DEADLINE_S)
    assert child.returncode == 0, told
    assert said.count("\n") == 1
    answer = json.loads(said)
    assert set(answer) == KEYS
    check_account(answer)
    check_cut(answer)
    assert 300e6 < memory < MEMORY_MAX, "the sum, and of all of them"
    assert answer["samples_committed"] > 1_000
    assert answer["samples_dropped"] == 0
    assert answer["seconds"] >= 6
    assert set(answer["acquire_to_commit_ms"]) == {"p50", "p99"}
    assert set(answer["log"]) == {"epoch", "sequence", "bytes"}
    assert set(answer["history"]) == {"files", "rows", "gaps"}
    if IS_LONG:
        check_report(answer, told)
    else:
        assert answer["pipeline"] == {"tables": {}, "seconds": 0.0, "report": None, "below": []}
    until(lambda: processes_of(data) == [])


def most_memory(child: "subprocess.Popen[str]", data: Path) -> int:
    """The most that it had until its nodes began to stop; what Spark takes is not meant."""
    most = 0

    def is_stopping() -> bool:
        nonlocal most
        most = max(most, memory_of(child))
        return child.poll() is not None or any(map(has_stopped, data.rglob("node.log")))

    until(is_stopping)
    return most


def has_stopped(log: Path) -> bool:
    return "node_stopped" in log.read_text(errors="replace")


def check_cut(answer: dict[str, Any]) -> None:
    """One site was cut off for a third of the time, went on, and the root has what it recorded meanwhile."""
    (cut,) = answer["cuts"]
    assert cut["node"] == "root/north"
    assert cut["seconds"] >= 2
    assert cut["records"] > 500
    assert cut["caught_up_s"] is not None
