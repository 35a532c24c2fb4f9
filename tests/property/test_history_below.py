"""Whatever comes in whatever order - repeats, forks, seals, kills, lost manifests - each history has its rows once."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.parts.history_below import Historian, damage_newest, is_whole, rows, sites

SITE = st.integers(0, 1)
STEPS = st.one_of(
    st.tuples(st.just("writes"), SITE, st.integers(1, 3)),
    st.tuples(st.just("sends"), SITE, st.integers(1, 3)),
    st.tuples(st.just("repeats"), SITE, st.integers(1, 4)),
    st.tuples(st.just("own"), SITE, st.integers(1, 2)),
    st.tuples(st.just("takes"), SITE, st.integers(0, 3)),
    st.tuples(st.just("seals"), SITE, st.just(0)),
    st.tuples(st.just("killed"), SITE, st.integers(0, 2)),
    st.tuples(st.just("restored"), SITE, st.integers(0, 12)),
    st.tuples(st.just("damaged"), SITE, st.just(0)),
)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(st.lists(STEPS, max_size=30))
@example([("takes", 0, 0), ("killed", 0, 1), ("damaged", 0, 0)])
def test_each_history_has_exactly_its_rows_once(steps: list[tuple[str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        log, below = sites()
        life = Historian(data)
        for number, (step, which, count) in enumerate(steps):
            site = below[which]
            match step:
                case "writes":
                    site.log.samples(rows(count, number * 10), number)
                case "sends":
                    site.send(log, site.pending()[:count])
                case "repeats":
                    site.send(log, [one for one in site.log.frames if one.header.last_sequence <= site.above][-count:])
                case "own":
                    log.samples(rows(count, number * 10), number)
                case "takes":
                    life.take(log, max(0, log.end - count))
                case "seals":
                    life.seal()
                case "killed":
                    life.seal(dies_after=count)
                    life = Historian(data)
                case "restored":
                    site.restored(log, count)
                case "damaged":
                    damage_newest(data, site)
                    life = Historian(data)
        for site in below:
            site.send(log, site.pending())
        life.take(log)
        life.seal()
        is_whole(data, log, below)
        again = Historian(data)
        assert not again.below.has_news
        assert again.below.left_out == 0
