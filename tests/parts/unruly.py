"""A Modbus adapter at an unruly device, in one loop, with seconds that pass between polls when a test says so."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from albireo.field.contract import DeviceLost, PolledColumns
from albireo.field.kinds import Surroundings, create_adapter
from albireo.field.modbus.adapter import Modbus
from albireo.model.instant import SECOND, Instant
from albireo.model.quality import GOOD
from albireo.model.samples import Strings
from albireo.plant.unruly.cases import ADDRESSES
from albireo.plant.unruly.device import COUNTER, Manner, UnrulyDevice

TIMEOUT_S: Final = 0.1
"""Longest wait of the adapter for one answer, by the loop's clock."""


def rows_of(units: Mapping[int, Sequence[int]]) -> list[dict[str, str]]:
    """A table of holding registers, by unit."""
    return [
        {"name": f"u{unit}_{one}", "kind": "holding", "address": str(one), "device_id": str(unit), "writable": "true"}
        for unit, addresses in units.items()
        for one in addresses
    ]


class UnrulySite:
    """The device, the adapter, and what COMM does when the device is lost."""

    def __init__(
        self,
        manners: Mapping[int, Manner],
        units: Mapping[int, Sequence[int]] | None = None,
        **arguments: object,
    ) -> None:
        """
        Args:
            units: addresses that the adapter polls; those of `ADDRESSES` of every unit unless said otherwise.
            arguments: of the adapter, beyond its address and its table.
        """
        self.device = UnrulyDevice(manners)
        self.adapter: Modbus
        self.losses = 0
        self.reason = ""
        """That of the last loss."""
        self._places = [(u, one) for u, them in (units or dict.fromkeys(manners, ADDRESSES)).items() for one in them]
        self._rows = rows_of(units or dict.fromkeys(manners, ADDRESSES))
        self._arguments = arguments
        self._ahead_s = 0.0
        self._is_connected = False

    def now(self) -> Instant:
        return Instant(int((asyncio.get_running_loop().time() + self._ahead_s) * SECOND))

    async def __aenter__(self) -> Self:
        await self.device.start()
        self.move_to(self.device.port)
        return self

    def move_to(self, port: int) -> None:
        """A new adapter, for whoever listens there."""
        arguments: dict[str, Any] = {
            "name": "a1", "kind": "modbus", "url": f"tcp://127.0.0.1:{port}", "items": self._rows,
            "timeout_ms": int(TIMEOUT_S * 1_000), **self._arguments,
        }  # fmt: skip
        adapter = create_adapter(arguments, Surroundings(Path(), self.now))
        assert isinstance(adapter, Modbus)
        self.adapter = adapter

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.adapter.close()
        await self.device.stop()

    def pass_s(self, seconds: float) -> None:
        """Time passes for the adapter; nobody waits."""
        self._ahead_s += seconds

    async def poll(self, period_s: float = 1.0) -> dict[tuple[int, int], int | None]:
        """(unit, address) -> value that is good, or None, of one poll; the next begins a period later."""
        began = asyncio.get_running_loop().time()
        try:
            if not self._is_connected:
                await self.adapter.connect()
                self._is_connected = True
            shown = self._shown(await self.adapter.poll())
        except DeviceLost as lost:
            self.losses += 1
            self.reason = lost.reason
            await self.lose()
            shown = dict.fromkeys(self._places)
        self.pass_s(max(0.0, period_s - (asyncio.get_running_loop().time() - began)))
        return shown

    async def lose(self) -> None:
        """The connection ends; the next poll makes another one."""
        await self.adapter.close()
        self._is_connected = False

    def is_right(self, place: tuple[int, int], value: int) -> bool:
        """Whether the device holds `value` there; its counter may have gone on since."""
        holds = self.device.holds(*place)
        return 0 < value <= holds if place[1] == COUNTER else value == holds

    def asked_of(self, *units: int) -> int:
        """Requests to these units so far."""
        return sum(one.unit in units for one in self.device.asked)

    def _shown(self, polled: Sequence[PolledColumns]) -> dict[tuple[int, int], int | None]:
        shown: dict[tuple[int, int], int | None] = dict.fromkeys(self._places)
        for column in polled:
            assert not isinstance(column.value, Strings)
            for row, value, quality in zip(column.rows, column.value, column.quality, strict=True):
                shown[self._places[row]] = int(value) if quality == GOOD else None
        return shown
