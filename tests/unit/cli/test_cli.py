"""The `albireo` command: help without imports, exit codes, one JSON line, errors with a remedy."""

import importlib
import json
import os
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from fcntl import ioctl
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from albireo.cli import COMMANDS, JSON_ASKED, cli
from albireo.cli.node.write import remedy_of
from albireo.cli.output import ExitCode, Failure, Looks, Output, Shown, TextTable, printed, progress, say, watched
from albireo.model.command import Outcome

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
def test_help_imports_no_command_and_none_of_the_heavy_libraries() -> None:
    """That is what keeps it fast; the time itself is no test."""
    code = (
        "import sys\nfrom albireo.cli import cli\ntry:\n    cli.main(['--help'], prog_name='albireo')\n"
        "except SystemExit: pass\nprint(sorted(m for m in sys.modules if m.startswith('albireo') or m in "
        "('numpy', 'rich', 'zmq', 'pyarrow', 'msgspec', 'pymodbus', 'asyncio')))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "['albireo', 'albireo.cli']"
    for name in COMMANDS:
        assert f"  {name} " in ran.stdout


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_is_there_and_has_help(name: str) -> None:
    module, _, attribute = COMMANDS[name][0].partition(":")
    assert isinstance(getattr(importlib.import_module(module), attribute or "command"), click.Command)
    result = CliRunner().invoke(cli, [name, "--help"])
    assert result.exit_code == 0 and "Usage: " in result.output


def test_every_command_that_gives_data_has_json() -> None:
    """Walks the whole tree; those without are listed with their reason."""
    silent = {"completion": "prints a script", "topology schema": "prints JSON anyway"}
    silent |= {"node run": "runs until stopped", "node stop": "an order"}

    def leaves(command: click.Command, path: str) -> list[tuple[str, click.Command]]:
        if isinstance(command, click.Group):
            context = click.Context(command)
            found = []
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None
                found += leaves(inner, f"{path} {name}".strip())
            return found
        return [(path, command)]

    without = [path for path, command in leaves(cli, "") if not any("--json" in one.opts for one in command.params)]
    assert [path for path in without if path not in silent] == []


def test_an_unknown_command_is_a_usage_error() -> None:
    result = CliRunner().invoke(cli, ["statsu"])
    assert result.exit_code == ExitCode.USAGE


@click.command()
@click.option("--how", default="good")
@printed
def sample(how: str) -> Output:
    """A command in the house's manner."""
    say("working")
    with progress("Long work", 2) as advance:
        advance(1, "first")
        advance(1, "second")
    if how == "bad":
        raise Failure("the node is not there", "start it", ExitCode.UNREACHABLE, {"node": "root"})
    table = TextTable(("item", "value"), [] if how == "empty" else [("co_1", 1.5)], empty="nothing is there")
    failure = Failure("the rest is missing", "ask again", details={"rows": 1}) if how == "cut" else None
    code = ExitCode.FAILED if how == "judged" else ExitCode.GOOD
    return Output({"value": float("nan"), "text": "a\nb"}, table, ("a hint",), code, failure)


def test_json_is_one_line_on_standard_output_and_all_else_is_not() -> None:
    result = CliRunner().invoke(sample, ["--json"])
    assert result.stdout.count("\n") == 1
    assert json.loads(result.stdout) == {"value": None, "text": "a\nb"}
    assert "working" in result.stderr and "Long work" in result.stderr and "hint" not in result.stderr


def test_a_failure_names_its_remedy_and_keeps_its_exit_code() -> None:
    result = CliRunner().invoke(sample, ["--how", "bad"])
    assert result.exit_code == 69
    assert result.stdout == ""
    assert "albireo: the node is not there\nWhat to do: start it\n" in result.stderr


def test_a_failure_under_json_is_one_object_too() -> None:
    result = CliRunner().invoke(sample, ["--how", "bad", "--json"])
    assert result.exit_code == 69
    answer = json.loads(result.stdout)
    assert answer == {"error": "the node is not there", "remedy": "start it", "exit": 69, "node": "root"}


def test_a_table_off_a_terminal_is_tab_separated() -> None:
    result = CliRunner().invoke(sample, [])
    assert (result.stdout, result.stderr.splitlines()[-1]) == ("item\tvalue\nco_1\t1.5\n", "a hint")


def test_a_table_without_rows_says_so() -> None:
    assert CliRunner().invoke(sample, ["--how", "empty"]).stdout == "nothing is there\n"


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_an_output_that_says_so_ends_with_its_exit_code(options: list[str]) -> None:
    result = CliRunner().invoke(sample, ["--how", "judged", *options])
    assert result.exit_code == ExitCode.FAILED and result.stdout


def test_what_came_of_a_cut_answer_is_shown_before_the_failure() -> None:
    result = CliRunner().invoke(sample, ["--how", "cut"])
    assert (result.exit_code, result.stdout) == (ExitCode.FAILED, "item\tvalue\nco_1\t1.5\n")
    assert "albireo: the rest is missing\n" in result.stderr
    told = json.loads(CliRunner().invoke(sample, ["--how", "cut", "--json"]).stdout)
    assert told == {"error": "the rest is missing", "remedy": "ask again", "exit": 1, "rows": 1}


@click.command()
@watched(every_s=0.001)
def look() -> Looks:
    """A command that can be watched, until its third look."""

    def text(number: int) -> Iterator[Shown]:
        yield f"look {number}"
        assert not click.get_current_context().meta[JSON_ASKED], "a text that nobody reads is not made"

    for number in (1, 2, 3):
        yield Output({"look": number}, text(number))
    raise KeyboardInterrupt


def test_a_command_is_asked_once_or_watched_until_ctrl_c() -> None:
    once, watched_text, watched_json = (
        CliRunner().invoke(look, options) for options in ([], ["--watch"], ["--watch", "--json"])
    )
    assert [one.exit_code for one in (once, watched_text, watched_json)] == [0, 0, 0]
    assert once.stdout == "look 1\n"
    assert watched_text.stdout == "look 1\nlook 2\nlook 3\n"
    assert [json.loads(line) for line in watched_json.stdout.splitlines()] == [{"look": 1}, {"look": 2}, {"look": 3}]


def test_an_argument_that_is_not_utf_8_is_a_usage_error() -> None:
    """A terminal that speaks Latin-1 gives such ones; they can't be sent, and were a traceback."""
    program = [sys.executable, "-c", "from albireo.cli import main; main()"]
    command = [*program, "write", "fan_1", "on", "--reason", os.fsdecode(b"St\xf6rung")]
    result = subprocess.run([*command, "--json"], capture_output=True, check=False)
    assert result.returncode == 2 and b"Traceback" not in result.stderr, result.stderr
    assert json.loads(result.stdout)["error"].startswith("'St\\udcf6rung' is not UTF-8")


@pytest.mark.parametrize("arguments", [["--list", "--json"], ["--json", "--list"]])
def test_the_list_of_drills_is_one_json_object_too(arguments: list[str]) -> None:
    listed = CliRunner().invoke(cli, ["drill", "--list"]).stdout.splitlines()
    told = json.loads(CliRunner().invoke(cli, ["drill", *arguments]).stdout)
    assert [f"{name}\t{what}" for name, what in told["faults"].items()] == listed and "pair-under-pair" in told[
        "faults"
    ]


def test_a_table_in_a_narrow_terminal_leaves_nothing_out() -> None:
    """Ids are to be copied, and names that begin alike are to be told apart."""
    ours, theirs = os.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 60, 0, 0))
    name, command_id = "root/north:light_threshold_1_luminance", "24ded490-e95f-4955-99a8-1d269632d819"
    row = ("2026-11-24 13:25:29.026", f"write {name} = 21", "verified", "root", "root", command_id)
    columns = ["given", "what", "state", "who", "at", "id"]
    code = f"from albireo.cli.output import TextTable, show_table; show_table(TextTable({columns}, [{row}]))"
    environment = {**os.environ, "TERM": "xterm"}
    environment.pop("COLUMNS", None)
    subprocess.run([sys.executable, "-c", code], stdout=theirs, stdin=theirs, check=True, env=environment)
    os.close(theirs)
    lines = re.sub("\x1b\\[[0-9;]*m", "", os.read(ours, 65_536).decode()).splitlines()
    os.close(ours)
    assert all(len(line) <= 60 for line in lines)
    first = lines[0].index(" id")
    assert "".join(line[first:].strip() for line in lines[1:]) == command_id, lines


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_name_the_command(shell: str) -> None:
    result = CliRunner().invoke(cli, ["completion", shell])
    assert result.exit_code == 0
    assert "_ALBIREO_COMPLETE" in result.stdout and "To keep it" in result.stderr


