"""Receivers: programs that share the work of one inbox. Each message that is no order is given to one of them.

    offered --a receiver has room, lease committed--> leased --taken, with its number--> executed
       |                                                |
       |                                                +--receiver gone, or silent for a lease--> offered again
       +--its time is over: expired                     +--the same, its time over--> unknown

Invariants
    leased:    one receiver at a time has the number; the word of an earlier one is refused.
    expired:   said only if no receiver had it.

A message is offered in the tenure that accepted it and in no other; a receiver that dies in the middle of its work may
have done it, so who can't bear that another one begins it again makes its work undoable or idempotent.

Spec: docs/messages.md; seed 004.
"""

from typing import Final

import msgspec

from albireo.codec.tree.records import MessageEnd, MessageLeased
from albireo.machine.message.events import ExecuteBody, HandOut, MessageTimes, RecordMessage
from albireo.machine.message.inbox import InboxFold
from albireo.model.instant import SECOND, Instant, soonest
from albireo.model.tree.message import AddCause, MessageName, MessageOutcome

LEASE_NS: Final = 30 * SECOND
"""Time in which a receiver says that it has taken what it was given, or that it is still there."""
RECEIVERS_MAX: Final = 64
CREDIT_MAX: Final = 16
"""Most messages that one receiver has at once."""

ReceiverEffect = RecordMessage | HandOut
ReceiverEnd = tuple[MessageName, MessageEnd]


class Offer(msgspec.Struct):
    """One message that a receiver is to have."""

    order: ExecuteBody
    receiver: str = ""
    """Receiver that has it, or will once its lease is committed; empty: none."""
    lease: int = 0
    ends: Instant | None = None
    """Instant at which the lease is over; None: its record is not committed yet."""
    was_out: bool = False
    """True: a receiver had it."""


class MessageReceivers:
    """The machine, of one tenure."""

    def __init__(self, inbox: InboxFold) -> None:
        self.inbox = inbox
        self._offers: dict[MessageName, Offer] = {}
        self._credit: dict[str, int] = {}
        """Most messages that each receiver takes at once, those that it has included."""

    def __len__(self) -> int:
        return len(self._offers)

    def offer(self, order: ExecuteBody) -> list[ReceiverEffect]:
        """Give a message to a receiver that has room, or keep it until one has."""
        self._offers[order.name] = Offer(order)
        return self._give()

    def ready(self, receiver: str, credit: int, times: MessageTimes) -> list[ReceiverEffect]:
        """Take a receiver's word that it is there, and how much it takes at once."""
        if receiver not in self._credit and len(self._credit) >= RECEIVERS_MAX:
            return []
        self._credit[receiver] = min(max(credit, 0), CREDIT_MAX)
        for one in self._offers.values():
            if one.receiver == receiver and one.ends is not None:
                one.ends = Instant(times.now + LEASE_NS)
        return self._give()

    def rests(self, receiver: str, credit: int) -> None:
        """Take that a receiver has room for no more than it has: it waits for none now."""
        if credit > 0:
            self._credit[receiver] = min(credit, CREDIT_MAX)
        else:
            self._credit.pop(receiver, None)

    def held(self, receiver: str) -> int:
        """Number of messages that a receiver has."""
        return sum(one.receiver == receiver and one.ends is not None for one in self._offers.values())

    def is_promised(self, receiver: str) -> bool:
        """True: a lease for this receiver is on its way into the log."""
        return any(one.receiver == receiver and one.ends is None for one in self._offers.values())

    def lost(self, receiver: str) -> list[ReceiverEffect]:
        """Give what a receiver had to others: it is gone."""
        self._credit.pop(receiver, None)
        for one in self._offers.values():
            if one.receiver == receiver:
                one.receiver, one.ends = "", None
        return self._give()

    def _give(self) -> list[ReceiverEffect]:
        effects: list[ReceiverEffect] = []
        for name, one in self._offers.items():
            if one.receiver:
                continue
            loads = {who: sum(other.receiver == who for other in self._offers.values()) for who in self._credit}
            free = [who for who, load in loads.items() if load < self._credit[who]]
            if not free:
                break
            one.receiver = min(free, key=lambda who: loads[who])
            one.lease += 1
            effects.append(RecordMessage(MessageLeased(name=name, receiver=one.receiver, lease=one.lease)))
        return effects

    def leased(self, record: MessageLeased, times: MessageTimes) -> list[ReceiverEffect]:
        """Hand a body out, as its lease is committed."""
        one = self._offers.get(record.name)
        if one is None or (one.receiver, one.lease) != (record.receiver, record.lease):
            return []
        if times.now >= one.order.not_after:
            one.receiver = ""
            return []
        one.ends, one.was_out = Instant(times.now + LEASE_NS), True
        order = one.order
        return [
            HandOut(
                receiver=one.receiver,
                name=order.name,
                lease=one.lease,
                kind=order.kind,
                body=order.body,
                user=order.user,
                principal=order.principal,
                reason=order.reason,
            )
        ]

    def taken(self, receiver: str, name: MessageName, lease: int) -> ReceiverEnd | None:
        """Take a receiver's word that a message is its own now; None: it does not have that lease any more."""
        one = self._offers.get(name)
        if one is None or one.ends is None or (one.receiver, one.lease) != (receiver, lease):
            return None
        del self._offers[name]
        return name, MessageEnd(outcome=MessageOutcome.EXECUTED, detail=f"taken by {receiver}")

    def time_passed(self, times: MessageTimes) -> tuple[list[ReceiverEffect], list[ReceiverEnd]]:
        """End leases and messages whose time is over."""
        ended: list[ReceiverEnd] = []
        for name, one in list(self._offers.items()):
            if one.ends is not None and times.now >= one.ends:
                self._credit.pop(one.receiver, None)
                one.receiver, one.ends = "", None
            if not one.receiver and times.now >= one.order.not_after:
                del self._offers[name]
                ended.append((name, self._too_late(one)))
        return self._give(), ended

    def _too_late(self, offer: Offer) -> MessageEnd:
        if offer.was_out:
            detail = "a receiver had it and did not say what it did"
            return MessageEnd(outcome=MessageOutcome.UNKNOWN, cause=AddCause.TIME_LIMIT_OVER, detail=detail)
        detail = "no receiver took it in time"
        return MessageEnd(outcome=MessageOutcome.EXPIRED, cause=AddCause.TIME_LIMIT_OVER, detail=detail)

    def recovered(self, name: MessageName, *, is_proven: bool) -> MessageEnd:
        """End of a message that an earlier tenure accepted."""
        row = self.inbox.rows.get(name)
        if is_proven and row is not None and not row.lease:
            detail = "no receiver had it when this node stopped"
            cause = AddCause.ABORTION_BY_COMMUNICATION_LOSS
            return MessageEnd(outcome=MessageOutcome.EXPIRED, cause=cause, detail=detail)
        return MessageEnd(outcome=MessageOutcome.UNKNOWN, detail="a receiver may have had it when this node stopped")

    def deadline(self) -> Instant | None:
        """Instant at which `time_passed` is due."""
        ends = (one.ends for one in self._offers.values() if one.ends is not None)
        return soonest(*ends, *(one.order.not_after for one in self._offers.values() if not one.receiver))
