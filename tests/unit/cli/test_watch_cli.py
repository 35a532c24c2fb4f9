"""`albireo watch` where no terminal is: each change is a line."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from albireo.cli import cli
from albireo.client import connect
from tests.parts.access_cli import with_node
from tests.parts.client import produce
from tests.parts.waiting import PATIENCE_S


@pytest.mark.slow
def test_where_no_terminal_is_each_change_is_a_line(tmp_path: Path) -> None:
    def story() -> None:
        with connect(tmp_path, timeout_s=PATIENCE_S) as client:
            produce(client, 1, 3)
        watched = CliRunner().invoke(cli, ["watch", "--for", "0.5", "--data", str(tmp_path)])
        assert watched.exit_code == 0, watched.output
        (line,) = watched.stdout.splitlines()
        assert line.split("\t")[1:] == ["root:number", "3", "Good"]
        chosen = CliRunner().invoke(cli, ["watch", "root/*", "--for", "0.5", "--data", str(tmp_path)])
        assert "root:number" not in chosen.stdout

    with_node(tmp_path, story)
