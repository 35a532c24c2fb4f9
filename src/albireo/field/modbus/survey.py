"""Survey of an unknown Modbus device: which addresses answer, and what they probably hold.

What it does not do: write to the device, or know. Types are guesses out of a few looks at the same registers, and are
marked as guesses; a manual beats them.

The idea: a device refuses a read that touches one address it does not have, so a refused block says little. The search
therefore looks at single addresses in a grid, and from each that answers finds the stretch around it by halving: few
requests on an empty device, few on a full one, none missed that is longer than the grid.

Politeness: one request at a time, a pause after each, a bound on their number (`SurveyLimits`).

`Surveyor` is handed the two calls that touch the device and the clock; the guesses are made in `guessing.py`.
"""

import asyncio
import struct
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from albireo.field.contract import DeviceLost
from albireo.field.modbus.answers import DataReply, Silence
from albireo.field.modbus.guessing import Guess, RegisterStretch, guess
from albireo.field.modbus.items import TableKind
from albireo.field.modbus.wire import Wire

BLOCK_MAX: Final[dict[TableKind, int]] = {
    TableKind.HOLDING: 120,
    TableKind.INPUT: 120,
    TableKind.COIL: 960,
    TableKind.DISCRETE: 960,
}
"""Addresses of one read; the protocol allows 125 registers and 2000 bits, some devices less."""
LOOKS: Final = 4
"""Looks at everything that was found, so that counters are told from noise."""
SILENCES_MAX: Final = 3
"""Requests without an answer, one after another, after which the device counts as gone."""
ZEROS_MIN: Final = 8
"""So many zero registers in a row, twice read, count as unused."""
FALSE_MIN: Final = 64
"""FALSE_MIN for bits, many of which are false in a plant that is well."""

Read = Callable[[TableKind, int, int], Awaitable[Sequence[int] | None]]
"""(kind, address, count) -> values, or None when the device refuses. Raises DeviceLost when it does not answer."""
Progress = Callable[[str], None]


class SurveyLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a survey."""

    address_max: int = 2_000
    """Last address looked at in each table."""
    grid: int = 16
    """Distance of the single looks; the first `dense_until` addresses have `dense_grid`."""
    dense_until: int = 128
    dense_grid: int = 4
    requests_max: int = 2_000
    """Requests of the whole survey; the rest is not looked at, and the survey says so."""
    items_max: int = 2_000


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """Findings of a survey."""

    guesses: tuple[Guess, ...]
    requests: int
    is_complete: bool
    """False: a limit ended it."""
    skipped: int
    """Addresses that answered with nothing but zeros, in a long row."""


class OutOfRequests(Exception):
    """The bound on requests is reached."""


class Surveyor:
    """One survey of one device."""

    def __init__(self, read: Read, limits: SurveyLimits, progress: Progress) -> None:
        self._device = read
        self._limits = limits
        self._progress = progress
        self.requests = 0

    async def look(self, pause: Callable[[], Awaitable[None]], *, keeps_zeros: bool = False) -> Survey:
        """Survey all four tables.

        Args:
            pause: waits between two looks at what was found, so that changing values change.
        Raises:
            DeviceLost: the device went away meanwhile.
        """
        found: list[RegisterStretch] = []
        is_complete = True
        for kind in (TableKind.HOLDING, TableKind.INPUT, TableKind.COIL, TableKind.DISCRETE):
            self._progress(f"{kind.value}: looking for addresses that answer")
            try:
                found += await self.stretches(kind)
            except OutOfRequests as end:
                found += end.args[0]
                is_complete = False
        looks = [[await self._values(stretch) for stretch in found]]
        for _ in range(LOOKS - 1):
            await pause()
            looks.append([await self._values(stretch) for stretch in found])
        guesses: list[Guess] = []
        skipped = 0
        for stretch, *seen in zip(found, *looks, strict=True):
            values = [one for one in seen if one is not None]
            if len(values) < LOOKS:
                is_complete = False
                continue
            zeros_min = FALSE_MIN if stretch.kind.is_bits else ZEROS_MIN
            kept = range(stretch.count) if keeps_zeros else used(values[0], values[-1], zeros_min)
            skipped += stretch.count - len(kept)
            guesses += guess(stretch, values, kept)
        is_complete = is_complete and len(guesses) <= self._limits.items_max
        kept_guesses = tuple(guesses[: self._limits.items_max])
        return Survey(guesses=kept_guesses, requests=self.requests, is_complete=is_complete, skipped=skipped)

    async def stretches(self, kind: TableKind) -> list[RegisterStretch]:
        """Stretches of addresses of one table that answer, lowest first.

        Raises:
            OutOfRequests: with the stretches found so far as its argument.
        """
        found: list[RegisterStretch] = []
        address = 0
        try:
            while address <= self._limits.address_max:
                if await self._answers(kind, address, 1):
                    low = found[-1].first + found[-1].count if found else 0
                    first = await self._first_of_stretch(kind, max(low, address - self._grid(address) + 1), address)
                    end = await self._end_of_stretch(kind, address)
                    found.append(RegisterStretch(kind, first, end - first))
                    self._progress(f"{kind.value}: {first}..{end - 1}")
                    address = end + 1
                else:
                    address += self._grid(address)
        except OutOfRequests:
            raise OutOfRequests(found) from None
        return found

    def _grid(self, address: int) -> int:
        return self._limits.dense_grid if address < self._limits.dense_until else self._limits.grid

    async def _first_of_stretch(self, kind: TableKind, low: int, address: int) -> int:
        """Lowest address from which on all up to `address` answer; looks back to `low` at most."""
        first, refused = address, low - 1
        while first - refused > 1:
            middle = (first + refused) // 2
            if await self._answers(kind, middle, first - middle):
                first = middle
            else:
                refused = middle
        return first

    async def _end_of_stretch(self, kind: TableKind, address: int) -> int:
        """First address above `address` that does not answer."""
        end = address + 1
        most = self._limits.address_max + 1
        while end < most:
            step = min(BLOCK_MAX[kind], most - end)
            if await self._answers(kind, end, step):
                end += step
                continue
            low, high = 0, step
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if await self._answers(kind, end, middle) else (low, middle)
            return end + low
        return end

    async def _answers(self, kind: TableKind, address: int, count: int) -> bool:
        return await self._ask(kind, address, count) is not None

    async def _ask(self, kind: TableKind, address: int, count: int) -> Sequence[int] | None:
        if self.requests >= self._limits.requests_max:
            raise OutOfRequests
        self.requests += 1
        return await self._device(kind, address, count)

    async def _values(self, stretch: RegisterStretch) -> list[int] | None:
        """Everything in the stretch; None when the device refuses now what it gave before. Not counted as search."""
        values: list[int] = []
        while len(values) < stretch.count:
            count = min(BLOCK_MAX[stretch.kind], stretch.count - len(values))
            self.requests += 1
            part = await self._device(stretch.kind, stretch.first + len(values), count)
            if part is None:
                return None
            values += part[:count]
        return values


def used(before: Sequence[int], after: Sequence[int], zeros_min: int) -> list[int]:
    """Indexes that are not part of `zeros_min` or more zeros in a row."""
    kept: list[int] = []
    zeros: list[int] = []
    for index, both in enumerate(zip(before, after, strict=True)):
        if not any(both):
            zeros.append(index)
            continue
        kept += zeros if len(zeros) < zeros_min else []
        kept.append(index)
        zeros = []
    return kept + (zeros if len(zeros) < zeros_min else [])


def device_reader(wire: Wire, device_id: int, pause_s: float) -> Read:
    """Reads for a `Surveyor` through one connection, with a pause after each.

    A device that is silent for some request has thereby refused it: some do not answer for what they lack. Only
    SILENCES_MAX in a row mean that nobody is there.
    """
    silences = 0

    async def read(kind: TableKind, address: int, count: int) -> Sequence[int] | None:
        nonlocal silences
        answer = await wire.read(kind, device_id, address, count)
        await asyncio.sleep(pause_s)
        silences = silences + 1 if isinstance(answer, Silence) else 0
        if silences >= SILENCES_MAX:
            raise DeviceLost(f"no answer to {SILENCES_MAX} requests in a row")
        if not isinstance(answer, DataReply):
            return None
        if kind.is_bits:
            return [answer.data[bit // 8] >> (bit % 8) & 1 for bit in range(count)]
        return list(struct.unpack(f">{count}H", answer.data))

    return read
