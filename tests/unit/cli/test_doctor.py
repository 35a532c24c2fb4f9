"""Exit codes of `albireo doctor`: scripts go on or stop by them."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from albireo.cli import cli
from albireo.cli.output import ExitCode
from albireo.cli.site import checkup
from albireo.cli.topology_file import read_topology

ENDLESS = 1 << 62
"""Bytes that no disk has."""

pytestmark = pytest.mark.slow


def doctor(data: Path, *more: str) -> Result:
    return CliRunner().invoke(cli, ["doctor", "--data", str(data), *more])


def judged(data: Path, *more: str) -> tuple[int, str, dict[str, Any]]:
    """Exit code, worst state, and checks by name."""
    result = doctor(data, *more, "--json")
    answer = json.loads(result.stdout)
    return result.exit_code, answer["worst"], {one["name"]: one for one in answer["checks"]}


def test_a_failed_check_exits_with_1_in_both_forms_and_says_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkup, "FREE_FAILED", ENDLESS)
    monkeypatch.setattr(checkup, "SYNC_P99_MS", 0.0)  # A warning beside it changes nothing.
    code, worst, checks = judged(tmp_path)
    assert (code, worst, checks["disk free"]["status"]) == (ExitCode.FAILED, "failed", "failed")
    result = doctor(tmp_path)
    assert result.exit_code == ExitCode.FAILED
    assert "FAILED" in result.stdout and "make room" in result.stdout


def test_warnings_alone_exit_with_0_and_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "FREE_FAILED", 0)
    monkeypatch.setattr(checkup, "FREE_WARNING", ENDLESS)
    code, worst, checks = judged(tmp_path)
    assert [one for one in checks.values() if one["status"] == "failed"] == []
    assert (code, worst, checks["disk free"]["status"]) == (ExitCode.GOOD, "warning", "warning")
    result = doctor(tmp_path)
    assert result.exit_code == ExitCode.GOOD
    assert "WARNING" in result.stdout and "make room" in result.stdout


@pytest.mark.parametrize("text", ["", "[[node]]\nid = 7\n"], ids=["empty", "mistaken"])
def test_a_topology_that_is_none_is_a_failure_of_its_own(tmp_path: Path, text: str) -> None:
    (tmp_path / "topology.toml").write_text(text)
    assert doctor(tmp_path, "--topology", str(tmp_path / "topology.toml")).exit_code == ExitCode.BAD_CONFIGURATION


def test_a_data_directory_that_is_a_file_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert doctor(tmp_path / "file").exit_code == ExitCode.USAGE


LONE = """cluster = "0190f3a1-2b3c-7d4e-8f50-112233445566"
[[node]]
id = "root"
endpoint = "tcp://127.0.0.1:7700"
"""


@pytest.mark.parametrize(
    ("more", "keys", "status", "said"),
    [
        ("", "", "warning", "albireo keys new root"),
        ("open_on_loopback = true\n", "", "good", ""),
        ("", "keys", "good", ""),
        ("", "root/keys", "good", ""),
    ],
)
def test_a_door_that_would_stay_closed_is_told_with_the_remedy(
    tmp_path: Path, more: str, keys: str, status: str, said: str
) -> None:
    file = tmp_path / "topology.toml"
    file.write_text(LONE + more)
    if keys:
        (tmp_path / keys).mkdir(parents=True)
    (finding,) = checkup.doors(tmp_path, read_topology(file).topology)
    assert (finding.name, finding.status) == ("door of root", status)
    assert said in finding.remedy
