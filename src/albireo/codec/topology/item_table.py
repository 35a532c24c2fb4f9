"""Item tables: CSV as engineers export it, one row per item.

Not here: the meaning of an adapter's columns. Each kind of adapter hands in its columns and a check of one row
(`AdapterKind.judge`); names, duplicates and the shape of the table are judged here.

Grammar: RFC 4180, header first; UTF-8 with or without a byte order mark; separated by comma, semicolon or tab, as the
header shows or a line `sep=;` before it tells; lines that begin with # are comments, unless another column than the
name comes first and the line has a name; empty lines are skipped; an empty cell is a cell that is not there.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from albireo.codec.topology.adapter_kind import AdapterKind, AddressSpan, Judged, RowMistake
from albireo.codec.topology.mistakes import Findings, did_you_mean, shown
from albireo.model.item import NAME_PATTERN, AlarmSettings, DataItem
from albireo.model.topology import ITEMS_MAX
from albireo.model.value import EXACT, ValueType, difference

OWNER_COLUMN: Final = "adapter"
"""Column that names the adapter of a row, in a table of a whole node."""
COLUMNS_MAX: Final = 128
POLLS_WITHIN: Final = 2
"""Polls that must fit into a time by which an item is judged: with fewer it is in alarm between two good polls."""
_NAME = re.compile(NAME_PATTERN)
_COMMENT: Final = re.compile(r"\s*#")
_NAME_CELL: Final = re.compile(r"[,;\t|]\s*\"?name\"?\s*(?:[,;\t|]|$)")
"""The column `name` in a header that begins with another one, such as #."""
_SEPARATOR: Final = re.compile(r"\"?sep\s*=[ ]*([,;\t|]|[^,;\t|\"]*?)[ ]*\"?[,;\t ]*", re.IGNORECASE)
"""The first line by which Excel tells the separator."""
_SEPARATORS: Final = ",;\t|"
_THOUSANDS: Final = re.compile(r"[+-]?[1-9][0-9]{0,2}\.[0-9]{3}")
_WORDS: Final = ("name", "unit", "description")
"""Columns whose cells are no numbers, whatever they look like."""
_NAME_REMEDY: Final = "Letters, digits, _ . -, a letter first, at most 64, one / at most."


class ItemRow(msgspec.Struct, frozen=True):
    """One item as it stands in the table."""

    line: int
    cells: dict[str, str]

    @property
    def name(self) -> str:
        return self.cells.get("name", "")


def read_rows(text: str, found: Findings) -> list[ItemRow]:
    """Rows of a table whose shape is right; mistakes of shape go to `found`."""
    lines = list(io.StringIO(text.removeprefix("\ufeff"), newline=""))
    rows: list[ItemRow] = []
    line = 1
    header: list[str] = []
    separator = _separator(lines, found)
    if not separator:
        return []
    try:
        for line, cells in _records(lines, separator):
            if not header:
                header = cells
                if not _is_header_good(header, line, found):
                    return []
                continue
            if len(cells) > len(header) and any(cells[len(header) :]):
                text_ = f"the row has {len(cells)} cells, the header {len(header)}"
                found.add((), text_, "Put cells that hold the separator into quotes.", line=line)
                continue
            if len(rows) >= ITEMS_MAX:
                found.add((), f"more than {ITEMS_MAX} rows", "Split the node.", line=line)
                break
            rows.append(ItemRow(line, {key: cell for key, cell in zip(header, cells, strict=False) if cell}))
    except csv.Error as error:
        remedy = "Look behind this line for a quote that is not closed, or not doubled within a cell."
        found.add((), f"not a CSV table: {error}", remedy, line=line)
    if header and not rows and not found.mistakes():
        found.add((), "the table has no rows", "Write one for each item below the names of the columns.", line=line)
    if not header:
        found.add((), "the table is empty", "Its first line names the columns; name is one of them.", line=1)
    if separator != ",":
        _doubt_thousands(rows, found)
    return rows


def _doubt_thousands(rows: list[ItemRow], found: Findings) -> None:
    """Warn of numbers that a spreadsheet may have meant a thousand times larger: where commas stand before decimals,
    cells are separated by something else, and a point may part thousands."""
    doubts: dict[str, list[ItemRow]] = {}
    for row in rows:
        for column, cell in row.cells.items():
            if _THOUSANDS.fullmatch(cell) and column not in _WORDS:
                doubts.setdefault(column, []).append(row)
    for column, (first, *others) in doubts.items():
        cell, more = first.cells[column], f" (and {len(others)} more rows)" if others else ""
        text = f"{first.name}: {cell} is read as {float(cell):g}: its point is that of a decimal number{more}"
        remedy = "Right if meant; write a thousand as 1000."
        found.add((column,), text, remedy, is_warning=True, line=first.line)


