"""Everyday commands at a node on another machine: by endpoint, environment, saved site."""

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from albireo.cli import cli
from albireo.cli.output import ExitCode
from albireo.cli.saved_sites import sites_file
from albireo.cli.target import FarNode, Place, place_option, user_option
from tests.parts.core_pair import aside
from tests.parts.lone import LoneNode

OPERATOR = "operator@desk"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def run(*arguments: str, **env: str) -> Result:
    return CliRunner().invoke(cli, arguments, env=env)


def told(*arguments: str, **env: str) -> Any:
    result = run(*arguments, "--json", **env)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout.splitlines()[-1])


def test_sites_are_saved_for_their_owner_alone() -> None:
    saved = told("site", "add", "plant", "--at", "tcp://10.0.0.5:7700", "--keys", "keys")
    assert saved["default"] == "plant" and Path(saved["sites"]["plant"]["keys"]).is_absolute()
    assert sites_file().stat().st_mode & 0o777 == 0o600
    assert told("site", "use", "--none")["default"] == ""
    assert told("site", "remove", "plant")["sites"] == {}


def test_two_places_and_no_endpoint_are_refused() -> None:
    for arguments in (("--at", "tcp://a:1", "--data", "var"), ("--at", "a:1"), ("--site", "nobody")):
        assert run("status", *arguments).exit_code == ExitCode.USAGE


PLANT = """
cluster = "3f0c1c7a-1c1e-4c59-9f0e-0d6f2a9be001"
[[witness]]
name = "w1"
endpoint = "tcp://127.0.0.1:7001"
[[node]]
id = "root"
voters = ["witness:w1"]
primary = { client = "tcp://topology-1:1", peer = ["tcp://127.0.0.1:7003"] }
backup = { client = "tcp://topology-2:1", peer = ["tcp://127.0.0.1:7005"] }
[[node]]
id = "root/north"
endpoint = "tcp://north:1"
"""


@click.command()
@place_option
def meant(place: Place) -> None:
    """The node that is meant."""
    keys = place.keys if isinstance(place, FarNode) else None
    click.echo(f"{place} {keys or '-'}")


def means(*options: str, **env: str) -> str:
    result = CliRunner().invoke(meant, options, env=env)
    assert result.exit_code == 0, result.stderr
    return result.stdout.strip()


def objection(*options: str, **env: str) -> str:
    result = CliRunner().invoke(meant, options, env=env)
    assert result.exit_code == ExitCode.USAGE, result.output
    return result.stderr


def ways(tmp_path: Path) -> dict[str, tuple[list[str], dict[str, str], str]]:
    """Each way to name a node: its options, its environment, and what it means."""
    (tmp_path / "plant.toml").write_text(PLANT)
    for number in (1, 2):
        (tmp_path / f"data-{number}" / "log" / "segments").mkdir(parents=True)
    for name in ("option", "variable"):
        told("site", "add", name, "--at", f"tcp://site-{name}:1")
    told("site", "use", "--none")
    pair = "tcp://topology-1:1#root[primary],tcp://topology-2:1#root[backup] -"
    return {
        "--data": (["--data", "data-1"], {"ALBIREO_DATA": "data-2"}, "data-1 -"),
        "--at": (["--at", "tcp://a:1, tcp://b:1"], {"ALBIREO_AT": "tcp://c:1"}, "tcp://a:1,tcp://b:1 -"),
        "--topology": (
            ["--topology", "plant.toml", "--id", "root"],
            {"ALBIREO_TOPOLOGY": "plant.toml", "ALBIREO_ID": "root/north"},
            pair,
        ),
        "--site": (["--site", "option"], {"ALBIREO_SITE": "variable"}, "tcp://site-option:1 -"),
    }


def test_each_option_counts_before_each_variable(tmp_path: Path) -> None:
    known = ways(tmp_path)
    for options, _, wanted in known.values():
        assert means(*options) == wanted
        for _, env, _ in known.values():
            assert means(*options, **env) == wanted


def test_each_variable_counts_before_the_site_in_use_and_that_before_the_node_in_var(tmp_path: Path) -> None:
    known = ways(tmp_path)
    (tmp_path / "var" / "root" / "log" / "segments").mkdir(parents=True)
    assert means() == "var/root -"
    told("site", "add", "plant", "--at", "tcp://plant:1")
    told("site", "use", "plant")
    assert means().startswith("tcp://plant:1")
    wanted = {
        "--data": "data-2 -",
        "--at": "tcp://c:1 -",
        "--topology": "tcp://north:1#root/north -",
        "--site": "tcp://site-variable:1 -",
    }
    for way, (_, env, _) in known.items():
        assert means(**env) == wanted[way]


