"""Block-read planning: which reads fetch all items of a device with few requests.

Items of one table of one unit are read in blocks: neighbours together, small holes between them read along, never more
than one request may carry, never across units, never an item in two pieces. All that the blocks fetch lies in one image
(one array for registers, one for bits), so that decoding is the same however the device was read.

Which parts of a block a device really reads is learnt later (learnt.py), so that one wrong row of a table blinds nobody
but itself.

Pure. Spec: MODBUS Application Protocol V1.1b3, 6.1 to 6.4 (at most 2000 bits, 125 registers); ADR-0033.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from albireo.field.modbus.items import REGISTERS_MAX, ModbusItem, TableKind

BITS_MAX: Final = 2_000
BITS_PER_REGISTER: Final = 16


class PlanConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of blocks."""

    registers_max: int = 120
    """Registers of one read; 125 is the protocol's limit, some devices have a lower one."""
    bits_max: int = 1_920
    gap_registers_max: int = 8
    """Unused registers read along: 8 are 16 bytes, less than the 21 bytes and the round trip of a second request."""

    def __post_init__(self) -> None:
        if not 1 <= self.registers_max <= REGISTERS_MAX or not 1 <= self.bits_max <= BITS_MAX:
            raise ValueError(f"registers_max 1..{REGISTERS_MAX}, bits_max 1..{BITS_MAX}")
        if self.gap_registers_max < 0:
            raise ValueError("gap_registers_max must not be negative")


class ItemSpan(msgspec.Struct, frozen=True):
    """Place of an item within a block."""

    row: int
    """Row of the item in the adapter's table."""
    address: int
    end: int
    """First address behind it."""


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """Neighbouring registers or bits, fetched by one read."""

    device_id: int
    kind: TableKind
    spans: tuple[ItemSpan, ...]
    """Its items by address; they may overlap (several bits of one register)."""
    image_at: int
    """Place of its first address in the image of its kind."""
    address: int
    count: int
    """Registers or bits to read."""

    @classmethod
    def of(cls, device_id: int, kind: TableKind, spans: Sequence[ItemSpan], image_at: int) -> "Block":
        """The block that reads `spans`, which are sorted by address."""
        address = spans[0].address
        return cls(
            device_id=device_id,
            kind=kind,
            spans=tuple(spans),
            image_at=image_at,
            address=address,
            count=max(span.end for span in spans) - address,
        )


class PollPlan(msgspec.Struct, frozen=True, kw_only=True):
    """All reads of one poll."""

    blocks: tuple[Block, ...]
    positions: tuple[int, ...]
    """Begin of each item in the image of its kind, by row."""
    register_count: int
    """Length of the image of registers."""
    bit_count: int


def plan(items: Sequence[ModbusItem], config: PlanConfig) -> PollPlan:
    """The fewest blocks that a greedy walk by address finds.

    Args:
        items: of one adapter; the index is the row.
    """
    positions = [0] * len(items)
    blocks: list[Block] = []
    lengths = {False: 0, True: 0}
    for spans, device_id, kind in _groups(items, config):
        start = lengths[kind.is_bits]
        block = Block.of(device_id, kind, spans, start)
        blocks.append(block)
        lengths[kind.is_bits] = start + block.count
        for span in spans:
            positions[span.row] = start + span.address - block.address
    return PollPlan(
        blocks=tuple(blocks), positions=tuple(positions), register_count=lengths[False], bit_count=lengths[True]
    )


def _groups(items: Sequence[ModbusItem], config: PlanConfig) -> list[tuple[list[ItemSpan], int, TableKind]]:
    groups: list[tuple[list[ItemSpan], int, TableKind]] = []
    order = sorted(range(len(items)), key=lambda row: _place(items[row]))
    end = 0
    for row in order:
        one = items[row]
        span = ItemSpan(row, one.address, one.end)
        if groups:
            spans, device_id, kind = groups[-1]
            count_max, gap_max = _limits(kind, config)
            fits = max(end, span.end) - spans[0].address <= count_max
            if (device_id, kind) == (one.device_id, one.kind) and span.address - end <= gap_max and fits:
                spans.append(span)
                end = max(end, span.end)
                continue
        groups.append(([span], one.device_id, one.kind))
        end = span.end
    return groups


def _place(item: ModbusItem) -> tuple[int, str, int, int]:
    return item.device_id, item.kind.value, item.address, item.end


def _limits(kind: TableKind, config: PlanConfig) -> tuple[int, int]:
    """(most addresses of a block, most unused addresses between two of its items)."""
    if kind.is_bits:
        return config.bits_max, config.gap_registers_max * BITS_PER_REGISTER
    return config.registers_max, config.gap_registers_max
