"""Rules of files and lives of the actor `topics` left out one by one, to show that the world would notice."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from albireo.machine.feed.follower import MadeDurable
from albireo.machine.topics.filling import HoleFilling
from albireo.machine.topics.tables import KeptMessages, TopicTables
from albireo.model.position import BEGINNING
from albireo.node.topics.actor import TopicsActor
from albireo.node.topics.store import TopicStore
from albireo.sim.engine.stage import first_caught, taken
from albireo.sim.nodes.swarm import NodeSwarm
from albireo.sim.topics.nodes.world import TOPIC_BOUNDS, TopicNodeWorld

NODE_SEEDS: Final = 50


def _durable_at_once(real: Any) -> Any:
    """The log is told that messages are in files before they are."""

    def seal(self: Any) -> None:
        self._follow(MadeDurable(self._tail.end))
        real(self)

    return seal


def _lacks_nothing(_: Any) -> Any:
    return lambda self, position, lasts: None


def _counts_of_now(_: Any) -> Any:
    """Counts of topics at a late begin are those that CORE told, which are of later."""
    return lambda self, counts: None


def _fills_all_at_once(real: Any) -> Any:
    """One answer of the other member counts as all of a hole."""

    def heard(self: HoleFilling, sent: Any, messages: Any, now: Any) -> Any:
        hole = self._hole
        last = sent.scanned_to if hole is None else hole.last_sequence
        return real(self, msgspec.structs.replace(sent, scanned_to=last), messages, now)

    return heard


def _damaged_and_gone(real: Any) -> Any:
    return lambda self, name, is_alone: real(self, name, is_alone=True)


def _floors_too_high(real: Any) -> Any:
    """Files let go of one message more than nobody wants."""

    def kept(self: TopicTables) -> KeptMessages:
        found: KeptMessages = real(self)
        return KeptMessages({one: floor + (floor > 0) for one, floor in found.floors.items()}, found.lasts)

    return kept


def _level_at_once(real: Any) -> Any:
    """A later life serves before it knows what the one before may have given."""

    def see_role(self: Any) -> None:
        self._role = msgspec.structs.replace(self._role, committed=BEGINNING)
        real(self)

    return see_role


KILLS: Final = NodeSwarm(
    faults=("kill_topics", "kill_topics_in_write"), fault_every_ms=300.0, batch_every_ms=20.0, bounds=TOPIC_BOUNDS
)
_FULL: Final = NodeSwarm(
    faults=("full_topics", "kill_both_topics"),
    fault_every_ms=500.0,
    batch_every_ms=20.0,
    segment_bytes=5_120,
    bounds=TOPIC_BOUNDS,
)
_AWAY: Final = NodeSwarm(
    faults=("away", "empty_disk"),
    fault_every_ms=500.0,
    faults_for_ms=8_000,
    batch_every_ms=20.0,
    segment_bytes=5_120,
    bounds=TOPIC_BOUNDS,
)
_ROT: Final = NodeSwarm(
    faults=("rot_messages", "switchover"), fault_every_ms=500.0, batch_every_ms=20.0, bounds=TOPIC_BOUNDS
)

Change = tuple[Any, str, Callable[[Any], Any]]
FILE_SHORTCUTS: Final[Mapping[str, tuple[Change, NodeSwarm | None]]] = {
    "durable before it is in files": ((TopicsActor, "_seal", _durable_at_once), _FULL),
    "what the log lacks is no hole": ((TopicStore, "lacks_to", _lacks_nothing), _AWAY),
    "a late begin with the counts of now": ((TopicTables, "set_back", _counts_of_now), _AWAY),
    "a hole filled by the first piece": ((HoleFilling, "heard", _fills_all_at_once), _AWAY),
    "a damaged file is just gone": ((TopicStore, "give_up", _damaged_and_gone), _ROT),
    "one message too many let go of": ((TopicTables, "kept", _floors_too_high), None),
    "served before the life before is known": ((TopicsActor, "_see_role", _level_at_once), KILLS),
}
"""Rule that each leaves out, and the mix of faults that shows it; None: that of the seed."""


def catch_of_files(name: str, seeds: range) -> tuple[int, str] | None:
    """The first of these seeds whose world notices the shortcut, and what it saw."""
    (owner, attribute, change), swarm = FILE_SHORTCUTS[name]
    with taken((owner, attribute, change(getattr(owner, attribute)))):
        return first_caught(lambda seed: TopicNodeWorld(seed, swarm).play(), seeds)
