"""Faces: whether each configured face of this place runs, as boot tells it; a face itself says nothing to CORE.

    <face>/running    bool, an item of CORE's own; false is a case, and its message says why

A face that dies is started again by boot, at last every half minute. It runs if it has not died yet, or once it was up
for STEADY_NS; it does not if that was not so for LOST_NS, or if it died LOOP_STARTS times within a minute.

Not done here: what a face serves, and to whom. Decision: ADR-0231.
"""

from collections.abc import Sequence
from typing import Final

from albireo.machine.desk.registry import Registry
from albireo.machine.diagnostics.adapters import LOOP_STARTS
from albireo.machine.diagnostics.running import RunningItems
from albireo.machine.kernel.events import ActorTold
from albireo.machine.kernel.turn import Moment, Turn
from albireo.model.instant import SECOND, Instant
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.status import FaceAddress, FaceStatus
from albireo.model.value import ValueType

STEADY_NS: Final = 5 * SECOND
LOST_NS: Final = 20 * SECOND
"""Time for which a face may be down: a start on a busy machine takes seconds."""


class FaceWatch:
    """The watch of one tenure."""

    def __init__(self, faces: frozenset[str], registry: Registry, messages: dict[int, str]) -> None:
        """`messages`: what is wrong, by item id, for the cases that are raised of it; filled here."""
        self._items = RunningItems("face", faces, _item, registry, messages)
        self._well_at: dict[str, Instant] = {}
        """Instant at which each was seen to run last, or from which it counts."""
        self._told: dict[str, ActorTold] = {}
        """Boot's word since the last look."""
        self._addresses: dict[str, FaceAddress] = {}

    @property
    def asks_boot(self) -> bool:
        return bool(self._items.names)

    def declare(self, turn: Turn, now: Instant) -> tuple[int, ...]:
        """Declare the items, as this node begins to lead; returns their ids."""
        self._well_at = dict.fromkeys(self._items.names, now)
        return self._items.declare(turn)

    def told(self, actors: Sequence[ActorTold]) -> None:
        """Take boot's word on the actors of this node."""
        self._told = {one.name.removeprefix("face."): one for one in actors if one.name.startswith("face.")}
        self._addresses = {name: one.address for name, one in self._told.items()}

    def rows(self) -> tuple[FaceStatus, ...]:
        """Each face with its trouble, for `status`."""
        names, known = self._items.names, self._addresses
        return tuple(FaceStatus(one, self._items.trouble_of(one), known.get(one, FaceAddress())) for one in names)

    def time_passed(self, moment: Moment, turn: Turn) -> None:
        """Append a sample of every face that stopped or began to run, by boot's word of a moment ago."""
        known = {name: self._told[name] for name in self._items.names if name in self._told}
        self._told = {}
        self._items.say({name: self._trouble(name, one, moment.now) for name, one in known.items()}, moment, turn)

    def _trouble(self, name: str, actor: ActorTold, now: Instant) -> str | None:
        """Trouble of a face, in words; empty: it runs. None: nobody can tell yet."""
        if actor.state == "running" and (not actor.last_end or now - actor.since_ns >= STEADY_NS):
            self._well_at[name] = now
            return ""
        if actor.is_stopping:
            return None
        why = f": {actor.last_end}" if actor.last_end else ""
        if actor.ends_lately >= LOOP_STARTS:
            return f"restarts in a loop, at least {LOOP_STARTS} times a minute{why}"
        return f"does not run{why}" if now - self._well_at[name] >= LOST_NS else None


def _item(face: str) -> DataItem:
    return DataItem(
        name=f"{face}/running",
        value_type=ValueType.BOOL,
        description=f"the process of the face {face} runs",
        alarm=AlarmSettings(off_normal=False),
    )
