"""A device of the original firmware at the real adapter, over real sockets: it joins, is written, and is a case."""

import asyncio
from collections.abc import Iterator
from ipaddress import IPv6Address
from pathlib import Path

import pytest

from albireo.codec.hexabus.house import House, HouseDevice, HouseEndpoint, encode_house
from albireo.codec.hexabus.journal import BY_HAND, HouseTaken, JournalRecord, encode_record
from albireo.codec.hexabus.packets import GROUP, PORT
from albireo.codec.hexabus.values import HexType
from albireo.field.contract import GOES_ON, WriteTenure
from albireo.field.hexabus.adapter import Hexabus
from albireo.field.hexabus.sockets import Came, HexSocket, open_socket
from albireo.field.kinds import Surroundings, create_adapter
from albireo.machine.hexabus import Machine, at, when
from albireo.machine.hexabus.compiler import compiled
from albireo.machine.hexabus.device import DeviceEffect, HexAddress, SendDatagram
from albireo.machine.hexabus.endpoints import RELAY, Endpoint
from albireo.machine.hexabus.rows import HOUSE_NUMBERS
from albireo.model.command import Outcome
from albireo.runtime.clock import boot_ns
from tests.interop.hexabus.world import INTERFACE, MASTER, HexabusWorld, MemoryJournal, add_host
from tests.parts.field import in_loop, until
from tests.parts.hexabus_original import OriginalDevice

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(HexabusWorld.objection), reason=HexabusWorld.objection)]
HOST, BUTTON = "fd00::12", "fd00::10"
ROW = {
    "name": "old_relay",
    "device": "old",
    "address": HOST,
    "endpoint": "relay",
    "eid": "1",
    "type": "bool",
    "writable": "true",
    "original": "true",
}


def house() -> House:
    devices = {
        "old": HouseDevice(IPv6Address(HOST).packed, {"relay": HouseEndpoint(RELAY, HexType.BOOL)}),
        "button": HouseDevice(IPv6Address(BUTTON).packed, {"button": HouseEndpoint(4, HexType.UINT8)}),
    }
    stairs = Machine("stairs", state="dark")
    stairs.on("dark", when("button", "button") == 1, at("old").write("relay", True), go="lit")
    return House(devices, [stairs], IPv6Address(MASTER).packed)


class WiredOriginal:
    """The device on sockets."""

    def __init__(self) -> None:
        relay = Endpoint(RELAY, "relay", HexType.BOOL, False, is_writable=True)
        program = compiled(house(), "old")
        self.device = OriginalDevice(relay, IPv6Address(HOST).packed, HexAddress(MASTER), program, lambda: 40_000)
        self._loop = asyncio.get_running_loop()
        self._sockets = [
            HexSocket(open_socket(INTERFACE, HOST, PORT), self._came),
            HexSocket(open_socket(INTERFACE, GROUP, PORT), self._came, is_group=True),
        ]
        self._do(self.device.start(boot_ns()))
        self._timer = self._loop.call_later(0.05, self._ring)

    def close(self) -> None:
        self._timer.cancel()
        for one in self._sockets:
            one.close()

    def _came(self, came: Came, is_group: bool) -> None:
        for source, data in came:
            if source.host != HOST:
                self._do(self.device.heard(source, data, boot_ns(), is_group=is_group))

    def _ring(self) -> None:
        self._do(self.device.time_passed(boot_ns()))
        self._timer = self._loop.call_later(0.05, self._ring)

    def _do(self, effects: list[DeviceEffect]) -> None:
        for one in effects:
            if isinstance(one, SendDatagram):
                self._sockets[0].send(one.to, one.data)


@pytest.fixture
def world() -> Iterator[HexabusWorld]:
    made = HexabusWorld()
    yield made
    made.leave()


@pytest.mark.parametrize("resets", ["alone", "all"])
def test_an_original_that_comes_back_is_reset_as_the_setting_says_and_is_a_case(
    world: HexabusWorld, resets: str, tmp_path: Path
) -> None:
    async def story() -> None:
        await world.begin()
        await add_host(HOST)
        old = WiredOriginal()
        journal = MemoryJournal("a1", None, tmp_path)
        journal.put(encode_record(JournalRecord(BY_HAND, HouseTaken(encode_house(house())))))
        arguments = world.arguments()
        rows = [one for one in arguments["items"] if one["device"] == "button"]  # type: ignore[attr-defined]
        arguments |= {"items": [*rows, ROW], "original_resets": resets}
        adapter = create_adapter(arguments, Surroundings(tmp_path, boot_ns, journal=lambda: journal))
        assert isinstance(adapter, Hexabus)
        adapter.led(WriteTenure(epoch=1, member=0, is_paired=False), lambda: GOES_ON)
        await adapter.connect()

        async def polls() -> None:
            while True:
                await adapter.poll()
                await asyncio.sleep(0.02)

        polling = asyncio.create_task(polls())
        try:
            await until(lambda: adapter.counters()["members"] == 2, "both join")
            assert adapter.conditions()["reset_old"] is (resets == "all")
            world.tell("button_button", [1], [0])
            await until(lambda: old.device.endpoints.find(RELAY).value is True, "it acts")  # type: ignore[union-attr]
            written = await adapter.write(1, False, lambda: GOES_ON)
            assert written.outcome is Outcome.VERIFIED
            old.close()
            await until(lambda: adapter.conditions()["lost_old"], "it is lost")
            old = WiredOriginal()
            began = old.device.resets
            await until(lambda: not adapter.conditions()["lost_old"], "it is back")
            await until(lambda: adapter.conditions()["reset_old"], "so says the case")
            await until(lambda: old.device.resets > began, "it was reset")
            resets_of_all = adapter._fold.order.since > 1 + HOUSE_NUMBERS
            assert resets_of_all is (resets == "all"), "and the other one with it, or not"
        finally:
            polling.cancel()
            await asyncio.gather(polling, return_exceptions=True)
            await adapter.close()
            old.close()
            await world.end()

    in_loop(story)
