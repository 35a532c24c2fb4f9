"""Machines of the simulated cluster: a disk, a clock, and one real process on them."""

import errno
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from albireo.codec.message import AnyMessage
from albireo.log import LogStopped
from albireo.log.store.mirrored_state import MirroredStateFailed
from albireo.model.instant import MS
from albireo.node.vote.node_voter import NodeVoter, NodeVoterArguments
from albireo.node.vote.witness import Witness, WitnessArguments
from albireo.runtime import Behaviour, StoreRefused
from albireo.sim.engine.disk import CHANGES, PowerCut, SimDisk
from albireo.sim.nodes.actor import StagedActor
from albireo.sim.nodes.ledger import NodeLedger
from albireo.sim.nodes.log import StagedLog
from albireo.sim.nodes.network import Host
from albireo.sim.nodes.stage import NodeStage

DESIGNED: Final = ("log: ", "the log was repaired before")
"""Beginnings of reasons for which a process ends by design: its supervisor starts it again."""


class Killed(Exception):
    """Raised when the process dies in the middle of what it does to its disk."""


class Machine(ABC):
    """Machine with a disk, a clock and one process."""

    def __init__(self, stage: NodeStage, host: Host, ledger: NodeLedger) -> None:
        self.stage = stage
        self.agenda = stage.agenda
        self.ledger = ledger
        self.host = host
        self.name = host.name
        self.data = Path(f"/{host.name}")
        self.disk: SimDisk
        self.image: SimDisk | None = None
        """Backup of the disk, taken now and then."""
        self.is_lost = False
        """True: this is a voter that lost its store and is not admitted again yet."""
        self.is_sick = False
        """True: the disk was made to refuse something."""
        self.actor: StagedActor | None = None
        self.hung_until = 0
        self.up_since = 0
        self.fails_sync = self.fails_read = False
        """True: the next sync, or the next read, fails."""
        self.dies_in = 0
        """The process dies before this change of its disk, counted from now; 0: it does not."""
        self._is_in_thread = False
        self._start_at = 0
        self._due: set[Callable[[], None]] = set()
        """Work that threads of this process are about to do."""
        self.refit(SimDisk(stage.chance.getrandbits(32)))

    def refit(self, disk: SimDisk) -> None:
        """Put another disk into this machine while its process is down."""
        self.disk = disk
        disk.refuse = self._refuse
        disk.short_write_chance = self.stage.swarm.short_writes
        disk.install(self.data)

    @property
    def is_up(self) -> bool:
        return self.actor is not None and self.actor.is_alive

    @property
    def is_calm(self) -> bool:
        at = self.agenda.at
        is_paused = self.actor is not None and self.actor.paused_until > at
        return self.is_up and not is_paused and self.hung_until <= at and not self.dies_in and not self.fails_sync

    def start_soon(self, wait_ms: float) -> None:
        """Switch it on if it is off, and start its process."""
        self._start_at = self.agenda.at + int(wait_ms * MS)
        self.agenda.call_at(self._start_at, partial(self._start, self._start_at))

    def _start(self, asked_for: int) -> None:
        if asked_for != self._start_at or self.is_up:
            return
        if not self.host.is_on:
            self.host.is_on = True
            self.host.boots += 1
            self.switched_on()
            self.start_soon(self.stage.chance.uniform(0, 50))
        elif self.hung_until > self.agenda.at:
            self.start_soon((self.hung_until - self.agenda.at) / MS)
        else:
            self.up_since = self.agenda.at
            self._due.clear()
            self.actor = StagedActor(self.stage, self.host, self.behaviour(), self.data, self)
            self.actor.start()

    def switched_on(self) -> None:  # noqa: B027  # On most machines nothing.
        """Start what else runs on this machine."""

    @abstractmethod
    def behaviour(self) -> Behaviour:
        """Return the behaviour of a new process."""

    def turned(self) -> None:  # noqa: B027  # As its keeper.
        """Note that a turn of the process is over."""

    def said(self, message: AnyMessage) -> None:  # noqa: B027
        """Note that the process sends this message."""

    def down(self, why: str, *, is_power: bool) -> None:
        """Let the process die now; a power cut takes a drawn part of what was not synced as well."""
        stage = self.stage
        stage.note(self.name, why)
        self.dies_in, self.hung_until = 0, 0
        self.fails_sync = self.fails_read = False
        self._start_at = 0
        if is_power:
            self.host.is_on = False
            survival = stage.chance.choice([0.0, 0.5, 1.0])
            self.refit(self.disk.power_cut(stage.chance.getrandbits(32), survival_chance=survival))
        else:
            self.disk.process_death()
        if self.actor is not None:
            self.actor.die(is_power=is_power)

    def dies(self, why: str, *, is_power: bool, for_ms: float = 0.0) -> None:
        """Take the process down now, and start it again after `for_ms`; 0: drawn."""
        self.down(why, is_power=is_power)
        self.start_soon(for_ms or 20 + self.stage.chance.random() ** 2 * 2500)

    def stop(self) -> None:
        if self.actor is not None:
            self.stage.note(self.name, "asked to stop")
            self.actor.stop()

    def ended(self, actor: StagedActor, reason: str) -> None:
        """Start a process again that has ended itself; ending for a reason outside its design is a violation."""
        if actor is not self.actor or not actor.is_alive:
            return
        if reason and not reason.startswith(DESIGNED):
            self.stage.fail(f"{self.name} ends itself: {reason}")
        self.dies(f"ends: {reason or 'clean stop'}", is_power=False)

    def crashed(self, actor: StagedActor, error: Exception) -> None:
        if actor is not self.actor or not actor.is_alive:
            return
        match error:
            case PowerCut():
                self.dies("power cut in a write", is_power=True)
            case Killed():
                self.dies("killed in a write", is_power=False)
            case LogStopped() | MirroredStateFailed() | StoreRefused() if self.is_sick:
                self.dies(f"ends: {error}", is_power=False)
            case _:
                raise error

    def _refuse(self, operation: str, path: Path) -> int:
        """Return the errno with which the disk refuses an operation, 0 for none; called before each operation."""
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
            actor, took = self.actor, self.stage.sync_ns() // 3
            actor.leaves_at = max(actor.leaves_at + took, self.agenda.at + took, self.hung_until)
        return 0

    def beside(self, log: StagedLog, work: Callable[[], None], wait_ns: int = 0) -> None:
        """Let a thread of the process work on its log after `wait_ns`, or a sync's time; later if it is held up."""
        if work not in self._due:
            self._due.add(work)
            at = self.agenda.at + (wait_ns or self.stage.sync_ns())
            self.agenda.call_at(at, partial(self._come_beside, self.actor, log, work))

    def _come_beside(self, actor: StagedActor | None, log: StagedLog, work: Callable[[], None]) -> None:
        if actor is None or actor is not self.actor or not actor.is_alive or log._work.failure is not None:
            return
        until = max(actor.paused_until, self.hung_until)
        if until > self.agenda.at:
            self.agenda.call_at(until, partial(self._come_beside, actor, log, work))
        else:
            self._due.discard(work)
            work()

    def aside(self, work: Callable[[], object]) -> None:
        """Do the work of a thread beside the loop."""
        actor = self.actor
        assert actor is not None
        self._is_in_thread = True
        try:
            work()
        except LogStopped:
            pass  # The loop was told.
        except (PowerCut, Killed) as error:
            self.crashed(actor, error)
        finally:
            self._is_in_thread = False


