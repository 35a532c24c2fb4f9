"""A whole house: a button, lamps and a heater, their programs, a master with its journal, and a bad network."""

from ipaddress import IPv6Address

import pytest

from albireo.codec.hexabus.house import encode_house
from albireo.codec.hexabus.journal import (
    DeviceJoined,
    HouseTaken,
    JournalRecord,
    LeadTaken,
    Term,
)
from albireo.codec.hexabus.packets import AckPacket, HexDatagram, WritePacket, decode, encode
from albireo.codec.hexabus.recovery import RecoveryTold, encode_recovery
from albireo.codec.hexabus.values import HexType, HexValue
from albireo.machine.hexabus.compiler import SOURCE_AT
from albireo.machine.hexabus.device import SendDatagram
from albireo.machine.hexabus.endpoints import BUTTON, FAILED, RECOVERY, RELAY
from albireo.machine.hexabus.fold import HouseFold
from tests.parts.whole_house import HOSTS, KINDS, MASTER, WholeHouse, stairs


@pytest.mark.parametrize("loss", [0.0, 0.2])
@pytest.mark.parametrize("seed", range(10))
def test_a_button_lights_the_lamps_through_loss_and_a_takeover_and_time_puts_them_out(seed: int, loss: float) -> None:
    house = WholeHouse(seed, loss)
    for number in range(3):
        house.press("button_1")
        if number == 1:
            house.step()
            house.take_over()
        house.play_until(lambda: house.lights() == [True] * 3, 6)
        house.play_until(lambda: house.lights() == [False] * 3, 12)
    house.play_until(house.is_quiet, 12)
    (acted,) = {tuple(house.acted[name]) for name in KINDS}
    assert [eid for _, eid, _ in acted].count(BUTTON) == 3 and not any(one.failed for one in house.devices.values())


@pytest.mark.parametrize("seed", range(10))
def test_at_forty_percent_loss_nobody_acts_on_another_order(seed: int) -> None:
    house = WholeHouse(seed, 0.4)
    for number in range(1, 15):
        house.press(house.chance.choice(["button_1", "button_2"]), number)
        for _ in range(60):
            house.step()
        if house.chance.random() < 0.2:
            house.take_over()
    house.loss = 0.0
    house.play_until(house.is_quiet, 60)
    looked_at = house.house.devices["button_1"].origin
    acted = [[one for one in found if one[:2] == (looked_at, BUTTON)] for found in house.acted.values()]
    longest = max(acted, key=len)
    for one in acted:
        places = [longest.index(event) for event in one]
        assert places == sorted(set(places))
    assert len({one.memory[:SOURCE_AT] for one in house.devices.values()}) == 1


@pytest.mark.parametrize("seed", range(5))
def test_a_lamp_that_can_not_be_lit_leads_all_devices_to_the_bad_state(seed: int) -> None:
    house = WholeHouse(seed, 0.2, broken="lamp_2")
    house.press("button_1")
    if seed % 2:
        house.play_until(lambda: house.lights() == [True, False, True], 6)
        house.take_over()
    house.play_until(lambda: house.silent_state() == "broken", 6)
    house.play_until(house.is_quiet, 12)
    memories = [one._machine.memory for one in house.devices.values() if one._machine is not None]
    assert [one[0] for one in memories] == [stairs().states.index("broken")] * len(KINDS)
    assert {tuple(acted) for acted in house.acted.values()} == {
        (
            (IPv6Address(HOSTS["button_1"].host).packed, BUTTON, 1),
            (IPv6Address(HOSTS["lamp_2"].host).packed, FAILED, RELAY),
        )
    }
    assert {name for name, one in house.devices.items() if one.failed} == {"lamp_2"}


def test_no_place_of_the_order_has_two_states_to_go_on_with() -> None:
    """Pieces name the place: those from before the house had machines are of another one."""
    house = WholeHouse(1, 0.0)
    device, before = house.devices["lamp_1"], 65_535
    (word,) = [one for one in device.start(house.now) if isinstance(one, SendDatagram)]
    for piece in encode_recovery(RecoveryTold(b"")):
        packet = WritePacket(RECOVERY, HexValue(HexType.BYTES65, piece))
        device.heard(MASTER, encode(HexDatagram(packet, before)), house.now)
    behind = house.master.order.number_of(house.master.order.last)
    answer = encode(HexDatagram(AckPacket(decode(word.data).number), behind))
    device.heard(MASTER, answer, house.now)
    assert behind != before and device.device.is_recovering and device.memory


def test_a_device_whose_program_is_another_one_by_now_does_not_join() -> None:
    """Its word was on its way to the journal when other machines came there."""
    house = WholeHouse(1, 0.0)
    fold, host, term = HouseFold(), HOSTS["lamp_1"].host, Term(1, 0)
    fold.fold(JournalRecord(term, LeadTaken()), house.now)
    before = DeviceJoined(host, 7, fold.order.since)
    assert fold.fold(JournalRecord(term, HouseTaken(encode_house(house.house))), house.now)
    assert not fold.fold(JournalRecord(term, before), house.now) and host not in fold.order.members
    assert fold.fold(JournalRecord(term, DeviceJoined(host, 8, fold.order.since)), house.now)
    assert fold.order.members[host].joined == 8
