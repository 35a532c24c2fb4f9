"""The share of a follower that catches up: what makes it grow, what makes it shrink, and what goes in any case."""

from albireo.machine.feed.pace import (
    BUSY,
    GROWTH,
    LEAST,
    LOOK_NS,
    MOST,
    PATIENCE_NS,
    REST_NS,
    RESTS_MAX,
    SAVED_LOOKS,
    Pace,
    Seen,
)
from albireo.model.instant import SECOND, Instant


class Looks:
    """A pace that is looked at again and again."""

    def __init__(self) -> None:
        self.pace = Pace()
        self.now = 7 * SECOND
        self.end, self.sent, self.busy_ns = 1_000_000, 0, 0
        self.uncommitted = 0
        self.look(0, 0, 0.0)

    def pass_time(self, appended: int, after_ns: int) -> None:
        self.now, self.end = self.now + after_ns, self.end + appended
        seen = Seen(self.end, self.end - self.uncommitted, self.sent, self.busy_ns)
        self.pace.passed(seen, Instant(self.now))

    def look(self, appended: int, sent: int, busy: float) -> float:
        self.sent, self.busy_ns = self.sent + sent, self.busy_ns + int(busy * LOOK_NS)
        self.pass_time(appended, LOOK_NS)
        return self.pace.share


def spent(pace: Pace) -> Pace:
    """Everything that may go at once is gone."""
    for _ in range(2 * RESTS_MAX):
        if pace.allows:
            pace.took(1000)
    return pace


def test_it_begins_with_the_least() -> None:
    assert Pace().share == LEAST > 1


def test_there_is_no_limit_while_nothing_is_appended() -> None:
    looks = Looks()
    looks.look(0, 0, 1.0)
    for _ in range(1000):
        looks.pace.took(1000)
        assert looks.pace.allows
    looks.pass_time(1, 1)
    assert not looks.pace.allows, "from the first record on there is one"
    assert looks.pace.share == LEAST


def test_a_live_path_that_waits_for_the_disk_is_not_idle() -> None:
    """Nothing is appended because all that may be under way is: what is sent now would only make its syncs slower."""
    looks = Looks()
    looks.uncommitted = 1
    looks.look(0, 0, 0.0)
    assert not spent(looks.pace).allows
    assert looks.pace.share == LEAST


def test_it_grows_while_the_loop_has_time() -> None:
    looks = Looks()
    assert looks.look(10, 20, 0.0) == LEAST * GROWTH
    for _ in range(10):
        looks.look(10, 20, BUSY / 2)
    assert looks.pace.share == MOST


def test_it_grows_if_the_follower_does_not_gain_however_busy_the_loop_is() -> None:
    looks = Looks()
    assert looks.look(10, 20, 1.0) == LEAST
    for _ in range(PATIENCE_NS // LOOK_NS - 1):
        assert looks.look(10, 10, 1.0) == LEAST, "a follower may stand still for a while"
    assert looks.look(10, 10, 1.0) == LEAST * GROWTH


def test_it_shrinks_once_the_follower_gains_on_a_busy_loop() -> None:
    looks = Looks()
    looks.look(10, 20, 0.0)
    looks.look(10, 20, 0.0)
    assert looks.look(10, 20, 1.0) == LEAST * GROWTH
    assert looks.look(10, 20, 1.0) == LEAST
    assert looks.look(10, 20, 1.0) == LEAST


def test_so_many_old_records_as_the_share_says() -> None:
    looks = Looks()
    pace = spent(looks.pace)
    looks.pass_time(800_000, 0)
    gone = 0
    while pace.allows:
        pace.took(1000)
        gone += 1000
    assert gone == 800_000 * LEAST - 1000, "the piece before went on credit"


def test_a_piece_goes_after_each_rest_in_any_case() -> None:
    looks = Looks()
    pace = spent(looks.pace)
    looks.pass_time(1, REST_NS - 1)
    assert not pace.allows
    looks.pass_time(1, 1)
    assert pace.allows
    pace.took(1000)
    assert not pace.allows
    looks.pass_time(1, 100 * REST_NS)
    gone = 0
    while pace.allows and gone <= 2 * RESTS_MAX:
        pace.took(1000)
        gone += 1
    assert gone <= RESTS_MAX


def test_not_more_than_some_looks_are_saved_up() -> None:
    looks = Looks()
    for _ in range(100):
        looks.look(1000, 1001, 1.0)  # Gains, so it has the least; but nothing is taken off the credit.
    pace, gone = looks.pace, 0
    while pace.allows:
        pace.took(1)
        gone += 1
    assert gone <= SAVED_LOOKS * 1000 * LEAST + RESTS_MAX
