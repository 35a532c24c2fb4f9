"""Topics of a pair of whole nodes under faults, by seed: the real actors, stores and files; see docs/simulation.md.

A failure prints the seed; `TopicNodeWorld(seed).play()` plays it again, and its `trace` tells it line by line.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

import pytest

from albireo.node.topics.store import TopicStore
from albireo.sim.nodes.swarm import NodeSwarm
from albireo.sim.topics.nodes.shortcuts import FILE_SHORTCUTS, KILLS, NODE_SEEDS, catch_of_files
from albireo.sim.topics.nodes.world import TOPIC_BOUNDS, TopicNodeWorld
from tests.long_form import check_caught, some

CAUGHT_BY: Final[Mapping[str, int]] = {
    "durable before it is in files": 1,
    "served before the life before is known": 2,
}
"""Seed that catches a shortcut, where it is not seed 0."""
SEEN_BY: Final = (60, 9, 12)
"""Seeds that see it all, as they were searched last; tried first."""


@pytest.mark.parametrize("seed", some(range(150), 25), ids=lambda seed: f"seed-{seed}")
def test_all_is_read_once_and_what_is_kept_is_there_at_both_members(seed: int) -> None:
    TopicNodeWorld(seed).play()


@pytest.mark.parametrize("name", FILE_SHORTCUTS)
def test_a_shortcut_of_files_is_caught(name: str) -> None:
    check_caught(partial(catch_of_files, name), CAUGHT_BY.get(name, 0), range(NODE_SEEDS))


def test_a_life_serves_once_it_knows_what_the_one_before_it_gave() -> None:
    """The actor was killed and came back under the same epoch: what it had given came without a mark."""
    TopicNodeWorld(2, KILLS).play()


def test_a_member_that_leads_no_more_gives_nothing_of_the_next_lead() -> None:
    """Its CORE said so late; what the other one had put meanwhile came by the log, and went to a consumer of each."""
    TopicNodeWorld(21).play()


def test_a_full_disk_is_tried_again_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """There was no pause: each try encoded the whole tail anew."""
    failed: list[int] = []
    seal = TopicStore.seal

    def sealed(self: TopicStore, *arguments: object) -> None:
        try:
            seal(self, *arguments)  # type: ignore[arg-type]  # As they come.
        except OSError:
            failed.append(world.agenda.at)
            raise

    monkeypatch.setattr(TopicStore, "seal", sealed)
    swarm = NodeSwarm(faults=("full_topics",), fault_every_ms=500.0, batch_every_ms=20.0, bounds=TOPIC_BOUNDS)
    world = TopicNodeWorld(1, swarm)
    world.play()
    assert 0 < len(failed) <= 2 * (swarm.faults_for_ms // 1_000 + 4)


def test_worlds_see_all_that_can_happen_to_files() -> None:
    """Seeds in which nothing happens prove nothing."""
    unseen, given, made = {"messages_missing", "messages_filled", "topics_served"}, 0, set[bytes]()
    for seed in (*SEEN_BY, *range(NODE_SEEDS)):
        world = TopicNodeWorld(seed).play()
        unseen -= {what for what in unseen if any(what in line for line in world.trace)}
        given += world.ledger.topics.given
        made |= set(world.ledger.topics.bodies[world.topics["made"]])
        if not unseen and given > 500 and len(made) > 10:
            return
    pytest.fail(f"{NODE_SEEDS} seeds without {sorted(unseen)}; {given} given, {len(made)} made")
