"""The audit fold: head of the chain over the audit records of the log (codec/audit_chain.py).

It begins with the first audit record that this fold sees.
"""

import msgspec

from albireo.codec.audit_chain import entry_of, first_head, next_head
from albireo.codec.record import Audited
from albireo.codec.slices import unsliced
from albireo.model.position import Position
from albireo.model.status import AuditHead


class _AuditSection(msgspec.Struct, frozen=True, array_like=True):
    first_sequence: int
    count: int
    last: Position
    head: bytes


class AuditChain:
    """Head of the chain, where it begins, and how many entries it covers."""

    def __init__(self) -> None:
        self.first_sequence = 0
        """Position of the first entry; 0: there is none yet."""
        self.count = 0
        self.last = Position(0, 0)
        self.head = b""

    def __bool__(self) -> bool:
        return self.count > 0

    def fold(self, record: Audited, position: Position, log_id: bytes) -> None:
        if not self.count:
            self.first_sequence = position.sequence
            self.head = first_head(log_id)
        self.head = next_head(self.head, entry_of(record, position.epoch, position.sequence))
        self.count += 1
        self.last = position

    def told(self) -> AuditHead:
        """The chain, for whoever notes it."""
        return AuditHead(
            first_sequence=self.first_sequence, count=self.count, sequence=self.last.sequence, head=self.head.hex()
        )

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(_AuditSection(self.first_sequence, self.count, self.last, self.head))

    @classmethod
    def restore(cls, section: bytes) -> "AuditChain":
        """Inverse of `snapshot`.

        Raises:
            DecodeError: the section is malformed.
        """
        self, found = cls(), unsliced(section, _AuditSection)
        self.first_sequence, self.count, self.last, self.head = msgspec.structs.astuple(found)
        return self
