"""A member machine does what its events, its views of the log and the time say, and nothing else: runs played again.

Method: every step of every machine of a run is kept; a fresh machine with the same facts and the same chance is stepped
through what was kept, and wants the same effects, one by one. What is written into a machine past `step` shows here.
"""

import random
from typing import ClassVar

import msgspec
import pytest

from albireo.machine.pair.config import PairConfig
from albireo.machine.pair.events import Effect, Event
from albireo.machine.pair.member import Member
from albireo.machine.pair.party import MemberFacts
from albireo.model.instant import Instant
from albireo.model.log_view import LogView
from albireo.node.member import member as node_member
from albireo.sim.machines.parts import Variant
from albireo.sim.machines.world import PairWorld
from albireo.sim.nodes.world import NodeWorld
from tests.long_form import some


class Step(msgspec.Struct, frozen=True):
    event: Event
    log: LogView
    now: Instant
    effects: str
    deadline: Instant


class Kept(Member):
    """Keeps what it was made of and every step."""

    lives: ClassVar[list["Kept"]] = []

    def __init__(self, config: PairConfig, facts: MemberFacts, chance: random.Random, now: Instant) -> None:
        self.made = (facts, chance.getstate(), now)
        self.steps: list[Step] = []
        super().__init__(config, facts, chance, now)
        self.lives.append(self)

    def step(self, event: Event, log: LogView, now: Instant) -> list[Effect]:
        effects = super().step(event, log, now)
        self.steps.append(Step(event, log, now, repr(effects), self.deadline()))
        return effects

    def played_again(self) -> int:
        """Steps that a fresh machine takes alike."""
        facts, state, began = self.made
        chance = random.Random()
        chance.setstate(state)
        fresh = Member(self.config, facts, chance, began)
        for number, step in enumerate(self.steps):
            effects = fresh.step(step.event, step.log, step.now)
            assert repr(effects) == step.effects, f"step {number} of {len(self.steps)}: {step.event}"
            assert fresh.deadline() == step.deadline
        return len(self.steps)


@pytest.fixture
def kept() -> type[Kept]:
    return type("KeptHere", (Kept,), {"lives": []})


@pytest.mark.parametrize("seed", some(range(12), 4), ids=lambda seed: f"seed-{seed}")
def test_machines_of_a_pair_take_their_steps_again(seed: int, kept: type[Kept]) -> None:
    PairWorld(seed, variant=Variant(member=kept)).play()
    assert sum(life.played_again() for life in kept.lives) > 500


@pytest.mark.parametrize("seed", range(4), ids=lambda seed: f"seed-{seed}")
def test_machines_of_whole_nodes_take_their_steps_again(
    seed: int, kept: type[Kept], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_member, "Member", kept)
    NodeWorld(seed).play()
    assert sum(life.played_again() for life in kept.lives) > 200
