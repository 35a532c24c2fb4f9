"""All messages of one node: both sides, the life they are in, and the letters that only pass through.

    letter to another node --> next hop, also while this node has no tenure of its own
    letter to this node    --> waits for the tenure --> OriginSide | OwnerSide --> records, letters, bodies to carry out
    record committed       --> fold (by whoever folds the log), then here: what was waiting for it

A tenure begins when this node serves, with a record. It continues the life on record, or begins a new one, and says
nothing before that is committed. To continue takes a proof that the store holds all that the last tenure committed: a
takeover in a pair, by a member that was in the set.

Spec: docs/messages.md; ADR-0183.
"""

import random
from collections.abc import Mapping
from typing import Final, assert_never

from albireo.codec.message_records import (
    LifeBegun,
    LowTold,
    MessageAccepted,
    MessageDone,
    MessageEnd,
    MessageEnded,
    MessageLeased,
    MessageRecord,
    MessageRefused,
    MessageRequested,
    MessageStopped,
    OwnerHeard,
)
from albireo.codec.tree.letters import (
    FromOrigin,
    FromOwner,
    MessageTold,
    OutcomeHeard,
    OutcomeSaid,
    OverAsked,
    TreeMessage,
)
from albireo.machine.fold.letters.letters import MessageFold
from albireo.machine.fold.letters.outbox import MessageReceipt, digest_of
from albireo.machine.message.events import (
    ExecuteBody,
    MessageDoubt,
    MessageEffect,
    MessageLimits,
    MessageProven,
    MessageTimes,
    RecordMessage,
    RecoverBody,
    SendAsked,
    SendLetter,
    StageReached,
)
from albireo.machine.message.origin import OriginSide
from albireo.machine.message.owner import OwnerSide
from albireo.machine.message.route import next_hop
from albireo.model.instant import Instant, soonest
from albireo.model.principal import may_be_one
from albireo.model.refusal import Refusal, RefusalCode, id_reused
from albireo.model.tree.message import Life, MessageName, MessageStage

EARLY_MAX: Final = 64
"""Most letters that wait for the tenure to begin."""


