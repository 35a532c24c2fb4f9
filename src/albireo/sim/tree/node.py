"""A node of the simulated tree: the real CORE with its log, door and uplinks. It watches the log (`log.Watcher`)."""

from collections import deque
from collections.abc import Sequence
from pathlib import Path

from albireo.codec.frame import Frame
from albireo.machine.node.root import Root
from albireo.model.position import Position
from albireo.node.core.actor import Core
from albireo.node.core.arguments import CoreArguments
from albireo.node.core.door import DoorArguments
from albireo.runtime import Behaviour
from albireo.sim.engine.disk import SimDisk
from albireo.sim.nodes.ledger import NodeLedger
from albireo.sim.nodes.log import StagedLog
from albireo.sim.nodes.machine import Machine
from albireo.sim.nodes.network import Host
from albireo.sim.nodes.stage import NodeStage
from albireo.sim.tree.ledger import TreeLedger


class OpenDoor(DoorArguments, frozen=True, kw_only=True):
    """A door that is open without keys: the simulated network has none."""

    def closed_because(self, node: str, data: Path) -> str:
        return ""


class TreeMachine(Machine):
    """Machine of one node."""

    def __init__(self, stage: NodeStage, host: Host, copies: TreeLedger, arguments: CoreArguments) -> None:
        super().__init__(stage, host, NodeLedger(1, stage.fail))
        self.copies = copies
        self.arguments = arguments
        self.core: Core
        self.log: StagedLog
        self._uncommitted: deque[Frame] = deque()
        log_type = type("WatchedTreeLog", (StagedLog,), {"watcher": self})
        self._core_type: type[Core] = type("StagedTreeCore", (Core,), {"log_type": log_type})

    @property
    def node(self) -> str:
        return self.arguments.node

    @property
    def root(self) -> Root | None:
        """The root machine of the running process; None while it is down or starting."""
        return self.core.root if self.actor is not None and self.actor.is_alive and self.actor.is_ready else None

    def behaviour(self) -> Behaviour:
        self.core = self._core_type(self.arguments, self.disk, self.stage.chance.randbytes)
        return self.core

    def restore(self, disk: SimDisk) -> None:
        """Come back with another disk: a backup, or an empty one."""
        self.down("its disk is exchanged", is_power=True)
        self.refit(disk)
        self.start_soon(50)

    def opened(self, log: StagedLog) -> None:
        self.log = log
        self._uncommitted = deque(one for one in log.frames() if one.header.last_sequence > log.committed.sequence)
        self.copies.opened(log.log_id, log.committed.sequence)
        self.stage.note(self.name, f"starts, log ..{log.end}, committed {log.committed}")

    def appended(self, frames: Sequence[Frame]) -> None:
        self._uncommitted.extend(frames)

    def committed(self, position: Position) -> None:
        while self._uncommitted and self._uncommitted[0].header.last_sequence <= position.sequence:
            self.copies.committed(self._uncommitted.popleft().header)

    def cutting(self, sequence: int) -> None:
        """Do nothing: the log of a node alone is not cut."""

    def cut(self, sequence: int) -> None:
        """Do nothing, likewise."""

    def turned(self) -> None:
        """Begin, after each turn, what the threads of the process would do now."""
        log = getattr(self, "log", None)
        if log is None or self.actor is None or log._work.failure is not None:
            return
        if log.durable.sequence < log.end.sequence:
            self.beside(log, self._flush)
        if log.wants_house:
            self.beside(log, self._keep_house)

    def _flush(self) -> None:
        self.aside(self.log.flush)

    def _keep_house(self) -> None:
        self.aside(self.log.keep_house)
