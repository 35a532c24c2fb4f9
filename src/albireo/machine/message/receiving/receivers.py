"""Receivers: programs that share the work of the inboxes. Each message of an inbox is given to one of its receivers.

    offered --a receiver has room, lease committed--> leased --taken, with its number--> executed
       |                                                |
       |                                                +--receiver gone, or silent for a lease--> offered again
       |                                                +--given back--> offered to others, to the same one later
       +--its time is over: expired                     +--the same, its time over--> unknown

Invariants
    leased:    one receiver at a time has the number; the word of an earlier one is refused once another one has it.
    expired:   said only if each receiver that had it has given it back in this tenure: it did nothing with it.
    counted:   leases count on over tenures, so the number alone says who had it last.

A message is offered on by each tenure that provably goes on with the one that accepted it (owner.py). A receiver that
dies in the middle of its work may have done it, so who can't bear that another one begins it again makes its work
undoable or idempotent.

Spec: docs/messages.md; ADR-0212; seed 004.
"""

from collections import Counter
from typing import Final

import msgspec

from albireo.codec.message_records import MessageEnd, MessageLeased
from albireo.machine.fold.letters.inbox import InboxFold
from albireo.machine.message.events import ExecuteBody, HandOut, MessageTimes, RecordMessage
from albireo.model.instant import SECOND, Instant, soonest
from albireo.model.tree.message import AddCause, MessageName, MessageOutcome

LEASE_NS: Final = 30 * SECOND
"""Time in which a receiver says that it has taken what it was given, or that it is still there."""
LEASES_MAX: Final = 4
"""Leases for which a receiver that says that it is there keeps what it was given; then another one gets it. Who only
passes over messages would keep them from all others."""
RECEIVERS_MAX: Final = 64
CREDIT_MAX: Final = 16
"""Most messages of one inbox that one receiver has at once."""

BACK_MAX: Final = 1_000
"""Most leases of which it is remembered that their receivers gave them back."""

ReceiverEffect = RecordMessage | HandOut
ReceiverEnd = tuple[MessageName, MessageEnd]


class Receiver(msgspec.Struct, frozen=True, order=True):
    """One program at one inbox."""

    link: str
    inbox: str


class Offer(msgspec.Struct):
    """One message that a receiver is to have."""

    order: ExecuteBody
    lease: int = 0
    receiver: str = ""
    """Link of the receiver that has it, or will once its lease is committed; empty: none."""
    ends: Instant | None = None
    """Instant at which the lease is over; None: its record is not committed yet."""
    until: Instant = Instant(0)
    """Instant beyond which the lease is not made longer."""
    was_out: bool = False
    """True: a receiver had it, and has not said that it did nothing with it."""
    asked: int = 0
    """Id of the question that it was the answer to, of the receiver that has it."""
    is_back: bool = False
    """True: who had it last has given it back."""
    passed_by: dict[str, Instant] = {}
    """Instant until which each link that gave it back is not given it again."""

    @property
    def inbox(self) -> str:
        return self.order.name.inbox


