"""Parts that tests share: a whole house of buttons and lamps, with a master, its journal, and a bad network."""

import random
from collections import deque
from collections.abc import Iterable
from ipaddress import IPv6Address

from albireo.codec.hexabus.house import House, HouseDevice, HouseEndpoint, encode_house
from albireo.codec.hexabus.journal import (
    BY_HAND,
    HouseTaken,
    JournalEntry,
    JournalRecord,
    Term,
    decode_record,
    encode_record,
)
from albireo.codec.hexabus.values import HexType, HexValue
from albireo.machine.hexabus import Machine, after, at, when
from albireo.machine.hexabus.acting import ActingDevice
from albireo.machine.hexabus.compiler import compiled
from albireo.machine.hexabus.device import TO_GROUP, DeviceEffect, EventCame, HexAddress, HexDevice, SendDatagram
from albireo.machine.hexabus.endpoints import BUTTON, RELAY, Endpoint, Endpoints
from albireo.machine.hexabus.fold import HouseFold
from albireo.machine.hexabus.master import HexMaster, MasterEffect, ProgramAsked, PutRecord
from albireo.model.instant import SECOND, Instant

MASTER = HexAddress("fd00::1")
KINDS = {"button_1": "button", "button_2": "button", "lamp_1": "relay", "lamp_2": "relay", "lamp_3": "relay"}
HOSTS = {name: HexAddress(f"fd00::{number:x}") for number, name in enumerate(KINDS, 16)}
NAMES = {one.host: name for name, one in HOSTS.items()}
KNOWN = {"button": HouseEndpoint(BUTTON, HexType.UINT8), "relay": HouseEndpoint(RELAY, HexType.BOOL)}
LAMPS = ("lamp_1", "lamp_2", "lamp_3")


def stairs() -> Machine:
    made = Machine("stairs", state="dark")
    made.on("dark", when("button_1", "button") == 1, at("lamp_*").write("relay", True), go="lit", bad="broken")
    made.on("lit", after(5), at("lamp_*").write("relay", False), go="dark")
    return made


class WholeHouse:
    """The house, its master with what is on record, and datagrams of which some are lost, doubled and held back."""

    def __init__(self, seed: int, loss: float, broken: str = "") -> None:
        """`broken`: a lamp that can't be lit."""
        self.broken = broken
        self.chance, self.loss, self.now = random.Random(seed), loss, Instant(0)
        devices = {
            name: HouseDevice(IPv6Address(HOSTS[name].host).packed, {kind: KNOWN[kind]}) for name, kind in KINDS.items()
        }
        self.house = House(devices, [stairs()], IPv6Address(MASTER.host).packed)
        self.record: list[bytes] = []
        self.wire: list[tuple[HexAddress, HexAddress, bytes]] = []
        self.acted: dict[str, list[tuple[bytes, int, object]]] = {name: [] for name in KINDS}
        self.devices = {name: self._device(name, kind) for name, kind in KINDS.items()}
        self.epoch = 0
        self.take_over()
        self.by_hand(HouseTaken(encode_house(self.house)))
        for name, device in self.devices.items():
            self.do(name, device.start(self.now))
        self.play_until(lambda: len(self.master.order.members) == len(KINDS) and self.is_quiet(), 60)

    def by_hand(self, entry: JournalEntry) -> None:
        """An operator puts something into the journal."""
        self.journal.append(JournalRecord(BY_HAND, entry))

    def _device(self, name: str, kind: str) -> ActingDevice:
        known = KNOWN[kind]
        value = False if known.datatype is HexType.BOOL else 0
        one = Endpoint(known.eid, kind, known.datatype, value, is_writable=kind == "relay")
        one.refuses = lambda value: name == self.broken and value is True
        device = HexDevice(Endpoints(name, (one,)), MASTER, lambda most: self.chance.randint(1, most))
        return ActingDevice(device, compiled(self.house, name))

    def take_over(self) -> None:
        """A member leads that knows what is on record, and nothing else."""
        fold = HouseFold()
        for data in self.record:
            fold.fold(decode_record(data, self.epoch), self.now)
        self.epoch += 1
        self.journal: deque[JournalRecord] = deque()
        self.master = self._master(fold)
        self.lead(self.master.begin())

    def _master(self, fold: HouseFold) -> HexMaster:
        return HexMaster(fold, Term(self.epoch, 0), set(NAMES))

    def lead(self, effects: Iterable[MasterEffect]) -> None:
        for one in effects:
            if isinstance(one, PutRecord):
                self.journal.append(one.record)
            elif isinstance(one, ProgramAsked):
                self.lead(self.master.runs(one.host, one.program))
            elif isinstance(one, SendDatagram):
                self.wire.append((MASTER, one.to, one.data))

    def do(self, name: str, effects: Iterable[DeviceEffect]) -> None:
        for one in effects:
            if isinstance(one, SendDatagram):
                self.wire.append((HOSTS[name], one.to, one.data))
            elif isinstance(one, EventCame):
                self.acted[name].append((one.origin, one.eid, one.value.value))

    def step(self) -> None:
        """Ten milliseconds: what is under way arrives, or not; what is put is on record."""
        self.now = Instant(self.now + SECOND // 100)
        wire, self.wire = self.wire, []
        self.chance.shuffle(wire)
        for source, to, data in wire:
            if self.chance.random() < 0.2:
                self.wire.append((source, to, data))
                continue
            for host in [MASTER.host, *NAMES] if to == TO_GROUP else [to.host]:
                for _ in range(self.chance.choice([1, 1, 1, 2])):
                    if host != source.host and self.chance.random() >= self.loss:
                        self.arrive(source, host, data, is_group=to == TO_GROUP)
        while self.journal:
            record = self.journal.popleft()
            self.record.append(encode_record(record))
            self.lead(self.master.read(record, self.now))
        self.lead(self.master.time_passed(self.now))
        for name, device in self.devices.items():
            self.do(name, device.time_passed(self.now))

    def arrive(self, source: HexAddress, host: str, data: bytes, *, is_group: bool) -> None:
        if host == MASTER.host:
            self.lead(self.master.heard(source, data, self.now))
        else:
            name = NAMES[host]
            self.do(name, self.devices[name].heard(source, data, self.now, is_group=is_group))

    def is_quiet(self) -> bool:
        waits = [one.deadline() for one in self.devices.values()]
        return not self.wire and not self.journal and self.master.is_quiet and not any(waits)

    def play_until(self, is_so: "object", seconds: float) -> None:
        ends = self.now + int(seconds * SECOND)
        while not is_so():  # type: ignore[operator]
            assert self.now < ends, "it did not come"
            self.step()

    def press(self, name: str, value: int = 1) -> None:
        self.do(name, self.devices[name].changed(BUTTON, HexValue(HexType.UINT8, value), self.now))

    def silent_state(self) -> str:
        silent = self.master.fold.silent
        return "" if silent is None else silent.state(0)

    def lights(self) -> list[object]:
        found = [self.devices[name].device.endpoints.find(RELAY) for name in LAMPS]
        return [None if one is None else one.value for one in found]
