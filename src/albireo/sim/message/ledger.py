"""Ledger of messages: what was asked for, what devices did, and what people were told, over all stores and runs.

Checked
    a message is carried out at most once, and not after its time; a promise (expired, cancelled, rejected) is true and
    stays true; verified means that it was carried out; a number is not given to two messages.
    A note is given to programs in its time only, and taken by one of them only.

Spec: docs/messages.md.
"""

from collections.abc import Callable

import msgspec

from albireo.codec.message_records import MessageEnd, MessageRecord, MessageRequested
from albireo.machine.fold.letters.outbox import MessageReceipt
from albireo.model.instant import MS
from albireo.model.tree.message import MessageName, MessageOutcome
from albireo.sim.engine.agenda import Agenda

SLACK_NS = 3 * MS


class AskedMessage(msgspec.Struct):
    """One message that reached the log of its origin."""

    record: MessageRequested
    at: int
    lost_log_ns: dict[str, int]
    """Time that the logs of both ends had not counted when it was asked for."""


class MessagesLedger:
    """Judge of one world."""

    def __init__(self, agenda: Agenda, drift: float, fail: Callable[[str], None]) -> None:
        self._agenda = agenda
        self._drift = drift
        self._fail = fail
        self.asked: dict[MessageName, AskedMessage] = {}
        self.done: dict[MessageName, int] = {}
        """World time at which each message was carried out."""
        self.given: dict[MessageName, set[int]] = {}
        """Leases of each note whose program may have done what it says: it did not give it back."""
        self.took: dict[MessageName, int] = {}
        """Lease by which each note was taken, as its program was told."""
        self.said: dict[MessageName, MessageOutcome] = {}
        self.lost_log_ns: Callable[[str], int] = lambda _node: 0

    def stored(self, node: str, record: MessageRecord) -> None:
        """Note that a record is in a store for good, committed or found there at a start."""
        if isinstance(record, MessageRequested) and record.name.origin == node:
            known = self.asked.get(record.name)
            if known is None:
                lost = {one: self.lost_log_ns(one) for one in (record.name.origin, record.name.owner)}
                self.asked[record.name] = AskedMessage(record, self._agenda.at, lost)
            elif known.record.command_id != record.command_id:
                self._fail(f"{record.name} names two messages")

    def executed(self, name: MessageName, body: bytes) -> None:
        """Note that a device does what a message says."""
        asked = self.asked.get(name)
        if asked is None or asked.record.body != body:
            self._fail(f"{name} was carried out, and was never asked for like that")
            return
        if name in self.done:
            self._fail(f"{name} was carried out twice")
        self.done[name] = self._agenda.at
        self._check_time(name, asked, self._lost(asked, name.origin))

    def handed(self, name: MessageName, lease: int) -> None:
        """Note that a program is given a note: from here on it may do what that says."""
        asked = self.asked.get(name)
        if asked is None:
            self._fail(f"{name} was given to a program, and was never asked for")
            return
        self.given.setdefault(name, set()).add(lease)
        self._check_time(name, asked, self._lost(asked, name.origin) + self._lost(asked, name.owner))

    def given_back(self, name: MessageName, lease: int) -> None:
        """Note that a program gave a note back, and will do nothing with it."""
        self.given.get(name, set()).discard(lease)

    def taken(self, name: MessageName, lease: int, body: bytes) -> None:
        """Note that a program is told that a note is its own."""
        if self.took.setdefault(name, lease) != lease:
            self._fail(f"{name} was taken twice")
        if name not in self.asked or self.asked[name].record.body != body:
            self._fail(f"{name} was taken, and was never asked for like that")

    def _lost(self, asked: AskedMessage, node: str) -> int:
        return self.lost_log_ns(node) - asked.lost_log_ns[node]

    def _check_time(self, name: MessageName, asked: AskedMessage, lost_ns: int) -> None:
        at, said = self._agenda.at, self.said.get(name)
        if said is not None and said.is_promise:
            self._fail(f"{name} was said to be {said}, and was carried out")
        ends = asked.at + int(asked.record.expires_ms * MS * (1 + 3 * self._drift)) + lost_ns + SLACK_NS
        if at > ends:
            self._fail(f"{name} was carried out {(at - ends) / MS:.1f} ms after its end")

    def recovered(self, name: MessageName) -> MessageEnd:
        """Outcome of a body that an earlier run began, as far as a device can tell."""
        outcome = MessageOutcome.VERIFIED if name in self.done else MessageOutcome.UNKNOWN
        return MessageEnd(outcome=outcome)

    def told(self, receipt: MessageReceipt) -> None:
        """Note what an origin says of a message, as its record is committed."""
        name, outcome = receipt.name, receipt.end.outcome
        before = self.said.get(name)
        is_same = before is None or before is outcome or (before.is_promise and outcome.is_promise)
        if not is_same and MessageOutcome.UNKNOWN not in (before, outcome):
            self._fail(f"{name} was said to be {before}, then {outcome}")
        self.said[name] = outcome
        was_done = name in self.done or bool(self.given.get(name))
        if outcome.is_promise and was_done:
            self._fail(f"{name} was said to be {outcome}, and had been carried out")
        if outcome in (MessageOutcome.VERIFIED, MessageOutcome.EXECUTED) and not was_done:
            self._fail(f"{name} was said to be {outcome}, and was never carried out")
