"""Shared serving: gives the messages of shared subscriptions to consumers that ask, each message to one of them.

    take   --free messages--> leases on their way --folded--> their bodies --> answer
    settle --done, given back, extended--> on its way --folded--> answer

A message is a consumer's by record before it is given. What is its own and what it does not hold, it is given again: an
answer was lost, or this member has just begun to lead. Its lease begins anew then: a consumer knows how long messages
are surely its own only if their lease was put on record after it asked. Messages that nobody could deal with the node
leases itself, and puts them to the topic of dead letters; where that takes none, it tries again when the lease is over.

Invariants
    one:     a message is one consumer's at a time: only this machine gives leases, one batch of a subscription at a
             time, from tables that have all leases which it gave.
    done:    a message of which it was answered that it is done is given to nobody: answers wait until it is folded.

Not done here: reading files, sending, producing batches (node/topics). Spec: ADR-0246.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from albireo.codec.message import Ask
from albireo.codec.puts import MOVES_MAX, CursorMoved, LeaseMoved, LeaseStep
from albireo.codec.served import MessageColumns
from albireo.codec.sharing import SETTLE, TAKE, TAKE_BYTES_MAX, TopicSettle, TopicTake, TopicTaken
from albireo.machine.topics.dead_letters import DeadLetters
from albireo.machine.topics.serving import NOT_LEADING
from albireo.machine.topics.settling import Settling
from albireo.machine.topics.shared_effects import (
    AnswerTo,
    AskPlace,
    PutDead,
    ReadShared,
    RecordShared,
    answered,
    refused,
)
from albireo.machine.topics.shared_messages import SharedMessages, numbers_of
from albireo.machine.topics.tables import TopicTables
from albireo.machine.topics.tail import MessageBlock, MessageTail
from albireo.model.instant import MS, SECOND, Instant, soonest
from albireo.model.principal import OWN_KINDS, kind_of
from albireo.model.refusal import Refusal, RefusalCode, unknown_question
from albireo.model.topic import Subscription
from albireo.model.topic_lease import DEAD_LETTERS, Range, count_of, first_of, joined, without

TAKES_MAX: Final = 20_000
"""Most consumers that wait for messages."""
TAKE_NS: Final = 5 * SECOND
"""Time after which one that waits is answered that there are none."""
SETTLES_MAX: Final = 10_000
DEAD_AT_ONCE: Final = 16


Effect = AnswerTo | ReadShared | RecordShared | PutDead


class _Take:
    """A question for messages."""

    def __init__(self, place: AskPlace | None, asked: TopicTake, since: Instant) -> None:
        self.place = place
        """None: it is the node's own, for dead letters."""
        self.asked = asked
        self.since = since
        self.until = Instant(since + TAKE_NS)
        self.offered_at: Instant | None = None
        """When leases were put on record for this question; what is given on none would be of unknown age."""
        self.is_new = True
        """True: it may have messages by record that it does not hold."""
        self.is_reading = False
        self.is_lacking = False
        """True: files lack what it is to get, for now."""


