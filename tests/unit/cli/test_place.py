"""Which node a command means when several data directories lie in ./var."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from albireo.cli import cli
from albireo.cli.output import ExitCode, Failure
from albireo.cli.place import find_data
from albireo.cli.site.key_place import find
from albireo.runtime import Keys
from albireo.runtime.directory import DataLock


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def stores(*names: str) -> None:
    for name in names:
        (Path("var") / name / "log" / "segments").mkdir(parents=True)


@contextlib.contextmanager
def running(*names: str) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for name in names:
            stack.callback(DataLock.acquire(Path("var") / name).release)
        yield


def test_of_several_nodes_the_only_one_that_runs_is_meant(capsys: pytest.CaptureFixture[str]) -> None:
    stores("demo/primary", "demo/backup", "root")
    with running("root"):
        assert find_data(None) == Path("var/root")
    assert capsys.readouterr().err == "var/root is meant: of the 2 nodes in ./var only it runs\n"
    with running("demo/primary", "demo/backup"):
        assert find_data(None) == Path("var/demo/primary"), "a pair is one node"


def test_a_pair_in_two_directories_side_by_side_is_one_node() -> None:
    stores("root.primary", "root.backup")
    assert find_data(None) == Path("var/root.primary")
    stores("root")
    with running("root.backup"):
        assert find_data(None) == Path("var/root.primary"), "the first, as neither says that it acts"


@pytest.mark.parametrize("run", [(), ("demo/primary", "demo/north", "demo/south/backup")])
def test_of_a_whole_tree_the_pair_above_the_others_is_meant(run: tuple[str, ...]) -> None:
    stores("demo/primary", "demo/backup", "demo/north", "demo/south/primary", "demo/south/backup")
    with running(*run):
        assert find_data(None) == Path("var/demo/primary")


@pytest.mark.parametrize("run", [(), ("demo/primary", "root")])
def test_who_could_mean_several_nodes_has_to_say_which(run: tuple[str, ...]) -> None:
    stores("demo/primary", "demo/backup", "root")
    with running(*run), pytest.raises(Failure) as failed:
        find_data(None)
    assert failed.value.exit_code == ExitCode.USAGE
    assert failed.value.message.endswith(": var/demo, var/root")
    assert ("2 nodes run here" in failed.value.message) is bool(run)


def test_of_several_keys_those_of_the_only_process_that_runs_are_meant() -> None:
    stores("demo/primary", "demo/backup", "root")
    for name in ("demo/primary", "demo/backup", "root"):
        Keys.new(Path("var") / name / "keys", "root")
    with pytest.raises(Failure, match="several keys are here"):
        find(None, None)
    with running("root"):
        assert find(None, None) == Path("var/root/keys")


def test_the_pipeline_takes_the_directory_of_a_pair_as_other_commands_do() -> None:
    """The directory above both members, as for `status`; without a history it fails there, and not at the directory."""
    stores("demo/primary", "demo/backup")
    result = CliRunner().invoke(cli, ["pipeline", "run", "--data", "var/nothing"])
    assert result.exit_code == ExitCode.FAILED and "var/nothing/history" in result.stderr
    result = CliRunner().invoke(cli, ["pipeline", "run", "--data", "var/demo"])
    assert "var/demo/primary" in result.stderr, result.stderr


@pytest.mark.parametrize(
    ("data", "tunnel"),
    [("", "south"), ("primary", "south"), ("south/backup", "south"), ("north", "north"), ("south", "south")],
)
def test_a_scenario_takes_the_directory_of_a_node_or_of_a_member(data: str, tunnel: str) -> None:
    stores("demo/primary", "demo/backup", "demo/north", "demo/south/primary", "demo/south/backup")
    for name in ("north", "south"):
        (Path("var/demo/site") / name).mkdir(parents=True)
    result = CliRunner().invoke(cli, ["demo", "scenario", "fire", "--data", f"var/demo/{data}"])
    assert result.exit_code == ExitCode.UNREACHABLE
    assert f"var/demo/site/{tunnel}/plant.sock" in result.stderr, result.stderr
