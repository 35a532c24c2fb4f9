"""The owner's side of messages: fetches bodies by credit, carries each out at most once, says what became of it.

    told --room, or a receiver that asks--> fetch, piece by piece --body, its nonce ours--> MessageAccepted
                                                                  --committed, in time--> executed
         --MessageDone committed--> outcome, repeated until the origin has heard it
    over --had--> its outcome, or that it is accepted     --never had--> MessageRefused --committed--> never
         --may have been had and forgotten--> forgotten

Invariants
    fetched:   a body counts only in answer to a question of this tenure, by nonce, and its time counts from the asking.
    accepted:  nothing is carried out before `MessageAccepted` is committed, and no order in a tenure that did not
               accept it. A message for receivers is offered on by a tenure that provably goes on with that one.
    wanted:    the body of a message for receivers is fetched as one of its inbox asks, so what nobody waits for stays
               at its origin, whatever becomes of this node.
    never:     said only of a number that is refused on record, or below `low` and had by nobody.

Not decided here: how a body is carried out, and whether its principal may (machine/orders).
Spec: docs/messages.md; ADR-0183.
"""

import random
from collections.abc import Callable, Mapping

import msgspec

from albireo.codec.message_records import LowTold, MessageAccepted, MessageDone, MessageEnd, MessageRefused
from albireo.codec.tree.letters import (
    AcceptedSaid,
    BodyAsked,
    BodySent,
    ForgottenSaid,
    MessageTold,
    NeverSaid,
    OriginLetter,
    OutcomeHeard,
    OutcomeSaid,
    OverAsked,
    OwnerLetter,
)
from albireo.machine.fold.letters.inbox import InboxFold
from albireo.machine.message.body_ways import BodyWays, Fetch
from albireo.machine.message.events import (
    ExecuteBody,
    LetterPace,
    MessageEffect,
    MessageLimits,
    MessageTimes,
    RecordMessage,
    RecoverBody,
    SendLetter,
    hurry,
)
from albireo.model.instant import MS, Instant, soonest
from albireo.model.piece_pace import SPARE
from albireo.model.tree.message import AddCause, Life, MessageName, MessageOutcome

NONCE_BITS = 64
QUESTIONS_KEPT = 8
"""Questions of one piece whose answers still count."""


