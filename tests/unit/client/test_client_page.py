"""Every program of docs/client.md runs as it stands there, at a lone node and at a pair."""

import asyncio
import re
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pytest

from albireo.client import connect
from albireo.node.history import HistoryArguments
from albireo.node.history.actor import Historian
from albireo.runtime import running
from albireo.runtime.clock import wall_ns
from tests.parts.client import lone
from tests.parts.client_history import wait_for
from tests.parts.core_pair import aside, plant, until
from tests.parts.early_receipts import ITEM, batch
from tests.parts.history_join import stored
from tests.parts.waiting import PATIENCE_S

pytestmark = [pytest.mark.slow]

PAGE: Final = Path(__file__).parents[3] / "docs" / "client.md"
PROGRAMS: Final = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def run_all(target: object) -> None:
    with connect(target, timeout_s=PATIENCE_S) as client:  # type: ignore[arg-type]  # As a program would.
        now = np.full(1, wall_ns(), np.int64)
        with client.producer("meter", [ITEM]) as producer:
            producer.offer([msgspec.structs.replace(batch(one), source_ns=now + one, node_ns=now) for one in (1, 2, 3)])
        wait_for(3, lambda: client.history("number", 0))
    for number, program in enumerate(PROGRAMS):
        names: dict[str, Any] = {"target": target, "__name__": f"program_{number}"}
        exec(compile(program, f"{PAGE.name}, program {number + 1}", "exec"), names)


def test_there_are_programs_for_threads_and_for_asyncio() -> None:
    assert len(PROGRAMS) >= 12
    assert sum("aconnect" in one for one in PROGRAMS) == len(PROGRAMS) / 2


def test_they_run_at_a_lone_node(tmp_path: Path) -> None:
    async def story() -> None:
        async with lone(tmp_path), running(Historian(HistoryArguments(node="root")), tmp_path):
            await aside(lambda: run_all(tmp_path))

    asyncio.run(story())


def test_they_run_at_a_pair(tmp_path: Path) -> None:
    async def story() -> None:
        async with plant(tmp_path) as made:
            await made.start(1)
            await made.wait_for("active", "ready")
            cases = made.cores[0].root.folds.cases
            await until(lambda: not any(one.is_active for one in cases), "the pair is no longer at risk")
            async with stored(made, 0), stored(made, 1):
                await aside(lambda: run_all(",".join(one.endpoint for one in made.lines)))

    asyncio.run(story())
