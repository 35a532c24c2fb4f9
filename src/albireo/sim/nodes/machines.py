"""Machines of the simulated cluster: a disk, a clock, and the real processes of a node or a witness on them."""

import errno
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from albireo.codec.frame import Frame
from albireo.log import LogStopped
from albireo.log.store.keepsake import KeepsakeFailed
from albireo.machine.pair.member import Member
from albireo.model.instant import MS, Instant
from albireo.model.position import BEGINNING, Position
from albireo.node.core.actor import Core, CoreArguments
from albireo.node.member.member import MemberTenure
from albireo.node.vote.witness import Witness, WitnessArguments
from albireo.runtime import StoreRefused
from albireo.sim.engine.disk import CHANGES, PowerCut, SimDisk
from albireo.sim.nodes.actor import StagedActor
from albireo.sim.nodes.clients import Boot, HistoryReader, Operator
from albireo.sim.nodes.ledger import Disk
from albireo.sim.nodes.log import StagedLog
from albireo.sim.nodes.network import Host
from albireo.sim.nodes.private import PrivateWatch

if TYPE_CHECKING:
    from albireo.sim.nodes.world import World

RETRY_NS: Final = 200 * MS
"""Until the sync thread, which found no room, looks again."""
DESIGNED: Final = ("log: ", "the log was repaired before")
"""Ends of a process that are its design: its supervisor starts it again."""


class Killed(Exception):
    """The process dies in the middle of what it does to its disk."""


