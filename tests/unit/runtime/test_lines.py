"""Lines are looked at when they signal, and a signal that something else has taken is not lost."""

import select
from collections.abc import Iterator

import pytest
import zmq

from albireo.codec.message import Answer, Ask
from albireo.runtime.errors import EndpointRefused
from albireo.runtime.link import lines
from albireo.runtime.link.lines import LineNews, Lines, LineTo
from albireo.runtime.link.link import Link, LinkLimits
from albireo.runtime.link.sockets import Sockets

WAIT_MS = 90_000


class Two:
    """Two peers and the lines that lead to them, all of them up."""

    def __init__(self) -> None:
        self.sockets = Sockets()
        self.peers = [self._peer(), self._peer()]
        self.lines = Lines([LineTo(one.endpoint) for one in self.peers], None)
        self.poll = select.poll()
        for descriptor in self.lines.descriptors():
            self.poll.register(descriptor, select.POLLIN)
        self.to: list[bytes] = []
        news: list[LineNews] = []
        while len([one for one in news if one.is_up]) < 2:
            news += self.news()
        for line, peer in enumerate(self.peers):
            assert self.lines.send(line, Ask(request_id=1, what="who"))
            assert peer.wait_for_input(WAIT_MS / 1000)
            self.to.append(peer.drain(1, 1 << 20).letters[0].sender)
            self.say(line, 0)
            self.await_answer(line, 0)
        self.quieten()

    def _peer(self) -> Link:
        socket = self.sockets.router(LinkLimits())
        socket.bind("tcp://127.0.0.1:*")
        link = self.sockets.keep(Link("peer", b"", socket, 0))
        link.endpoint = socket.getsockopt_string(zmq.LAST_ENDPOINT)
        return link

    def say(self, line: int, number: int) -> None:
        assert self.peers[line].send(Answer(request_id=number), to=self.to[line])

    def signalled(self) -> set[int]:
        """The descriptors that signal, once any does."""
        found = {one for one, _ in self.poll.poll(WAIT_MS)}
        assert found, "nothing signals"
        return found

    def news(self) -> list[LineNews]:
        return self.lines.take(set() if self.lines.is_stirred else self.signalled())

    def await_answer(self, line: int, number: int) -> None:
        while (line, number) not in answers(self.news()):
            pass

    def quieten(self) -> None:
        """Take what waits, until nothing signals."""
        while self.lines.is_stirred or (found := {one for one, _ in self.poll.poll(0)}):
            self.lines.take(set() if self.lines.is_stirred else found)

    def close(self) -> None:
        self.lines.close()
        self.sockets.close(lingers=False)


def answers(news: list[LineNews]) -> list[tuple[int, int]]:
    return [(one.line, one.message.request_id) for one in news if isinstance(one.message, Answer)]


@pytest.fixture
def two() -> Iterator[Two]:
    made = Two()
    try:
        yield made
    finally:
        made.close()


def test_only_lines_that_signal_are_looked_at(two: Two) -> None:
    two.say(0, 1)
    first = two.signalled()
    two.say(1, 2)
    while len(both := two.signalled()) < 2:
        pass
    assert answers(two.lines.take(both - first)) == [(1, 2)]
    assert not two.lines.is_stirred
    assert answers(two.lines.take(first)) == [(0, 1)]


def test_a_letter_whose_signal_a_send_has_taken_is_looked_for(two: Two) -> None:
    two.say(0, 1)
    two.signalled()
    assert not two.lines.is_stirred
    assert two.lines.send(0, Ask(request_id=2, what="who"))
    assert two.poll.poll(0) == [], "the send takes the signal"
    assert two.lines.is_stirred
    assert answers(two.lines.take(set())) == [(0, 1)]
    assert not two.lines.is_stirred


def test_letters_behind_the_bound_of_one_look_come_with_the_next(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    """They come in a row, so the descriptor signals fewer times than there are letters."""
    monkeypatch.setattr(lines, "LETTERS_MAX", 1)
    numbers = list(range(1, 101))
    for number in numbers:
        two.say(0, number)
    heard: list[tuple[int, int]] = []
    while len(heard) < len(numbers):
        found = answers(two.news())
        assert len(found) <= 1
        heard += found
    assert heard == [(0, number) for number in numbers]


def test_a_line_that_is_minded_is_looked_at_for_letters_too(two: Two) -> None:
    two.say(0, 1)
    two.signalled()
    _, events, *_ = two.lines.descriptors()
    assert answers(two.lines.take({events})) == [(0, 1)]


def test_lines_that_are_refused_leave_nothing_that_is_waited_for(two: Two) -> None:
    """While the refusal is told, too: it holds all that was made by then."""
    far = LineTo("tcp://192.0.2.1:5000")
    with pytest.raises(EndpointRefused):
        Lines([far], None)
    with pytest.raises(EndpointRefused):
        two.lines.add(far)
    two.lines.close()
