"""A device: what it answers, what it tells, what it acts on, and how it fails and comes back."""

from typing import Final

import pytest

from albireo.codec.hexabus.packets import (
    CONN_RESET,
    GROUP,
    RELIABLE,
    WANT_ACK,
    WANT_UL_ACK,
    AckPacket,
    EndpointQueryPacket,
    EndpointReportPacket,
    ErrorPacket,
    HexDatagram,
    HexError,
    HexPacket,
    InfoPacket,
    PInfoPacket,
    PropertyQueryPacket,
    PropertyReportPacket,
    PropertyWritePacket,
    QueryPacket,
    ReportPacket,
    WritePacket,
    decode,
    encode,
)
from albireo.codec.hexabus.values import HexType, HexValue
from albireo.machine.hexabus.device import (
    PEERS_MAX,
    START_UP,
    BeganAnew,
    DeviceEffect,
    EndpointWritten,
    EventCame,
    HexAddress,
    HexDevice,
    SendDatagram,
)
from albireo.machine.hexabus.endpoints import BUTTON, CONTROL, RELAY, Endpoint, Endpoints
from albireo.machine.hexabus.rows import REPEATS
from albireo.model.instant import SECOND, Instant

MASTER: Final = HexAddress("fd00::1")
SENSOR: Final = HexAddress("fd00::5")
USER: Final = HexAddress("fd00::9", 40_000)
ORIGIN: Final = bytes(15) + b"\5"
ON, OFF = HexValue(HexType.BOOL, True), HexValue(HexType.BOOL, False)
EVENT: Final = WANT_UL_ACK | RELIABLE


class World:
    """A device, and what it says."""

    def __init__(self) -> None:
        dimmer = Endpoint(80, "dimmer", HexType.UINT8, 10, is_writable=True, minimum=5, maximum=100, default=50)
        level = Endpoint(81, "level", HexType.FLOAT, 0.5, is_writable=True, minimum=0.0, maximum=1.0)
        button, relay = (
            Endpoint(BUTTON, "button", HexType.BOOL, False),
            Endpoint(RELAY, "relay", HexType.BOOL, False, is_writable=True),
        )
        self.device = HexDevice(Endpoints("lamp_1", (relay, button, dimmer, level)), MASTER, lambda _: 100)
        self.now = Instant(0)
        self.said: list[tuple[str, HexDatagram]] = []
        self.effects: list[DeviceEffect] = []

    def take(self, effects: list[DeviceEffect]) -> list[HexPacket]:
        """Packets that the device says now."""
        self.effects = [one for one in effects if not isinstance(one, SendDatagram)]
        said = [(one.to.host, decode(one.data)) for one in effects if isinstance(one, SendDatagram)]
        self.said += said
        return [one.packet for _, one in said]

    def hear(
        self, packet: HexPacket, number: int = 1, flags: int = 0, source: HexAddress = USER, *, is_group: bool = False
    ) -> list[HexPacket]:
        data = encode(HexDatagram(packet, number, flags))
        return self.take(self.device.heard(source, data, self.now, is_group=is_group))

    def ring(self) -> list[HexPacket]:
        due = self.device.deadline()
        assert due is not None
        self.now = due
        return self.take(self.device.time_passed(due))


@pytest.fixture
def world() -> World:
    return World()


def test_questions_are_answered_with_their_number(world: World) -> None:
    """D12: a device of the original's library answers them with INFO and EPINFO."""
    assert world.hear(QueryPacket(RELAY), 77) == [ReportPacket(RELAY, OFF, 77)]
    assert world.hear(EndpointQueryPacket(80), 78) == [EndpointReportPacket(80, HexType.UINT8, "dimmer", 78)]
    assert world.hear(QueryPacket(3), 79) == [ErrorPacket(HexError.UNKNOWN_EID, 79)]
    assert world.hear(QueryPacket(RELAY), 80, is_group=True) == [ReportPacket(RELAY, OFF, 80)]
    assert world.hear(QueryPacket(3), 81, is_group=True) == []
    assert {to for to, _ in world.said} == {USER.host}


