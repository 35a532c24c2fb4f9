"""Rows of a Modbus item table: what stands where in a device, and how it becomes an engineering value.

A row is a mapping from column to text, as CSV gives it. `parse_row` names every mistake of a row at once, with a
remedy; `albireo topology check` prints them with file and line, the adapter refuses to start on any.

Addresses are those of the protocol, from 0. (Manuals that number from 1, or write 40001 for the first holding register,
are one off: 40001 is `kind = holding, address = 0`.)

Spec: MODBUS Application Protocol V1.1b3, 4.3 (data model), 4.4 (addressing); docs/adapters/modbus.md.
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from albireo.codec.topology.adapter_kind import RowMistake
from albireo.field.item_cells import ITEM_COLUMNS, ItemCells, dead_band_of, declared_item, within
from albireo.field.modbus.scaling import UNSCALED, Scaling
from albireo.model.item import DataItem
from albireo.model.item_states import ItemState
from albireo.model.typed_number import whole_of
from albireo.model.value import ValueType

TARGET_MAX: Final = 0xFFFF
REGISTERS_MAX: Final = 125
"""Registers of one read (V1.1b3, 6.3); no item is longer, since it must be read in one piece."""
ADDRESS_MAX: Final = 0xFFFF
DEVICE_ID_MAX: Final = 255


class TableKind(StrEnum):
    """The four tables of a device."""

    COIL = "coil"
    DISCRETE = "discrete"
    HOLDING = "holding"
    INPUT = "input"

    @property
    def is_bits(self) -> bool:
        return self in (TableKind.COIL, TableKind.DISCRETE)

    @property
    def is_writable(self) -> bool:
        return self in (TableKind.COIL, TableKind.HOLDING)


class RegisterType(StrEnum):
    """Type of the value in an item's registers."""

    BOOL = "bool"
    INT16 = "int16"
    UINT16 = "uint16"
    INT32 = "int32"
    UINT32 = "uint32"
    INT64 = "int64"
    UINT64 = "uint64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    STRING = "string"


FIRST_IN_MANUALS: Final = {TableKind.DISCRETE: 10_001, TableKind.INPUT: 30_001, TableKind.HOLDING: 40_001}
"""Number that manuals with one numbering for all tables give the first address of each; coils begin at 1 there."""
MANUAL_COUNT: Final = 9_999
"""Addresses of a table in such a numbering."""
_NUMBERED_FROM_ZEROS: Final = frozenset({"coil"})
"""Kinds whose first digit is a zero in that numbering: there zeros before a number may say that it is a manual's."""
_PADDED_NUMBER: Final = re.compile(r"0[0-9]{4,5}")

