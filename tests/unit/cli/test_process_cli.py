"""A node, a witness or a demo that can't start says why and what to do, without a traceback."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from albireo.cli import cli
from albireo.cli.output import ExitCode

PAIR = """
cluster = "3f0c1c7a-1c1e-4c59-9f0e-0d6f2a9be001"
[[witness]]
name = "w1"
endpoint = "tcp://{host}:7700"
[[node]]
id = "root"
voters = ["witness:w1"]
primary = {{ client = "tcp://127.0.0.1:7710", peer = ["tcp://127.0.0.1:7711"] }}
backup  = {{ client = "tcp://127.0.0.1:7720", peer = ["tcp://127.0.0.1:7721"] }}
"""
LONE = 'cluster = "3f0c1c7a-1c1e-4c59-9f0e-0d6f2a9be001"\n[[node]]\nid = "root"\n'


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pair.toml").write_text(PAIR.format(host="10.0.0.3"))
    (tmp_path / "rehearsal.toml").write_text(PAIR.format(host="127.0.0.1"))
    (tmp_path / "lone.toml").write_text(LONE)
    (tmp_path / "file").touch()
    return tmp_path


def failed(*arguments: str) -> Result:
    result = CliRunner().invoke(cli, arguments)
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == ExitCode.BAD_CONFIGURATION
    assert "What to do: " in result.stderr
    return result


@pytest.mark.parametrize(
    "arguments",
    [
        ("node", "run", "--topology", "lone.toml", "--data", "file/data"),
        ("witness", "--topology", "rehearsal.toml", "--name", "w1", "--data", "file/data"),
        ("demo", "--data", "file/data"),
    ],
)
def test_a_data_directory_that_cannot_be_written_is_told(site: Path, arguments: tuple[str, ...]) -> None:
    assert "file/data can't be used: Not a directory" in failed(*arguments).stderr


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("node", "run", "--id", "root[primary]"), "'root[primary]'"),
        (("witness", "--name", "w1"), "witness:w1"),
    ],
)
def test_a_pair_on_real_addresses_without_keys_does_not_start(
    site: Path, arguments: tuple[str, ...], name: str
) -> None:
    """Not by six deaths of CORE: nothing is started."""
    result = failed(*arguments, "--topology", "pair.toml", "--data", "data")
    assert "tcp://10.0.0.3:7700" in result.stderr and "without keys" in result.stderr
    assert f"albireo keys new {name} --data data" in result.stderr
    assert not Path("data").exists()


def test_keys_that_others_may_read_are_told_before_anything_starts(site: Path) -> None:
    Path("data/keys").mkdir(parents=True)
    Path("data/keys").chmod(0o755)
    result = failed("node", "run", "--id", "root[primary]", "--topology", "pair.toml", "--data", "data")
    assert "others may reach it" in result.stderr and "chmod 700" in result.stderr
