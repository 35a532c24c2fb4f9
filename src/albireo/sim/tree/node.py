"""Machines of the simulated tree: the real CORE of a node alone, or of a member of a pair, with what is beside it."""

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from albireo.codec.frame import Frame
from albireo.codec.message import AnyMessage, Appended
from albireo.machine.root.root import Root
from albireo.model.position import Position
from albireo.node.core.actor import Core
from albireo.node.core.arguments import CoreArguments
from albireo.node.membership.door import DoorArguments
from albireo.runtime import Behaviour
from albireo.sim.engine.disk import SimDisk
from albireo.sim.nodes.clients import Operator
from albireo.sim.nodes.ledger import NodeLedger
from albireo.sim.nodes.log import StagedLog
from albireo.sim.nodes.machine import Machine
from albireo.sim.nodes.member import MemberMachine
from albireo.sim.nodes.network import Host
from albireo.sim.nodes.stage import NodeStage
from albireo.sim.tree.device import DeviceAdapter, TreeDevice
from albireo.sim.tree.ledger import TreeLedger

START_OVER_MS: Final = 50


class OpenDoor(DoorArguments, frozen=True, kw_only=True):
    """A door that is open without keys: the simulated network has none."""

    def closed_because(self, node: str, data: Path) -> tuple[str, str]:
        return "", ""


class TreePairLedger(NodeLedger):
    """Judge of one pair, who tells the judge of the tree what is committed."""

    def __init__(self, majority: int, node: str, copies: TreeLedger) -> None:
        super().__init__(majority, lambda what: copies.fail(f"{node}: {what}"))
        self.copies = copies

    def _first_commit(self, frame: Frame) -> None:
        super()._first_commit(frame)
        self.copies.committed(frame)


class LoneLedger(NodeLedger):
    """Stands for the judge of a node alone, whose machine judges what it acknowledges."""

    def __init__(self, copies: TreeLedger) -> None:
        super().__init__(1, copies.fail)
        self._copies = copies

    def knows(self, frame: Frame) -> bool:
        return self._copies.knows(frame)

    def heard(self, receipt: Appended) -> None:
        """Take no note: nothing is counted here."""


class TreeMember(MemberMachine):
    """Machine of a member of a pair."""

    adapter: DeviceAdapter

    def __init__(
        self,
        stage: NodeStage,
        host: Host,
        ledger: TreePairLedger,
        members: "list[MemberMachine]",
        arguments: CoreArguments,
        device: TreeDevice,
    ) -> None:
        self._device = device
        super().__init__(stage, host, ledger, members, arguments)

    @property
    def root(self) -> Root | None:
        return self.core.root if self.actor is not None and self.actor.is_alive and self.actor.is_ready else None

    def switched_on(self) -> None:
        super().switched_on()
        core = f"{self.data}/core"
        self.adapter = DeviceAdapter(self.stage, self.host, core, self._device, is_paired=True)

    def down(self, why: str, *, is_power: bool) -> None:
        super().down(why, is_power=is_power)
        if is_power:
            self.adapter.die()


class LoneMachine(Machine):
    """Machine of a node that stands alone. It watches its log (`log.Watcher`)."""

    def __init__(
        self, stage: NodeStage, host: Host, copies: TreeLedger, arguments: CoreArguments, device: TreeDevice
    ) -> None:
        super().__init__(stage, host, NodeLedger(1, stage.fail))
        self.copies = copies
        self.core: Core
        self.log: StagedLog
        self._arguments = arguments
        self._device = device
        self._uncommitted: deque[Frame] = deque()
        log_type = type("WatchedTreeLog", (StagedLog,), {"watcher": self})
        self._core_type: type[Core] = type("StagedTreeCore", (Core,), {"log_type": log_type})
        self.switched_on()

    @property
    def root(self) -> Root | None:
        return self.core.root if self.actor is not None and self.actor.is_alive and self.actor.is_ready else None

    @property
    def is_serving(self) -> bool:
        return self.root is not None and self.root.role.is_serving

    def behaviour(self) -> Behaviour:
        self.core = self._core_type(self._arguments, self.disk, self.stage.chance.randbytes)
        return self.core

    def switched_on(self) -> None:
        core = f"{self.data}/core"
        self.operator = Operator(self.stage, self.host, core)
        self.adapter = DeviceAdapter(self.stage, self.host, core, self._device, is_paired=False)

    def down(self, why: str, *, is_power: bool) -> None:
        super().down(why, is_power=is_power)
        if is_power:
            self.operator.die()
            self.adapter.die()

    def restore(self, disk: SimDisk) -> None:
        """Come back with another disk: a backup, or an empty one."""
        self.down("its disk is exchanged", is_power=True)
        self.refit(disk)
        self.start_soon(START_OVER_MS)

    def said(self, message: AnyMessage) -> None:
        if isinstance(message, Appended) and message.position.sequence > self.log.committed.sequence:
            self.stage.fail(f"{self.name} acknowledges {message.position}, {self.log.committed} is committed")

    def opened(self, log: StagedLog) -> None:
        self.log = log
        self._uncommitted = deque(one for one in log.frames() if one.header.last_sequence > log.committed.sequence)
        self.copies.opened(log.log_id, log.committed.sequence)
        self.stage.note(self.name, f"starts, log ..{log.end}, committed {log.committed}")

    def appended(self, frames: Sequence[Frame]) -> None:
        self._uncommitted.extend(frames)

    def committed(self, position: Position) -> None:
        while self._uncommitted and self._uncommitted[0].header.last_sequence <= position.sequence:
            self.copies.committed(self._uncommitted.popleft())

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
