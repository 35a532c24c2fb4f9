"""The window of a follower goes with what its link carries."""

import pytest

from albireo.machine.feed.window import FeedWindow
from albireo.model.instant import MS, SECOND, Instant

LEAST, MOST = 8 << 10, 8 << 20


def after(bytes_per_s: int, seconds: float) -> FeedWindow:
    """The window of a link that carries so much, in messages of 20 ms."""
    window = FeedWindow(LEAST, MOST)
    for number in range(int(seconds * 50)):
        window.took(bytes_per_s // 50, Instant(SECOND + number * 20 * MS))
    return window


@pytest.mark.parametrize(
    ("bytes_per_s", "least", "most"),
    [(1_000, LEAST, LEAST), (10_000, 9_000, 11_000), (1_000_000, 900_000, 1_100_000), (100_000_000, MOST, MOST)],
)
def test_no_more_is_on_the_way_than_comes_within_a_second(bytes_per_s: int, least: int, most: int) -> None:
    assert least <= after(bytes_per_s, 3.0).size <= most


def test_a_link_that_was_quiet_begins_with_the_least() -> None:
    window = after(1_000_000, 3.0)
    window.took(100, Instant(100 * SECOND))
    assert window.size == LEAST
