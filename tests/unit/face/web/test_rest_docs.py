"""The examples of docs/rest.md, played against a node, and its table of figures."""

import asyncio
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from albireo.face.web.metrics import families_table
from tests.parts.web import HIGH, WebNode, item

PAGE = Path(__file__).parents[4] / "docs" / "rest.md"


def test_all_figures_are_told() -> None:
    assert families_table() in PAGE.read_text(), (
        'into docs/rest.md: python -c "from albireo.face.web.metrics import families_table; print(families_table())"'
    )


@pytest.mark.slow
@pytest.mark.interop
@pytest.mark.skipif(shutil.which("curl") is None, reason="Debian package curl is missing")
def test_each_example_of_the_page_does_what_it_says(tmp_path: Path) -> None:
    examples = re.findall(r"^curl .*$", PAGE.read_text(), re.MULTILINE)
    assert len(examples) > 10

    def played(node: WebNode) -> None:
        told = {"PAGE": node.url, "TOKEN": node.log_in(), "PATH": "/usr/bin:/bin"}
        for one in examples:
            done = subprocess.run(["bash", "-c", one], env=told, capture_output=True, text=True, check=False)
            assert done.returncode == 0 and done.stdout, (one, done.stderr)

    async def main() -> None:
        node = WebNode(tmp_path)
        async with node.up():
            await asyncio.to_thread(node.produce, item("co", alarm=HIGH), item("no"), value=150.0)
            await node.until("/api/v1/read?names=co,no", lambda one: one.status == 200)
            token = await node.token()
            await node.until("/api/v1/history?items=co&start_ms=1", lambda one: one.status == 200 and one.text, token)
            await asyncio.to_thread(played, node)

    asyncio.run(main())
