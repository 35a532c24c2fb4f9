"""Check of an audit export, line by line: is the chain whole, and if not, which line is the first wrong one, and why.

Why a line is wrong is a guess from the numbers around it; that it is wrong is certain. Every line has to be byte for
byte what an export writes, so nothing can be changed in it that the chain does not cover but the header's `cluster`.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal, TypeVar

import msgspec

from albireo.codec.audit_chain import (
    FORMAT,
    AuditEntry,
    ExportEnd,
    ExportHeader,
    ExportLine,
    encode_line,
    first_head,
    next_head,
)

Why = Literal["changed", "missing", "added", "reordered", "cut"]
_Line = TypeVar("_Line", ExportHeader, ExportLine, ExportEnd)
WORDS: Final[dict[Why, str]] = {
    "changed": "it was changed",
    "missing": "an entry before it is missing",
    "added": "it was added",
    "reordered": "entries were reordered",
    "cut": "the file ends before its end: it was cut in the middle",
}


class BrokenExport(msgspec.Struct, frozen=True):
    """An export that does not hold what was written into it."""

    line: int
    """First wrong line, from 1."""
    why: Why


class GoodExport(msgspec.Struct, frozen=True):
    """An export whose chain is unbroken."""

    header: ExportHeader
    entries: tuple[AuditEntry, ...]
    heads: tuple[str, ...]
    """Head after no entry, after the first, after the second, ..."""

    @property
    def head(self) -> str:
        return self.heads[-1]


class Parting(msgspec.Struct, frozen=True):
    """Where two exports part."""

    equal: int
    """Entries that both have, up to there."""
    first: AuditEntry | None
    second: AuditEntry | None
    """The next entry of each; None: it has no more. Both None: they are equal to the end."""


def check(data: bytes) -> GoodExport | BrokenExport:
    """Check an export."""
    lines = data.split(b"\n")
    header = _decoded(lines[0], ExportHeader)
    if header is None or header.albireo_audit != FORMAT:
        return BrokenExport(1, "changed" if len(lines) > 1 else "cut")
    if header.before != _begin(header.log_id):
        return BrokenExport(1, "changed")
    has_cut = lines[-1] != b""
    body = lines[1:] if has_cut else lines[1:-1]
    heads, entries = [header.before], list[AuditEntry]()
    for index, line in enumerate(body):
        found = _decoded(line, ExportLine)
        number = len(entries) + 1
        if found is not None and found.number == number and _follows(found, heads[-1]):
            entries.append(found.entry)
            heads.append(found.head)
            continue
        end = _decoded(line, ExportEnd)
        if end is not None:
            return _ended(end, GoodExport(header, tuple(entries), tuple(heads)), index + 2, body[index + 1 :], has_cut)
        if has_cut and index == len(body) - 1:
            return BrokenExport(index + 2, "cut")
        return BrokenExport(index + 2, _why(found, number, heads[-1], body[index + 1 :]))
    return BrokenExport(len(body) + 2, "cut")


def part(first: GoodExport, second: GoodExport) -> Parting:
    """Where two unbroken exports of one log part; entries before the later one of their beginnings are left out."""
    begin = max(first.header.first_sequence, second.header.first_sequence)
    one, two = _from(first.entries, begin), _from(second.entries, begin)
    equal = next((at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
    return Parting(equal, *(some[equal] if equal < len(some) else None for some in (one, two)))


def _from(entries: Sequence[AuditEntry], sequence: int) -> Sequence[AuditEntry]:
    return entries[bisect_left(entries, sequence, key=lambda one: one.sequence) :]


def _begin(log_id: str) -> str:
    try:
        return first_head(bytes.fromhex(log_id)).hex()
    except ValueError:
        return ""


def _decoded(line: bytes, shape: type[_Line]) -> _Line | None:
    """The line, if it is one of this shape and is written as an export writes it."""
    try:
        found = msgspec.json.decode(line, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found if encode_line(found) == line + b"\n" else None


def _follows(line: ExportLine, head: str) -> bool:
    return next_head(bytes.fromhex(head), line.entry).hex() == line.head


def _ended(
    end: ExportEnd, whole: GoodExport, line: int, behind: Sequence[bytes], has_cut: bool
) -> GoodExport | BrokenExport:
    count = len(whole.entries)
    if end.count != count:
        return BrokenExport(line, "missing" if end.count > count else "added")
    if whole.header.first_sequence != (whole.entries[0].sequence if count else 0):
        return BrokenExport(1, "changed")
    if end.head != whole.head:
        return BrokenExport(line, "changed")
    if behind:
        return BrokenExport(line + 1, "added")
    return BrokenExport(line, "cut") if has_cut else whole


def _why(found: ExportLine | None, number: int, head: str, behind: Sequence[bytes]) -> Why:
    if found is None or _follows(found, head):
        return "changed"  # Not a line of an export, or one with another number than its place.
    later = Counter(one.number for one in (_decoded(line, ExportLine) for line in behind) if one is not None)
    if found.number < number or later[found.number]:
        return "added"
    if found.number == number:
        return "changed"
    return "reordered" if later[number] else "missing"
