"""Lead: the master of a network while this member leads, on real sockets.

    sockets --datagrams--> HexMaster --PutRecord--> the journal --read--> HexMaster --datagrams--> sockets
                              |--ProgramAsked--> a task: which program has it? if another one: upload
                              |--ValueTold--> the adapter

Each datagram is asked for right before it leaves (`SendGuard`). The address of the master is this interface's while the
lead lasts. What comes while the adapter starts anew waits in the kernel (`runtime/actor/keep.py`).
"""

import asyncio
import socket
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from ipaddress import IPv6Interface
from random import Random
from typing import Final

from albireo.codec.hexabus.journal import JournalRecord, Term, encode_record
from albireo.codec.hexabus.packets import (
    GROUP,
    PORT,
    AckPacket,
    ErrorPacket,
    HexDatagram,
    InfoPacket,
    QueryPacket,
    ReportPacket,
    encode,
)
from albireo.codec.hexabus.values import HexType, HexValue
from albireo.field.contract import GOES_ON, SendGuard
from albireo.field.hexabus.address import MasterAddress
from albireo.field.hexabus.aside import HexQuestions
from albireo.field.hexabus.config import HexabusConfig
from albireo.field.hexabus.sockets import Came, HexSocket, open_socket
from albireo.field.kinds import Surroundings
from albireo.machine.hexabus.device import START_UP, TO_GROUP, HexAddress, SendDatagram
from albireo.machine.hexabus.endpoints import DEVICE, PROGRAM_ID
from albireo.machine.hexabus.fold import HouseFold
from albireo.machine.hexabus.master import HexMaster, MasterEffect, ProgramAsked, PutRecord, ValueTold
from albireo.machine.hexabus.upload import program_id, stored
from albireo.model.instant import SECOND, Instant

KEPT: Final = "hexabus"
ADDRESS_S: Final = 1.0
"""Interval at which the address is prolonged."""
PERMIT_S: Final = 0.02
"""Interval at which a master looks whether it may send by now."""
RESET_S: Final = 1.0
"""Shortest time between two resets of a device, whatever it says about them."""
TIME_S: Final = 60.0
"""Interval at which devices are told the time, as the original's time service does, and with it what all have."""