class NodeMessages:
    """The machine of one node's messages."""

    origin_type = OriginSide
    owner_type = OwnerSide

    def __init__(
        self, node: str, fold: MessageFold, chance: random.Random, limits: MessageLimits | None = None
    ) -> None:
        self.node = node
        self.fold = fold
        self.limits = limits or MessageLimits()
        self.is_serving = False
        self.passes_on = False
        """True: this node acts, so letters to others go on through it, whether its own tenure has begun or not."""
        self._early: dict[tuple[type, MessageName], TreeMessage] = {}
        """Letters to this node that came before its tenure has begun, the latest of each kind about each message."""
        self.no_way = 0
        """Number of letters to nodes to which no way leads."""
        self._beginning: LifeBegun | None = None
        """Record of this tenure, on its way."""
        self.origin = self.origin_type(node, fold.outbox, chance, self.limits)
        self.owner = self.owner_type(node, fold.inbox, lambda: fold.life, chance, self.limits)

    def begin(self, life: Life, *, continues: int) -> list[MessageEffect]:
        """Begin a tenure, once everything before it is folded.

        Args:
            life: epoch and branch under which this node appends now.
            continues: epoch of the tenure before this one, if it is proven that the store holds everything that was
                committed under it; 0: nothing is proven. A tenure that never came to serve left no record, and is
                not continued: the store may have been an old copy already.
        """
        goes_on = bool(continues) and self.fold.outbox.epoch == continues
        self.is_serving = False
        self._beginning = LifeBegun(life=self.fold.life if goes_on else life, epoch=life.epoch)
        return [RecordMessage(self._beginning)]

    def suspend(self) -> None:
        """Say and record nothing until the next tenure."""
        self.is_serving, self.passes_on, self._beginning = False, False, None

    def ask(self, asked: SendAsked, times: MessageTimes) -> list[MessageEffect] | Refusal:
        """Take a message, or say why not."""
        if not self.is_serving:
            return Refusal(RefusalCode.NOT_YET, "this node does not serve yet", "ask again in a moment")
        if (refused := self.reused(asked)) is not None:
            return refused
        hop = next_hop(self.node, asked.owner)
        if not hop or hop == self.node:
            where = "this node itself" if hop else "no node of this tree"
            return Refusal(RefusalCode.BAD_VALUE, f"{asked.owner!r} is {where}; a message goes to another node")
        found = self.origin.ask(asked, times)
        return found if isinstance(found, Refusal) else self._routed(found)

    def reused(self, asked: SendAsked) -> Refusal | None:
        """Refusal of a command id that names another message; None: it names none, or this very one."""
        earlier = self.origin.asked_with(asked.command_id)
        if earlier is None:
            return None
        other = _difference(earlier, asked)
        return id_reused(asked.command_id, other) if other else None

    def cancel(self, name: MessageName, times: MessageTimes) -> list[MessageEffect]:
        """Take a message back, if its end is not known yet."""
        return self._routed(self.origin.cancel(name, times)) if self.is_serving else []

    def find(self, command_id: str) -> MessageName | MessageReceipt | None:
        """The message that was asked for with this id: its receipt once it has ended; None: none that is known."""
        name = self.fold.outbox.find(command_id)
        return None if name is None else self.fold.outbox.receipts.get(name) or name

    def stage(self, name: MessageName) -> MessageStage:
        """How far an open message is."""
        return self.origin.stages.of(name)

    def begun(self, name: MessageName, times: MessageTimes) -> list[MessageEffect]:
        """Take that a body is being carried out."""
        return self._routed(self.owner.begun(name, times)) if self.is_serving else []

    def wants(self, wanted: Mapping[str, int], times: MessageTimes) -> list[MessageEffect]:
        """Take how many messages the receivers of each inbox have at once."""
        return self._routed(self.owner.wants(wanted, times)) if self.is_serving else []

    def executed(self, name: MessageName, end: MessageEnd, times: MessageTimes, lease: int = 0) -> list[MessageEffect]:
        """Take what became of a body, in answer to `ExecuteBody` or `RecoverBody`."""
        return self._routed(self.owner.executed(name, end, times, lease)) if self.is_serving else []

    def heard(self, letter: TreeMessage, times: MessageTimes) -> list[MessageEffect]:
        """Take a letter: pass it on, or act on it.

        One that comes before the tenure has begun waits for that: it would be said again after a wait that doubles.
        """
        to = letter.name.owner if isinstance(letter, FromOrigin) else letter.name.origin
        if to != self.node:
            return self._routed([SendLetter(to, letter)]) if self.is_serving or self.passes_on else []
        if not self.is_serving:
            self._keep(letter)
            return []
        if isinstance(letter, FromOwner):
            return self._routed(self.origin.heard(letter, times))
        return self._routed(self.owner.heard(letter, times))

    def _keep(self, letter: TreeMessage) -> None:
        """Keep a letter that makes sense later, in the place of an earlier one of its kind; the oldest goes first."""
        if isinstance(letter, MessageTold | OverAsked | OutcomeSaid | OutcomeHeard):
            key = type(letter), letter.name
            self._early.pop(key, None)
            self._early[key] = letter
            if len(self._early) > EARLY_MAX:
                del self._early[next(iter(self._early))]

    def linked(self, hop: str, times: MessageTimes) -> list[MessageEffect]:
        """Say again what a neighbour could not hear: it is linked anew."""
        if not self.is_serving:
            return []
        self.origin.hurry(lambda name: next_hop(self.node, name.owner) == hop, times)
        self.owner.hurry(lambda name: next_hop(self.node, name.origin) == hop, times)
        return self.time_passed(times)

    def committed(self, record: MessageRecord, times: MessageTimes) -> list[MessageEffect]:
        """Go on with what waited for a record, after it is folded."""
        if isinstance(record, LifeBegun) and record == self._beginning:
            self.is_serving, self._beginning = True, None
            goes_on = record.life.epoch != record.epoch
            effects = self._routed(self.origin.begin(times) + self.owner.begin(times, goes_on=goes_on))
            early, self._early = self._early, {}
            for letter in early.values():
                effects += self.heard(letter, times)
            return effects
        return self._routed(self._follow(record, times)) if self.is_serving else []

    def _follow(self, record: MessageRecord, times: MessageTimes) -> list[MessageEffect]:
        match record:
            case MessageRequested():
                return self.origin.requested(record, times)
            case MessageStopped():
                return self.origin.stopped(record, times)
            case MessageEnded():
                return self.origin.ended(record, times)
            case OwnerHeard():
                return self.origin.owner_heard(record, times)
            case MessageAccepted():
                return self.owner.accepted(record, times)
            case MessageDone():
                return self.owner.done(record, times)
            case MessageRefused():
                return self.owner.refused(record)
            case LowTold():
                return self.owner.low_told(record)
            case LifeBegun() | MessageLeased():
                return []  # A lease is followed by the receivers (receiving/receivers.py).
            case _:
                assert_never(record)

    def time_passed(self, times: MessageTimes) -> list[MessageEffect]:
        if not self.is_serving:
            return []
        return self._routed(self.origin.time_passed(times) + self.owner.time_passed(times))

    def deadline(self, times: MessageTimes) -> Instant | None:
        """Instant at which `time_passed` is due."""
        return soonest(self.origin.deadline(times), self.owner.deadline()) if self.is_serving else None

    def _routed(self, effects: list[MessageEffect]) -> list[MessageEffect]:
        """The effects with each letter addressed to the next hop; a letter that no way leads for is counted."""
        routed: list[MessageEffect] = []
        for one in effects:
            match one:
                case SendLetter(to, letter):
                    hop = next_hop(self.node, to)
                    if hop and hop != self.node:
                        routed.append(SendLetter(hop, letter))
                    else:
                        self.no_way += 1
                case (
                    RecordMessage() | ExecuteBody() | RecoverBody() | StageReached() | MessageProven() | MessageDoubt()
                ):
                    routed.append(one)
                case _:
                    assert_never(one)
        return routed


def _difference(earlier: MessageRequested | MessageReceipt, asked: SendAsked) -> str:
    """Part of a question that differs from the earlier one of the same id, as a word; empty: it is the same message."""
    if earlier.name.owner != asked.owner:
        return "owner"
    if earlier.kind != asked.kind:
        return "kind"
    if earlier.name.inbox != asked.inbox:
        return "inbox"
    digest = digest_of(earlier.body) if isinstance(earlier, MessageRequested) else earlier.digest
    if digest and digest != digest_of(asked.body):
        return "content"
    return "" if may_be_one(earlier.principal, asked.principal) else "principal"
