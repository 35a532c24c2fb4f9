"""Roaming: follow one log wherever it is served.

Both members of a pair serve the same committed records, and a feed position (epoch, sequence) means the same on both.
So a follower needs no particular member: it stays with one member as long as that one serves, and goes on with the
other where it stopped. Delivered records stay true; a member that is late is waited for or left, never believed over
records that are known already.

    a line is up --> following(m) --m is down, silent, refuses, knows less, or is of an older epoch--> following(other)

Spec: design/log-and-feed.md, Feed; ADR-0115.
"""

from collections.abc import Sequence
from typing import Final, assert_never

import msgspec

from albireo.codec.message import FeedAlive, FeedAnswer, FeedData, FeedHello, FeedState
from albireo.machine.feed.follower import (
    ASK_AGAIN_NS,
    CutBack,
    Deliver,
    Digested,
    Effect,
    Follower,
    FollowerConfig,
    LinkDown,
    LinkUp,
    MadeDurable,
    Noted,
    Received,
    TakeSnapshot,
    TellLeader,
)
from albireo.machine.producer.seeking import LineDown, LineUp
from albireo.machine.producer.sending import SayTo
from albireo.model.instant import Instant, TimePassed
from albireo.model.position import BEGINNING, Position

LEAVING: Final = frozenset({"leader_silent", "stale_epoch", "refused", "behind"})
"""Notes of the follower about a leader that is of no use to it now."""
HELLOS_MAX: Final = 2
"""Unanswered hellos to one member; after more the follower moves to the other member."""


class Fed(msgspec.Struct, frozen=True, eq=False):
    """A message of a member, with the size of its raw parts."""

    member: int
    message: FeedAnswer | FeedData | FeedState | FeedAlive
    size_bytes: int = 0


Event = LineUp | LineDown | Fed | Digested | MadeDurable | TimePassed
Effects = list[SayTo | Deliver | CutBack | TakeSnapshot | Noted]


class Roaming:
    """A follower and the member it follows."""

    def __init__(self, config: FollowerConfig, durable: Position = BEGINNING, log_id: bytes = b"") -> None:
        self._follower = Follower(config, durable, log_id)
        self._up: list[int] = []
        self._hellos = 0
        self._moved_at: Instant | None = None
        self.member: int | None = None
        """Member that is followed; None: no member is in reach."""

    @property
    def position(self) -> Position:
        """Last record delivered."""
        return self._follower.position

    @property
    def committed(self) -> Position:
        """Last record that the member followed has committed, as last heard."""
        return self._follower.committed

    def deadline(self) -> Instant | None:
        return self._follower.deadline()

    def step(self, event: Event, now: Instant) -> Effects:
        match event:
            case LineUp(member):
                if member not in self._up:
                    self._up.append(member)
                return self._move(now) if self.member in (None, member) else []
            case LineDown(member):
                self._up = [one for one in self._up if one != member]
                return self._move(now) if self.member == member else []
            case Fed(member, message, size_bytes):
                return self._taken(Received(message, size_bytes), now) if member == self.member else []
            case Digested() | MadeDurable() | TimePassed():
                return self._taken(event, now)
            case _:
                assert_never(event)

    def _taken(self, event: Received | Digested | MadeDurable | TimePassed, now: Instant) -> Effects:
        effects = self._follower.step(event, now)
        if isinstance(event, Received):
            self._hellos = 0
        self._hellos += sum(isinstance(one, TellLeader) and isinstance(one.message, FeedHello) for one in effects)
        leaves = any(isinstance(one, Noted) and one.event in LEAVING for one in effects)
        if (leaves or self._hellos > HELLOS_MAX) and self._may_move(now):
            kept: Effects = [one for one in effects if not isinstance(one, TellLeader)]
            return [*kept, *self._move(now)]
        return self._said(effects)

    def _may_move(self, now: Instant) -> bool:
        """Another member is in reach, and this one has had its time: two that refuse are not asked in a circle."""
        is_new = self._moved_at is not None and now - self._moved_at < ASK_AGAIN_NS
        return self._up != [self.member] and not is_new

    def _move(self, now: Instant) -> Effects:
        """Follow the next member in reach; the same member anew if there is no other."""
        self._follower.step(LinkDown(), now)
        self._moved_at = now
        others = [one for one in self._up if one != self.member]
        self.member = others[0] if others else self._up[0] if self._up else None
        if self.member is None:
            return []
        self._hellos = 1
        return self._said(self._follower.step(LinkUp(), now))

    def _said(self, effects: Sequence[Effect]) -> Effects:
        said: Effects = []
        for one in effects:
            if not isinstance(one, TellLeader):
                said.append(one)
            elif self.member is not None:
                said.append(SayTo(self.member, one.message))
        return said
