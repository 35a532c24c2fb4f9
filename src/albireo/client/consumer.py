"""PairConsumer: a program without a loop that reads every committed record of a pair, once and in order.

    with PairConsumer("archive", members_of(node), keys, after=position) as consumer:
        for one in consumer.take(1.0): ...

Both members serve the same records under the same positions, so the consumer follows either, and goes on with the other
one where it stopped. Nothing happens between two calls.

The machine: machine/feed/roaming.py. Decision: ADR-0115.
"""

from collections.abc import Sequence

import msgspec

from albireo.client.members import OnLines
from albireo.codec.frame import Frame, frames
from albireo.codec.message import FeedAlive, FeedAnswer, FeedData, FeedState
from albireo.machine.feed.follower import CutBack, Deliver, Digested, FollowerConfig, MadeDurable, TakeSnapshot
from albireo.machine.feed.roaming import Fed, Roaming
from albireo.machine.producer.seeking import LineDown, LineUp
from albireo.machine.producer.sending import SayTo
from albireo.model.instant import SECOND, Instant, TimePassed
from albireo.model.position import BEGINNING, Position
from albireo.runtime.actor.clock import boot_ns
from albireo.runtime.link.keys import Keys
from albireo.runtime.link.lines import LineNews, LineTo


class Delivered(msgspec.Struct, frozen=True, eq=False):
    """Committed frames, in log order, behind everything delivered before."""

    position: Position
    """Position of the last record."""
    frames: Sequence[Frame]


class Rewound(msgspec.Struct, frozen=True):
    """Records delivered behind `position` are to be forgotten."""

    position: Position
    verdict: str
    """`snapshot`: the wanted records are pruned, and the next delivery begins behind `position`. `fork`: the log goes
    another way behind `position`, after a forced promotion or because a disk forgot; that way is delivered next."""


class PairConsumer(OnLines):
    """Follows the committed records of the pair on either member."""

    def __init__(
        self,
        name: str,
        members: Sequence[LineTo],
        keys: Keys | None,
        after: Position = BEGINNING,
        streams: Sequence[int] = (),
        log_id: bytes = b"",
    ) -> None:
        """
        Args:
            name: name of the follower; a second follower of the same name takes its place.
            after: position of the last record that is known already; it means the same on both members.
            streams: streams to follow; empty: all.
        """
        super().__init__(members, keys)
        self._machine = Roaming(FollowerConfig(name=name, streams=tuple(streams)), after, log_id)
        self._taken: list[Delivered | Rewound] = []

    @property
    def position(self) -> Position:
        """Position of the last record delivered."""
        return self._machine.position

    @property
    def member(self) -> int | None:
        """Index of the member that is followed now; None: neither."""
        return self._machine.member

    def take(self, timeout_s: float) -> list[Delivered | Rewound]:
        """Deliveries since the last call, at once if there are any; empty after `timeout_s`."""
        until = Instant(boot_ns() + int(timeout_s * SECOND))
        while True:
            for news in self._news(self._machine.deadline(), until):
                self._heard(news)
            now = boot_ns()
            self._perform(self._machine.step(TimePassed(), now), ())
            if self._taken or now >= until:
                taken, self._taken = self._taken, []
                return taken

    def _heard(self, news: LineNews) -> None:
        if news.is_up is not None:
            self._perform(self._machine.step((LineUp if news.is_up else LineDown)(news.line), boot_ns()), ())
        elif isinstance(news.message, FeedAnswer | FeedData | FeedState | FeedAlive):
            size_bytes = sum(len(part) for part in news.raw)
            self._perform(self._machine.step(Fed(news.line, news.message, size_bytes), boot_ns()), news.raw)

    def _perform(self, effects: Sequence[object], raw: Sequence[bytes | memoryview]) -> None:
        for effect in effects:
            match effect:
                case SayTo(member, message):
                    self._lines.send(member, message)
                case Deliver(FeedData() as data):
                    self._delivered(data, raw)
                case TakeSnapshot(position):
                    self._taken.append(Rewound(position, "snapshot"))
                case CutBack(position, verdict):
                    self._taken.append(Rewound(position, verdict))
                case _:
                    pass

    def _delivered(self, data: FeedData, raw: Sequence[bytes | memoryview]) -> None:
        decoded = [Frame(*one) for part in raw for one in frames(part)]
        self._taken.append(Delivered(data.last, decoded))
        now = boot_ns()
        # Frames count as digested when they are handed out: the program keeps them in its own memory.
        self._perform(self._machine.step(MadeDurable(data.last), now), ())
        self._perform(self._machine.step(Digested(data.last), now), ())