class SharedServing:
    """The machine. Its methods are its events."""

    def __init__(self, tables: TopicTables, tail: MessageTail) -> None:
        self.tables = tables
        self.tail = tail
        self.messages = SharedMessages(tables, tail)
        self.is_leading = False
        self._takes: dict[int, dict[int, _Take]] = {}
        """Questions by subscription and consumer, in the order in which they came."""
        self._due: dict[int, None] = {}
        """Subscriptions for which there may be something to do."""
        self._giving: set[int] = set()
        """Subscriptions of which leases are on their way."""
        self._early: list[tuple[int, str, bytes, Ask, str, Instant]] = []
        """Questions that wait until the tail is where they say."""
        self._settling = Settling(tables)
        self._dead = DeadLetters(tables)
        self._expirations = 0
        self._turn = 0
        """Number that moves the first topic of a pattern, so that each comes first at times."""

    def stands_by(self) -> list[Effect]:
        """This member leads no more."""
        self.is_leading = False
        waiting = [one.place for takes in self._takes.values() for one in takes.values()]
        waiting += self._settling.clear()
        waiting += [AskPlace(link, sender, ask.request_id) for _, link, sender, ask, *_ in self._early]
        for forgotten in (self._takes, self._due, self._giving, self._dead, self._early):
            forgotten.clear()
        return [refused(one, NOT_LEADING) for one in waiting if one is not None]

    # Questions.

    def asked(self, link: str, sender: bytes, ask: Ask, principal: str, now: Instant) -> list[Effect]:
        """A consumer asks."""
        place = AskPlace(link, sender, ask.request_id)
        try:
            asked: TopicTake | TopicSettle
            if ask.what == TAKE:
                asked = msgspec.convert(ask.arguments, TopicTake)
            elif ask.what == SETTLE:
                asked = msgspec.convert(ask.arguments, TopicSettle)
            else:
                return [refused(place, unknown_question(ask.what, [TAKE, SETTLE]))]
        except msgspec.ValidationError as error:
            return [refused(place, Refusal(RefusalCode.MALFORMED, str(error)))]
        if isinstance(asked, TopicTake) and self.is_leading and asked.not_before > self.tail.end.sequence:
            if len(self._early) < TAKES_MAX:  # Its subscription may stand behind the tail, too.
                self._early.append((asked.not_before, link, sender, ask, principal, now))
                return []
        refusal = self._refusal(asked.subscription_id, principal)
        if refusal is not None:
            return [refused(place, refusal)]
        if isinstance(asked, TopicSettle):
            self._settling.add(place, asked)
            take = self._forget(asked.subscription_id, asked.consumer) if asked.is_leaving else None
            return [] if take is None or take.place is None else [answered(take.place)]
        takes = self._takes.setdefault(asked.subscription_id, {})
        before = takes.pop(asked.consumer, None)
        takes[asked.consumer] = _Take(place, asked, now)
        self._due[asked.subscription_id] = None
        return [] if before is None or before.place is None else [answered(before.place)]

    def _refusal(self, subscription_id: int, principal: str) -> Refusal | None:
        if not self.is_leading:
            return NOT_LEADING
        known = self.tables.subscriptions.find(subscription_id)
        if known is None:
            cause = f"there is no subscription with the id {subscription_id}, or it is over"
            return Refusal(RefusalCode.UNKNOWN_NAME, cause, "subscribe first, then read")
        if known.sharing is None:
            return Refusal(RefusalCode.BAD_VALUE, f"the subscription of {known.subscriber!r} is not shared")
        if known.principal != principal and kind_of(principal) not in OWN_KINDS:
            return Refusal(RefusalCode.NOT_OWNER, f"subscriber {known.subscriber!r} is not of {principal!r}")
        if sum(map(len, self._takes.values())) >= TAKES_MAX or len(self._settling) >= SETTLES_MAX:
            return Refusal(RefusalCode.BUSY, "too many consumers wait already", "ask again soon")
        return None

    def lost(self, link: str, sender: bytes) -> None:
        """A link is gone. Leases stay: the consumer may come back."""
        self._early = [one for one in self._early if one[1:3] != (link, sender)]
        for subscription_id, takes in list(self._takes.items()):
            for consumer, one in list(takes.items()):
                if one.place is not None and (one.place.link, one.place.sender) == (link, sender):
                    self._forget(subscription_id, consumer)

    def _forget(self, subscription_id: int, consumer: int) -> _Take | None:
        takes = self._takes.get(subscription_id, {})
        found = takes.pop(consumer, None)
        if not takes:
            self._takes.pop(subscription_id, None)
        return found

    # The log, and time.

    def took(self, block: MessageBlock) -> list[Effect]:
        """The tail has one more block, and the tables what it tells."""
        effects = self._no_more_early()
        if not (self._takes or self._giving or self._settling):
            return effects
        given = {one.subscription_id for one in block.leases if one.step is LeaseStep.GIVEN}
        self._giving -= given
        for subscription_id in given:
            for one in self._takes.get(subscription_id, {}).values():
                one.is_new = True
            if (dead := self._dead.asked(subscription_id)) is not None:
                self._takes.setdefault(subscription_id, {})[DEAD_LETTERS] = _Take(None, dead, Instant(2**62))
                self._due[subscription_id] = None
        topics, is_late = block.firsts.keys(), self._expirations != self.tables.cursors.expirations
        self._expirations = self.tables.cursors.expirations
        for subscription_id in self._takes:
            if is_late or block.is_changing or topics & self.tables.cursors.topics_of(subscription_id):
                self._due[subscription_id] = None
        self._due.update(dict.fromkeys(block.moved & self._takes.keys()))
        return [*effects, *self._settling.folded(block.leases)]

    def _no_more_early(self) -> list[Effect]:
        """Hear questions that the tail has come to."""
        end = self.tail.end.sequence
        ready = [one for one in self._early if one[0] <= end]
        self._early = [one for one in self._early if one[0] > end]
        return [effect for one in ready for effect in self.asked(*one[1:])]

    def time_passed(self, now: Instant) -> list[Effect]:
        """Answer who waited long enough."""
        effects: list[Effect] = []
        for subscription_id, takes in list(self._takes.items()):
            for consumer, one in list(takes.items()):
                if one.until > now:
                    break
                if one.place is not None and not one.is_reading:
                    self._forget(subscription_id, consumer)
                    effects.append(answered(one.place))
        return effects

    def deadline(self) -> Instant | None:
        return soonest(*(next(iter(takes.values())).until for takes in self._takes.values() if takes))

    def serve(self, now: Instant) -> list[Effect]:
        """Do what there is to do."""
        effects: list[Effect] = []
        if self._settling.is_due and self.is_leading:
            effects += self._settling.settle(self._giving)
        while self._due:
            subscription_id = next(iter(self._due))
            del self._due[subscription_id]
            effects += self._serve(subscription_id, now)
        return effects

    def _serve(self, subscription_id: int, now: Instant) -> list[Effect]:
        takes = self._takes.get(subscription_id, {})
        known = self.tables.subscriptions.find(subscription_id)
        if known is None or known.sharing is None:
            self._takes.pop(subscription_id, None)
            gone = Refusal(RefusalCode.UNKNOWN_NAME, "the subscription was ended", "subscribe anew")
            return [refused(one.place, gone) for one in takes.values() if one.place is not None]
        effects: list[Effect] = []
        waiting: list[_Take] = []
        for one in list(takes.values()):
            if one.is_reading:
                continue
            if one.is_new and (one.offered_at is not None or one.place is None) and (found := self._give(one)):
                effects += found
            elif one.place is not None:
                waiting.append(one)
        if waiting and subscription_id not in self._giving:
            leases = self._leases(known, waiting)
            if leases:
                self._giving.add(subscription_id)
                effects.append(RecordShared(leases=leases))
                for one in waiting:
                    one.offered_at = now
        return effects

    # Leases.

    def _leases(self, known: Subscription, waiting: Sequence[_Take]) -> tuple[LeaseMoved, ...]:
        """Leases of what is nobody's, for those who wait."""
        assert known.sharing is not None
        self._turn += 1
        ids = sorted(self.tables.cursors.topics_of(known.subscription_id))
        ids = ids[self._turn % len(ids) :] + ids[: self._turn % len(ids)] if ids else ids
        rooms = {one.asked.consumer: one.asked.count for one in waiting}
        given: dict[tuple[int, int], list[Range]] = {}
        for one in waiting:
            if one.is_new:
                one.is_new = False
                owed = self.messages.owed(one.asked)
                given.update({(topic_id, one.asked.consumer): ranges for topic_id, ranges in owed.items()})
                rooms[one.asked.consumer] = 0 if owed else one.asked.count
        failed_max = known.sharing.deliveries_max
        for topic_id in ids:
            cursor, topic = self.tables.cursors.of(known.subscription_id, topic_id), self.tables.topics.find(topic_id)
            if cursor is None or topic is None:
                continue
            if dead := cursor.dead(topic.gone, failed_max)[:DEAD_AT_ONCE]:
                given[topic_id, DEAD_LETTERS] = [(first, first) for first, _ in dead]
            free = cursor.free(topic.gone, topic.count, sum(rooms.values()), failed_max)
            for one in waiting:
                if not free:
                    break
                holds = joined(one.asked.holds.get(topic_id, ()))  # Its lease of these was over; it has them still.
                if found := first_of(without(free, holds), rooms[one.asked.consumer]):
                    given[topic_id, one.asked.consumer] = found
                    rooms[one.asked.consumer] -= count_of(found)
                    free = without(free, found)
        rows = (LeaseMoved(known.subscription_id, one[0], tuple(ranges), one[1]) for one, ranges in given.items())
        return tuple(rows)[:MOVES_MAX]

    # Messages.

    def _give(self, take: _Take) -> list[Effect]:
        """Give a consumer what is its own by record and what it does not hold; nothing: there is none."""
        asked = take.asked
        wanted = self.messages.owed(asked)
        gone: list[CursorMoved] = []
        if (stored := self.messages.first_stored(wanted)) is not None:
            take.is_reading = True
            up_to = self.tail.begin.sequence
            return [ReadShared(asked.subscription_id, asked.consumer, *stored, up_to, TAKE_BYTES_MAX)]
        found, is_all = self.messages.in_tail(wanted)
        if is_all:
            for topic_id, ranges in wanted.items():
                there = numbers_of(found, topic_id)
                if missing := without(ranges, there):
                    gone.append(CursorMoved(asked.subscription_id, topic_id, 0, tuple(missing)))
        effects = self._given(take, found) if found else []
        return [*effects, RecordShared(moves=tuple(gone))] if gone else effects

    def read(self, wanted: ReadShared, messages: MessageColumns | None) -> list[Effect]:
        """Files were read for a consumer; None: they have none of that topic from that number on."""
        take = self._takes.get(wanted.subscription_id, {}).get(wanted.consumer)
        if take is None:
            return []
        take.is_reading = False
        self._due[wanted.subscription_id] = None
        ranges = self.messages.owed(take.asked).get(wanted.topic_id, [])
        end = self.messages.stored_counts.get(wanted.topic_id, 0) if messages is None else int(messages.number[-1])
        looked_at = without(ranges, [(0, wanted.first - 1), (end + 1, 2**63 - 1)])
        found = (
            [] if messages is None or not looked_at else [self.messages.chosen(messages, {wanted.topic_id: looked_at})]
        )
        found = [one for one in found if len(one)]
        missing = without(looked_at, numbers_of(found, wanted.topic_id))
        effects = self._given(take, found) if found else []
        if missing:
            moves = (CursorMoved(wanted.subscription_id, wanted.topic_id, 0, tuple(missing)),)
            effects.append(RecordShared(moves=moves))
        return effects

    def lacking(self, wanted: ReadShared) -> None:
        """A consumer is to get what is in no file for now."""
        take = self._takes.get(wanted.subscription_id, {}).get(wanted.consumer)
        if take is not None:
            take.is_lacking = True

    def files_changed(self) -> None:
        """There are other files: what was lacking may be there."""
        for subscription_id, takes in self._takes.items():
            for one in [each for each in takes.values() if each.is_lacking]:
                one.is_lacking = one.is_reading = False
                self._due[subscription_id] = None

    def failed(self, wanted: ReadShared, cause: str) -> list[Effect]:
        """Files could not be read for a consumer."""
        take = self._forget(wanted.subscription_id, wanted.consumer)
        refusal = Refusal(RefusalCode.DISK_FAILED, cause, "look at the log of the actor `topics`")
        return [] if take is None or take.place is None else [refused(take.place, refusal)]

    def _given(self, take: _Take, found: Sequence[MessageColumns]) -> list[Effect]:
        """Answer with messages, or have them moved if they are dead letters."""
        asked = take.asked
        self._forget(asked.subscription_id, asked.consumer)
        if take.place is None:
            return [effect for one in found for effect in self._dead.letters(asked.subscription_id, one)]
        parts = tuple(self.messages.encoded(asked.subscription_id, one) for one in found)
        held_ns = 0 if take.offered_at is None else take.offered_at - take.since
        return [answered(take.place, msgspec.to_builtins(TopicTaken(held_ms=held_ns // MS)), parts)]
