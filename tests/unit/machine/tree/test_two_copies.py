"""Two processes with one id and copies of one store: whoever was there first is heard, and a restart is no rival."""

import pytest

from albireo.codec.tree.hello import ChildHello
from albireo.model.instant import SECOND, Instant, TimePassed
from tests.unit.machine.tree.test_topology_taken_up import NORTH, Above, child

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
        hello = ChildHello(node=NORTH, log_id=LOG_ID, feature_level=3, run=run.encode())
        above.letter(hello, sender=link.encode())
    below = above.root.tree.below
    assert [link for link in "abc" if below.child_of(link.encode()) == NORTH] == [heard]
    (row,) = above.asked("tree")
    assert row["refused"] == refused
    assert ("two nodes" in row["trouble"]) is bool(refused)
