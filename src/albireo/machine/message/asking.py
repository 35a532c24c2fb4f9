"""Asking for messages: what a node takes of programs, until it is on record.

    asked -> refused at once: window full, too many, too large, or no time that makes sense
          -> number and guid drawn -> MessageRequested, on its way --committed--> open (outbox.py)

Not decided here: who may ask (machine/access).
Spec: docs/messages.md; ADR-0183.
"""

import random

from albireo.codec.message_records import MessageRequested
from albireo.machine.fold.letters.outbox import MessageReceipt, OutboxFold
from albireo.machine.message.events import MessageLimits, SendAsked
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.tree.message import EXPIRES_MS_MAX, MessageName

GUID_BITS = 128


class MessageAsking:
    """The machine, of one tenure."""

    def __init__(self, node: str, outbox: OutboxFold, chance: random.Random, limits: MessageLimits) -> None:
        self.node = node
        self.outbox = outbox
        self.limits = limits
        self._chance = chance
        self._requested: dict[str, MessageRequested] = {}
        """Messages on their way into the log, by command id."""

    def ask(self, asked: SendAsked, requested_ns: int) -> MessageRequested | Refusal:
        """The record of a message that is new, or why it is refused."""
        if (refusal := self._refusal(asked)) is not None:
            return refusal
        number = self.outbox.known(asked.owner).next + sum(
            one.name.owner == asked.owner for one in self._requested.values()
        )
        record = MessageRequested(
            name=MessageName(self.node, asked.owner, self.outbox.life, number, asked.inbox),
            guid=f"{self._chance.getrandbits(GUID_BITS):032x}",
            command_id=asked.command_id,
            kind=asked.kind,
            body=asked.body,
            expires_ms=asked.expires_ms,
            user=asked.user,
            principal=asked.principal,
            speaker=asked.speaker,
            reason=asked.reason,
            requested_ns=requested_ns,
            subject=asked.subject,
        )
        self._requested[asked.command_id] = record
        return record

    def on_record(self, record: MessageRequested) -> None:
        """Take that the request of a message is committed."""
        self._requested.pop(record.command_id, None)

    def names(self) -> list[MessageName]:
        """Messages that are on their way into the log."""
        return [one.name for one in self._requested.values()]

    def _refusal(self, asked: SendAsked) -> Refusal | None:
        to = (asked.owner, asked.inbox)
        pending = sum((one.name.owner, one.name.inbox) == to for one in self._requested.values())
        # A number that has its end counts until all before it have theirs: the owner remembers it as long.
        remembered = len(self.outbox.known(asked.owner).numbers.get(asked.inbox, ()))
        if pending + max(len(self.outbox.open_to(*to)), remembered) >= self.limits.window:
            where = f"inbox {asked.inbox!r} of {asked.owner}" if asked.inbox else asked.owner
            return _busy(f"{self.limits.window} messages to {where} have no outcome yet")
        many = len(self.outbox.open) + len(self._requested)
        if many >= self.limits.open_max - (self.limits.spare if asked.inbox else 0):
            return _busy(f"{many} messages of this node have no outcome yet")
        if asked.inbox and self._open_bytes() + len(asked.body) > self.limits.open_bytes_max:
            return _busy(f"bodies of {self._open_bytes()} bytes of this node have no outcome yet")
        if len(asked.body) > self.limits.body_bytes_max:
            cause = f"a body of {len(asked.body)} bytes; at most {self.limits.body_bytes_max}"
            return Refusal(RefusalCode.BAD_VALUE, cause)
        if not 0 < asked.expires_ms <= EXPIRES_MS_MAX:
            cause = f"expires after {asked.expires_ms} ms; at least 1 and at most {EXPIRES_MS_MAX}"
            return Refusal(RefusalCode.BAD_VALUE, cause)
        return None

    def asked_with(self, command_id: str) -> MessageRequested | MessageReceipt | None:
        """The message of this command id, on record already or not; None: there is none."""
        return self._requested.get(command_id) or self.outbox.asked_with(command_id)

    def _open_bytes(self) -> int:
        asked = (*(one.asked for one in self.outbox.open.values()), *self._requested.values())
        return sum(len(one.body) for one in asked)


def _busy(cause: str) -> Refusal:
    return Refusal(RefusalCode.BUSY, cause, "wait for some to end")