def _separator(lines: list[str], found: Findings) -> str:
    """Separator of the cells, by a line `sep=;`, which is emptied, or by the header. Empty: what is told is none."""
    for index, line in enumerate(lines):
        if not line.strip() or (_COMMENT.match(line) and not _NAME_CELL.search(line)):
            continue
        told = _SEPARATOR.fullmatch(line.strip("\r\n "))
        if told is None:
            return max(",;\t", key=lambda one: (line.count(one), one == ","))
        named = "\t" if told[1] == r"\t" else told[1]
        if not named or named not in _SEPARATORS:
            remedy = "Write a comma, a semicolon, a tab or | behind it, or take the line away."
            found.add((), f"{shown(line.strip())} names no separator", remedy, line=index + 1)
            return ""
        lines[index] = "\n"
        return named
    return ","


def _records(lines: list[str], separator: str) -> Iterator[tuple[int, list[str]]]:
    """Line (of the first character) and stripped cells of each record; a comment line is none, whatever it holds."""
    begins, is_new = 0, True
    names_at: int | None = None  # Place of the name among the cells, once the header is read.

    def told() -> Iterator[str]:
        nonlocal begins, is_new
        for place, line in enumerate(lines, 1):
            if is_new:
                if _is_comment(line, separator, names_at):
                    continue
                begins, is_new = place, False
            yield line

    for record in csv.reader(told(), delimiter=separator, strict=True):
        cells = [cell.strip() for cell in record]
        is_new = True
        if any(cells):
            if names_at is None:
                names_at = cells.index("name") if "name" in cells else 0
            yield begins, cells


def _is_comment(line: str, separator: str, names_at: int | None) -> bool:
    """Whether a line that begins with # is none of the table: where another column comes first, it is a row if it has
    a name."""
    if not _COMMENT.match(line):
        return False
    if names_at is None:
        return not _NAME_CELL.search(line)
    cells = line.split(separator)
    return not (0 < names_at < len(cells) and _NAME.match(cells[names_at].strip(' \r\n"')))


def _is_header_good(header: list[str], line: int, found: Findings) -> bool:
    if len(header) > COLUMNS_MAX:
        found.add((), f"{len(header)} columns, at most {COLUMNS_MAX} are allowed", "Is it an item table?", line=line)
        return False
    if "name" not in header:
        found.add(("name",), "the column 'name' is missing", "The first line names the columns.", line=line)
        return False
    twice = {column for column in header if column and header.count(column) > 1}
    for column in sorted(twice):
        found.add((column,), f"the column {shown(column)} stands there twice", "Take one away.", line=line)
    return not twice


def check_columns(rows: list[ItemRow], kind: AdapterKind, more: tuple[str, ...], found: Findings) -> None:
    """Report columns that the adapter does not know, each once, at the first row that uses it."""
    if not kind.columns:
        return
    known = (*kind.columns, *more)
    told: set[str] = set()
    for row in rows:
        for column in row.cells:
            if column not in known and column not in told:
                told.add(column)
                text = f"the column {shown(column)} is not known"
                found.add((column,), text, did_you_mean(column, known), line=row.line)


def check_row(row: ItemRow, kind: AdapterKind, found: Findings) -> Judged | None:
    """The row as its adapter understands it; None when it has a mistake."""
    if not row.name:
        found.add(("name",), "the item has no name", "Give it one, or take the row away.", line=row.line)
        return None
    if not _NAME.match(row.name):
        found.add(("name",), f"{shown(row.name)} is no item name", _NAME_REMEDY, line=row.line)
        return None
    if kind.judge is None:
        return Judged(DataItem(name=row.name, value_type=ValueType.FLOAT64))
    judged = kind.judge({key: cell for key, cell in row.cells.items() if key in kind.columns or not kind.columns})
    if isinstance(judged, Judged):
        return judged
    for one in judged:
        path = (one.column,) if one.column else ()
        found.add(path, f"{row.name}: {one.text}", _sentence(one.remedy), line=row.line)
    return None


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}." if text else "Change the cell."


def check_spans(judged: list[tuple[ItemRow, Judged]], found: Findings) -> None:
    """Warn of rows that take the same addresses."""
    spans = [(one.span, row) for row, one in judged if one.span is not None]
    spans.sort(key=lambda one: (one[0].space, one[0].first))
    reaching: tuple[AddressSpan, ItemRow] | None = None
    for span, row in spans:
        if reaching is None or reaching[0].space != span.space:
            reaching = (span, row)
            continue
        if span.first < reaching[0].end:
            text = f"{row.name} and {reaching[1].name} (line {reaching[1].line}) overlap in the {span.space}"
            remedy = f"Right if meant; else change the address {span.first}."
            found.add(("address",), text, remedy, is_warning=True, line=row.line)
        if span.end > reaching[0].end:
            reaching = (span, row)


