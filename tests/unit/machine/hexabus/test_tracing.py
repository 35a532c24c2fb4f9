"""Trace of the order: each item once and in its order, with names and states; gaps and assumptions are told."""

from ipaddress import IPv6Address

from albireo.codec.hexabus.house import House
from albireo.codec.hexabus.packets import (
    CONN_RESET,
    NUMBER_MAX,
    RELIABLE,
    WANT_UL_ACK,
    HexDatagram,
    PInfoPacket,
    encode,
)
from albireo.codec.hexabus.values import HexType, HexValue
from albireo.machine.hexabus import Machine, after, at, clock, when
from albireo.machine.hexabus.compiler import TIMER
from albireo.machine.hexabus.device import START_UP, HexAddress
from albireo.machine.hexabus.endpoints import FAILED
from albireo.machine.hexabus.tracing import GAP_NS, HouseTrace, StateEntered
from albireo.model.instant import Instant
from tests.parts.compiled_house import MASTER, devices_of

MASTER_AT = HexAddress(str(IPv6Address(MASTER)))
ITEM = WANT_UL_ACK | RELIABLE


def stairs() -> Machine:
    made = Machine("stairs", state="dark")
    made.on("dark", when("button", "button") == 1, at("lamp").write("relay", True), go="lit")
    made.on("lit", after(90), at("lamp").write("relay", False), go="dark")
    made.on("lit", when("button", "button") == 2, go="lit")
    made.on("lit", clock("06:30"), go="dark")
    return made


class Heard:
    """A trace of a house, and what it tells."""

    def __init__(self) -> None:
        self.house = House(devices_of({"button": "button", "lamp": "relay"}), [stairs()], MASTER)
        self.trace = HouseTrace(self.house, Instant(0))
        self.now = Instant(0)

    def item(self, number: int, value: int = 1, flags: int = ITEM, source: HexAddress = MASTER_AT) -> list[str]:
        origin = self.house.devices["button"].origin
        packet = PInfoPacket(4, HexValue(HexType.UINT8, value), origin)
        return self.datagram(HexDatagram(packet, number, flags), source)

    def timer(self, number: int, value: int, origin: bytes = MASTER, eid: int = TIMER) -> list[str]:
        return self.datagram(HexDatagram(PInfoPacket(eid, HexValue(HexType.UINT32, value), origin), number, ITEM))

    def reset(self, number: int = 1) -> list[str]:
        return self.datagram(HexDatagram(START_UP, number, RELIABLE | CONN_RESET))

    def datagram(self, datagram: HexDatagram, source: HexAddress = MASTER_AT) -> list[str]:
        return self._lines(self.trace.heard(source, encode(datagram), self.now))

    def wait(self, ns: int) -> list[str]:
        self.now = Instant(self.now + ns)
        return self._lines(self.trace.time_passed(self.now))

    @staticmethod
    def _lines(found: list) -> list[str]:  # type: ignore[type-arg]  # Events of the trace.
        lines = []
        for one in found:
            lines += [f"missed {one.missed}"] if one.missed else []
            states = " ".join(f"{'' if one.is_sure else '?'}{state.before}>{state.after}" for state in one.states)
            lines.append(f"{one.number} {one.event} {states}".rstrip())
        return lines


def test_repeats_of_an_item_are_left_out_by_its_number() -> None:
    """D10: tools of the original show each copy. D11: they do not know the ordered stream at all."""
    heard = Heard()
    assert heard.reset() == ["1 reset: all machines begin anew"]
    assert heard.reset() == []
    assert heard.item(2) == ["2 button.button = 1 dark>lit"]
    assert heard.item(2) == [] == heard.item(2)
    assert heard.item(3) == ["3 button.button = 1"], "the same value once more is another event"
    assert heard.trace.repeated == 3


def test_states_are_assumed_until_the_order_begins_anew() -> None:
    heard = Heard()
    assert heard.item(70) == ["70 button.button = 1 ?dark>lit"]
    heard.reset()
    assert heard.item(2) == ["2 button.button = 1 dark>lit"]


def test_an_item_that_comes_too_early_waits_for_its_place() -> None:
    heard = Heard()
    heard.reset()
    assert heard.item(3, 2) == []
    assert heard.item(4, 7) == []
    assert heard.item(2) == ["2 button.button = 1 dark>lit", "3 button.button = 2 lit>lit", "4 button.button = 7"]
    assert heard.trace.deadline() is None


def test_what_lacks_too_long_is_told_as_a_gap_and_states_are_assumed_behind_it() -> None:
    heard = Heard()
    heard.reset()
    assert heard.item(4) == []
    assert heard.wait(GAP_NS - 1) == []
    assert heard.wait(1) == ["missed 2", "4 button.button = 1 ?dark>lit"]
    assert heard.item(5, 2) == ["5 button.button = 2 ?lit>lit"]


def test_items_that_are_too_far_apart_to_be_under_way_together_are_a_gap_at_once() -> None:
    heard = Heard()
    heard.reset()
    assert heard.item(17) == []
    assert heard.item(18) == ["missed 15", "17 button.button = 1 ?dark>lit", "18 button.button = 1"]


def test_another_reset_has_another_number() -> None:
    heard = Heard()
    heard.reset()
    heard.item(2)
    assert heard.reset() == [], "a copy"
    assert heard.reset(3) == ["3 reset: all machines begin anew"]
    assert heard.item(4) == ["4 button.button = 1 dark>lit"]


def test_numbers_wrap_without_a_gap() -> None:
    heard = Heard()
    assert heard.item(NUMBER_MAX) == [f"{NUMBER_MAX} button.button = 1 ?dark>lit"]
    assert heard.item(1, 2) == ["1 button.button = 2 ?lit>lit"]
    assert heard.item(NUMBER_MAX) == []


def test_nobody_but_the_master_is_believed_about_the_order() -> None:
    heard = Heard()
    assert heard.item(1, source=HexAddress("fd00::66")) == []
    assert heard.item(1, flags=0) == []
    assert heard.trace.heard(MASTER_AT, b"HX0C", heard.now) == []
    assert heard.item(1) == ["1 button.button = 1 ?dark>lit"]


def test_time_and_failed_writes_are_told_in_words() -> None:
    heard = Heard()
    heard.reset()
    heard.item(2)
    lamp = heard.house.devices["lamp"].origin
    assert heard.timer(3, 1, lamp, FAILED) == ["3 lamp could not write relay"]
    assert heard.timer(4, 0 << 24 | 1 << 16 | 1) == ["4 stairs: 90 s in lit lit>dark"]
    assert heard.timer(5, 255 << 24 | 0 << 16 | 9) == ["5 clock 06:30"]
    assert heard.timer(6, 9 << 24) == ["6 time 0x9000000, which is none of this house"]
    assert heard.timer(7, 5, bytes(15) + b"\x99", 30) == ["7 ::99.30 = 5"]
    assert str(StateEntered("stairs", "dark", "lit")) == "stairs: dark -> lit"
