"""Back-off: waits that grow to their limit, never too short, never in step."""

import random

import pytest

from albireo.field.back_off import BackOff, BackOffConfig
from albireo.model.instant import MS, SECOND

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
