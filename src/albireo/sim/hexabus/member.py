"""Member of the world: follows the journal as the adapter does, and runs the master while it leads."""

from collections.abc import Iterable
from functools import partial
from typing import Final

from albireo.codec.hexabus.journal import HouseSnapshot, JournalRecord, Term
from albireo.codec.hexabus.packets import HexDatagram, InfoPacket, encode
from albireo.codec.hexabus.values import HexType, HexValue
from albireo.machine.hexabus.device import TO_GROUP, SendDatagram
from albireo.machine.hexabus.endpoints import DEVICE
from albireo.machine.hexabus.fold import HouseFold
from albireo.machine.hexabus.master import HexMaster, MasterEffect, ProgramAsked, PutRecord
from albireo.model.instant import Instant
from albireo.sim.hexabus.house import ADDRESSES, HOSTS, MASTER, local_s
from albireo.sim.hexabus.stage import HexStage

SNAPSHOT_EVERY: Final = 12
TIME_S: Final = 3.0
"""Interval at which devices are told the time; a minute, with real ones."""
FOREVER: Final = Instant(1 << 62)


class HexMember:
    """One of two."""

    def __init__(self, world: HexStage, index: int) -> None:
        self.world = world
        self.index = index
        self.let_go = 1
        """Entries of the journal before this one are not read again."""
        self.is_up = True
        self.paused_until = self.lease_until = Instant(0)
        """It may send until its lease ends, whatever it believes."""
        self.begin()

    def begin(self) -> None:
        """The adapter starts, with nothing but the journal."""
        self.fold = HouseFold(local_s)
        self.master: HexMaster | None = None
        self.entry = self.let_go - 1
        self._since_snapshot = 0
        self._is_whole = False
        self._asked: set[str] = set()

    @property
    def is_awake(self) -> bool:
        return self.is_up and self.world.now >= self.paused_until

    def lead(self, epoch: int) -> None:
        self.lease_until = FOREVER
        self.master = HexMaster(self.fold, Term(epoch, self.world.now), set(HOSTS.values()))
        self._asked = set()
        self.do(self.master.begin())
        self._tell_time(self.master)

    def read(self) -> None:
        """Read on in the journal, as the adapter does."""
        if not self.is_awake:
            return
        for number, (record, at) in enumerate(self.world.journal[self.entry :], self.entry + 1):
            self.entry, self._since_snapshot = number, self._since_snapshot + 1
            self._is_whole = self._is_whole or number == 1 or isinstance(record.entry, HouseSnapshot)
            if not self._is_whole:
                continue
            if self.master is None:
                self.fold.fold(record, at)
            else:
                self.do(self.master.read(record, self.world.now, at))
            if self.fold.is_at(record, at):
                self._since_snapshot, self.let_go = 0, number
        if self.master is not None and self.master.is_deposed and self.lease_until == FOREVER:
            self._begin_anew(self.master.term.epoch)
        self._snapshot()

    def _begin_anew(self, epoch: int) -> None:
        """Another one said that it leads, and the node does not: the adapter is lost, and connects again."""
        self.begin()
        self.lead(epoch)
        self.read()

    def _snapshot(self) -> None:
        master = self.master
        if self._since_snapshot >= SNAPSHOT_EVERY and master is not None and master.is_leading and not master.has_put:
            self._since_snapshot = 0
            kept = self.fold.snapshot(self.world.now)
            self.do([PutRecord(JournalRecord(master.term, kept))])

    def _tell_time(self, master: HexMaster) -> None:
        """Tell all devices the time now and then, as the adapter does while it leads."""
        if self.master is master:
            told = InfoPacket(DEVICE, HexValue(HexType.UINT64, local_s(self.world.now)))
            if self.is_awake:
                self.do([SendDatagram(TO_GROUP, encode(HexDatagram(told, master.number)))])
            self.world.later(TIME_S, partial(self._tell_time, master))

    def heard(self, source: str, data: bytes) -> None:
        if self.master is not None:
            self.do(self.master.heard(ADDRESSES[source], data, self.world.now))

    def time_passed(self) -> None:
        if self.master is not None and self.is_awake:
            self.do(self.master.time_passed(self.world.now))

    def do(self, effects: Iterable[MasterEffect]) -> None:
        world = self.world
        for one in effects:
            match one:
                case PutRecord(record=record):
                    world.put(self.index, record)
                case SendDatagram(to=to, data=data) if world.now < self.lease_until:
                    world.send(MASTER.host, to, data)
                case ProgramAsked(host=host, program=program) if host not in self._asked:
                    self._asked.add(host)
                    asked = partial(self._see_program, self.master, host, program)
                    world.later(world.chance.uniform(0.005, 0.2), asked)
        due = None if self.master is None else self.master.deadline()
        if due is not None:
            world.wake(("member", self.index), due, self.time_passed)

    def _see_program(self, master: HexMaster | None, host: str, program: bytes) -> None:
        """A device is asked for its program; it is given this one if it has another."""
        if self.master is not master or master is None:
            return
        self._asked.discard(host)
        if self.is_awake and self.world.has_program(host, program, may_give=self.world.now < self.lease_until):
            self.do(master.runs(host, program))
