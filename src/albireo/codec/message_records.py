"""Records of messages (stream COMMAND), those of their origin and those of their owner.

    both    LifeBegun
    origin  MessageRequested, MessageStopped, MessageEnded, OwnerHeard
    owner   MessageAccepted, MessageLeased, MessageRefused, MessageDone, LowTold

They are part of `codec.record.Record`. Spec: docs/messages.md; ADR-0183.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from albireo.model.bounded import ENTRIES_MAX, Count, Name, Signed, Text
from albireo.model.refusal import Refusal
from albireo.model.tree.message import (
    BODY_BYTES_MAX,
    REPLY_BYTES_MAX,
    AddCause,
    Life,
    MessageName,
    MessageOutcome,
)
from albireo.model.value import Value

Body = Annotated[bytes, Meta(max_length=BODY_BYTES_MAX)]
Reply = Annotated[bytes, Meta(max_length=REPLY_BYTES_MAX)]
Numbers = Annotated[tuple[Count, ...], Meta(max_length=ENTRIES_MAX)]


class MessageEnd(msgspec.Struct, frozen=True, kw_only=True):
    """End of a message, as its owner says it, or its origin where the owner can't be asked."""

    outcome: MessageOutcome
    cause: AddCause = AddCause.NONE
    detail: Text = ""
    code: Name = ""
    """Code of the refusal, whose cause is the detail; empty: its owner did not refuse it."""
    remedy: Text = ""
    read_back: Value | None = None
    accepted_ns: Signed = 0
    """Wall time at the owner when it took the body; 0: not known to have done so."""
    begun_ns: Signed = 0
    """Wall time at the owner when it began to carry it out; 0: not known to have begun."""
    selected_ns: Signed = 0
    """Wall time at the owner at which the selection began that the order used; 0: none."""
    ended_ns: Signed = 0
    """Wall time at the node that says it."""
    reply: Reply | None = None
    """Answer of the receiver that took it; None: nothing, or it is kept no more."""

    @property
    def refusal(self) -> Refusal:
        """Words of the end as a refusal, which it is if it has a code."""
        return Refusal(self.code, self.detail, self.remedy)


class MessageFact(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all records of messages."""


class LifeBegun(MessageFact, frozen=True, kw_only=True, tag="life_begun"):
    """A tenure of this node's messages begins: the first of a new life, or one that provably goes on with the last."""

    life: Life
    epoch: Count
    """Epoch of the tenure; that of the life: nothing proves that the store is the one that was written last."""


class MessageRequested(MessageFact, frozen=True, kw_only=True, tag="message"):
    """Somebody here wants another node to have or to do something."""

    name: MessageName
    guid: Text
    """Drawn here; the owner can only know it by having had the body."""
    command_id: Text
    """Id that whoever asked gave it; a retry with the same id is the same message."""
    kind: Text
    body: Body
    expires_ms: Signed
    user: Text = ""
    principal: Text = ""
    """Who asked (model.principal)."""
    speaker: Text = ""
    """Principal that spoke for it, if it is a person."""
    reason: Text = ""
    requested_ns: Signed = 0
    """Wall time at the origin."""
    subject: Text = ""
    """Words for people: what it is about. The body is deleted once it has ended."""


class MessageStopped(MessageFact, frozen=True, kw_only=True, tag="message_stopped"):
    """The body does not leave its origin any more; the owner is asked what became of it."""

    name: MessageName
    cause: AddCause


class MessageEnded(MessageFact, frozen=True, kw_only=True, tag="message_ended"):
    """The origin knows the outcome, or corrects one that was `unknown`; the body is deleted."""

    name: MessageName
    guid: Text
    end: MessageEnd
    is_settled: bool = True
    """False: unknown, and the owner is still asked."""
    told_ns: Signed = 0
    """Wall time at the origin when its name was told first; 0: not known to have been told."""


class OwnerHeard(MessageFact, frozen=True, kw_only=True, tag="owner_heard"):
    """The owner of messages is in another life than before, so what an earlier one did with them can't be proven."""

    owner: Name
    life: Life
    unsent: Numbers = ()
    """Numbers, of this node's present life, of open messages whose body never left."""


class MessageAccepted(MessageFact, frozen=True, kw_only=True, tag="message_accepted"):
    """The owner has the body; from here on it may have been carried out."""

    name: MessageName
    guid: Text
    kind: Text
    body: Body
    user: Text = ""
    principal: Text = ""
    speaker: Text = ""
    reason: Text = ""
    command_id: Text = ""
    """Id that whoever asked gave it at the origin."""
    subject: Text = ""
    requested_ns: Signed = 0
    """Wall time at the origin."""
    accepted_ns: Signed = 0
    """Wall time at the owner."""
    left_ms: Signed = 0
    """Time until its deadline, counted from this record."""


class MessageRefused(MessageFact, frozen=True, kw_only=True, tag="message_refused"):
    """The owner never had the body and takes it no more: the promise behind `never`."""

    name: MessageName


class MessageLeased(MessageFact, frozen=True, kw_only=True, tag="message_leased"):
    """One receiver of this owner's inbox may have the body from here on."""

    name: MessageName
    receiver: Text
    lease: Count
    """Number that counts the leases of this message; whoever says that it is taken names it."""


class MessageDone(MessageFact, frozen=True, kw_only=True, tag="message_done"):
    """The owner knows what became of a message that it accepted."""

    name: MessageName
    guid: Text
    end: MessageEnd
    lease: Count = 0
    """Number of the lease by which a receiver took it; 0: none did."""


class LowTold(MessageFact, frozen=True, kw_only=True, tag="message_low"):
    """The owner heard that its origin has a final outcome of every message below `low`, so they may be forgotten."""

    origin: Name
    owner: Name
    life: Life
    low: Count
    inbox: Name = ""
    """Inbox whose messages are meant; empty: orders."""
    since: Count = 0
    """Lowest epoch of a life of the origin with open messages; earlier lives are over."""


MessageRecord = (
    LifeBegun
    | MessageRequested
    | MessageStopped
    | MessageEnded
    | OwnerHeard
    | MessageAccepted
    | MessageLeased
    | MessageRefused
    | MessageDone
    | LowTold
)