class VoterMachine(Machine):
    """Machine of a witness, or of a node below of which only the voter is played."""

    def __init__(
        self, stage: NodeStage, host: Host, ledger: NodeLedger, arguments: WitnessArguments | NodeVoterArguments
    ) -> None:
        super().__init__(stage, host, ledger)
        self._arguments = arguments
        self._voter: Witness | NodeVoter
        self._told: object = None

    def behaviour(self) -> Behaviour:
        self.stage.note(self.name, "starts")
        arguments = self._arguments
        if isinstance(arguments, WitnessArguments):
            self._voter = Witness(arguments, self.disk)
        else:
            self._voter = NodeVoter(arguments, self.disk)
        return self._voter

    @property
    def voter(self) -> str:
        """Its name in the voter list."""
        return self._arguments.voter

    def promise(self, epoch: int) -> None:
        """Promise an epoch as if a candidacy that came to nothing had asked for it."""
        for seat in self._voter.seats.by_cluster.values():
            assert seat.voter.store is not None
            seat.disk.save(msgspec.structs.replace(seat.voter.store, promised=epoch, promised_run=1))
            seat.voter.store = seat.disk.store

    def turned(self) -> None:
        for seat in self._voter.seats.by_cluster.values():
            store = seat.disk.store
            if store is not None and store is not self._told:
                self._told = store
                self.ledger.accepts(self.voter, store.record)
