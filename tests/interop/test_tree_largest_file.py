"""The largest file goes down one level of a tree, and one of a byte more is refused before anything is sent."""

import json
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
from click.testing import CliRunner

from albireo.cli import cli
from albireo.client import FileNotSent, connect
from albireo.client.message.files import FILE_BYTES_MAX
from tests.parts.tree import tree_of
from tests.parts.tree_files import receive_files, run
from tests.parts.tree_messages import joined
from tests.parts.tree_orders import NORTH, ROOT
from tests.parts.waiting import PATIENCE_S

pytestmark = pytest.mark.slow


def test_a_file_of_64_mib_arrives_whole_and_one_byte_more_is_refused(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH)
    data = random.Random(1).randbytes(FILE_BYTES_MAX)
    larger = tmp_path / "larger.bin"
    larger.write_bytes(data + b"1")

    def story_of() -> None:
        joined(nodes)
        ends = Event()
        with (
            ThreadPoolExecutor() as pool,
            connect(nodes[NORTH].endpoint) as below,
            connect(nodes[ROOT].endpoint) as top,
        ):
            with pytest.raises(FileNotSent, match=f"larger.bin has more than {FILE_BYTES_MAX} bytes"):
                top.send_file(NORTH, larger, inbox="files", expires_s=PATIENCE_S)
            receiving = pool.submit(receive_files, below, tmp_path / "in", ends)
            try:
                proof = top.send_file(NORTH, data, name="all.bin", inbox="files", expires_s=600)
            finally:
                ends.set()
            assert proof.outcome == "executed"
            (path,) = receiving.result()
            assert path.read_bytes() == data
        refused = CliRunner().invoke(
            cli, ["message", "send", NORTH, str(larger), "--data", str(nodes[ROOT].data), "--json"]
        )
        assert refused.exit_code == 1
        told = json.loads(refused.stdout.splitlines()[-1])
        assert f"more than {FILE_BYTES_MAX} bytes" in told["error"] and f"at most {FILE_BYTES_MAX}" in told["remedy"]

    run(nodes, story_of)
