"""Chain over the audit records of a log, and the file that it is exported to.

    head 0   = SHA-256("albireo audit" | log id)
    head n   = SHA-256(head n-1 | JSON of entry n)          an entry: one `Audited` record with its position

    export   = header line | one line per entry, each with its head | end line         every line one JSON object

The JSON of an entry has the fields of `AuditEntry` in their order, without blanks; a field that is left at its default
is left out, so a field that a later version adds changes no head of before.

Decision: ADR-0148. Spec: docs/audit.md.
"""

from hashlib import sha256
from typing import Final

import msgspec

from albireo.codec.record import Audited

FORMAT: Final = 1
_json: Final = msgspec.json.Encoder()


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One audit record, and where in the log it stands."""

    epoch: int
    sequence: int
    at_ns: int
    user: str
    action: str
    subject: str
    detail: str = ""
    principal: str = ""
    speaker: str = ""


class ExportHeader(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """First line of an export."""

    albireo_audit: int
    cluster: str
    """Name of the pair or node; the chain does not cover it."""
    log_id: str
    first_sequence: int
    """Position of the first entry that the chain covers; 0: there is none."""
    before: str
    """Head before the first entry."""


class ExportLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Line of an export with one entry."""

    number: int
    """Place in the chain, from 1."""
    entry: AuditEntry
    head: str
    """Head of the chain with this entry."""


class ExportEnd(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Last line of an export."""

    count: int
    head: str


def entry_of(record: Audited, epoch: int, sequence: int) -> AuditEntry:
    return AuditEntry(
        epoch=epoch,
        sequence=sequence,
        at_ns=record.at_ns,
        user=record.user,
        action=record.action,
        subject=record.subject,
        detail=record.detail,
        principal=record.principal,
        speaker=record.speaker,
    )


def first_head(log_id: bytes) -> bytes:
    """Head of the empty chain of a log."""
    return sha256(b"albireo audit" + log_id).digest()


def next_head(head: bytes, entry: AuditEntry) -> bytes:
    return sha256(head + _json.encode(entry)).digest()


def encode_line(line: ExportHeader | ExportLine | ExportEnd) -> bytes:
    return _json.encode(line) + b"\n"
