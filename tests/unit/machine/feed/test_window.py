"""The window of a follower goes with what its link carries."""

import pytest

from albireo.machine.feed.window import FeedWindow
from albireo.model.instant import MS, SECOND, Instant

LEAST, MOST = 8 << 10, 8 << 20


def after(bytes_per_s: int, seconds: float) -> FeedWindow:
    """The window of a link that carries so much, in messages of 20 ms, behind a round trip of half a second."""
    window = FeedWindow(LEAST, MOST)
    window.answered(SECOND // 2)
    for number in range(int(seconds * 50)):
        window.took(bytes_per_s // 50, Instant(SECOND + number * 20 * MS))
    return window


@pytest.mark.parametrize(
    ("bytes_per_s", "least", "most"),
    [(1_000, LEAST, LEAST), (10_000, 9_000, 11_000), (1_000_000, 900_000, 1_100_000), (100_000_000, MOST, MOST)],
)
def test_no_more_is_on_the_way_than_comes_within_half_a_second_and_the_round_trip(
    bytes_per_s: int, least: int, most: int
) -> None:
    assert least <= after(bytes_per_s, 3.0).size <= most


def test_a_far_link_is_kept_full() -> None:
    """With less than a round trip on the way it would carry less the farther it is, and be measured so."""
    carried, window, now = 0, FeedWindow(LEAST, MOST), Instant(SECOND)
    window.answered(2 * SECOND)
    for _ in range(20):
        carried = min(window.size, 200_000)  # What comes in a round trip of 2 s over 100 kB/s.
        now = Instant(now + 2 * SECOND)
        window.took(carried, now)
    assert carried == 200_000


def test_a_link_that_was_quiet_begins_with_the_least() -> None:
    window = after(1_000_000, 3.0)
    window.took(100, Instant(100 * SECOND))
    assert window.size == LEAST