@pytest.mark.slow
def test_the_names_of_commands_complete_without_importing_them() -> None:
    environment = {"COMP_WORDS": "albireo topo", "COMP_CWORD": "1", "_ALBIREO_COMPLETE": "bash_complete"}
    code = "from albireo.cli import main; main()"
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert ran.stdout.split() == ["plain,topology"]


@pytest.mark.slow
def test_python_without_assertions_is_refused() -> None:
    code = "from albireo.cli import main; main()"
    ran = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 78
    assert "without python -O" in ran.stderr


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_traceback() -> None:
    code = (
        "import sys, click\nfrom albireo.cli import cli, main, COMMANDS\n"
        "sys.argv = ['albireo', 'topology', 'schema']\nmain()"
    )
    ran = subprocess.run(
        ["bash", "-c", f"'{sys.executable}' -c \"$0\" | true; exit ${{PIPESTATUS[0]}}", code],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("outcome", [one for one in Outcome if one.is_final])
def test_every_remedy_stands_for_itself(outcome: Outcome) -> None:
    """Whoever reads the JSON sees nothing above it."""
    remedy = remedy_of(outcome, "fan_1", "c-1")
    assert remedy and "above" not in remedy


def test_a_write_that_expired_at_another_node_points_at_the_tree() -> None:
    assert "albireo tree" not in remedy_of(Outcome.EXPIRED, "fan_1", "c-1")
    remedy = remedy_of(Outcome.EXPIRED, "north:fan_1", "c-1", "root/north")
    assert "`albireo tree` says whether root/north is heard" in remedy


def test_no_remedy_points_at_other_lines() -> None:
    pointing = [
        f"{path.name}: {line.strip()}"
        for path in (ROOT / "src/albireo").rglob("*.py")
        for line in path.read_text().splitlines()
        if re.search(r"""["'][^"']*\bsee (the \w+ )?above\b""", line)
    ]
    assert pointing == []


def test_results_go_to_standard_output(tmp_path: Path) -> None:
    """What --json has too is data; a pipe gets it, a person reads it all the same."""
    here, there = tmp_path / "here", tmp_path / "there"
    run = CliRunner().invoke
    assert run(cli, ["keys", "new", "operator@here", "--keys", str(here)]).exit_code == 0
    line = run(cli, ["keys", "new", "root[primary]", "--keys", str(there)]).stdout.split()
    commands = {
        "trusted": ["keys", "trust", "root[primary]", line[-1], "--keys", str(here)],
        "Revoked": ["keys", "revoke", "root[primary]", "--keys", str(here)],
        "wrote": ["topology", "new", "--out", str(tmp_path / "site")],
        "good": ["topology", "check", str(tmp_path / "site/topology.toml")],
    }
    for word, command in commands.items():
        result = run(cli, command)
        assert result.exit_code == 0 and word in result.stdout, (command, result.output)


@pytest.mark.parametrize(
    "arguments",
    [
        ["statsu", "--json"],
        ["status", "--json", "--wach"],
        ["write", "fan_1", "--json"],
        ["history", "co_1", "--every", "soon", "--json"],
        ["keys", "trust", "--json"],
    ],
)
def test_a_wrong_usage_is_one_json_object_too(arguments: list[str]) -> None:
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == ExitCode.USAGE
    answer = json.loads(result.stdout)
    assert answer["exit"] == 2 and answer["error"] and answer["remedy"].endswith("--help")
    without = CliRunner().invoke(cli, [one for one in arguments if one != "--json"])
    assert (without.exit_code, without.stdout) == (ExitCode.USAGE, ""), "without it, click's own words"