class Machine(ABC):
    """Disk, clock and one process."""

    def __init__(self, world: "World", host: Host) -> None:
        self.world = world
        self.host = host
        self.data = Path(f"/{host.name}")
        self.disk: SimDisk
        self.image: SimDisk | None = None
        """A backup, taken now and then."""
        self.is_lost = False
        """A voter without its store, not admitted again yet."""
        self.actor: StagedActor | None = None
        self.hung_until = 0
        self.up_since = 0
        self.fails_sync = self.fails_read = False
        """The next one."""
        self.dies_in = 0
        """So many changes of its disk from now."""
        self._is_in_thread = False
        self._start_at = 0
        self.refit(SimDisk(world.chance.getrandbits(32)))

    def refit(self, disk: SimDisk) -> None:
        """Another disk in this machine, while its process is down."""
        self.disk = disk
        disk.refuse = self._refuse
        disk.short_write_chance = self.world.swarm.short_writes
        disk.make_directory(self.data)

    @property
    def is_up(self) -> bool:
        return self.actor is not None and self.actor.is_alive

    @property
    def is_calm(self) -> bool:
        at = self.world.agenda.at
        is_paused = self.actor is not None and self.actor.paused_until > at
        return self.is_up and not is_paused and self.hung_until <= at and not self.dies_in and not self.fails_sync

    # --- Life ----------------------------------------------------------------------------------------------------

    def start_soon(self, wait_ms: float) -> None:
        """Switch it on if it is off, and start its process."""
        agenda = self.world.agenda
        self._start_at = agenda.at + int(wait_ms * MS)
        agenda.call_at(self._start_at, partial(self._start, self._start_at))

    def _start(self, asked_for: int) -> None:
        if asked_for != self._start_at or self.is_up:
            return
        if not self.host.is_on:
            self.host.is_on = True
            self.host.boots += 1
            self.switched_on()
            self.start_soon(self.world.chance.uniform(0, 50))
        elif self.hung_until > self.world.agenda.at:
            self.start_soon((self.hung_until - self.world.agenda.at) / MS)
        else:
            self.up_since = self.world.agenda.at
            self.actor = self.made()
            self.actor.start()

    def switched_on(self) -> None:  # noqa: B027  # On most machines nothing.
        """What else runs on it starts."""

    @abstractmethod
    def made(self) -> StagedActor:
        """A new process for it, not started yet."""

    def down(self, why: str, *, is_power: bool) -> None:
        """Its process dies now; with the power all that was not synced."""
        world = self.world
        world.note(self.host.name, why)
        self.dies_in, self.hung_until = 0, 0
        self.fails_sync = self.fails_read = False
        self._start_at = 0
        if is_power:
            self.host.is_on = False
            survival = world.chance.choice([0.0, 0.5, 1.0])
            self.refit(self.disk.power_cut(world.chance.getrandbits(32), survival_chance=survival))
        else:
            self.disk.process_death()
        if self.actor is not None:
            self.actor.die(is_power=is_power)

    def dies(self, why: str, *, is_power: bool, for_ms: float = 0.0) -> None:
        """Down now, and up again after `for_ms`; 0: drawn."""
        self.down(why, is_power=is_power)
        self.start_soon(for_ms or 20 + self.world.chance.random() ** 2 * 2500)

    def stop(self) -> None:
        if self.actor is not None:
            self.world.note(self.host.name, "asked to stop")
            self.actor.stop()

    def _ended(self, actor: StagedActor, reason: str) -> None:
        """The process has ended itself; somebody starts it again."""
        if actor is not self.actor or not actor.is_alive:
            return
        if reason and not reason.startswith(DESIGNED):
            self.world.fail(f"{self.host.name} ends itself: {reason}")
        self.dies(f"ends: {reason or 'clean stop'}", is_power=False)

    def _crashed(self, actor: StagedActor, error: Exception) -> None:
        if actor is not self.actor or not actor.is_alive:
            return
        match error:
            case PowerCut():
                self.dies("power cut in a write", is_power=True)
            case Killed():
                self.dies("killed in a write", is_power=False)
            case LogStopped() | KeepsakeFailed() | StoreRefused() if self.world.has_sick_disk(self):
                self.dies(f"ends: {error}", is_power=False)
            case _:
                raise error

    # --- Disk ----------------------------------------------------------------------------------------------------

    def _refuse(self, operation: str, path: Path) -> int:
        """Called before each operation."""
        if operation in CHANGES and self.dies_in:
            self.dies_in -= 1
            if not self.dies_in:
                raise Killed
        if operation == "pread" and self.fails_read:
            self.fails_read = False
            return errno.EIO
        if operation != "sync":
            return 0
        if self.fails_sync:
            self.fails_sync = False
            return errno.EIO
        if not self._is_in_thread and self.actor is not None:
            agenda, actor = self.world.agenda, self.actor
            took = self.world.sync_ns() // 3
            actor.leaves_at = max(actor.leaves_at + took, agenda.at + took, self.hung_until)
        return 0

    def aside(self, work: Callable[[], object]) -> None:
        """Work of a thread beside the loop."""
        actor = self.actor
        assert actor is not None
        self._is_in_thread = True
        try:
            work()
        except LogStopped:
            pass  # The loop was told.
        except (PowerCut, Killed) as error:
            self._crashed(actor, error)
        finally:
            self._is_in_thread = False


class WitnessMachine(Machine):
    """A voter."""

    def __init__(self, world: "World", host: Host, arguments: WitnessArguments) -> None:
        super().__init__(world, host)
        self._arguments = arguments
        self._witness: Witness
        self._told: object = None

    def made(self) -> StagedActor:
        self.world.note(self.host.name, "starts")
        self._witness = Witness(self._arguments, self.disk)
        actor = StagedActor(
            self.world,
            self.host,
            self._witness,
            self.data,
            lambda reason: self._ended(actor, reason),
            lambda error: self._crashed(actor, error),
            self._turned,
        )
        return actor

    def promise(self, epoch: int) -> None:
        """As if a candidacy that came to nothing had asked for it."""
        for seat in self._witness._seats.values():
            assert seat.voter.store is not None
            seat.disk.save(msgspec.structs.replace(seat.voter.store, promised=epoch, promised_run=1))
            seat.voter.store = seat.disk.store

    def _turned(self) -> None:
        for seat in self._witness._seats.values():
            store = seat.disk.store
            if store is not None and store is not self._told:
                self._told = store
                self.world.ledger.accepts(self._arguments.voter, store.record)


