"""Waiting for Spark, by the marks that its installation leaves."""

import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from albireo.cli.demo.spark import is_ready, read_progress, wait_for_spark
from albireo.cli.output import Failure
from tests.parts.waiting import PATIENCE_S

THERE = ("json",)
"""Stands for Spark where it is installed."""


def wait(marks: Path, needed: Sequence[str] = THERE) -> None:
    wait_for_spark(marks, needed, begin_s=0.05, pause_s=0.01)


def report(marks: Path, share: float) -> None:
    """As the installer does it: aside, then renamed, so that nobody reads half a line."""
    aside = marks / "spark-install.aside"
    aside.write_text(json.dumps({"share": share, "step": "downloading pyspark"}))
    aside.replace(marks / "spark-install.progress")


def test_what_is_there_needs_no_waiting(tmp_path: Path) -> None:
    wait(tmp_path)


def test_nobody_installs_it(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="not installed"):
        wait(tmp_path, ("no_such_package",))


def test_a_failed_installation_says_why(tmp_path: Path) -> None:
    (tmp_path / "spark-install.failed").write_text("no room left\n")
    with pytest.raises(Failure, match="no room left"):
        wait(tmp_path)


def test_it_waits_until_the_installation_is_done(tmp_path: Path) -> None:
    report(tmp_path, 0.2)
    assert not is_ready(tmp_path, THERE)
    waiting = threading.Thread(target=wait, args=(tmp_path,))
    waiting.start()
    report(tmp_path, 0.9)
    assert waiting.is_alive()
    (tmp_path / "spark-install.done").touch()
    waiting.join(PATIENCE_S)
    assert not waiting.is_alive()


def test_the_trace_of_a_dead_installation_is_not_waited_for(tmp_path: Path) -> None:
    report(tmp_path, 0.5)
    progress = tmp_path / "spark-install.progress"
    old = progress.stat().st_mtime - 1_000
    os.utime(progress, (old, old))
    assert read_progress(tmp_path) is None
    assert is_ready(tmp_path, THERE)


@pytest.mark.parametrize("text", ["", "[1]", "{torn"])
def test_torn_progress_is_no_progress(tmp_path: Path, text: str) -> None:
    (tmp_path / "spark-install.progress").write_text(text)
    assert read_progress(tmp_path) is None
