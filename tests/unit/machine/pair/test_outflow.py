"""How much of the log is under way to the follower, and what a gap takes back."""

from albireo.machine.feed.pace import RESTS_MAX
from albireo.machine.pair.events import Replicate
from albireo.machine.pair.outflow import AGAIN_NS, NEAR_PIECES, PIECE_BYTES, WINDOW_BYTES, Outflow
from albireo.model.instant import SECOND, Instant

NOW = Instant(5 * SECOND)


SOLO = 10**9
"""The follower is not in the set: everything is committed without it."""


def more(after: int, session: int = 1) -> Replicate:
    return Replicate(session=session, to_run=9, epoch=2, after=after)


def test_nothing_goes_without_a_session() -> None:
    assert Outflow().wanted(100, 0) == 0


def test_a_session_begins_where_both_logs_agree() -> None:
    outflow = Outflow()
    outflow.asked(more(40), NOW)
    assert (outflow.sent, outflow.wanted(100, 0)) == (40, PIECE_BYTES)
    outflow.took(100, 5_000)
    assert outflow.wanted(100, 0) == 0


def test_bytes_under_way_are_bounded_and_an_acknowledgement_frees_them() -> None:
    outflow = Outflow()
    outflow.asked(more(0), NOW)
    last = 0
    while size := outflow.wanted(10**9, 0):
        last += 1
        outflow.took(last, size)
    assert last == WINDOW_BYTES // PIECE_BYTES
    outflow.acked(session=1, durable=1)
    assert outflow.wanted(10**9, 0) == PIECE_BYTES
    outflow.acked(session=7, durable=last)
    assert outflow.wanted(10**9, 0) == PIECE_BYTES, "another session's acknowledgement frees nothing"


def test_more_to_come_moves_nothing_that_is_under_way() -> None:
    outflow = Outflow()
    outflow.asked(more(0), NOW)
    outflow.took(10, 100)
    outflow.asked(more(50), NOW)
    assert outflow.sent == 10, "what the machine counts as sent is ahead while a follower catches up"


def test_a_gap_sets_back_once_however_often_it_is_told() -> None:
    outflow = Outflow()
    outflow.asked(more(0), NOW)
    outflow.took(10, 100)
    outflow.took(20, 100)
    outflow.asked(more(5), NOW)
    assert outflow.sent == 5
    outflow.took(20, 200)
    outflow.asked(more(5), Instant(NOW + AGAIN_NS - 1))
    assert outflow.sent == 20, "each piece behind a gap reports it"
    outflow.asked(more(5), Instant(NOW + AGAIN_NS))
    assert outflow.sent == 5, "the piece itself got lost again"


def test_a_gap_frees_the_window() -> None:
    outflow = Outflow()
    outflow.asked(more(0), NOW)
    while size := outflow.wanted(10**9, 0):
        outflow.took(outflow.sent + 1, size)
    outflow.asked(more(0), Instant(NOW + AGAIN_NS))
    assert outflow.wanted(10**9, 0) == PIECE_BYTES


def test_a_new_session_begins_anew() -> None:
    outflow = Outflow()
    outflow.asked(more(0), NOW)
    outflow.took(10, 100)
    outflow.asked(more(3, session=2), NOW)
    assert (outflow.session, outflow.sent) == (2, 3)
    outflow.end()
    assert outflow.wanted(100, 0) == 0


def far_behind(at: int = 0) -> Outflow:
    """A follower that lacks almost all of what is committed, and used up what goes at once."""
    outflow = Outflow()
    outflow.asked(more(at), NOW)
    outflow.passed(SOLO, SOLO, 0, NOW)
    for _ in range(RESTS_MAX):
        assert outflow.wanted(SOLO, SOLO) == PIECE_BYTES
        outflow.took(outflow.sent + 1000, PIECE_BYTES)
    assert outflow.wanted(SOLO, SOLO) == 0
    return outflow


def test_old_records_follow_new_ones() -> None:
    outflow = far_behind()
    outflow.passed(SOLO + 1500, SOLO, 0, NOW)
    assert outflow.wanted(SOLO + 1500, SOLO) == PIECE_BYTES
    outflow.took(outflow.sent + 1000, PIECE_BYTES)
    assert outflow.wanted(SOLO + 1500, SOLO) == 0


def test_what_somebody_waits_for_is_never_held_back() -> None:
    """A member of the set has everything that is committed: the same distance, all of it new."""
    outflow = far_behind()
    assert outflow.wanted(SOLO, committed=outflow.sent) == PIECE_BYTES


def test_the_last_steps_are_not_held_back() -> None:
    outflow = far_behind()
    near = outflow.sent + NEAR_PIECES * 1000
    assert outflow.wanted(near, near) == PIECE_BYTES
    assert outflow.wanted(near + 1, near + 1) == 0


def test_a_new_session_has_a_pace_of_its_own() -> None:
    outflow = far_behind()
    outflow.asked(more(0, session=2), NOW)
    assert outflow.wanted(SOLO, SOLO) == PIECE_BYTES
