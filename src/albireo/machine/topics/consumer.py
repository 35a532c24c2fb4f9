"""Consumer: what the actor `topics` knows about one reader of a subscription on one link."""

from collections import deque

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.codec.message import FeedHello
from albireo.codec.served import MessageColumns, Numbers
from albireo.machine.feed.credit import Credit
from albireo.model.position import BEGINNING
from albireo.model.topic import Ranges


class ConsumerPlace(msgspec.Struct, frozen=True):
    """Place of a consumer."""

    link: str
    """Name of the link on which it speaks."""
    sender: bytes
    channel: int


class GivenMessages(msgspec.Struct, frozen=True, eq=False):
    """Messages that were given and are not acknowledged, without their bodies."""

    topic_id: Numbers
    number: Numbers
    sequence: Numbers
    lasts: dict[int, int]
    """Number of the last one of each topic."""


def lasts_of(topic_id: Numbers, number: Numbers) -> dict[int, int]:
    """Number of the last message of each topic; of none there are none."""
    if len(topic_id) and (topic_id == topic_id[0]).all():
        return {int(topic_id[0]): int(number[-1])}
    topics, places = np.unique(topic_id[::-1], return_index=True)
    return dict(zip(topics.tolist(), number[::-1][places].tolist(), strict=True))


class Consumer:
    """The reader."""

    def __init__(self, place: ConsumerPlace, hello: FeedHello) -> None:
        self.place = place
        self.subscription_id = hello.subscription_id
        self.program, self.line = hello.program, hello.line
        self.credit = Credit(hello.credit_bytes)
        self.known_to = hello.position
        """Last message that it has, as it says."""
        self.previous = hello.position
        """Position of the last message that was sent, or of its hello."""
        self.sent = 0
        """Sequence of the last message that was sent."""
        self.scanned = 0
        """Every message up to this record was sent, or is none of this subscription."""
        self.wanted: dict[int, int] = {}
        """Number up to which it was given each of its topics, or has them done."""
        self.done: dict[int, Ranges] = {}
        """Numbers above that are done already."""
        self.given_before: dict[int, int] = {}
        """Number up to which somebody may have been given a topic before."""
        self.lost: dict[int, int] = {}
        """Messages that are gone without having been given, by topic, until it is told."""
        self.given: deque[GivenMessages] = deque()
        self.given_count = 0
        """Messages that are given and not acknowledged."""
        self.acknowledged = self.recorded = BEGINNING
        """Last message that it has acknowledged, and last one of which it is told that this is on record."""
        self.is_reading = False
        """True: files are being read for it."""

    def has_left(self, hello: FeedHello) -> bool:
        """True: a hello comes late, of a line that the program of this consumer has left."""
        return 0 < hello.program == self.program and hello.line < self.line

    def chosen_of(self, messages: MessageColumns) -> NDArray[np.bool_]:
        """Which of these messages it is to get."""
        ids = np.array(sorted(self.wanted), np.uint64)
        lows = np.array([self.wanted[one] for one in ids.tolist()], np.uint64)
        places = np.minimum(np.searchsorted(ids, messages.topic_id), len(ids) - 1)
        chosen: NDArray[np.bool_] = (ids[places] == messages.topic_id) & (messages.number > lows[places])
        for topic_id, ranges in self.done.items():
            for first, last in ranges:
                chosen &= (messages.topic_id != topic_id) | (messages.number < first) | (messages.number > last)
        return chosen

    def skip(self, topic_id: int, gone: int) -> None:
        """Messages up to this number are gone."""
        low = self.wanted[topic_id]
        done = sum(max(0, min(last, gone) - max(first, low + 1) + 1) for first, last in self.done.get(topic_id, ()))
        self.lost[topic_id] = self.lost.get(topic_id, 0) + gone - low - done
        self.wanted[topic_id] = gone

    def take_lost(self, messages: MessageColumns) -> dict[int, int]:
        """Numbers of gone messages that are to be told with these, by index of the first message of each topic."""
        topics, firsts = np.unique(messages.topic_id, return_index=True)
        places = dict(zip(topics.tolist(), firsts.tolist(), strict=True))
        return {places[one]: self.lost.pop(one) for one in self.lost.keys() & places.keys()}

    def flags_of(self, messages: MessageColumns) -> NDArray[np.uint8]:
        """REDELIVERED at each message that somebody may have been given before."""
        flags = np.zeros(len(messages), np.uint8)
        for topic_id, number in self.given_before.items():
            flags |= ((messages.topic_id == topic_id) & (messages.number <= number)).astype(np.uint8)
        return flags

    def gave(self, messages: MessageColumns, lasts: dict[int, int]) -> None:
        """Take note of messages that are on their way."""
        self.wanted.update(lasts)
        self.previous, self.sent = messages.last, messages.last.sequence
        self.given.append(GivenMessages(messages.topic_id, messages.number, messages.sequence, lasts))
        self.given_count += len(messages)

    def takes(self) -> dict[int, int]:
        """Forget what is given and acknowledged; number up to which each of these topics is done."""
        moved: dict[int, int] = {}
        end = self.acknowledged.sequence
        while self.given and self.given[0].sequence[0] <= end:
            one = self.given.popleft()
            if one.sequence[-1] > end:
                count = int(np.searchsorted(one.sequence, end, "right"))
                moved.update(lasts_of(one.topic_id[:count], one.number[:count]))
                rest = one.topic_id[count:], one.number[count:], one.sequence[count:]
                self.given.appendleft(GivenMessages(*rest, one.lasts))
                self.given_count -= count
                break
            moved.update(one.lasts)
            self.given_count -= len(one.number)
        return moved
