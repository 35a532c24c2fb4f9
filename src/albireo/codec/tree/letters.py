"""Letters about messages, between their origin and their owner. Nodes on the way pass them on by the next hop.

    origin -> owner   MessageTold, BodySent, OverAsked, OutcomeHeard
    owner -> origin   BodyAsked, AcceptedSaid, OutcomeSaid, NeverSaid, ForgottenSaid

Each names the message, and with it both ends. Letters of the origin carry its mark: every number below `low` of this
inbox in this life, and every life that began before epoch `since`, has a final outcome there. Letters of the owner
carry its life.

Spec: docs/messages.md; ADR-0183.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from albireo.model.bounded import Count, Name, Signed, Text, Word
from albireo.model.tree.message import (
    BODY_BYTES_MAX,
    EXPIRES_MS_MAX,
    PIECE_BYTES,
    REPLY_BYTES_MAX,
    SMALL_BYTES,
    AddCause,
    Life,
    MessageName,
)
from albireo.model.tree.message import MessageOutcome as Outcome

Size = Annotated[int, Meta(ge=0, le=BODY_BYTES_MAX)]
LeftMs = Annotated[int, Meta(ge=0, le=EXPIRES_MS_MAX)]
PieceSize = Annotated[int, Meta(ge=1, le=PIECE_BYTES)]
Piece = Annotated[bytes, Meta(max_length=PIECE_BYTES)]
Reply = Annotated[bytes, Meta(max_length=REPLY_BYTES_MAX)]
ShortText = Annotated[str, Meta(max_length=1_000)]


class FromOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """Head of each letter of an origin."""

    name: MessageName
    low: Count
    since: Count


class MessageTold(FromOrigin, frozen=True, kw_only=True, tag="message_told"):
    """There is a message; fetch it when there is room for it."""

    size: Size


class BodySent(FromOrigin, frozen=True, kw_only=True, tag="message_body"):
    """Piece of a body, in answer to one question."""

    guid: Name
    kind: Name
    size: Size
    offset: Size
    piece: Piece
    nonce: Word
    """Nonce of the question."""
    left_ms: LeftMs
    """Time that was left when this was sent. Counted from the asking, it ends no later than the origin's deadline."""
    user: ShortText = ""
    principal: Name = ""
    speaker: Name = ""
    reason: ShortText = ""
    command_id: ShortText = ""
    subject: ShortText = ""
    requested_ns: Signed = 0


class OverAsked(FromOrigin, frozen=True, kw_only=True, tag="message_over"):
    """Is there an outcome? If the body was never had: never."""


class OutcomeHeard(FromOrigin, frozen=True, kw_only=True, tag="message_heard"):
    """The outcome is on record here, or this message is none of mine: say it no more."""


class FromOwner(msgspec.Struct, frozen=True, kw_only=True):
    """Head of each letter of an owner."""

    name: MessageName
    life: Life
    """Life of the owner."""


class BodyAsked(FromOwner, frozen=True, kw_only=True, tag="message_fetch"):
    """Question for so many bytes of the body from `offset` on, or for the rest if that is less."""

    offset: Size
    size: PieceSize
    nonce: Word


class AcceptedSaid(FromOwner, frozen=True, kw_only=True, tag="message_taken"):
    """The body is on record at the owner, and there is no outcome yet."""

    guid: Name
    accepted_ns: Signed = 0
    begun_ns: Signed = 0


class OutcomeSaid(FromOwner, frozen=True, kw_only=True, tag="message_outcome"):
    """Outcome, proven by the guid."""

    guid: Name
    outcome: Outcome
    cause: AddCause = AddCause.NONE
    detail: Text = ""
    code: Name = ""
    remedy: Text = ""
    read_back: float | Signed | bool | Text | None = None
    accepted_ns: Signed = 0
    begun_ns: Signed = 0
    selected_ns: Signed = 0
    ended_ns: Signed = 0
    reply: Reply | None = None


class NeverSaid(FromOwner, frozen=True, kw_only=True, tag="message_never"):
    """The body was never had in this life, and is not taken any more; that is on record."""


class ForgottenSaid(FromOwner, frozen=True, kw_only=True, tag="message_forgotten"):
    """Nothing is known of this message any more."""


OriginLetter = MessageTold | BodySent | OverAsked | OutcomeHeard
OwnerLetter = BodyAsked | AcceptedSaid | OutcomeSaid | NeverSaid | ForgottenSaid
TreeMessage = OriginLetter | OwnerLetter


def may_wait(message: object) -> bool:
    """True: it goes over the link for the log, so that orders and life signs pass it."""
    return isinstance(message, BodySent) and message.size > SMALL_BYTES
