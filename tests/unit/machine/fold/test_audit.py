"""The audit chain as a fold: of every audit record, in order, and over snapshots."""

import pytest

from albireo.codec.audit_chain import entry_of, first_head, next_head
from albireo.codec.errors import DecodeError
from albireo.codec.frame import FrameHeader
from albireo.codec.record import Audited, Kind, Stream
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.people.audit import AuditChain

LOG = bytes(range(16))


def audited(number: int) -> Audited:
    return Audited(at_ns=number, user="ann", action="ack", subject=f"pump{number}", detail="")


def header_of(first: int, count: int) -> FrameHeader:
    return FrameHeader(
        log_id=LOG,
        epoch=3,
        first_sequence=first,
        record_count=count,
        stream=Stream.AUDIT,
        kind=Kind.RECORDS,
        body_bytes=0,
        body_crc=0,
    )


def take(folds: Folds, first: int, count: int) -> None:
    folds.fold(header_of(first, count), [audited(first + one) for one in range(count)])


def expected(*sequences: int) -> bytes:
    head = first_head(LOG)
    for one in sequences:
        head = next_head(head, entry_of(audited(one), 3, one))
    return head


def test_the_head_covers_every_audit_record_with_its_position() -> None:
    folds = Folds()
    take(folds, 5, 2)
    take(folds, 9, 1)
    assert folds.audit.head == expected(5, 6, 9)
    assert (folds.audit.first_sequence, folds.audit.count, folds.audit.last.sequence) == (5, 3, 9)


def test_a_snapshot_carries_the_chain_on() -> None:
    folds = Folds()
    take(folds, 5, 2)
    restored = Folds.restore(folds.snapshot(), 0)
    for one in (folds, restored):
        take(one, 7, 3)
    assert restored.audit.head == folds.audit.head == expected(5, 6, 7, 8, 9)
    assert restored.snapshot() == folds.snapshot()


def test_a_malformed_section_is_refused() -> None:
    with pytest.raises(DecodeError):
        AuditChain.restore(b"\x01")
