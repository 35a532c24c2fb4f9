"""`albireo message` at both ends of a tree on real links."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from click.testing import CliRunner, Result

from albireo.cli import cli
from albireo.client import connect
from tests.parts.tree import tree_of
from tests.parts.tree_files import NODES, receive_files, run
from tests.parts.tree_messages import joined
from tests.parts.tree_orders import PUMP, ROOT
from tests.parts.waiting import PATIENCE_S

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
    waiting = ("--wait", str(PATIENCE_S))

    def command(node: str, *words: str) -> Result:
        return CliRunner().invoke(cli, ["message", *words, "--data", str(nodes[node].data), "--json"])

    def story_of() -> None:
        joined(nodes)
        ends = Event()  # One command at a time: the runner of commands takes the streams of the process.
        with ThreadPoolExecutor() as pool, connect(nodes[PUMP].endpoint) as below, connect(nodes[ROOT].endpoint) as top:
            receiving = pool.submit(receive_files, below, tmp_path / "one", ends)
            try:
                sent = told(command(ROOT, "send", "pump", str(recipe), "--inbox", "files"))
            finally:
                ends.set()
            assert (sent["outcome"], sent["reply"]) == ("executed", None)
            (path,) = receiving.result()
            assert path.read_bytes() == recipe.read_bytes()
            sending = pool.submit(top.send_file, "pump", recipe, inbox="r", expires_s=PATIENCE_S)
            reading = ("receive", "--inbox", "r", "--out", str(tmp_path / "two"), *waiting)
            found: Any = told(command(PUMP, *reading))["messages"]
            assert [Path(one["path"]).read_bytes() for one in found] == [recipe.read_bytes()]
            assert sending.result().outcome == "executed", "its receiver is gone once the file is whole"
        note = tmp_path / "note.txt"
        note.write_text("hello")
        command_id = str(told(command(ROOT, "send", "pump", str(note), "--no-wait"))["command_id"])
        assert told(command(ROOT, "show", command_id))["outcome"] is None
        taken: Any = told(command(PUMP, "receive", *waiting))["messages"]
        assert [one["body"] for one in taken] == ["aGVsbG8="]
        assert told(command(ROOT, "show", command_id, *waiting))["outcome"] == "executed"
        listed = CliRunner().invoke(cli, ["command", "list", "--data", str(nodes[ROOT].data)]).stdout
        assert f"\tmessage of 5 bytes to {PUMP}\texecuted\t" in listed, listed
        refused = command(ROOT, "send", "pump", str(note), "--inbox", "nobody", "--expires", "0.3")
        assert refused.exit_code == 1 and json.loads(refused.stdout.splitlines()[-1])["outcome"] == "expired"
        assert command(ROOT, "send", "pump", str(note), "--as-file", "--no-wait").exit_code == 1
        assert command(PUMP, "receive", "--inbox", "a/b", "--wait", "0.1").exit_code == 1

    run(nodes, story_of)
