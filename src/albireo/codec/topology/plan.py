"""Plan by which a running node takes up a changed topology: all of it that concerns the node, or nothing.

Pure: which changes hold at once, which adapters have to be started anew for it, and what is refused.
Spec: ADR-0180.
"""

import msgspec

from albireo.codec.topology.changes import TopologyChange, changes_of
from albireo.codec.topology.topology import LoadedTopology
from albireo.model.topology import Place


class ApplyPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Plan for one place."""

    place: str
    taken: tuple[TopologyChange, ...]
    """Changes that the place takes up."""
    refused: tuple[TopologyChange, ...]
    """Changes that need a restart of the place, or an end of it; with any of them nothing is taken up."""
    elsewhere: tuple[TopologyChange, ...]
    """Changes that do not concern the place."""

    @property
    def started_anew(self) -> tuple[str, ...]:
        """Adapters and faces that are started anew."""
        return tuple(dict.fromkeys(name for one in self.taken for name in one.started_anew))


def plan_of(old: LoadedTopology, new: LoadedTopology, place: Place) -> ApplyPlan:
    """Plan for a place that runs by `old` and is to run by `new`."""
    sorted_out: dict[str, list[TopologyChange]] = {"taken": [], "refused": [], "elsewhere": []}
    for change in changes_of(old, new):
        sorted_out[_fate(change, place)].append(change)
    return ApplyPlan(place=place.name, **{name: tuple(changes) for name, changes in sorted_out.items()})


def _fate(change: TopologyChange, place: Place) -> str:
    is_own = change.node == place.node.id
    if place.name in change.restart or (is_own and change.what == "node"):
        return "refused"
    is_child = change.what == "node" and change.node.rpartition("/")[0] == place.node.id
    return "taken" if is_own or is_child or change.what == "group" else "elsewhere"
