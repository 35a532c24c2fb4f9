"""Machines of messages with one rule left out, to show that the simulated world would notice.

Each is a subclass of a real machine with a method or two replaced. The first nine are those that the design's played
model takes. None of them is reachable from a node.
Spec: docs/messages.md; ADR-0184.
"""

from albireo.codec.tree.letters import BodySent, NeverSaid, OriginLetter, OverAsked, OwnerLetter
from albireo.codec.tree.records import LowTold, MessageAccepted, MessageEnd
from albireo.machine.message.events import ExecuteBody, MessageEffect, MessageTimes, SendAsked
from albireo.machine.message.origin import OriginSide
from albireo.machine.message.outbox import OpenMessage
from albireo.machine.message.owner import Load, OwnerSide
from albireo.model.instant import MS, Instant, WallTime
from albireo.model.tree.message import AddCause, MessageName


class ForgetsByDeadline(OwnerSide):
    """Forgets an accepted number when its time is over, not when its origin has the outcome."""

    def _forget_tenure(self) -> None:
        super()._forget_tenure()
        self._ends: dict[MessageName, Instant] = {}

    def _accept(self, letter: BodySent, body: bytes, until: Instant, wall: WallTime) -> None:
        self._ends[letter.name] = until
        super()._accept(letter, body, until, wall)

    def _go_on(self, times: MessageTimes) -> None:
        super()._go_on(times)
        self._forget(times)

    def heard(self, letter: OriginLetter, times: MessageTimes) -> list[MessageEffect]:
        self._forget(times)
        return super().heard(letter, times)

    def _forget(self, times: MessageTimes) -> None:
        for name, until in list(self._ends.items()):
            row = self.inbox.rows.get(name)
            if row is not None and row.end is not None and times.now >= until:
                del self._ends[name]
                del self.inbox.rows[name]
                self.inbox.receipts._kept.pop(name, None)
                life = self.inbox.origins[name.origin].of(name.life)
                if life is not None:
                    life.numbers.remove(name.number)


class TakesAnyBody(OwnerSide):
    """Takes a body that it did not ask for, with the time at which it comes."""

    def _body(self, letter: BodySent, times: MessageTimes) -> None:
        name = letter.name
        if name not in self.inbox.rows and name not in self._accepting and letter.size == len(letter.piece):
            self._drop(name)
            self._accept(letter, letter.piece, Instant(times.now + letter.left_ms * MS), times.wall)


class PutsNoMarkOnRecord(OwnerSide):
    """Keeps the mark in memory only, and forgets numbers by it."""

    def _mark(self, letter: OriginLetter) -> None:
        name = letter.name
        key = (name.origin, name.life)
        self._lows[key] = max(self._lows.get(key, 0), letter.low)
        record = LowTold(origin=name.origin, owner=self.node, life=name.life, low=letter.low, since=letter.since)
        self.inbox.fold_low(record)

    def _low(self, name: MessageName) -> int:
        return self._lows.get((name.origin, name.life), 0)


class ExpiresAfterBody(OriginSide):
    """Says `expired` at the deadline although a body has left."""

    def _give_up(self, name: MessageName, found: OpenMessage, cause: AddCause, times: MessageTimes) -> None:
        self._end(name, self._promise(cause, "", times))


class SkipsOpenNumbers(OriginSide):
    """Lets its mark pass numbers without an outcome."""

    def _low(self, name: MessageName) -> int:
        return self.outbox.known(name.owner).next if name.life == self.outbox.life else 2**62


class ExecutesBeforeCommit(OwnerSide):
    """Has a body carried out when it comes, before that is on record."""

    def _accept(self, letter: BodySent, body: bytes, until: Instant, wall: WallTime) -> None:
        self._effects.append(
            ExecuteBody(
                name=letter.name, kind=letter.kind, body=body, not_after=until, user="", principal="", reason=""
            )
        )
        super()._accept(letter, body, until, wall)

    def accepted(self, record: MessageAccepted, times: MessageTimes) -> list[MessageEffect]:
        return [one for one in super().accepted(record, times) if not isinstance(one, ExecuteBody)]


class SaysNeverLightly(OwnerSide):
    """Says `never` and takes the body all the same."""

    def _over(self, letter: OverAsked, times: MessageTimes) -> None:
        if letter.name in self.inbox.rows or self.inbox.receipts.get(letter.name) is not None:
            self._say(letter.name)
        else:
            self._send(NeverSaid(name=letter.name, life=self._life()))


