"""Every change of an audit export is found, and unchanged ones are good."""

import random

from hypothesis import given
from hypothesis import strategies as st

from albireo.cli.node.audit_check import BrokenExport, GoodExport, Parting, check, part
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

LOG = bytes(range(16))


def entry(number: int, user: str = "ann", epoch: int = 2) -> AuditEntry:
    return AuditEntry(epoch=epoch, sequence=3 * number, at_ns=number, user=user, action="ack", subject=f"p{number % 3}")


def lines_of(entries: list[AuditEntry], log_id: bytes = LOG) -> list[bytes]:
    head = first_head(log_id)
    first = entries[0].sequence if entries else 0
    header = ExportHeader(
        albireo_audit=FORMAT, cluster="root", log_id=log_id.hex(), first_sequence=first, before=head.hex()
    )
    lines = [encode_line(header)]
    for number, one in enumerate(entries, start=1):
        head = next_head(head, one)
        lines.append(encode_line(ExportLine(number=number, entry=one, head=head.hex())))
    return [*lines, encode_line(ExportEnd(count=len(entries), head=head.hex()))]


def some(count: int) -> list[AuditEntry]:
    return [entry(one) for one in range(1, count + 1)]


def whole(data: bytes) -> GoodExport:
    found = check(data)
    assert isinstance(found, GoodExport), found
    return found


def broken(lines: list[bytes]) -> BrokenExport:
    found = check(b"".join(lines))
    assert isinstance(found, BrokenExport)
    return found


users = st.lists(st.text(max_size=5), max_size=8)


@given(users)
def test_an_unchanged_export_is_good(names: list[str]) -> None:
    lines = lines_of([entry(one, name) for one, name in enumerate(names, start=1)])
    found = whole(b"".join(lines))
    assert [one.user for one in found.entries] == names
    assert found.head.encode() in lines[-1]


@given(st.integers(0, 8), st.randoms(use_true_random=False))
def test_every_changed_byte_is_found(count: int, chance: random.Random) -> None:
    lines = lines_of(some(count))
    data = b"".join(lines)
    at = chance.choice([one for one in range(len(data)) if not _is_name(data, one)])
    changed = bytearray(data)
    changed[at] ^= chance.randint(1, 255)
    found = check(bytes(changed))
    assert isinstance(found, BrokenExport), (at, bytes(changed))
    assert found.line <= data[:at].count(b"\n") + 2


def _is_name(data: bytes, at: int) -> bool:
    """Whether the byte is of the cluster's name, which the chain does not cover."""
    begin = data.index(b'"root"') + 1
    return begin <= at < begin + 4


def test_every_removed_entry_is_missing() -> None:
    lines = lines_of(some(6))
    for at in range(1, 7):
        assert broken(lines[:at] + lines[at + 1 :]) == BrokenExport(at + 1, "missing")
    assert broken(lines[1:]) == BrokenExport(1, "changed")


def test_every_changed_entry_is_changed() -> None:
    lines = lines_of(some(6))
    for at in range(1, 7):
        other = lines[at].replace(b'"ann"', b'"bob"')
        assert broken([*lines[:at], other, *lines[at + 1 :]]) == BrokenExport(at + 1, "changed")


def test_every_swap_is_found() -> None:
    lines = lines_of(some(6))
    for first in range(1, 7):
        for second in range(first + 1, 7):
            swapped = list(lines)
            swapped[first], swapped[second] = lines[second], lines[first]
            assert broken(swapped) == BrokenExport(first + 1, "reordered")


def test_every_insertion_is_found() -> None:
    lines = lines_of(some(6))
    foreign = lines_of([entry(9, "eve")])[1]
    for at in range(1, 8):
        for strange in (*lines[1:7], foreign):
            assert broken([*lines[:at], strange, *lines[at:]]).why in ("added", "changed", "missing")
    for at in range(1, 7):
        assert broken([*lines[: at + 1], lines[at], *lines[at + 1 :]]) == BrokenExport(at + 2, "added")
    assert broken([*lines, lines[3]]) == BrokenExport(9, "added")


def test_every_cut_is_found() -> None:
    data = b"".join(lines_of(some(3)))
    for end in range(len(data)):
        found = check(data[:end])
        assert isinstance(found, BrokenExport) and found.why == "cut", (end, found)


def test_an_export_that_was_made_up_anew_has_another_head() -> None:
    first, second = some(4), some(4)
    second[1] = entry(2, "eve")
    assert whole(b"".join(lines_of(first))).head not in whole(b"".join(lines_of(second))).heads


def test_two_exports_part_behind_their_last_equal_entry() -> None:
    first, second = some(5), [*some(3), entry(4, epoch=3)]
    one, two = whole(b"".join(lines_of(first))), whole(b"".join(lines_of(second)))
    assert part(one, two) == Parting(3, first[3], second[3])
    assert part(one, one) == Parting(5, None, None)


def test_an_export_that_begins_later_is_compared_from_there() -> None:
    one, two = whole(b"".join(lines_of(some(5)))), whole(b"".join(lines_of(some(7)[2:])))
    assert part(one, two) == Parting(3, None, entry(6))
