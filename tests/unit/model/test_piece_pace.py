"""The size of a piece goes with what its link has shown, and the round trip does not count."""

import pytest

from albireo.model.instant import MS, SECOND
from albireo.model.piece_pace import PiecePace

LEAST, MOST = 4 << 10, 256 << 10


def after(bytes_per_s: int, round_trip_ms: int, pieces: int = 20) -> PiecePace:
    """The pace of a link that carried so many pieces."""
    pace = PiecePace(LEAST, MOST)
    for _ in range(pieces):
        pace.carried(pace.size, round_trip_ms * MS + pace.size * SECOND // bytes_per_s)
    return pace


@pytest.mark.parametrize("round_trip_ms", [1, 600, 3000])
@pytest.mark.parametrize("bytes_per_s", [5_000, 20_000, 200_000])
def test_a_piece_takes_a_second_of_the_link_at_most_however_far_it_is(bytes_per_s: int, round_trip_ms: int) -> None:
    size = after(bytes_per_s, round_trip_ms).size
    assert size == LEAST or size <= bytes_per_s
    assert size == MOST or size >= bytes_per_s // 5


def test_a_fast_link_has_the_largest_pieces_soon() -> None:
    assert after(100_000_000, 1, pieces=7).size == MOST


def test_a_short_piece_says_nothing_of_a_longer_one() -> None:
    pace = PiecePace(LEAST, MOST)
    for _ in range(9):
        pace.carried(100, MS)
    assert pace.size == LEAST


def test_a_link_that_becomes_farther_is_measured_anew() -> None:
    pace = after(20_000, 1)
    for _ in range(200):
        pace.carried(pace.size, 2000 * MS + pace.size * SECOND // 20_000)
    assert pace.size > LEAST


def test_a_piece_that_did_not_come_halves_the_next() -> None:
    pace = after(100_000_000, 1)
    pace.slowed()
    assert pace.size == MOST // 2
