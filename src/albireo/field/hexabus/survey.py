"""Survey of a Hexabus network: who is there, and which endpoints each has, asked one after the other.

    EP_PROP_QUERY 0, property 0 --> the next endpoint --> ... --> 0
    of each: EPQUERY --> name and datatype; EP_PROP_QUERY of each property --> its value, and the next property

Nothing is written. All devices are asked at the same time, each one question after the other.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from ipaddress import IPv6Address
from random import Random
from typing import Final

import msgspec

from albireo.codec.hexabus.packets import (
    EndpointQueryPacket,
    EndpointReportPacket,
    HexPacket,
    PropertyQueryPacket,
    PropertyReportPacket,
    QueryPacket,
    ReportPacket,
)
from albireo.codec.hexabus.values import HexScalar, HexType
from albireo.field.hexabus.sockets import Came, HexSocket, open_socket
from albireo.machine.hexabus.asking import ASK_WAITS, GROUP_WAITS, HexAnswer, QuestionToMany
from albireo.machine.hexabus.device import HexAddress
from albireo.machine.hexabus.endpoints import DEVICE, NEXT_ENDPOINT
from albireo.machine.hexabus.rows import following
from albireo.model.instant import SECOND
from albireo.runtime.clock import boot_ns

FIND_WAITS: Final = 3 * GROUP_WAITS
"""Who does not answer here is not found, so the group is asked more often than for a value."""
ENDPOINTS_MAX: Final = 256
"""Endpoints of a device, and properties of an endpoint, that are asked for."""


class FoundEndpoint(msgspec.Struct, frozen=True):
    """An endpoint as the device tells of it."""

    eid: int
    name: str
    datatype: HexType
    properties: dict[int, HexScalar]


class FoundDevice(msgspec.Struct, frozen=True):
    """A device that was asked."""

    host: str
    name: str
    """Value of its endpoint 0."""
    endpoints: tuple[FoundEndpoint, ...]
    trouble: str = ""
    """Why endpoints or properties are missing; empty: none are."""


class HexAsking:
    """A socket for questions to any devices of an interface."""

    def __init__(self, interface: str, draw: Random) -> None:
        """Raises OSError: there is no such interface."""
        self._interface = interface
        self._socket = HexSocket(open_socket(interface, "::", 0), self._heard)
        self._number = draw.randint(1, 0xFFFF)
        self._under_way: dict[QuestionToMany, asyncio.Event] = {}

    def close(self) -> None:
        self._socket.close()

    async def ask(
        self, packet: HexPacket, hosts: Sequence[str] = (), waits: Sequence[int] = ()
    ) -> dict[str, HexAnswer]:
        """Answers by host. `hosts`: none: whoever is there. `waits`: none: the usual ones."""
        self._number = following(self._number)
        waits = waits or (ASK_WAITS if hosts else GROUP_WAITS)
        question, came = QuestionToMany(packet, self._number, hosts, self._send, waits), asyncio.Event()
        self._under_way[question] = came
        question.begin(boot_ns())
        try:
            while (due := question.deadline()) is not None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(0.0, (due - boot_ns()) / SECOND)):
                        await came.wait()
                came.clear()
                question.time_passed(boot_ns())
        finally:
            del self._under_way[question]
        return question.answers

    async def survey(self, hosts: Sequence[str] = ()) -> list[FoundDevice]:
        """Devices with their endpoints. `hosts`: none: whoever is there."""
        if not hosts:
            found = await self.ask(PropertyQueryPacket(DEVICE, NEXT_ENDPOINT), waits=FIND_WAITS)
            hosts = sorted(found, key=IPv6Address)
        return list(await asyncio.gather(*map(self._device, hosts)))

    def _send(self, to: HexAddress, data: bytes) -> None:
        is_local = IPv6Address(to.host).is_link_local
        self._socket.send(HexAddress(f"{to.host}%{self._interface}", to.port) if is_local else to, data)

    def _heard(self, came: Came, _: bool) -> None:
        for source, data in came:
            self._take(source, data)

    def _take(self, source: HexAddress, data: bytes) -> None:
        for question, came in self._under_way.items():
            question.heard(source, data)
            came.set()

    async def _device(self, host: str) -> FoundDevice:
        told = (await self.ask(QueryPacket(DEVICE), [host])).get(host)
        name = str(told.value.value) if isinstance(told, ReportPacket) else ""
        endpoints: list[FoundEndpoint] = []
        eid, trouble = DEVICE, "" if told is not None else "it does not answer"
        while not trouble and len(endpoints) < ENDPOINTS_MAX:
            link = (await self.ask(PropertyQueryPacket(eid, NEXT_ENDPOINT), [host])).get(host)
            if not isinstance(link, PropertyReportPacket) or not isinstance(link.value.value, int):
                trouble = f"it does not tell which endpoint follows {eid}"
                continue
            if eid != DEVICE:
                one = await self._endpoint(host, eid, link.next_id)
                endpoints += [] if one is None else [one]
                trouble = f"it does not tell what its endpoint {eid} is" if one is None else ""
            if link.value.value <= eid:
                break
            eid = link.value.value
        return FoundDevice(host, name, tuple(endpoints), trouble)

    async def _endpoint(self, host: str, eid: int, first: int) -> FoundEndpoint | None:
        """An endpoint; `first`: its first property, 0: it has none. None: it is not told of."""
        told = (await self.ask(EndpointQueryPacket(eid), [host])).get(host)
        if not isinstance(told, EndpointReportPacket):
            return None
        properties: dict[int, HexScalar] = {}
        one = first
        while one and one not in properties and len(properties) < ENDPOINTS_MAX:
            report = (await self.ask(PropertyQueryPacket(eid, one), [host])).get(host)
            if not isinstance(report, PropertyReportPacket):
                return None
            properties[one] = report.value.value
            one = report.next_id
        return FoundEndpoint(eid, told.name, told.datatype, properties)
