"""What neighbours in the tree, and the other member, say of themselves: another topology, or clock, is a case."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from albireo.codec.message import ProducerHello, decode, encode
from albireo.codec.pair_message import Heartbeat
from albireo.codec.tree.hello import ChildHello, ParentHello
from albireo.machine.kernel.events import Measured, MemberSaid, PairFigures, TopologyTold
from albireo.machine.tree.beyond import PARENT_LINES
from albireo.machine.tree.neighbours import NeighbourWatch, said_by
from albireo.model.instant import SECOND, Instant, WallTime
from albireo.model.position import BEGINNING
from albireo.model.settings import LimitSettings
from albireo.model.tree.nodes import ChildConfig
from tests.parts.root import World

OWN, OTHER = "a" * 64, "b" * 64
SITE, ABOVE = "root/site", "above"
HOUR = 3_600 * SECOND
BEAT = Heartbeat(
    feature_level=1,
    log_level=1,
    cluster="c",
    member=1,
    run=1,
    store="s",
    beat=1,
    sent=Instant(0),
    state="ready",
    epoch=1,
    is_acting=False,
    is_holder=False,
    end=BEGINNING,
    committed=BEGINNING,
    accepted_epoch=1,
)


def site_above() -> World:
    """A node with one below it, a pair."""
    child = ChildConfig(node=SITE, places=(f"{SITE}[primary]", f"{SITE}[backup]"))
    return World(children=(child,), topology_hash=OWN)


def site_below() -> World:
    return World(parent=ABOVE, parent_places=frozenset({ABOVE}), topology_hash=OWN)


def said(world: World, hashed: str = OWN, wall_ns: int = 0, member: int = 0) -> None:
    """The neighbour's word of a second: the child's at a node that has one, else the parent's."""
    wall = WallTime(wall_ns or world.moment().wall)
    if world.root.config.children:
        place = world.root.config.children[0].places[member]
        hello = ChildHello(
            node=SITE, log_id=b"S" * 16, feature_level=1, member=member, topology_hash=hashed, wall_ns=wall
        )
        world.letter(b"site%d" % member, hello, principal=place)
    else:
        told = ParentHello(node=ABOVE, member=member, topology_hash=hashed, wall_ns=wall)
        world.letter(PARENT_LINES[member], told, principal=ABOVE)


def heartbeat(**told: Any) -> Heartbeat:
    """Of the other member of a pair, as it came over the link."""
    beat = msgspec.structs.replace(BEAT, **told)
    heard = decode(encode(beat, ()))[0]
    assert heard == beat and isinstance(heard, Heartbeat)
    return heard


def cases_after(world: World, seconds: int = 35, other: MemberSaid | None = None) -> list[str]:
    """Active cases of the node's own, after a while in which the other member of its pair says the same."""
    calm = dict.fromkeys(PairFigures.__struct_fields__, 0.0) | {"other_said": other}
    pair = PairFigures(**calm) if world.root.config.is_paired else None  # type: ignore[arg-type]
    for _ in range(seconds):
        world.now = Instant(world.now + SECOND)
        world.step(Measured(turn_ms=1.0, log_bytes=1, room_bytes=1 << 40, pair=pair))
        world.sync()
    found = world.ask("cases").result
    assert isinstance(found, list)
    found = [one["item"] for one in found if one["is_active"]]
    # A child here says hello and nothing else, and a parent says it once.
    return [one for one in found if one not in ("root:core/nodes_silent", "root:core/unreached")]


@pytest.mark.parametrize("side", [site_above, site_below])
def test_a_neighbour_that_runs_another_topology_is_a_case_on_both_sides(side: Callable[[], World]) -> None:
    world = side()
    said(world)
    assert cases_after(world) == []
    said(world, OTHER)
    said(world, OWN, member=1)
    assert cases_after(world, 20) == [], "a new file reaches one node after the other"
    assert cases_after(world) == ["root:core/topology_differs"]
    children = world.root.config.children
    world.step(TopologyTold(OTHER, LimitSettings(), children, beyond=()))
    said(world, OTHER, member=1)
    assert cases_after(world) == [], "it was taken up here too"


@pytest.mark.parametrize("side", [site_above, site_below])
@pytest.mark.parametrize("hours", [-3, 3])
def test_clocks_hours_apart_are_a_case_on_both_sides(side: Callable[[], World], hours: int) -> None:
    world = side()
    said(world, wall_ns=world.moment().wall + hours * HOUR)
    assert cases_after(world) == ["root:core/clock_apart"]
    assert world.ask("read", names=["core/clock_apart"]).result[0]["value"] == 3_600.0 * hours  # type: ignore[index]
    said(world)
    assert cases_after(world) == []


