"""The origin's side of messages: tells their names, lets bodies leave, compares guids, ends each with a named outcome.

    asked -> refused at once (asking.py)
          -> MessageRequested --committed--> told, repeated --fetch--> body --outcome, guid equal--> MessageEnded
          deadline, no body left in this tenure  -> MessageEnded(expired)
          deadline, cancel, new life otherwise   -> MessageStopped --committed--> over, repeated
                                                     --never--> MessageEnded(expired | cancelled)
                                                     --silence for `grace`--> MessageEnded(unknown), asked on, patiently

Invariants
    body:      leaves only for an open message, before its deadline, to the recorded life of its owner, and if no other
               life of the owner may have had it.
    over:      leaves only after `MessageStopped` is committed; from there no body leaves any more, in any tenure.
    promised:  expired or cancelled is said only if no body left since the request, in this tenure or in a life that has
               never heard of the owner, or after a `never`.

Not decided here: who may ask (machine/access), where letters go (route), what a body means.
Spec: docs/messages.md; ADR-0183.
"""

import random
from collections.abc import Callable

from albireo.codec.message_records import MessageEnd, MessageEnded, MessageRequested, MessageStopped, OwnerHeard
from albireo.codec.tree.letters import (
    AcceptedSaid,
    BodyAsked,
    BodySent,
    ForgottenSaid,
    MessageTold,
    NeverSaid,
    OutcomeHeard,
    OutcomeSaid,
    OverAsked,
    OwnerLetter,
)
from albireo.machine.fold.letters.outbox import MessageReceipt, OpenMessage, OutboxFold
from albireo.machine.message.asking import MessageAsking
from albireo.machine.message.events import (
    LetterPace,
    MessageDoubt,
    MessageEffect,
    MessageLimits,
    MessageProven,
    MessageTimes,
    RecordMessage,
    SendAsked,
    SendLetter,
    StageReached,
    hurry,
)
from albireo.machine.message.stages import MessageStages
from albireo.model.instant import MS, Instant, soonest
from albireo.model.refusal import Refusal
from albireo.model.tree.message import AddCause, MessageName, MessageOutcome, MessageStage


