"""Registers of a PLC: where an item lies, how its value becomes words, and what may be written.

An `ItemGroup` describes alike items, one per section, fan or loop. Addresses are given out in the order of the table,
each kind of register from 0; so a group may only be added at the end of its kind.

    value -> raw = value / scale -> 16-bit words, most significant byte first (Modbus Application Protocol V1.1b3, 4.2)
    word order `big`: most significant word first; `little`: least significant word first
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.field.modbus.items import DTYPES, WORDS, RegisterType, TableKind
from albireo.machine.output.mailbox import WORD_MAX
from albireo.model.item import AlarmSettings, Control
from albireo.plant.tunnel.setpoints import SetPoints, Vector

EXACT_MAX: Final = float(2**53)
"""Values travel as float64: a 64-bit counter is exact up to here, and is held there."""
STRING_WORDS: Final = 8
"""Sixteen bytes, ASCII, padded with zeros."""


class ItemGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Alike items: one row of a table."""

    name: str
    """Name with `{n}` for the number, or for a name out of `members`."""
    channel: str
    """Column of `channels.read`, or of SetPoints when `is_writable`."""
    kind: TableKind
    type: RegisterType
    count: int = 1
    members: tuple[str, ...] = ()
    """Names that stand for `{n}`; without them 1, 2, 3..."""
    scale: float = 1.0
    unit: str = ""
    word_order: str = "big"
    dead_band: float = 0.0
    is_writable: bool = False
    control: Control = Control.DIRECT
    minimum: float | None = None
    maximum: float | None = None
    alarm: AlarmSettings | None = None
    """`{n}` in `suppressed_by` is replaced as in the name."""
    text: str = ""
    """Fixed text of a string that no channel feeds."""
    states: str = ""
    """As the table has it: `0=open;1=closed`."""
    description: str = ""


class Register(msgspec.Struct, frozen=True, kw_only=True):
    """One item of one PLC."""

    name: str
    row: ItemGroup
    index: int
    """Which element of the channel."""
    address: int
    """First word or bit, counted from 0."""
    bit: int | None = None
    """Bit of a status word: switches in a table of words share words, sixteen in each."""
    alarm: AlarmSettings | None

    @property
    def words(self) -> int:
        """16-bit words, or 1 for a bit."""
        return STRING_WORDS if self.row.type is RegisterType.STRING else WORDS[self.row.type]