def test_a_parent_answers_each_hello_on_the_link_for_what_must_not_wait() -> None:
    world = site_above()
    said(world)
    (told,) = world.take(ParentHello)
    assert told == ParentHello(node="root", topology_hash=OWN, wall_ns=world.moment().wall)
    bulk = ChildHello(node=SITE, log_id=b"S" * 16, feature_level=1, is_bulk=True)
    world.letter(b"log", bulk, principal=f"{SITE}[primary]")
    assert world.take(ParentHello) == []


def test_nobody_but_the_parent_says_what_it_runs() -> None:
    world = site_below()
    world.letter(b"somebody", ParentHello(node=ABOVE, topology_hash=OTHER))
    world.letter(PARENT_LINES[0], ParentHello(node="another", topology_hash=OTHER))
    assert world.root.tree.neighbours.figures() == (0.0, 0.0)


def test_a_node_that_does_not_know_its_topology_compares_nothing() -> None:
    world = World(parent=ABOVE, parent_places=frozenset({ABOVE}))
    said(world, OTHER)
    assert cases_after(world) == []


def test_limits_that_are_taken_up_hold_at_once_and_in_the_next_tenure() -> None:
    world = World()
    for number, limit in enumerate((1, 2), start=1):
        world.step(TopologyTold(OWN, LimitSettings(producers_max=limit), children=(), beyond=()))
        for name in ("one", "two", "three"):
            world.letter(name.encode(), ProducerHello(producer=name, items=(), run=1))
            world.sync()
        assert len(world.root.folds.producers) == number
        assert world.root.forgetting.fill_percent()[0] == 100.0
    world.root._begin_afresh(world.moment())
    assert world.root._hellos.limits.producers_max == 2


def test_limits_of_followers_are_taken_up_for_every_feed() -> None:
    world = site_above()
    world.step(TopologyTold(OWN, LimitSettings(followers_max=16), world.root.config.children, beyond=()))
    feeds = world.root.feeds
    every = [feeds._state, *(feed for _, feed in feeds._others.values())]
    assert {feeds.leader.followers_max, *(one.followers_max for one in every)} == {16}


def test_the_other_member_of_a_pair_without_neighbours_that_runs_another_topology_is_a_case() -> None:
    world = World(is_paired=True, topology_hash=OWN)
    wall = world.moment().wall
    same, other = (said_by(heartbeat(topology_hash=hashed, wall_ns=wall), wall) for hashed in (OWN, OTHER))
    assert cases_after(world, other=None) == cases_after(world, other=same) == []
    assert cases_after(world, 20, other) == [], "a new file reaches one member after the other"
    assert cases_after(world, other=other) == ["root:core/topology_differs"]
    world.step(TopologyTold(OTHER, LimitSettings(), children=(), beyond=()))
    assert cases_after(world, other=other) == [], "it was taken up here too"


def test_the_other_member_counts_beside_the_neighbours() -> None:
    world = site_above()
    said(world, OTHER)
    assert world.root.tree.neighbours.figures(MemberSaid(OTHER, -2.0)) == (2.0, -2.0)


@pytest.mark.parametrize("hours", [-3, 3])
def test_the_clock_of_the_other_member_hours_apart_is_a_case(hours: int) -> None:
    world = World(is_paired=True, topology_hash=OWN)
    wall = world.moment().wall
    other = said_by(heartbeat(topology_hash=OWN, wall_ns=wall + hours * HOUR), wall)
    assert cases_after(world, other=other) == ["root:core/clock_apart"]


def test_nothing_is_compared_while_it_is_not_known_what_this_node_runs() -> None:
    assert NeighbourWatch("").figures(MemberSaid(OTHER, 0.0)) == (0.0, 0.0)


def test_a_pair_that_is_not_run_by_a_topology_has_no_such_items_and_a_node_alone_neither() -> None:
    for world in (World(is_paired=True), World(topology_hash=OWN)):
        assert world.root.registry.item("core/topology_differs") is None
    world = World(is_paired=True)
    world.step(TopologyTold(OWN, LimitSettings(), children=(), beyond=()))
    world.sync()
    assert world.root.registry.item("core/topology_differs") is not None
