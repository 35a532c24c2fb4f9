"""One seed's world of Hexabus: faults drawn one by one, then all is mended, and everybody must agree."""

from collections.abc import Callable
from functools import partial
from ipaddress import IPv6Address
from typing import Final

import msgspec

from albireo.codec.hexabus.journal import (
    BY_HAND,
    AllHave,
    HouseSnapshot,
    HouseTaken,
    JournalRecord,
    LeadTaken,
    ResetOrdered,
    Term,
)
from albireo.machine.hexabus.device import TO_GROUP, HexAddress
from albireo.machine.hexabus.fold import HouseFold
from albireo.model.instant import SECOND, Instant
from albireo.sim.engine.stage import Violation
from albireo.sim.hexabus.device import FLAGS_AT, INFO_TYPE, TYPE_AT, SimHexDevice
from albireo.sim.hexabus.house import ADDRESSES, HIGH, HOSTS, MASTER, NAMES, SENSORS, encoded, local_s
from albireo.sim.hexabus.ledger import VARIANTS
from albireo.sim.hexabus.member import HexMember
from albireo.sim.hexabus.stage import HexStage

DEEDS: Final = 36
LEASE_S: Final = 1.0
STALE_S: Final = 3.0
STILL_S: Final = 3.6
"""So long nothing happens once all is done: longer than a timer, or a wait for an answer, or for the time."""
HEAL_S: Final = 60.0
NEAR_WRAP: Final = 65_530


