"""A user id that no list of users knows, as containers have it, without a home or with one that takes no file."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from albireo.cli.output import ExitCode
from tests.parts.unknown_user import AS_UNKNOWN, UNKNOWN, USER, needs_namespaces

pytestmark = needs_namespaces


@pytest.fixture(params=[None, "/dev/null", "/proc/self"])
def home(request: pytest.FixtureRequest) -> dict[str, str]:
    """Variables of that user."""
    return UNKNOWN if request.param is None else UNKNOWN | {"HOME": request.param}


def played(home: dict[str, str], here: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [*AS_UNKNOWN, sys.executable, "-c", "from albireo.cli import main; main()", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=home, cwd=here)


def test_commands_need_neither_a_name_nor_a_home(home: dict[str, str], tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "log" / "segments").mkdir(parents=True)
    for asking in (("status",), ("write", "x", "1"), ("topic", "list")):
        done = played(home, tmp_path, *asking, "--data", str(data), "--json")
        assert done.returncode == ExitCode.UNREACHABLE and "Traceback" not in done.stderr, done.stderr
        assert "no node has ever run there" in json.loads(done.stdout)["error"]
    for words in (("site", "list"), ("completion", "bash"), ("keys", "new", "me", "--keys", str(tmp_path / "keys"))):
        done = played(home, tmp_path, *words)
        assert done.returncode == ExitCode.GOOD and "Traceback" not in done.stderr, done.stderr


def test_a_site_is_saved_where_a_place_is_named(home: dict[str, str], tmp_path: Path) -> None:
    words = ("site", "add", "plant", "--at", "tcp://127.0.0.1:1")
    done = played(home, tmp_path, *words, "--json")
    assert done.returncode == ExitCode.FAILED and "XDG_CONFIG_HOME" in json.loads(done.stdout)["remedy"], done.stderr
    assert played(home | {"XDG_CONFIG_HOME": str(tmp_path)}, tmp_path, *words).returncode == ExitCode.GOOD


def test_the_root_directory_of_a_container_holds_no_node() -> None:
    """Where one stands in "/", ./var has a folder `log`, and that is no store."""
    done = played(UNKNOWN, Path("/"), "status", "--json")
    assert "no node in ./var" in json.loads(done.stdout)["error"], done.stderr


def test_a_program_that_says_no_name_speaks_as_its_number(home: dict[str, str], tmp_path: Path) -> None:
    command = [*AS_UNKNOWN, sys.executable, "-c", "from albireo.runtime.login import login_name as n; print(n())"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=home, cwd=tmp_path)
    assert done.stdout == f"uid-{USER}\n"
