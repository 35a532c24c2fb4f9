"""Ledger of messages: what was asked for, what devices did, and what people were told, over all stores and runs.

Checked
    a message is carried out at most once, and not after its time; a promise (expired, cancelled, rejected) is true and
    stays true; verified means that it was carried out; a number is not given to two messages.

Spec: docs/messages.md.
"""

from collections.abc import Callable

import msgspec

from albireo.codec.tree.records import MessageEnd, MessageRecord, MessageRequested
from albireo.machine.message.outbox import MessageReceipt
from albireo.model.instant import MS
from albireo.model.tree.message import MessageName, MessageOutcome
from albireo.sim.engine.agenda import Agenda

SLACK_NS = 3 * MS


class AskedMessage(msgspec.Struct):
    """One message that reached the log of its origin."""

    record: MessageRequested
    at: int
    lost_log_ns: int
    """Time that the origin's log had not counted when it was asked for."""


class MessagesLedger:
    """Judge of one world."""

    def __init__(self, agenda: Agenda, drift: float, fail: Callable[[str], None]) -> None:
        self._agenda = agenda
        self._drift = drift
        self._fail = fail
        self.asked: dict[MessageName, AskedMessage] = {}
        self.done: dict[MessageName, int] = {}
        """World time at which each message was carried out."""
        self.said: dict[MessageName, MessageOutcome] = {}
        self.lost_log_ns: Callable[[str], int] = lambda _node: 0

    def stored(self, node: str, record: MessageRecord) -> None:
        """Note that a record is in a store for good, committed or found there at a start."""
        if isinstance(record, MessageRequested) and record.name.origin == node:
            known = self.asked.get(record.name)
            if known is None:
                self.asked[record.name] = AskedMessage(record, self._agenda.at, self.lost_log_ns(node))
            elif known.record.command_id != record.command_id:
                self._fail(f"{record.name} names two messages")

    def executed(self, name: MessageName, body: bytes) -> None:
        """Note that a device does what a message says."""
        asked, at = self.asked.get(name), self._agenda.at
        if asked is None or asked.record.body != body:
            self._fail(f"{name} was carried out, and was never asked for like that")
            return
        if name in self.done:
            self._fail(f"{name} was carried out twice")
        self.done[name] = at
        said = self.said.get(name)
        if said is not None and said.is_promise:
            self._fail(f"{name} was said to be {said}, and was carried out")
        lost_ns = self.lost_log_ns(name.origin) - asked.lost_log_ns
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
        if outcome.is_promise and name in self.done:
            self._fail(f"{name} was said to be {outcome}, and had been carried out")
        if outcome in (MessageOutcome.VERIFIED, MessageOutcome.EXECUTED) and name not in self.done:
            self._fail(f"{name} was said to be {outcome}, and was never carried out")
