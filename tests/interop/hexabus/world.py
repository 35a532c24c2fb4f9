"""A network of simulated devices for the conformance suite, in a namespace that the test's own thread enters."""

import asyncio
import contextlib
import ctypes
import os
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from albireo.codec.hexabus.values import HexType
from albireo.drill.fault.network import NetworkGround
from albireo.drill.ground import run_tool
from albireo.field.journal import JournalEntryRead, JournalPlace, Read
from albireo.model.quality import GOOD
from albireo.model.value import Value, ValueType
from albireo.plant.house.device import BadNetwork, DeviceTold, EndpointTold, SimulatedDevice
from tests.parts.field import until

INTERFACE: Final = "albhexw0"
FAR: Final = "albhexw1"
"""The other end of the cable, where nobody is."""
MASTER: Final = "fd00::1"
NEW_NETWORK: Final = 0x4000_0000
DEVICES: Final = (
    DeviceTold("button", "fd00::10", (EndpointTold("button", 4, HexType.UINT64),)),
    DeviceTold(
        "lamp",
        "fd00::11",
        (
            EndpointTold("relay", 1, HexType.BOOL, is_writable=True),
            EndpointTold("level", 80, HexType.UINT64, is_writable=True),
            EndpointTold("target", 31, HexType.FLOAT, is_writable=True),
            EndpointTold("label", 32, HexType.STRING, is_writable=True),
            EndpointTold("banded", 33, HexType.FLOAT),
        ),
    ),
)
HEARS_NO_WORD: Final = "a device hears that its event is in the journal, and no word of what is on record"
TELLS_NO_TIMES: Final = "devices tell no times"
_ENTRIES: dict[tuple[str, Path], list[tuple[int, bytes]]] = {}


class MemoryJournal:
    """Journal of an adapter beside which there is no node: entries of one directory, for all lives of it."""

    def __init__(self, name: str, place: JournalPlace | None, data: Path) -> None:
        self.trouble = ""
        self._read: Read | None = None
        self._entries = _ENTRIES.setdefault((name, data), [])

    async def open(self, read: Read) -> None:
        self._read = read
        for number in range(1, len(self._entries) + 1):
            self._tell(number)

    def put(self, data: bytes) -> None:
        self._entries.append((time.time_ns(), data))
        if self._read is not None:
            asyncio.get_running_loop().call_soon(self._tell, len(self._entries))

    def let_go(self, number: int) -> None: ...

    async def close(self) -> None:
        self._read = None

    def _tell(self, number: int) -> None:
        if self._read is not None:
            at_ns, data = self._entries[number - 1]
            self._read([JournalEntryRead(number, at_ns, 1, data)])


async def add_host(host: str) -> None:
    """Have this address on the network, and wait until datagrams reach it: the kernel makes its route a bit later."""
    run_tool("ip", "addr", "add", f"{host}/64", "dev", INTERFACE, "nodad")
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as own:
        own.setblocking(False)
        own.bind((host, 0))

        def is_reached() -> bool:
            with contextlib.suppress(OSError):
                own.sendto(b"x", own.getsockname())
                return own.recv(1) == b"x"
            return False

        await until(is_reached, host)


class HexabusWorld:
    kind = "hexabus"
    objection = NetworkGround.objection()
    quality = Path(__file__).resolve().parents[3] / "src" / "albireo" / "field" / "hexabus" / "quality.yaml"
    offered_in: Path | None = None
    journal = f"{__name__}:{MemoryJournal.__name__}"
    writes: Mapping[str, Value] = {"lamp_relay": True, "lamp_level": 40, "lamp_target": 21.5, "lamp_label": "hall"}
    told: Mapping[str, ValueType] = {
        "button_button": ValueType.INT64,
        "lamp_relay": ValueType.BOOL,
        "lamp_level": ValueType.INT64,
        "lamp_target": ValueType.FLOAT64,
        "lamp_label": ValueType.STRING,
        "lamp_banded": ValueType.FLOAT64,
    }
    banded = "lamp_banded"
    not_asked: Mapping[str, str] = {
        "test_what_was_told_has_its_source_times_and_its_word": f"{TELLS_NO_TIMES}, and {HEARS_NO_WORD}",
        "test_nothing_is_committed_before_core_says_so_and_a_deaf_core_gets_it_once": HEARS_NO_WORD,
        "test_nonsense_is_refused_or_named_and_counted_and_the_rest_goes_on": f"{TELLS_NO_TIMES}, and no row",
        "test_what_is_told_while_the_member_stands_by_is_let_go": HEARS_NO_WORD,
        "test_told_items_that_come_back_wait_for_their_next_arrival": "a device that came back is asked what it holds",
    }
    wrong_arguments: tuple[dict[str, object], ...] = (
        {"master": "10.0.0.1/24"},
        {"interface": ""},
        {"items": [{"name": "x"}]},
        {"original_resets": "some"},
        {"has_address": "perhaps"},
    )

    def __init__(self) -> None:
        self._before: int | None = None
        self._devices: list[SimulatedDevice] = []

    def arguments(self) -> dict[str, object]:
        rows = [
            {
                "name": f"{device.name}_{one.name}",
                "device": device.name,
                "address": device.host,
                "endpoint": one.name,
                "eid": str(one.eid),
                "type": one.datatype.name.lower(),
                "writable": str(one.is_writable).lower(),
                "dead_band": "1" if one.name == "banded" else "",
            }
            for device in DEVICES
            for one in device.endpoints
        ]
        return {
            "name": "a1",
            "kind": self.kind,
            "interface": INTERFACE,
            "master": f"{MASTER}/64",
            "has_address": True,
            "items": rows,
            "poll_ms": 20,
        }

    async def begin(self) -> None:
        if self._before is None:
            self._before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
            assert ctypes.CDLL(None).unshare(NEW_NETWORK) == 0
        run_tool("ip", "link", "add", INTERFACE, "type", "veth", "peer", "name", FAR)
        for link in ("lo", FAR, INTERFACE):
            run_tool("ip", "link", "set", link, "up")
        for host in (MASTER, *(one.host for one in DEVICES)):
            await add_host(host)
        self._devices = [SimulatedDevice(one, MASTER, INTERFACE, BadNetwork(), 1) for one in DEVICES]
        for one in self._devices:
            one.start()

    @property
    def is_heard(self) -> bool:
        return bool(self._devices)

    def tell(self, name: str, values: Sequence[Value], times: Sequence[int], quality: int = GOOD) -> int:
        """An endpoint changes; the device has neither times nor qualities."""
        device, _, endpoint = name.partition("_")
        place = [one.name for one in DEVICES].index(device)
        eid = next(one.eid for one in DEVICES[place].endpoints if one.name == endpoint)
        for value in values:
            self._devices[place].word(msgspec.json.encode({"eid": eid, "value": value}))
        return 0

    async def lose(self) -> None:
        for one in self._devices:
            one.close()
        self._devices = []
        run_tool("ip", "link", "del", INTERFACE)

    async def end(self) -> None:
        for one in self._devices:
            one.close()
        self.leave()

    def leave(self) -> None:
        """Go back to the network of the machine, whatever a test has left open."""
        if self._before is not None:
            assert ctypes.CDLL(None).setns(self._before, NEW_NETWORK) == 0
            os.close(self._before)
            self._before = None


WORLD = HexabusWorld
