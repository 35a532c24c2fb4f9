"""Desk of the receivers: what programs at the owner ask about its inboxes, and what they are answered.

    receive --receiver has room, lease committed--> the message     nothing in its time --> None
    take    --its end committed--> True                             lease over          --> refusal
    give_back --------------------> True, and another one has it    lease over          --> refusal

Which receiver has what is decided by `MessageReceivers`; the messages' own records and letters are made by the post,
which carries the ends that this desk returns.

Spec: docs/messages.md; ADR-0212.
"""

from typing import Final, TypeVar

import msgspec

from albireo.codec.message import Answer
from albireo.codec.message_records import MessageDone, MessageLeased
from albireo.codec.record import Stream
from albireo.machine.fold.letters.inbox import InboxFold
from albireo.machine.kernel.turn import Question, Turn
from albireo.machine.message.events import ExecuteBody, HandOut, MessageTimes, RecordMessage
from albireo.machine.message.receiving.receivers import (
    RECEIVERS_MAX,
    MessageReceivers,
    Receiver,
    ReceiverEffect,
    ReceiverEnd,
)
from albireo.model.instant import SECOND, Instant, soonest
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.tree.message import MessageName

WAITING_MAX: Final = 16
"""Most questions that wait for one message, and of one receiver."""
PROBE_NS: Final = SECOND
"""Time in which it is noticed that the link of a receiver that has a message is gone."""
NOT_ASKED: Final = 0
"""Id of no question: an answer to it is dropped by whoever hears it."""
MOVED: Final = Refusal(
    RefusalCode.MOVED, "the lead has changed", "ask again with the same command id at the member that acts"
)

_OVER: Final = Refusal(RefusalCode.LEASE_OVER, "this lease is over, and the message may be another receiver's now")

_Key = TypeVar("_Key")
_Waiter = TypeVar("_Waiter")


class ReceiveWaiter(msgspec.Struct, frozen=True):
    """A question of a receiver that waits for a message."""

    request_id: int
    due: Instant
    """Instant at which it is answered all the same."""


class TakeWaiter(msgspec.Struct, frozen=True):
    """A question of a receiver whose word that it has taken a message is on its way into the log."""

    lease: int
    sender: bytes
    request_id: int


