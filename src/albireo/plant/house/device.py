"""One device of the simulated house: the pure device on real sockets, with a bad network in front of it.

Words come on standard input, one JSON object a line, and answers go to standard output:

    {"eid": 4, "value": 1}     that endpoint changes
    {"look": 7}                tell what was done so far: {"device", "look", "acted", "digest", "memory", "values", ...}
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from functools import partial
from hashlib import blake2b
from random import Random
from typing import Final

import msgspec

from albireo.codec.hexabus.packets import GROUP, PORT
from albireo.codec.hexabus.values import ZEROS, HexType, HexValue
from albireo.field.hexabus.sockets import Came, HexSocket, open_socket
from albireo.machine.hexabus.acting import ActingDevice
from albireo.machine.hexabus.device import BeganAnew, DeviceEffect, EventCame, HexAddress, HexDevice, SendDatagram
from albireo.machine.hexabus.endpoints import LOCAL_TIME, Endpoint, Endpoints
from albireo.model.instant import SECOND, Instant

LATE_S: Final = 0.03
"""Longest time for which a datagram is held back."""


class EndpointTold(msgspec.Struct, frozen=True):
    """An endpoint of a device, as a table says it."""

    name: str
    eid: int
    datatype: HexType
    is_writable: bool = False


class DeviceTold(msgspec.Struct, frozen=True):
    """A device, as a table says it."""

    name: str
    host: str
    endpoints: tuple[EndpointTold, ...]


class BadNetwork(msgspec.Struct, frozen=True):
    """Shares of datagrams, each way."""

    loss: float = 0.0
    doubles: float = 0.0
    late: float = 0.0
    """They are held back, so that others overtake them."""


class HouseTold(msgspec.Struct, frozen=True):
    """A house, as the process is told that forks its devices."""

    devices: tuple[DeviceTold, ...]
    master: str
    interface: str
    network: BadNetwork
    seed: int


class DeviceWord(msgspec.Struct):
    """A line of standard input."""

    eid: int = 0
    value: bool | int | float | str = 0
    look: int | None = None


class DeviceLook(msgspec.Struct, frozen=True, kw_only=True):
    """Deeds of a device so far."""

    device: str
    look: int
    acted: int
    """Names of events on which it acted, in all its lives of the order."""
    digest: str
    """Digest of these events, whatever their order."""
    began: int
    """Times that it began anew."""
    memory: str
    """Memory of its state machines, hex; empty: it has none."""
    values: dict[str, bool | int | float | str]
    wrote: int
    """Writes that its program or the node did."""
    confirmed: int
    """Events that were acknowledged."""
    last_ns: int
    """Instant (boot clock) of its last action."""
    counts: dict[str, int]


class SimulatedDevice:
    """A device in a loop."""

    def __init__(self, told: DeviceTold, master: str, interface: str, network: BadNetwork, seed: int) -> None:
        self._told = told
        self._network = network
        self._chance = Random(seed)
        self._loop = asyncio.get_running_loop()
        endpoints = [
            Endpoint(one.eid, one.name, one.datatype, _zero(one.datatype), is_writable=one.is_writable)
            for one in told.endpoints
        ]
        endpoints.append(Endpoint(LOCAL_TIME, "local time", HexType.SINT64, 0, is_event=False))
        self._own = Endpoints(told.name, tuple(endpoints))
        device = HexDevice(self._own, HexAddress(master), lambda most: self._chance.randint(1, most))
        self._device = ActingDevice(device)
        self._acted = self._began = self._wrote = self._last_ns = 0
        self._digest = 0
        self._sockets = [
            HexSocket(open_socket(interface, told.host, PORT), self._came),
            HexSocket(open_socket(interface, GROUP, PORT), self._came, is_group=True),
        ]
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._do(self._device.start(_now()))

    def close(self) -> None:
        """Its power goes away."""
        for one in self._sockets:
            one.close()
        if self._timer is not None:
            self._timer.cancel()

    def word(self, line: bytes) -> None:
        word = msgspec.json.decode(line, type=DeviceWord)
        if word.look is not None:
            os.write(1, msgspec.json.encode(self._look(word.look)) + b"\n")
            return
        one = self._own.find(word.eid)
        assert one is not None, word
        value = float(word.value) if one.datatype is HexType.FLOAT else word.value
        self._do(self._device.changed(word.eid, HexValue(one.datatype, value), _now()))

    def _look(self, look: int) -> DeviceLook:
        values = {one.name: self._own.find(one.eid) for one in self._told.endpoints}
        return DeviceLook(
            device=self._told.name,
            look=look,
            acted=self._acted,
            digest=f"{self._digest:016x}",
            began=self._began,
            memory=self._device.memory.hex(),
            values={name: one.value for name, one in values.items() if one is not None},  # type: ignore[misc]
            wrote=self._wrote,
            confirmed=self._device.device.confirmed,
            last_ns=self._last_ns,
            counts=self._device.device.counts,
        )

    def _came(self, came: Came, is_group: bool) -> None:
        for source, data in came:
            if source.host != self._told.host:
                self._spoil(partial(self._hear, source, data, is_group))

    def _hear(self, source: HexAddress, data: bytes, is_group: bool) -> None:
        self._do(self._device.heard(source, data, _now(), is_group=is_group))

    def _spoil(self, carry: Callable[[], object]) -> None:
        """Carry a datagram, as this network does."""
        network, chance = self._network, self._chance.random
        for _ in range(2 if network.doubles and chance() < network.doubles else 1):
            if network.loss and chance() < network.loss:
                continue
            if network.late and chance() < network.late:
                self._loop.call_later(chance() * LATE_S, carry)
            else:
                carry()

    def _do(self, effects: Iterable[DeviceEffect]) -> None:
        for one in effects:
            match one:
                case SendDatagram(to=to, data=data):
                    self._spoil(partial(self._sockets[0].send, to, data))
                case EventCame(origin=origin, eid=eid, value=value):
                    self._acted += 1
                    self._last_ns = _now()
                    told = b"%b %d %r" % (origin, eid, value.value)
                    self._digest ^= int.from_bytes(blake2b(told, digest_size=8).digest())
                case BeganAnew():
                    self._began += 1
                case _:
                    self._wrote += 1
        self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self._device.deadline()
        if due is not None:
            self._timer = self._loop.call_later(max(0.0, (due - _now()) / SECOND), self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._do(self._device.time_passed(_now()))


def _now() -> Instant:
    return Instant(time.clock_gettime_ns(time.CLOCK_BOOTTIME))


def _zero(datatype: HexType) -> bool | int | float | str:
    found = ZEROS.get(datatype, 0)
    assert not isinstance(found, bytes)
    return found


async def run_device(told: DeviceTold, master: str, interface: str, network: BadNetwork, seed: int, words: int) -> None:
    """Live until `words`, a descriptor, is at its end."""
    device, loop, ended = (
        SimulatedDevice(told, master, interface, network, seed),
        asyncio.get_running_loop(),
        asyncio.Event(),
    )
    waiting = bytearray()

    def came() -> None:
        data = os.read(words, 65_536)
        waiting.extend(data)
        *lines, rest = waiting.split(b"\n")
        waiting[:] = rest
        for line in lines:
            device.word(bytes(line))
        if not data:
            ended.set()

    loop.add_reader(words, came)
    device.start()
    await ended.wait()