class MessageReceivers:
    """The machine, of one tenure."""

    def __init__(self, inbox: InboxFold, lease_ns: int = LEASE_NS) -> None:
        self.inbox = inbox
        self.lease_ns = lease_ns
        self._offers: dict[MessageName, Offer] = {}
        self._credit: dict[Receiver, int] = {}
        """Most messages that each receiver takes at once, those that it has included."""
        self._back: dict[tuple[MessageName, int], None] = {}
        """Leases that were given back in this tenure, the one given back first coming first."""

    def __len__(self) -> int:
        return len(self._offers)

    def offer(self, order: ExecuteBody) -> list[ReceiverEffect]:
        """Give a message to a receiver that has room, or keep it until one has."""
        row = self.inbox.rows.get(order.name)
        lease = 0 if row is None else row.lease
        self._offers[order.name] = Offer(order, lease, was_out=lease > 0)
        return self._give()

    def ready(self, one: Receiver, credit: int, times: MessageTimes) -> list[ReceiverEffect]:
        """Take a receiver's word that it is there, and how much it takes at once."""
        for offer in self._offers.values():
            if offer.receiver == one.link and offer.ends is not None:
                offer.ends = min(Instant(times.now + self.lease_ns), offer.until)
        if one not in self._credit and len(self._credit) >= RECEIVERS_MAX:
            return []
        self._credit[one] = min(max(credit, 0), CREDIT_MAX)
        return self._give()

    def rests(self, one: Receiver, credit: int) -> None:
        """Take that a receiver has room for no more than it has: it waits for none now."""
        if credit > 0:
            self._credit[one] = min(credit, CREDIT_MAX)
        else:
            self._credit.pop(one, None)

    def wanted(self) -> dict[str, int]:
        """Most messages that each inbox has at once, as its receivers take; those that they gave back come on top."""
        found = Counter(offer.inbox for offer in self._offers.values() if offer.passed_by and not offer.receiver)
        for one, credit in self._credit.items():
            found[one.inbox] += credit
        return dict(found)

    def held(self, one: Receiver) -> int:
        """Number of messages of its inbox that a receiver has."""
        return sum(self._is_of(offer, one) and offer.ends is not None for offer in self._offers.values())

    def holders(self) -> set[str]:
        """Links of the receivers that have a message."""
        return {offer.receiver for offer in self._offers.values() if offer.ends is not None}

    def is_promised(self, one: Receiver) -> bool:
        """True: a lease for this receiver is on its way into the log."""
        return any(self._is_of(offer, one) and offer.ends is None for offer in self._offers.values())

    def _is_of(self, offer: Offer, one: Receiver) -> bool:
        return (offer.receiver, offer.inbox) == (one.link, one.inbox)

    def lost(self, link: str) -> list[ReceiverEffect]:
        """Give what the receivers of a link had to others: they are gone."""
        for one in [one for one in self._credit if one.link == link]:
            del self._credit[one]
        for offer in self._offers.values():
            offer.passed_by.pop(link, None)
            if offer.receiver == link:
                self._end_lease(offer)
        return self._give()

    def _end_lease(self, offer: Offer) -> None:
        """Take a message from a receiver that says nothing more: nobody knows what it did with it."""
        offer.was_out |= offer.ends is not None
        offer.receiver, offer.ends = "", None

    def _give(self) -> list[ReceiverEffect]:
        effects: list[ReceiverEffect] = []
        loads = Counter((offer.receiver, offer.inbox) for offer in self._offers.values())
        for name, offer in self._offers.items():
            if offer.receiver:
                continue
            free = [one for one in self._credit if one.inbox == offer.inbox]
            free = [one for one in free if one.link not in offer.passed_by]
            free = [one for one in free if loads[one.link, one.inbox] < self._credit[one]]
            if not free:
                continue
            chosen = min(free, key=lambda one: loads[one.link, one.inbox])
            loads[chosen.link, chosen.inbox] += 1
            offer.receiver = chosen.link
            offer.lease += 1
            offer.is_back = False
            effects.append(RecordMessage(MessageLeased(name=name, receiver=chosen.link, lease=offer.lease)))
        return effects

    def leased(self, record: MessageLeased, times: MessageTimes) -> list[ReceiverEffect]:
        """Hand a body out, as its lease is committed."""
        offer = self._offers.get(record.name)
        if offer is None or (offer.receiver, offer.lease) != (record.receiver, record.lease):
            return []
        if times.now >= offer.order.not_after:
            offer.receiver = ""
            return []
        offer.ends = Instant(times.now + self.lease_ns)
        offer.until = Instant(times.now + LEASES_MAX * self.lease_ns)
        order = offer.order
        return [
            HandOut(
                receiver=offer.receiver,
                name=order.name,
                lease=offer.lease,
                kind=order.kind,
                body=order.body,
                user=order.user,
                principal=order.principal,
                reason=order.reason,
            )
        ]

    def taken(self, link: str, name: MessageName, lease: int, reply: bytes | None) -> ReceiverEnd | None:
        """Take a receiver's word that a message is its own now; None: it does not have that lease any more.

        Who had it last may say so until another one has it, also over another link: the lease is known by its number.
        """
        offer = self._offers.get(name)
        if offer is None or offer.is_back or not self._has_last(link, offer, lease):
            return None
        del self._offers[name]
        return name, MessageEnd(outcome=MessageOutcome.EXECUTED, detail=f"taken by {link}", reply=reply)

    def _has_last(self, link: str, offer: Offer, lease: int) -> bool:
        """True: this lease was the last one that a receiver had, and nobody else has it or will."""
        is_promised = bool(offer.receiver) and offer.ends is None
        return 0 < lease == offer.lease and offer.receiver in (link, "") and not is_promised

    def given_back(self, link: str, name: MessageName, lease: int, times: MessageTimes) -> list[ReceiverEffect] | None:
        """Take a receiver's word that it did nothing with a message, and give that to another one at once.

        It gets the message again only after the time of a lease, so that it does not go round in a circle with it.
        Who had it last may say so as with `taken`, and again, also once another one has it: nothing is done then.

        Returns:
            None: it does not have that lease any more, and did not give it back.
        """
        offer = self._offers.get(name)
        if offer is None or not self._has_last(link, offer, lease):
            return [] if (name, lease) in self._back else None
        self._back[name, lease] = None
        if len(self._back) > BACK_MAX:
            del self._back[next(iter(self._back))]
        if offer.receiver:
            one = Receiver(link, name.inbox)
            self.rests(one, self._credit.get(one, 0) - 1)  # It had room for this one, and waits for no other.
        offer.receiver, offer.ends, offer.is_back = "", None, True
        if len(offer.passed_by) >= RECEIVERS_MAX:
            del offer.passed_by[next(iter(offer.passed_by))]
        offer.passed_by[link] = Instant(times.now + self.lease_ns)
        return self._give()

    def answered(self, name: MessageName, request_id: int) -> None:
        """Take note to which question a message is the answer."""
        self._offers[name].asked = request_id

    def answered_with(self, link: str, request_id: int) -> MessageName | None:
        """The message that is the answer to this question, and that its receiver has; None: there is none."""
        asked = (link, request_id)
        found = (n for n, one in self._offers.items() if one.ends is not None and (one.receiver, one.asked) == asked)
        return next(found, None)

    def unseen(self, name: MessageName) -> list[ReceiverEffect]:
        """Offer on what a receiver has that nobody there saw: also to another wait of the same one."""
        offer = self._offers[name]
        one = Receiver(offer.receiver, name.inbox)
        self.rests(one, self._credit.get(one, 0) - 1)  # It had room for this one.
        offer.receiver, offer.ends, offer.is_back = "", None, True
        return self._give()

    def was_taken(self, name: MessageName, lease: int) -> bool:
        """True: it is on record that a message was taken by this very lease, so its receiver asks again."""
        receipt = self.inbox.receipts.get(name)
        return receipt is not None and 0 < lease == receipt.lease

    def time_passed(self, times: MessageTimes) -> tuple[list[ReceiverEffect], list[ReceiverEnd]]:
        """End leases and messages whose time is over."""
        ended: list[ReceiverEnd] = []
        for name, offer in list(self._offers.items()):
            if offer.ends is not None and times.now >= offer.ends:
                self._credit.pop(Receiver(offer.receiver, offer.inbox), None)
                self._end_lease(offer)
            offer.passed_by = {link: until for link, until in offer.passed_by.items() if times.now < until}
            if not offer.receiver and times.now >= offer.order.not_after:
                del self._offers[name]
                ended.append((name, self._too_late(offer)))
        return self._give(), ended

    def _too_late(self, offer: Offer) -> MessageEnd:
        if offer.was_out:
            detail = "a receiver had it and did not say what it did"
            return MessageEnd(outcome=MessageOutcome.UNKNOWN, cause=AddCause.TIME_LIMIT_OVER, detail=detail)
        detail = f"no receiver of inbox {offer.inbox!r} took it in time"
        return MessageEnd(outcome=MessageOutcome.EXPIRED, cause=AddCause.TIME_LIMIT_OVER, detail=detail)

    def recovered(self) -> MessageEnd:
        """End of a message that an earlier tenure accepted which this one does not provably go on with."""
        return MessageEnd(outcome=MessageOutcome.UNKNOWN, detail="a receiver may have had it when this node stopped")

    @property
    def is_open(self) -> bool:
        """True: messages are here, given out or not."""
        return bool(self._offers)

    def deadline(self) -> Instant | None:
        """Instant at which `time_passed` is due."""
        ends = (offer.ends for offer in self._offers.values() if offer.ends is not None)
        again = (until for offer in self._offers.values() if not offer.receiver for until in offer.passed_by.values())
        return soonest(*ends, *again, *(one.order.not_after for one in self._offers.values() if not one.receiver))
