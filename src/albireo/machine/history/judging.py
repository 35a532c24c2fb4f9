"""Judging: answers of another history are checked before anything is done about them; faults have names.

No name in an answer becomes a path of ours: `path` is only sent back to ask for the file, and the other history looks
it up in its own manifest. It is checked all the same, so that no path outside of a history is asked for.

Spec: ADR-0124, bad input; ADR-0218.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from albireo.codec.history import FileEntry, FileKind, Hole, day_of, day_start_ns, group_of, is_inside, is_node
from albireo.codec.history_copy import GroupSent
from albireo.machine.history.giving import COPIED
from albireo.model.position import Position

FILES_MAX: Final = 20_000
"""Most files of one group: a day whose files nobody merges has 1,440."""
FILE_BYTES_MAX: Final = 1 << 40
FILE_BYTES_MIN: Final = 12
"""Smallest file: magic numbers and the length of a footer."""
ROWS_MAX: Final = 1 << 40
PATH_CHARACTERS_MAX: Final = 1_000
HOLES_MAX: Final = 1_000
ITEMS_BYTES_MAX: Final = 64 << 20
"""Largest file of declared items, which is read whole."""
INT64: Final = 2**63
EPOCHS: Final = 2**32


def group_fault(sent: GroupSent, hole: Hole, log_id: str, before: str, *, is_exact: bool, node: str = "") -> str:
    """Fault of an answer that names a group; empty: none.

    Args:
        node: node below whose rows were asked for; empty: those of the own log.
    """
    is_next = sent.group == before if is_exact else not before or sent.group < before
    if not is_next:
        return "group_order"
    if not sent.entries:
        return "no_files"
    if len(sent.entries) > FILES_MAX:
        return "too_many_files"
    if len({entry.path for entry in sent.entries}) < len(sent.entries):
        return "file_twice"
    faults = (_entry_fault(entry, sent.group, hole, log_id, node) for entry in sent.entries)
    return next((fault for fault in faults if fault), "")


def _entry_fault(entry: FileEntry, group: str, hole: Hole, log_id: str, node: str) -> str:
    if not is_inside(entry.path) or len(entry.path) > PATH_CHARACTERS_MAX:
        return "path_outside"
    if node and entry.node != node:
        return "other_node"
    if node and entry.kind is FileKind.ITEMS:
        return _items_fault(entry, group)
    if entry.kind not in COPIED:
        return "wrong_kind"
    if entry.log_id != log_id:
        return "other_log"
    if not _is_day(entry.day):
        return "wrong_day"
    if not is_node(entry.node):
        return "wrong_node"
    if group_of(entry) != group:
        return "other_group"
    return _number_fault(entry, hole)


def _items_fault(entry: FileEntry, group: str) -> str:
    if group_of(entry) != group:
        return "other_group"
    return "" if FILE_BYTES_MIN <= entry.size_bytes <= ITEMS_BYTES_MAX else "wrong_size"


def _number_fault(entry: FileEntry, hole: Hole) -> str:
    if not FILE_BYTES_MIN <= entry.size_bytes <= FILE_BYTES_MAX:
        return "wrong_size"
    if not 0 < entry.rows <= ROWS_MAX:
        return "wrong_rows"
    if not 0 < entry.first_sequence <= entry.last_sequence < INT64 or not (
        entry.first_sequence <= hole.last_sequence and entry.last_sequence >= hole.first_sequence
    ):
        return "wrong_sequences"
    return "" if abs(entry.sealed_ns) < INT64 else "wrong_times"


def _is_day(day: str) -> bool:
    try:
        start_ns = day_start_ns(day)
    except ValueError:
        return False
    return abs(start_ns) < INT64 and day_of(start_ns) == day


def holes_left(hole: Hole, theirs: Sequence[Hole]) -> list[Hole] | None:
    """Parts of `hole` that the other history lacks too, settled or not as it says; None: its holes are impossible."""
    if len(theirs) > HOLES_MAX:
        return None
    found: dict[tuple[int, int], Hole] = {}
    for one in theirs:
        first, last = max(one.first_sequence, hole.first_sequence), min(one.last_sequence, hole.last_sequence)
        behind = hole.behind if one.last_sequence > hole.last_sequence else one.behind
        if first > last or not _is_possible(behind, last, hole):
            return None
        from_ns = min(max(one.from_ns, hole.from_ns), hole.to_ns)
        found[first, last] = Hole(
            first_sequence=first,
            last_sequence=last,
            from_ns=from_ns,
            to_ns=max(from_ns, min(one.to_ns, hole.to_ns)),
            behind=behind,
            reason=hole.reason,
            is_settled=one.is_settled,
        )
    return list(_apart(sorted(found.values(), key=lambda one: one.first_sequence)))


def _apart(holes: Sequence[Hole]) -> Iterator[Hole]:
    """Each without what the one before it has: no record is copied for two of them."""
    end = 0
    for hole in holes:
        if hole.last_sequence > end:
            yield msgspec.structs.replace(hole, first_sequence=max(hole.first_sequence, end + 1))
            end = hole.last_sequence


def parted(hole: Hole, open_parts: Sequence[Hole]) -> list[Hole]:
    """The hole as parts: those that the other history lacks for now, and what lies between them."""
    parts: list[Hole] = []
    first, from_ns = hole.first_sequence, hole.from_ns
    for one in open_parts:
        if first < one.first_sequence:
            parts.append(_part(hole, first, one.first_sequence - 1, from_ns, one.from_ns))
        parts.append(one)
        first, from_ns = one.last_sequence + 1, one.to_ns
    if first <= hole.last_sequence:
        parts.append(_part(hole, first, hole.last_sequence, from_ns, hole.to_ns))
    return parts


def _part(hole: Hole, first: int, last: int, from_ns: int, to_ns: int) -> Hole:
    behind = hole.behind if last == hole.last_sequence else Position(hole.behind.epoch, last + 1)
    return Hole(
        first_sequence=first,
        last_sequence=last,
        from_ns=from_ns,
        to_ns=max(from_ns, to_ns),
        behind=behind,
        reason=hole.reason,
    )


def _is_possible(behind: Position, last_sequence: int, hole: Hole) -> bool:
    return behind == hole.behind or (
        last_sequence < behind.sequence < hole.behind.sequence and 0 <= behind.epoch < EPOCHS
    )
