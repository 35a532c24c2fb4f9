"""Clocks, questions, effects, limits and paces of the machines of messages."""

import random
from collections.abc import Callable, Mapping

import msgspec

from albireo.codec.message_records import MessageEnd, MessageRecord
from albireo.codec.tree.letters import TreeMessage
from albireo.machine.fold.letters.outbox import MessageReceipt
from albireo.model.instant import MS, SECOND, Instant, LogTime, WallTime
from albireo.model.refusal import Refusal, RefusalCode, kind_of_code
from albireo.model.tree.message import BODY_BYTES_MAX, MessageName, MessageOutcome, MessageStage


class MessageTimes(msgspec.Struct, frozen=True):
    """One reading of all clocks."""

    now: Instant
    log_time: LogTime
    """Log time at this instant: that of the last frame, and what has passed since it was appended."""
    wall: WallTime


class MessageLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds and waits of the messages of one node."""

    window: int = 64
    """Most numbers open to one inbox of an owner in one life, so the owner remembers no more of it; orders have one."""
    open_max: int = 1_000
    """Most open messages of this node."""
    spare: int = 200
    """How many of these are for orders alone."""
    open_bytes_max: int = 64 * 1024 * 1024
    """Most bytes of open bodies; an order is let in beyond that."""
    body_bytes_max: int = BODY_BYTES_MAX
    room: int = 16
    """Most orders that this node, as their owner, fetches and carries out at once; as many messages of each inbox."""
    room_bytes: int = 16 * 1024 * 1024
    """Most bytes of their bodies."""
    inboxes_bytes: int = 64 * 1024 * 1024
    """Most bytes of bodies of all inboxes together."""
    told_max: int = 4_096
    """Most names of orders told to this node and not fetched, and of messages of all inboxes; one more is told again
    later."""
    told_inbox_max: int = 256
    """Most of them of one inbox."""
    rows_max: int = 4_096
    """Most rows of one origin: more than its windows have, unless it is broken."""
    first_ns: int = 200 * MS
    """First wait before a letter is repeated; doubles."""
    longest_ns: int = 5 * SECOND
    patient_ns: int = 60 * SECOND
    """Longest wait while the outcome is `unknown`, or waited for by somebody who may be away."""
    fetch_tries: int = 6
    """Questions without an answer after which a fetch is given up; the name is told again."""
    grace_ns: int = 5 * SECOND
    """Time for which the owner is asked what became of a message before that is `unknown`."""


class SendAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who may wants a message sent."""

    command_id: str
    owner: str
    kind: str
    body: bytes
    expires_ms: int
    user: str = ""
    principal: str = ""
    speaker: str = ""
    """Principal that spoke for it, if it is a person."""
    reason: str = ""
    subject: str = ""
    """Words for people: what it is about."""
    inbox: str = ""
    """Inbox at the owner; empty: it is an order."""


class RecordMessage(msgspec.Struct, frozen=True):
    """Append a record (stream COMMAND)."""

    record: MessageRecord


class SendLetter(msgspec.Struct, frozen=True):
    """Say something to a node; the composer turns the end into the next hop."""

    to: str
    letter: TreeMessage


class ExecuteBody(msgspec.Struct, frozen=True, kw_only=True):
    """Carry out an order, once, or give a message to one of its receivers, and say what became of it (`executed`)."""

    name: MessageName
    kind: str
    body: bytes
    not_after: Instant
    """Instant from which on it must not be begun."""
    user: str
    principal: str
    reason: str
    speaker: str = ""


class RecoverBody(msgspec.Struct, frozen=True):
    """Say what became of a message that was accepted before this tenure; it is not carried out now."""

    name: MessageName
    kind: str
    is_proven: bool
    """True: this tenure goes on with the life of the one that accepted it, so what the log lacks did not happen."""


class HandOut(msgspec.Struct, frozen=True, kw_only=True):
    """Give a body to a receiver, who says that it has taken it, by this lease."""

    receiver: str
    name: MessageName
    lease: int
    kind: str
    body: bytes
    user: str
    principal: str
    reason: str


class StageReached(msgspec.Struct, frozen=True):
    """A message is further on its way."""

    name: MessageName
    stage: MessageStage


class MessageProven(msgspec.Struct, frozen=True):
    """The outcome of a message is on record: answer whoever waits."""

    receipt: MessageReceipt


class MessageDoubt(msgspec.Struct, frozen=True):
    """An owner named a guid that is not that of the message: raise a case."""

    name: MessageName
    detail: str


def rejected(refusal: Refusal) -> MessageEnd:
    """End of a message that its owner refuses."""
    return MessageEnd(
        outcome=MessageOutcome.REJECTED,
        cause=kind_of_code(refusal.code).add_cause,
        detail=refusal.cause,
        code=refusal.code,
        remedy=refusal.remedy,
    )


def no_body(kind: str, error: Exception) -> MessageEnd:
    """End of a message whose body is none of its kind."""
    return rejected(Refusal(RefusalCode.MALFORMED, f"the body is no {kind}: {error}"))


MessageEffect = RecordMessage | SendLetter | ExecuteBody | RecoverBody | StageReached | MessageProven | MessageDoubt


class LetterPace(msgspec.Struct):
    """When a letter is due again: the wait doubles, and half of it is drawn."""

    due: Instant
    wait: int

    @classmethod
    def at_once(cls, now: Instant, limits: MessageLimits) -> "LetterPace":
        return cls(now, limits.first_ns)

    def again(self, now: Instant, longest_ns: int, chance: random.Random) -> None:
        """Note that it was said now."""
        self.due = Instant(now + self.wait // 2 + chance.randrange(self.wait // 2 + 1))
        self.wait = min(2 * self.wait, longest_ns)


def hurry(
    paces: Mapping[MessageName, LetterPace],
    is_meant: Callable[[MessageName], bool],
    times: MessageTimes,
    limits: MessageLimits,
) -> None:
    """Begin the waits anew of the messages that are meant."""
    for name, pace in paces.items():
        if is_meant(name):
            pace.due, pace.wait = times.now, limits.first_ns
