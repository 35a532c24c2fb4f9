"""A pair of whole nodes, voted by nodes below that dial its members, under faults by seed.

A failure prints the seed; see docs/simulation.md. Shortcuts of such voters are caught in test_node_pair_world.py.
"""

from itertools import pairwise

import msgspec
import pytest

from albireo.machine.vote.below import TWICE_NS
from albireo.model.instant import MS, SECOND
from albireo.node.vote.store import VoterDisk
from albireo.sim.nodes.machine import VoterMachine
from albireo.sim.nodes.member import MemberMachine
from albireo.sim.nodes.swarm import CLUSTER, NodeSwarm, swarm_of
from albireo.sim.nodes.world import NodeWorld
from tests.long_form import some

BELOW = NodeSwarm(voters=1, below=1, batch_every_ms=20.0)
BOUND_NS = 2 * SECOND
"""A lease, what a link needs to be dialled again, and attempts that came to nothing."""


@pytest.mark.parametrize("seed", some(range(24), 6))
def test_nothing_acknowledged_is_lost_where_all_voters_are_below(seed: int) -> None:
    world = NodeWorld(seed, msgspec.structs.replace(swarm_of(seed), below=3)).play()
    assert all(one.voter.startswith("node:root/w") for one in world.voters)


def roles(world: NodeWorld) -> tuple[MemberMachine, MemberMachine, VoterMachine]:
    """The active member, the passive one, and the only voter."""
    active = next(machine for machine in world.members if machine.state == "active")
    return active, world.members[1 - active.index], world.voters[0]


def cut_apart(world: NodeWorld, *sides: tuple[str, ...]) -> None:
    """Cut every cable between these sides for longer than the test lasts."""
    for one, other in pairwise(sides):
        for source in one:
            for target in other:
                world.stage.network.cut_both(source, target, 60_000.0)


@pytest.mark.parametrize("seed", some(range(3), 3))
def test_a_voter_that_is_cut_off_along_with_the_passive_member_lets_it_lead_when_the_other_can_act_no_more(
    seed: int,
) -> None:
    """The world fails at any instant at which both may write, and at a commit that the voter has not granted."""
    world = NodeWorld(seed, BELOW)
    with world.living():
        world.begin()
        active, passive, voter = roles(world)
        cut_apart(world, (active.name,), (passive.name, voter.name))
        epoch = world.ledger.end.epoch
        assert world.agenda.play_until(world.agenda.at + BOUND_NS, lambda: passive.state == "solo")
        assert not active.permits()
        assert active.state == "suspended"
        world.agenda.play_until(world.agenda.at + 3 * SECOND)
        assert (active.state, passive.state) == ("suspended", "solo")
        assert world.ledger.end.epoch > epoch
        world.stage.end_faults()
        world.settle()


@pytest.mark.parametrize("seed", some(range(3), 3))
def test_a_voter_that_is_cut_off_along_with_the_active_member_lets_it_go_on_alone(seed: int) -> None:
    world = NodeWorld(seed, BELOW)
    with world.living():
        world.begin()
        active, passive, voter = roles(world)
        cut_apart(world, (passive.name,), (active.name, voter.name))
        assert world.agenda.play_until(world.agenda.at + BOUND_NS, lambda: active.state == "solo")
        world.agenda.play_until(world.agenda.at + 3 * SECOND)
        assert active.state == "solo"
        assert not passive.permits()
        world.stage.end_faults()
        world.settle()


@pytest.mark.parametrize("seed", some(range(3), 3))
def test_a_voter_that_is_cut_off_from_both_stops_nobody_and_lets_nobody_take_over(seed: int) -> None:
    """Its vote comes back with its link: then the member that was waiting leads."""
    world = NodeWorld(seed, BELOW)
    with world.living():
        world.begin()
        active, passive, voter = roles(world)
        cut_apart(world, (active.name, passive.name), (voter.name,))
        acknowledged = world.ledger.end.sequence
        world.agenda.play_until(world.agenda.at + 3 * SECOND)
        assert world.is_well() and world.ledger.end.sequence > acknowledged
        active.down("killed", is_power=False)
        world.agenda.play_until(world.agenda.at + 3 * SECOND)
        assert passive.state == "ready"
        world.stage.network.heal()
        assert world.agenda.play_until(world.agenda.at + BOUND_NS, lambda: passive.state == "solo")


@pytest.mark.parametrize("seed", some(range(3), 3))
def test_a_site_that_runs_twice_from_one_disk_votes_for_nobody_until_one_of_both_is_gone(seed: int) -> None:
    """Both have its name, its keys and its promises, and could grant each member what they promised to the other."""
    world = NodeWorld(seed, BELOW)
    with world.living():
        world.begin()
        active, passive, voter = roles(world)
        copy = VoterMachine(world.stage, world._host("copy"), world.ledger, voter._arguments)
        store = VoterDisk(voter.disk, voter.data, "root", voter.voter, CLUSTER).store
        assert store is not None
        VoterDisk(copy.disk, copy.data, "root", voter.voter, CLUSTER).save(store)
        copy.start_soon(1.0)
        world.agenda.play_until(world.agenda.at + 2 * SECOND)
        assert world.is_well()
        active.down("killed", is_power=False)
        world.agenda.play_until(world.agenda.at + 5 * SECOND)
        assert passive.state == "ready"
        copy.down("killed", is_power=False)
        assert world.agenda.play_until(world.agenda.at + TWICE_NS + BOUND_NS, lambda: passive.state == "solo")


@pytest.mark.parametrize("seed", some(range(3), 3))
def test_a_killed_holder_is_followed_before_its_lease_ends(seed: int) -> None:
    """The voter sees its connections end at the endpoint for clients, and new ones refused."""
    world = NodeWorld(seed, BELOW)
    with world.living():
        world.begin()
        active, passive, _ = roles(world)
        active.down("killed", is_power=False)
        assert world.agenda.play_until(world.agenda.at + 400 * MS, lambda: passive.state == "solo")
