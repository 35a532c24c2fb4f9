"""A state that is on its way is not live: quality follows what is heard, also over a link that is slow or cut."""

from typing import Final

import msgspec
import pytest

from albireo.codec.delta import StateCursor, StateDelta
from albireo.codec.message import FeedAlive, FeedAnswer, FeedHello, FeedState
from albireo.machine.tree.mirror import HISTORY
from albireo.model import quality as q
from albireo.model.instant import SECOND, Instant, TimePassed
from albireo.model.position import BEGINNING, Position
from tests.parts.beyond import RUN, state_of
from tests.parts.topology_taken_up import NORTH, Above, child, link

MARKED: Final = q.UNCERTAIN_NO_COMMUNICATION_LAST_USABLE
GOES_ON: Final = StateCursor(1, 0)
FIRST, SECOND_AT, THIRD = Position(1, 9), Position(1, 10), Position(1, 11)


class Site(Above):
    """A node with one below, whose state comes in pieces."""

    def __init__(self) -> None:
        super().__init__(child(NORTH))
        self.hear(NORTH)

    def begin(self, verdict: str = "snapshot", at: Position = BEGINNING) -> None:
        answer = FeedAnswer(verdict=verdict, log_id=RUN, history=HISTORY.entries, position=at)
        self.letter(answer, sender=link(NORTH))

    def piece(
        self, value: float, number: int, before: Position, to: Position, *, goes_on: bool, is_whole: bool = False
    ) -> None:
        state, raw = state_of(NORTH, to.sequence, value, BEGINNING if is_whole else before)
        more = {"channel": 0, "piece": number, "previous": before, "after": GOES_ON if goes_on else None}
        more["behind"] = GOES_ON if number else StateCursor()
        self.letter(msgspec.structs.replace(state, **more), raw, sender=link(NORTH))

    def empty(self, at: Position) -> None:
        self.letter(FeedState(epoch=1, position=at, previous=at), sender=link(NORTH))

    def pass_time(self, seconds: int, *, is_heard: bool = True) -> None:
        for _ in range(seconds):
            self.now = Instant(self.now + SECOND)
            if is_heard:
                self.hear(NORTH)
                alive = FeedAlive(epoch=1, is_acting=True, committed=THIRD, end=THIRD)
                self.letter(alive, sender=link(NORTH))
            self.step(TimePassed())

    @property
    def since(self) -> int | None:
        return self.root.tree.all_mirrors[NORTH].stale_since_ns

    def shown(self) -> tuple[object, int]:
        return self.value(NORTH)


def live() -> Site:
    site = Site()
    site.give(NORTH, 1.0)
    assert site.since is None and site.shown() == (1.0, q.GOOD)
    return site


def test_pieces_that_come_after_a_cut_are_not_good_before_the_node_counts_as_heard() -> None:
    site = live()
    site.pass_time(4, is_heard=False)
    site.hear(NORTH)
    site.begin("resume", FIRST)
    site.piece(2.0, 0, FIRST, SECOND_AT, goes_on=True)
    assert site.shown() == (2.0, MARKED)
    assert site.asked("tree")[0]["stale_since_ns"]
    site.piece(3.0, 1, FIRST, SECOND_AT, goes_on=False)
    assert (site.shown(), site.since) == ((3.0, q.GOOD), None)


def test_a_value_that_came_with_a_piece_has_its_quality_once_the_state_is_whole() -> None:
    site = live()
    site.pass_time(4, is_heard=False)
    site.hear(NORTH)
    site.begin("resume", FIRST)
    site.piece(2.0, 0, FIRST, SECOND_AT, goes_on=True)
    last = FeedState(epoch=1, position=SECOND_AT, previous=FIRST, piece=1, behind=GOES_ON)
    site.letter(last, sender=link(NORTH))
    assert (site.shown(), site.since) == ((2.0, q.GOOD), None)


@pytest.mark.parametrize("seconds", [2, 3, 30])
def test_a_state_that_was_three_seconds_on_its_way_is_live_with_the_next_one(seconds: int) -> None:
    site = live()
    site.pass_time(4, is_heard=False)
    site.hear(NORTH)
    site.begin("resume", FIRST)
    site.piece(2.0, 0, FIRST, SECOND_AT, goes_on=True)
    began = site.moment().wall
    site.pass_time(seconds)
    site.piece(3.0, 1, FIRST, SECOND_AT, goes_on=False)
    is_late = seconds >= 3
    assert (site.shown(), site.since) == ((3.0, MARKED if is_late else q.GOOD), began if is_late else None)
    site.empty(SECOND_AT)
    assert (site.shown(), site.since) == ((3.0, q.GOOD), None)


def test_a_long_change_over_a_link_that_is_up_leaves_nothing_looking_live_either() -> None:
    site = live()
    site.piece(2.0, 0, FIRST, SECOND_AT, goes_on=True)
    began = site.moment().wall
    assert site.shown() == (2.0, q.GOOD)
    site.pass_time(2)
    assert site.shown() == (2.0, q.GOOD)
    site.pass_time(2)
    assert (site.shown(), site.since) == ((2.0, MARKED), began)
    due = site.root.tree.deadline(site.root.folded_to)
    assert due is not None and due > site.now, "it is told once"
    site.piece(2.5, 1, FIRST, SECOND_AT, goes_on=False)
    site.piece(3.0, 0, SECOND_AT, THIRD, goes_on=False)
    assert (site.shown(), site.since) == ((3.0, q.GOOD), None)


def test_a_new_line_is_told_how_many_pieces_came_and_a_whole_state_is_shown_with_the_rest() -> None:
    site = Site()
    site.begin()
    site.piece(1.0, 0, BEGINNING, FIRST, goes_on=True, is_whole=True)
    site.pass_time(4, is_heard=False)
    site.take(FeedHello)
    site.hear(NORTH)
    asked = [one for one in site.take(FeedHello) if isinstance(one, FeedHello) and one.mode == "state"][-1]
    assert asked.delta == StateDelta(FIRST, 1, GOES_ON, is_whole=True)
    assert (asked.position, asked.log_id) == (BEGINNING, RUN)
    site.begin("resume")
    last = FeedState(epoch=1, position=FIRST, previous=BEGINNING, piece=1, behind=GOES_ON, is_snapshot=True)
    site.letter(last, sender=link(NORTH))
    assert site.shown() == (1.0, MARKED), "its first piece is from before the cut"
    site.empty(FIRST)
    assert (site.shown(), site.since) == ((1.0, q.GOOD), None)
