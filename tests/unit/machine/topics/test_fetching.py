"""Fetching: consumers of one line come in turns, whatever becomes of some of them."""

from albireo.codec.message import FeedAnswer, FeedHello
from albireo.machine.topics.fetching import (
    HELLO_NS,
    HELLOS_MAX,
    ConsumerLeft,
    ConsumerWanted,
    DoorDown,
    DoorHeard,
    DoorTold,
    DoorUp,
    Effect,
    Event,
    Fetching,
    SayToDoor,
)
from albireo.model.instant import SECOND, Instant, TimePassed

COUNT = 3 * HELLOS_MAX


class Line:
    """A program's line, and the consumers that have said hello on it."""

    def __init__(self) -> None:
        self.fetching = Fetching(7)
        self.now = Instant(0)
        self.greeted: list[FeedHello] = []
        for channel in range(1, COUNT + 1):
            self.step(ConsumerWanted(channel, channel, 1 << 20))

    def step(self, event: Event) -> list[Effect]:
        effects = self.fetching.step(event, self.now)
        for one in effects:
            if isinstance(one, SayToDoor) and isinstance(one.message, FeedHello):
                self.greeted.append(one.message)
        return effects

    def open(self) -> None:
        self.greeted.clear()
        self.step(DoorTold())
        self.step(DoorUp())

    def channels(self) -> list[int]:
        return [one.channel for one in self.greeted]


def test_a_hello_goes_as_one_before_is_answered() -> None:
    line = Line()
    line.open()
    assert line.channels() == list(range(1, HELLOS_MAX + 1))
    for channel in range(1, COUNT + 1):
        line.step(DoorHeard(FeedAnswer(verdict="resume", channel=channel)))
        assert len(line.greeted) == min(COUNT, HELLOS_MAX + channel)
    assert line.channels() == list(range(1, COUNT + 1)), "each once"


def test_who_leaves_makes_room_and_is_not_greeted() -> None:
    line = Line()
    line.open()
    line.step(ConsumerLeft(HELLOS_MAX + 1))
    line.step(ConsumerLeft(1))
    assert line.channels()[HELLOS_MAX:] == [HELLOS_MAX + 2]


def test_a_new_line_begins_anew_with_a_higher_number() -> None:
    line = Line()
    line.open()
    assert {(one.program, one.line) for one in line.greeted} == {(7, 1)}
    line.step(DoorDown())
    line.now = Instant(line.now + SECOND)
    line.step(TimePassed())
    line.open()
    assert line.channels() == list(range(1, HELLOS_MAX + 1))
    assert {(one.program, one.line) for one in line.greeted} == {(7, 2)}


def test_a_hello_is_said_again_after_a_while_only() -> None:
    line = Line()
    line.open()
    line.now = Instant(HELLO_NS - 1)
    line.step(TimePassed())
    assert len(line.greeted) == HELLOS_MAX
    line.now = Instant(HELLO_NS)
    line.step(TimePassed())
    assert len(line.greeted) == 2 * HELLOS_MAX