class HexWorld(HexStage):
    """The world of a seed."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        chance = self.chance
        self.loss = self.loss_at_first = chance.choice([0.0, 0.05, 0.2, 0.2, 0.4])
        self.doubles, self.stale = chance.choice([0.0, 0.1]), chance.choice([0.0, 0.02, 0.15])
        self._putting: tuple[list[JournalRecord], ...] = ([], [])
        self._full_until = 0
        self._active_at = 0
        self.is_mended = False
        self.epoch = 1
        self.leader = 0
        self.members = [HexMember(self, index) for index in range(2)]
        self.devices = {HOSTS[name]: SimHexDevice(self, name, 0) for name in HOSTS}
        self.codes = 0

    def play(self) -> "HexWorld":
        """Play it. Raises Violation."""
        try:
            self._begin()
            for _ in range(DEEDS):
                self.play_for(self.chance.choice([0.02, 0.1, 0.4, 0.8]))
                self._do_something()
            self._mend()
        except Violation as end:
            raise Violation(f"{end}; seed {self.seed}, at {self.now / SECOND:.3f} s") from end
        return self

    def _begin(self) -> None:
        first = HouseTaken(encoded(0)[0])
        record = JournalRecord(BY_HAND, first)
        if self.chance.random() < 0.4:
            fold = HouseFold(local_s)
            fold.fold(record, self.now)
            last = NEAR_WRAP + self.chance.randrange(4)
            kept = msgspec.structs.replace(fold.snapshot(self.now), last=last, all_have=last, items=(), recent=())
            record = JournalRecord(Term(1, 0), kept)
        self._commit(record)
        self._take_over(0)
        for one in self.devices.values():
            self.later(self.chance.uniform(0, 0.3), one.start)
        self.play_for(1.5)

    # The network.

    def send(self, source: str, to: HexAddress, data: bytes) -> None:
        """Carry a datagram, as this network does."""
        if is_told := data[TYPE_AT] == INFO_TYPE and source != MASTER.host:
            if not data[FLAGS_AT]:
                return  # Nobody acts on it.
            self._active_at = self.now
        elif data[TYPE_AT] != INFO_TYPE:
            self._active_at = self.now
        is_group = to == TO_GROUP
        hosts = (MASTER.host,) if is_told else (MASTER.host, *NAMES) if is_group else (to.host,)
        chance = self.chance
        for host in hosts:
            if host == source:
                continue
            delays_s = [chance.uniform(0.001, 0.02) for _ in range(2 if chance.random() < self.doubles else 1)]
            if chance.random() < self.stale:
                delays_s.append(chance.uniform(0.0, STALE_S))
            for delay_s in delays_s:
                if chance.random() >= self.loss:
                    self._carry(delay_s, source, host, data, is_group)

    def _carry(self, delay_s: float, source: str, host: str, data: bytes, is_group: bool) -> None:
        one = self.devices.get(source)
        if one is None or one.cut_until <= self.now:
            self.later(delay_s, lambda: self._arrive(source, host, data, is_group))

    def _arrive(self, source: str, host: str, data: bytes, is_group: bool) -> None:
        device = self.devices.get(host)
        if device is not None:
            if device.is_powered and device.cut_until <= self.now:
                device.heard(ADDRESSES[source], data, is_group=is_group)
            return
        for member in self.members:
            if member.is_awake:
                member.heard(source, data)
            elif member.is_up:  # It waits in the kernel.
                self.at(member.paused_until, lambda one=member: one.heard(source, data))  # type: ignore[misc]

    def has_program(self, host: str, program: bytes, *, may_give: bool) -> bool:
        """Whether a device says that it has this program; it is given it if it has another one."""
        device, name = self.devices[host], NAMES[host]
        if not device.is_powered or device.cut_until > self.now or self.chance.random() < self.loss / 2:
            return False
        if encoded(device.variant)[1][name] == program:
            return True
        if may_give:
            device.upload(next(one for one in range(VARIANTS) if encoded(one)[1][name] == program))
        return False

    # The journal.

    def put(self, index: int, record: JournalRecord) -> None:
        self._active_at = self.now
        self._putting[index].append(record)
        if isinstance(record.entry, HouseSnapshot) and not self.is_mended and self.chance.random() < 0.15:
            self.later(0.001, self._operate)
        self.later(self.chance.uniform(0.001, 0.03), lambda: self._land(index))

    def _land(self, index: int) -> None:
        """The oldest of what a member put stands in the journal."""
        if self.now < self._full_until:
            self.at(self._full_until + self.chance.randrange(SECOND // 50), lambda: self._land(index))
        elif self._putting[index]:
            self._commit(self._putting[index].pop(0))

    def _commit(self, record: JournalRecord) -> None:
        self.journal.append((record, self.now))
        if self.ledger.took(record, self.now) and isinstance(record.entry, AllHave):
            there = self.members[self.leader].fold.order.members
            for host in there.keys() & self.devices.keys():
                self.devices[host].acts.has_all(record.entry.item, there[host].behind)
        for one in self.members:
            self.later(self.chance.uniform(0.0, 0.02) * (40 if self.chance.random() < 0.1 else 1), one.read)

    def _operate(self) -> None:
        """An operator gives other machines, or orders a reset."""
        house = encoded(self.chance.randrange(VARIANTS))[0]
        self._active_at = self.now
        entries: list[HouseTaken | ResetOrdered] = [HouseTaken(house), ResetOrdered("by hand")]
        self._commit(JournalRecord(BY_HAND, self.chance.choice(entries)))

    def _forge(self) -> None:
        """A stranger says that it leads, in a term that may be, or that an entry of before is its own."""
        term = Term(self.epoch, self.chance.randrange(1 << 62))
        if self.chance.random() < 0.5:
            term = Term(self.epoch - 1, 0)
        self._commit(JournalRecord(term, LeadTaken()))

    # Who leads.

    def _take_over(self, index: int) -> None:
        """A member is granted the lead; the other one's lease is over."""
        other = self.members[1 - index]
        other.lease_until = Instant(min(other.lease_until, self.now))
        self.epoch += 1
        self.leader = index
        member = self.members[index]
        member.lead(self.epoch)
        self.later(self.chance.uniform(0.0, 1.0), lambda: self._stand_by(1 - index))

    def _stand_by(self, index: int) -> None:
        """A member that was deposed hears of it."""
        member = self.members[index]
        if self.leader == index:
            return
        if member.is_up and not member.is_awake:
            self.at(member.paused_until, lambda: self._stand_by(index))
        else:
            member.master = None

    def _depose(self) -> None:
        """The other member is to lead, while this one has something to put."""
        self._press()
        if self.members[1 - self.leader].is_awake:
            self.later(0.02, partial(self._hand_over, 1 - self.leader))

    def _hand_over(self, index: int) -> None:
        if index != self.leader and self.members[index].is_awake:
            self._take_over(index)

    def _kill(self) -> None:
        member = self.members[index := self.chance.randrange(2)]
        if not member.is_up:
            return
        member.is_up, member.master = False, None
        member.lease_until = self.now
        putting = self._putting[index]
        del putting[self.chance.randint(0, len(putting)) :]
        self.later(self.chance.uniform(0.1, 2.0), lambda: self._revive(index))
        if index == self.leader and self.chance.random() < 0.6:
            self.later(LEASE_S, self._fail_over)

    def _revive(self, index: int) -> None:
        member = self.members[index]
        if member.is_up:
            return
        member.is_up, member.paused_until = True, Instant(0)
        member.begin()
        if self.leader == index:
            member.lead(self.epoch)
        member.read()

    def _fail_over(self) -> None:
        """The other member leads, if whoever led does not any more."""
        other = self.members[1 - self.leader]
        if self.members[self.leader].lease_until <= self.now and other.is_awake:
            self._take_over(1 - self.leader)

    def _pause(self) -> None:
        member = self.members[index := self.chance.randrange(2)]
        if not member.is_up:
            return
        ends = self.now + int(self.chance.choice([0.1, 1.0, 3.0]) * SECOND)
        member.paused_until = Instant(ends)
        self.at(ends, member.read)
        self.at(ends, member.time_passed)
        left_s = self.chance.uniform(0.0, LEASE_S)
        if index == self.leader and ends > self.now + left_s * SECOND:
            member.lease_until = Instant(self.now + int(left_s * SECOND))
            self.later(left_s + 0.01, self._fail_over)

    # Deeds.

    def _do_something(self) -> None:
        deeds: list[tuple[float, Callable[[], object]]] = [
            (60, self._press),
            (4, self._depose),
            (3, self._kill),
            (4, self._pause),
            (5, self._cut_power),
            (5, self._blink),
            (4, self._cut),
            (2, self._fill_disk),
            (4, self._operate),
            (2, self._forge),
        ]
        (deed,) = self.chance.choices([each for _, each in deeds], [weight for weight, _ in deeds])
        deed()

    def _press(self, name: str = "") -> None:
        for _ in range(self.chance.choice([1, 1, 2, 4])):
            self.codes += 1
            host = HOSTS[name or self.chance.choice(SENSORS)]
            self.devices[host].press(self.codes + self.chance.choice([0, HIGH]))

    def _cut_power(self) -> None:
        device = self.chance.choice(list(self.devices.values()))
        if device.is_powered:
            device.loses_power()
            self.later(self.chance.choice([0.02, 0.5, 3.0]), device.start)

    def _blink(self) -> None:
        """A sensor tells of something, loses power, and tells of something else."""
        name = self.chance.choice(SENSORS)
        device = self.devices[HOSTS[name]]
        if device.is_powered:
            self._press(name)
            self.later(0.1, device.loses_power)
            self.later(0.12, device.start)
            self.later(0.6, lambda: self._press(name))

    def _cut(self) -> None:
        device = self.chance.choice(list(self.devices.values()))
        device.cut_until = self.now + int(self.chance.choice([0.3, 2.0, 7.0]) * SECOND)

    def _fill_disk(self) -> None:
        self._full_until = self.now + int(self.chance.choice([0.2, 1.0, 3.0]) * SECOND)

    # The end.

    def _mend(self) -> None:
        """End all faults, wait until nothing happens any more, and judge."""
        self.loss = self.doubles = self.stale = 0.0
        self.is_mended = True
        ends = self.now + HEAL_S * SECOND
        while not self._is_still():
            if self.now > ends:
                raise Violation(f"it comes to no rest: {self._restless()}")
            self.play_for(0.5)
            self._fail_over()
        self._judge()

    def _restless(self) -> str:
        master = self.members[self.leader].master
        if master is None or not master.is_leading:
            return "nobody leads"
        away = sorted(NAMES[host] for host in HOSTS.values() if host not in master.order.members)
        if away:
            return f"{away} are not there"
        if not master.is_quiet or master.order.all_have != master.order.last:
            return f"{master.order.last - master.order.all_have} items are not over"
        failed = [one.name for one in self.devices.values() if one.machine.device.is_failed]
        if failed:
            return f"{failed} stand still"
        return "" if self.now - self._active_at > STILL_S * SECOND else "something is under way"

    def _is_still(self) -> bool:
        return not self._restless()

    def _judge(self) -> None:
        """Whether everybody is where the journal says."""
        plain = HouseFold(local_s)
        for record, at in self.ledger.valid:
            plain.fold(record, at)
        kept = plain.snapshot(self.now)
        for one in self.members:
            for field in (field for field in kept.__struct_fields__ if field != "ages_ns"):  # On each one's clock.
                own, wanted = getattr(one.fold.snapshot(self.now), field), getattr(kept, field)
                if own != wanted:
                    raise Violation(f"member {one.index} has {field} {own!r}, and {wanted!r} follows from the journal")
        silent = plain.silent
        assert silent is not None
        for device in self.devices.values():
            if device.machine.memory[: len(silent.memory)] != silent.memory:
                raise Violation(
                    f"{device.name} has the memory {device.machine.memory.hex()}, and not {silent.memory.hex()}"
                )
            values = silent.values_of(IPv6Address(device.host).packed)
            for eid, value in values:
                one_value = device.machine.device.endpoints.find(eid)
                if one_value is None or one_value.told != value:
                    raise Violation(f"{device.name}: endpoint {eid} is not {value.value!r}, as it was written")
