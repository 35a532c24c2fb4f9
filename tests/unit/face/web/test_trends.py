"""Lengths of the intervals of a trend. What a trend tells of a real history is in test_line.py."""

import pytest

from albireo.face.web.trends import LENGTHS_MS, length_of


@pytest.mark.parametrize(
    ("span_s", "points", "length_s"),
    [
        (1, 600, 1),
        (600, 600, 1),
        (601, 600, 2),
        (86_400, 600, 300),
        (30 * 86_400, 600, 7_200),
        (10**9, 10, 1_157 * 86_400 + 86_400),
    ],
)
def test_an_interval_is_the_shortest_that_people_know(span_s: int, points: int, length_s: int) -> None:
    found = length_of(span_s * 1000, points)
    assert found * points >= span_s * 1000
    assert found == length_s * 1000 or found > LENGTHS_MS[-1]
