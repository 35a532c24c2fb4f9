"""Parts that tests share: the historian against a walk from event to event, over files that a history wrote."""

import math
import random
from functools import partial

from albireo.codec.history import BUCKET_NS, DAY_NS, day_start_ns
from albireo.machine.history.intervals import averages
from albireo.machine.history.trace import AggregateSettings
from albireo.model.instant import SECOND
from albireo.node.history.query import StoredHistory, TimeRange
from tests.parts.random_lives import Lives
from tests.parts.walker import Bucket, buckets

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
