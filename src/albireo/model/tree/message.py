"""Message: something that one node wants another to have or to do, named, kept and proven at both ends.

A message is named by the life of its origin's log in which it was asked for, its owner, the inbox there that it is for,
and a number that counts up from 1 for each owner in that life, over all its inboxes. A life is the epoch in which the
log began to be provably one: it goes on over a takeover in a pair, and ends where nothing proves that the store is the
one that was written last (ADR-0183).

Spec: docs/messages.md; seed 004.
"""

from enum import StrEnum
from typing import Final

import msgspec

from albireo.model.bounded import Count, Name, Word
from albireo.model.command import Outcome

BODY_BYTES_MAX: Final = 4 * 1024 * 1024
"""Largest body of a message."""
SMALL_BYTES: Final = 4 * 1024
"""Largest body that waits for no other, as those of orders; and the first piece of a larger one."""
PIECE_BYTES: Final = 256 * 1024
"""Most bytes of a body in one letter."""
EXPIRES_MS_MAX: Final = 7 * 24 * 3_600_000
"""Longest time that a message may wait: a week, as long as a site may be cut off."""
WRITE: Final = "write"
"""Kind of a message that orders an item to be written."""
DEFAULT_INBOX: Final = "default"
"""Inbox that is meant if nobody names one."""
REPLY_BYTES_MAX: Final = 16 * 1024
"""Largest reply of a receiver."""


class Life(msgspec.Struct, frozen=True, order=True, array_like=True):
    """Epoch and branch under which a log began to be provably one store."""

    epoch: Count = 0
    branch_id: Word = 0

    def __bool__(self) -> bool:
        return self.epoch > 0

    def __str__(self) -> str:
        return f"{self.epoch}-{self.branch_id:x}"


NO_LIFE: Final = Life()
"""Life of a node of which nothing was heard."""


class MessageName(msgspec.Struct, frozen=True, order=True, array_like=True):
    """Name of a message: the same at both ends and on the way."""

    origin: Name
    """Id of the node that wants something."""
    owner: Name
    """Id of the node that alone may do it."""
    life: Life
    """Life of the origin."""
    number: Count
    inbox: Name = ""
    """Inbox at the owner whose receivers it is for; empty: it is an order, which the owner carries out itself."""

    def __str__(self) -> str:
        inbox = f"[{self.inbox}]" if self.inbox else ""
        return f"{self.origin}>{self.owner}{inbox} {self.life} #{self.number}"


class MessageStage(StrEnum):
    """States of a message on the way to its outcome, as the origin knows them."""

    REQUESTED = "requested"
    """It was asked for, and is not on record yet."""
    AUTHORISED = "authorised"
    """The origin's judge let it pass, and it is on record."""
    SELECTED = "selected"
    """The owner has reserved the item for it (select before operate)."""
    TOLD = "told"
    """Its name was told towards the owner."""
    ACCEPTED = "accepted"
    """The owner has it on record."""
    EXECUTING = "executing"
    """The owner has begun to carry it out."""


class MessageOutcome(StrEnum):
    """Named end of a message. Those that a command has too are the same words (model.command.Outcome)."""

    VERIFIED = Outcome.VERIFIED.value
    MISMATCHED = Outcome.MISMATCHED.value
    EXECUTED = Outcome.EXECUTED.value
    """Carried out without a read-back; of a message that is no order: taken by a receiver at the owner."""
    REJECTED = Outcome.REJECTED.value
    EXPIRED = Outcome.EXPIRED.value
    """Promise: its time ran out, and it was not and will not be carried out."""
    CANCELLED = "cancelled"
    """Promise: it was taken back, and was not and will not be carried out."""
    UNKNOWN = Outcome.UNKNOWN.value
    """Nobody could be asked in time; a late outcome corrects it."""

    @property
    def is_promise(self) -> bool:
        """True: it says that nothing was done and nothing will be."""
        return self in (MessageOutcome.EXPIRED, MessageOutcome.CANCELLED, MessageOutcome.REJECTED)


class AddCause(StrEnum):
    """Causes of an outcome, in the words and the order (0..27) of AddCause of IEC 61850-7-2."""

    UNKNOWN = "unknown"
    NOT_SUPPORTED = "not-supported"
    BLOCKED_BY_SWITCHING_HIERARCHY = "blocked-by-switching-hierarchy"
    SELECT_FAILED = "select-failed"
    INVALID_POSITION = "invalid-position"
    POSITION_REACHED = "position-reached"
    PARAMETER_CHANGE_IN_EXECUTION = "parameter-change-in-execution"
    STEP_LIMIT = "step-limit"
    BLOCKED_BY_MODE = "blocked-by-mode"
    BLOCKED_BY_PROCESS = "blocked-by-process"
    BLOCKED_BY_INTERLOCKING = "blocked-by-interlocking"
    BLOCKED_BY_SYNCHROCHECK = "blocked-by-synchrocheck"
    COMMAND_ALREADY_IN_EXECUTION = "command-already-in-execution"
    BLOCKED_BY_HEALTH = "blocked-by-health"
    ONE_OF_N_CONTROL = "1-of-n-control"
    ABORTION_BY_CANCEL = "abortion-by-cancel"
    TIME_LIMIT_OVER = "time-limit-over"
    ABORTION_BY_TRIP = "abortion-by-trip"
    OBJECT_NOT_SELECTED = "object-not-selected"
    OBJECT_ALREADY_SELECTED = "object-already-selected"
    NO_ACCESS_AUTHORITY = "no-access-authority"
    ENDED_WITH_OVERSHOOT = "ended-with-overshoot"
    ABORTION_DUE_TO_DEVIATION = "abortion-due-to-deviation"
    ABORTION_BY_COMMUNICATION_LOSS = "abortion-by-communication-loss"
    BLOCKED_BY_COMMAND = "blocked-by-command"
    NONE = "none"
    INCONSISTENT_PARAMETERS = "inconsistent-parameters"
    LOCKED_BY_OTHER_CLIENT = "locked-by-other-client"