DTYPES: Final[dict[RegisterType, str]] = {
    RegisterType.INT16: ">i2",
    RegisterType.UINT16: ">u2",
    RegisterType.INT32: ">i4",
    RegisterType.UINT32: ">u4",
    RegisterType.INT64: ">i8",
    RegisterType.UINT64: ">u8",
    RegisterType.FLOAT32: ">f4",
    RegisterType.FLOAT64: ">f8",
}
"""Numbers as numpy reads their registers, most significant first."""
WORDS: Final = {RegisterType.BOOL: 1} | {one: int(dtype[-1]) // 2 for one, dtype in DTYPES.items()}
"""Registers of one value; a string says its own length."""

COUNTER_VALUES: Final = {RegisterType.UINT16: 2**16, RegisterType.UINT32: 2**32, RegisterType.UINT64: 2**64}
"""Values that registers without a sign can hold; a counter begins again behind the last."""

WORD_ORDERS: Final[dict[str, tuple[bool, bool]]] = {
    "": (False, False),
    "big": (False, False),
    "abcd": (False, False),
    "little": (True, False),
    "cdab": (True, False),
    "big_swap": (False, True),
    "badc": (False, True),
    "little_swap": (True, True),
    "dcba": (True, True),
}
"""Text in the table -> (low word first, bytes swapped within each word). The letters are those of the manuals."""

COLUMNS: Final = (
    "kind", "address", "type", "word_order", "scale", "offset", "length", "bit", "device_id", "target", *ITEM_COLUMNS,
)  # fmt: skip
"""Every column of a table; only name, kind and address are always needed."""


class ModbusItem(msgspec.Struct, frozen=True, kw_only=True):
    """Item of a device: where it stands, what it means, how it is declared."""

    item: DataItem
    kind: TableKind
    address: int
    """First register or bit, from 0."""
    words: int
    """Registers it takes; 1 for a bit of a coil or discrete table."""
    type: RegisterType
    length: int = 0
    """Characters of a string; 0 for all else."""
    is_low_word_first: bool = False
    is_byte_swapped: bool = False
    bit: int | None = None
    """Bit of a register, 0 the least significant; None: the whole register."""
    scaling: Scaling = UNSCALED
    dead_band: float = 0.0
    device_id: int = 1
    target: int | None = None
    """Number of this output in the PLC's guard (`guard = "plc"`), from 1; None: not reached through a mailbox."""

    @property
    def is_scaled(self) -> bool:
        return self.scaling != UNSCALED

    @property
    def is_odd_text(self) -> bool:
        """Half of its last register belongs to something else."""
        return self.length % 2 == 1

    @property
    def end(self) -> int:
        """First address behind it."""
        return self.address + self.words


def parse_row(row: Mapping[str, str], *, adapter: str = "", device_id: int = 1) -> ModbusItem | list[RowMistake]:
    """The item of one row of the table, or all mistakes in the row.

    Args:
        row: column -> text; columns that are missing count as empty. Columns that nobody knows are mistakes.
        adapter: name of the adapter that owns the item.
        device_id: unit that rows without one of their own belong to.
    """
    cells = ItemCells(row)
    cells.know(COLUMNS)
    kind = cells.choice("kind", {one.value: one for one in TableKind}, TableKind.HOLDING)
    if not cells.text("kind"):
        cells.wrong("kind", "no kind", "write holding, input, coil or discrete")
    default = RegisterType.BOOL if kind.is_bits else RegisterType.UINT16
    register_type = cells.choice("type", {one.value: one for one in RegisterType}, default)
    low_word_first, byte_swapped = cells.choice("word_order", WORD_ORDERS, (False, False))
    if not cells.text("address"):
        cells.wrong("address", "no address", "write the protocol address, from 0")
    address = _address(cells)
    words = _words(cells, kind, register_type)
    if address + words - 1 > ADDRESS_MAX:
        cells.wrong("address", f"{words} registers from {address} end above {ADDRESS_MAX}", "lower address or length")
    scaling = _scaling(cells, register_type)
    bit, dead_band = _bit(cells, kind, register_type), dead_band_of(cells)
    unit_id = cells.whole("device_id", device_id, 0, DEVICE_ID_MAX)
    target = cells.whole("target", 0, 1, TARGET_MAX) or None
    value_type = _value_type(register_type, scaling != UNSCALED)
    item = declared_item(
        cells, adapter, value_type, "" if kind.is_writable else "only holding and coil can; leave it empty"
    )
    if item is None or not _can_hold(register_type, item.states, cells):
        return cells.mistakes
    return ModbusItem(
        item=_counting(item, register_type, scaling),
        kind=kind,
        address=address,
        words=words,
        type=register_type,
        length=cells.whole("length", 0, 0, 2 * REGISTERS_MAX),
        is_low_word_first=low_word_first,
        is_byte_swapped=byte_swapped,
        bit=bit,
        scaling=scaling,
        dead_band=dead_band,
        device_id=unit_id,
        target=target,
    )


def _address(cells: ItemCells) -> int:
    remedy = (
        f"write the protocol address, a whole number from 0 to {ADDRESS_MAX} (0x.. for hexadecimal); the manual's "
        "40001 or 400001 is kind holding, address 0"
    )
    digits = cells.text("address")
    if cells.text("kind").lower() in _NUMBERED_FROM_ZEROS and _PADDED_NUMBER.fullmatch(digits):
        meant = "0" if int(digits) < 1 else str(int(digits) - 1)
        cells.wrong(
            "address",
            f"address {digits!r} looks like a manual's number, which counts coils from 00001",
            f"write the protocol address, from 0, without zeros before it: {meant} if it is the manual's number",
        )
        return 0
    return cells.read("address", lambda text: within(whole_of(text), 0, ADDRESS_MAX), 0, remedy)


def numbering_doubt(item: ModbusItem) -> RowMistake | None:
    """Doubt about an address that looks like a manual's number, which carries the table in its first digit."""
    first = FIRST_IN_MANUALS.get(item.kind)
    if first is None or not first <= item.address < first + MANUAL_COUNT:
        return None
    meant = item.address - first
    return RowMistake(
        "address",
        f"address {item.address} looks like a manual's number; addresses here are those of the protocol, from 0",
        f"if the manual counts {item.kind.value} from {first}, write {meant}; leave it if the device really has "
        f"protocol address {item.address}",
    )


def _words(cells: ItemCells, kind: TableKind, register_type: RegisterType) -> int:
    if kind.is_bits and register_type is not RegisterType.BOOL:
        cells.wrong("type", f"a {kind.value} of type {register_type.value}", "write bool, or leave it empty")
        return 1
    if register_type is not RegisterType.STRING:
        if cells.text("length"):
            cells.wrong("length", f"a length at type {register_type.value}", "leave it empty: only strings have one")
        return WORDS[register_type]
    if not cells.text("length"):
        cells.wrong("length", "a string without length", "write the number of characters (two in each register)")
    characters = cells.whole("length", 2, 1, 2 * REGISTERS_MAX)
    return (characters + 1) // 2


def _bit(cells: ItemCells, kind: TableKind, register_type: RegisterType) -> int | None:
    if not cells.text("bit"):
        return None
    if kind.is_bits or register_type is not RegisterType.BOOL:
        cells.wrong("bit", "a bit of something that is no register of type bool", "leave it empty, or set type to bool")
    return cells.whole("bit", 0, 0, 15)


def _scaling(cells: ItemCells, register_type: RegisterType) -> Scaling:
    """Scale and offset by the texts of the row: 0.1 is a tenth, which no double is."""
    scale, offset = cells.decimal("scale", "1"), cells.decimal("offset", "0")
    if not scale:
        cells.wrong("scale", "scale is 0", "write what one raw step is worth; empty for 1")
    scaling = Scaling.of(scale, offset)
    if scaling != UNSCALED and register_type in (RegisterType.BOOL, RegisterType.STRING):
        cells.wrong("scale", f"a {register_type.value} with scale or offset", "leave scale and offset empty")
    return scaling


def _value_type(register_type: RegisterType, is_scaled: bool) -> ValueType:
    if register_type is RegisterType.BOOL:
        return ValueType.BOOL
    if register_type is RegisterType.STRING:
        return ValueType.STRING
    if is_scaled or register_type in (RegisterType.FLOAT32, RegisterType.FLOAT64):
        return ValueType.FLOAT64
    return ValueType.INT64


def _can_hold(register_type: RegisterType, states: Sequence[ItemState], cells: ItemCells) -> bool:
    """Whether the row has no mistake, and registers have room for each value with a word."""
    dtype = DTYPES.get(register_type, ">i8")
    is_signed, bits = dtype[1] == "i", 8 * int(dtype[-1])
    for one in states:
        if not -(1 << (bits - 1)) * is_signed <= one.value < 1 << (bits - is_signed):
            text = f"{one.value} has a word, and no {register_type.value} is {one.value}"
            cells.wrong("states", text, "take it away, or correct the type")
    return not cells.mistakes


def _counting(item: DataItem, register_type: RegisterType, scaling: Scaling) -> DataItem:
    """The item with the range of its registers, if it has a rate and they have no sign: it may be a counter."""
    values = COUNTER_VALUES.get(register_type)
    if values is None or item.alarm is None or item.alarm.rate_per_s is None:
        return item
    return msgspec.structs.replace(item, counter_range=scaling.times * values / scaling.by)