def test_two_ways_of_one_kind_contradict_each_other(tmp_path: Path) -> None:
    known = ways(tmp_path)
    for (first, (options, env, _)), (second, (more, others, _)) in itertools.combinations(known.items(), 2):
        assert f"{first} and {second}" in objection(*options, *more)
        variables = [f"ALBIREO_{one[2:].upper()}" for one in (first, second)]
        assert " and ".join(variables) in objection(**env, **others)


def test_keys_are_those_of_the_option_then_of_the_site_then_of_the_environment(tmp_path: Path) -> None:
    told("site", "add", "plant", "--at", "tcp://plant:1", "--keys", "saved")
    told("site", "add", "bare", "--at", "tcp://bare:1")
    told("site", "use", "plant")
    saved = str(tmp_path / "saved")
    assert means() == f"tcp://plant:1 {saved}"
    assert means(ALBIREO_KEYS="env") == f"tcp://plant:1 {saved}"
    assert means("--keys", "own", ALBIREO_KEYS="env") == "tcp://plant:1 own"
    assert means("--site", "bare", ALBIREO_KEYS="env") == "tcp://bare:1 env"
    assert means("--at", "tcp://a:1", ALBIREO_KEYS="env") == "tcp://a:1 env"
    assert means("--at", "tcp://a:1", "--keys", "own", ALBIREO_KEYS="env") == "tcp://a:1 own"
    (tmp_path / "data" / "log" / "segments").mkdir(parents=True)
    assert "--keys is for a node on another machine" in objection("--data", "data", "--keys", "own")
    assert means("--data", "data", ALBIREO_KEYS="env") == "data -", "it is for when a node elsewhere is named"


def test_the_node_of_a_topology_is_said_where_it_has_several(tmp_path: Path) -> None:
    ways(tmp_path)
    assert "say which with --id" in objection("--topology", "plant.toml")
    assert "no node south" in objection("--topology", "plant.toml", "--id", "south")
    assert means("--topology", "plant.toml", ALBIREO_ID="root/north") == "tcp://north:1#root/north -"
    assert means("--id", "root/north", ALBIREO_TOPOLOGY="plant.toml", ALBIREO_ID="root") == "tcp://north:1#root/north -"
    assert "--id says which node of a topology" in objection("--at", "tcp://a:1", "--id", "root")
    assert means("--at", "tcp://a:1", ALBIREO_ID="root") == "tcp://a:1 -"


@pytest.mark.slow
def test_a_node_is_reached_by_option_environment_and_site(tmp_path: Path) -> None:
    async def story() -> None:
        lone = LoneNode(tmp_path, OPERATOR)
        at, keys = lone.endpoint, str(lone.keys[OPERATOR].directory)

        def asked() -> None:
            assert told("status", "--at", at, "--keys", keys)["node"] == "root"
            assert told("items", ALBIREO_AT=at, ALBIREO_KEYS=keys)["items"] is not None
            told("site", "add", "plant", "--at", at, "--keys", keys)
            assert told("cases", "list")["cases"] == []
            assert run("write", "nothing", "1").exit_code == ExitCode.USAGE

        async with lone.core_up():
            await aside(asked)

    asyncio.run(story())


@click.command()
@user_option
@place_option
def ordering(user: str, place: Place) -> None:
    """A command that orders something."""


def test_a_default_site_and_a_node_here_could_both_be_meant() -> None:
    told("site", "add", "plant", "--at", "tcp://10.0.0.5:7700")
    assert CliRunner().invoke(ordering).exit_code == 0
    (Path("var") / "root" / "log" / "segments").mkdir(parents=True)
    refused = CliRunner().invoke(ordering)
    assert refused.exit_code == ExitCode.USAGE
    assert "site plant" in refused.stderr and "--data DIR" in refused.stderr
    reading = CliRunner().invoke(meant)
    assert reading.exit_code == 0
    assert reading.stderr.startswith("site plant is meant, not the node in ./var")
    for chosen in (["--site", "plant"], ["--data", "var/root"]):
        assert CliRunner().invoke(ordering, chosen).exit_code == 0


def test_a_command_that_was_told_no_node_names_the_one_it_means() -> None:
    (Path("var") / "root" / "log" / "segments").mkdir(parents=True)
    said = CliRunner().invoke(meant)
    assert (said.stdout, said.stderr) == ("var/root -\n", "var/root is meant\n")