class OriginSide:
    """The machine around the outbox."""

    asking_type = MessageAsking

    def __init__(self, node: str, outbox: OutboxFold, chance: random.Random, limits: MessageLimits) -> None:
        self.node = node
        self.outbox = outbox
        self.limits = limits
        self.wrong_guids = 0
        """Number of outcomes refused because their guid was wrong."""
        self._chance = chance
        self._forget_tenure()

    def _forget_tenure(self) -> None:
        self._asking = self.asking_type(self.node, self.outbox, self._chance, self.limits)
        self._watched: set[MessageName] = set()
        """Messages that were requested in this tenure: what is not in `_served` never left."""
        self._served: dict[MessageName, int] = {}
        """Bytes of each body that have left."""
        self._stopping: set[MessageName] = set()
        self._ending: set[MessageName] = set()
        self._asked_since: dict[MessageName, Instant] = {}
        """Instant from which `grace` counts, of each stopped message."""
        self._paces: dict[MessageName, LetterPace] = {}
        self._hearing: dict[str, OwnerLetter] = {}
        """Letter of each owner whose life is on its way into the log; it is heard once that is committed."""
        self.stages = MessageStages()
        self._effects: list[MessageEffect] = []

    def _taken(self) -> list[MessageEffect]:
        effects, self._effects = self._effects, []
        return effects

    def begin(self, times: MessageTimes) -> list[MessageEffect]:
        """Begin a tenure. Nothing is served that an earlier life left open: nothing proves how far it was."""
        self._forget_tenure()
        for name, one in self.outbox.open.items():
            self._paces[name] = LetterPace.at_once(times.now, self.limits)
            if one.stopped is not None:
                self._asked_since[name] = times.now
            elif self._is_of_earlier_life(name):
                self._stop(name, AddCause.ABORTION_BY_COMMUNICATION_LOSS)
        for receipt in self.outbox.receipts.unsettled:
            self._paces[receipt.name] = LetterPace.at_once(times.now, self.limits)
        self._go_on(times)
        return self._taken()

    def _is_of_earlier_life(self, name: MessageName) -> bool:
        return name.life != self.outbox.life

    # What people ask.

    def ask(self, asked: SendAsked, times: MessageTimes) -> list[MessageEffect] | Refusal:
        """Take a message, or say why not. A known command id is the same message, of which nothing is done anew."""
        if self.asked_with(asked.command_id) is not None:
            return []
        record = self._asking.ask(asked, times.wall)
        if isinstance(record, Refusal):
            return record
        self._watched.add(record.name)
        return [StageReached(record.name, MessageStage.REQUESTED), RecordMessage(record)]

    def asked_with(self, command_id: str) -> MessageRequested | MessageReceipt | None:
        """The message of this command id, on record already or not; None: there is none."""
        return self._asking.asked_with(command_id)

    def cancel(self, name: MessageName, times: MessageTimes) -> list[MessageEffect]:
        """Take a message back. It ends as cancelled, or with what became of it already."""
        found = self.outbox.open.get(name)
        if found is not None and found.stopped is None and name not in self._stopping and name not in self._ending:
            self._give_up(name, found, AddCause.ABORTION_BY_CANCEL, times)
        return self._taken()

    # What owners say.

    def heard(self, letter: OwnerLetter, times: MessageTimes) -> list[MessageEffect]:
        self._hear(letter, times)
        return self._taken()

    def _hear(self, letter: OwnerLetter, times: MessageTimes) -> None:
        is_present = self._is_present_life(letter)
        match letter:
            case OutcomeSaid():
                self._outcome(letter, times)
            case BodyAsked() if is_present:
                self._fetched(letter, times)
            case AcceptedSaid() if is_present:
                self._accepted(letter, times)
            case NeverSaid() if is_present:
                self._never(letter.name, times)
            case ForgottenSaid():
                self._lost(letter.name, "its owner has forgotten it", times)

    def _is_present_life(self, letter: OwnerLetter) -> bool:
        """True: the owner is in the life that is on record. Another one is recorded first.

        A late letter of an earlier life is taken for another one, too: nobody can tell which of two came first, and
        all that it costs is that what was under way is asked for instead of sent again.
        """
        owner, life = letter.name.owner, letter.life
        if owner in self._hearing or not life:
            return False
        if life == self.outbox.known(owner).life:
            return True
        self._hearing[owner] = letter
        self._effects.append(RecordMessage(OwnerHeard(owner=owner, life=life, unsent=self._unsent(owner))))
        return False

    def _unsent(self, owner: str) -> tuple[int, ...]:
        """Numbers of messages whose body never left, in this node's present life."""
        names = {*self.outbox.open, *self._asking.names()}
        return tuple(
            sorted(
                one.number
                for one in names
                if one.owner == owner and one.life == self.outbox.life and self._never_left(one)
            )
        )

    def _never_left(self, name: MessageName) -> bool:
        """True: its body never left. None leaves in a life that has not heard of the owner, in whatever tenure."""
        is_first = name.life == self.outbox.life and not self.outbox.known(name.owner).life
        return name not in self._served and (is_first or name in self._watched)

    def _fetched(self, letter: BodyAsked, times: MessageTimes) -> None:
        name, found = letter.name, self.outbox.open.get(letter.name)
        if found is None:
            self._say_heard(name)
            return
        left_ms = found.left_ms(times.log_time, times.wall)
        is_held = found.stopped is not None or found.is_orphaned or name in self._stopping or name in self._ending
        if is_held or left_ms <= 0 or letter.offset > len(found.asked.body):
            return
        asked = found.asked
        left = min(letter.offset + letter.size, len(asked.body))
        self._served[name] = max(left, self._served.get(name, 0))
        self._send(
            BodySent(
                name=name,
                low=self._low(name),
                since=self.outbox.since(name.owner),
                guid=asked.guid,
                kind=asked.kind,
                size=len(asked.body),
                offset=letter.offset,
                piece=asked.body[letter.offset : letter.offset + letter.size],
                nonce=letter.nonce,
                left_ms=left_ms,
                user=asked.user,
                principal=asked.principal,
                speaker=asked.speaker,
                reason=asked.reason,
                command_id=asked.command_id,
                subject=asked.subject,
                requested_ns=asked.requested_ns,
            )
        )

    def _accepted(self, letter: AcceptedSaid, times: MessageTimes) -> None:
        found = self.outbox.open.get(letter.name)
        if found is None:
            self._say_heard(letter.name)
        elif self._is_proof(letter.name, letter.guid, found.asked.guid):
            reached = self.stages.times(letter.name)
            reached.accepted_ns, reached.begun_ns = letter.accepted_ns, letter.begun_ns
            self._reach(letter.name, MessageStage.EXECUTING if letter.begun_ns else MessageStage.ACCEPTED)

    def _outcome(self, letter: OutcomeSaid, times: MessageTimes) -> None:
        name, found, receipt = letter.name, self.outbox.open.get(letter.name), self.outbox.receipts.get(letter.name)
        guid = found.asked.guid if found is not None else receipt.guid if receipt is not None else ""
        if guid and not self._is_proof(name, letter.guid, guid):
            return
        is_late_news = receipt is not None and receipt.end.outcome is MessageOutcome.UNKNOWN != letter.outcome
        if found is None and not is_late_news and (receipt is None or receipt.is_settled):
            self._say_heard(name)
            return
        self._end(name, MessageEnd(**{field: getattr(letter, field) for field in MessageEnd.__struct_fields__}))

    def _is_proof(self, name: MessageName, said: str, drawn: str) -> bool:
        if said == drawn:
            return True
        self.wrong_guids += 1
        detail = f"{name.owner} named another guid than that of message {name}; what it said is refused"
        self._effects.append(MessageDoubt(name, detail))
        return False

    def _never(self, name: MessageName, times: MessageTimes) -> None:
        """End a message that its owner promised not to take. A life that may not have had the body proves nothing."""
        found, receipt = self.outbox.open.get(name), self.outbox.receipts.get(name)
        if found is not None:
            cause, is_orphaned = found.stopped, found.is_orphaned
        elif receipt is not None and not receipt.is_settled:
            cause, is_orphaned = receipt.end.cause, receipt.is_orphaned
        else:
            return
        if cause is None:
            return
        if is_orphaned:
            self._lost(name, "its owner's store is another one than may have had it", times)
            return
        detail = "never carried out, as its owner has on record"
        if found is not None and 0 < (left := self._served.get(name, 0)) < len(found.asked.body):
            detail += f": only {left} of {len(found.asked.body)} bytes of its body had left in time"
        self._end(name, self._promise(cause, detail, times))

    def _promise(self, cause: AddCause, detail: str, times: MessageTimes) -> MessageEnd:
        is_cancelled = cause is AddCause.ABORTION_BY_CANCEL
        outcome = MessageOutcome.CANCELLED if is_cancelled else MessageOutcome.EXPIRED
        return MessageEnd(outcome=outcome, cause=cause, detail=detail, ended_ns=times.wall)

    def _lost(self, name: MessageName, why: str, times: MessageTimes) -> None:
        """End a message as `unknown` for good: nobody is left who could tell."""
        found, receipt = self.outbox.open.get(name), self.outbox.receipts.get(name)
        is_open = found is not None and found.stopped is not None
        if is_open or (receipt is not None and not receipt.is_settled):
            self._end(name, self._unknown(name, f"{why}: look at the device before you order again", times))

    def _unknown(self, name: MessageName, detail: str, times: MessageTimes) -> MessageEnd:
        found, receipt = self.outbox.open.get(name), self.outbox.receipts.get(name)
        cause = AddCause.UNKNOWN
        if found is not None and found.stopped is not None:
            cause = found.stopped
        elif receipt is not None:
            cause = receipt.end.cause
        return MessageEnd(outcome=MessageOutcome.UNKNOWN, cause=cause, detail=detail, ended_ns=times.wall)

    # Steps on record.

    def _give_up(self, name: MessageName, found: OpenMessage, cause: AddCause, times: MessageTimes) -> None:
        """End a message whose body never left; stop one whose body may have left, and ask."""
        if self._never_left(name) and not found.is_orphaned:
            unwanted = (
                f"its body was not asked for in time: inbox {name.inbox!r} at {name.owner} had no receiver for it"
            )
            is_unwanted = name.inbox and cause is AddCause.TIME_LIMIT_OVER
            self._end(name, self._promise(cause, unwanted if is_unwanted else "never sent", times))
        else:
            self._stop(name, cause)

    def _stop(self, name: MessageName, cause: AddCause) -> None:
        self._stopping.add(name)
        self._effects.append(RecordMessage(MessageStopped(name=name, cause=cause)))

    def _end(self, name: MessageName, end: MessageEnd, *, is_settled: bool = True) -> None:
        if name in self._ending:
            return
        found, receipt = self.outbox.open.get(name), self.outbox.receipts.get(name)
        guid = found.asked.guid if found is not None else receipt.guid if receipt is not None else ""
        self._ending.add(name)
        told_ns = self.stages.times(name).told_ns
        record = MessageEnded(name=name, guid=guid, end=end, is_settled=is_settled, told_ns=told_ns)
        self._effects.append(RecordMessage(record))

    def requested(self, record: MessageRequested, times: MessageTimes) -> list[MessageEffect]:
        """Tell of a message, as it is committed."""
        self._asking.on_record(record)
        self._paces[record.name] = LetterPace.at_once(times.now, self.limits)
        self._reach(record.name, MessageStage.AUTHORISED)
        self._go_on(times)
        return self._taken()

    def stopped(self, record: MessageStopped, times: MessageTimes) -> list[MessageEffect]:
        """Ask what became of a message, as the stop of its body is committed."""
        self._stopping.discard(record.name)
        self._asked_since[record.name] = times.now
        self._paces[record.name] = LetterPace.at_once(times.now, self.limits)
        self._go_on(times)
        return self._taken()

    def ended(self, record: MessageEnded, times: MessageTimes) -> list[MessageEffect]:
        """Answer whoever waits, and let the owner know, as the end is committed."""
        name = record.name
        self._ending.discard(name)
        self._watched.discard(name)
        self._served.pop(name, None)
        self._asked_since.pop(name, None)
        self.stages.ended(name)
        receipt = self.outbox.receipts.get(name)
        if receipt is not None:
            self._effects.append(MessageProven(receipt))
        if record.is_settled:
            self._paces.pop(name, None)
            self._say_heard(name)
        return self._taken()

    def owner_heard(self, record: OwnerHeard, times: MessageTimes) -> list[MessageEffect]:
        """Stop what may have reached an earlier life of its owner, as the new one is committed."""
        letter = self._hearing.pop(record.owner, None)
        for name, one in self.outbox.open.items():
            is_held = one.stopped is not None or name in self._stopping or name in self._ending
            if name.owner == record.owner and one.is_orphaned and not is_held:
                self._stop(name, AddCause.ABORTION_BY_COMMUNICATION_LOSS)
        if letter is not None:
            self._hear(letter, times)
        return self._taken()

    # Time.

    def hurry(self, is_meant: Callable[[MessageName], bool], times: MessageTimes) -> None:
        """Say at once what would be said again later, of the messages that are meant."""
        hurry(self._paces, is_meant, times, self.limits)

    def time_passed(self, times: MessageTimes) -> list[MessageEffect]:
        self._go_on(times)
        return self._taken()

    @property
    def is_open(self) -> bool:
        """True: `deadline` may name an instant."""
        return bool(self._paces or self.outbox.open)

    def deadline(self, times: MessageTimes) -> Instant | None:
        """Instant at which `time_passed` is due."""
        due = soonest(*(one.due for name, one in self._paces.items() if name not in self._ending | self._stopping))
        for name, one in self.outbox.open.items():
            if name in self._ending or name in self._stopping:
                continue
            since = self._asked_since.get(name)
            if one.stopped is None:
                ends = Instant(times.now + max(0, one.left_ms(times.log_time, times.wall)) * MS)
            elif since is not None:
                ends = Instant(since + self.limits.grace_ns)
            else:
                continue
            due = soonest(due, ends)
        return due

    def _go_on(self, times: MessageTimes) -> None:
        """End what time ends, and repeat what is due."""
        for name, one in self.outbox.open.items():
            if name in self._ending or name in self._stopping:
                continue
            if one.stopped is None and one.left_ms(times.log_time, times.wall) <= 0:
                self._give_up(name, one, AddCause.TIME_LIMIT_OVER, times)
            elif one.stopped is not None and self._is_past_grace(name, times.now):
                detail = "its owner could not be asked in time: look at the device before you order again"
                self._end(name, self._unknown(name, detail, times), is_settled=False)
        for name, pace in list(self._paces.items()):
            if pace.due <= times.now and name not in self._ending and name not in self._stopping:
                self._repeat(name, pace, times)

    def _is_past_grace(self, name: MessageName, now: Instant) -> bool:
        return now >= self._asked_since.setdefault(name, now) + self.limits.grace_ns

    def _repeat(self, name: MessageName, pace: LetterPace, times: MessageTimes) -> None:
        found, receipt = self.outbox.open.get(name), self.outbox.receipts.get(name)
        low, since = self._low(name), self.outbox.since(name.owner)
        longest_ns = self.limits.longest_ns
        if found is not None and found.stopped is None:
            self._send(MessageTold(name=name, low=low, since=since, size=len(found.asked.body)))
            if name in self._watched:  # Nobody knows when an earlier tenure told of it first.
                reached = self.stages.times(name)
                reached.told_ns = reached.told_ns or times.wall
            self._reach(name, MessageStage.TOLD)
        elif found is not None or (receipt is not None and not receipt.is_settled):
            self._send(OverAsked(name=name, low=low, since=since))
            longest_ns = longest_ns if found is not None else self.limits.patient_ns
        else:
            del self._paces[name]
            return
        pace.again(times.now, longest_ns, self._chance)

    def _low(self, name: MessageName) -> int:
        return self.outbox.low(name)

    def _say_heard(self, name: MessageName) -> None:
        """Let the owner know that a message has its end here, or is none of this log.

        A name that may be newer than this log says nothing of the message: the asked one may be a member that was
        taken over and does not know it.
        """
        is_present = name.life == self.outbox.life
        if (is_present and name.number >= self.outbox.known(name.owner).next) or (
            not is_present and name.life.epoch >= self.outbox.life.epoch
        ):
            return
        self._send(OutcomeHeard(name=name, low=self._low(name), since=self.outbox.since(name.owner)))

    def _send(self, letter: MessageTold | BodySent | OverAsked | OutcomeHeard) -> None:
        self._effects.append(SendLetter(letter.name.owner, letter))

    def _reach(self, name: MessageName, stage: MessageStage) -> None:
        if self.stages.reach(name, stage):
            self._effects.append(StageReached(name, stage))