def test_endpoints_and_properties_are_found_one_after_the_other(world: World) -> None:
    found, eid = [], 0
    while True:
        (report,) = world.hear(PropertyQueryPacket(eid, 0))
        assert isinstance(report, PropertyReportPacket) and isinstance(report.value.value, int)
        eid = report.value.value
        if not eid:
            break
        found.append(eid)
    assert found == [RELAY, BUTTON, CONTROL, 80, 81]
    asked, properties = 1, []
    while asked:
        (report,) = world.hear(PropertyQueryPacket(80, asked))
        assert isinstance(report, PropertyReportPacket)
        properties.append((asked, report.value.value))
        asked = report.next_id
    assert properties == [(1, "dimmer"), (2, 5), (3, 100), (4, 50)]
    assert world.hear(PropertyQueryPacket(RELAY, 2), 5) == [ErrorPacket(HexError.UNKNOWN_EID, 5)]
    assert world.hear(PropertyQueryPacket(7, 0), 6) == [ErrorPacket(HexError.UNKNOWN_EID, 6)]


def test_a_write_is_done_once_acknowledged_and_told(world: World) -> None:
    """D12: a device of the original's library does not acknowledge a good write."""
    flags = WANT_ACK | RELIABLE | CONN_RESET
    first = world.hear(WritePacket(RELAY, ON), 9, flags)
    assert first == [InfoPacket(RELAY, ON), AckPacket(9)] and world.effects == [EndpointWritten(RELAY, ON)]
    assert world.said[0][0] == GROUP and not world.said[0][1].flags, "nothing waits for what is written"
    again = world.hear(WritePacket(RELAY, ON), 9, flags)
    assert again == [AckPacket(9)] and not world.effects and world.device.counts["again"] == 1


@pytest.mark.parametrize(
    ("packet", "error"),
    [
        (WritePacket(3, ON), HexError.UNKNOWN_EID),
        (WritePacket(0, HexValue(HexType.STRING, "x")), HexError.WRITE_READ_ONLY),
        (WritePacket(BUTTON, ON), HexError.WRITE_READ_ONLY),
        (WritePacket(RELAY, HexValue(HexType.UINT8, 1)), HexError.DATATYPE),
        (WritePacket(80, HexValue(HexType.UINT8, 4)), HexError.INVALID_VALUE),
        (WritePacket(80, HexValue(HexType.UINT8, 101)), HexError.INVALID_VALUE),
        (WritePacket(81, HexValue(HexType.FLOAT, float("nan"))), HexError.INVALID_VALUE),
        (PropertyWritePacket(RELAY, 1, HexValue(HexType.STRING, "x")), HexError.WRITE_READ_ONLY),
    ],
)
def test_a_write_that_is_refused_is_refused_again_and_in_silence_to_the_group(
    packet: HexPacket, error: HexError
) -> None:
    for flags in (WANT_ACK, WANT_ACK | RELIABLE):
        world = World()
        refused = [ErrorPacket(error, 9)]
        assert world.hear(packet, 9, flags) == refused and world.hear(packet, 9, flags) == refused
        assert not world.effects and world.hear(packet, 10, flags, is_group=True) == []


def test_events_of_the_master_are_acted_on_once_whatever_copies_come(world: World) -> None:
    """The last of the four conversations, at B: the first packet again and again, then the next one."""
    packet, later = PInfoPacket(BUTTON, ON, ORIGIN), PInfoPacket(BUTTON, OFF, ORIGIN)
    assert world.hear(packet, 43, EVENT, MASTER) == [AckPacket(43)]
    assert world.effects == [EventCame(ORIGIN, BUTTON, ON)]
    for _ in range(2):
        assert world.hear(packet, 43, EVENT, MASTER) == [AckPacket(43)] and not world.effects
    assert world.hear(later, 44, EVENT, MASTER) == [AckPacket(44)] and len(world.effects) == 1
    assert world.hear(packet, 43, EVENT, MASTER) == [AckPacket(43)] and not world.effects
    assert (world.device.counts["again"], world.device.counts["old"]) == (2, 1)


