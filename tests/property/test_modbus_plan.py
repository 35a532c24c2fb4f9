"""Block planning: whatever the table, every item is read whole, once, within the protocol's limits."""

from hypothesis import given, settings
from hypothesis import strategies as st

from albireo.field.modbus.items import ModbusItem, RegisterType, TableKind
from albireo.field.modbus.plan import Block, PlanConfig, plan
from albireo.model.item import DataItem
from albireo.model.value import ValueType
from tests.long_form import examples

ITEM = DataItem(name="x", value_type=ValueType.BOOL)


def item(kind: TableKind, address: int, words: int, device_id: int) -> ModbusItem:
    return ModbusItem(
        item=ITEM,
        kind=kind,
        address=address,
        words=1 if kind.is_bits else words,
        type=RegisterType.STRING,
        device_id=device_id,
    )


TABLES = st.lists(
    st.builds(item, st.sampled_from(TableKind), st.integers(0, 400), st.sampled_from([1, 2, 4, 30]), st.integers(1, 2)),
    min_size=1,
    max_size=60,
)
CONFIGS = st.builds(
    PlanConfig,
    registers_max=st.integers(30, 125),
    bits_max=st.integers(1, 2_000),
    gap_registers_max=st.integers(0, 20),
)


def covered(blocks: list[Block], table: list[ModbusItem]) -> dict[int, int]:
    """row -> how many blocks hold it, after checking each block by itself."""
    held: dict[int, int] = {}
    for block in blocks:
        for span in block.spans:
            one = table[span.row]
            assert (one.device_id, one.kind) == (block.device_id, block.kind)
            assert block.address <= one.address
            assert one.end <= block.address + block.count
            held[span.row] = held.get(span.row, 0) + 1
    return held


@settings(max_examples=examples(300), deadline=None)
@given(TABLES, CONFIGS)
def test_every_item_is_in_one_block_within_the_limits(table: list[ModbusItem], config: PlanConfig) -> None:
    laid = plan(table, config)
    assert covered(list(laid.blocks), table) == dict.fromkeys(range(len(table)), 1)
    for block in laid.blocks:
        assert block.count <= (config.bits_max if block.kind.is_bits else config.registers_max)
        gap_max = config.gap_registers_max * (16 if block.kind.is_bits else 1)
        end = block.address
        for span in block.spans:
            assert span.address - end <= gap_max
            end = max(end, span.end)


@settings(max_examples=examples(300), deadline=None)
@given(TABLES, CONFIGS)
def test_the_image_has_one_place_for_each_block(table: list[ModbusItem], config: PlanConfig) -> None:
    laid = plan(table, config)
    for is_bits, length in ((False, laid.register_count), (True, laid.bit_count)):
        places = sorted((b.image_at, b.count) for b in laid.blocks if b.kind.is_bits == is_bits)
        end = 0
        for start, count in places:
            assert start == end
            end = start + count
        assert end == length
    for block in laid.blocks:
        for span in block.spans:
            assert laid.positions[span.row] == block.image_at + span.address - block.address
