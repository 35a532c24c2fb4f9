"""The historian against a walk from event to event, over files that a history wrote: see tests/parts/walker.py."""

import math
import random
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from albireo.codec.history import BUCKET_NS, DAY_NS, day_start_ns
from albireo.machine.history.intervals import averages
from albireo.machine.history.trace import AggregateSettings
from albireo.model.instant import SECOND
from albireo.node.history.query import StoredHistory, TimeRange
from tests.long_form import IS_LONG
from tests.parts.random_lives import Lives
from tests.parts.walker import Bucket, Life, Told, buckets, stretches

NIGHTS = (day_start_ns("2026-03-28"), day_start_ns("2026-10-24"), day_start_ns("2023-12-31"))
"""Days whose nights change to and from summer time, and the year."""
WIDTHS = ((BUCKET_NS, 0), (15 * BUCKET_NS, 0), (3600 * SECOND, 17 * SECOND), (DAY_NS, 0))


def agree(reader: StoredHistory, lives: Lives, item_id: int, chance: random.Random) -> None:
    """Intervals of the historian, from raw rows and from stored sums, are those of the walker."""
    life = lives.life(item_id)
    times = [row.source_ns for row in life.rows] or [lives.known_to]
    every, shift = chance.choice(WIDTHS)
    begin = min(times) // DAY_NS * DAY_NS + shift
    wide = max(every, DAY_NS // 2)
    begin += chance.randint(0, 3) * wide // 4 // every * every
    span = TimeRange(begin, begin + max(4 * every, 2 * wide) - chance.choice((0, 1, every // 3)))
    chosen = AggregateSettings(treat_uncertain_as_bad=chance.random() < 0.7)
    usable = ("good",) if chosen.treat_uncertain_as_bad else ("good", "uncertain")
    edges = span.edges(every)
    wanted = buckets(
        life, lives.known_to, edges.tolist() if len(edges) > 2 else [span.from_ns, span.to_ns], usable=usable
    )
    for only_raw in (False, True):
        found = reader.intervals(item_id, span, every, chosen, only_raw=only_raw)
        average = averages(found, chosen)
        for index, start in enumerate(edges[:-1].tolist()):
            one = wanted.get(start, Bucket())
            place = partial("{}, every {}, at {}, only_raw {}: {}".format, item_id, every, start, only_raw, life)
            assert (found.rows[index], found.good_rows[index]) == (one.rows, one.good_rows), place()
            assert found.good_ns[index] == one.time["good"], place()
            assert found.uncertain_ns[index] == one.time["uncertain"], place()
            assert found.bad_ns[index] == one.time["bad"] + one.time["lost"], place()
            held_ns = sum(one.time[kind] for kind in usable)
            if held_ns and one.seen:
                size = 1e-9 * one.size / (held_ns / SECOND)
                assert abs(average[index] - one.integral / (held_ns / SECOND)) <= size, place()
            for extreme, of in ((found.minimum, min), (found.maximum, max)):
                value = float(extreme[index])
                assert math.isnan(value) if not one.seen else value == float(of(one.seen)), place()


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
