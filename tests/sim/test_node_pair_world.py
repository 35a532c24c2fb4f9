"""A pair of whole nodes under faults, by seed: the real shells, logs, folds and voters; see docs/simulation.md.

A failure prints the seed; `NodeWorld(seed).play()` plays it again, and `NodeWorld.trace` tells it line by line.
"""

from functools import partial
from typing import Final

import pytest

from albireo.codec import record, samples
from albireo.codec.record import Kind
from albireo.machine.kernel.events import Committed, Event
from albireo.machine.kernel.turn import Moment, Turn
from albireo.machine.root.root import Root
from albireo.model.instant import MS, SECOND, Instant
from albireo.model.log_view import LogView
from albireo.node.core.folding import TOGETHER_NS
from albireo.sim.nodes.shortcuts import SHORTCUTS, catch
from albireo.sim.nodes.swarm import NodeSwarm
from albireo.sim.nodes.world import NodeWorld
from tests.long_form import check_caught, some

SEEDS = some(range(60), 6)


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"seed-{seed}")
def test_nothing_acknowledged_is_lost_and_both_get_equal(seed: int) -> None:
    NodeWorld(seed).play()


def test_same_seed_same_story() -> None:
    first, second = NodeWorld(7).play(), NodeWorld(7).play()
    assert first.trace == second.trace
    assert (first.agenda.count, first.ledger.end) == (second.agenda.count, second.ledger.end)


CAUGHT_BY: Final = {
    "snapshot without the retained frames": 16,
    "in the set before a restart could go on": 16,
    "serves before its folds are those of its log": 1,
    "a node below forgets its votes over a restart": 21,
    "a node below answers before its vote is synced": 26,
    "a node below votes for two at a time": 4,
    "the batches of a life that is over are taken": 5,
    "one number counts for all programs of a name": 3,
}
"""Seed that catches a shortcut, where it is not seed 0."""


@pytest.mark.parametrize("name", SHORTCUTS)
def test_a_shell_that_takes_a_shortcut_is_caught(name: str) -> None:
    check_caught(partial(catch, name), CAUGHT_BY.get(name, 0), range(50))


def test_a_raised_epoch_begins_a_session_of_its_own() -> None:
    """A voter promised more to a candidacy that came to nothing, so the holder takes a higher epoch, under load.

    Nothing of it may be sent in the session of the epoch before, whose follower would end itself over it.
    """
    world = NodeWorld(1, NodeSwarm(voters=1, batch_every_ms=5.0, delay_ms=5.0))
    with world.living():
        world.begin()
        epoch, began = world.ledger.end.epoch, [machine.up_since for machine in world.members]
        world.voters[0].promise(epoch + 3)
        world.agenda.play_until(world.agenda.at + 2 * SECOND)
        assert world.ledger.end.epoch > epoch
        assert world.is_well()
        assert [machine.up_since for machine in world.members] == began


def test_a_passive_member_folds_together_what_comes_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """It lets frames wait for others, and none for longer than that, whether more come or not."""
    world = NodeWorld(1, NodeSwarm(batch_every_ms=5.0))
    behind_since: dict[Root, Instant] = {}
    folds: list[Root] = []
    step = Root.step

    def stepped(root: Root, event: Event, log: LogView, moment: Moment) -> Turn:
        if isinstance(event, Committed):
            folds.append(root)
        turn = step(root, event, log, moment)
        if root.folded_to >= log.committed:
            behind_since.pop(root, None)
        elif not root.role.holds:
            waited = moment.now - behind_since.setdefault(root, moment.now)
            assert waited <= TOGETHER_NS + 20 * MS, "a sync may take half of that"
        return turn

    monkeypatch.setattr(Root, "step", stepped)
    with world.living():
        world.begin()
        active, passive = (machine.core.root for machine in sorted(world.members, key=lambda one: one.state))
        folds.clear()
        before = passive.frames_folded
        world.agenda.play_until(world.agenda.at + 2 * SECOND)
        frames = passive.frames_folded - before
        assert frames > 200
        assert folds.count(passive) < frames / 2 < folds.count(active)
        world.settle()
        assert passive.folded_to == active.folded_to


def test_the_history_of_the_passive_member_waits_for_a_repair() -> None:
    """What is damaged there the holder has: to go past it would be a gap that nobody recorded. The history reads it
    from the disk: in memory nothing rots, and nobody scrubs."""
    world = NodeWorld(1, NodeSwarm(batch_every_ms=20.0, segment_bytes=8_192, scrub_bytes=0, keep_s=600.0, tail_bytes=0))
    with world.living():
        world.begin()
        passive = next(machine for machine in world.members if machine.state == "ready")
        passive.history.die()
        world.agenda.play_until(world.agenda.at + 2 * SECOND)
        world.faults.rot_while_up()
        passive.start_history()
        world.settle()
        assert any("log_repaired" in line for line in world.trace)


@pytest.mark.parametrize("seed", some(range(3), 3))
def test_a_segment_that_cannot_be_read_ends_nobody(seed: int) -> None:
    """A follower is served later, a snapshot is made later."""
    NodeWorld(
        seed, NodeSwarm(faults=("fail_read",), fault_every_ms=200.0, batch_every_ms=20.0, segment_bytes=8_192)
    ).play()


@pytest.mark.parametrize("seed", some(range(20), 7))
def test_programs_of_one_name_lose_nothing_and_double_nothing(seed: int) -> None:
    """They begin beside each other, pause with batches under way, and come back, while the members fail."""
    faults = ("kill", "power", "pause", "cut_oneway", "break_connections", "switchover")
    rivals = 5 * ("rival",) + 3 * ("pause_program",)
    swarm = NodeSwarm(faults=faults + rivals, fault_every_ms=300.0, batch_every_ms=20.0, is_local=seed % 2 == 1)
    world = NodeWorld(seed, swarm).play()
    assert any(one.by is not None for one in world.producers)


def values_at(world: NodeWorld, index: int) -> dict[int, list[int]]:
    """By producer: the counts whose values this member has, in the order of the log."""
    machine, found = world.members[index], dict[int, list[int]]()
    for frame in machine.log.frames():
        whole = machine.core.private.whole(frame) if machine.core.private is not None else frame
        if whole.header.kind == Kind.INT64 and record.decode_producer(whole.body)[0]:
            for value in samples.decode_body(whole.body, Kind.INT64, whole.header.record_count).values():
                count, producer = divmod(int(value), 10)
                found.setdefault(producer, []).append(count)
    return found


@pytest.mark.parametrize("seed", some(range(3), 3))
def test_values_that_are_not_replicated_are_with_who_took_them_and_nothing_is_doubled(seed: int) -> None:
    """Kills, power cuts and handovers under load; what each member has is in order, and together it is everything."""
    swarm = NodeSwarm(
        is_private=True, faults=("kill", "power", "switchover"), fault_every_ms=600.0, batch_every_ms=20.0, keep_s=600.0
    )
    world = NodeWorld(seed, swarm).play()
    first, second = (values_at(world, index) for index in range(2))
    for producer in world.producers:
        one, other = (found.get(producer.number, []) for found in (first, second))
        assert one == sorted(set(one)) and other == sorted(set(other))
        common = set(one) & set(other)
        assert sorted({*one, *other}) == list(range(1, producer.counted + 1))
        assert common == set(range(1, len(common) + 1)), "on both is what was taken before references were known"
        assert len(common) < producer.counted
