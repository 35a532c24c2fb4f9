"""A day in which a subtree of whole nodes is cut off from everything above; see docs/simulation.md."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from albireo.machine.feed.leader import Leader
from albireo.machine.history.copy_pace import FROM_BELOW
from albireo.machine.tree.copier import Copier
from albireo.sim.engine.stage import Violation, taken
from albireo.sim.tree.day import HOLD_BYTES, NORTH, PUMP, TreeDay
from tests.long_form import IS_LONG
from tests.parts.history import MemoryLog
from tests.parts.history_below import Historian
from tests.parts.history_copy import Copy, all_rows

AMPLE_DAYS: Final = 1.25
SHORT_DAYS: Final = 0.5
"""Hold of the site that is cut off: one that a day does not use up, and one that does not last so long."""
HALF_A_DAY_BYTES: Final = {200: 650_000, 20: 6_000_000}
"""Size of about half of what it records in a day, by pace."""
SEVERAL_MINUTES: Final = pytest.mark.timeout(7_200)


@pytest.mark.parametrize(
    ("hold_days", "hold_bytes"),
    [
        pytest.param(SHORT_DAYS, HOLD_BYTES, id="age"),
        pytest.param(
            AMPLE_DAYS,
            HALF_A_DAY_BYTES[200],
            id="size",
            marks=pytest.mark.skipif(not IS_LONG, reason="ten seconds; real processes in test_tree_let_go.py"),
        ),
    ],
)
def test_a_subtree_lives_alone_for_a_day_and_above_only_that_is_missing_which_its_limits_let_go(
    tmp_path: Path, hold_days: float, hold_bytes: int
) -> None:
    """The stored history above has a gap for it, and gets it from that of the site: each row, once."""
    day = TreeDay(1, pace=200, is_pair=False, hold_days=hold_days, hold_bytes=hold_bytes).play()
    above, site, below = (stored(tmp_path, day, node) for node in ("root", NORTH, PUMP))
    (source_below,) = site.below.of_node(PUMP, site.log_id)
    for node, source, own in ((NORTH, site.store, site), (PUMP, source_below.store, below)):
        (origin,) = above.below.of_node(node, above.log_id)
        (hole,) = origin.store.manifest.holes
        gaps = day.world.copies.gaps["root"][own.log_id]
        assert [(hole.first_sequence, hole.last_sequence + 1, hole.reason)] == [(*gap, "let_go") for gap in gaps]
        assert Copy(source, origin.store, config=msgspec.structs.replace(FROM_BELOW, node=node), is_final=True).run()
        assert origin.store.manifest.holes == ()
        upto = min(one.manifest.position.sequence for one in (origin.store, own.store))  # One followed for longer.
        assert upto > day.ends_at[-1][node == PUMP]
        assert all_rows(origin.store, upto) == all_rows(own.store, upto)


def stored(data: Path, day: TreeDay, node: str) -> Historian:
    """The history of a node, and those that it keeps of nodes below, as the day's records make them."""
    log = MemoryLog(day.given[node][0].header.log_id)
    log.frames = day.given[node]
    historian = Historian(data / node.replace("/", "~"), node=node, log_id=log.log_id)
    historian.take(log)
    historian.seal()
    return historian


@pytest.mark.skipif(not IS_LONG, reason="half an hour in all")
@SEVERAL_MINUTES
@pytest.mark.parametrize(
    ("hold_days", "hold_bytes"),
    [(AMPLE_DAYS, HOLD_BYTES), (SHORT_DAYS, HOLD_BYTES), (AMPLE_DAYS, HALF_A_DAY_BYTES[20])],
    ids=["ample", "age", "size"],
)
@pytest.mark.parametrize("is_pair", [True, False], ids=["pair", "alone"])
def test_a_day_with_beats_every_two_seconds(is_pair: bool, hold_days: float, hold_bytes: int) -> None:
    TreeDay(1, pace=20, is_pair=is_pair, hold_days=hold_days, hold_bytes=hold_bytes).play()


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
