"""`albireo access` against a real node that stands alone: list, grant, revoke, and what they refuse."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from albireo.cli import cli
from tests.parts.access_cli import with_node

KEY = "mes-1"
pytestmark = [pytest.mark.slow]


def run(data: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["access", *arguments, "--data", str(data)])


def told(data: Path, *arguments: str) -> Any:
    result = run(data, *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout.splitlines()[-1])


def test_roles_are_given_shown_and_taken_on_record(tmp_path: Path) -> None:
    def story() -> None:
        row = told(tmp_path, "grant", KEY, "engineer", "--user", "rosa")
        assert row == {
            "principal": KEY,
            "role": "engineer",
            "grants": [{"role": "engineer", "node": ""}],
            "is_on_record": True,
            "has_key": None,
        }
        of_site = run(tmp_path, "grant", KEY, "operate", "--node", "root/north")
        assert of_site.stdout == f"{KEY}: engineer, operate at root/north\n"
        assert "needs the role at root as well" in of_site.stderr and "No node root/north is known" in of_site.stderr
        assert told(tmp_path, "list")["access"][0]["role"] == "engineer"
        line = run(tmp_path, "list").stdout.splitlines()[1]
        assert [one.strip() for one in line.split("\t")][:3] == [KEY, "engineer", "engineer, operate at root/north"]
        assert told(tmp_path, "revoke", KEY, "--node", "root/north")["grants"] == [{"role": "engineer", "node": ""}]
        assert run(tmp_path, "revoke", KEY).stdout == f"{KEY}: view\n"

    entries = [one for one in with_node(tmp_path, story) if one.action.startswith("access_")]
    assert [one.action for one in entries] == ["access_granted"] * 2 + ["access_revoked"] * 2
    assert {one.principal for one in entries} == {f"local:{os.getuid()}"}
    assert entries[0].user == "rosa"


def test_the_last_admin_is_kept(tmp_path: Path) -> None:
    def story() -> None:
        told(tmp_path, "grant", KEY, "admin")
        result = run(tmp_path, "revoke", KEY)
        assert result.exit_code == 1
        assert "the last admin with a key" in result.stderr and "albireo access grant NAME admin" in result.stderr

    with_node(tmp_path, story)


@pytest.mark.parametrize(
    ("arguments", "exit_code", "words"),
    [
        (("grant", KEY, "king"), 2, "'view', 'operate', 'engineer', 'admin'"),
        (("grant", "root[backup]", "admin"), 1, "a member of a pair"),
        (("grant", "witness:w1", "view"), 1, "its key is for votes"),
        (("grant", "local:0", "view"), 1, "who may reach the data directory"),
        (("revoke", "nobody"), 1, "albireo access list"),
    ],
)
def test_what_can_not_be_is_refused_in_words(
    tmp_path: Path, arguments: tuple[str, ...], exit_code: int, words: str
) -> None:
    def story() -> None:
        result = run(tmp_path, *arguments)
        assert result.exit_code == exit_code
        assert words in result.stderr

    assert all(not one.action.startswith("access_") for one in with_node(tmp_path, story))
