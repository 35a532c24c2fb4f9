"""What was said before a reset, other machines, another life or another lead counts for nothing behind it.

Found by `sim/hexabus`: each of these once lost an event, doubled one, or left a device behind.
"""

from ipaddress import IPv6Address
from typing import Final

import msgspec
import pytest

from albireo.codec.hexabus.house import House, HouseDevice, HouseEndpoint, encode_house
from albireo.codec.hexabus.journal import (
    BY_HAND,
    AllHave,
    DeviceJoined,
    EventTaken,
    HouseTaken,
    JournalEntry,
    JournalRecord,
    ResetOrdered,
    Term,
    event_of,
)
from albireo.codec.hexabus.packets import (
    CONN_RESET,
    RELIABLE,
    WANT_ACK,
    WANT_UL_ACK,
    AckPacket,
    HexDatagram,
    InfoPacket,
    PInfoPacket,
    decode,
    encode,
)
from albireo.codec.hexabus.values import HexType, HexValue
from albireo.machine.hexabus import Machine, after, at, clock, when
from albireo.machine.hexabus.compiler import TIMER
from albireo.machine.hexabus.device import (
    START_UP,
    TO_GROUP,
    BeganAnew,
    EventCame,
    HexAddress,
    HexDevice,
    SendDatagram,
)
from albireo.machine.hexabus.endpoints import BUTTON, RELAY, Endpoint, Endpoints
from albireo.machine.hexabus.fold import HouseFold
from albireo.machine.hexabus.master import HexMaster, MasterEffect, ProgramAsked, PutRecord
from albireo.machine.hexabus.order import EventOrder
from albireo.machine.hexabus.rows import Hearing, OrderRow, ReceiveRow
from albireo.model.instant import SECOND, Instant

MASTER: Final = HexAddress("fd00::1")
BUTTON_HOST: Final = HexAddress("fd00::10")
LAMP_HOST: Final = HexAddress("fd00::11")
NOW: Final = Instant(0)
ONE: Final = HexValue(HexType.UINT8, 1)


def house(lit: bool = True) -> bytes:
    """A button and a lamp, and a time of day at which nothing is written. `lit`: what the lamp is at a press."""
    devices = {
        "button": HouseDevice(IPv6Address(BUTTON_HOST.host).packed, {"button": HouseEndpoint(BUTTON, HexType.UINT8)}),
        "lamp": HouseDevice(IPv6Address(LAMP_HOST.host).packed, {"relay": HouseEndpoint(RELAY, HexType.BOOL)}),
    }
    stairs = Machine("stairs", state="dark")
    stairs.on("dark", when("button", "button") == 1, at("lamp").write("relay", lit), go="lit")
    stairs.on("lit", after(5), at("lamp").write("relay", not lit), go="dark")
    night = Machine("night", state="day")
    night.on("day", clock("00:00"), go="day")
    return encode_house(House(devices, [stairs, night], IPv6Address(MASTER.host).packed))


class Lead:
    """A master with a journal that is written when a test says so."""

    def __init__(self) -> None:
        self.master = HexMaster(HouseFold(lambda _: 86_400), Term(1, 0), {BUTTON_HOST.host, LAMP_HOST.host})
        self.waiting: list[JournalRecord] = []
        self.sent: list[tuple[HexAddress, HexDatagram]] = []
        self.asked: list[ProgramAsked] = []
        self.by_hand(HouseTaken(house()))
        self.do(self.master.begin())
        self.record()

    def do(self, effects: list[MasterEffect]) -> None:
        for one in effects:
            match one:
                case PutRecord(record=record):
                    self.waiting.append(record)
                case SendDatagram(to=to, data=data):
                    self.sent.append((to, decode(data)))
                case ProgramAsked():
                    self.asked.append(one)

    def record(self) -> None:
        waiting, self.waiting = self.waiting, []
        for one in waiting:
            self.do(self.master.read(one, NOW))

    def by_hand(self, entry: JournalEntry) -> None:
        self.do(self.master.read(JournalRecord(BY_HAND, entry), NOW))

    def hear(self, source: HexAddress, datagram: HexDatagram) -> None:
        self.do(self.master.heard(source, encode(datagram), NOW))

    def word(self, number: int) -> None:
        self.hear(LAMP_HOST, HexDatagram(START_UP, number, RELIABLE | CONN_RESET))

    def runs(self) -> None:
        one = self.asked.pop(0)
        self.do(self.master.runs(one.host, one.program))


def test_other_machines_that_come_first_let_no_device_join_with_the_program_of_before() -> None:
    lead = Lead()
    lead.word(7)
    lead.runs()
    assert len(lead.waiting) == 1
    lead.by_hand(HouseTaken(house(False)))
    lead.by_hand(HouseTaken(house()))
    lead.record()
    assert LAMP_HOST.host not in lead.master.order.members and not lead.master.has_put
    lead.word(7)
    lead.runs()
    lead.record()
    assert lead.master.order.members[LAMP_HOST.host].joined == 7


