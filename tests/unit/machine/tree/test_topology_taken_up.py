"""Another topology at a node that runs: nodes below and beyond come and go, and the others are followed as before."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from albireo.codec.message import FeedHello, RoleAsked, RoleTold
from albireo.codec.tree.hello import ChildHello, ParentHello
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.events import TopologyTold
from albireo.machine.tree.beyond import PARENT_LINES
from albireo.model import quality as q
from albireo.model.instant import SECOND, Instant, TimePassed
from albireo.model.settings import LimitSettings
from albireo.model.tree.nodes import ChildConfig
from tests.parts.beyond import state_of
from tests.parts.root_roles import LOG, Side
from tests.parts.topology_taken_up import HASH, MEASURED, NORTH, ROOT, SOUTH, Above, child, link


def test_a_new_child_is_heard_from_then_on() -> None:
    above = Above()
    above.hear(NORTH)
    assert above.below() == [] and not above.take(RoleAsked), "nobody knows it yet"
    above.told(child(NORTH))
    above.hear(NORTH)
    above.give(NORTH, 7.0)
    assert above.below() == [NORTH]
    assert above.value(NORTH) == (7.0, q.GOOD)
    assert above.follows(NORTH) == "snapshot"


def test_the_log_of_a_new_child_is_followed() -> None:
    above = Above()
    above.told(child(NORTH))
    hello = ChildHello(node=NORTH, log_id=b"S" * 16, feature_level=1, is_bulk=True)
    above.letter(hello, sender=b"bulk")
    above.hear(NORTH)
    modes = [one.mode for one in above.take(FeedHello) if isinstance(one, FeedHello)]
    assert sorted(modes) == ["log", "state"]


def test_a_child_that_is_as_before_is_followed_without_a_pause() -> None:
    above = Above(child(NORTH))
    above.hear(NORTH)
    above.give(NORTH, 1.0)
    above.sent.clear()
    above.told(child(SOUTH), child(NORTH))
    assert not above.take(RoleAsked) and not above.take(FeedHello), "it is asked anew"
    state, raw = state_of(NORTH, 10, 2.0, above_position())
    above.letter(msgspec.structs.replace(state, channel=0), raw, sender=link(NORTH))
    assert above.value(NORTH) == (2.0, q.GOOD)
    assert above.below() == [SOUTH, NORTH]


def above_position() -> Any:
    return state_of(NORTH, 9, 0.0)[0].position


def test_a_node_further_below_is_followed_with_the_next_hello_of_its_child() -> None:
    above = Above(child(NORTH))
    above.hear(NORTH)
    above.give(NORTH, 1.0)
    above.told(child(NORTH, f"{NORTH}/pump"))
    assert above.value(NORTH) == (1.0, q.GOOD), "its values were forgotten"
    above.sent.clear()
    above.hear(NORTH)
    asked = [one.of for one in above.take(FeedHello) if isinstance(one, FeedHello) and one.mode == "state"]
    assert asked == ["", f"{NORTH}/pump"]


def test_a_child_that_goes_is_not_shown_any_more_and_not_heard() -> None:
    above = Above(child(NORTH), child(SOUTH))
    for node in (NORTH, SOUTH):
        above.hear(node)
        above.give(node, 1.0)
    assert above.root.tree.neighbours.figures()[0] == 0, "this node does not know its own topology"
    above.told(child(NORTH))
    assert above.root.tree.neighbours.figures()[0] == 1, "the word of one that is gone counts"
    assert above.below() == [NORTH]
    assert above.follows(SOUTH) == "refused" and above.follows(NORTH) == "snapshot"
    above.sent.clear()
    above.hear(SOUTH)
    assert not above.take(ParentHello)
    assert "root/south" in str(above.asked("write", item=f"{SOUTH}:co", value=1.0, command_id="c"))


def test_one_that_comes_again_begins_with_another_run_of_its_state() -> None:
    above = Above(child(NORTH))
    run = above.root.tree.mirrors[NORTH].run
    above.told()
    above.told(child(NORTH))
    assert above.root.tree.mirrors[NORTH].run != run, "positions of its followers would be of another one"


def test_nodes_beyond_are_asked_for_at_the_parents_next_word() -> None:
    above = Above(parent="above")
    hello = ParentHello(node="above")
    above.letter(hello, sender=PARENT_LINES[0])
    above.told(beyond=("above", "above/other"))
    above.letter(hello, sender=PARENT_LINES[0])
    above.letter(RoleTold(is_acting=True, epoch=1, member=0), sender=PARENT_LINES[0])
    assert [one.of for one in above.take(FeedHello) if isinstance(one, FeedHello)] == ["", "above/other"]
    assert above.below() == ["above", "above/other"]
    above.told()
    assert above.below() == []


def test_items_about_neighbours_come_with_the_first_and_go_with_the_last() -> None:
    above = Above()
    for children in ((), (child(NORTH),), ()):
        above.told(*children)
        above.step(MEASURED)
        above.commit()
        item = above.root.registry.item("core/topology_differs")
        assert (item is not None and not item.is_retired) is bool(children)


def test_a_node_on_standby_takes_it_up_too_and_follows_once_it_leads() -> None:
    side = Side(RootConfig(node=ROOT, log_id=LOG, is_paired=True))
    side.step(TopologyTold(HASH, LimitSettings(), (child(NORTH),), ()))
    assert list(side.root.tree.mirrors) == [NORTH]
    side.lead()
    assert [one.node for one in side.root.tree.seen()] == [NORTH]


NODES = st.sets(st.sampled_from(["root/a", "root/b", "root/a/x", "root/a/y", "root/b/x"]), max_size=5)


@given(st.lists(NODES, min_size=1, max_size=5))
def test_whatever_came_before_the_last_topology_is_what_counts(history: list[set[str]]) -> None:
    above = Above()
    last: tuple[ChildConfig, ...] = ()
    for nodes in history:
        last = tuple(child(f"root/{top}", *below) for top, below in grouped(nodes).items())
        above.told(*last)
        above.now = Instant(above.now + SECOND)
        above.step(TimePassed())
    assert above.below() == Above(*last).below()


def grouped(nodes: set[str]) -> dict[str, list[str]]:
    """Nodes below each child, which is there wherever one is below it."""
    found: dict[str, list[str]] = {}
    for node in sorted(nodes):
        _, top, *more = node.split("/")
        found.setdefault(top, []).extend([node] if more else [])
    return found
