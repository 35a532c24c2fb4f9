"""Machines of messages with one rule left out, to show that the simulated world would notice.

Each is a subclass of a real machine with a method or two replaced. The first nine are those that the design's played
model takes. None of them is reachable from a node.
Spec: docs/messages.md; ADR-0184.
"""

import msgspec

from albireo.codec.message_records import LowTold, MessageAccepted, MessageEnd, MessageLeased
from albireo.codec.tree.letters import BodySent, NeverSaid, OriginLetter, OverAsked, OwnerLetter
from albireo.machine.fold.letters.outbox import OpenMessage
from albireo.machine.message.asking import MessageAsking
from albireo.machine.message.events import ExecuteBody, HandOut, MessageEffect, MessageTimes, RecordMessage, SendAsked
from albireo.machine.message.origin import OriginSide
from albireo.machine.message.owner import OwnerSide
from albireo.machine.message.receiving.receivers import MessageReceivers, Offer, ReceiverEffect
from albireo.model.instant import MS, Instant
from albireo.model.tree.message import AddCause, MessageName


class ForgetsByDeadline(OwnerSide):
    """Forgets an accepted number when its time is over, not when its origin has the outcome."""

    def _forget_tenure(self) -> None:
        super()._forget_tenure()
        self._ends: dict[MessageName, Instant] = {}

    def _accept(self, letter: BodySent, body: bytes, until: Instant, times: MessageTimes) -> None:
        self._ends[letter.name] = until
        super()._accept(letter, body, until, times)

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
                    life.numbers.remove((name.number, name.inbox))


class TakesAnyBody(OwnerSide):
    """Takes a body that it did not ask for, with the time at which it comes."""

    def _body(self, letter: BodySent, times: MessageTimes) -> None:
        name = letter.name
        if name not in self.inbox.rows and name not in self._accepting and letter.size == len(letter.piece):
            self._drop(name)
            self._accept(letter, letter.piece, Instant(times.now + letter.left_ms * MS), times)


class PutsNoMarkOnRecord(OwnerSide):
    """Keeps the mark in memory only, and forgets numbers by it."""

    def _mark(self, letter: OriginLetter) -> None:
        name = letter.name
        key = (name.origin, name.inbox, name.life)
        self._lows[key] = max(self._lows.get(key, 0), letter.low)
        record = LowTold(
            origin=name.origin,
            owner=self.node,
            life=name.life,
            low=letter.low,
            inbox=name.inbox,
            since=letter.since,
        )
        self.inbox.fold_low(record)

    def _low(self, name: MessageName) -> int:
        return self._lows.get((name.origin, name.inbox, name.life), 0)


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

    def _accept(self, letter: BodySent, body: bytes, until: Instant, times: MessageTimes) -> None:
        self._effects.append(
            ExecuteBody(
                name=letter.name, kind=letter.kind, body=body, not_after=until, user="", principal="", reason=""
            )
        )
        super()._accept(letter, body, until, times)

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
            self._accept(letter, letter.piece, Instant(times.now + letter.left_ms * MS), times)
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


class AsksForAny(MessageAsking):
    """Refuses nothing."""

    def _refusal(self, asked: SendAsked) -> None:
        return None


class HasNoWindow(OriginSide):
    """Opens any number of messages to one owner."""

    asking_type = AsksForAny


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
            self._accepting[accepted.name] = (Instant(times.now + 1_000 * MS), len(accepted.body))
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


class OffersOnInANewLife(OwnerSide):
    """Offers what receivers have not taken on, although nothing proves that the store is the one that was written."""

    def begin(self, times: MessageTimes, *, goes_on: bool) -> list[MessageEffect]:
        return super().begin(times, goes_on=True)


class BeginsTimeAnewAtATakeover(OwnerSide):
    """Offers on as if the time of a message began with the tenure."""

    def begin(self, times: MessageTimes, *, goes_on: bool) -> list[MessageEffect]:
        effects = super().begin(times, goes_on=goes_on)
        return [self._fresh(one, times) if isinstance(one, ExecuteBody) else one for one in effects]

    def _fresh(self, one: ExecuteBody, times: MessageTimes) -> ExecuteBody:
        accepted = self.inbox.rows[one.name].accepted
        assert accepted is not None
        return msgspec.structs.replace(one, not_after=Instant(times.now + accepted.left_ms * MS))


class CountsLeasesAnew(MessageReceivers):
    """Begins each tenure as if no receiver had had anything."""

    def offer(self, order: ExecuteBody) -> list[ReceiverEffect]:
        found = super().offer(order)
        if not found and order.name in self._offers:
            self._offers[order.name] = Offer(order)
        return found


class HandsOutOffTheRecord(MessageReceivers):
    """Hands a body out before its lease is on record."""

    def _give(self) -> list[ReceiverEffect]:
        effects = super()._give()
        handed: list[ReceiverEffect] = []
        for one in effects:
            if isinstance(one, RecordMessage) and isinstance(one.record, MessageLeased):
                offer = self._offers[one.record.name]
                order = offer.order
                handed.append(HandOut(
                    receiver=offer.receiver, name=order.name, lease=offer.lease, kind=order.kind, body=order.body,
                    user="", principal="", reason="",
                ))  # fmt: skip
        return effects + handed


class TakesAnyLease(MessageReceivers):
    """Takes the word of whoever had a message at any time."""

    def was_taken(self, name: MessageName, lease: int) -> bool:
        receipt = self.inbox.receipts.get(name)
        return receipt is not None and receipt.lease > 0


class SaysExpiredOfWhatWasOut(MessageReceivers):
    """Says that nobody had a message whose receiver went away with it."""

    def _too_late(self, offer: Offer) -> MessageEnd:
        offer.was_out = False
        return super()._too_late(offer)


class ForgetsEarlierReceivers(MessageReceivers):
    """Takes the word of a receiver that it did nothing for that of those before it, who said nothing."""

    def given_back(self, link: str, name: MessageName, lease: int, times: MessageTimes) -> list[ReceiverEffect] | None:
        effects = super().given_back(link, name, lease, times)
        if effects is not None and name in self._offers:
            self._offers[name].was_out = False
        return effects
