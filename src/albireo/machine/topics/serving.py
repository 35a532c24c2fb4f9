"""Serving: gives the messages of topics to consumers, each from its cursor, and has what they acknowledge recorded.

    hello --> consumer --piece by piece, within credit--> FeedData ... FeedAck --> cursors that move --> FeedDone

A consumer reads one subscription. At its hello it stands where the subscription's cursors stand; what comes after that
is in files first, then in the tail. All that was acknowledged since the last batch of cursors becomes one batch,
however many consumers there are, and each is told once its part is committed.

Invariants
    order:    a consumer gets its messages in the order of the log, each once on one link.
    one:      a subscription has one consumer; who comes later takes its place.
    tables:   nothing is served before the tables stand where CORE stood when it began to lead (`begins`).
    bounded:  a consumer that does not acknowledge is given no more than UNACKNOWLEDGED_MAX messages.

Not done here: reading files, sending, producing the cursors' batches (node/topics). Spec: ADR-0247.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from albireo.codec.message import FeedAck, FeedAlive, FeedAnswer, FeedData, FeedDone, FeedHello
from albireo.codec.puts import MOVES_MAX, CursorMoved
from albireo.codec.served import MessageColumns, encode_served
from albireo.machine.feed.beat import Beat
from albireo.machine.topics.consumer import Consumer, ConsumerPlace, lasts_of
from albireo.machine.topics.serving_effects import Effect, ReadStored, RecordMoves, Say
from albireo.machine.topics.shared_messages import numbers_of
from albireo.machine.topics.tables import TopicTables
from albireo.machine.topics.tail import MessageBlock, MessageTail
from albireo.model.instant import SECOND, Instant
from albireo.model.position import Position
from albireo.model.principal import OWN_KINDS, kind_of
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.topic_lease import count_of, joined, without

CONSUMERS_MAX: Final = 20_000
UNACKNOWLEDGED_MAX: Final = 16_384
"""Most messages that a consumer has and has not acknowledged."""
PIECE_BYTES: Final = 256 << 10
"""Most bytes of one FeedData, unless one message is larger."""
PIECES_PER_TURN: Final = 64
ALIVE_NS: Final = 10 * SECOND
"""Time between two life signs for one consumer; that its member does not lead any more it is told at once."""
SUPERSEDED: Final = Refusal(RefusalCode.SUPERSEDED, "another program reads this subscription since")
NOT_LEADING: Final = Refusal(RefusalCode.NOT_HOLDER, "this member does not lead", "ask the member that leads")


class Serving:
    """The machine. Its methods are its events."""

    def __init__(self, tables: TopicTables, tail: MessageTail) -> None:
        self.tables = tables
        self.tail = tail
        self.stored_counts: dict[int, int] = {}
        """Number of the last message of each topic that is in files."""
        self.epoch = 0
        self.is_leading = False
        self._counts_before: dict[int, int] = {}
        """Messages of each topic when this member began to lead: others may have given them."""
        self._consumers: dict[ConsumerPlace, Consumer] = {}
        self._early: dict[ConsumerPlace, tuple[FeedHello, str, bytes]] = {}
        """Hellos that wait until the tail is where they say."""
        self._of_subscription: dict[int, ConsumerPlace] = {}
        self._of_topic: dict[int, set[ConsumerPlace]] = {}
        self._lacking: set[ConsumerPlace] = set()
        """Consumers that wait for messages which files lack for now."""
        self._due: dict[ConsumerPlace, None] = {}
        """Consumers for which there may be something to do."""
        self._beat: Beat[ConsumerPlace] = Beat(ALIVE_NS)
        self._given: dict[tuple[int, int], int] = {}
        """Number up to which a topic was given to anybody who read a subscription, since this member leads."""
        self._moved: dict[tuple[int, int], int] = {}
        """Numbers up to which cursors have to move, by subscription and topic."""
        self._unsaid: dict[ConsumerPlace, Position] = {}
        """Positions up to which consumers acknowledged since the last batch of cursors."""
        self._batch = 0
        self._under_way: dict[int, dict[ConsumerPlace, Position]] = {}
        """Whom to tell of which position, once a batch of cursors is committed."""
        self._shared: tuple[MessageBlock | None, bytes] = (None, b"")
        """The block that was encoded last as a whole, and its part."""

    def __len__(self) -> int:
        return len(self._consumers)

    # Who leads.

    def begins(self, epoch: int) -> None:
        """This member leads under this epoch, and the tables have all that was committed before it."""
        self.is_leading, self.epoch = True, epoch
        self._given.clear()
        self._counts_before = {one.topic_id: one.count for one in self.tables.topics if one.count}

    def stands_by(self) -> list[Effect]:
        """This member leads no more: consumers are sent on, and what they acknowledged is theirs to say again."""
        self.is_leading = False
        self._moved.clear()
        self._unsaid.clear()
        self._under_way.clear()
        return [self._ended(place, NOT_LEADING) for place in [*self._consumers, *self._early]]

    # Consumers.

    def hello(self, place: ConsumerPlace, hello: FeedHello, principal: str, log_id: bytes) -> list[Effect]:
        """A consumer comes, or comes again; from now on it is served, unless it is refused."""
        refusal = self._refusal(place)
        if refusal is None and hello.not_before > self.tail.end:  # Its subscription may stand behind the tail, too.
            self._forget(place)
            self._early[place] = hello, principal, log_id
            return []
        refusal = refusal or self._objection(hello, principal)
        if refusal is not None:
            return [Say(place, FeedAnswer(verdict="refused", channel=place.channel, refusal=refusal))]
        effects: list[Effect] = []
        before = self._of_subscription.get(hello.subscription_id)
        if before is not None and before != place:
            if self._consumers[before].has_left(hello):
                return []
            effects.append(self._ended(before, SUPERSEDED))
        known, one = self._consumers.get(place), Consumer(place, hello)
        self._forget(place)
        if known is not None and known.subscription_id == one.subscription_id:
            one.known_to = max(one.known_to, known.known_to, known.previous)  # It has what it was given in between.
        self._consumers[place] = one
        self._of_subscription[one.subscription_id] = place
        self._look_up(one)
        self._due[place] = None
        answer = FeedAnswer(verdict="resume", position=hello.position, log_id=log_id, channel=place.channel)
        return [*effects, Say(place, answer)]

    def _refusal(self, place: ConsumerPlace) -> Refusal | None:
        if not self.is_leading:
            return NOT_LEADING
        if len(self._consumers) + len(self._early) >= CONSUMERS_MAX and place not in self._consumers:
            return Refusal(RefusalCode.FULL, f"{CONSUMERS_MAX} consumers are served already", "stop one of them")
        return None

    def _objection(self, hello: FeedHello, principal: str) -> Refusal | None:
        """Why this subscription is not read by this principal, so."""
        known = self.tables.subscriptions.find(hello.subscription_id)
        if known is None:
            cause = f"there is no subscription with the id {hello.subscription_id}, or it is over"
            return Refusal(RefusalCode.UNKNOWN_NAME, cause, "subscribe first, then read")
        if known.principal != principal and kind_of(principal) not in OWN_KINDS:
            return Refusal(RefusalCode.NOT_OWNER, f"subscriber {known.subscriber!r} is not of {principal!r}")
        if known.sharing is not None:
            cause = f"the subscription of {known.subscriber!r} is shared: its consumers ask for messages"
            return Refusal(RefusalCode.BAD_VALUE, cause)
        return None

    def _look_up(self, one: Consumer) -> None:
        """Find the topics of a consumer, and how far it is in those that are new to it."""
        cursors, known = self.tables.cursors, self.tables.cursors.topics_of(one.subscription_id)
        for topic_id in one.wanted.keys() - known:
            del one.wanted[topic_id]
            self._of_topic[topic_id].discard(one.place)
        for topic_id in known - one.wanted.keys():
            cursor = cursors.of(one.subscription_id, topic_id)
            assert cursor is not None
            one.wanted[topic_id] = cursor.low
            if cursor.done:
                one.done[topic_id] = cursor.done
            given = max(self._given.get((one.subscription_id, topic_id), 0), self._counts_before.get(topic_id, 0))
            if given > cursor.low:
                one.given_before[topic_id] = given
            self._of_topic.setdefault(topic_id, set()).add(one.place)

    def ack(self, place: ConsumerPlace, ack: FeedAck) -> list[Effect]:
        """A consumer has room for more, and perhaps acknowledges messages."""
        one = self._consumers.get(place)
        if one is None:
            return []
        if ack.durable > max(one.previous, one.known_to) or ack.durable > self.tail.end:
            cause = f"{ack.durable} is acknowledged, and {one.previous} is the last that was given"
            return [self._ended(place, Refusal(RefusalCode.MALFORMED, cause))]
        one.credit.give(ack.credit_bytes)
        one.credit.received(ack.received)
        if ack.durable > one.acknowledged:
            one.acknowledged = ack.durable
            self._settle(one)
        self._due[place] = None
        return []

    def _settle(self, one: Consumer) -> None:
        """Move the cursors over what is given and acknowledged.

        A consumer may say on a new link what it acknowledged on the one before: that is on record once it was given
        all of it here.
        """
        for topic_id, number in one.takes().items():
            key = (one.subscription_id, topic_id)
            self._moved[key] = max(number, self._moved.get(key, 0))
        if one.recorded < one.acknowledged and one.acknowledged.sequence <= max(one.sent, one.scanned):
            one.recorded = self._unsaid[one.place] = one.acknowledged

    def lost(self, link: str, sender: bytes) -> None:
        """A link is gone, with all its consumers."""
        for place in [one for one in (*self._consumers, *self._early) if one.sender == sender and one.link == link]:
            self._forget(place)

    def _ended(self, place: ConsumerPlace, refusal: Refusal) -> Say:
        self._forget(place)
        return Say(place, FeedAnswer(verdict="refused", channel=place.channel, refusal=refusal))

    def _forget(self, place: ConsumerPlace) -> None:
        self._early.pop(place, None)
        one = self._consumers.pop(place, None)
        if one is None:
            return
        self._due.pop(place, None)
        self._lacking.discard(place)
        self._unsaid.pop(place, None)
        if self._of_subscription.get(one.subscription_id) == place:
            del self._of_subscription[one.subscription_id]
        for topic_id in one.wanted:
            self._of_topic[topic_id].discard(place)

    # MessageColumns.

    def took(self, block: MessageBlock) -> list[Effect]:
        """The tail has one more block, and the tables what it tells of topics and subscriptions."""
        effects: list[Effect] = []
        if block.is_changing:
            effects = self._looked_again()
        for topic_id in block.firsts:
            self._due.update(dict.fromkeys(self._of_topic.get(topic_id, ())))
        for place in [one for one, (hello, *_) in self._early.items() if hello.not_before <= self.tail.end]:
            effects += self.hello(place, *self._early.pop(place))
        return effects

    def _looked_again(self) -> list[Effect]:
        """Topics or subscriptions came or went."""
        effects: list[Effect] = []
        for place, one in list(self._consumers.items()):
            if one.subscription_id not in self.tables.subscriptions:
                cause = "the subscription was ended, or the last topic that it named"
                effects.append(self._ended(place, Refusal(RefusalCode.UNKNOWN_NAME, cause, "subscribe anew")))
            else:
                self._look_up(one)
        for topic_id in [one for one, places in self._of_topic.items() if not places]:
            del self._of_topic[topic_id]
        return effects

    def serve(self) -> list[Effect]:
        """Give what there is, some pieces at a time; `is_due` tells whether there is more."""
        effects: list[Effect] = []
        for place in list(self._due)[:PIECES_PER_TURN]:
            del self._due[place]
            effects += self._give(self._consumers[place])
        return effects + self._record() if self._moved or self._unsaid else effects

    @property
    def is_due(self) -> bool:
        """True: there is more to be done at once."""
        return bool(self._due)

    def _has_room(self, one: Consumer) -> bool:
        return one.credit.left > 0 and one.given_count < UNACKNOWLEDGED_MAX and not one.is_reading

    def _give(self, one: Consumer) -> list[Effect]:
        if not self._has_room(one):
            return []
        room = min(one.credit.left, PIECE_BYTES)
        gone = self.tables.topics.gone
        for topic_id in gone.keys() & one.wanted.keys() if gone else ():
            if gone[topic_id] > one.wanted[topic_id]:
                one.skip(topic_id, gone[topic_id])
        if one.scanned < self.tail.begin.sequence:
            stored = self.stored_counts
            if any(stored.get(topic_id, 0) > number for topic_id, number in one.wanted.items()):
                one.is_reading = True
                return [ReadStored(one.place, dict(one.wanted), one.scanned, self.tail.begin.sequence, room)]
            one.scanned = self.tail.begin.sequence
        for block in self.tail.behind(one.scanned):
            topics = block.firsts.keys() & one.wanted.keys()
            if any(block.lasts[topic_id] > one.wanted[topic_id] for topic_id in topics):
                found = self._piece_of(block, one, topics, room)
                if found:
                    self._due[one.place] = None
                    return found
            one.scanned = block.last.sequence
        self._settle(one)
        return []

    def _piece_of(self, block: MessageBlock, one: Consumer, topics: set[int], room: int) -> list[Effect]:
        """Messages of a block for a consumer, as far as there is room; nothing: it has all of it."""
        follows = all(block.firsts[each] == one.wanted[each] + 1 for each in topics)
        is_plain = not any(self.tables.topics.is_keyed(each) for each in topics)
        is_whole = follows and is_plain and len(topics) == len(block.firsts)
        if is_whole and not (one.done or one.given_before or one.lost) and block.messages.size_bytes <= room:
            one.scanned = block.last.sequence
            return [self._said(one, block.messages, block.lasts, self._part_of(block))]
        messages = block.messages
        chosen = np.flatnonzero(self._chosen_of(one, messages))
        return [self._piece(one, messages.take(chosen), room)] if len(chosen) else []

    def _chosen_of(self, one: Consumer, messages: MessageColumns) -> NDArray[np.bool_]:
        """Which of these messages a consumer is to get."""
        chosen = one.chosen_of(messages)
        for topic_id in np.unique(messages.topic_id).tolist():
            if self.tables.topics.is_keyed(topic_id):
                is_last = np.isin(messages.number, self.tables.keys.numbers(topic_id))
                chosen &= (messages.topic_id != topic_id) | is_last
        return chosen

    def _piece(self, one: Consumer, messages: MessageColumns, room: int) -> Say:
        messages = messages.up_to(room)
        lasts = lasts_of(messages.topic_id, messages.number)
        self._see_lost(one, messages, lasts)
        return self._said(one, messages, lasts, self._encoded(messages, lasts, one))

    def _see_lost(self, one: Consumer, messages: MessageColumns, lasts: Mapping[int, int]) -> None:
        """Count messages before these that it should be given, and that are nowhere."""
        topics, counts = np.unique(messages.topic_id, return_counts=True)
        for topic_id, count in zip(topics.tolist(), counts.tolist(), strict=True):
            last = lasts[topic_id]
            cursor = self.tables.cursors.of(one.subscription_id, topic_id)
            if cursor is None or last - one.wanted[topic_id] == count or self.tables.topics.is_keyed(topic_id):
                continue
            there = joined([*cursor.done, *numbers_of([messages], topic_id)])
            missing = count_of(without([(max(cursor.low, one.wanted[topic_id]) + 1, last)], there))
            if missing:
                one.lost[topic_id] = one.lost.get(topic_id, 0) + missing

    def _said(self, one: Consumer, messages: MessageColumns, lasts: dict[int, int], part: bytes) -> Say:
        data = FeedData(
            epoch=messages.last.epoch,
            first=messages.first,
            last=messages.last,
            previous=one.previous,
            channel=one.place.channel,
        )
        one.gave(messages, lasts)
        one.credit.sent(messages.last, len(part))
        for topic_id, number in lasts.items():
            key = one.subscription_id, topic_id
            self._given[key] = max(number, self._given.get(key, 0))
        self._settle(one)
        return Say(one.place, data, (part,))

    def _part_of(self, block: MessageBlock) -> bytes:
        if self._shared[0] is not block:
            self._shared = (block, self._encoded(block.messages, block.lasts, None))
        return self._shared[1]

    def _encoded(self, messages: MessageColumns, lasts: Mapping[int, int], one: Consumer | None) -> bytes:
        flags = np.zeros(len(messages), np.uint8) if one is None else one.flags_of(messages)
        names = {each: "" if (topic := self.tables.topics.find(each)) is None else topic.name for each in lasts}
        return encode_served(messages, flags, names, one.take_lost(messages) if one is not None and one.lost else None)

    def stored(
        self, place: ConsumerPlace, messages: MessageColumns | None, scanned_to: int, *, is_lacking: bool = False
    ) -> list[Effect]:
        """Files were read for a consumer.

        Args:
            messages: what it wants and they have, within the bytes that were said; None: nothing.
            scanned_to: sequence up to which nothing else in them is wanted.
            is_lacking: what is wanted next is in no file for now.
        """
        one = self._consumers.get(place)
        if one is None:
            return []
        if is_lacking:
            self._lacking.add(place)
            return []
        one.is_reading = False
        self._due[place] = None
        chosen = self._chosen_of(one, messages) if messages is not None and one.wanted else np.zeros(0, np.bool_)
        if messages is None or not chosen.any():
            one.scanned = max(one.scanned, scanned_to)
            return []
        found = messages if chosen.all() else messages.take(np.flatnonzero(chosen))
        said = self._piece(one, found, PIECE_BYTES)
        is_all = one.previous == found.last
        one.scanned = max(one.scanned, scanned_to if is_all else one.previous.sequence)
        return [said]

    def files_changed(self, stored_counts: dict[int, int]) -> None:
        """There are other files: what was lacking may be there."""
        self.stored_counts = stored_counts
        for place in self._lacking & self._consumers.keys():
            self._consumers[place].is_reading = False
            self._due[place] = None
        self._lacking.clear()

    def failed(self, place: ConsumerPlace, cause: str) -> list[Effect]:
        """Files could not be read for a consumer."""
        if place not in self._consumers:
            return []
        return [self._ended(place, Refusal(RefusalCode.DISK_FAILED, cause, "look at the log of the actor `topics`"))]

    # Cursors.

    def _record(self) -> list[Effect]:
        """Have the cursors that moved recorded, unless some are under way."""
        if self._under_way or not self.is_leading:
            return []
        moves = [CursorMoved(one, topic_id, number) for (one, topic_id), number in self._moved.items()]
        unsaid, self._unsaid = self._unsaid, {}
        self._moved.clear()
        if not moves:  # They had acknowledged it on another link already.
            return self._told(unsaid)
        effects: list[Effect] = []
        for at in range(0, len(moves), MOVES_MAX):
            self._batch += 1
            effects.append(RecordMoves(self._batch, tuple(moves[at : at + MOVES_MAX])))
            self._under_way[self._batch] = {}
        self._under_way[self._batch] = unsaid
        return effects

    def recorded(self, batch: int) -> list[Effect]:
        """Batches of cursors up to this one are committed."""
        effects: list[Effect] = []
        for number in [one for one in self._under_way if one <= batch]:
            effects += self._told(self._under_way.pop(number))
        return effects

    def _told(self, done: Mapping[ConsumerPlace, Position]) -> list[Effect]:
        return [
            Say(place, FeedDone(durable=durable, channel=place.channel))
            for place, durable in done.items()
            if place in self._consumers
        ]

    # Time.

    def alive(self, now: Instant) -> list[Effect]:
        """Life signs that are due."""
        return [
            self._alive(one)
            for place in self._beat.due(now, self._consumers)
            if (one := self._consumers.get(place)) is not None
        ]

    def _alive(self, one: Consumer) -> Say:
        end = self.tail.end
        if one.place not in self._due and self._has_room(one):
            one.scanned = max(one.scanned, end.sequence)  # Nothing that came since is for it.
        alive = FeedAlive(
            epoch=end.epoch,
            is_acting=True,
            committed=end,
            end=end,
            sent=one.previous,
            scanned=one.scanned,
            channel=one.place.channel,
        )
        return Say(one.place, alive)

    def deadline(self) -> Instant | None:
        return self._beat.at if self._consumers else None
