"""Device of the world: the real one, with power that goes away, and a ledger of what it acts on."""

from collections.abc import Iterable
from ipaddress import IPv6Address

from albireo.codec.hexabus.house import GROUP_PREFIX
from albireo.codec.hexabus.packets import RELIABLE, WANT_ACK, HexDatagram, InfoPacket, decode, encode
from albireo.codec.hexabus.values import HexScalar, HexType, HexValue
from albireo.machine.hexabus.acting import ActingDevice
from albireo.machine.hexabus.device import BeganAnew, DeviceEffect, EventCame, HexAddress, HexDevice, SendDatagram
from albireo.machine.hexabus.endpoints import Endpoints
from albireo.machine.hexabus.names import MORE
from albireo.machine.hexabus.upload import pieces_of
from albireo.sim.engine.stage import Violation
from albireo.sim.hexabus.house import CODE, HOSTS, MASTER, encoded, endpoints
from albireo.sim.hexabus.ledger import DeviceLedger
from albireo.sim.hexabus.stage import HexStage

INFO_TYPE, TYPE_AT, FLAGS_AT = 1, 4, 5
NODE = HexAddress(MASTER.host, 5_000)
"""Port from which the node asks devices aside of the order."""


class SimHexDevice:
    """One of eight."""

    def __init__(self, world: HexStage, name: str, variant: int) -> None:
        self.world = world
        self.name = name
        self.host = HOSTS[name]
        self.variant = variant
        """House whose program it has."""
        self.acts = DeviceLedger(name, world.ledger)
        self.is_powered = True
        self.cut_until = 0
        """Nothing reaches it, and nothing of it anybody, until then."""
        self.acked = 0
        self.began = 0
        self.begin()

    def begin(self) -> None:
        """Power comes: it has its program, and nothing else."""
        chance = self.world.chance
        core = HexDevice(Endpoints(self.name, endpoints(self.name)), MASTER, lambda most: chance.randint(1, most))
        self.machine = ActingDevice(core, encoded(self.variant)[1][self.name])
        self._told: dict[int, tuple[int, HexScalar]] = {}
        """Events by the number with which they are told."""
        self._names: list[bytes] = []
        """Names of an event of which further ones follow."""
        self.acts.behind = -1

    def start(self) -> None:
        self.is_powered = True
        self.begin()
        self.do(self.machine.start(self.world.now))

    def loses_power(self) -> None:
        self.is_powered = False

    def press(self, value: int) -> None:
        if self.is_powered:
            self.do(self.machine.changed(CODE, HexValue(HexType.UINT32, value), self.world.now))

    def time_passed(self) -> None:
        if self.is_powered:
            self.do(self.machine.time_passed(self.world.now))

    def heard(self, source: HexAddress, data: bytes, *, is_group: bool) -> None:
        core = self.machine.device
        confirmed, was_recovering = core.confirmed, core.is_recovering
        effects = self.machine.heard(source, data, self.world.now, is_group=is_group)
        if was_recovering and not core.is_recovering:
            self.acts.begins(self.world.ledger.item_of(decode(data).number))
        if core.confirmed > confirmed:
            self._confirmed(getattr(decode(data).packet, "cause", 0))
        self.do(effects, data)

    def do(self, effects: Iterable[DeviceEffect], data: bytes = b"") -> None:
        world = self.world
        for one in effects:
            match one:
                case SendDatagram(to=to, data=sent):
                    if sent[TYPE_AT] == INFO_TYPE and sent[FLAGS_AT] & RELIABLE:
                        told = decode(sent)
                        assert isinstance(told.packet, InfoPacket)
                        self._told[told.number] = told.packet.eid, told.packet.value.value
                    world.send(self.host, to, sent)
                case EventCame(origin=origin, eid=eid, value=value):
                    is_more = origin.startswith(GROUP_PREFIX) and origin[-1] == MORE
                    self._names.append(origin[:-1] + b"\0" if is_more else origin)
                    if not is_more:
                        host = world.ledger.hosts.get((eid, value.value), str(IPv6Address(origin)))
                        names, self._names = self._names, []
                        self.acts.acts(names, (host, eid, value.value), self.variant)
                case BeganAnew():
                    self._began_anew(data)
        due = self.machine.deadline()
        if due is not None:
            world.wake(("device", self.name), due, self.time_passed)

    def _began_anew(self, data: bytes) -> None:
        self.began += 1
        if self.machine.device.is_recovering:
            self.acts.behind = -1
        else:
            self.acts.resets(self.world.ledger.item_of(decode(data).number))

    def _confirmed(self, number: int) -> None:
        """An event is acknowledged."""
        self.acked += 1
        key = self.host, *self._told[number]
        if key not in self.world.ledger.of:
            raise Violation(f"{key} is acknowledged, and not on record")

    def upload(self, variant: int) -> None:
        """Another program is written to it."""
        self.variant = variant
        for packet in pieces_of(encoded(variant)[1][self.name]):
            data = encode(HexDatagram(packet, 1, WANT_ACK))
            self.do(self.machine.heard(NODE, data, self.world.now), data)
