"""`albireo people`: persons put on record and changed beside a running node; nothing shown lets anybody in."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from albireo.cli import cli
from albireo.client import connect
from albireo.client.credentials import password_fits, speaks_as, token_name, token_of
from albireo.model.instant import SECOND
from tests.parts.access_cli import with_node

PASSWORD = "correct horse"


def test_a_person_is_added_changed_and_disabled_and_each_step_is_audited(tmp_path: Path) -> None:
    def run(*arguments: str, typed: str = PASSWORD) -> Result:
        return CliRunner().invoke(cli, ["people", *arguments, "--data", str(tmp_path)], input=f"{typed}\n")

    def said(*arguments: str, typed: str = PASSWORD) -> Any:
        result = run(*arguments, "--json", typed=typed)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout.splitlines()[-1])

    def story() -> None:
        assert "access grant person:anna operate" in run("add", "anna").output
        assert "albireo people passwd anna" in run("add", "anna").output, "the remedy"
        assert said("passwd", "anna", "--one-time", typed="another one")["is_one_time"] is True
        assert "8 to" in run("passwd", "anna", typed="short").output
        made = said("token", "anna", "--role", "operate", "--label", "mes")
        assert said("add", "bob", "--no-password", "--certificate", "AB:" * 31 + "AB")["certificate"] == "ab" * 32
        rows = {one["name"]: one for one in said("list")["people"]}
        assert [rows[one]["has_password"] for one in ("anna", "bob")] == [True, False]
        assert made["token"] not in run("list").output
        with connect(tmp_path) as client:
            anna = client.credentials("anna")
            assert anna is not None and password_fits("another one", anna.password)
            assert not password_fits(PASSWORD, anna.password)
            assert token_name(made["token"]) == "anna"
            token = token_of(anna, made["token"], anna.since_ns + SECOND)
            assert token is not None
            assert client.speaking_for(speaks_as(anna, token)).status() is not None
            assert client.first_admin(anna.password).is_made is False
        assert run("token", "anna", "--end", str(token.token_id)).exit_code == 0
        assert said("disable", "anna")["role"] == "none"
        assert "disabled" in run("list").output
        assert said("enable", "anna")["is_enabled"] is True
        assert run("disable", "carl").exit_code != 0

    entries = [(one.action, one.subject) for one in with_node(tmp_path, story)]
    anna = [action for action, subject in entries if subject == "anna"]
    assert anna == [
        "person_added",
        *["person_changed"] * 5,
    ]


def test_a_login_is_listed_and_ended_by_sessions_end(tmp_path: Path) -> None:
    def story() -> None:
        with connect(tmp_path) as client:
            client.add_person("anna")
            login = client.begin_login("anna", "10.1.1.1")
            assert login in client.sessions() and client.login(login.session_id) == login
            ended = CliRunner().invoke(cli, ["sessions", "end", str(login.session_id), "--data", str(tmp_path)])
            assert ended.exit_code == 0, ended.output
            assert client.login(login.session_id) is None

    with_node(tmp_path, story)