def test_a_word_that_is_said_again_while_its_program_is_asked_for_joins_once() -> None:
    """The second time the device would be told to go on behind a place that it never heard of."""
    lead = Lead()
    lead.word(7)
    lead.runs()
    lead.word(7)
    lead.record()
    lead.runs()
    assert not lead.waiting and [one.packet for to, one in lead.sent if to == LAMP_HOST][-1] == AckPacket(7)


def test_time_that_was_told_before_a_reset_means_nothing_behind_it() -> None:
    lead = Lead()
    lead.by_hand(HouseTaken(house()))
    lead.by_hand(ResetOrdered())
    lead.do(lead.master.join(BUTTON_HOST.host))
    lead.runs()
    lead.record()
    lead.hear(BUTTON_HOST, HexDatagram(InfoPacket(BUTTON, ONE), 9, RELIABLE | CONN_RESET | WANT_UL_ACK))
    lead.record()
    silent = lead.master.fold.silent
    assert silent is not None and silent.state(0) == "lit"
    lead.do(lead.master.time_passed(Instant(6 * SECOND)))
    assert [one.entry.eid for one in lead.waiting if isinstance(one.entry, EventTaken)] == [TIMER, TIMER]
    lead.by_hand(ResetOrdered())
    last = lead.master.order.last
    lead.record()
    assert lead.master.order.last == last and not lead.master.has_put, "what is void is waited for no more"


def test_a_snapshot_says_of_which_times_of_day_was_told() -> None:
    lead = Lead()
    lead.do(lead.master.time_passed(NOW))
    lead.record()
    silent = lead.master.fold.silent
    assert silent is not None and not silent.due(NOW)
    other = HouseFold(lambda _: 86_400)
    other.fold(JournalRecord(Term(1, 0), lead.master.fold.snapshot(NOW)), NOW)
    assert other.silent is not None and not other.silent.due(NOW)


def test_resets_reach_a_device_each_and_a_late_copy_of_one_does_not() -> None:
    order, row = EventOrder(), OrderRow()
    items = []
    for _ in range(3):
        order.fold(ResetOrdered())
        items.append(decode(order.bytes_of(order.last)))
        assert row.hear(items[-1], 0xFFFF, is_reset=True) is Hearing.NEW
    assert [row.hear(one, 0xFFFF, is_reset=True) for one in items] == [Hearing.OLD, Hearing.OLD, Hearing.AGAIN]
    assert order.item_of(items[0].number) == order.item_of(items[1].number) == 0, "no acknowledgement of the last one"


def test_the_first_event_of_all_may_come_behind_the_second_one() -> None:
    row = OrderRow()
    row.go_on_behind(65_535)
    first, second = (HexDatagram(START_UP, number, RELIABLE) for number in (1, 2))
    first = msgspec.structs.replace(first, flags=RELIABLE | CONN_RESET)
    assert [row.hear(one, 0) for one in (second, first, second)] == [Hearing.NEW, Hearing.NEW, Hearing.AGAIN]


@pytest.mark.parametrize("is_reset", [False, True])
def test_a_device_without_the_machines_on_record_acts_on_nothing(is_reset: bool) -> None:
    order = EventOrder()
    order.fold(DeviceJoined(LAMP_HOST.host))
    order.fold(event_of(BUTTON_HOST.host, 1, 1, b"", BUTTON, ONE))
    device = HexDevice(Endpoints("d", (Endpoint(RELAY, "relay", HexType.BOOL, False),)), MASTER, lambda _: 1)
    assert EventCame in map(type, device.heard(MASTER, order.bytes_of(1), NOW, is_group=True))
    order.fold(HouseTaken(b""))
    order.fold(ResetOrdered() if is_reset else event_of(BUTTON_HOST.host, 1, 2, b"", BUTTON, ONE))
    effects = device.heard(MASTER, order.bytes_of(order.last), NOW, is_group=True)
    assert isinstance(effects[0], BeganAnew) and device.is_recovering and device.counts["missed"] == 1


def test_a_device_that_a_late_word_had_join_learns_from_the_next_time_told_that_it_misses_something() -> None:
    """The word is of another life: the master waits for it no more, and it knows nothing of that."""
    lead = Lead()
    device = HexDevice(Endpoints("d", ()), MASTER, lambda _: 5)
    (word,) = [decode(one.data) for one in device.start(NOW) if isinstance(one, SendDatagram)]
    device.heard(MASTER, encode(HexDatagram(AckPacket(word.number), lead.master.number)), NOW)
    told = HexDatagram(InfoPacket(0, HexValue(HexType.UINT64, 1)), lead.master.number)
    assert not device.heard(MASTER, encode(told), NOW, is_group=True)
    lead.hear(BUTTON_HOST, HexDatagram(START_UP, 3, RELIABLE | CONN_RESET))
    lead.runs()
    lead.record()
    lead.hear(BUTTON_HOST, HexDatagram(InfoPacket(BUTTON, ONE), 9, RELIABLE | CONN_RESET | WANT_UL_ACK))
    lead.record()
    told = msgspec.structs.replace(told, number=lead.master.number)
    assert not device.heard(MASTER, encode(told), NOW, is_group=True), "not all have it yet"
    lead.hear(BUTTON_HOST, HexDatagram(AckPacket(lead.master.order.number_of(lead.master.order.last)), 3))
    told = msgspec.structs.replace(told, number=lead.master.number)
    assert isinstance(device.heard(MASTER, encode(told), NOW, is_group=True)[0], BeganAnew)
    assert device.counts["missed"] == 1


