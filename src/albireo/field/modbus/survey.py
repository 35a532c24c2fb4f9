"""Survey of an unknown Modbus device: which addresses answer, and what they probably hold.

What it does not do: write to the device, or know. Types are guesses out of a few looks at the same registers, and are
marked as guesses; a manual beats them.

The idea: a device refuses a read that touches one address it does not have, or that asks for more than it gives at
once, so a refused block says little. The search therefore looks at addresses alone - at each of the first ones, in a
grid behind - and from one that answers reaches out to both sides by halving. Where a block ends, the next address alone
tells whether it was the end or a limit of the count; the last one alone tells whether the device reads past its end.
Registers that are only given in pairs are looked at in pairs.

    few requests on an empty device, few on a full one; no run is missed that is longer than the grid, and none at all
    where the grid is 1

Politeness: one request at a time, a pause after each, a bound on their number (`SurveyLimits`).

`Surveyor` is handed the two calls that touch the device and the clock; the guesses are made in `guessing.py`.
"""

from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import Final

import msgspec

from albireo.field.modbus.guessing import Guess, RegisterStretch, guess, word_order_of
from albireo.field.modbus.items import TableKind

BLOCK_MAX: Final[dict[TableKind, int]] = {
    TableKind.HOLDING: 120,
    TableKind.INPUT: 120,
    TableKind.COIL: 960,
    TableKind.DISCRETE: 960,
}
"""Addresses of one read; the protocol allows 125 registers and 2000 bits, some devices less."""
LOOKS: Final = 4
"""Looks at everything that was found, so that counters are told from noise."""
ZEROS_MIN: Final = 8
"""So many zero registers in a row, twice read, count as unused."""
FALSE_MIN: Final = 64
"""So many bits: in a plant that is well many of them are false."""


class NotGiven(Enum):
    """Kinds of answers without values."""

    REFUSED = "refused"
    BUSY = "busy"
    """Still busy, after it was asked again some times: nobody knows whether it has it."""


class SurveyEnds(Exception):
    """A limit is reached; the argument says which."""


Read = Callable[[TableKind, int, int], Awaitable[Sequence[int] | NotGiven]]
"""(kind, address, count) -> values, or why there are none.

Raises DeviceLost when the device is gone, SurveyEnds when this table has taken too long.
"""
Progress = Callable[[str], None]


class SurveyLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a survey."""

    address_max: int = 2_000
    """Last address looked at in each table."""
    grid: int = 16
    """Distance of the single looks behind the first `dense_until` addresses, each of which is looked at."""
    dense_until: int = 128
    requests_max: int = 4_000
    """Requests of the whole survey; the rest is not looked at, and the survey says so."""
    items_max: int = 2_000

    @classmethod
    def every(cls, address_max: int) -> "SurveyLimits":
        """Each address is looked at, whatever it costs."""
        return cls(address_max=address_max, grid=1, requests_max=16 * (address_max + 1))


class TableSurvey(msgspec.Struct, kw_only=True):
    """One table of the device."""

    kind: TableKind
    found: int = 0
    """Addresses that answered."""
    looked_until: int = 0
    """First address that was not looked at any more."""
    ended: str = ""
    """Why the search ended there."""
    complete: bool = True
    """Each address was looked at, alone or in a block that was given, and all were told apart."""


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """Findings of a survey."""

    guesses: tuple[Guess, ...]
    tables: tuple[TableSurvey, ...]
    requests: int
    is_complete: bool
    """Nothing can have been missed up to the last address."""
    skipped: int
    """Addresses that answered with nothing but zeros, in a long row."""

    def told(self) -> dict[str, object]:
        """Account of the search, for programs."""
        return {"requests": self.requests, "tables": self.tables}


class Surveyor:
    """One survey of one device."""

    def __init__(self, read: Read, limits: SurveyLimits, progress: Progress) -> None:
        self._device = read
        self._limits = limits
        self._progress = progress
        self._most = dict(BLOCK_MAX)
        """Addresses that the device gives at once, as far as is known."""
        self._is_unsettled = False
        self.requests = 0

    async def look(self, pause: Callable[[], Awaitable[None]], *, keeps_zeros: bool = False) -> Survey:
        """Survey all four tables.

        Args:
            pause: waits between two looks at what was found, so that changing values change.
        Raises:
            DeviceLost: the device went away meanwhile.
        """
        found: list[RegisterStretch] = []
        tables: dict[TableKind, TableSurvey] = {}
        for kind in (TableKind.HOLDING, TableKind.INPUT, TableKind.COIL, TableKind.DISCRETE):
            self._progress(f"{kind.value}: looking for addresses that answer")
            tables[kind] = TableSurvey(kind=kind)
            found += await self.stretches(tables[kind])
        looks = [[await self._values(stretch) for stretch in found]]
        for _ in range(LOOKS - 1):
            await pause()
            looks.append([await self._values(stretch) for stretch in found])
        seen: list[tuple[RegisterStretch, list[list[int]], Sequence[int]]] = []
        skipped = 0
        for stretch, *values in zip(found, *looks, strict=True):
            for part, steady in _steady(stretch, values):
                kept = range(part.count) if keeps_zeros else used(part, steady[0], steady[-1])
                skipped += part.count - len(kept)
                tables[part.kind].found += part.count
                seen.append((part, steady, kept))
        for one in tables.values():
            lost = sum(stretch.count for stretch in found if stretch.kind is one.kind) - one.found
            if lost:
                one.complete, one.ended = False, f"{one.ended}; {lost} addresses answered and then no more"
        order = word_order_of([(part, steady) for part, steady, _ in seen])
        guesses = [one for part, steady, kept in seen for one in guess(part, steady, kept, order)]
        return Survey(
            guesses=tuple(guesses[: self._limits.items_max]),
            tables=tuple(tables.values()),
            requests=self.requests,
            is_complete=all(one.complete for one in tables.values()) and len(guesses) <= self._limits.items_max,
            skipped=skipped,
        )

    async def stretches(self, table: TableSurvey) -> list[RegisterStretch]:
        """Stretches of addresses of one table that answer, lowest first; `table` hears how the search went."""
        found: list[RegisterStretch] = []
        limits, address, self._is_unsettled = self._limits, 0, False
        try:
            while address <= limits.address_max:
                table.looked_until = address
                if hit := await self._found_at(table.kind, address, found):
                    begin, width = hit
                    low = found[-1].end if found else 0
                    found.append(RegisterStretch(table.kind, begin, width, width))  # It stays if a limit ends this.
                    first = await self._first_of_stretch(table.kind, low, begin, width)
                    end = await self._end_of_stretch(table.kind, begin + width, width)
                    found[-1] = RegisterStretch(table.kind, first, end - first, width)
                    self._progress(f"{table.kind.value}: {first}..{end - 1}")
                    address = end
                else:
                    address += 1 if address < limits.dense_until else limits.grid
            is_sparse = limits.grid > 1 and limits.address_max >= limits.dense_until
            steps = f"{limits.dense_until - 1}, every {limits.grid}th to {limits.address_max}: short runs may be missed"
            table.looked_until = limits.address_max + 1
            table.ended = f"looked at each address to {steps if is_sparse else limits.address_max}"
            table.complete = not is_sparse
        except SurveyEnds as end_reason:
            table.complete, table.ended = False, f"stopped at address {table.looked_until}: {end_reason}"
        if self._is_unsettled:
            table.complete, table.ended = False, f"{table.ended}; the device stayed busy"
        return found

    async def _found_at(
        self, kind: TableKind, address: int, found: Sequence[RegisterStretch]
    ) -> tuple[int, int] | None:
        """Begin and width of what answers there: the address alone, or a pair of registers with it; None: neither.

        Behind the dense part, pairs are looked for only in a table that has given no register alone.
        """
        if await self._answers(kind, address, 1):
            return address, 1
        is_dense = address < self._limits.dense_until
        if kind.is_bits or (not is_dense and any(one.width == 1 for one in found)):
            return None
        for begin in (address,) if is_dense else (address, address - 1):
            if begin < self._limits.address_max and await self._answers(kind, begin, 2):
                return begin, 2
        return None

    async def _first_of_stretch(self, kind: TableKind, low: int, begin: int, width: int) -> int:
        """Lowest address from which on all up to `begin` answer; looks back to `low`, or over one step of the grid."""
        step = 1 if begin < self._limits.dense_until else self._limits.grid
        first, low = begin, max(low, begin - step + 1)
        while first > low and (reach := await self._reach(kind, first, first - low, width, is_down=True)):
            first -= reach
        return first

    async def _end_of_stretch(self, kind: TableKind, begin: int, width: int) -> int:
        """First address from `begin` on that does not answer as those before it."""
        end, most, before = begin, self._limits.address_max + 1, 0
        while end < most and (end > begin or await self._answers(kind, end, width)):
            step = min(self._most[kind], most - end)
            reach = await self._reach(kind, end, step, width)
            end += reach
            if reach < step and not (reach and await self._answers(kind, end, width)):
                break
            if reach == before < step:
                self._most[kind] = reach  # Twice not the end: it gives no more at once.
            before = reach
        if end > begin and not await self._is_like(kind, end - width, width):
            # It reads past its end, or single registers follow on pairs.
            low, high = begin - width, end - width
            while high - low > width:
                middle = low + (high - low) // width // 2 * width
                low, high = (middle, high) if await self._is_like(kind, middle, width) else (low, middle)
            end = low + width
        return end

    async def _is_like(self, kind: TableKind, address: int, width: int) -> bool:
        """Whether the address answers alone, or in a pair and not alone."""
        return await self._answers(kind, address, width) and not (width == 2 and await self._answers(kind, address, 1))

    async def _reach(self, kind: TableKind, at: int, most: int, width: int, *, is_down: bool = False) -> int:
        """Addresses from `at` on (or before it) that are given at once, `most` or fewer, in steps of `width`."""
        low, high = 0, most // width + 1
        middle = high - 1
        while high - low > 1:
            count = middle * width
            is_given = await self._answers(kind, at - count if is_down else at, count)
            low, high = (middle, high) if is_given else (low, middle)
            middle = (low + high) // 2
        return low * width

    async def _answers(self, kind: TableKind, address: int, count: int) -> bool:
        if self.requests >= self._limits.requests_max:
            raise SurveyEnds(f"{self._limits.requests_max} requests are the limit of a survey")
        self.requests += 1
        answer = await self._device(kind, address, count)
        self._is_unsettled |= answer is NotGiven.BUSY
        return not isinstance(answer, NotGiven)

    async def _values(self, stretch: RegisterStretch) -> list[int | None]:
        """Everything in the stretch; None where the device gives no more what it gave. Not counted as search."""
        values: list[int | None] = []
        most = max(stretch.width, self._most[stretch.kind] // stretch.width * stretch.width)
        while len(values) < stretch.count:
            values += await self._part(stretch, len(values), min(most, stretch.count - len(values)))
        return values

    async def _part(self, stretch: RegisterStretch, at: int, count: int) -> list[int | None]:
        self.requests += 1
        try:
            answer = await self._device(stretch.kind, stretch.first + at, count)
        except SurveyEnds:
            answer = NotGiven.REFUSED
        if not isinstance(answer, NotGiven):
            return list(answer)
        if count <= stretch.width:
            return [None] * count
        half = count // 2 // stretch.width * stretch.width or stretch.width
        return [*await self._part(stretch, at, half), *await self._part(stretch, at + half, count - half)]


def _steady(
    stretch: RegisterStretch, looks: Sequence[Sequence[int | None]]
) -> list[tuple[RegisterStretch, list[list[int]]]]:
    """Parts of the stretch that were given at each look, with their values."""
    parts: list[tuple[RegisterStretch, list[list[int]]]] = []
    begin = 0
    for at, *seen in zip(range(stretch.count + 1), *([*one, None] for one in looks), strict=True):
        if None in seen:
            if at > begin:
                part = RegisterStretch(stretch.kind, stretch.first + begin, at - begin, stretch.width)
                parts.append((part, [[one for one in look[begin:at] if one is not None] for look in looks]))
            begin = at + 1
    return parts


def used(stretch: RegisterStretch, before: Sequence[int], after: Sequence[int]) -> list[int]:
    """Indexes that are not part of a long row of zeros; a pair of registers is one number."""
    width, zeros_min = stretch.width, FALSE_MIN if stretch.kind.is_bits else ZEROS_MIN
    kept: list[int] = []
    zeros: list[int] = []
    for index in range(0, stretch.count, width):
        places = range(index, min(index + width, stretch.count))
        if not any(before[one] or after[one] for one in places):
            zeros += places
            continue
        kept += zeros if len(zeros) < zeros_min else []
        kept += places
        zeros = []
    return kept + (zeros if len(zeros) < zeros_min else [])