def expanded(rows: tuple[ItemGroup, ...]) -> tuple[Register, ...]:
    """Every item of the table with its address."""
    free = dict.fromkeys(TableKind, 0)
    registers: list[Register] = []
    for row in rows:
        members = row.members or tuple(str(number) for number in range(1, row.count + 1))
        is_packed = row.type is RegisterType.BOOL and not row.kind.is_bits
        for index, member in enumerate(members):
            register = Register(
                name=row.name.replace("{n}", member),
                row=row,
                index=index,
                address=free[row.kind] + (index // 16 if is_packed else 0),
                bit=index % 16 if is_packed else None,
                alarm=_alarm_of(row, member),
            )
            free[row.kind] += 0 if is_packed else register.words
            registers.append(register)
        if is_packed:
            free[row.kind] += -(-len(members) // 16)
    return tuple(registers)


def _alarm_of(row: ItemGroup, member: str) -> AlarmSettings | None:
    if row.alarm is None or not row.alarm.suppressed_by:
        return row.alarm
    return msgspec.structs.replace(row.alarm, suppressed_by=row.alarm.suppressed_by.replace("{n}", member))


class _EncodedGroup(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Registers of one kind, type and word order: encoded with whole-array operations."""

    kind: TableKind
    type: RegisterType
    rows: NDArray[np.intp]
    """Places in the vector of values."""
    scale: Vector
    places: NDArray[np.intp]
    """Word addresses, one line per register, in the order in which the words of a value come."""
    bits: NDArray[np.uint16] | None
    """Weight of each switch in its status word; None for everything else."""


class RegisterMap:
    """The registers of one PLC and their encoding; holds no values."""

    def __init__(self, rows: tuple[ItemGroup, ...]) -> None:
        self.registers = expanded(rows)
        self.live = tuple(
            one for one in self.registers if not one.row.is_writable and one.row.type is not RegisterType.STRING
        )
        """Fed by channels, in the order of the vector of values."""
        self.writable = tuple(one for one in self.registers if one.row.is_writable)
        self.strings = tuple(one for one in self.registers if one.row.type is RegisterType.STRING)
        self.sizes = {kind: self._size(kind) for kind in TableKind}
        self._groups = _groups(self.live)

    def _size(self, kind: TableKind) -> int:
        return max((one.address + one.words for one in self.registers if one.row.kind is kind), default=0)

    def gathered(self, channels: dict[str, Vector]) -> Vector:
        """The vector of values of all live registers."""
        return np.array([channels[one.row.channel][one.index] for one in self.live], np.float64)

    def encode(self, values: Vector) -> dict[TableKind, NDArray[np.uint16]]:
        """Words (bits as 0 and 1) of every table; writable registers and strings are left 0."""
        image = {kind: np.zeros(size, np.uint16) for kind, size in self.sizes.items()}
        for group in self._groups:
            words = words_of(values[group.rows] / group.scale, group.type)
            if group.bits is None:
                image[group.kind][group.places] = words
            else:
                np.bitwise_or.at(image[group.kind], group.places[:, 0], words[:, 0] * group.bits)
        return image

    def default(self, register: Register) -> float:
        """Value of a writable register at the start, in engineering units."""
        column: Vector = getattr(SetPoints(), register.row.channel)
        return float(column[register.index])


def _groups(live: tuple[Register, ...]) -> list[_EncodedGroup]:
    members: dict[tuple[TableKind, RegisterType, str], list[int]] = {}
    for place, one in enumerate(live):
        members.setdefault((one.row.kind, one.row.type, one.row.word_order), []).append(place)
    return [
        _EncodedGroup(
            kind=kind,
            type=type_,
            rows=np.array(rows),
            scale=np.array([live[row].row.scale for row in rows]),
            places=np.array([word_places(live[row]) for row in rows]),
            bits=_weights([live[row] for row in rows]),
        )
        for (kind, type_, _), rows in members.items()
    ]


def _weights(registers: list[Register]) -> NDArray[np.uint16] | None:
    weights = [1 << one.bit for one in registers if one.bit is not None]
    return np.array(weights, np.uint16) if weights else None


def word_places(register: Register) -> list[int]:
    """Addresses of the words of one value, most significant word first."""
    places = list(range(register.address, register.address + register.words))
    return places[::-1] if register.row.word_order == "little" else places


def words_of(raw: Vector, type_: RegisterType) -> NDArray[np.uint16]:
    """One line of words per value, most significant first; integers are rounded and held at the ends of their range."""
    if type_ is RegisterType.BOOL:
        bits: NDArray[np.uint16] = (raw != 0).astype(np.uint16)[:, None]
        return bits
    dtype = np.dtype(DTYPES[type_])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        raw = np.clip(np.rint(raw), max(limits.min, -EXACT_MAX), min(limits.max, EXACT_MAX))
    words: NDArray[np.uint16] = raw.astype(dtype).view(">u2").reshape(len(raw), -1).astype(np.uint16)
    return words


def value_of(words: Sequence[int], register: Register) -> float:
    """The value in engineering units that the words of `register` hold, given in address order."""
    row = register.row
    if row.type is RegisterType.BOOL:
        return float(bool(words[0]))
    ordered = words[::-1] if row.word_order == "little" else words
    raw = np.array(ordered, ">u2").view(DTYPES[row.type])[0]
    return float(Decimal(str(raw)) * Decimal(str(row.scale)))


def value_of_order(value: int, register: Register) -> float:
    """The 32 bits of an order as the set point takes them, in engineering units."""
    words: Sequence[int] = [value & WORD_MAX] if register.words == 1 else [value >> 16, value & WORD_MAX]
    return value_of(words[::-1] if register.row.word_order == "little" else words, register)


def words_of_text(text: str) -> list[int]:
    """STRING_WORDS words of ASCII, two characters each, padded with zeros; longer text is cut."""
    data = text.encode("ascii", "replace")[: 2 * STRING_WORDS].ljust(2 * STRING_WORDS, b"\0")
    return [int(word) for word in np.frombuffer(data, ">u2")]
