"""Viewing: the live state of a node from the member that acts.

A member that stands by has the same state, but for samples that are not replicated; so a view stays with the member
that acts, and begins anew with a whole snapshot when another one does.

    seeking --Chose(m)--> following(m) --another acts, the line is down--> seeking

Spec: docs/node-protocol.md, Feeds, mode `state`; ADR-0156.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from albireo.codec import samples
from albireo.codec.errors import DecodeError
from albireo.codec.message import FeedState, RoleAsked, RoleTold
from albireo.machine.feed.follower import (
    CutBack,
    Deliver,
    Digested,
    Follower,
    FollowerConfig,
    FollowPhase,
    LinkDown,
    LinkUp,
    Noted,
    Received,
    TakeSnapshot,
    TellLeader,
)
from albireo.machine.feed.follower import Effect as FollowerEffect
from albireo.machine.feed.roaming import Fed
from albireo.machine.fold import declared
from albireo.machine.producer.seeking import AskRole, Chose, LineDown, LineUp, RoleHeard, SeekConfig, Seeker
from albireo.machine.producer.seeking import Effect as SeekerEffect
from albireo.machine.producer.sending import Heard, SayTo
from albireo.machine.table.told import TableChanges
from albireo.model.instant import Instant, TimePassed
from albireo.model.position import Position
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType

WINDOW_BYTES: Final = 64 << 10
"""Bytes on the way at first: a link of 20 kB/s brings a quarter of it within a second."""

Event = LineUp | LineDown | Heard | Fed | Digested | TimePassed
Effects = list[SayTo | Deliver | CutBack | TakeSnapshot | Noted]


class Viewing:
    """The machine."""

    def __init__(self, name: str, seek: SeekConfig, now: Instant, node: str = "") -> None:
        """
        Args:
            name: name of the follower.
            node: node below whose state is viewed; empty: that of the node that is followed.
        """
        self._name = name
        self._seeker = Seeker(seek, now)
        self._follower = Follower(FollowerConfig(name=name, mode="state", of=node, window_bytes=WINDOW_BYTES))

    @property
    def member(self) -> int | None:
        """Member whose state is seen; None: nobody is known to act."""
        return self._seeker.chosen

    @property
    def position(self) -> Position:
        return self._follower.position

    @property
    def is_following(self) -> bool:
        """A member that acts has said that it feeds this follower, and has not been silent since."""
        return self._seeker.chosen is not None and self._follower.phase is FollowPhase.FOLLOWING

    def deadline(self) -> Instant | None:
        """When `TimePassed` is due."""
        due = [one for one in (self._follower.deadline(), self._seeker.deadline()) if one is not None]
        return min(due) if due else None

    def step(self, event: Event, now: Instant) -> Effects:
        match event:
            case Heard(member, RoleTold() as role):
                return self._sought(self._seeker.step(RoleHeard(member, role), now), now)
            case Heard():
                return []
            case Fed(member, message, size_bytes):
                is_own = member == self._seeker.chosen
                return self._followed(self._follower.step(Received(message, size_bytes), now)) if is_own else []
            case Digested():
                return self._followed(self._follower.step(event, now))
            case TimePassed():
                sought = self._sought(self._seeker.step(event, now), now)
                return [*sought, *self._followed(self._follower.step(event, now))]
            case LineUp() | LineDown():
                return self._sought(self._seeker.step(event, now), now)

    def restart(self, now: Instant) -> Effects:
        """Begin anew with a snapshot, because what was delivered last was not kept."""
        self._follower = Follower(self._follower.config)
        return [] if self._seeker.chosen is None else self._followed(self._follower.step(LinkUp(), now))

    def _sought(self, effects: Sequence[SeekerEffect], now: Instant) -> Effects:
        done: Effects = []
        for effect in effects:
            match effect:
                case AskRole(member):
                    done.append(SayTo(member, RoleAsked(adapter=self._name)))
                case Chose(None):
                    self._follower.step(LinkDown(), now)
                case Chose():
                    # The members may be of different epochs: what is seen next is the state of this one, whole.
                    self._follower = Follower(self._follower.config)
                    done += self._followed(self._follower.step(LinkUp(), now))
        return done

    def _followed(self, effects: Sequence[FollowerEffect]) -> Effects:
        done: Effects = []
        for effect in effects:
            if not isinstance(effect, TellLeader):
                done.append(effect)
            elif self._seeker.chosen is not None:
                done.append(SayTo(self._seeker.chosen, effect.message))
        return done


LISTS: Final = ("items", "value_parts", "without_value")
"""Fields of a state of which each piece has a part, beside its tables."""


class StateChange(msgspec.Struct, frozen=True, eq=False):
    """One delta of the live state, decoded."""

    state: FeedState
    batches: Sequence[SampleBatch]
    tables: TableChanges


class StatePieces:
    """Pieces of a state that goes on, until it is there as one."""

    def __init__(self) -> None:
        self._pieces: list[StateChange] = []

    def add(self, piece: StateChange) -> StateChange | None:
        """Take a piece; None: more are to come."""
        if piece.state.piece == 0:
            self._pieces = []
        self._pieces.append(piece)
        if piece.state.goes_on:
            return None
        (first, *others), self._pieces = self._pieces, []
        if not others:
            return first
        states, tables = [first.state, *(one.state for one in others)], first.tables
        lists = {name: tuple(entry for one in states for entry in getattr(one, name)) for name in LISTS}
        tables.add([one.tables for one in others])
        batches = [batch for one in (first, *others) for batch in one.batches]
        return StateChange(msgspec.structs.replace(piece.state, piece=0, tables={}, **lists), batches, tables)


def decode_state(state: FeedState, raw: Sequence[bytes | memoryview]) -> StateChange:
    """Decode a `FeedState`, its tables, and the sample columns beside it.

    Raises:
        DecodeError: the parts do not fit their description.
    """
    if len(raw) != len(state.value_parts):
        raise DecodeError(0, f"{len(raw)} parts, {len(state.value_parts)} described")
    try:
        batches = [
            samples.decode(part, ValueType(value_type), count)
            for part, (value_type, count) in zip(raw, state.value_parts, strict=True)
        ]
    except ValueError as error:
        raise DecodeError(0, str(error)) from error
    return StateChange(state, batches, TableChanges(state, declared.shapes() if state.tables else {}))