class ReceiversDesk:
    """The machine."""

    def __init__(self, inbox: InboxFold) -> None:
        self._inbox = inbox
        self.receivers = MessageReceivers(inbox)
        self._hungry: dict[Receiver, list[ReceiveWaiter]] = {}
        """Questions of receivers that wait for a message."""
        self._probe_at = Instant(0)
        """Instant from which receivers that have a message are told something, to see whether they are there."""
        self._taking: dict[MessageName, TakeWaiter] = {}
        """Questions that are answered once the end of a message is on record."""

    def begin(self, times: MessageTimes) -> None:
        """Begin a tenure. Receivers that came before this node served go on waiting."""
        self.receivers = MessageReceivers(self._inbox)
        self._taking.clear()
        for receiver in self._hungry:
            self.receivers.ready(receiver, self._credit(receiver), times)

    def suspend(self, turn: Turn) -> None:
        """Serve no more, and tell whoever waits that another member answers."""
        for receiver, hungry in self._hungry.items():
            for asked in hungry:
                turn.send(bytes.fromhex(receiver.link), Answer(request_id=asked.request_id, refusal=MOVED))
        for taking in self._taking.values():
            turn.send(taking.sender, Answer(request_id=taking.request_id, refusal=MOVED))
        self._hungry.clear()
        self._taking.clear()

    def lost(self, sender: bytes, turn: Turn) -> None:
        """A link is gone; what its receiver had is given to others."""
        link = sender.hex()
        self._hungry = {one: waiting for one, waiting in self._hungry.items() if one.link != link}
        self._give(self.receivers.lost(link), turn)

    # What receivers ask.

    def receive(self, question: Question, inbox: str, wait_ns: int, times: MessageTimes, turn: Turn) -> Refusal | None:
        """Answer with the next message of an inbox, once this receiver has one; with None if none comes in time."""
        receiver = Receiver(question.sender.hex(), inbox)
        if receiver not in self._hungry and len(self._hungry) >= RECEIVERS_MAX:
            cause = f"{RECEIVERS_MAX} receivers wait at this node already"
            return Refusal(RefusalCode.BUSY, cause, "end some of them")
        due = Instant(question.moment.now + wait_ns)
        refused = let_wait(self._hungry, receiver, ReceiveWaiter(question.request_id, due))
        if refused is None:
            self._give(self.receivers.ready(receiver, self._credit(receiver), times), turn)
        return refused

    def _credit(self, receiver: Receiver) -> int:
        return len(self._hungry.get(receiver, ())) + self.receivers.held(receiver)

    def taken(
        self, question: Question, name: MessageName, lease: int, reply: bytes | None, turn: Turn
    ) -> ReceiverEnd | Refusal | None:
        """Take a receiver's word that a message is its own now, and its reply; answered once that is on record.

        It may say so again: the answer is the same.

        Returns:
            The end of the message, to be recorded; else a refusal, or None if it has been answered or will be.
        """
        link, waiter = question.sender.hex(), TakeWaiter(lease, question.sender, question.request_id)
        found = self.receivers.taken(link, name, lease, reply)
        if found is not None:
            receiver = Receiver(link, name.inbox)
            self.receivers.rests(receiver, self._credit(receiver))
            self._taking[name] = waiter
            return found
        if name in self._taking and self._taking[name].lease == lease:
            self._taking[name] = waiter
        elif self.receivers.was_taken(name, lease):
            turn.answer(question, True)
        else:
            return _OVER
        return None

    def given_back(
        self, question: Question, name: MessageName, lease: int, times: MessageTimes, turn: Turn
    ) -> Refusal | None:
        """Take a receiver's word that it did nothing with a message; returns a refusal.

        Nothing of it goes on record: a successor offers on what nobody took, as it does with what nobody gave back.
        """
        effects = self.receivers.given_back(question.sender.hex(), name, lease, times)
        if effects is None:
            return _OVER
        turn.answer(question, True)
        self._give(effects, turn)
        return None

    def withdraw(self, sender: bytes, request_id: int, turn: Turn) -> None:
        """Let a question of a receiver wait no more, or offer on at once what was its answer: nobody saw that."""
        link = sender.hex()
        for receiver, hungry in [one for one in self._hungry.items() if one[0].link == link]:
            hungry[:] = [one for one in hungry if one.request_id != request_id]
            if not hungry:
                del self._hungry[receiver]
            self.receivers.rests(receiver, self._credit(receiver))
        if (name := self.receivers.answered_with(link, request_id)) is not None:
            self._give(self.receivers.unseen(name), turn)

    # Messages and records.

    def offer(self, order: ExecuteBody, turn: Turn) -> None:
        """Give a message to a receiver that has room, or keep it until one has."""
        self._give(self.receivers.offer(order), turn)

    def leased(self, record: MessageLeased, times: MessageTimes, turn: Turn) -> None:
        """Hand a body out, as its lease is committed."""
        self._give(self.receivers.leased(record, times), turn)

    def done(self, record: MessageDone, turn: Turn) -> None:
        """Answer the receiver that has taken a message, as its end is committed."""
        taking = self._taking.pop(record.name, None)
        if taking is not None:
            turn.send(taking.sender, Answer(request_id=taking.request_id, result=True))

    def _give(self, effects: list[ReceiverEffect], turn: Turn) -> None:
        for one in effects:
            if isinstance(one, RecordMessage):
                turn.record(Stream.COMMAND, [one.record])
                continue
            receiver = Receiver(one.receiver, one.name.inbox)
            waiting = self._hungry.get(receiver)
            if not waiting:  # Whoever waited for it has withdrawn.
                self._give(self.receivers.unseen(one.name), turn)
                continue
            asked = waiting.pop(0).request_id
            self.receivers.answered(one.name, asked)
            turn.send(bytes.fromhex(one.receiver), Answer(request_id=asked, result=_handed(one)))
            if not waiting:
                del self._hungry[receiver]

    # Time.

    def time_passed(self, times: MessageTimes, turn: Turn) -> list[ReceiverEnd]:
        """Tell whoever waited in vain, and end leases; returns the messages whose time is over, with their ends."""
        self._starve(times.now, turn)
        self._probe(times.now, turn)
        effects, ended = self.receivers.time_passed(times)
        self._give(effects, turn)
        return ended

    @property
    def is_open(self) -> bool:
        """True: `deadline` may name an instant."""
        return bool(self._hungry) or self.receivers.is_open

    def deadline(self) -> Instant | None:
        """Instant at which `time_passed` is due."""
        patient = (hungry for one, hungry in self._hungry.items() if not self.receivers.is_promised(one))
        due = [one.due for hungry in patient for one in hungry]
        if self.receivers.holders():
            due.append(self._probe_at)
        return soonest(self.receivers.deadline(), *due)

    def _starve(self, now: Instant, turn: Turn) -> None:
        """Tell whoever waited in vain; not a receiver for whom a lease is on its way."""
        for receiver, hungry in list(self._hungry.items()):
            late = [one for one in hungry if now >= one.due]
            if not late or self.receivers.is_promised(receiver):
                continue
            for one in late:
                turn.send(bytes.fromhex(receiver.link), Answer(request_id=one.request_id))
            self._hungry[receiver] = [one for one in hungry if now < one.due]
            if not self._hungry[receiver]:
                del self._hungry[receiver]
            self.receivers.rests(receiver, self._credit(receiver))

    def _probe(self, now: Instant, turn: Turn) -> None:
        """Say something to each receiver that has a message: what can't be sent shows that it is gone."""
        if now >= self._probe_at and (holders := self.receivers.holders()):
            self._probe_at = Instant(now + PROBE_NS)
            for link in sorted(holders):
                turn.send(bytes.fromhex(link), Answer(request_id=NOT_ASKED))


def let_wait(waiting: dict[_Key, list[_Waiter]], key: _Key, one: _Waiter) -> Refusal | None:
    """Let a question wait with the others of the same thing, unless there are many."""
    already = waiting.setdefault(key, [])
    if len(already) >= WAITING_MAX:
        return Refusal(RefusalCode.BUSY, f"{WAITING_MAX} questions wait for the same already", "wait for an answer")
    already.append(one)
    return None


def _handed(one: HandOut) -> dict[str, object]:
    return {
        "name": msgspec.to_builtins(one.name),
        "lease": one.lease,
        "kind": one.kind,
        "body": one.body,
        "user": one.user,
        "principal": one.principal,
        "reason": one.reason,
    }
