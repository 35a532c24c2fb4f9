"""Two processes with one id and copies of one store: whoever was there first is heard, and a restart is no rival."""

from itertools import permutations

import pytest

from albireo.codec.tree.hello import ChildHello
from albireo.model.instant import SECOND, Instant, TimePassed
from tests.parts.topology_taken_up import NORTH, Above, child

LOG_ID = b"S" * 16

Hello = tuple[str, str, float]
"""Link, run of the process, and seconds since the hello before."""


@pytest.mark.parametrize(
    ("hellos", "heard", "refused"),
    [
        pytest.param([("a", "1", 0), ("b", "2", 1)], "b", 0, id="a restart"),
        pytest.param([("a", "1", 0), ("b", "1", 1)], "b", 0, id="a link that was dialled anew"),
        pytest.param([("a", "1", 0), ("b", "2", 1), ("a", "1", 0.1)], "a", 0, id="both live: the first goes on"),
        pytest.param([("a", "1", 0), ("b", "2", 1), ("a", "1", 0.1), ("b", "2", 1)], "a", 1, id="the other is refused"),
        pytest.param(
            [("a", "1", 0), ("b", "2", 1), ("a", "1", 0.1), ("c", "1", 1), ("b", "2", 1)],
            "c",
            1,
            id="on a new link, too",
        ),
        pytest.param(
            [("a", "1", 0), ("b", "2", 1), ("a", "1", 0.1), ("b", "2", 3.1)], "b", 0, id="the first one went away"
        ),
        pytest.param([("a", "1", 0), ("b", "2", 1), ("c", "3", 1)], "c", 0, id="two restarts"),
        pytest.param(
            [("a", "", 0), ("b", "", 1), ("a", "", 0.1), ("b", "", 1)], "b", 0, id="versions that tell no run"
        ),
    ],
)
def test_which_of_them_is_heard(hellos: list[Hello], heard: str, refused: int) -> None:
    above = Above(child(NORTH))
    for link, run, after_s in hellos:
        above.now = Instant(above.now + round(after_s * SECOND))
        above.step(TimePassed())
        hello = ChildHello(node=NORTH, log_id=LOG_ID, feature_level=1, run=run.encode())
        above.letter(hello, sender=link.encode())
    below = above.root.tree.below
    assert [link for link in "abc" if below.child_of(link.encode()) == NORTH] == [heard]
    (row,) = above.asked("tree")
    assert row["refused"] == refused
    assert ("two nodes" in row["trouble"]) is bool(refused)


@pytest.mark.parametrize("order", list(permutations(("a state", "a log", "b state", "b log"))))
def test_both_links_are_of_one_of_two_nodes_after_a_standstill_of_the_parent(order: tuple[str, ...]) -> None:
    """Two nodes have one id, and logs of their own. The parent stood still, so it had heard neither for long."""
    above = Above(child(NORTH))

    def say_hello(link: str, after_s: float) -> None:
        above.now = Instant(above.now + round(after_s * SECOND))
        hello = ChildHello(node=NORTH, log_id=link[:1].encode() * 16, feature_level=1, is_bulk="log" in link)
        above.letter(hello, sender=link.encode())

    for link in ("a state", "a log", "b state", "b log"):
        say_hello(link, 0.1)
    below = above.root.tree.below
    assert [link for link in order if below.child_of(link.encode())] == [one for one in order if one[0] == "a"]
    for after_s in (4.0, 1.0, 1.0):
        for link in order:
            say_hello(link, after_s if link == order[0] else 0.0)
    heard = [link for link in order if below.child_of(link.encode()) == NORTH]
    assert heard == [link for link in order if link[0] == order[0][0]], "of whom was heard first"