class HexLead:
    """The master and its sockets, from `begin` to `end`."""

    def __init__(
        self,
        config: HexabusConfig,
        surroundings: Surroundings,
        originals: Mapping[str, bool],
        told: Callable[[ValueTold], None],
        draw: Random,
    ) -> None:
        """
        Args:
            originals: whether it runs the original's firmware; by host of each device.
            told: takes values of endpoints as they come.
        """
        self._interface = config.interface
        self._resets_all = config.original_resets == "all"
        self._own = IPv6Interface(config.master)
        self._address = None if config.has_address else MasterAddress(config.interface, self._own)
        self._surroundings = surroundings
        self._originals = originals
        self._told = told
        self._draw = draw
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = Instant(0)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._sockets: list[HexSocket] = []
        self._asking: HexQuestions | None = None
        self._listens = False
        self.not_sent = 0
        """Datagrams that the guard held back."""
        self.uploads_failed = 0
        """Devices that were silent, or refused, as they were given a program."""
        self.trouble = ""
        """Why it leads no longer; empty: it does."""

    def begin(self, fold: HouseFold, epoch: int, put: Callable[[bytes], None], may_send: SendGuard) -> None:
        """Lead from here on. Raises OSError: the interface or the address can't be had."""
        self._put, self._may_send = put, may_send
        if self._address is not None:
            self._address.take()
        host, interface = str(self._own.ip), self._interface
        keep = self._surroundings.keep
        kept = {} if keep is None else keep.take()
        self._index = socket.if_nametoindex(interface)
        for name, own, is_group in ((f"{KEPT}.own", host, False), (f"{KEPT}.group", GROUP, True)):
            made = kept.pop(name, None)
            if made is None:
                made = open_socket(interface, own, PORT)
                if keep is not None:
                    keep.put(name, made)
            # Nothing is heard before the lead is on record: it would be dropped.
            self._sockets.append(HexSocket(made, self._heard, is_group=is_group, listens=False))
        for other in kept.values():
            other.close()
        self._asking = HexQuestions(interface, self._draw, host, may_send)
        originals = {host for host, is_original in self._originals.items() if is_original}
        term, known = Term(epoch, self._surroundings.now()), self._originals.keys()
        self.master = HexMaster(fold, term, known, originals=originals, resets_all=self._resets_all)
        self._begin("", self._hold())
        self._do(self.master.begin())

    def end(self) -> None:
        """Lead no longer: nothing leaves any more."""
        for task in self._tasks.values():
            task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        for one in self._sockets:
            one.close()
        keep = self._surroundings.keep
        if keep is not None:
            for name in (f"{KEPT}.own", f"{KEPT}.group"):
                keep.drop(name)
        if self._asking is not None:
            self._asking.close()
        self._sockets = []
        if self._address is not None:
            self._address.give_up()

    @property
    def questions(self) -> HexQuestions:
        assert self._asking is not None, "it has begun"
        return self._asking

    def read(self, record: JournalRecord, put_at: Instant) -> None:
        self._do(self.master.read(record, self._surroundings.now(), put_at))
        if self.master.is_leading and not self._listens:
            self._listens = True
            for one in self._sockets:
                one.listen()

    def join(self, host: str) -> None:
        self._do(self.master.join(host))

    def leave(self, host: str) -> None:
        self._do(self.master.leave(host))

    # Inside.

    def _heard(self, came: Came, _: bool) -> None:
        now, own = self._surroundings.now(), str(self._own.ip)
        effects: list[MasterEffect] = []
        for source, data in came:
            if source.host != own:  # It hears what it says to the group.
                effects += self.master.heard(source, data, now)
        self._do(effects)

    def _do(self, effects: Iterable[MasterEffect]) -> None:
        for one in effects:
            match one:
                case PutRecord(record=record):
                    self._put(encode_record(record))
                case SendDatagram(to=to, data=data):
                    self._send(to, data)
                case ValueTold():
                    self._told(one)
                case ProgramAsked(host=host):
                    if host not in self._tasks:
                        self._begin(host, self._see_program(host, one))
        self._arm()

    def _begin(self, name: str, work: Coroutine[None, None, None]) -> None:
        task = self._tasks[name] = self._loop.create_task(work)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.trouble = f"{type(error).__name__}: {error}"

    def _send(self, to: HexAddress, data: bytes) -> None:
        if self._may_send() == GOES_ON:
            self._sockets[0].send(to, data)
        else:
            self.not_sent += 1

    def _arm(self) -> None:
        due = self.master.deadline()
        if due is None or (self._timer is not None and due >= self._rings_at):
            return  # A timer that rings too early arms the next one.
        if self._timer is not None:
            self._timer.cancel()
        self._rings_at = due
        self._timer = self._loop.call_later(max(0.0, (due - self._surroundings.now()) / SECOND), self._ring)

    def _ring(self) -> None:
        if self._may_send() == GOES_ON:
            self._timer = None
            self._do(self.master.time_passed(self._surroundings.now()))
        else:  # Copies that do not leave are none, and nobody is silent who was not asked.
            self._timer = self._loop.call_later(PERMIT_S, self._ring)

    async def _hold(self) -> None:
        """Prolong the address, and tell the time now and then."""
        told_at = None
        while True:
            if socket.if_nametoindex(self._interface) != self._index:
                raise OSError(f"{self._interface} is another interface by now")
            if self._address is not None and self._may_send() == GOES_ON:
                self._address.take()
            if told_at is None or self._loop.time() - told_at >= TIME_S:
                told_at = self._loop.time()
                wall_s = self._surroundings.wall_ns() // SECOND
                packet = InfoPacket(DEVICE, HexValue(HexType.UINT64, wall_s + time.localtime(wall_s).tm_gmtoff))
                self._send(TO_GROUP, encode(HexDatagram(packet, self.master.number)))
            await asyncio.sleep(ADDRESS_S)

    async def _see_program(self, host: str, asked: ProgramAsked) -> None:
        """See that a device has this program; it begins anew after an upload, and is asked again then."""
        program, questions = asked.program, self.questions
        try:
            answer = await questions.ask_one(host, QueryPacket(PROGRAM_ID)) if program else None
            is_it = isinstance(answer, ReportPacket) and answer.value.value == program_id(stored(program))
            if not program or is_it or isinstance(answer, ErrorPacket):  # It has no room for programs.
                if not asked.resets or isinstance(await questions.ask_one(host, START_UP), AckPacket):
                    self._do(self.master.runs(host, program))
                    await asyncio.sleep(RESET_S if asked.resets else 0)
            elif answer is not None and self._may_send() == GOES_ON:
                self.uploads_failed += bool(await questions.upload(host, program))
        finally:
            self._tasks.pop(host, None)
