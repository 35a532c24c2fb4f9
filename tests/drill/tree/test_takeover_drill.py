"""One round of each drill in which a pair of a tree takes over, on real processes."""

from pathlib import Path

import pytest

from albireo.drill.tree.shapes import SHAPES
from tests.long_form import IS_LONG
from tests.parts.one_round import one_round

pytestmark = [pytest.mark.drill, pytest.mark.slow]


@pytest.mark.parametrize("fault", SHAPES if IS_LONG else ["stale-parent"])
def test_one_round_holds(tmp_path: Path, fault: str) -> None:
    one = one_round(tmp_path / "drill", fault)
    assert one["acked"] > 0 and one["orders"] > 0 and one["verified"] > 0
