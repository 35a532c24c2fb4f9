"""`albireo chp`: what it refuses before it serves anything."""

import json
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from albireo.cli import cli
from tests.parts.port import free_row

NODE = "tcp://127.0.0.1:9"
"""Nobody is there."""


def refused(*arguments: str) -> tuple[int, str]:
    found = CliRunner().invoke(cli, ["chp", "--at", NODE, "--json", *arguments])
    told = json.loads(found.stdout.splitlines()[-1])
    assert told["remedy"]
    return found.exit_code, told["error"]


@pytest.mark.parametrize("subtree", ["site", "/site", "site/", "//", "/a//b/", ""])
def test_a_subtree_begins_and_ends_with_a_slash(subtree: str) -> None:
    code, told = refused("--subtree", subtree)
    assert (code, "is no subtree" in told) == (2, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--bind", "tcp://10.0.0.5:5556"], "list the addresses of peers"),
        (["--bind", "tcp://*:5556"], "list the addresses of peers"),
        (["--bind", "tcp://127.0.0.1:65534"], "within 1..65535"),
        (["--bind", "tcp://127.0.0.1:*"], "within 1..65535"),
        (["--bind", "127.0.0.1:5556"], "write tcp://HOST:PORT"),
        (["--peer", "desk"], "'desk' is no address"),
    ],
)
def test_an_endpoint_that_is_none_or_open_to_strangers_is_refused(arguments: list[str], reason: str) -> None:
    code, told = refused(*arguments)
    assert (code, reason in told) == (2, True), told


@pytest.mark.slow
@pytest.mark.parametrize("offset", [0, 1, 2])
def test_ports_that_are_taken_are_named(offset: int) -> None:
    port = free_row(3)
    with socket.create_server(("127.0.0.1", port + offset)):
        code, told = refused("--bind", f"tcp://127.0.0.1:{port}")
    assert (code, f":{port + offset}" in told) == (1, True), told


def test_a_directory_in_which_no_node_ever_ran_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log" / "segments").mkdir(parents=True)
    found = CliRunner().invoke(cli, ["chp", "--data", str(tmp_path)])
    assert (found.exit_code, "no node has ever run there" in found.stderr) == (69, True)
