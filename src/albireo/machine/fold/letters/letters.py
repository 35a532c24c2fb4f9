"""The fold of messages: outbox, inbox, and the life of this node's messages.

Spec: docs/messages.md; ADR-0183.
"""

from typing import assert_never

from albireo.codec.message_records import (
    LifeBegun,
    LowTold,
    MessageAccepted,
    MessageDone,
    MessageEnded,
    MessageLeased,
    MessageRecord,
    MessageRefused,
    MessageRequested,
    MessageStopped,
    OwnerHeard,
)
from albireo.machine.fold.letters.inbox import InboxFold
from albireo.machine.fold.letters.outbox import OutboxFold
from albireo.model.instant import LogTime
from albireo.model.tree.message import Life

OUTBOX = "outbox"
INBOX = "inbox"
"""Sections of a snapshot."""


class MessageFold:
    """Both folds, fed with the committed records of one log."""

    def __init__(self, outbox: OutboxFold | None = None, inbox: InboxFold | None = None) -> None:
        self.outbox = outbox or OutboxFold()
        self.inbox = inbox or InboxFold()

    @property
    def life(self) -> Life:
        """Present life of this node's messages; none: it has never begun one."""
        return self.outbox.life

    def fold(self, record: MessageRecord, log_time: LogTime) -> None:
        match record:
            case LifeBegun():
                self.outbox.fold_life(record)
            case MessageRequested():
                self.outbox.fold_requested(record, log_time)
            case MessageStopped():
                self.outbox.fold_stopped(record)
            case MessageEnded():
                self.outbox.fold_ended(record, log_time)
            case OwnerHeard():
                self.outbox.fold_heard(record)
            case MessageAccepted():
                self.inbox.fold_accepted(record, log_time)
            case MessageLeased():
                self.inbox.fold_leased(record)
            case MessageRefused():
                self.inbox.fold_refused(record)
            case MessageDone():
                self.inbox.fold_done(record, log_time)
            case LowTold():
                self.inbox.fold_low(record)
            case _:
                assert_never(record)

    @classmethod
    def restore(cls, outbox: bytes, inbox: bytes) -> "MessageFold":
        """Fold of both sections.

        Raises:
            DecodeError: a section is malformed.
        """
        return cls(OutboxFold.restore(outbox), InboxFold.restore(inbox))
