"""Everyday commands at a node on another machine: by endpoint, environment, saved site."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from albireo.cli import cli
from albireo.cli.output import ExitCode
from albireo.cli.saved_sites import sites_file
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
            assert run("write", "nothing", "1").exit_code == ExitCode.FAILED

        async with lone.core_up():
            await aside(asked)

    asyncio.run(story())
