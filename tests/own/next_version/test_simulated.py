"""A pair in the simulated world that is upgraded to the next version, member by member, under faults."""

import msgspec
import pytest

from albireo.model.instant import MS, SECOND
from albireo.model.refusal import Refusal
from albireo.sim.nodes.member import MemberMachine
from albireo.sim.nodes.swarm import NodeSwarm
from albireo.sim.nodes.world import NodeWorld
from tests.long_form import some
from tests.own.next_version.remarks import Remarks, known


def knows(machine: MemberMachine, level: int) -> None:
    """From its next start on."""
    machine._arguments = msgspec.structs.replace(machine._arguments, feature_level=level)


def levels(world: NodeWorld) -> list[int]:
    """Of the logs, as each member has folded its own."""
    return [machine.core.root.folds.feature_level for machine in world.members]


@pytest.mark.parametrize("seed", some(range(8), 3))
def test_members_are_upgraded_one_after_the_other_under_faults(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither raises the log while the other can't read it, whichever leads; both do in the end, and then record what
    only the next version knows, while who leads dies.

    A member that folds more than it knows ends itself, one whose log is above it does not start: both fail the world.
    """
    known(monkeypatch)
    faults = ("kill", "kill_both", "power", "stop", "switchover", "pause", "cut_link", "away")
    world = NodeWorld(seed, NodeSwarm(faults=faults, fault_every_ms=700.0, batch_every_ms=20.0, segment_bytes=8_192))
    first, second = world.members if seed % 2 else reversed(world.members)
    for machine in world.members:
        knows(machine, 1)

    noted: dict[str, Refusal | None] = {}

    def note(text: str) -> MemberMachine:
        """Have the member that leads note a text."""
        leader = next(machine for machine in world.members if machine.state == "active")
        leader.operator.order("remark", lambda answer: noted.update({text: answer.refusal}), text=text)
        return leader

    def restarted(machine: MemberMachine) -> None:
        """Away for long enough that the other one leads."""
        machine.dies("upgraded", is_power=False, for_ms=2_000.0)
        assert world.agenda.play_until(world.agenda.at + 40 * SECOND, world.is_well)

    with world.living():
        world.begin()
        knows(first, 2)
        restarted(first)
        restarted(second)
        assert first.state == "active"
        world.faults.begin()
        world.agenda.play_until(world.agenda.at + 3 * SECOND)
        assert levels(world) == [1, 1]
        world.stage.end_faults()
        world.faults.heal()
        assert world.agenda.play_until(world.agenda.at + 40 * SECOND, world.is_well)
        note("too early")
        assert world.agenda.play_until(world.agenda.at + SECOND, lambda: "too early" in noted)
        world.faults.begin()
        knows(second, 2)
        world.agenda.play_until(world.agenda.at + 2 * SECOND)
        world.stage.end_faults()
        world.faults.heal()
        for machine in world.members:
            restarted(machine)
        world.agenda.play_until(world.agenda.at + SECOND)
        assert levels(world) == [2, 2]
        for number in range(6):
            leader = note(f"note {number}")
            world.agenda.play_until(world.agenda.at + 10 * MS * number)
            restarted(leader)
        world.settle()
    found = [{one.text: one.count for one in machine.core.root.folds.of(Remarks)} for machine in world.members]
    assert found[0] == found[1] and set(found[0].values()) == {1}
    assert "the log is at feature level 1" in str(noted.pop("too early"))
    assert set(noted.values()) == {None} and noted.keys() <= found[0].keys(), "what was answered is on record"
