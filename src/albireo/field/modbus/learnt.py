"""Learnt blocks: which parts of a planned block the device reads, and which it refuses.

A device that lacks one address refuses each request that holds it. So a refused range makes every longer one around it
refused, and an answered range makes every shorter one within it readable. Only the ends of both are kept:

    answered   [0..36]                       longest ranges that were answered
    refused            [37]                  shortest ranges that were refused
    next poll  [0..36]      [38..59]         two requests for 59 items of 60

A range of one item is an address that the device lacks; of two, a hole between them; a longer one is more than the
device reads at once. The ends are found by halving. What was refused is tried again now and then, alone; what it says
then never makes the rest be asked in more pieces.

Pure. Spec: MODBUS Application Protocol V1.1b3, 7 (codes 2, 3); ADR-0166.
"""

from bisect import bisect_left

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.field.modbus.plan import Block
from albireo.model.instant import Instant


class BlockPart(msgspec.Struct, frozen=True, eq=False):
    """Neighbouring items of a planned block, read by one request."""

    first: int
    """Index of its first item in the planned block."""
    last: int
    block: Block
    """Request for these items alone, with its place in the image."""
    rows: NDArray[np.intp]
    """Rows of the items."""


class BlockRefusal(msgspec.Struct):
    """Shortest known range of items that the device does not read in one request."""

    first: int
    last: int
    quality: int
    """Quality of the item, if it is one."""
    until: Instant
    """Instant from which it is tried again."""


class LearntBlock:
    """One planned block, and what its device reads of it."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._answered: list[tuple[int, int]] = []
        self._blind: dict[int, BlockRefusal] = {}
        """Refusals of one item."""
        self._blind_at: list[int] = []
        """Indexes of these, sorted."""
        self._ranges: list[BlockRefusal] = []
        """Refusals of several items."""
        self._parts: dict[tuple[int, int], BlockPart] = {}
        self.rows = np.array([one.row for one in block.spans], np.intp)

    def __len__(self) -> int:
        return len(self._block.spans)

    @property
    def device_id(self) -> int:
        return self._block.device_id

    @property
    def blind_items(self) -> int:
        """Items that can't be read alone."""
        return len(self._blind)

    def next(self, at: int, longest: int) -> BlockPart | BlockRefusal:
        """The part to read from item `at` on, or the refusal of that one item.

        Args:
            longest: most items of the part.
        """
        if at in self._blind:
            return self._blind[at]
        place = bisect_left(self._blind_at, at)
        limit, is_sharp = (self._blind_at[place], True) if place < len(self._blind_at) else (len(self), True)
        for one in self._ranges:
            if at <= one.first and one.last < limit:
                limit, is_sharp = one.last, one.last - one.first == 1
        last = limit - 1
        if not is_sharp:
            known = max((end for begin, end in self._answered if begin <= at <= end), default=at - 1)
            last = last if known >= last else (known + limit) // 2
        return self._part(at, min(last, at + longest - 1))

    def answered(self, part: BlockPart) -> None:
        """The device read `part`."""
        first, last = part.first, part.last
        if any(begin <= first and last <= end for begin, end in self._answered):
            return
        self._answered = [one for one in self._answered if not first <= one[0] <= one[1] <= last]
        self._answered.append((first, last))
        refused = len(self._ranges) + len(self._blind)
        self._ranges = [one for one in self._ranges if not first <= one.first <= one.last <= last]
        self._see({index: one for index, one in self._blind.items() if not first <= index <= last})
        if len(self._ranges) + len(self._blind) < refused:
            # Something was mended: what is left of the refusals may be so too.
            self.try_again()

    def refused(self, part: BlockPart, quality: int, until: Instant) -> None:
        """The device does not read `part`; `quality` is that of its item if it is one item."""
        first, last = part.first, part.last
        self._answered = [one for one in self._answered if not one[0] <= first <= last <= one[1]]
        self._ranges = [one for one in self._ranges if not one.first <= first <= last <= one.last]
        refusal = BlockRefusal(first, last, quality, until)
        if first == last:
            self._see({**self._blind, first: refusal})
        else:
            self._ranges.append(refusal)
        self._parts.clear()

    def has_refused(self, part: BlockPart) -> bool:
        """Whether the device refused just this part the last time."""
        known = (*self._ranges, *self._blind.values())
        return any((one.first, one.last) == (part.first, part.last) for one in known)

    def due(self) -> tuple[Instant, BlockPart] | None:
        """The refused range that is to be tried again next, and when; None: the device reads everything."""
        found = min((*self._blind.values(), *self._ranges), key=lambda one: one.until, default=None)
        return None if found is None else (found.until, self._part(found.first, found.last))

    def item(self, index: int) -> BlockPart:
        """The request for one item."""
        return self._part(index, index)

    def try_again(self) -> None:
        """Let every refused range be tried at the next occasion; until then the device is read as was learnt."""
        for one in (*self._blind.values(), *self._ranges):
            one.until = Instant(0)

    def _see(self, blind: dict[int, BlockRefusal]) -> None:
        self._blind, self._blind_at = blind, sorted(blind)

    def _part(self, first: int, last: int) -> BlockPart:
        found = self._parts.get((first, last))
        if found is None:
            block, spans = self._block, self._block.spans[first : last + 1]
            image_at = block.image_at + spans[0].address - block.address
            request = Block.of(block.device_id, block.kind, spans, image_at)
            found = self._parts[first, last] = BlockPart(first, last, request, self.rows[first : last + 1])
        return found
