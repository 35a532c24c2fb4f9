"""Survey of a Hexabus network: who is there, and which endpoints each has, asked one after the other.

    EP_PROP_QUERY 0, property 0 --> the next endpoint --> ... --> 0
    of each: EPQUERY --> name and datatype; EP_PROP_QUERY of each property --> its value, and the next property

Nothing is written. All devices are asked at the same time, each one question after the other.
"""

import asyncio
from collections.abc import Sequence
from ipaddress import IPv6Address
from typing import Final

import msgspec

from albireo.codec.hexabus.packets import (
    EndpointQueryPacket,
    EndpointReportPacket,
    PropertyQueryPacket,
    PropertyReportPacket,
    QueryPacket,
    ReportPacket,
)
from albireo.codec.hexabus.values import HexScalar, HexType
from albireo.field.hexabus.aside import HexAsking
from albireo.machine.hexabus.asking import GROUP_WAITS
from albireo.machine.hexabus.endpoints import DEVICE, NEXT_ENDPOINT

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


class HexSurvey(HexAsking):
    """Questions of somebody who does not know the network."""

    async def survey(self, hosts: Sequence[str] = ()) -> list[FoundDevice]:
        """Devices with their endpoints. `hosts`: none: whoever is there."""
        if not hosts:
            found = await self.ask(PropertyQueryPacket(DEVICE, NEXT_ENDPOINT), waits=FIND_WAITS)
            hosts = sorted(found, key=IPv6Address)
        return list(await asyncio.gather(*map(self._device, hosts)))

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