def test_an_event_while_a_device_recovers_is_told_once_it_has_its_answer() -> None:
    """The answer closes the rows that it had at the master: what it said before would leave it in a closed one."""
    device = HexDevice(Endpoints("d", (Endpoint(BUTTON, "button", HexType.UINT8, 0),)), MASTER, lambda _: 5)
    (word,) = [decode(one.data) for one in device.start(NOW) if isinstance(one, SendDatagram)]
    assert device.changed(BUTTON, ONE, NOW) == []
    told = device.heard(MASTER, encode(HexDatagram(AckPacket(word.number), 3)), NOW)
    assert [(one.to, decode(one.data).packet) for one in told if isinstance(one, SendDatagram)] == [
        (TO_GROUP, InfoPacket(BUTTON, ONE))
    ]


def test_late_copies_of_another_life_are_no_new_packets() -> None:
    row, lives = ReceiveRow(), []
    for begin in (30_000, 100, 20_000):
        packets = [
            encode(HexDatagram(PInfoPacket(BUTTON, ONE, bytes(16)), begin + at, RELIABLE | (CONN_RESET * (at == 0))))
            for at in range(3)
        ]
        assert [row.hear(decode(one), one) for one in packets] == [Hearing.NEW] * 3
        row.is_closed = True
        lives.append(packets)
    assert {row.hear(decode(one), one) for packets in lives for one in packets} == {Hearing.OLD}
    row.is_closed = False
    heard = [row.hear(decode(one), one) for packets in lives for one in packets]
    assert heard == [Hearing.OLD] * 8 + [Hearing.AGAIN] and row.last == 20_002


def test_a_late_first_packet_of_a_row_that_nobody_heard_makes_no_later_one_new_again() -> None:
    row, (early, first) = (
        ReceiveRow(),
        [
            encode(HexDatagram(InfoPacket(BUTTON, HexValue(HexType.UINT8, at)), at, RELIABLE | CONN_RESET))
            for at in (7, 8)
        ],
    )
    assert row.hear(decode(first), first) is Hearing.NEW
    row.took(7, early)  # Both came before one was on record.
    assert row.hear(decode(first), first) is Hearing.OLD


def test_a_record_that_says_nothing_keeps_nobody_waiting() -> None:
    lead = Lead()
    lead.do(lead.master.join(BUTTON_HOST.host))
    lead.runs()
    assert lead.master.has_put
    lead.by_hand(HouseTaken(b"no house"))
    lead.by_hand(HouseTaken(house(False)))
    lead.record()
    assert not lead.master.has_put and lead.master.is_leading and not lead.master.order.members


def test_an_answer_to_the_word_before_an_upload_is_none_to_a_device_with_another_program() -> None:
    device = HexDevice(Endpoints("d", ()), MASTER, lambda _: 5)
    (word,) = [decode(one.data) for one in device.start(NOW) if isinstance(one, SendDatagram)]
    upload = encode(HexDatagram(START_UP, 1, WANT_ACK))
    told = [
        decode(one.data)
        for one in device.heard(HexAddress(MASTER.host, 5_000), upload, NOW)
        if isinstance(one, SendDatagram)
    ]
    device.heard(MASTER, encode(HexDatagram(AckPacket(word.number), 3)), NOW)
    assert device.is_recovering and told[0].packet == START_UP and told[0].number != word.number
    device.heard(MASTER, encode(HexDatagram(AckPacket(told[0].number), 4)), NOW)
    assert not device.is_recovering


def test_a_forged_word_that_all_have_an_item_ends_it_and_the_next_one_is_sent() -> None:
    """Its bytes are forgotten: a master that went on saying it would have none."""
    lead = Lead()
    for host in (BUTTON_HOST, LAMP_HOST):
        lead.do(lead.master.join(host.host))
        lead.runs()
    lead.record()
    for number in (1, 2):
        lead.hear(BUTTON_HOST, HexDatagram(InfoPacket(BUTTON, ONE), number, RELIABLE | WANT_UL_ACK))
        lead.record()
        order = lead.master.order
        lead.do(lead.master.read(JournalRecord(lead.master.term, AllHave(order.last)), NOW))
        assert lead.master.upto == order.last
        lead.do(lead.master.time_passed(Instant(SECOND)))
        lead.record()
    assert [one.number for to, one in lead.sent if to == TO_GROUP] == [order.since, order.since + 1]
