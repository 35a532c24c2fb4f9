"""`albireo message` at both ends of a tree on real links."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from albireo.cli import cli
from tests.interop.test_tree_files import NODES, run
from tests.interop.test_tree_messages import joined
from tests.interop.test_tree_orders import PUMP, ROOT
from tests.parts.tree import tree_of

pytestmark = pytest.mark.slow


def told(result: Result) -> dict[str, object]:
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout.splitlines()[-1])
    assert isinstance(answer, dict)
    return answer


def test_a_message_and_a_file_go_by_the_command(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, *NODES)
    recipe = tmp_path / "recipe.bin"
    recipe.write_bytes(bytes(600_000))  # More than one message holds.

    def command(node: str, *words: str) -> Result:
        return CliRunner().invoke(cli, ["message", *words, "--node", nodes[node].endpoint, "--json"])

    def story_of() -> None:
        joined(nodes)
        with ThreadPoolExecutor() as pool:
            out = str(tmp_path / "in")
            receiving = pool.submit(
                command, PUMP, "receive", "--inbox", "r", "--out", out, "--wait", "8", "--count", "2"
            )
            sent = told(command(ROOT, "send", "pump", str(recipe), "--inbox", "r"))
            assert sent["outcome"] == "executed"
            (found,) = told(receiving.result())["messages"]  # type: ignore[misc]  # A list.
            assert Path(found["path"]).read_bytes() == recipe.read_bytes()
        note = tmp_path / "note.txt"
        note.write_text("hello")
        command_id = str(told(command(ROOT, "send", "pump", str(note), "--no-wait"))["command_id"])
        assert told(command(ROOT, "show", command_id))["outcome"] is None
        (taken,) = told(command(PUMP, "receive", "--wait", "8"))["messages"]  # type: ignore[misc]  # A list.
        assert taken["body"] == "aGVsbG8="
        assert told(command(ROOT, "show", command_id, "--wait", "5"))["outcome"] == "executed"
        refused = command(ROOT, "send", "pump", str(note), "--inbox", "nobody", "--expires", "0.3")
        assert refused.exit_code == 1 and json.loads(refused.stdout.splitlines()[-1])["outcome"] == "expired"
        assert command(ROOT, "send", "pump", str(note), "--as-file", "--no-wait").exit_code == 1
        assert command(PUMP, "receive", "--inbox", "a/b", "--wait", "0.1").exit_code == 1

    run(nodes, story_of)