class MemberMachine(Machine):
    """A member: CORE with its log, and what stands for its history. Watches the log (`log.Watcher`)."""

    def __init__(self, world: "World", host: Host, index: int, arguments: CoreArguments) -> None:
        super().__init__(world, host)
        self.index = index
        self.core: Core
        self.log: StagedLog
        self.history: HistoryReader
        self.is_serving = self.is_ready = False
        self._arguments = arguments
        self._uncommitted: deque[Frame] = deque()
        self._counted = 0
        self._is_sync_due = False
        self._is_house_due = False
        self._is_exchanged = False
        self._log_type: type[StagedLog] = type("WatchedLog", (StagedLog,), {"watcher": self})
        self.private = PrivateWatch(self, world.ledger.payloads)
        private_type = type("WatchedPrivate", (StagedLog,), {"watcher": self.private})
        logs = {"log_type": self._log_type, "private_log_type": private_type}
        self._core_type: type[Core] = type("StagedCore", (Core,), logs)
        self.switched_on()

    @property
    def member(self) -> Member | None:
        """The machine of the running process; nothing while it starts."""
        if self.actor is None or not self.actor.is_alive or not self.actor.is_ready:
            return None
        tenure = self.core._tenure
        assert isinstance(tenure, MemberTenure)
        return tenure._member

    @property
    def is_drained(self) -> bool:
        return self.member is not None and self.member.own.is_held

    @property
    def state(self) -> str:
        return self.member.state.value if self.member is not None else "down"

    @property
    def known(self) -> Disk:
        return self.world.ledger.disks[self.index]

    def made(self) -> StagedActor:
        self._is_sync_due = self._is_house_due = self.is_serving = self.is_ready = False
        self.private.begin()
        self.core = self._core_type(self._arguments, self.disk, self.world.chance.randbytes)
        actor = StagedActor(
            self.world,
            self.host,
            self.core,
            self.data,
            lambda reason: self._ended(actor, reason),
            lambda error: self._crashed(actor, error),
            self._turned,
        )
        return actor

    def switched_on(self) -> None:
        self.start_history()
        self.operator = Operator(self.world, self.host, f"{self.data}/core")
        self.boot = Boot(self.world, self.host, f"{self.data}/boot", self.stop)

    def start_history(self) -> None:
        """It goes on from what it had made durable."""
        world, before = self.world, getattr(self, "history", None)
        durable, log_id = (BEGINNING, b"") if before is None else (before.durable, before.machine.log_id)
        core = f"{self.data}/core"
        self.history = HistoryReader(world, self.host, core, world.ledger, world.fail, durable, log_id)
        self.history.reading.is_here = self.private.is_here

    def exchange(self, disk: SimDisk) -> None:
        """The history's disk is exchanged with it."""
        self.refit(disk)
        self.history.forget()
        self.private.exchanged()
        self._is_exchanged = True

    def _ended(self, actor: StagedActor, reason: str) -> None:
        if not reason and actor is self.actor and actor.is_alive:
            self.world.faults.stopped(self)
        super()._ended(actor, reason)

    def down(self, why: str, *, is_power: bool) -> None:
        super().down(why, is_power=is_power)
        if is_power:
            for one in (self.history, self.operator, self.boot):
                one.die()

    # --- Watching the log --------------------------------------------------------------------------------------------

    def opened(self, log: StagedLog) -> None:
        """Recovery has found this. Of what is committed it may lack the end, or what is damaged, and nothing else."""
        self.log = log
        known, crcs = self.known, dict[int, int]()
        self._counted = log.committed.sequence
        self._uncommitted.clear()
        for frame in log.frames():
            crcs[frame.header.last_sequence] = frame.header.header_crc
            if frame.header.last_sequence > self._counted:
                self._uncommitted.append(frame)
            elif not self.world.ledger.knows(frame):
                self.world.fail(f"{self.host.name} opens with {frame.header.last} as committed, which nobody committed")
        if log.end.sequence < known.synced and not self._is_exchanged:
            self.world.fail(f"{self.host.name} opens with {log.end}, {known.synced} was durable")
        known.crcs, known.synced, self._is_exchanged = crcs, log.durable.sequence, False
        self.world.note(self.host.name, f"starts, log {log.begin_sequence}..{log.end}, committed {log.committed}")

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
            self.world.ledger.commits(self.index, member.own.run, member.holder.epoch, frames)
        else:
            self.world.ledger.follows(self.index, frames)

    def cutting(self, sequence: int) -> None:
        """After a crash it is cut or not."""
        self.known.synced = min(self.known.synced, sequence)

    def cut(self, sequence: int) -> None:
        """0: begun anew."""
        known = self.known
        self.world.note(self.host.name, f"log cut to {sequence}" if sequence else f"log begun at {self.log.end}")
        while self._uncommitted and self._uncommitted[-1].header.last_sequence > sequence:
            self._uncommitted.pop()
        known.crcs = {last: crc for last, crc in known.crcs.items() if last <= sequence}
        known.synced = min(known.synced, sequence) if sequence else self.log.end.sequence
        if not sequence:
            self._counted = self.log.end.sequence
            other = self.world.members[1 - self.index].log
            if self.log.begin_sequence > other.begin_sequence:
                self.world.fail(f"{self.host.name} begins at {self.log.begin_sequence}, {other.begin_sequence} is kept")

    # --- Threads of the log ------------------------------------------------------------------------------------------

    def _turned(self) -> None:
        """Behind each turn: what its threads would do now begins."""
        if self.actor is None or not self.actor.is_ready:
            return
        self.private.turned()
        agenda, log = self.world.agenda, self.log
        if not self._is_sync_due and log.durable.sequence < log.end.sequence:
            self._is_sync_due = True
            agenda.call_at(agenda.at + self.world.sync_ns(), partial(self._sync, self.actor))
        if not self._is_house_due and log.wants_house:
            self._is_house_due = True
            agenda.call_at(agenda.at + self.world.sync_ns(), partial(self._keep_house, self.actor))
        self._look()

    def _waits(self, actor: StagedActor, work: Callable[[StagedActor], None]) -> bool:
        """The thread has to wait, or is no more."""
        agenda = self.world.agenda
        until = max(actor.paused_until, self.hung_until)
        if actor is not self.actor or not actor.is_alive or self.log._work.failure is not None:
            return True
        if until > agenda.at:
            agenda.call_at(until, partial(work, actor))
            return True
        return False

    def _sync(self, actor: StagedActor) -> None:
        if self._waits(actor, self._sync):
            return
        self._is_sync_due = False
        log = self.log
        self.aside(log.flush)
        if actor.is_alive and log._work.failure is None:
            self.known.synced = log.durable.sequence
            if log.durable.sequence < log.end.sequence:
                self._is_sync_due = True
                self.world.agenda.call_at(self.world.agenda.at + RETRY_NS, partial(self._sync, actor))

    def _keep_house(self, actor: StagedActor) -> None:
        if not self._waits(actor, self._keep_house):
            self._is_house_due = False
            self.aside(self.log.keep_house)

    # --- Looking -----------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """What can be judged behind each turn."""
        member, root = self.member, self.core.root
        if member is None:
            return
        if root.role.is_serving and not self.is_serving:
            self.world.ledger.check_server(self.index, root.folds)
        if root.role.is_serving != self.is_serving:
            self.world.ledger.check_folds(self.index, root.folds, root.committed)
        self.is_serving = root.role.is_serving
        if self.is_ready != (self.state == "ready"):
            self.is_ready = not self.is_ready
            self._check_restart()
        if member.holder is not None:
            self.world.check_permits()

    def _check_restart(self) -> None:
        """Who is in the set could go on by itself after a restart."""
        if self.is_ready and self.log.begin_sequence > 1 and not any(self.log.load_snapshots()):
            self.world.fail(f"{self.host.name} is in the set, without a snapshot below {self.log.begin_sequence}")

    def permits(self) -> bool:
        """An output order could leave now."""
        member = self.member
        now: Instant = self.host.local(self.world.agenda.at)
        return member is not None and self.core.root.role.may_write(now) and member.permit(now) is not None
