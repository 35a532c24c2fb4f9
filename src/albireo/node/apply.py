"""Application of a changed topology to a node that runs: boot's answer to `albireo topology apply`, and to `show`.

The file is read and judged here, against what the node runs by now, so that nothing else can come between. Either every
change that concerns the place is taken up, or none. Reading a large site takes boot a second or two, in which it asks
no actor DEAD? and forgives them.

Spec: ADR-0180.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from albireo.codec.questions.boot import APPLY, NAVIGATION, TOPOLOGY, ApplyAsked
from albireo.codec.questions.kind import Nothing
from albireo.codec.topology.meaning import topology_hash
from albireo.codec.topology.mistakes import Mistake
from albireo.codec.topology.navigation import navigation_of
from albireo.codec.topology.plan import plan_of
from albireo.codec.topology.topology import LoadedTopology
from albireo.model.bounded import TEXT_CHARS_MAX
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.topology import Place, find_place
from albireo.model.tree.navigation import Navigation
from albireo.model.tree.nodes import asked_of_parent, child_configs
from albireo.node.kept_zone import keep_zone
from albireo.runtime import ActorSpec
from albireo.runtime.actor.supervisor import Supervisor, handled
from albireo.runtime.errors import AnswerRefused

ReadAgain = Callable[[Path], LoadedTopology | list[Mistake]]
"""Reads and judges a topology file; handed in, as only the command line knows all kinds of adapters."""
MISTAKES_TOLD: Final = 5


class TopologyInUse:
    """Topology by which a node runs, from its start on."""

    def __init__(
        self,
        loaded: LoadedTopology,
        place: Place,
        read: ReadAgain,
        specs_of: Callable[[LoadedTopology, Place], Sequence[ActorSpec]],
        data: Path,
    ) -> None:
        """
        Args:
            specs_of: actors of a place, as boot starts them.
        """
        self._read = read
        self._specs_of = specs_of
        self._data = data
        self.handlers = (handled(TOPOLOGY, self.tell), handled(NAVIGATION, self.lead), handled(APPLY, self.apply))
        self._go_on_by(loaded, place)

    def _go_on_by(self, loaded: LoadedTopology, place: Place) -> None:
        self._loaded, self._place = loaded, place
        self._hash = topology_hash(loaded)
        node = place.node
        self._told: dict[str, Any] = {
            "place": place.name,
            "hash": self._hash,
            "zone": self._loaded.topology.zone,
            "limits": msgspec.to_builtins(node.limits),
            "children": msgspec.to_builtins(child_configs(loaded.topology, node.id)),
            "beyond": [one.id for one in asked_of_parent(loaded.topology, node.id)],
        }

    def tell(self, _: Supervisor, __: Nothing) -> dict[str, Any]:
        """Place, and what CORE takes up of its topology while it runs; it asks every few seconds. The zone is kept."""
        keep_zone(self._data, self._loaded.topology.zone)
        return self._told

    def lead(self, _: Supervisor, __: Nothing) -> Navigation:
        """Tell what people are led to at this node and below it."""
        return navigation_of(self._loaded.topology, self._place.node.id)

    def apply(self, supervisor: Supervisor, asked: ApplyAsked) -> dict[str, Any]:
        """Take up `file`, unless it is a `trial` or something in it takes a restart; tells the plan either way.

        Raises:
            AnswerRefused: the file has mistakes.
        """
        new = self._read(Path(asked.file))
        if not isinstance(new, LoadedTopology):
            wrong = [str(one) for one in new if not one.is_warning]
            more = f" and {len(wrong) - MISTAKES_TOLD} more" if len(wrong) > MISTAKES_TOLD else ""
            cause = f"{'; '.join(wrong[:MISTAKES_TOLD])}{more}"
            raise AnswerRefused(Refusal(RefusalCode.BAD_VALUE, cause[:TEXT_CHARS_MAX]))
        plan = plan_of(self._loaded, new, self._place)
        is_applied = not plan.refused and not asked.trial
        told: dict[str, Any] = msgspec.to_builtins(plan) | {"applied": is_applied, "started_anew": plan.started_anew}
        told["hash"] = {"old": self._hash, "new": topology_hash(new)}
        if is_applied:
            self._take_up(supervisor, new, plan.started_anew)
        return told

    def _take_up(self, supervisor: Supervisor, new: LoadedTopology, names: Sequence[str]) -> None:
        self._go_on_by(new, find_place(new.topology, self._place.name))
        actors = {f"{what}.{name}" for what in ("comm", "face") for name in names}
        for spec in self._specs_of(new, self._place):
            if spec.name in actors:
                supervisor.restart(spec.name, spec.arguments)
