"""Faces: whether each configured face of this place runs, as boot tells it; a face itself says nothing to CORE.

    <face>/running    bool, an item of CORE's own; false is a case, and its message says why

A face that dies is started again by boot, at last every half minute. It runs if it has not died yet, or once it was up
for STEADY_NS; it does not if that was not so for LOST_NS, or if it died LOOP_STARTS times within a minute.

Not done here: what a face serves, and to whom. Decision: ADR-0231.
"""

from collections.abc import Sequence
from typing import Final

from albireo.machine.desk.owners import OWN_ADAPTER
from albireo.machine.desk.registry import Registry
from albireo.machine.diagnostics.adapters import LOOP_STARTS, MESSAGE_CHARS_MAX, samples_of_running
from albireo.machine.kernel.events import ActorTold
from albireo.machine.kernel.turn import Moment, Turn
from albireo.model.instant import SECOND, Instant
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.value import ValueType

STEADY_NS: Final = 5 * SECOND
LOST_NS: Final = 20 * SECOND
"""Time for which a face may be down: a start on a busy machine takes seconds."""


class FaceWatch:
    """The watch of one tenure."""

    def __init__(self, faces: frozenset[str], registry: Registry, messages: dict[int, str]) -> None:
        """`messages`: what is wrong, by item id, for the cases that are raised of it; filled here."""
        self._names = sorted(faces)
        self._registry = registry
        self._messages = messages
        self._ids: dict[str, int] = {}
        self._well_at: dict[str, Instant] = {}
        """Instant at which each was seen to run last, or from which it counts."""
        self._actors: Sequence[ActorTold] = ()
        self._shown: dict[str, bool] = {}
        """Last sample of each, of this tenure."""

    @property
    def asks_boot(self) -> bool:
        return bool(self._names)

    def declare(self, turn: Turn, now: Instant) -> tuple[int, ...]:
        """Declare the items, as this node begins to lead; returns their ids."""
        ids = self._registry.declare(OWN_ADAPTER, tuple(_item(name) for name in self._names), turn)
        self._ids = dict(zip(self._names, ids, strict=True))
        self._well_at = dict.fromkeys(self._names, now)
        return ids

    def told(self, actors: Sequence[ActorTold]) -> None:
        """Take boot's word on the actors of this node."""
        self._actors = actors

    def rows(self) -> list[dict[str, str]]:
        """Each face with its trouble, for `status`."""
        return [{"name": one, "trouble": self._messages.get(self._ids.get(one, 0), "")} for one in self._names]

    def time_passed(self, moment: Moment, turn: Turn) -> None:
        """Append a sample of every face that stopped or began to run, by boot's word of a moment ago."""
        told = {one.name: one for one in self._actors}
        self._actors = ()
        changed: dict[int, bool] = {}
        for name, item_id in self._ids.items():
            actor = told.get(f"face.{name}")
            trouble = None if actor is None else self._trouble(name, actor, moment.now)
            if trouble is None:
                continue
            if trouble:
                self._messages[item_id] = trouble[:MESSAGE_CHARS_MAX]
            else:
                self._messages.pop(item_id, None)
            before, runs = self._shown.get(name), not trouble
            if before is not runs:
                self._shown[name] = changed[item_id] = runs
                if trouble:
                    turn.note("warning", "face_lost", face=name, reason=trouble)
                elif before is not None:
                    turn.note("info", "face_runs", face=name)
        if changed:
            turn.samples(samples_of_running(changed, moment))

    def _trouble(self, name: str, actor: ActorTold, now: Instant) -> str | None:
        """Trouble of a face, in words; empty: it runs. None: nobody can tell yet."""
        if actor.state == "running" and (not actor.last_end or now - actor.since_ns >= STEADY_NS):
            self._well_at[name] = now
            return ""
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
