"""The command as a process of its own: its one line, its exit codes, and that no Java stays behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import psutil
import pytest

from albireo.codec.history import FileKind
from tests.long_form import IS_LONG, some
from tests.parts.java import without_java
from tests.parts.unknown_user import AS_UNKNOWN, UNKNOWN, needs_namespaces
from tests.parts.waiting import PATIENCE_S
from tests.unit.pipeline.history_files import DAY0, SECOND, HistoryWriter, item, sample
from tests.unit.pipeline.other_sparks import FOREIGN

pytestmark = [pytest.mark.spark, pytest.mark.slow]

WORK_S = 500.0
"""Longest time for Spark to start and to work on a busy machine; only a hang meets it."""


def small_node(directory: Path) -> Path:
    writer = HistoryWriter(directory / "history")
    writer.items([item(1, "co_1", unit="ppm")])
    writer.add(FileKind.SAMPLES, [sample(1, DAY0 + second * SECOND, float(second), second + 1) for second in range(90)])
    writer.publish(sequence=90, complete_to_ns=DAY0 + 90 * SECOND)
    return directory


def started(
    data: Path,
    *more: str,
    environment: dict[str, str] | None = None,
    within: Sequence[str] = (),
    cwd: Path | None = None,
) -> subprocess.Popen[str]:
    """The command as a process; `within`: the command that starts it."""
    command = [sys.executable, "-c", "from albireo.cli import main; main()", "pipeline", "run", "--data", str(data)]
    return subprocess.Popen(
        [*within, *command, "--master", "local[2]", *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ) | (environment or {}),
        cwd=cwd or data,
        start_new_session=True,
    )


def javas(process: subprocess.Popen[str]) -> list[psutil.Process]:
    try:
        below = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [one for one in below if is_java(one)]


def is_java(process: psutil.Process) -> bool:
    """Spark's launchers come and go."""
    try:
        return process.name() == "java"
    except psutil.NoSuchProcess:
        return False


def left_behind(data: Path) -> list[list[str]]:
    return [
        one.info["cmdline"]
        for one in psutil.process_iter(["cmdline"])
        if str(data) in " ".join(one.info["cmdline"] or [])
    ]


if IS_LONG:

    @pytest.mark.parametrize("has_java", [True, False])
    def test_one_json_line_and_nothing_left(tmp_path: Path, has_java: bool) -> None:
        """With PATH and JAVA_HOME leading to none: the packaged Java runs it all, as for the demo of the short form."""
        data = small_node(tmp_path / "no de [1]")
        with started(data, "--json", environment={} if has_java else without_java(tmp_path / "tools")) as process:
            output, errors = process.communicate(timeout=WORK_S)
        assert process.returncode == 0, errors
        answer = msgspec.json.decode(output.splitlines()[-1])
        assert set(answer) == {"tables", "seconds", "report"}
        assert answer["tables"]["rollup_1s"] == 90
        assert answer["tables"]["rollup_1min"] == 2
        page = Path(answer["report"]).read_text()
        assert "root:co_1 [ppm]" in page
        assert 'src="' not in page
        assert sorted(path.name for path in data.iterdir()) == ["history", "pipeline"]
        kept = sorted(path.name for path in (data / "pipeline").iterdir())
        assert kept == [".lock", "report.html", "spark.log", "tables"]
        assert left_behind(data) == []


NOBODY = """
hostname plc-host-7 && mount -t tmpfs -o noexec tmpfs /mnt && mkdir /mnt/data && mkdir -m 777 /mnt/out &&
mount --bind "$0" /mnt/data && exec setpriv --reuid 12345 --regid 12345 --clear-groups \\
  --inh-caps +dac_override --ambient-caps +dac_override "$@"
"""
"""Starts what follows as a user who is only a number, on a machine whose name stands for nothing, with the first
argument as /mnt/data, beside which nothing may be executed."""


def test_a_run_in_foreign_surroundings_is_one_as_anywhere(tmp_path: Path) -> None:
    """With the variables of other Sparks, and, where we may make them, all else of `NOBODY`."""
    data, out = small_node(tmp_path / "nödé"), tmp_path / "öut"
    within: tuple[str, ...] = ()
    strange = FOREIGN | {"LC_ALL": "C", "LANG": "", "HOME": "/nonexistent", "SPARK_TESTING": "1"}
    if os.geteuid() == 0:
        within = ("unshare", "--uts", "--mount", "sh", "-c", NOBODY, str(data))
        data, out = Path("/mnt/data"), Path("/mnt/out/öut")
    with started(data, "--json", "--out", str(out), environment=strange, within=within, cwd=tmp_path) as process:
        output, errors = process.communicate(timeout=WORK_S)
    assert process.returncode == 0, errors
    assert msgspec.json.decode(output.splitlines()[-1])["tables"]["rollup_1s"] == 90
    assert "Traceback" not in errors


# SIGTERM ends the command at once, whatever it does; Ctrl-C at work has lanes to call back before Java can end.
@pytest.mark.parametrize(
    ("moment", "signal_number"),
    [
        *some([("start", signal.SIGINT), ("start", signal.SIGTERM)], 2),
        *([("work", signal.SIGTERM), ("work", signal.SIGINT)] if IS_LONG else ()),
    ],
)
def test_a_signal_ends_java_too(tmp_path: Path, moment: str, signal_number: int) -> None:
    """Ctrl-C goes to the whole group, a supervisor's SIGTERM to the command alone; at Spark's start and at work.

    At work in the long form only: Ctrl-C there is also that of `test_run.py`, on the session of the other tests.
    """
    data = small_node(tmp_path / "node")
    staging = data / "pipeline" / "staging"
    with started(data) as process:
        deadline = time.monotonic() + WORK_S
        while not (found := javas(process)) or (moment == "work" and not staging.exists()):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)  # Between two looks at processes and files of others, which tell nobody when they come.
        if signal_number == signal.SIGINT:
            os.killpg(process.pid, signal_number)
        else:
            process.terminate()
        process.communicate(timeout=WORK_S)
    assert process.returncode != 0
    gone, alive = psutil.wait_procs(found, timeout=PATIENCE_S)
    assert not alive
    assert gone
    assert not list((data / "pipeline").glob("tables/*/_delta_log"))


@pytest.mark.parametrize(
    ("environment", "code", "text"),
    [({}, 1, "no history here"), ({"ALBIREO_SPARK_MEMORY": "lots"}, 1, "Java did not start Spark")],
)
def test_failures_say_what_to_do(tmp_path: Path, environment: dict[str, str], code: int, text: str) -> None:
    data = small_node(tmp_path / "node") if environment else tmp_path
    with started(data, "--json", environment=environment) as process:
        output, errors = process.communicate(timeout=WORK_S)
    assert process.returncode == code
    assert text in msgspec.json.decode(output.splitlines()[-1])["error"]
    assert "What to do" in errors


@needs_namespaces
def test_a_user_id_without_a_name_and_a_home_gets_its_tables(tmp_path: Path) -> None:
    command = [*AS_UNKNOWN, sys.executable, "-c", "from albireo.cli import main; main()", "pipeline", "run"]
    command += ["--data", str(small_node(tmp_path / "node")), "--master", "local[2]", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=UNKNOWN, timeout=WORK_S)
    assert done.returncode == 0, done.stderr
    assert msgspec.json.decode(done.stdout.splitlines()[-1])["tables"]["rollup_1s"] == 90
