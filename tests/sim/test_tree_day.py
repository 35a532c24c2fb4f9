"""A day in which a subtree of whole nodes is cut off from everything above; see docs/simulation.md."""

from collections.abc import Mapping
from typing import Any, Final

import pytest

from albireo.machine.feed.leader import Leader
from albireo.machine.tree.copier import Copier
from albireo.sim.engine.stage import Violation
from albireo.sim.nodes.shortcuts import taken
from albireo.sim.tree.day import TreeDay
from tests.long_form import IS_LONG

AMPLE_DAYS: Final = 1.25
SHORT_DAYS: Final = 0.5
"""Hold of the site that is cut off: one that a day does not use up, and one that does not last so long."""
SEVERAL_MINUTES: Final = pytest.mark.timeout(7_200)


def test_a_subtree_lives_alone_for_a_day_and_above_only_that_is_missing_which_its_limits_let_go() -> None:
    TreeDay(1, pace=200, is_pair=False, hold_days=SHORT_DAYS).play()


@pytest.mark.skipif(not IS_LONG, reason="a quarter of an hour in all")
@SEVERAL_MINUTES
@pytest.mark.parametrize("hold_days", [AMPLE_DAYS, SHORT_DAYS])
@pytest.mark.parametrize("is_pair", [True, False], ids=["pair", "alone"])
def test_a_day_with_beats_every_two_seconds(is_pair: bool, hold_days: float) -> None:
    TreeDay(1, pace=20, is_pair=is_pair, hold_days=hold_days).play()


def _gap_of_the_child_alone(self: Copier, *_: Any) -> None:
    """Suspect nothing of what a child forwards, though it let go of records."""


SHORTCUTS: Final[Mapping[str, tuple[type, str, Any]]] = {
    "nothing is held for the parent": (Leader, "wanted_from", lambda self, name: 1 << 60),
    "only the child's own records may be missing behind its gap": (Copier, "lacks_below", _gap_of_the_child_alone),
}


@pytest.mark.skipif(not IS_LONG, reason="a day for each")
@pytest.mark.parametrize("name", SHORTCUTS)
def test_a_day_shows_a_shortcut(name: str) -> None:
    hold_days = AMPLE_DAYS if "held" in name else SHORT_DAYS
    with taken(SHORTCUTS[name]), pytest.raises(Violation):
        TreeDay(1, pace=200, is_pair=False, hold_days=hold_days).play()
