"""One round of each drill of a site below a root, both without a second member, on real processes."""

from pathlib import Path

import pytest

from albireo.drill.name_server import objection
from albireo.drill.tree.lone import ALONE_S, DNS, FAULTS, SLOW_LINK
from albireo.drill.tree.slow_link import ORDER_S, VALUE_S
from tests.long_form import IS_LONG
from tests.parts.one_round import one_round

pytestmark = [pytest.mark.drill, pytest.mark.slow]

ELSEWHERE = ("cut-site", "kill-root", DNS)
"""Faults that don't touch the site, which goes on meanwhile."""


@pytest.mark.parametrize("fault", FAULTS if IS_LONG else ["kill-root", "restart-tree", DNS, SLOW_LINK])
def test_one_round_holds(tmp_path: Path, fault: str) -> None:
    if fault == DNS and (reason := objection()):
        pytest.skip(reason)
    one = one_round(tmp_path / "drill", fault)
    assert one["acked"] > 0
    assert (one["lost"], one["doubled"], one["reordered"], one["looked_live"]) == (0, 0, 0, 0)
    if fault in ELSEWHERE:
        assert one["gap_s"] <= ALONE_S
    else:
        assert one["gap_s"] is None
    if fault == SLOW_LINK:
        seen = one["seen"]
        assert seen["orders"] > 1
        assert (seen["value_s"] <= VALUE_S, seen["order_s"] <= ORDER_S) == (True, True), seen
