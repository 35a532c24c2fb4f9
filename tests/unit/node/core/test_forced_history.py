"""The history of a forced item: what it was forced to under its name, and what was measured beside it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from albireo.model import quality
from albireo.model.instant import SECOND
from tests.parts.core_pair import aside
from tests.parts.lone import LoneNode, asked_until

pytestmark = [pytest.mark.slow]
OPERATOR = "boiler"
BEGAN = 1_600_000_000 * SECOND


def test_both_series_are_stored_each_with_its_quality(tmp_path: Path) -> None:
    node = LoneNode(tmp_path, OPERATOR)

    def rows(name: str, count: int) -> list[tuple[Any, Any]]:
        with node.program(OPERATOR) as program:
            wanted = {"names": [name], "from_ns": 0, "to_ns": 2 * BEGAN, "rows_max": 100}
            asked_until(program, lambda found: found["rows"] == count, "history_piece", "history", **wanted)
            table = program.pieces("history_piece", **wanted)
        return list(zip(table.column("value_f64").to_pylist(), table.column("quality").to_pylist(), strict=True))

    def story() -> None:
        node.produce(OPERATOR, [(0, BEGAN, 10.0, 0)])
        with node.program(OPERATOR) as program:
            program.result("force", item="co", value=20.0, for_ms=600_000, reason="test")
        node.produce(OPERATOR, [(0, BEGAN + SECOND, 11.0, 0)])
        assert rows("co", 2) == [(10.0, quality.GOOD), (20.0, quality.GOOD_LOCAL_OVERRIDE)]
        assert sorted(rows("co/measured", 2)) == [(10.0, quality.GOOD), (11.0, quality.GOOD)]

    async def world() -> None:
        async with node.core_up(), node.history_up():
            await aside(story)

    asyncio.run(world())
