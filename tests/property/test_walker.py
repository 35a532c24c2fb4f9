"""The historian against a walk from event to event, over files that a history wrote: see tests/parts/walker.py."""

import math
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from albireo.model.instant import SECOND
from tests.long_form import IS_LONG
from tests.parts.property_walker import NIGHTS, agree
from tests.parts.random_lives import Lives
from tests.parts.walker import Life, Told, buckets, stretches


def story(chance: random.Random, tmp_path: Path, count: int, *, is_copied: bool) -> Lives:
    lives = Lives(chance, tmp_path / "node", count, chance.choice(NIGHTS) + 20 * 3600 * SECOND)
    lives.record(lives.actions())
    lives.end()
    if is_copied:
        lives.copied(tmp_path / "other")
    return lives


@pytest.mark.slow
@pytest.mark.parametrize("is_copied", [False, True])
@settings(deadline=None, max_examples=300 if IS_LONG else 10, suppress_health_check=list(HealthCheck))
@given(chance=st.randoms(use_true_random=False))
def test_the_historian_says_what_a_walker_sees(
    tmp_path_factory: pytest.TempPathFactory, is_copied: bool, chance: random.Random
) -> None:
    lives = story(chance, tmp_path_factory.mktemp("lives"), 3, is_copied=is_copied)
    reader = lives.reader()
    for item_id in lives.ids:
        agree(reader, lives, item_id, chance)


def test_a_walker_sees_what_can_be_counted_by_hand() -> None:
    """Gap before the first row, a stale time of a minute, two at one time, a gap, a quality, a text, a time ahead."""
    rows = [Told(100, 1, 2.0, 0), Told(200, 2, 4.0, 1 << 30), Told(500, 4, None, 0), Told(900, 3, math.inf, 0)]
    life = Life(rows=rows, gaps=[50, 300], stale=[(0, 1)])
    assert [(one.begin, one.end, one.kind) for one in stretches(life, 1000)] == [
        (100, 200, "good"),
        (200, 300, "uncertain"),
        (300, 500, "lost"),
        (500, 900, "good"),
        (900, 1000, "bad"),
    ]
    assert [one.end for one in stretches(life, 850)] == [200, 300, 500, 850]
    minute = 60 * SECOND
    assert [one.end for one in stretches(Life(rows=rows[:1], gaps=[], stale=[(0, 1)]), 2 * minute)] == [100 + minute]
    at_once = Life(rows=rows[:1], gaps=[], stale=[(150, 1), (150, None), (minute, 1)])
    assert [one.end for one in stretches(at_once, 2 * minute)] == [2 * minute]
    (one,) = buckets(life, 1000, [0, 1000]).values()
    assert (one.rows, one.good_rows, one.time["good"], one.seen) == (4, 2, 500, [2.0, 2.0])
    assert one.integral == pytest.approx(200e-9)
