"""Replay: the events of a root machine, told to a fresh one, have the same effects.

Every root machine of some worlds is recorded: what it was made of, then each event with the view of the log, the moment
and the effects. A fresh machine made of the same folds steps through the record alone. Where its effects are others,
something was written past `step`, or drawn inside it.
"""

import contextlib
from typing import NamedTuple

import msgspec
import pytest

from albireo.machine.fold.folds import Folds
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.events import Event, Restored
from albireo.machine.kernel.turn import Moment, Turn
from albireo.machine.root.root import Root
from albireo.model.log_view import LogView
from albireo.model.position import Position
from albireo.sim.nodes.swarm import NodeSwarm, bounded
from albireo.sim.nodes.world import NodeWorld
from tests.parts.node_world import World as LoneWorld

KILLS = NodeSwarm(faults=("kill", "power", "switchover"), fault_every_ms=600.0, batch_every_ms=20.0)
AWAY = NodeSwarm(faults=("away", "kill_both"), fault_every_ms=1_500.0, batch_every_ms=20.0, segment_bytes=8_192)
PRIVATE = msgspec.structs.replace(KILLS, is_private=True)


class Step(NamedTuple):
    event: Event
    log: LogView
    moment: Moment
    effects: object


class Life(NamedTuple):
    """One root machine, from its making to the end of its world."""

    config: RootConfig
    folds: Folds
    folded_to: Position
    moment: Moment
    has_folds: bool
    steps: list[Step]

    def replay(self) -> None:
        fresh = Root(self.config, self.folds, self.folded_to, self.moment, has_folds=self.has_folds)
        for number, (event, log, moment, effects) in enumerate(self.steps):
            assert effects_of(fresh.step(event, log, moment)) == effects, f"step {number}: {type(event).__name__}"


def copied(folds: Folds) -> Folds:
    return Folds.restore(folds.snapshot(), folds.log_time_ms)


def effects_of(turn: Turn) -> object:
    drafts = [
        (one.stream, one.kind, one.record_count, bytes(one.body), one.producer_id, one.producer_sequence)
        for one in turn.drafts
    ]
    sends = [(one.to, one.message, [bytes(part) for part in one.raw]) for one in turn.sends]
    return drafts, turn.elapsed_ms, sends, turn.notes, turn.pulls


class Recorder:
    """Keeps every root machine that is made while it is patched in."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.lives: dict[Root, Life] = {}
        init, step, lives = Root.__init__, Root.step, self.lives

        def made(
            root: Root, config: RootConfig, folds: Folds, folded_to: Position, moment: Moment, *, has_folds: bool = True
        ) -> None:
            lives[root] = Life(config, copied(folds), folded_to, moment, has_folds, [])
            init(root, config, folds, folded_to, moment, has_folds=has_folds)

        def stepped(root: Root, event: Event, log: LogView, moment: Moment) -> Turn:
            told = msgspec.structs.replace(event, folds=copied(event.folds)) if isinstance(event, Restored) else event
            turn = step(root, event, log, moment)
            lives[root].steps.append(Step(told, log, moment, effects_of(turn)))
            return turn

        patch.setattr(Root, "__init__", made)
        patch.setattr(Root, "step", stepped)

    def replay(self) -> None:
        assert all(life.steps for life in self.lives.values())
        for life in self.lives.values():
            life.replay()


def events_of(lives: dict[Root, Life]) -> set[str]:
    return {type(one.event).__name__ for life in lives.values() for one in life.steps}


@pytest.mark.parametrize(
    ("swarm", "seed"),
    [(KILLS, 1), (KILLS, 2), (AWAY, 3), (PRIVATE, 1), (None, 5), (None, 7)],
    ids=["kills-1", "kills-2", "away-3", "private-1", "seed-5", "seed-7"],
)
def test_the_root_machines_of_a_pair_are_what_their_events_made_them(swarm: NodeSwarm | None, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        recorder = Recorder(patch)
        world = NodeWorld(seed, swarm).play()
    assert {"Committed", "FramesFollowed", "Granted", "FollowersServed"} <= events_of(recorder.lives)
    with bounded(world.swarm.bounds):
        recorder.replay()


@pytest.mark.parametrize("seed", range(5))
def test_the_root_machine_of_a_lone_node_is_what_its_events_made_it(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        recorder = Recorder(patch)
        world = LoneWorld(seed)
        for _ in range(250):
            world.turn()
        world.settle()
    recorder.replay()


def test_what_is_written_past_the_step_is_found() -> None:
    """The test is tested: by a shell that itself takes the time since the last append, and by one that does not."""
    for is_taken in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            recorder = Recorder(patch)
            world = LoneWorld(1)
            for _ in range(100):
                world.turn()
                if is_taken:
                    world.root._pending.elapsed_ms(world.now)
        with pytest.raises(AssertionError) if is_taken else contextlib.nullcontext():
            recorder.replay()
