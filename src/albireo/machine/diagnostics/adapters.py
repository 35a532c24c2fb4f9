"""Adapters: whether each configured adapter of this node runs, which a dead one can't say of itself.

    <adapter>/running    bool, an item of CORE's own; false is the case "device lost", and its message says why

An adapter that runs is heard at least every few seconds. What else it may be:

    loops            it began LOOP_STARTS times within LOOP_NS, heard or not
    dead             it was heard under this lead, and then not for SILENT_NS
    never started    it was not heard for SILENT_NS since this node began to lead; for START_NS, while boot starts it

Which of these a process is, and why it ended, boot knows: it is asked while something looks wrong (`asks_boot`).
Without an answer the message says what CORE itself has seen.

Not done here: whether the device answers; that is the adapter's own word (`<adapter>/connected`).
Decision: ADR-0160.
"""

from collections.abc import Sequence
from typing import Final

from albireo.machine.desk.registry import Registry
from albireo.machine.diagnostics.running import RunningItems
from albireo.machine.kernel.events import ActorTold
from albireo.machine.kernel.turn import Moment, Turn
from albireo.model.instant import SECOND, Instant
from albireo.model.item import LOST_SEVERITY, AlarmSettings, DataItem
from albireo.model.value import ValueType

SILENT_NS: Final = 12 * SECOND
"""Time after which an adapter that says nothing counts as lost. One whose items all stand still says its diagnostics
every 5 s, and one of these may be late or lost."""
START_NS: Final = 30 * SECOND
"""Time after which an adapter that boot has only begun to start counts as lost: on a busy machine Python alone takes
some seconds."""
TICK_NS: Final = SECOND
"""Time between two looks at who fell silent, and at what else nothing tells of."""
LOOK_NS: Final = 8 * SECOND
"""Silence from which boot is asked, so that its answer is there in time."""
LATE_NS: Final = 3 * SECOND
"""Time between two looks above which nobody's silence counts: CORE did not run, or took nothing."""
LOOP_NS: Final = 60 * SECOND
LOOP_STARTS: Final = 4
"""Starts within LOOP_NS from which an adapter counts as one that restarts in a loop."""


class AdapterWatch:
    """The watch of one tenure."""

    def __init__(self, adapters: frozenset[str], registry: Registry, messages: dict[int, str], now: Instant) -> None:
        """
        Args:
            adapters: names of those that this node's topology configures.
            messages: what is wrong, by item id, for the cases that are raised of it; filled here.
        """
        self._items = RunningItems("adapter", adapters, _item, registry, messages)
        self._registry = registry
        self._began = self._looked_at = now
        """Instant from which silence counts, and that of the last look."""
        self._actors: dict[str, ActorTold] = {}
        self.asks_boot = False
        """True: boot's word on the actors is wanted."""

    def declare(self, turn: Turn, now: Instant) -> tuple[int, ...]:
        """Declare the items, as this node begins to lead; returns their ids."""
        self._began = self._looked_at = now
        return self._items.declare(turn)

    def told(self, actors: Sequence[ActorTold]) -> None:
        """Take boot's word on the actors of this node."""
        self._actors = {one.name: one for one in actors}

    def trouble_of(self, name: str) -> str:
        """Trouble of an adapter, in words; empty: none, or it is not one of this node's topology."""
        return self._items.trouble_of(name)

    def time_passed(self, moment: Moment, turn: Turn) -> None:
        """Append a sample of every adapter that stopped or began to run since the last look."""
        if moment.now - self._looked_at > LATE_NS:
            self._began = moment.now
        self._looked_at = moment.now
        self.asks_boot = any(self._is_suspect(name, moment.now) for name in self._items.names)
        if not self.asks_boot:
            self._actors = {}  # What boot said of an earlier trouble says nothing of the next.
        self._items.say({name: self._trouble(name, moment.now) for name in self._items.names}, moment, turn)

    def _silent_ns(self, name: str, now: Instant) -> int:
        return now - max(self._began, self._registry.heard_at(name) or self._began)

    def _is_suspect(self, name: str, now: Instant) -> bool:
        return self._silent_ns(name, now) >= LOOK_NS or self._starts(name, now) >= LOOP_STARTS - 1

    def _starts(self, name: str, now: Instant) -> int:
        """Starts of the adapter lately, as it said itself."""
        return self._registry.starts.lately(name, Instant(now - LOOP_NS))

    def _trouble(self, name: str, now: Instant) -> str | None:
        """Trouble of an adapter, in words; empty: it runs. None: nobody can tell yet."""
        starts, actor = self._starts(name, now), self._actors.get(f"comm.{name}")
        was_heard = self._registry.heard_at(name) is not None
        if self._silent_ns(name, now) < SILENT_NS and starts < LOOP_STARTS:
            return "" if was_heard else None
        if actor is not None and actor.is_stopping:
            return None
        if not was_heard and actor is not None and not actor.last_end:
            if actor.state == "waiting" or (actor.state == "starting" and self._silent_ns(name, now) < START_NS):
                return None  # It is not its turn yet, for another part of the node takes its time; or it takes its own.
        why = f": {actor.last_end}" if actor is not None and actor.last_end else ""
        if was_heard and max(starts, 0 if actor is None else actor.ends_lately) >= LOOP_STARTS:
            return f"restarts in a loop, at least {LOOP_STARTS} times a minute{why}"
        if actor is not None and (actor.state == "running" or actor.was_killed):
            return f"hangs: its process says nothing{why if actor.was_killed else ''}"
        if not was_heard:
            return f"never started since this node leads{why}"
        return f"died{why}" if actor is not None else "died or hangs: boot does not say which"


def _item(adapter: str) -> DataItem:
    return DataItem(
        name=f"{adapter}/running",
        value_type=ValueType.BOOL,
        description=f"the process of the adapter {adapter} runs and is heard",
        alarm=AlarmSettings(off_normal=False, is_device_state=True, severity=LOST_SEVERITY),
    )