def check_doubts(judged: list[tuple[ItemRow, Judged]], found: Findings) -> None:
    """Warn of the first row with a doubt about a column, and say how many more there are."""
    doubts: dict[str, list[tuple[ItemRow, RowMistake]]] = {}
    for row, one in judged:
        if one.doubt is not None:
            doubts.setdefault(one.doubt.column, []).append((row, one.doubt))
    for column, (first, *others) in doubts.items():
        row, doubt = first
        more = f" (and {len(others)} more rows)" if others else ""
        found.add((column,), f"{row.name}: {doubt.text}{more}", _sentence(doubt.remedy), is_warning=True, line=row.line)


def check_suppression(judged: list[tuple[ItemRow, Judged]], known: Mapping[str, Judged], found: Findings) -> None:
    """Check that `suppressed_by` names a bool item of the same node."""
    for row, one in judged:
        wanted = one.item.alarm.suppressed_by if one.item.alarm else ""
        if wanted and wanted == row.name:
            text = f"{row.name} would suppress itself"
            found.add(("suppressed_by",), text, "Name the item that says that the equipment is off.", line=row.line)
        elif wanted and wanted not in known:
            text = f"{row.name}: the item {shown(wanted)} that suppresses it is not there"
            found.add(("suppressed_by",), text, did_you_mean(wanted, known), line=row.line)
        elif wanted and known[wanted].item.value_type is not ValueType.BOOL:
            text = f"{row.name}: {wanted} cannot suppress it, it is no bool"
            found.add(("suppressed_by",), text, "Name an item that is true or false.", line=row.line)


def check_alarms(judged: list[tuple[ItemRow, Judged]], poll_ms: int, found: Findings) -> None:
    """Check that times can be met by polls, and warn of widths in which an alarm can't clear or is not told."""
    for row, one in judged:
        alarm = one.item.alarm
        if alarm is None:
            continue
        for column, seconds in (("stale_s", alarm.stale_s), ("frozen_s", alarm.frozen_s)):
            if seconds is not None and seconds * 1_000 < POLLS_WITHIN * poll_ms:
                text = f"{row.name}: {column} = {seconds:g} is shorter than {POLLS_WITHIN} polls of {poll_ms} ms"
                remedy = f"Write {POLLS_WITHIN * poll_ms / 1_000:g} or more, or poll more often."
                found.add((column,), text, remedy, line=row.line)
        limits = [limit for limit in (alarm.lo_lo, alarm.lo, alarm.hi, alarm.hi_hi) if limit is not None]
        for column, width in (("hysteresis", alarm.hysteresis), ("dead_band", one.dead_band)):
            span = _span(alarm)
            if span is not None and width > span:
                text = f"{row.name}: {column} = {width:.15g} is wider than the {span:.15g} between its limits"
                found.add((column,), text, "Write less, or move the limits.", is_warning=True, line=row.line)
        if one.item.value_type is ValueType.INT64 and any(abs(limit) >= EXACT for limit in limits):
            text = f"{row.name}: a limit beyond 2**53 is rounded to a number that has 53 bits"
            found.add((), text, "Right if it may be near; else scale the item.", is_warning=True, line=row.line)


def _span(alarm: AlarmSettings) -> float | None:
    """Distance of the limits between which a value is normal; of one side's, if there are none of the other."""
    upper = [one for one in (alarm.hi, alarm.hi_hi) if one is not None]
    lower = [one for one in (alarm.lo, alarm.lo_lo) if one is not None]
    if upper and lower:
        return difference(upper[0], lower[0])
    return difference(*upper[::-1]) if len(upper) == 2 else difference(*lower) if len(lower) == 2 else None


def check_former_name(row: ItemRow, one: Judged, known: Mapping[str, Judged], found: Findings) -> None:
    """Check that `was` names what no row of the node has, and no other row either had: an item has one past."""
    was = one.item.was
    if not was:
        return
    if not _NAME.match(was):
        found.add(("was",), f"{shown(was)} is no item name", _NAME_REMEDY, line=row.line)
    elif was in known:
        text = f"{row.name} was {was}, which is there still"
        found.add(("was",), text, "Take the cell away: an item that is there keeps its history.", line=row.line)
    elif any(other.item.was == was and name != row.name for name, other in known.items()):
        text = f"{row.name} is not the only item that was {was}"
        found.add(("was",), text, "Only one of them has its history: take the other cells away.", line=row.line)


def cells_of(row: ItemRow) -> dict[str, str]:
    """Cells of a row as its adapter gets them."""
    return {key: cell for key, cell in row.cells.items() if key != OWNER_COLUMN}