def test_nobody_else_is_believed(world: World) -> None:
    packet = PInfoPacket(BUTTON, ON, ORIGIN)
    assert world.hear(packet, 43, EVENT, SENSOR) == [] and world.hear(packet, 43, WANT_UL_ACK, MASTER) == []
    assert not world.effects and world.device.counts["forged"] == 2
    assert world.hear(InfoPacket(BUTTON, ON), 43, EVENT, SENSOR, is_group=True) == []
    assert not world.effects, "D7: an INFO of another device changes nothing"
    assert world.hear(InfoPacket(BUTTON, ON), 43, WANT_ACK, SENSOR) == [AckPacket(43)]


def test_an_event_is_told_until_the_master_has_it(world: World) -> None:
    first = world.take(world.device.changed(BUTTON, ON, world.now))
    assert first == [InfoPacket(BUTTON, ON)] and world.take(world.device.changed(BUTTON, OFF, world.now)) == []
    assert world.ring() == first and world.ring() == first
    assert {one.number for _, one in world.said} == {100}
    assert world.hear(AckPacket(100), 5, 0, SENSOR) == [] and world.device.deadline() is not None, "D5: not by others"
    assert world.hear(AckPacket(100), 5, 0, MASTER) == [InfoPacket(BUTTON, OFF)]
    assert world.said[-1][1].number == 101 and not world.said[-1][1].flags & CONN_RESET


def test_a_device_that_nobody_hears_fails_and_recovers_at_the_masters_first_word(world: World) -> None:
    world.take(world.device.changed(BUTTON, ON, world.now))
    while world.device.deadline() is not None:
        world.ring()
    assert world.device.is_failed and world.now == sum(REPEATS) == 5.5 * SECOND
    assert world.take(world.device.changed(BUTTON, OFF, world.now)) == [] and world.device.counts["lost"] == 1
    assert world.hear(QueryPacket(RELAY), 1, 0, SENSOR) == [ReportPacket(RELAY, OFF, 1)] and world.device.is_failed
    said = world.hear(PInfoPacket(BUTTON, ON, ORIGIN), 50, EVENT, MASTER)
    assert said == [START_UP] and not world.device.is_failed and world.effects == [BeganAnew()]
    assert world.said[-1][1].flags == WANT_ACK | RELIABLE | CONN_RESET
    assert world.hear(PInfoPacket(BUTTON, ON, ORIGIN), 50, EVENT, MASTER) == [] and not world.effects
    assert world.hear(AckPacket(world.said[-1][1].number), 50, 0, MASTER) == []
    assert world.hear(PInfoPacket(BUTTON, ON, ORIGIN), 50, EVENT, MASTER) == [AckPacket(50)] and not world.effects
    assert world.hear(PInfoPacket(BUTTON, OFF, ORIGIN), 51, EVENT, MASTER) == [AckPacket(51)]
    assert world.effects == [EventCame(ORIGIN, BUTTON, OFF)]


def test_a_device_that_missed_an_event_begins_anew(world: World) -> None:
    world.hear(PInfoPacket(BUTTON, ON, ORIGIN), 50, EVENT, MASTER)
    assert world.hear(PInfoPacket(BUTTON, OFF, ORIGIN), 52, EVENT, MASTER) == [START_UP]
    assert world.effects == [BeganAnew()] and world.device.counts["missed"] == 1
    assert world.hear(START_UP, 52, 0, MASTER) == [], "it is about to"


def test_a_device_says_that_it_starts(world: World) -> None:
    assert world.take(world.device.start(world.now)) == [START_UP] and world.effects == [BeganAnew()]
    assert world.said[0][0] == MASTER.host
    assert world.hear(AckPacket(100), 5, 0, MASTER) == [] and world.device.deadline() is None


def test_hostile_bytes_and_many_strangers_change_nothing(world: World) -> None:
    world.hear(PInfoPacket(BUTTON, ON, ORIGIN), 43, EVENT, MASTER)
    for number in range(3 * PEERS_MAX):
        assert world.device.heard(SENSOR, bytes([number % 256]) * number, world.now) == []
        world.hear(WritePacket(RELAY, ON), 9, WANT_ACK | RELIABLE, HexAddress(f"fd00::{number + 100:x}"))
    assert world.device.counts["malformed"] == 3 * PEERS_MAX
    assert world.hear(PInfoPacket(BUTTON, ON, ORIGIN), 43, EVENT, MASTER) == [AckPacket(43)] and not world.effects