class CountsFromTheBody(OwnerSide):
    """Counts the time that is left from the arrival of the body."""

    def _body(self, letter: BodySent, times: MessageTimes) -> None:
        fetch = self._fetches.get(letter.name)
        if fetch is not None and letter.nonce in fetch.asked:
            fetch.asked[letter.nonce] = times.now
        super()._body(letter, times)


class ComparesNoGuid(OriginSide):
    """Takes an outcome without a look at its guid."""

    def _is_proof(self, name: MessageName, said: str, drawn: str) -> bool:
        return True


class TakesNoncesOfEarlierTenures(OwnerSide):
    """Takes the answer to a question of an earlier tenure, of which it does not know when it was asked."""

    def _body(self, letter: BodySent, times: MessageTimes) -> None:
        name = letter.name
        is_free = name not in self.inbox.rows and name not in self._accepting and name not in self._refusing
        if name not in self._fetches and is_free and letter.size == len(letter.piece):
            self._accept(letter, letter.piece, Instant(times.now + letter.left_ms * MS), times.wall)
            return
        super()._body(letter, times)


class ExpiresByTheWallAtTheOwner(OwnerSide):
    """Takes the wall clock for the end of a message: as if the origin's clock were its own."""

    def _body(self, letter: BodySent, times: MessageTimes) -> None:
        fetch = self._fetches.get(letter.name)
        if fetch is not None and letter.nonce in fetch.asked:
            skew = (times.wall - times.now) - self._first_skew(times)
            fetch.asked[letter.nonce] = Instant(fetch.asked[letter.nonce] - skew)
        super()._body(letter, times)

    def _first_skew(self, times: MessageTimes) -> int:
        if not hasattr(self, "_skew"):
            self._skew = times.wall - times.now
        return self._skew


class HasNoWindow(OriginSide):
    """Opens any number of messages to one owner."""

    def _refusal(self, asked: SendAsked) -> str:
        return ""


class ServesAnyLife(OriginSide):
    """Does not look at the life in which an owner asks."""

    def _is_present_life(self, letter: OwnerLetter) -> bool:
        return True


class ServesOnInANewLife(OriginSide):
    """Goes on with what was open, although nothing proves how far it was."""

    def _is_of_earlier_life(self, name: MessageName) -> bool:
        return False


class AsksOverOffTheRecord(OriginSide):
    """Asks `over` before it is on record that the body leaves no more."""

    def _stop(self, name: MessageName, cause: AddCause) -> None:
        self.outbox.open[name].stopped = cause
        self._send(OverAsked(name=name, low=self._low(name), since=self.outbox.since(name.owner)))


class RefusesOffTheRecord(OwnerSide):
    """Says `never` before the refusal is committed; a member that was taken over says it too."""

    def _over(self, letter: OverAsked, times: MessageTimes) -> None:
        before = len(self._effects)
        super()._over(letter, times)
        if letter.name in self._refusing and len(self._effects) > before:
            self._send(NeverSaid(name=letter.name, life=self._life()))


class TakesSilenceForNever(OriginSide):
    """Says `expired` when nobody answers."""

    def _unknown(self, name: MessageName, detail: str, times: MessageTimes) -> MessageEnd:
        return self._promise(AddCause.TIME_LIMIT_OVER, detail, times)


class CarriesOutAgain(OwnerSide):
    """Begins a tenure by carrying out what an earlier one accepted."""

    def begin(self, times: MessageTimes, *, goes_on: bool) -> list[MessageEffect]:
        effects = super().begin(times, goes_on=goes_on)
        again: list[MessageEffect] = []
        for accepted in self.inbox.unfinished():
            self._accepting[accepted.name] = (Instant(times.now + 1_000 * MS), Load.of(accepted))
            again += super().accepted(accepted, times)
        return effects + again


class AsksNothingAtTheDeadline(OriginSide):
    """Is silent once the time of a message is over."""

    def _give_up(self, name: MessageName, found: OpenMessage, cause: AddCause, times: MessageTimes) -> None:
        pass


class SettlesUnknown(OriginSide):
    """Takes `unknown` for the last word, and hears no late outcome."""

    def _end(self, name: MessageName, end: MessageEnd, *, is_settled: bool = True) -> None:
        super()._end(name, end, is_settled=True)
