"""A member of the simulated cluster: the real process of a node with its log, and what the world sees of it."""

from collections import deque
from collections.abc import Sequence
from typing import Final

from albireo.codec.frame import Frame
from albireo.codec.message import AnyMessage, Appended
from albireo.codec.pair_message import Accept
from albireo.machine.pair.member import Member
from albireo.model.instant import MS, Instant
from albireo.model.position import BEGINNING, Position
from albireo.node.core.actor import Core
from albireo.node.core.arguments import CoreArguments
from albireo.node.member.member import PairMembership
from albireo.runtime import Behaviour
from albireo.sim.engine.disk import SimDisk
from albireo.sim.nodes.actor import StagedActor
from albireo.sim.nodes.clients import Boot, HistoryReader, Operator
from albireo.sim.nodes.ledger import MemberDisk, NodeLedger
from albireo.sim.nodes.log import StagedLog
from albireo.sim.nodes.machine import Machine
from albireo.sim.nodes.network import Host
from albireo.sim.nodes.private import PrivateWatch
from albireo.sim.nodes.stage import NodeStage

RETRY_NS: Final = 200 * MS
"""Time until the sync thread, which found no room, looks again."""


class MemberMachine(Machine):
    """Machine of a member: CORE with its log, and what stands for its history. It watches the log (`log.Watcher`)."""

    def __init__(
        self, stage: NodeStage, host: Host, ledger: NodeLedger, members: "list[MemberMachine]", arguments: CoreArguments
    ) -> None:
        """`members`: both members, once there are both; the new one becomes the last of them."""
        super().__init__(stage, host, ledger)
        self.index = len(members)
        self._members = members
        self.core: Core
        self.log: StagedLog
        self.history: HistoryReader
        self.is_serving = self.is_ready = False
        self._arguments = arguments
        self._uncommitted: deque[Frame] = deque()
        self._counted = 0
        self._is_exchanged = False
        self._log_type: type[StagedLog] = type("WatchedLog", (StagedLog,), {"watcher": self})
        self.private = PrivateWatch(self, ledger.payloads)
        private_type = type("WatchedPrivate", (StagedLog,), {"watcher": self.private})
        logs = {"log_type": self._log_type, "private_log_type": private_type}
        self._core_type: type[Core] = type("StagedCore", (Core,), logs)
        self.switched_on()

    @property
    def member(self) -> Member | None:
        """Member machine of the running process; None while the process is down or starting."""
        if self.actor is None or not self.actor.is_alive or not self.actor.is_ready:
            return None
        membership = self.core._membership
        assert isinstance(membership, PairMembership)
        return membership._member

    @property
    def is_holder(self) -> bool:
        return self.member is not None and self.member.holder is not None

    @property
    def is_in_maintenance(self) -> bool:
        return self.member is not None and self.member.own.is_held

    @property
    def state(self) -> str:
        return self.member.state.value if self.member is not None else "down"

    @property
    def known(self) -> MemberDisk:
        return self.ledger.disks[self.index]

    def behaviour(self) -> Behaviour:
        self.is_serving = self.is_ready = False
        self.private.begin()
        self.core = self._core_type(self._arguments, self.disk, self.stage.chance.randbytes)
        return self.core

    def switched_on(self) -> None:
        self.start_history()
        self.operator = Operator(self.stage, self.host, f"{self.data}/core")
        self.boot = Boot(self.stage, self.host, f"{self.data}/boot", self.stop)

    def start_history(self) -> None:
        """Start the history, which goes on from what it had made durable."""
        before = getattr(self, "history", None)
        durable, log_id = (BEGINNING, b"") if before is None else (before.durable, before.machine.log_id)
        core = f"{self.data}/core"
        self.history = HistoryReader(self.stage, self.host, core, self.ledger, durable, log_id)
        self.history.reading.is_here = self.private.is_here

    def exchange(self, disk: SimDisk) -> None:
        """Exchange the disk, and that of the history with it."""
        self.refit(disk)
        self.history.forget()
        self.private.exchanged()
        self._is_exchanged = True

    def ended(self, actor: StagedActor, reason: str) -> None:
        if not reason and actor is self.actor and actor.is_alive and self.log.header.is_clean:
            self.ledger.stopped(self.log.header.shutdown_id, self.log.end)
        super().ended(actor, reason)

    def said(self, message: AnyMessage) -> None:
        match message:
            case Accept(record=record):
                self.ledger.asks(record)
            case Appended():
                member = self.member
                if member is None or member.holder is None:
                    self.stage.fail(f"{self.name} acknowledges and does not lead")
                else:
                    self.ledger.answers(self.index, member.own.run, member.holder.epoch, message)

    def down(self, why: str, *, is_power: bool) -> None:
        super().down(why, is_power=is_power)
        if is_power:
            for one in (self.history, self.operator, self.boot):
                one.die()

    def opened(self, log: StagedLog) -> None:
        """Check what recovery found: of what is committed, only the end and what is damaged may be missing."""
        self.log = log
        known, crcs = self.known, dict[int, int]()
        self._counted = log.committed.sequence
        self._uncommitted.clear()
        for frame in log.frames():
            crcs[frame.header.last_sequence] = frame.header.header_crc
            if frame.header.last_sequence > self._counted:
                self._uncommitted.append(frame)
            elif not self.ledger.knows(frame):
                self.stage.fail(f"{self.name} opens with {frame.header.last} as committed, which nobody committed")
        if log.end.sequence < known.synced and not self._is_exchanged:
            self.stage.fail(f"{self.name} opens with {log.end}, {known.synced} was durable")
        known.crcs, known.synced, self._is_exchanged = crcs, log.durable.sequence, False
        self.stage.note(self.name, f"starts, log {log.begin_sequence}..{log.end}, committed {log.committed}")

    def appended(self, frames: Sequence[Frame]) -> None:
        self._uncommitted.extend(frames)
        for frame in frames:
            self.known.crcs[frame.header.last_sequence] = frame.header.header_crc

    def committed(self, position: Position) -> None:
        if position.sequence <= self._counted:
            return
        self._counted, frames = position.sequence, list[Frame]()
        while self._uncommitted and self._uncommitted[0].header.last_sequence <= position.sequence:
            frames.append(self._uncommitted.popleft())
        member = self.member
        if not frames:
            return
        if member is not None and member.holder is not None:
            self.ledger.commits(self.index, member.own.run, member.holder.epoch, frames)
        else:
            self.ledger.follows(self.index, frames)

    def cutting(self, sequence: int) -> None:
        """Note that a cut begins: after a crash the log is cut or not."""
        self.known.synced = min(self.known.synced, sequence)

    def cut(self, sequence: int) -> None:
        """Note that the log was cut to a sequence; 0: begun anew."""
        known = self.known
        self.stage.note(self.name, f"log cut to {sequence}" if sequence else f"log begun at {self.log.end}")
        while self._uncommitted and self._uncommitted[-1].header.last_sequence > sequence:
            self._uncommitted.pop()
        known.crcs = {last: crc for last, crc in known.crcs.items() if last <= sequence}
        known.synced = min(known.synced, sequence) if sequence else self.log.end.sequence
        if not sequence:
            self._counted = self.log.end.sequence
            other = self._members[1 - self.index].log
            if self.log.begin_sequence > other.begin_sequence:
                self.stage.fail(f"{self.name} begins at {self.log.begin_sequence}, {other.begin_sequence} is kept")

    def turned(self) -> None:
        """Begin, after each turn, what the threads of the process would do now."""
        if self.actor is None or not self.actor.is_ready:
            return
        self.private.turned()
        log = self.log
        if log.durable.sequence < log.end.sequence:
            self.beside(log, self._sync)
        if log.wants_house:
            self.beside(log, self._keep_house)
        self._look()

    def _sync(self) -> None:
        log = self.log
        self.aside(log.flush)
        if self.is_up and log._work.failure is None:
            self.known.synced = log.durable.sequence
            if log.durable.sequence < log.end.sequence:
                self.beside(log, self._sync, RETRY_NS)

    def _keep_house(self) -> None:
        self.aside(self.log.keep_house)

    def _look(self) -> None:
        """Judge what can be judged after each turn."""
        member, root = self.member, self.core.root
        if member is None:
            return
        if root.role.is_serving and not self.is_serving:
            self.ledger.check_server(self.index, root.folds)
        if root.role.is_serving != self.is_serving:
            self.ledger.check_folds(self.index, root.folds, root.folded_to)
        self.is_serving = root.role.is_serving
        if self.is_ready != (self.state == "ready"):
            self.is_ready = not self.is_ready
            self._check_restart()
        if member.holder is not None and all(machine.permits() for machine in self._members):
            self.stage.fail("both may write")

    def _check_restart(self) -> None:
        """Check that a member that is in the set could go on by itself after a restart."""
        if self.is_ready and self.log.begin_sequence > 1 and not any(self.log.load_snapshots()):
            self.stage.fail(f"{self.name} is in the set, without a snapshot below {self.log.begin_sequence}")

    def permits(self) -> bool:
        """True: an output order could leave now."""
        member = self.member
        now: Instant = self.host.local(self.agenda.at)
        return member is not None and self.core.root.role.may_write(now) and member.permit(now) is not None


def are_well(members: Sequence[MemberMachine]) -> bool:
    return {machine.state for machine in members} == {"active", "ready"}