class OwnerSide:
    """The machine around the inbox."""

    def __init__(
        self,
        node: str,
        inbox: InboxFold,
        life: Callable[[], Life],
        chance: random.Random,
        limits: MessageLimits,
    ) -> None:
        """
        Args:
            life: the present life of this node's messages.
        """
        self.node = node
        self.inbox = inbox
        self.limits = limits
        self.not_believed = 0
        """Number of bodies that nobody had asked for, or that were not what was asked for."""
        self._life = life
        self._chance = chance
        self._forget_tenure()

    def _forget_tenure(self) -> None:
        self._told: dict[str, dict[MessageName, int]] = {}
        """Sizes of messages that were told and are not fetched, oldest first, by inbox; orders have the one without a
        name."""
        self._wanted: dict[str, int] = {}
        """Most messages that the receivers of each inbox have at once, those that they have included."""
        self._fetches: dict[MessageName, Fetch] = {}
        """The large ones take turns on each way, those that wait first."""
        self._ways = BodyWays(self.node, self.limits.room_bytes)
        self._accepting: dict[MessageName, tuple[Instant, int]] = {}
        """End and size of each message whose record is on its way."""
        self._refusing: set[MessageName] = set()
        self._executing: dict[MessageName, int] = {}
        """Size of each body that is being carried out, or offered to receivers."""
        self._begun: dict[MessageName, int] = {}
        """Wall time at which each was begun in this tenure."""
        self._finishing: set[MessageName] = set()
        self._lows: dict[tuple[str, str, Life], int] = {}
        """Highest mark heard in this tenure, by origin, inbox and life."""
        self._lowering: set[tuple[str, str]] = set()
        """Origins and inboxes of marks whose record is on its way."""
        self._saying: dict[MessageName, LetterPace] = {}
        """Outcomes that their origin has not heard, as far as this tenure knows."""
        self._effects: list[MessageEffect] = []

    def _taken(self) -> list[MessageEffect]:
        effects, self._effects = self._effects, []
        return effects

    def begin(self, times: MessageTimes, *, goes_on: bool) -> list[MessageEffect]:
        """Begin a tenure: ask what became of orders under way, offer on what no receiver took, say outcomes again.

        Args:
            goes_on: it is of the same life as the one before.
        """
        self._forget_tenure()
        for accepted in self.inbox.unfinished():
            name = accepted.name
            self._executing[name] = len(accepted.body)
            if goes_on and name.inbox:
                left_ms = self.inbox.rows[name].left_ms(times.log_time, times.wall)
                self._effects.append(_execute(accepted, Instant(times.now + max(0, left_ms) * MS)))
            else:
                self._effects.append(RecoverBody(name, accepted.kind, goes_on))
        for name, row in self.inbox.rows.items():
            if row.end is not None:
                self._saying[name] = LetterPace.at_once(times.now, self.limits)
        self._go_on(times)
        return self._taken()

    # What origins say.

    def heard(self, letter: OriginLetter, times: MessageTimes) -> list[MessageEffect]:
        self._mark(letter)
        match letter:
            case MessageTold():
                self._tell(letter)
            case BodySent():
                self._body(letter, times)
            case OverAsked():
                self._over(letter, times)
            case OutcomeHeard(name=name):
                self._saying.pop(name, None)
                self._drop(name)
        self._fetch_more(times)
        return self._taken()

    def _mark(self, letter: OriginLetter) -> None:
        """Take the origin's mark, and put it on record if something may be forgotten for it."""
        name = letter.name
        key = (name.origin, name.inbox, name.life)
        self._lows[key] = low = max(self._lows.get(key, 0), letter.low)
        if len(self._lows) > self.limits.told_max:
            del self._lows[next(iter(self._lows))]
        if (name.origin, name.inbox) not in self._lowering:
            record = LowTold(
                origin=name.origin, owner=self.node, life=name.life, low=low, inbox=name.inbox, since=letter.since
            )
            if self.inbox.would_forget(record):
                self._lowering.add((name.origin, name.inbox))
                self._effects.append(RecordMessage(record))

    def _low(self, name: MessageName) -> int:
        return max(self.inbox.low(name), self._lows.get((name.origin, name.inbox, name.life), 0))

    def _tell(self, letter: MessageTold) -> None:
        name = letter.name
        row = self.inbox.rows.get(name)
        if row is not None:
            self._say(name)
        elif name.number < self._low(name) or self.inbox.receipts.get(name) is not None or self._is_under_way(name):
            return
        elif letter.size <= self.limits.body_bytes_max and self._has_place(name.inbox):
            self._told.setdefault(name.inbox, {}).setdefault(name, letter.size)

    def _has_place(self, inbox: str) -> bool:
        """True: one more name is remembered. A flood of one inbox takes no place of orders, nor of inboxes in use."""
        told = len(self._told.get(inbox, ()))
        if not inbox:
            return told < self.limits.told_max
        others = sum(len(names) for one, names in self._told.items() if one)
        return told < self.limits.told_inbox_max and (inbox in self._wanted or others < self.limits.told_max)

    def wants(self, wanted: Mapping[str, int], times: MessageTimes) -> list[MessageEffect]:
        """Fetch for receivers: how many messages those of each inbox have at once."""
        self._wanted = dict(wanted)
        self._fetch_more(times)
        return self._taken()

    def _is_under_way(self, name: MessageName) -> bool:
        return name in self._fetches or name in self._accepting or name in self._refusing

    def _drop(self, name: MessageName) -> None:
        told = self._told.get(name.inbox, {})
        told.pop(name, None)
        if not told:
            self._told.pop(name.inbox, None)
        self._fetches.pop(name, None)
        self._ways.taken_up(name)

    def _fetch_more(self, times: MessageTimes) -> None:
        """Ask for the bodies that there is room for; those for receivers, who may be away, take no room of orders."""
        for inbox in ("", *self._wanted):  # Not through thousands of inboxes that nobody reads, with each letter.
            while told := self._told.get(inbox):
                name, size = next(iter(told.items()))
                if not self._has_room(inbox, size):
                    break
                got = self._ways.taken_up(name)
                self._drop(name)
                if name.number >= self._low(name):
                    self._fetches[name] = Fetch(size, LetterPace.at_once(times.now, self.limits), got)
        for name in self._ways.in_turn(self._fetches):
            self._question(name, self._fetches[name], times)

    def _has_room(self, inbox: str, size: int) -> bool:
        under_way = [
            *((name.inbox, one.size) for name, one in self._fetches.items()),
            *((name.inbox, one) for name, (_, one) in self._accepting.items()),
            *((name.inbox, one) for name, one in self._executing.items()),
        ]
        used = [one for where, one in under_way if where == inbox]
        room = min(self.limits.room, self._wanted.get(inbox, 0)) if inbox else self.limits.room
        if len(used) >= room or (used and sum(used) + size > self.limits.room_bytes):
            return False
        return not inbox or sum(one for where, one in under_way if where) + size <= self.limits.inboxes_bytes

    def _question(self, name: MessageName, fetch: Fetch, times: MessageTimes) -> None:
        pace = self._ways.pace(name)
        nonce = self._chance.getrandbits(NONCE_BITS)
        if len(fetch.asked) >= QUESTIONS_KEPT:
            del fetch.asked[next(iter(fetch.asked))]
        fetch.asked[nonce] = times.now
        fetch.tries += 1
        fetch.pace.wait = max(fetch.pace.wait, SPARE * pace.took_ns)
        fetch.pace.again(times.now, self.limits.longest_ns, self._chance)
        self._send(BodyAsked(name=name, life=self._life(), offset=len(fetch.got), size=pace.size, nonce=nonce))

    def _body(self, letter: BodySent, times: MessageTimes) -> None:
        name, fetch = letter.name, self._fetches.get(letter.name)
        asked_at = None if fetch is None else fetch.asked.get(letter.nonce)
        if fetch is None or asked_at is None or name.number < self._low(name):
            self.not_believed += 1
            return
        is_whole = letter.offset == len(fetch.got) and letter.offset + len(letter.piece) <= letter.size == fetch.size
        if not is_whole or not (letter.piece or not letter.size):
            self.not_believed += 1
            self._drop(name)
            return
        fetch.got += letter.piece
        self._ways.pace(name).carried(len(letter.piece), times.now - asked_at)
        until = Instant(asked_at + letter.left_ms * MS)
        if times.now >= until:
            self._drop(name)
        elif len(fetch.got) < fetch.size:
            fetch.asked, fetch.tries, fetch.pace = {}, 0, LetterPace.at_once(times.now, self.limits)
            self._fetches[name] = self._fetches.pop(name)  # The others that share the way have their turn.
        else:
            del self._fetches[name]
            self._accept(letter, bytes(fetch.got), until, times)

    def _accept(self, letter: BodySent, body: bytes, until: Instant, times: MessageTimes) -> None:
        self._accepting[letter.name] = (until, len(body))
        record = MessageAccepted(
            name=letter.name,
            guid=letter.guid,
            kind=letter.kind,
            body=body,
            user=letter.user,
            principal=letter.principal,
            speaker=letter.speaker,
            reason=letter.reason,
            command_id=letter.command_id,
            subject=letter.subject,
            requested_ns=letter.requested_ns,
            accepted_ns=times.wall,
            left_ms=max(0, until - times.now) // MS,
        )
        self._effects.append(RecordMessage(record))

    def _over(self, letter: OverAsked, times: MessageTimes) -> None:
        """Say what became of a message; if it was never had, see to it that it never is."""
        name = letter.name
        if name in self._accepting or name in self._refusing:
            return
        if name in self.inbox.rows or self.inbox.receipts.get(name) is not None:
            self._say(name)
            return
        self._drop(name)
        if self.inbox.had_perhaps(name):
            self._send(ForgottenSaid(name=name, life=self._life()))
        elif name.number < self.inbox.low(name):
            self._send(NeverSaid(name=name, life=self._life()))
        elif self.inbox.rows_of(name.origin) + len(self._refusing) < self.limits.rows_max:
            self._refusing.add(name)
            self._effects.append(RecordMessage(MessageRefused(name=name)))

    def _say(self, name: MessageName) -> None:
        """Say what is on record of a message."""
        row, receipt = self.inbox.rows.get(name), self.inbox.receipts.get(name)
        if row is not None and row.is_refused:
            self._send(NeverSaid(name=name, life=self._life()))
        elif row is not None and row.end is None:
            accepted_ns = 0 if row.accepted is None else row.accepted.accepted_ns
            begun_ns = self._begun.get(name, 0)
            said = AcceptedSaid(name=name, life=self._life(), guid=row.guid, accepted_ns=accepted_ns, begun_ns=begun_ns)
            self._send(said)
        else:
            guid, end = (
                (row.guid, row.end) if row is not None else (receipt.guid, receipt.end) if receipt else ("", None)
            )
            if end is not None:
                self._outcome(name, guid, end)

    def _outcome(self, name: MessageName, guid: str, end: MessageEnd) -> None:
        self._send(OutcomeSaid(name=name, life=self._life(), guid=guid, **msgspec.structs.asdict(end)))

    # Steps on record.

    def accepted(self, record: MessageAccepted, times: MessageTimes) -> list[MessageEffect]:
        """Have a body carried out, once, as its acceptance is committed."""
        name = record.name
        until, size = self._accepting.pop(name, (None, len(record.body)))
        self._executing[name] = size
        if until is None:
            self._effects.append(RecoverBody(name, record.kind, is_proven=False))
        elif times.now >= until:
            detail = "never carried out: its time was over when it was on record"
            end = MessageEnd(outcome=MessageOutcome.EXPIRED, cause=AddCause.TIME_LIMIT_OVER, detail=detail)
            self._finish(name, end, times)
        else:
            self._say(name)
            self._effects.append(_execute(record, until))
        return self._taken()

    def begun(self, name: MessageName, times: MessageTimes) -> list[MessageEffect]:
        """Let the origin know that a message is being carried out."""
        if name in self._executing and name not in self._begun:
            self._begun[name] = times.wall
            self._say(name)
        return self._taken()

    def begun_ns(self, name: MessageName) -> int:
        """Wall time at which a message was begun; 0: it was not, as far as this tenure knows."""
        return self._begun.get(name, 0)

    def executed(self, name: MessageName, end: MessageEnd, times: MessageTimes, lease: int = 0) -> list[MessageEffect]:
        """Record what became of a message; the first word counts. `lease`: the one by which a receiver took it."""
        self._finish(name, end, times, lease)
        return self._taken()

    def _finish(self, name: MessageName, end: MessageEnd, times: MessageTimes, lease: int = 0) -> None:
        row = self.inbox.rows.get(name)
        if row is None or not row.is_unfinished or name in self._finishing:
            return
        self._finishing.add(name)
        assert row.accepted is not None
        end = msgspec.structs.replace(
            end,
            accepted_ns=row.accepted.accepted_ns,
            begun_ns=self._begun.get(name, 0),
            ended_ns=end.ended_ns or times.wall,
        )
        self._effects.append(RecordMessage(MessageDone(name=name, guid=row.guid, end=end, lease=lease)))

    def done(self, record: MessageDone, times: MessageTimes) -> list[MessageEffect]:
        """Say an outcome, as it is committed."""
        name = record.name
        self._finishing.discard(name)
        self._executing.pop(name, None)
        self._begun.pop(name, None)
        self._saying[name] = LetterPace.at_once(times.now, self.limits)
        self._go_on(times)
        return self._taken()

    def refused(self, record: MessageRefused) -> list[MessageEffect]:
        """Say `never`, as the refusal is committed."""
        self._refusing.discard(record.name)
        self._send(NeverSaid(name=record.name, life=self._life()))
        return self._taken()

    def low_told(self, record: LowTold) -> list[MessageEffect]:
        self._lowering.discard((record.origin, record.inbox))
        return self._taken()

    # Time.

    def hurry(self, is_meant: Callable[[MessageName], bool], times: MessageTimes) -> None:
        """Say at once what would be said again later, of the messages that are meant."""
        paces = {name: one.pace for name, one in self._fetches.items() if one.asked}
        for some in (paces, self._saying):
            hurry(some, is_meant, times, self.limits)

    def time_passed(self, times: MessageTimes) -> list[MessageEffect]:
        self._go_on(times)
        return self._taken()

    def deadline(self) -> Instant | None:
        """Instant at which `time_passed` is due."""
        fetches = (one.pace.due for one in self._fetches.values() if one.asked)
        return soonest(*fetches, *(one.due for one in self._saying.values()))

    def _go_on(self, times: MessageTimes) -> None:
        """Repeat what is due, and fetch what there is room for."""
        for name, fetch in list(self._fetches.items()):
            if fetch.pace.due > times.now or not fetch.asked:
                continue
            if fetch.tries >= self.limits.fetch_tries:
                self._drop(name)
                self._ways.put_aside(name, fetch.got)
            else:
                self._ways.pace(name).slowed()
                self._question(name, fetch, times)
        for name, pace in list(self._saying.items()):
            if pace.due > times.now:
                continue
            if self.inbox.receipts.get(name) is None:
                del self._saying[name]
                continue
            self._say(name)
            pace.wait = max(pace.wait, SPARE * self._ways.pace(name).took_ns)
            pace.again(times.now, self.limits.patient_ns, self._chance)
        self._fetch_more(times)

    def _send(self, letter: OwnerLetter) -> None:
        self._effects.append(SendLetter(letter.name.origin, letter))


def _execute(record: MessageAccepted, not_after: Instant) -> ExecuteBody:
    return ExecuteBody(
        name=record.name,
        kind=record.kind,
        body=record.body,
        not_after=not_after,
        user=record.user,
        principal=record.principal,
        speaker=record.speaker,
        reason=record.reason,
    )
