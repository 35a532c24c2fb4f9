"""Cells of an item table: the columns that items of every kind of adapter may have.

A row is a mapping from column to text, as CSV gives it. Every mistake of a row is named at once, with a remedy.
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Final, TypeVar

from albireo.codec.topology.adapter_kind import RowMistake
from albireo.model.item import AlarmSettings, Control, DataItem
from albireo.model.item_states import STATED, STATES_MAX, WORD_CHARS_MAX, ItemState, states_of
from albireo.model.typed_number import number_of, shortened, truth_of, whole_of
from albireo.model.value import ValueType, number_text

ITEM_COLUMNS: Final = (
    "name", "unit", "dead_band",
    "hi_hi", "hi", "lo", "lo_lo", "hysteresis", "on_delay_ms", "off_delay_ms", "rate_per_s", "stale_s", "frozen_s",
    "off_normal", "severity", "latched", "suppressed_by", "writable", "control", "minimum", "maximum", "states",
    "description", "was",
)  # fmt: skip
"""Columns of any item, which `declared_item` and `dead_band_of` read."""

T = TypeVar("T")


class ItemCells:
    """Reads the cells of a row and collects what is wrong with them."""

    def __init__(self, row: Mapping[str, str]) -> None:
        self._row = row
        self.mistakes: list[RowMistake] = []

    def know(self, columns: Sequence[str]) -> None:
        """Refuse all columns but these."""
        for column in self._row:
            if column not in (*columns, "adapter"):
                self.wrong(str(column), f"no column is called {column!r}", f"known columns: {', '.join(columns)}")

    def text(self, column: str) -> str:
        return (self._row.get(column) or "").strip()

    def wrong(self, column: str, text: str, remedy: str) -> None:
        self.mistakes.append(RowMistake(column, text, remedy))

    def read(self, column: str, convert: Callable[[str], T], absent: T, remedy: str) -> T:
        text = self.text(column)
        if not text:
            return absent
        try:
            return convert(text)
        except (ValueError, KeyError):
            self.wrong(column, f"{column} is {shortened(text)}", remedy)
            return absent

    def number(self, column: str, absent: float) -> float:
        return self.read(column, number_of, absent, _WRITE_NUMBER)

    def decimal(self, column: str, absent: str) -> Decimal:
        """A number just as it is written: no double is 0.1."""
        return self.read(column, lambda text: Decimal(text if number_of(text) else 0), Decimal(absent), _WRITE_NUMBER)

    def limit(self, column: str) -> float | None:
        return self.read(column, number_of, None, "write a number with a decimal point, or leave it empty")

    def whole(self, column: str, absent: int, lowest: int, highest: int) -> int:
        remedy = f"write a whole number from {lowest} to {highest} (0x.. for hexadecimal)"
        return self.read(column, lambda text: within(whole_of(text), lowest, highest), absent, remedy)

    def truth(self, column: str) -> bool | None:
        return self.read(column, truth_of, None, "write true or false, or leave it empty")

    def choice(self, column: str, choices: Mapping[str, T], absent: T) -> T:
        remedy = f"write one of: {', '.join(one for one in choices if one)}"
        return self.read(column, lambda text: choices[text.lower()], absent, remedy)


_WRITE_STATES: Final = (
    f"write VALUE=WORD;VALUE=WORD, such as 0=open;1=closed: at most {STATES_MAX} words of {WORD_CHARS_MAX} characters, "
    "each once, without = ; < > and other than numbers, true and false"
)
_WRITE_NUMBER: Final = "write a number with a decimal point, such as 0.1"


def within(number: int, lowest: int, highest: int) -> int:
    if not lowest <= number <= highest:
        raise ValueError(number)
    return number


def dead_band_of(cells: ItemCells) -> float:
    """Width of the dead band, engineering units."""
    dead_band = cells.number("dead_band", 0.0)
    if dead_band < 0:
        cells.wrong("dead_band", f"dead_band is {number_text(dead_band)}", "write 0 or more, in engineering units")
    return dead_band


def declared_item(cells: ItemCells, adapter: str, value_type: ValueType, read_only: str = "") -> DataItem | None:
    """The item of a row; None: the row has mistakes.

    Args:
        read_only: what to do instead if the row says that it is writable; empty: it may be.
    """
    if not is_item_name(cells.text("name")):
        cells.wrong("name", f"name is {cells.text('name')!r}", "a letter, then letters, digits, _ . or - (at most 64)")
    is_writable = cells.truth("writable") or False
    if is_writable and read_only:
        cells.wrong("writable", "this kind can't be written", read_only)
    control = cells.choice("control", {one.value: one for one in Control}, Control.DIRECT)
    if control is Control.SELECT and not is_writable:
        cells.wrong("control", "control is select, and it is not writable", "set writable, or leave control empty")
    minimum, maximum = cells.limit("minimum"), cells.limit("maximum")
    if minimum is not None and maximum is not None and minimum > maximum:
        cells.wrong("minimum", f"minimum {number_text(minimum)} above maximum {number_text(maximum)}", "swap them")
    alarm, states = _alarm(cells, value_type), _states(cells, value_type)
    if cells.mistakes:
        return None
    return DataItem(
        name=cells.text("name"),
        value_type=value_type,
        adapter=adapter,
        unit=cells.text("unit"),
        description=cells.text("description"),
        is_writable=is_writable,
        control=control,
        minimum=minimum,
        maximum=maximum,
        states=states,
        alarm=alarm,
        was=cells.text("was"),
    )


def _states(cells: ItemCells, value_type: ValueType) -> tuple[ItemState, ...]:
    try:
        return states_of(cells.text("states"), value_type)
    except ValueError as error:
        remedy = "leave it empty, or take scale and offset away" if value_type not in STATED else _WRITE_STATES
        cells.wrong("states", str(error), remedy)
        return ()


def _alarm(cells: ItemCells, value_type: ValueType) -> AlarmSettings | None:
    """Alarm settings of the row; None when it says none."""
    limits = {column: cells.limit(column) for column in ("hi_hi", "hi", "lo", "lo_lo")}
    rate, stale, frozen = cells.limit("rate_per_s"), cells.limit("stale_s"), cells.limit("frozen_s")
    off_normal = cells.truth("off_normal")
    is_number = value_type in (ValueType.FLOAT64, ValueType.INT64)
    for column in (
        *(one for one in (*limits, "minimum", "maximum") if cells.text(one)),
        *(["rate_per_s"] * (rate is not None)),
        *(["frozen_s"] * (frozen is not None)),
    ):
        if not is_number:
            cells.wrong(column, f"{column} at an item that is no number", "leave it empty")
    if off_normal is not None and value_type is not ValueType.BOOL:
        cells.wrong("off_normal", "off_normal at an item that is no bool", "leave it empty")
    judged = [*limits.values(), rate, stale, frozen, off_normal]
    try:
        settings = AlarmSettings(
            hi_hi=limits["hi_hi"],
            hi=limits["hi"],
            lo=limits["lo"],
            lo_lo=limits["lo_lo"],
            hysteresis=cells.number("hysteresis", 0.0),
            on_delay_ms=cells.whole("on_delay_ms", 0, 0, 86_400_000),
            off_delay_ms=cells.whole("off_delay_ms", 0, 0, 86_400_000),
            rate_per_s=rate,
            stale_s=stale,
            frozen_s=frozen,
            off_normal=off_normal,
            severity=cells.whole("severity", 500, 1, 1000),
            is_latched=cells.truth("latched") or False,
            suppressed_by=cells.text("suppressed_by"),
        )
    except ValueError as error:
        cells.wrong("hi", str(error), "correct the limits and delays of this row")
        return None
    return settings if any(one is not None for one in judged) else None


def is_item_name(name: str) -> bool:
    """An item of a device has no slash: `<adapter>/...` is kept for diagnostics."""
    return (
        0 < len(name) <= 64
        and name[0].isascii()
        and name[0].isalpha()
        and all(one.isascii() and (one.isalnum() or one in "_.-") for one in name)
    )
