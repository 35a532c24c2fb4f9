"""Ctrl-C during an order says that it may be done, and how to ask; during a question it says nothing of orders."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from albireo.cli import cli, target
from albireo.client import Client


@pytest.mark.parametrize(
    ("arguments", "told_by"),
    [
        (("write", "fan_1", "true"), "albireo command list"),
        (("force", "fan_1", "true", "--for", "1m"), "albireo forces"),
        (("cases", "ack", "12"), "albireo cases list"),
        (("command", "cancel", "b5a8"), "albireo command show 'b5a8'"),
        (("message", "send", "north", __file__), "albireo command list"),
        (("items",), ""),
    ],
)
def test_who_breaks_off_an_order_hears_how_to_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], told_by: str
) -> None:
    def interrupted(*_: object, **__: object) -> Client:
        raise KeyboardInterrupt

    monkeypatch.setattr(target, "opened", interrupted)
    (tmp_path / "log" / "segments").mkdir(parents=True)
    said = CliRunner().invoke(cli, [*arguments, "--data", str(tmp_path)])
    assert said.exit_code == 1 and said.stdout == ""
    if told_by:
        assert "may be done" in said.stderr and told_by in said.stderr
    else:
        assert "ordered" not in said.stderr
    answer = CliRunner().invoke(cli, [*arguments, "--data", str(tmp_path), "--json"])
    (line,) = answer.stdout.splitlines()
    assert told_by in json.loads(line)["remedy"]
