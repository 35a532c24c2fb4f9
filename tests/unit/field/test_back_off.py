"""Back-off: waits that grow to their limit, never too short, never in step."""

import random

import pytest

from albireo.field.back_off import BackOff, BackOffConfig
from albireo.model.instant import MS, SECOND
from albireo.model.topology import AdapterConfig

CONFIG = BackOffConfig(first_ns=500 * MS, longest_ns=4 * SECOND)


def waits(seed: int, count: int) -> list[int]:
    state, draw = BackOff(), random.Random(seed)
    found: list[int] = []
    for _ in range(count):
        state, wait = state.next(CONFIG, draw)
        found.append(wait)
    return found


def test_each_wait_lies_in_the_upper_half_of_a_range_that_doubles_up_to_the_longest() -> None:
    for seed in range(50):
        for wait, range_ms in zip(waits(seed, 6), [500, 1000, 2000, 4000, 4000, 4000], strict=True):
            assert range_ms * MS / 2 <= wait <= range_ms * MS


def test_the_same_seed_gives_the_same_waits_and_others_differ() -> None:
    assert waits(1, 5) == waits(1, 5)
    assert len({tuple(waits(seed, 5)) for seed in range(20)}) == 20


def test_an_empty_range_is_refused() -> None:
    with pytest.raises(ValueError, match="first_ns <= longest_ns"):
        BackOffConfig(first_ns=2, longest_ns=1)


def test_a_device_that_is_back_is_tried_within_two_seconds_however_long_it_was_away() -> None:
    """With 30 s, values stayed bad for up to 16 s after an outage of 20."""
    config = AdapterConfig(name="p1", kind="modbus")
    limits = BackOffConfig(first_ns=config.backoff_min_ms * MS, longest_ns=config.backoff_max_ms * MS)
    assert limits == BackOffConfig()
    state, draw, away_ns = BackOff(), random.Random(1), 0
    while away_ns < 3600 * SECOND:
        state, wait = state.next(BackOffConfig(), draw)
        assert wait <= 2 * SECOND
        away_ns += wait
